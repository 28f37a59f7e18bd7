"""A type's text -> its canonical Arrow type: the other half of the law in `types`, and the half that parses.

It is a module of its own because sqlglot takes a tenth of a second to import, and nobody who only writes and reads rows
needs it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewkeeper.errors import SchemaError, StatementError
from viewkeeper.sql.syntax import parse_one
from viewkeeper.sql.types import MOST_DIGITS, TIMESTAMP, TIMESTAMP_NTZ, bad_type, map_type, struct_type

_PARSED: dict[Any, pa.DataType] = {
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}


def arrow_type(declared: str | exp.DataType, *, column: str | None = None) -> pa.DataType:
    """The canonical Arrow type of a SQL type. `column` is for the error only.

    >>> arrow_type("array<struct<price: decimal(10, 2), note: string>>")
    ListType(list<item: struct<price: decimal128(10, 2), note: string>>)
    >>> arrow_type("VARCHAR(20)", column="city")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.SchemaError: column "city" cannot have type VARCHAR(20)
      hint: use STRING
    """
    if isinstance(declared, str):
        declared = _parsed_type(declared, column)
    kind = declared.this
    if kind in _PARSED and not declared.expressions:
        return _PARSED[kind]
    if kind == exp.DType.DECIMAL:
        return _decimal(declared, column)
    if kind == exp.DType.ARRAY and len(declared.expressions) == 1:
        return pa.list_(arrow_type(declared.expressions[0], column=column))
    if kind == exp.DType.MAP and len(declared.expressions) == 2:
        key, value = (arrow_type(part, column=column) for part in declared.expressions)
        return map_type(key, value, column)
    if kind == exp.DType.STRUCT and declared.expressions:
        return struct_type([_struct_field(part, declared, column) for part in declared.expressions], column)
    raise _unknown_type(declared, column)


def _parsed_type(text: str, column: str | None) -> exp.DataType:
    """The type is read as the type of a column, as in a CREATE TABLE, so that both places accept the same text."""
    try:
        create = parse_one(f"CREATE TABLE t (c {text}\n)")
    except StatementError:
        raise bad_type(text, column) from None
    columns = create.this.expressions if isinstance(create.this, exp.Schema) else []
    if len(columns) != 1 or set(_present(create)) - {"this", "kind"} or set(_present(columns[0])) != {"this", "kind"}:
        raise bad_type(text, column)
    parsed = columns[0].args["kind"]
    assert isinstance(parsed, exp.DataType)
    return parsed


def _present(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _decimal(declared: exp.DataType, column: str | None) -> pa.DataType:
    """Spark's default is DECIMAL(10,0), and a scale left out is 0."""
    sizes = [part.sql(dialect="spark") for part in declared.expressions]
    if len(sizes) > 2 or not all(size.isascii() and size.isdigit() for size in sizes):
        raise _unknown_type(declared, column)
    precision, scale = [int(size) for size in sizes] + [10, 0][len(sizes) :]
    if not (1 <= precision <= MOST_DIGITS and scale <= precision):
        raise bad_type(f"DECIMAL({precision},{scale})", column, f"a DECIMAL has 1 to {MOST_DIGITS} digits in all")
    return pa.decimal128(precision, scale)


def _struct_field(part: exp.Expression, struct: exp.DataType, column: str | None) -> pa.Field:
    if not isinstance(part, exp.ColumnDef) or not isinstance(part.this, exp.Identifier) or part.args.get("position"):
        raise _unknown_type(struct, column, "name each field of a STRUCT: STRUCT<name: TYPE, ...>")
    nullable = True
    for constraint in part.args.get("constraints") or []:
        if not isinstance(constraint.kind, exp.NotNullColumnConstraint):
            raise _unknown_type(struct, column, "a field of a STRUCT has a name, a type, and NOT NULL at most")
        nullable = bool(constraint.kind.args.get("allow_null"))
    return pa.field(part.name, arrow_type(part.args["kind"], column=column), nullable=nullable)


def _unknown_type(declared: exp.DataType, column: str | None, hint: str | None = None) -> SchemaError:
    if declared.this in (exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.NCHAR, exp.DType.NVARCHAR):
        hint = "use STRING"
    return bad_type(declared.sql(dialect="spark"), column, hint)
