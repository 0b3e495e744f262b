"""The summary record and how its fields are read back as Python values."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, MAX_TRUNCATED

SUMMARY = np.dtype(
    [
        ("flags", "<u4"),
        ("nulls", "<u4"),
        ("nans", "<u4"),
        ("reserved", "<u4"),
        ("min", "<u8"),
        ("max", "<u8"),
        ("sum", "<u8", (2,)),
    ]
)
"""One column of one block; the package documentation says what the fields hold for each type."""

_TEXTS = frozenset(type.id for type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)))
_FLOATS = frozenset(type.id for type in (pa.float16(), pa.float32(), pa.float64()))
_DOUBLE = struct.Struct("<d")
_WORD = struct.Struct("<Q")
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def minimum(summary: Any, type: pa.DataType) -> Any:
    """The smallest value of a column of ``type``, or None if it is not known.

    Instants come as integers in the unit of the type, because nanoseconds do not fit Python's own. For text
    with a truncated minimum it is a lower bound: no value of the block is smaller.
    """
    if not summary["flags"] & HAS_BOUNDS:
        return None
    bits = int(summary["min"])
    if is_text(type):
        return _text(_bytes(bits).rstrip(b"\0"), type)
    return _number(bits, type)


def maximum(summary: Any, type: pa.DataType) -> Any:
    """The largest value of a column of ``type``, or None if it is not known; see :func:`minimum`.

    For text with a truncated maximum it is a bound that every value of the block is *smaller* than.
    """
    if not summary["flags"] & HAS_BOUNDS:
        return None
    bits = int(summary["max"])
    if not is_text(type):
        return _number(bits, type)
    if not summary["flags"] & MAX_TRUNCATED:
        return _text(_bytes(bits).rstrip(b"\0"), type)
    if _is_unicode(type):
        return _string_above(_text(_bytes(bits), type))
    return _bytes_above(_bytes(bits))


def total(summary: Any, type: pa.DataType) -> Any:
    """The sum of a column of ``type``, exact unless it is a float; None if it was not kept."""
    if not summary["flags"] & HAS_SUM:
        return None
    low, high = summary["sum"]
    if not summary["flags"] & INTEGER_SUM:
        return _float(int(low))
    exact = _signed(int(high), 64) << 64 | int(low)
    return _decimal(exact, type.scale) if pa.types.is_decimal(type) else exact


def is_text(type: pa.DataType) -> bool:
    """Whether values of this type are ordered as strings of bytes."""
    return type.id in _TEXTS


def _is_unicode(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _number(bits: int, type: pa.DataType) -> Any:
    if type.id in _FLOATS:
        return _float(bits)
    if pa.types.is_unsigned_integer(type):
        return bits
    value = _signed(bits, 64)
    if pa.types.is_boolean(type):
        return bool(value)
    if pa.types.is_decimal(type):
        return _decimal(value, type.scale)
    return value


def _signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


def _float(bits: int) -> float:
    value: float = _DOUBLE.unpack(_WORD.pack(bits))[0]
    return value


def _decimal(unscaled: int, scale: int) -> Decimal:
    # From the parts: arithmetic on Decimals would round to the precision of the context.
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def _bytes(bits: int) -> bytes:
    return bits.to_bytes(8, "little")


def _text(prefix: bytes, type: pa.DataType) -> Any:
    # Eight bytes may end inside a character; the whole characters before it are still a lower bound.
    return prefix.decode("utf-8", errors="ignore") if _is_unicode(type) else prefix


def _bytes_above(prefix: bytes) -> bytes | None:
    """The shortest byte string above everything that starts with ``prefix``, or None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _string_above(prefix: str) -> str | None:
    """A string above everything that starts with ``prefix``; UTF-8 sorts by code point."""
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
