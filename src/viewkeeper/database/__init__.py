"""The public face: databases, tables, transactions, snapshots."""

from viewkeeper.database.database import Database, open
from viewkeeper.database.snapshot import Snapshot
from viewkeeper.database.table import Table, TableAt
from viewkeeper.database.transaction import Transaction, TransactionTable
from viewkeeper.database.view import View, ViewAt, ViewStatus
from viewkeeper.service.reports import RunReport

__all__ = [
    "Database",
    "RunReport",
    "Snapshot",
    "Table",
    "TableAt",
    "Transaction",
    "TransactionTable",
    "View",
    "ViewAt",
    "ViewStatus",
    "open",
]
