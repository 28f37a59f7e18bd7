"""Runs epochs. The only place that builds DataFrames and starts Spark jobs."""
