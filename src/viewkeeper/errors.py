"""Every error that a user can cause, in one tree, drawn by who must act.

```
ViewkeeperError
├── InputError                 change the call or the data
│   ├── InvalidName            a name that no table or view can have
│   ├── NameTaken              a table or view of that name exists
│   ├── NotFound               no such table, view, column or row
│   ├── SchemaError            a schema that no table can have
│   ├── RowError               a row that does not fit its table
│   ├── StatementError         SQL text that cannot be executed
│   └── NotMaintainable        a view that cannot follow as it was asked to
├── QueryFailed                a view's query fails on some row: mend the row or the query
├── RetryError                 nothing was written: call again
│   ├── Conflict               another writer changed what the transaction had read
│   ├── Busy                   a lock was not free in time
│   └── SparkFailed            Spark lost a process or a connection, or one failed inside: that says nothing about the rows
├── StorageError               mend the folder or the machine
│   ├── NotADatabase           the folder holds something else
│   ├── NewerFormat            written by a newer viewkeeper
│   ├── ReadOnly               the folder cannot be written
│   ├── DiskFull               no room left
│   └── Corrupt                the files contradict themselves
├── SnapshotTooOld             take a new snapshot: the log does not reach back to that point, or the table was made again
└── Fenced                     stop: another maintainer leads now
```

The text of an error names the kind of object, its quoted name, the fact, and the way out (the hint). Its `code` and
`fields` are for programs.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ViewkeeperError(Exception):
    """The root: `str(error)` is one sentence, then the way out on a line of its own."""

    code: ClassVar[str] = "viewkeeper"

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.fields)


def _rebuild(kind: type[ViewkeeperError], message: str, hint: str | None, fields: dict[str, Any]) -> ViewkeeperError:
    """Errors cross process borders (Spark's workers, pools), where pickle would call `__init__` without its keywords."""
    return kind(message, hint=hint, **fields)


class InputError(ViewkeeperError):
    code = "input"


class InvalidName(InputError):
    code = "invalid-name"


class NameTaken(InputError):
    code = "name-taken"


class NotFound(InputError):
    code = "not-found"


class SchemaError(InputError):
    code = "schema"


class RowError(InputError):
    """A value that does not fit: `fields` has `table`, and `column`, `row` (counted from 0) and `value` where they apply."""

    code = "row"


class StatementError(InputError):
    code = "statement"


class NotMaintainable(InputError):
    code = "not-maintainable"


class QueryFailed(ViewkeeperError):
    code = "query-failed"


class RetryError(ViewkeeperError):
    code = "retry"


class Conflict(RetryError):
    code = "conflict"


class Busy(RetryError):
    code = "busy"


class SparkFailed(RetryError):
    code = "spark-failed"


class StorageError(ViewkeeperError):
    code = "storage"


class NotADatabase(StorageError):
    code = "not-a-database"


class NewerFormat(StorageError):
    code = "newer-format"


class ReadOnly(StorageError):
    code = "read-only"


class DiskFull(StorageError):
    code = "disk-full"


class Corrupt(StorageError):
    code = "corrupt"


class SnapshotTooOld(ViewkeeperError):
    code = "snapshot-too-old"


class Fenced(ViewkeeperError):
    code = "fenced"
