"""From an Arrow array to summaries: picks the kernel and hands it the array's memory."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.storage.summary import kernels
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM
from tidelog.storage.summary.record import SUMMARY

if TYPE_CHECKING:  # only names of array types: summaries do not need the codecs
    from tidelog.storage.codec.arena import Bytes, DistinctTexts, Ints

_SIGN = -(1 << 63)
_WORD = (1 << 64) - 1
_NO_MASK: Bytes = np.empty(0, np.uint8)

Words = npt.NDArray[np.uint64]
WORDS = SUMMARY.itemsize // 8
"""Words of a summary."""


class _Kind(Enum):
    """What a type's values are to the kernels."""

    BOOLEAN = auto()
    INTEGER = auto()
    UNSIGNED = auto()
    INSTANT = auto()
    FLOAT = auto()
    WIDE_DECIMAL = auto()
    TEXT = auto()
    FIXED_TEXT = auto()
    OTHER = auto()


def summarise(array: pa.Array, cuts: Ints, distinct: DistinctTexts | None = None) -> npt.NDArray[np.void]:
    """Summaries of the blocks of a column: of rows ``cuts[i]`` to ``cuts[i + 1]`` for each ``i``.

    The bounds of text are taken from its ``distinct`` values if they are known. ``cuts`` ascends within
    ``0 .. len(array)``; a block may be empty, and holds fewer than 2**32 rows.
    """
    cuts = np.ascontiguousarray(cuts, np.int64)
    if len(cuts) == 0 or cuts[0] < 0 or cuts[-1] > len(array) or (cuts[1:] < cuts[:-1]).any():
        raise ValueError(f"cuts must ascend within 0 .. {len(array)}, the rows of the array; found {cuts}")
    words = np.zeros((len(cuts) - 1, WORDS), np.uint64)
    summarise_into(array, cuts, words, distinct)
    found: npt.NDArray[np.void] = words.view(SUMMARY)[:, 0]
    return found


def summarise_into(array: pa.Array, cuts: Ints, words: Words, distinct: DistinctTexts | None = None) -> None:
    """Like :func:`summarise`, into the words of zeroed summaries, a row for each; ``cuts`` are trusted."""
    mask = _mask(array)
    kind, dtype = _KINDS.get(array.type.id, _UNKNOWN)
    if kind is _Kind.FLOAT:
        _summarise_floats(_values(array, dtype), mask, cuts, words)
    elif kind is _Kind.TEXT or kind is _Kind.FIXED_TEXT:
        if distinct is not None:
            kernels.summarise_text(distinct.data, distinct.offsets, _NO_MASK, distinct.cuts, words)
            _put_nulls(mask, cuts, words)
        else:
            data, offsets = _text(array, dtype) if kind is _Kind.TEXT else _fixed_text(array)
            kernels.summarise_text(data, offsets, mask, cuts, words)
        words[:, 2:4] = words[:, 2:4].byteswap()  # compared as big-endian words, kept in the order of the text
    elif kind is _Kind.WIDE_DECIMAL:
        kernels.summarise_decimals(_values(array, dtype, 2), mask, cuts, words)
    elif kind is not _Kind.OTHER:
        values = _bits(array) if kind is _Kind.BOOLEAN else _values(array, dtype)
        _summarise_integers(values, kind, mask, cuts, words)
    else:
        _put_nulls(mask, cuts, words)


def summarise_numbers(values: npt.NDArray[Any], type: pa.DataType, cuts: Ints, words: Words) -> None:
    """Like :func:`summarise_into`, of values of a type of numbers without nulls.

    The values of a float column are floats, those of all others integers.
    """
    kind, _ = _KINDS[type.id]
    if kind is _Kind.FLOAT:
        _summarise_floats(values, _NO_MASK, cuts, words)
    else:
        _summarise_integers(values, kind, _NO_MASK, cuts, words)


def summarise_consecutive(first: int, cuts: Ints, words: Words) -> None:
    """Like :func:`summarise_into`, of 64-bit integers that count up by one from ``first`` on; no block is empty."""
    lows, highs, counts = first + cuts[:-1], first + cuts[1:] - 1, cuts[1:] - cuts[:-1]
    words[:, 0] = HAS_BOUNDS | HAS_SUM | INTEGER_SUM
    words[:, 2], words[:, 3] = lows, highs
    if 2 * (abs(first) + int(cuts[-1])) * int(counts.max()) < 1 << 63:
        sums = (lows + highs) * counts >> 1
        words[:, 4], words[:, 5] = sums, sums >> 63
    else:
        for row, low, count in zip(words, lows.tolist(), counts.tolist(), strict=True):
            total = (2 * low + count - 1) * count // 2
            row[4], row[5] = total & _WORD, total >> 64 & _WORD


def _summarise_floats(values: npt.NDArray[Any], mask: Bytes, cuts: Ints, words: Words) -> None:
    if values.dtype != np.float64:
        with np.errstate(invalid="ignore"):  # widening a signalling NaN gives a quiet one, and that is fine here
            values = values.astype(np.float64)
    kernels.summarise_floats(values, values.view(np.int64), mask, cuts, words)


