"""From a view's blocks to a maintenance plan, and the delta rules that carry it out. Nothing here imports Spark."""
