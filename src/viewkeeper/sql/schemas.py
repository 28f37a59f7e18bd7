"""What a user declares (DDL text, a PySpark StructType, an Arrow schema) -> the table's Arrow schema and its key.

The schema that comes out has canonical types only, no metadata, and says exactly which columns may be NULL: a key
column never may. Column names are compared as SQL does, ignoring case; the spelling that declared the column wins.

PySpark's objects are recognised without importing PySpark: a table can be declared where it is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewkeeper.errors import SchemaError, StatementError
from viewkeeper.names import check_name
from viewkeeper.sql.syntax import DIALECT, parse_one
from viewkeeper.sql.type_text import arrow_type
from viewkeeper.sql.types import KNOWN_TYPES, normal_type, orderable_key, sql_type

KEY_HINT = 'name it: primary_key="id", or PRIMARY KEY in the DDL'


@dataclass(frozen=True)
class Declared:
    """Columns as they were declared, and each primary key that the declaration has."""

    fields: tuple[pa.Field, ...]
    keys: tuple[tuple[str, ...], ...] = ()


def table_schema(schema: object, primary_key: str | Sequence[str] | None = None) -> tuple[pa.Schema, tuple[str, ...]]:
    """The Arrow schema and the key of a table, or a `SchemaError`.

    >>> schema, key = table_schema("id BIGINT, product STRING NOT NULL, cost DECIMAL(10,2)", primary_key="id")
    >>> key, [(field.name, str(field.type), field.nullable) for field in schema]
    (('id',), [('id', 'int64', False), ('product', 'string', False), ('cost', 'decimal128(10, 2)', True)])
    """
    return checked_schema(_declared(schema), primary_key)


def checked_schema(
    declared: Declared, primary_key: str | Sequence[str] | None = None
) -> tuple[pa.Schema, tuple[str, ...]]:
    """The schema and key of declared columns, once every rule for a table holds."""
    names = _checked_names(declared.fields)
    key = _resolved_key(names, _the_key(declared.keys, primary_key))
    fields = [
        pa.field(field.name, field.type, nullable=field.nullable and field.name not in key) for field in declared.fields
    ]
    schema = pa.schema(fields)
    for name in key:
        _check_key_type(schema.field(name))
    return schema, key


# Forms of declaration


def _declared(schema: object) -> Declared:
    if isinstance(schema, str):
        return _of_text(schema)
    if isinstance(schema, pa.Schema):
        return Declared(
            tuple(pa.field(f.name, normal_type(f.type, column=f.name), nullable=f.nullable) for f in schema)
        )
    if type(schema).__module__.startswith("pyspark.") and hasattr(schema, "jsonValue"):
        return Declared(tuple(_of_spark_struct(schema.jsonValue(), None)))
    raise SchemaError(
        f"a schema cannot be a {type(schema).__name__}", hint="give DDL text, a PySpark StructType or a pyarrow Schema"
    )


def _of_text(text: str) -> Declared:
    """The text stands on lines of its own in a CREATE TABLE, so that columns of errors are those of the user's text."""
    if not text.strip():
        return Declared(())
    try:
        create = parse_one(f"CREATE TABLE t (\n{text}\n)")
        refuse_others(create, ("this", "kind"), "the list of columns")
        return declared_columns(create.this)
    except StatementError as error:
        raise SchemaError(
            _own_line(error), hint=error.hint or f"write: name TYPE [NOT NULL], ...; the types are {KNOWN_TYPES}"
        ) from None


def _own_line(error: StatementError) -> str:
    line = error.fields.get("line")
    return error.message if line is None else error.message.replace(f"line {line}", f"line {line - 1}", 1)


def arrow_schema(struct: Any) -> pa.Schema:
    """A query's PySpark StructType as Arrow, with whatever names the columns have. Any column may be NULL."""
    return pa.schema([field.with_nullable(True) for field in _of_spark_struct(struct.jsonValue(), None)])


def ddl(schema: pa.Schema) -> str:
    """A schema as the DDL text that PySpark takes.

    >>> ddl(pa.schema([("sum(x)", pa.int64())]))
    '`sum(x)` BIGINT'
    """
    return ", ".join(f"`{field.name.replace('`', '``')}` {sql_type(field.type)}" for field in schema)


def _of_spark_struct(value: Any, column: str | None) -> list[pa.Field]:
    if not isinstance(value, dict) or value.get("type") != "struct":
        raise SchemaError("the schema is not a struct of columns", hint="give a StructType")
    return [_of_spark_field(field, column or field["name"]) for field in value["fields"]]


def _of_spark_field(field: dict[str, Any], column: str) -> pa.Field:
    """Spark keeps a string's collation beside the type. It changes what is equal, so it is not dropped in silence."""
    if any("collation" in name.lower() for name in field.get("metadata") or {}):
        raise SchemaError(f'column "{column}" has a collation', hint="use STRING with no collation", column=column)
    return pa.field(field["name"], _of_spark_type(field["type"], column), nullable=field["nullable"])


def _of_spark_type(value: Any, column: str) -> pa.DataType:
    if isinstance(value, str):
        return arrow_type(value, column=column)
    match value["type"]:
        case "array":
            return pa.list_(_of_spark_type(value["elementType"], column))
        case "map":
            key, item = _of_spark_type(value["keyType"], column), _of_spark_type(value["valueType"], column)
            return normal_type(pa.map_(key, item), column=column)
        case "struct":
            return normal_type(pa.struct(_of_spark_struct(value, column)), column=column)
        case other:
            return arrow_type(str(other), column=column)


# Columns and constraints of a CREATE TABLE


