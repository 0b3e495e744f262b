"""DuckDB as the oracle of expressions: the same text over the same rows must give the same, errors included."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from tidelog.expr import ExpressionError, parse

INF, NAN = float("inf"), float("nan")


def _instants(unit: str) -> list[int | None]:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    seconds = [0, 1, -1, 951_782_399, 1_577_836_799, 1_583_020_800, -86_401, 4_102_444_799]
    return [*(second * per_second + (per_second // 3 if second % 2 else 0) for second in seconds), None]


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int8(), [0, 1, -1, 127, -128, 7, -5, None, 3]),
    "b": (pa.int16(), [0, 1, -1, 32767, -32768, 300, -77, None, 3]),
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 1000, -77, None, 3]),
    "l": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 10**12, -77, None, 3]),
    "ua": (pa.uint8(), [0, 1, 255, 127, 128, 7, 5, None, 3]),
    "ub": (pa.uint16(), [0, 1, 65535, 32767, 300, 7, 5, None, 3]),
    "ui": (pa.uint32(), [0, 1, 2**32 - 1, 2**31, 300, 7, 5, None, 3]),
    "ul": (pa.uint64(), [0, 1, 2**64 - 1, 2**63, 300, 7, 5, None, 3]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, -2.5, INF, -INF, NAN, None, 0.1]),
    "d": (pa.float64(), [0.0, -0.0, 1.5, -2.5, INF, NAN, 1e300, None, 0.1]),
    "e": (pa.float64(), [0.5, 2.675, -1.5, 1e-9, -0.75, 3.0, 123.456, None, 100.0]),
    "m": (
        pa.decimal128(5, 2),
        [Decimal(x) for x in ("0", "1.25", "-1.25", "999.99", "-999.99", "0.05", "10.5")] + [None, Decimal("3")],
    ),
    "n": (
        pa.decimal128(18, 4),
        [Decimal(x) for x in ("0", "1.25", "-1.2345", "99999999999999.9999", "-2.5", "0.0005", "10.5")]
        + [None, Decimal("3")],
    ),
    "k": (
        pa.decimal128(30, 10),
        [Decimal(x) for x in ("0", "1.25", "-1.2345", "12345678901234567890.0123456789", "-2.5", "0.5", "10.5")]
        + [None, Decimal("3")],
    ),
    "s": (pa.string(), ["", "a", "Abc", "añ🦆é", "12", "x%y_z", " pad ", None, "a,b,c"]),
    "t": (pa.string(), ["b", "a", "abc", "ñ", "-3", "%", " ", None, ","]),
    "z": (pa.binary(), [b"", b"a", b"\x00\xff", "ñ".encode(), b"12", b"\\", b"'", None, b"abc"]),
    "q": (pa.bool_(), [True, False, None, True, False, True, False, None, True]),
    "p": (pa.bool_(), [True, None, False, False, True, True, None, None, False]),
    "dt": (pa.date32(), [0, 18262, -1, 11016, 18321, -25567, 2932896, None, 47481]),
    "ts": (pa.timestamp("us"), _instants("us")),
    "tu": (pa.timestamp("us"), [10**15, 0, -1, 1_583_020_800_000_000, 59_999_999, 1, 86_400_000_000, None, 5]),
    "t_s": (pa.timestamp("s"), _instants("s")),
    "t_ms": (pa.timestamp("ms"), _instants("ms")),
    "t_ns": (pa.timestamp("ns"), _instants("ns")),
    "tz": (pa.timestamp("us", "UTC"), _instants("us")),
    "tzb": (pa.timestamp("ms", "Europe/Berlin"), _instants("ms")),
}

TABLE = pa.table({name: pa.array(values, type_) for name, (type_, values) in COLUMNS.items()})
BATCH = TABLE.combine_chunks().to_batches()[0]
SCHEMA = TABLE.schema


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("PRAGMA disable_optimizer")  # rewriting `i + 1 = 2` hides the overflow of `i + 1`
    return connection


_connection = connect()


class Refused(Exception):
    """DuckDB raised."""


_connection.register("t", TABLE)
_connection.execute("CREATE TABLE t_whole AS SELECT * FROM t")
for _row in range(TABLE.num_rows):
    _connection.register("t", TABLE.slice(_row, 1))
    _connection.execute(f"CREATE TABLE t_{_row} AS SELECT * FROM t")
ROWS = [BATCH.slice(row, 1) for row in range(BATCH.num_rows)]


def by_duckdb(text: str, batch: pa.RecordBatch) -> pa.Array:
    """The column that DuckDB makes of an expression. Raises :class:`Refused` where it raises."""
    name = _names.get(id(batch))
    if name is None:
        _connection.register("t", pa.Table.from_batches([batch]))
    try:
        found = _connection.sql(f"SELECT {text} AS x FROM {name or 't'}").to_arrow_table()
    except duckdb.Error as error:
        raise Refused(str(error)) from None
    return found.column(0).combine_chunks()


_parsed = functools.lru_cache(maxsize=8)(parse)  # rows are tried one by one

_names = {id(BATCH): "t_whole", **{id(each): f"t_{row}" for row, each in enumerate(ROWS)}}
"""Tables in DuckDB that hold the rows of batches, which live as long as this module."""


def by_tidelog(text: str, batch: pa.RecordBatch) -> pa.Array:
    return _parsed(text, batch.schema).evaluate(batch)


def plain(array: pa.Array) -> list[Any]:
    """Values to compare: counts for instants, which Python's own types would cut off."""
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()
    return array.to_pylist()


