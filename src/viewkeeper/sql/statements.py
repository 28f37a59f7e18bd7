"""The statements that `execute` knows: text -> one of a few frozen values that say what to do.

Nothing is dropped in silence: a clause that a statement here does not have is an error that names it.

To add a statement: its dataclass, its place in `Statement` and `EXISTING`, its case in `parse_statement`, its function.
Those about views are in `view_statements`: sqlglot's parser does not know their clauses.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from viewkeeper.errors import SchemaError, StatementError
from viewkeeper.names import check_name
from viewkeeper.sql.schemas import checked_schema, declared_columns, not_supported, refuse_others, resolved_columns
from viewkeeper.sql.syntax import DIALECT, parse_one
from viewkeeper.sql.view_statements import CREATE_VIEW, DROP_VIEW, CreateView, DropView, parse_view_statement

__all__ = ["EXISTING", "CreateTable", "CreateView", "DropTable", "DropView", "Statement", "parse_statement"]

MOST_REGIONS = 65_536


@dataclass(frozen=True)
class CreateTable:
    """`regions` and `distribution` are None where the statement leaves them to the database."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    regions: int | None = None
    distribution: tuple[str, ...] | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable:
    name: str
    if_exists: bool = False


Statement = CreateTable | DropTable | CreateView | DropView

EXISTING = (
    "CREATE TABLE [IF NOT EXISTS] name (column TYPE [NOT NULL] [PRIMARY KEY], ..., [PRIMARY KEY (column, ...)]) "
    "[TBLPROPERTIES ('regions' = '4', 'distribution' = 'column, ...')]",
    "DROP TABLE [IF EXISTS] name",
    CREATE_VIEW,
    DROP_VIEW,
)


def parse_statement(text: str) -> Statement:
    """What one SQL statement asks for, or a `StatementError` that says why not.

    >>> parse_statement("DROP TABLE IF EXISTS events")
    DropTable(name='events', if_exists=True)
    >>> parse_statement("CREATE TABLE events (id BIGINT PRIMARY KEY) TBLPROPERTIES ('regions' = '4')").regions
    4
    """
    about_view = parse_view_statement(text)
    if about_view is not None:
        return about_view
    tree = parse_one(text)
    match tree:
        case exp.Create() if tree.kind == "TABLE":
            return _create_table(tree)
        case exp.Drop() if tree.kind == "TABLE":
            return _drop_table(tree)
        case _:
            raise _unknown_statement(tree)


def _unknown_statement(tree: exp.Expression) -> StatementError:
    return StatementError(
        f"{_opening(tree)} cannot be executed", hint="\n        ".join(("what can:", *EXISTING)), text=_opening(tree)
    )


def _opening(tree: exp.Expression) -> str:
    """The words that tell one kind of statement from another, for the message."""
    if isinstance(tree, exp.Command):
        return " ".join(f"{tree.name} {tree.text('expression')}".split())[:60]
    words = tree.sql(DIALECT).split()
    several = words[0].upper() in ("CREATE", "DROP", "ALTER")
    materialized = several and words[1].upper() == "MATERIALIZED"
    return " ".join(words[: 3 if materialized else 2 if several else 1])


# CREATE TABLE


def _create_table(tree: exp.Create) -> CreateTable:
    if tree.args.get("replace"):
        raise not_supported("CREATE TABLE", "OR REPLACE")
    if tree.args.get("expression"):
        raise not_supported("CREATE TABLE", "AS SELECT")
    refuse_others(tree, ("this", "kind", "exists", "properties"), "CREATE TABLE")
    regions, distribution = _properties(tree.args.get("properties"))
    if not isinstance(tree.this, exp.Schema):
        raise StatementError("CREATE TABLE needs columns", hint=f"write: {EXISTING[0]}")
    name = _table_name(tree.this.this)
    schema, key = checked_schema(declared_columns(tree.this))
    return CreateTable(
        name=name,
        schema=schema,
        key=key,
        regions=regions,
        distribution=None if distribution is None else _key_prefix(schema, key, distribution),
        if_not_exists=bool(tree.args.get("exists")),
    )


def _table_name(node: exp.Expression | None) -> str:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise StatementError("the statement names no table")
    if node.args.get("db"):
        raise StatementError(f"{node.sql(DIALECT)} has more than one part", hint="a table's name is one word")
    refuse_others(node, ("this",), "the table's name")
    return check_name(node.name, "table")


def _properties(node: exp.Properties | None) -> tuple[int | None, tuple[str, ...] | None]:
    """TBLPROPERTIES, and no other clause after the columns (sqlglot gives them all as properties)."""
    values: dict[str, str] = {}
    for part in node.expressions if node is not None else []:
        if type(part) is not exp.Property:
            raise not_supported("CREATE TABLE", part.sql(DIALECT))
        name, value = part.this, part.args["value"]
        if not _is_string(name) or not _is_string(value):
            raise StatementError(
                f"CREATE TABLE: {part.sql(DIALECT)} is not supported", hint="write: TBLPROPERTIES ('name' = 'value')"
            )
        if name.name in values:
            raise StatementError(f"table property '{name.name}' is given twice")
        values[name.name] = value.name
    unknown = sorted(values.keys() - {"regions", "distribution"})
    if unknown:
        raise StatementError(
            f"table property '{unknown[0]}' does not exist", hint="there are 'regions' and 'distribution'"
        )
    return _regions(values.get("regions")), _columns(values.get("distribution"))


def _is_string(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _regions(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_REGIONS):
        raise StatementError(
            f"table property 'regions' cannot be '{text}'", hint=f"give a number from 1 to {MOST_REGIONS}"
        )
    return int(text)


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _key_prefix(schema: pa.Schema, key: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    columns = resolved_columns(schema.names, wanted, "distribution")
    if columns != key[: len(columns)]:
        raise SchemaError(
            f"the distribution ({', '.join(columns)}) is not a prefix of the primary key ({', '.join(key)})",
            hint="begin the primary key with the distribution columns, in the same order",
        )
    return columns


# DROP TABLE


def _drop_table(tree: exp.Drop) -> DropTable:
    refuse_others(tree, ("this", "tables", "kind", "exists"), "DROP TABLE")
    tables = tree.args.get("tables") or [tree.this]
    if len(tables) != 1:
        raise StatementError("DROP TABLE takes one table", hint="give one statement per table")
    return DropTable(name=_table_name(tables[0]), if_exists=bool(tree.args.get("exists")))
