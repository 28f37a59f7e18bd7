"""Other systems that keep the same four views, each a program of its own: `python run_NAME.py FOLDER VIEW`.

A program needs nothing of this package, only its own system and pyarrow, so it runs in whatever interpreter has them. In the
folder it finds `r.parquet` and `s.parquet`, the tables at first, and `batch-0.parquet` and so on: the rows that left (w = -1)
and came (w = 1). It loads the tables, follows the batches in order, leaves the view's rows in `NAME-VIEW.parquet`, and prints
one JSON object: the seconds of each batch, or null where it cannot tell.
"""
