"""From pieces back to words: the caller of the decoding kernel."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.numeric.columns import DTYPES, EMPTY, INT64, Column, Words, aligned
from tidelog.storage.codec.numeric.decoder import kernels
from tidelog.storage.codec.numeric.outcomes import (
    BAD_BODY,
    BAD_ENCODING,
    BAD_PLACE,
    BAD_RANGE,
    BAD_ROOM,
    HAS_LEFT,
)

COMPLAINTS = {
    BAD_PLACE: "does not lie inside its buffer, 8-byte aligned, with the length its head needs",
    BAD_RANGE: "does not hold the rows asked for, or they are not whole vectors",
    BAD_ENCODING: "has an encoding or a parameter that its column type cannot have",
    BAD_BODY: "has a body that contradicts its head",
    BAD_ROOM: "holds other rows than there is room for",
}
"""What may be wrong with a piece, in words."""


class _Scratch(threading.local):
    """Working memory of the kernel, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.words: Words = np.empty(2 * VECTOR, np.uint64)


_scratch = _Scratch()


def decode_integers(buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, out: Ints) -> None:
    """Decode values ``[starts[i], stops[i])`` of each stream in ``buffer`` into ``out``, one after the other.

    ``starts`` are multiples of 1,024; ``stops`` are multiples of 1,024 or the stream's number of values.
    ``out`` is contiguous and has room for exactly all of them. Raises :class:`CorruptionError` when the bytes
    contradict themselves or the values asked for.
    """
    pieces, remarks = decode_blocks(INT64, buffer, offsets, lengths, starts, stops, out.view(np.uint8))
    if remarks:
        what = f"encoding {int(buffer[offsets[np.argmax(pieces & HAS_LEFT)]])}" if remarks & HAS_LEFT else "nulls"
        raise CorruptionError(f"an integer stream has {what}; streams are packed or raw, without nulls")


def decode_blocks(
    column: Column, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, out: Bytes
) -> tuple[Bytes, int]:
    """Decode rows of the pieces of one column into ``out``, one behind the other; see :func:`decode_pieces`."""
    counts = stops - starts
    ends = np.cumsum(counts) * column.width
    if (int(ends[-1]) if len(ends) else 0) != len(out):
        raise CorruptionError(
            f"{len(offsets)} pieces hold {int(counts.sum())} rows, but there is room for {len(out)} bytes"
        )
    kinds = np.full(len(offsets), column.floats, np.uint8)
    widths = np.full(len(offsets), column.width, np.int64)
    return decode_pieces(
        kinds, widths, ends - counts * column.width, buffer, offsets, lengths, starts, stops, out, {column.word}
    )


def decode_pieces(
    floats: Bytes,
    widths: Ints,
    targets: Ints,
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    starts: Ints,
    stops: Ints,
    out: Bytes,
    words_used: set[int],
) -> tuple[Bytes, int]:
    """Decode rows of RAW, PACKED, DECIMAL and ORDERED pieces of any columns, each to its target, a byte of ``out``.

    ``words_used`` are the bytes of the machine words of all columns. Rows of pieces with another encoding stay as they
    are. The first result has remarks on each piece (``HAS_NULLS``, ``HAS_LEFT``), the second all of them together.
    Raises :class:`CorruptionError`.
    """
    words = aligned(buffer[: len(buffer) & ~7].view(np.uint64))
    remarks = np.empty(len(offsets), np.uint8)
    views: dict[int, npt.NDArray[Any]] = {word: out.view(DTYPES[word]) for word in words_used}
    views[1] = out
    return remarks, decode_located(words, offsets, lengths, starts, stops, floats, widths, targets, views, remarks)


def decode_located(
    words: Words,
    offsets: Ints,
    lengths: Ints,
    starts: Ints,
    stops: Ints,
    floats: Bytes,
    widths: Ints,
    targets: Ints,
    views: Mapping[int, npt.NDArray[Any]],
    remarks: Bytes,
) -> int:
    """:func:`decode_pieces` for who has everything at hand: ``views`` are the output as words of all widths used.

    Fills in the remarks on each piece and returns all of them together.
    """
    outcome: int = kernels.decode_run(
        words.view(np.uint8),
        words,
        offsets,
        lengths,
        starts,
        stops,
        floats,
        widths,
        targets,
        views[1],
        views.get(2, EMPTY[2]),
        views.get(4, EMPTY[4]),
        views.get(8, EMPTY[8]),
        _scratch.words,
        remarks,
    )
    if outcome < 0:
        piece, complaint = divmod(-outcome, 8)
        raise CorruptionError(f"piece {piece} of {len(offsets)} {COMPLAINTS[complaint]}")
    return outcome


def cut_located(
    words: Words,
    offsets: Ints,
    lengths: Ints,
    rows: Ints,
    bounds: Ints,
    widths: Ints,
    arranged: tuple[Ints, Ints, Ints],
    cuts: Ints,
) -> int:
    """Find where leaves are cut by a range of the values of their first column, which rise (``kernels.cut_leaves``).

    Fills in the starts, stops and targets that are ``arranged`` for :func:`decode_located`, and the cuts, or returns
    remarks for which nothing can be found. Raises :class:`CorruptionError`.
    """
    outcome: int = kernels.cut_leaves(words, offsets, lengths, rows, bounds, widths, *arranged, cuts, _scratch.words)
    if outcome < 0:
        leaf, complaint = divmod(-outcome, 8)
        raise CorruptionError(f"the first column of leaf {leaf} of {len(rows)} {COMPLAINTS[complaint]}")
    return outcome


def find_in_range(
    column: Column,
    low: float,
    high: float,
    nans: bool,
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    rows: Ints,
    places: Ints,
) -> tuple[int, Bytes]:
    """How many values of the pieces of a column lie in a closed range; the first of them are put into ``places``.

    A place is the number of a row among those of all pieces. The second result is not 0 for pieces that were passed
    over, having nulls or an encoding that must be decoded. Bounds of integer columns are integers of the column's type.
    Raises :class:`CorruptionError`.
    """
    left = np.zeros(len(offsets), np.uint8)
    if low > high and not nans:
        return 0, left
    as_bits = _float_bits if column.floats else _integer_bits
    found: int = kernels.find_in_range(
        aligned(buffer[: len(buffer) & ~7].view(np.uint64)),
        offsets,
        lengths,
        rows,
        int(column.floats),
        column.width,
        as_bits(low),
        as_bits(high),
        int(nans),
        places,
        _scratch.words,
        left,
    )
    if found < 0:
        piece, complaint = divmod(-found, 8)
        raise CorruptionError(f"piece {piece} of {len(offsets)} {COMPLAINTS[complaint]}")
    return found, left


def _float_bits(value: float) -> np.uint64:
    return np.float64(value).view(np.uint64)


def _integer_bits(value: float) -> np.uint64:
    return np.uint64(int(value) & 0xFFFF_FFFF_FFFF_FFFF)
