"""SQL types: their names, the Arrow types that hold them, and how DuckDB converts between them unasked.

A SQL type is represented by the Arrow type DuckDB would export it as. That makes HUGEINT and DECIMAL(38,0) one
type, ``decimal128(38, 0)``, which is called HUGEINT here: it behaves as an integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelog.model.conversion.families import value_type

BOOLEAN = pa.bool_()
TINYINT, SMALLINT, INTEGER, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
UTINYINT, USMALLINT, UINTEGER, UBIGINT = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
HUGEINT = pa.decimal128(38, 0)
FLOAT, DOUBLE = pa.float32(), pa.float64()
VARCHAR, BLOB = pa.string(), pa.binary()
DATE = pa.date32()
TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP, TIMESTAMP_NS = (pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))
TIMESTAMPTZ, TIMESTAMPTZ_NS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")
INTERVAL = pa.month_day_nano_interval()
NULL = pa.null()

WIDEST_DECIMAL = 38

PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "HUGEINT": HUGEINT,
    "UTINYINT": UTINYINT,
    "USMALLINT": USMALLINT,
    "UINTEGER": UINTEGER,
    "UBIGINT": UBIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "VARCHAR": VARCHAR,
    "BLOB": BLOB,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP_S,
    "TIMESTAMP_MS": TIMESTAMP_MS,
    "TIMESTAMP_NS": TIMESTAMP_NS,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "TIMESTAMPTZ_NS": TIMESTAMPTZ_NS,
    "INTERVAL": INTERVAL,
    "NULL": NULL,
}
"""Types without parameters, by their SQL name."""

_NAMES = {type_: name for name, type_ in PLAIN.items()}

SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
INTEGERS = (*SIGNED, *UNSIGNED)
ZONELESS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS")
INSTANTS = ("DATE", *ZONELESS, "TIMESTAMPTZ", "TIMESTAMPTZ_NS")

_DIGITS = {
    **dict(zip(SIGNED, (3, 5, 10, 19, 38), strict=True)),
    **dict(zip(UNSIGNED, (3, 5, 10, 20), strict=True)),
}
"""Digits of the decimal type that an integer type becomes next to decimals."""

_BITS = {
    **dict(zip(SIGNED, (8, 16, 32, 64, 128), strict=True)),
    **dict(zip(UNSIGNED, (8, 16, 32, 64), strict=True)),
}


def kind(type_: pa.DataType) -> str:
    """The name of a SQL type without parameters: ``DECIMAL`` for all decimals but HUGEINT."""
    name = _NAMES.get(type_)
    return name if name is not None else "DECIMAL"


def sql_name(type_: pa.DataType) -> str:
    """The SQL name of a type, e.g. ``DECIMAL(5,2)``."""
    name = _NAMES.get(type_)
    return name if name is not None else f"DECIMAL({type_.precision},{type_.scale})"


def sql_type(type_: pa.DataType) -> pa.DataType | None:
    """The type under which a column of Arrow type ``type_`` takes part in expressions, or None if it cannot.

    As DuckDB reads Arrow: dictionaries by value, all strings as one type, dates in days, instants with a zone in
    UTC and microseconds (nanoseconds stay).
    """
    values = value_type(type_)
    if values in _NAMES and values != INTERVAL:
        return values
    if pa.types.is_large_string(values) or pa.types.is_string_view(values):
        return VARCHAR
    if pa.types.is_large_binary(values) or pa.types.is_binary_view(values) or pa.types.is_fixed_size_binary(values):
        return BLOB
    if pa.types.is_date64(values):
        return DATE
    if pa.types.is_timestamp(values):  # zoneless ones have been found above
        return TIMESTAMPTZ_NS if values.unit == "ns" else TIMESTAMPTZ
    if pa.types.is_decimal128(values) and 0 <= values.scale <= values.precision:
        return values
    return None


def is_integer(type_: pa.DataType) -> bool:
    """Whether a type holds integers, HUGEINT included."""
    return kind(type_) in INTEGERS


def is_float(type_: pa.DataType) -> bool:
    """Whether a type is FLOAT or DOUBLE."""
    return type_ in (FLOAT, DOUBLE)


def is_decimal(type_: pa.DataType) -> bool:
    """Whether a type is stored as a decimal; HUGEINT is."""
    return bool(pa.types.is_decimal128(type_))


def is_instant(type_: pa.DataType) -> bool:
    """Whether a type is a date or a timestamp."""
    return kind(type_) in INSTANTS


def is_numeric(type_: pa.DataType) -> bool:
    """Whether a type is a number."""
    return is_integer(type_) or is_float(type_) or is_decimal(type_)


def decimal_shape(type_: pa.DataType) -> tuple[int, int] | None:
    """Digits and scale of a type as a decimal, or None if it is neither integer nor decimal."""
    if is_integer(type_):
        return _DIGITS[kind(type_)], 0
    return (type_.precision, type_.scale) if is_decimal(type_) else None


def common_decimal(shapes: Sequence[tuple[int, int]], spare: int = 0) -> tuple[int, int]:
    """Digits and scale that hold all of ``shapes`` and ``spare`` more digits; the digits may exceed what there is."""
    scale = max(scale for _, scale in shapes)
    return max(digits - own for digits, own in shapes) + scale + spare, scale


def decimal_type(digits: int, scale: int) -> pa.DataType:
    """A decimal type, cut to the widest there is."""
    return pa.decimal128(min(digits, WIDEST_DECIMAL), scale)


def integer_fits(value: int, type_: pa.DataType) -> bool:
    """Whether an integer has a place in an integer type."""
    name = kind(type_)
    if name == "HUGEINT":
        return bool(abs(value) < 10**WIDEST_DECIMAL)
    bits = _BITS[name]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if name in SIGNED else (0, 1 << bits)
    return low <= value < high


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both types meet (in comparisons, CASE, COALESCE, IN), or None if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    a, b = kind(left), kind(right)
    if "BOOLEAN" in (a, b):
        other = right if a == "BOOLEAN" else left
        return other if is_integer(other) else None
    if is_integer(left) and is_integer(right):
        return _common_integer(a, b)
    if is_numeric(left) and is_numeric(right):
        if "DOUBLE" in (a, b) or "FLOAT" in (a, b):
            return DOUBLE if "DOUBLE" in (a, b) else FLOAT
        shapes = [shape for shape in (decimal_shape(left), decimal_shape(right)) if shape is not None]
        return decimal_type(*common_decimal(shapes))
    if a in INSTANTS and b in INSTANTS:
        return _common_instant(a, b)
    return None


def _common_integer(a: str, b: str) -> pa.DataType:
    if "HUGEINT" in (a, b):
        return HUGEINT
    if (a in SIGNED) == (b in SIGNED):
        return PLAIN[a if _BITS[a] >= _BITS[b] else b]
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if _BITS[signed] > _BITS[unsigned]:
        return PLAIN[signed]
    return PLAIN[SIGNED[UNSIGNED.index(unsigned) + 1]]


def _common_instant(a: str, b: str) -> pa.DataType | None:
    if "DATE" in (a, b):
        return PLAIN[b if a == "DATE" else a]
    if a in ZONELESS and b in ZONELESS:
        return PLAIN[max(a, b, key=ZONELESS.index)]
    if "TIMESTAMP_NS" in (a, b) or "TIMESTAMPTZ_NS" in (a, b):
        return TIMESTAMPTZ_NS if {a, b} == {"TIMESTAMPTZ", "TIMESTAMPTZ_NS"} else None
    return TIMESTAMPTZ
