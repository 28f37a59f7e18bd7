"""What users give (dicts, Arrow, pandas; keys in any form) -> Arrow tables of exactly the table's types, or `RowError`.

The law: what comes out equals what came in, value by value. A value that the column cannot hold exactly is an error
that names the table, the row, the column and the value, and nothing of the batch is returned. The one exception is
FLOAT, which rounds to single precision, as its name says. Nothing is guessed: a float is not a DECIMAL, a naive time is
not a TIMESTAMP, a string is not a number.

`python_values` has the rules for one Python value, `arrow_values` the same rules for a whole Arrow column. Nothing here
reads or writes a store.
"""

from viewkeeper.rows.keys import key_values, keys_table, prefix_values
from viewkeeper.rows.tables import partial_row_table, rows_table, update_tables

__all__ = ["key_values", "keys_table", "partial_row_table", "prefix_values", "rows_table", "update_tables"]