def same(left: Any, right: Any, tolerance: float = 1e-13) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=1e-300)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(left) == tuple(right)
    return type(left) is type(right) and left == right


def difference(text: str, batch: pa.RecordBatch = BATCH, tolerance: float = 1e-13) -> str | None:
    """How tidelog and DuckDB differ about an expression over a batch, or None if they agree.

    Where DuckDB raises for the batch, each row is tried alone, so that errors must agree row by row.
    """
    try:
        expected = by_duckdb(text, batch)
    except Refused as refusal:
        return _difference_by_row(text, batch, str(refusal), tolerance)
    return _compared(text, batch, expected, tolerance)


def _compared(text: str, batch: pa.RecordBatch, expected: pa.Array, tolerance: float) -> str | None:
    try:
        found = by_tidelog(text, batch)
    except ExpressionError as error:
        return f"{text}: tidelog raised {str(error)!r}, DuckDB gave {plain(expected)}"
    if found.type != expected.type:
        return f"{text}: type {found.type}, expected {expected.type}"
    found.validate(full=True)
    wrong = [
        (row, ours, theirs)
        for row, (ours, theirs) in enumerate(zip(plain(found), plain(expected), strict=True))
        if not same(ours, theirs, tolerance)
    ]
    return f"{text}: (row, tidelog, DuckDB) {wrong[:5]}" if wrong else None


def _difference_by_row(text: str, batch: pa.RecordBatch, refusal: str, tolerance: float) -> str | None:
    if batch.num_rows <= 1:
        try:
            found = by_tidelog(text, batch)
        except ExpressionError:
            return None
        return f"{text}: tidelog gave {plain(found)} for {_used(text, batch)}, DuckDB raised {refusal[:150]!r}"
    try:
        by_tidelog(text, batch)
    except ExpressionError:
        pass
    else:
        return f"{text}: tidelog did not raise, DuckDB raised {refusal[:150]!r}"
    if refusal.startswith(("Binder Error", "Catalog Error", "Parser Error")):
        return None  # about types, so the same for every row
    known = _where_not_null(text, batch)
    for index, row in enumerate(ROWS if batch is BATCH else [batch.slice(row, 1) for row in range(batch.num_rows)]):
        expected = None if known is None or not known[index].is_valid else known.slice(index, 1)
        found = difference(text, row, tolerance) if expected is None else _compared(text, row, expected, tolerance)
        if found is not None:
            return found
    return None


def _where_not_null(text: str, batch: pa.RecordBatch) -> pa.Array | None:
    """What DuckDB makes of each row by itself, in one query: NULL where it raises, or where that is the value."""
    try:
        return by_duckdb(f"TRY({text})", batch)
    except Refused:
        return None


def _used(text: str, batch: pa.RecordBatch) -> dict[str, Any]:
    return {name: plain(batch.column(name)) for name in parse(text, batch.schema).columns}


__all__ = [
    "BATCH",
    "COLUMNS",
    "SCHEMA",
    "TABLE",
    "Refused",
    "by_duckdb",
    "by_tidelog",
    "difference",
    "plain",
    "same",
]
