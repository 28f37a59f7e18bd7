"""Tables, regions, logs and epochs: Arrow in, Arrow out. Nothing here imports Spark."""