def declared_columns(schema: exp.Schema) -> Declared:
    """The columns and keys between the parentheses of a CREATE TABLE. What we do not keep is refused by name."""
    fields: list[pa.Field] = []
    keys: list[tuple[str, ...]] = []
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            field, is_key = _column(part)
            fields.append(field)
            keys += [(field.name,)] if is_key else []
        else:
            keys.append(_table_key(part))
    return Declared(tuple(fields), tuple(keys))


def _column(part: exp.ColumnDef) -> tuple[pa.Field, bool]:
    if not isinstance(part.this, exp.Identifier):
        raise StatementError(f"{part.this.sql(DIALECT)} is not a column name", hint="write: name TYPE")
    name = part.name
    refuse_others(part, ("this", "kind", "constraints"), f'column "{name}"')
    constraints = part.args.get("constraints") or []
    found = {_constraint(constraint.kind, name) for constraint in constraints}
    if found >= {"NULL", "NOT NULL"}:
        raise StatementError(f'column "{name}" is both NULL and NOT NULL')
    if part.args.get("kind") is None:
        raise StatementError(f'column "{name}" has no type', hint=f"write: {name} TYPE; the types are {KNOWN_TYPES}")
    field = pa.field(name, arrow_type(part.args["kind"], column=name), nullable="NOT NULL" not in found)
    return field, "PRIMARY KEY" in found


def _constraint(kind: exp.Expression, column: str) -> str:
    if isinstance(kind, exp.NotNullColumnConstraint):
        return "NULL" if kind.args.get("allow_null") else "NOT NULL"
    if isinstance(kind, exp.PrimaryKeyColumnConstraint):
        refuse_others(kind, (), f'column "{column}": PRIMARY KEY')
        return "PRIMARY KEY"
    raise not_supported(f'column "{column}"', kind.sql(DIALECT))


def _table_key(part: exp.Expression) -> tuple[str, ...]:
    if isinstance(part, exp.Constraint) and len(part.expressions) == 1:
        return _table_key(part.expressions[0])
    if isinstance(part, exp.Identifier):
        raise StatementError(
            f'column "{part.name}" has no type', hint=f"write: {part.name} TYPE; the types are {KNOWN_TYPES}"
        )
    if not isinstance(part, exp.PrimaryKey):
        raise not_supported("the table", part.sql(DIALECT))
    include = part.args.get("include")
    refuse_others(part, ("expressions", "include"), "PRIMARY KEY")
    if isinstance(include, exp.Expression):
        refuse_others(include, (), "PRIMARY KEY")
    if not all(isinstance(column, exp.Identifier) for column in part.expressions):
        raise not_supported("the table", part.sql(DIALECT))
    return tuple(column.name for column in part.expressions)


def refuse_others(node: exp.Expression, known: Sequence[str], subject: str) -> None:
    """sqlglot keeps each clause as an argument of the node: one that we do not know is refused, never dropped."""
    for name, value in node.args.items():
        if value and name not in known:
            raise not_supported(subject, _clause(name, value))


def _clause(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_clause(name, part) for part in value)
    if isinstance(value, exp.Expression):
        return value.sql(DIALECT)
    return value if isinstance(value, str) else name.upper()


def not_supported(subject: str, clause: str) -> StatementError:
    """The error that names a clause."""
    return StatementError(f"{subject}: {clause} is not supported", hint="leave it out", clause=clause)


# Rules for every table


def _checked_names(fields: Sequence[pa.Field]) -> list[str]:
    if not fields:
        raise SchemaError("a table has at least one column", hint="write: name TYPE [NOT NULL], ...")
    seen: dict[str, str] = {}
    for field in fields:
        name = check_name(field.name, "column")
        if name.lower() in seen:
            raise SchemaError(
                f'column "{name}" is declared twice',
                hint="upper and lower case are the same in column names",
                column=name,
            )
        seen[name.lower()] = name
    return list(seen.values())


def _the_key(declared: Sequence[tuple[str, ...]], primary_key: str | Sequence[str] | None) -> tuple[str, ...]:
    given = () if primary_key is None else ((primary_key,) if isinstance(primary_key, str) else tuple(primary_key),)
    keys = [*declared, *given]
    if not keys or not all(keys):
        raise SchemaError("the table has no primary key", hint=KEY_HINT)
    if len({tuple(str(name).lower() for name in key) for key in keys}) > 1:
        texts = " and ".join(f"({', '.join(map(str, key))})" for key in keys)
        raise SchemaError(
            f"the table has more than one primary key: {texts}", hint="for a key of several columns: PRIMARY KEY (a, b)"
        )
    return keys[0]


def _resolved_key(names: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    resolved = resolved_columns(names, key, "primary key")
    if len(set(resolved)) < len(resolved):
        raise SchemaError(f"the primary key ({', '.join(key)}) names a column twice", hint="name each column once")
    return resolved


def resolved_columns(names: Sequence[str], wanted: Sequence[str], purpose: str) -> tuple[str, ...]:
    """The declared spelling of each of `wanted`, which ignore case as SQL does."""
    spelling = {name.lower(): name for name in names}
    for name in wanted:
        if not isinstance(name, str) or name.lower() not in spelling:
            raise SchemaError(
                f"the {purpose} names column {name!r}, which the table does not have",
                hint=f"the columns are {', '.join(names)}",
                column=name,
            )
    return tuple(spelling[name.lower()] for name in wanted)


def _check_key_type(field: pa.Field) -> None:
    if not orderable_key(field.type):
        raise SchemaError(
            f'column "{field.name}" of type {sql_type(field.type)} cannot be in the primary key',
            hint="a key column is a BOOLEAN, an integer, a DECIMAL, STRING, BINARY, DATE or a timestamp",
            column=field.name,
            type=sql_type(field.type),
        )
