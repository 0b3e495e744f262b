"""From pieces back to words: the caller of the decoding kernel."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.numeric.columns import DTYPES, EMPTY, INT64, Column, Words, aligned
from tidelog.storage.codec.numeric.decoder import kernels

HAS_NULLS, HAS_LEFT = kernels.HAS_NULLS, kernels.HAS_LEFT
"""Remarks on a run: some of its pieces have nulls; some have an encoding that is not the kernel's."""

_COMPLAINTS = {
    kernels.BAD_PLACE: "does not lie inside its buffer, 8-byte aligned, with the length its head needs",
    kernels.BAD_RANGE: "does not hold the rows asked for, or they are not whole vectors",
    kernels.BAD_ENCODING: "has an encoding or a parameter that its column type cannot have",
    kernels.BAD_BODY: "has a body that contradicts its head",
    kernels.BAD_ROOM: "holds other rows than there is room for",
}


class _Scratch(threading.local):
    """Working memory of the kernel, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.words: Words = np.empty(kernels.SCRATCH, np.uint64)


_scratch = _Scratch()


def decode_integers(buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, out: Ints) -> None:
    """Decode values ``[starts[i], stops[i])`` of each stream in ``buffer`` into ``out``, one after the other.

    ``starts`` are multiples of 1,024; ``stops`` are multiples of 1,024 or the stream's number of values.
    ``out`` is contiguous and has room for exactly all of them. Raises :class:`CorruptionError` when the bytes
    contradict themselves or the values asked for.
    """
    left, remarks = decode_blocks(INT64, buffer, offsets, lengths, starts, stops, out.view(np.uint8))
    if remarks:
        what = f"encoding {int(buffer[offsets[np.argmax(left)]])}" if remarks & HAS_LEFT else "nulls"
        raise CorruptionError(f"an integer stream has {what}; streams are packed or raw, without nulls")


def decode_blocks(
    column: Column, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, out: Bytes
) -> tuple[Bytes, int]:
    """Decode rows of RAW, PACKED, DECIMAL and ORDERED pieces into ``out``, one behind the other.

    Rows of pieces with another encoding stay as they are and are marked in the first result; the second says
    whether there are any and whether some piece has nulls. Raises :class:`CorruptionError`.
    """
    words = aligned(buffer[: len(buffer) & ~7].view(np.uint64))
    left = np.empty(len(offsets), np.uint8)
    views: dict[int, npt.NDArray[Any]] = {**EMPTY, column.word: out.view(DTYPES[column.word])}
    outcome: int = kernels.decode_run(
        words.view(np.uint8),
        words,
        offsets,
        lengths,
        starts,
        stops,
        column.floats,
        column.width,
        out,
        views[2],
        views[4],
        views[8],
        _scratch.words,
        left,
    )
    if outcome < 0:
        piece, complaint = divmod(-outcome, 8)
        raise CorruptionError(f"piece {piece} of {len(offsets)} {_COMPLAINTS[complaint]}")
    return left, outcome
