"""viewkeeper keeps materialized views true while the tables under them change.

The database's modules, and Arrow with them, are imported when one of their names is first asked for: whoever imports this
package for its errors, or for `viewkeeper --help`, does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewkeeper.errors import (
    Busy,
    Conflict,
    Corrupt,
    DiskFull,
    Fenced,
    InputError,
    InvalidName,
    NameTaken,
    NewerFormat,
    NotADatabase,
    NotFound,
    NotMaintainable,
    QueryFailed,
    ReadOnly,
    RetryError,
    RowError,
    SchemaError,
    SnapshotTooOld,
    StatementError,
    StorageError,
    ViewkeeperError,
)

if TYPE_CHECKING:
    from viewkeeper.database import (
        Database,
        RunReport,
        Snapshot,
        Table,
        TableAt,
        Transaction,
        TransactionTable,
        View,
        ViewAt,
        ViewStatus,
        open,
    )

__all__ = [
    "Busy",
    "Conflict",
    "Corrupt",
    "Database",
    "DiskFull",
    "Fenced",
    "InputError",
    "InvalidName",
    "NameTaken",
    "NewerFormat",
    "NotADatabase",
    "NotFound",
    "NotMaintainable",
    "QueryFailed",
    "ReadOnly",
    "RetryError",
    "RowError",
    "RunReport",
    "SchemaError",
    "Snapshot",
    "SnapshotTooOld",
    "StatementError",
    "StorageError",
    "Table",
    "TableAt",
    "Transaction",
    "TransactionTable",
    "View",
    "ViewAt",
    "ViewStatus",
    "ViewkeeperError",
    "open",
]


def __getattr__(name: str) -> Any:
    """A public name that is not here yet is one of the database's."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from viewkeeper import database

    value = globals()[name] = getattr(database, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