def _summarise_integers(values: npt.NDArray[Any], kind: _Kind, mask: Bytes, cuts: Ints, words: Words) -> None:
    integers = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    flip = _SIGN if kind is _Kind.UNSIGNED else 0
    kernels.summarise_integers(integers, mask, cuts, flip, kind is not _Kind.INSTANT, words)


def _put_nulls(mask: Bytes, cuts: Ints, words: Words) -> None:
    """Count the nulls of each block."""
    if len(mask):
        before = np.concatenate(([0], np.cumsum(mask == 0)))
        words.view(SUMMARY)[:, 0]["nulls"] = before[cuts[1:]] - before[cuts[:-1]]


_UNKNOWN = (_Kind.OTHER, np.dtype(np.uint8))

_KINDS: dict[int, tuple[_Kind, np.dtype[Any]]] = {
    type.id: (kind, np.dtype(dtype))
    for type, kind, dtype in [
        (pa.bool_(), _Kind.BOOLEAN, "<u1"),
        (pa.int8(), _Kind.INTEGER, "<i1"),
        (pa.int16(), _Kind.INTEGER, "<i2"),
        (pa.int32(), _Kind.INTEGER, "<i4"),
        (pa.int64(), _Kind.INTEGER, "<i8"),
        # Narrow unsigned integers are widened by value; the widest are taken as patterns in flipped order.
        (pa.uint8(), _Kind.INTEGER, "<u1"),
        (pa.uint16(), _Kind.INTEGER, "<u2"),
        (pa.uint32(), _Kind.INTEGER, "<u4"),
        (pa.uint64(), _Kind.UNSIGNED, "<i8"),
        (pa.duration("s"), _Kind.INTEGER, "<i8"),
        (pa.decimal32(1), _Kind.INTEGER, "<i4"),
        (pa.decimal64(1), _Kind.INTEGER, "<i8"),
        (pa.decimal128(1), _Kind.WIDE_DECIMAL, "<i8"),
        (pa.timestamp("s"), _Kind.INSTANT, "<i8"),
        (pa.date32(), _Kind.INSTANT, "<i4"),
        (pa.date64(), _Kind.INSTANT, "<i8"),
        (pa.time32("s"), _Kind.INSTANT, "<i4"),
        (pa.time64("us"), _Kind.INSTANT, "<i8"),
        (pa.float16(), _Kind.FLOAT, "<f2"),
        (pa.float32(), _Kind.FLOAT, "<f4"),
        (pa.float64(), _Kind.FLOAT, "<f8"),
        (pa.string(), _Kind.TEXT, "<i4"),
        (pa.binary(), _Kind.TEXT, "<i4"),
        (pa.large_string(), _Kind.TEXT, "<i8"),
        (pa.large_binary(), _Kind.TEXT, "<i8"),
        (pa.binary(1), _Kind.FIXED_TEXT, "<u1"),
    ]
}
"""Kind and type in memory (of the offsets, for text), by the id of an Arrow type."""


def _mask(array: pa.Array) -> Bytes:
    """One byte a row, zero where null; empty if nothing is null."""
    return _bits(array.is_valid()) if array.null_count else _NO_MASK


def _bits(array: pa.BooleanArray) -> Bytes:
    """The values of a boolean array, one byte a row."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, np.uint8)
    first = array.offset // 8
    packed = np.frombuffer(buffer, np.uint8)[first : (array.offset + len(array) + 7) // 8]
    skip = array.offset - 8 * first
    return np.unpackbits(packed, bitorder="little")[skip : skip + len(array)]


def _values(array: pa.Array, dtype: np.dtype[Any], per_row: int = 1) -> npt.NDArray[Any]:
    """The values of a fixed-width array, ``per_row`` for each row, aligned."""
    return _view(array.buffers()[1], dtype, array.offset * per_row, len(array) * per_row)


def _view(buffer: pa.Buffer | None, dtype: np.dtype[Any], first: int, count: int) -> npt.NDArray[Any]:
    if buffer is None or count == 0:
        return np.empty(0, dtype)
    values = np.frombuffer(buffer, dtype, count, first * dtype.itemsize)
    return values if values.flags.aligned else values.copy()


def _text(array: pa.Array, dtype: np.dtype[Any]) -> tuple[Bytes, Ints]:
    """The data of a text array and, for each row and one more, where it starts there."""
    if len(array) == 0:  # such an array may come without offsets
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, places, data = array.buffers()
    offsets = _view(places, dtype, array.offset, len(array) + 1)
    return _data(data), offsets.astype(np.int64, copy=False)


def _fixed_text(array: pa.Array) -> tuple[Bytes, Ints]:
    first, width = array.offset, array.type.byte_width
    offsets = np.arange(first, first + len(array) + 1, dtype=np.int64) * width
    return _data(array.buffers()[1]), offsets


def _data(buffer: pa.Buffer | None) -> Bytes:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
