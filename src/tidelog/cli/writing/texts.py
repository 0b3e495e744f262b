"""Columns as texts: how values are written in tables, CSV and JSON. Whole columns at a time."""

from __future__ import annotations

import base64
import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UNITS_BY_DIGITS: Final = ("s", "ms", "us")


def is_numeric(type_: pa.DataType) -> bool:
    """Whether values are numbers."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def plain(column: pa.Array) -> pa.Array:
    """Values as text, each as short as possible without loss; nulls stay nulls.

    Times are ISO 8601, in UTC with ``Z`` when the column has a zone. Floats always look like floats. Binary data is
    in base64. What queries make and Arrow has no texts for (lists, structs, intervals) is what DuckDB writes.
    """
    type_ = column.type
    if _is_made(type_):
        return _by_duckdb("CAST(x AS VARCHAR)", column)
    if pa.types.is_timestamp(type_):
        return _times(column)
    if pa.types.is_floating(type_):
        text = column.cast(pa.string())
        whole = pc.match_substring_regex(text, "^-?[0-9]+$")
        return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        values = [None if each is None else base64.b64encode(each).decode() for each in column.to_pylist()]
        return pa.array(values, pa.string())
    return column.cast(pa.string())


def shortest_times(column: pa.Array) -> pa.Array:
    """Timestamps in the coarsest unit that holds all of them, so that texts have no digits that are zero everywhere."""
    for unit in _UNITS_BY_DIGITS:
        try:
            return column.cast(pa.timestamp(unit, column.type.tz))
        except pa.ArrowInvalid:
            continue
    return column


def json_lines(batch: pa.RecordBatch) -> bytes:
    """One object for each row, each on a line. NaN and infinities, which JSON does not have, are null."""
    if not batch.num_rows:
        return b""
    parts: list[pa.Array | str] = []
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        key = json.dumps(name, ensure_ascii=False)
        parts.append(f"{', ' if index else '{'}{key}: ")
        parts.append(_json_values(column))
    parts.append("}\n")
    return _concatenated(pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="null"))


def csv_lines(batch: pa.RecordBatch) -> bytes:
    """One line for each row, values separated by commas.

    Texts are in quotes where they must be, and when empty: what is empty without quotes is null.
    """
    if not batch.num_rows:
        return b""
    parts: list[pa.Array | str] = []
    for index, column in enumerate(batch.columns):
        parts.append("," if index else "")
        parts.append(_csv_values(column))
    return _concatenated(pc.binary_join_element_wise(*parts, "\n", "", null_handling="replace", null_replacement=""))


def _concatenated(texts: pa.Array) -> bytes:
    """All texts one after the other, which is how Arrow keeps them."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)
    first, last = int(bounds[texts.offset]), int(bounds[texts.offset + len(texts)])
    return bytes(data[first:last])


def _csv_values(column: pa.Array) -> pa.Array:
    text = plain(column)
    type_ = column.type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_made(type_)):
        return text
    special = pc.match_substring_regex(text, '^$|[",\\r\\n]|^\\s|\\s$')
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(special, quoted, text)


def _json_values(column: pa.Array) -> pa.Array:
    type_ = column.type
    if _is_made(type_):
        return _json_of_made(column)
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return column.cast(pa.string())
    if pa.types.is_floating(type_):
        return pc.if_else(pc.is_finite(column), plain(column), pa.scalar(None, pa.string()))
    return _quoted(plain(column))


def _is_made(type_: pa.DataType) -> bool:
    """Whether values are of a type that no stream has."""
    return bool(
        pa.types.is_nested(type_) or pa.types.is_interval(type_) or isinstance(type_, pa.BaseExtensionType)
    )  # unions are nested


def _by_duckdb(call: str, column: pa.Array) -> pa.Array:
    """The text that DuckDB makes of each value, which the call names ``x``."""
    from tidelog.sql.statements import run_on_tables

    table = pa.Table.from_arrays([column], ["x"])
    return run_on_tables(f"SELECT {call} AS t FROM v", None, {"v": table}, "UTC", None).arrow()["t"].combine_chunks()


def _json_of_made(column: pa.Array) -> pa.Array:
    text = _by_duckdb("to_json(x)", column)
    odd = pc.fill_null(pc.match_substring_regex(text, "NaN|Infinity"), False)  # which JSON has in texts alone
    if not pc.any(odd).as_py():
        return text
    finite = [
        json.dumps(json.loads(each, parse_constant=lambda _: None), ensure_ascii=False)
        for each in text.filter(odd).to_pylist()
    ]
    return pc.replace_with_mask(text, odd, pa.array(finite, text.type))


def _quoted(text: pa.Array) -> pa.Array:
    """Texts as JSON strings. Only those that need escapes are looked at one by one."""
    simple = pc.binary_join_element_wise('"', text, '"', "")
    special = pc.fill_null(pc.match_substring_regex(text, r'["\\\x00-\x1f\x7f]'), False)
    if not pc.any(special).as_py():
        return simple
    escaped = [json.dumps(each, ensure_ascii=False) for each in text.filter(special).to_pylist()]
    return pc.replace_with_mask(simple, special, pa.array(escaped, simple.type))


def _times(column: pa.Array) -> pa.Array:
    type_ = column.type
    # The ticks count UTC whether there is a zone or not, and UTC needs no database of zones.
    text = column.cast(pa.int64()).cast(pa.timestamp(type_.unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return text if type_.tz is None else pc.binary_join_element_wise(text, "Z", "")
