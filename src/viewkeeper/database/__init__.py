"""The public face: databases, tables, transactions, snapshots."""

from viewkeeper.database.database import Database, open
from viewkeeper.database.snapshot import Snapshot
from viewkeeper.database.table import Table, TableAt
from viewkeeper.database.transaction import Transaction, TransactionTable

__all__ = ["Database", "Snapshot", "Table", "TableAt", "Transaction", "TransactionTable", "open"]
