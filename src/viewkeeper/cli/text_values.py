"""Text and JSON -> the values that the library takes, by the type of the column they are for.

Nothing is judged here: what cannot be read as its type stays as it is, and the library's own rules say what is wrong with
it. So the command line refuses exactly what the library refuses, in the same words.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from viewkeeper.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.database import TableAt

NULL = "\\N"
"""A key's part, or a value, that is NULL."""

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


def text_value(kind: pa.DataType, text: str) -> Any:
    """A field of a CSV file, or an argument.

    >>> import pyarrow as pa
    >>> text_value(pa.int64(), "12"), text_value(pa.int64(), "twelve"), text_value(pa.list_(pa.int64()), "[1, 2]")
    (12, 'twelve', [1, 2])
    """
    from pyarrow import types

    if types.is_integer(kind):
        return int(text) if _WHOLE.fullmatch(text) else text
    if types.is_floating(kind):
        return _float(text)
    if types.is_boolean(kind):
        return {"true": True, "false": False}.get(text.lower(), text)
    if types.is_binary(kind):
        return _bytes(text)
    if types.is_nested(kind):
        return _nested(kind, text)
    return text


def _float(text: str) -> Any:
    try:
        return float(text) if text.isascii() else text
    except ValueError:
        return text


def _bytes(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text


def _nested(kind: pa.DataType, text: str) -> Any:
    try:
        return json_value(kind, loads(text))
    except ValueError:
        return text


def loads(text: str | bytes) -> Any:
    """JSON with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


def json_value(kind: pa.DataType, value: Any) -> Any:
    """A value of a JSON document.

    >>> import pyarrow as pa
    >>> json_value(pa.float64(), Decimal("0.5")), json_value(pa.decimal128(4, 2), Decimal("0.5"))
    (0.5, Decimal('0.5'))
    """
    from pyarrow import types

    if types.is_floating(kind):
        return float(value) if isinstance(value, Decimal) else _float(value) if isinstance(value, str) else value
    if types.is_binary(kind):
        return _bytes(value) if isinstance(value, str) else value
    if types.is_list(kind) and isinstance(value, list):
        return [json_value(kind.value_type, part) for part in value]
    if types.is_map(kind):
        return _map_value(kind, value)
    if types.is_struct(kind) and isinstance(value, dict):
        return json_row({field.name: field.type for field in kind}, value)
    return value


def _map_value(kind: pa.MapType, value: Any) -> Any:
    """An object has keys of text alone; a list of pairs has any."""
    if isinstance(value, dict):
        return {text_value(kind.key_type, key): json_value(kind.item_type, item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [(json_value(kind.key_type, key), json_value(kind.item_type, item)) for key, item in value]
    return value


def json_row(types: Mapping[str, pa.DataType], row: Mapping[str, Any]) -> dict[str, Any]:
    """An object of JSON as a row. Columns that are not there are left for the rules to name."""
    return {name: json_value(types[name], value) if name in types else value for name, value in row.items()}


def types_of(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


# Arguments


def key_argument(table: TableAt, texts: Sequence[str]) -> tuple[Any, ...]:
    """A key, or the first parts of one. A view's key may have columns that its query does not show."""
    types = types_of(table.schema)
    names = [*table.key, *[""] * len(texts)]
    return tuple(
        None if text == NULL else text_value(types[name], text) if name in types else text
        for name, text in zip(names, texts, strict=False)
    )


def row_arguments(schema: pa.Schema, arguments: Sequence[str], lines: Iterable[str]) -> list[dict[str, Any]]:
    """Rows to put: `name=value ...` is one row, each `{...}` is one, and `-` is one for each line of standard input."""
    pairs = [argument for argument in arguments if not argument.startswith("{") and argument != "-"]
    if pairs and len(pairs) < len(arguments):
        raise InputError("name=value and other forms of rows do not go together", hint="give one row as name=value ...")
    if pairs:
        return [_row_of_pairs(schema, pairs)]
    texts = [text for argument in arguments for text in (lines if argument == "-" else [argument]) if text.strip()]
    return [_row_of_text(schema, text) for text in texts]


def _row_of_pairs(schema: pa.Schema, pairs: Sequence[str]) -> dict[str, Any]:
    types = types_of(schema)
    row: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InputError(f'"{pair}" is not a value of a column', hint="write name=value, or a row as a JSON object")
        row[name] = None if text == NULL else text_value(types[name], text) if name in types else text
    return row


def _row_of_text(schema: pa.Schema, text: str) -> dict[str, Any]:
    try:
        row = loads(text)
    except ValueError as error:
        raise InputError(
            f"this is not JSON: {text.strip()[:80]} ({error})", hint='write {"column": value, ...}'
        ) from None
    if not isinstance(row, dict):
        raise InputError(f"this is not a row: {text.strip()[:80]}", hint='write {"column": value, ...}')
    return json_row(types_of(schema), row)
