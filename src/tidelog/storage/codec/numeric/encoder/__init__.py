"""From blocks of words to pieces: the caller of the encoding kernel."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.encodings import HEAD, VECTOR
from tidelog.storage.codec.numeric.columns import EMPTY, INT64, Column, Words
from tidelog.storage.codec.numeric.encoder import kernels
from tidelog.storage.codec.validity import Validity, no_nulls

_VECTOR_BYTES = 16 * VECTOR
"""More than a vector ever takes: its head, packed words and exceptions."""


class _Scratch(threading.local):
    """Working memory of the kernel, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.words: Words = np.empty(0, np.uint64)

    def for_rows(self, rows: int) -> Words:
        size = kernels.FIXED_SCRATCH + 2 * rows
        if len(self.words) < size:
            self.words = np.empty(size, np.uint64)
        return self.words


_scratch = _Scratch()


def encode_integers(values: Ints, cuts: Ints, arena: Arena) -> Pieces:
    """Encode ``values[cuts[i]:cuts[i + 1]]`` as one self-describing piece each, 8-byte aligned.

    The pieces are PACKED or RAW, so that :func:`~tidelog.storage.codec.numeric.decode_integers` needs no other
    encoding.
    """
    words = np.ascontiguousarray(values, np.int64).view(np.uint64)
    pieces, _, _ = encode_blocks(words, INT64, no_nulls(len(cuts) - 1), EMPTY[1], cuts, arena)
    return pieces


def encode_blocks(
    values: npt.NDArray[Any], column: Column, validity: Validity, valid: Bytes, cuts: Ints, arena: Arena
) -> tuple[Pieces, Bytes, int]:
    """Encode blocks of words as PACKED, DECIMAL, ORDERED or RAW pieces.

    Returns them, remarks on each block on what else may help, and the union of these remarks.

    ``values``: words of ``column.width`` bytes (8 at most). ``validity`` is what the pieces carry; ``valid`` (a byte
    per row, or empty) says which slots are null and may be given any value.
    """
    blocks = len(cuts) - 1
    offsets, lengths = np.empty((2, blocks), np.int64)
    remarks = np.zeros(blocks, np.uint8)
    rows = int(cuts[-1])
    start = arena.reserve(_most_bytes(rows, blocks) + len(validity.content))
    data = arena.data
    by_width = {**EMPTY, column.width: values}
    outcome: int = kernels.encode_run(
        by_width[1],
        by_width[2],
        by_width[4],
        by_width[8],
        valid,
        column.floats,
        column.width,
        column.signed,
        cuts,
        validity.kinds,
        validity.content,
        validity.bounds,
        data,
        data.view(np.uint16),
        data.view(np.uint32),
        data.view(np.uint64),
        start >> 3,
        _scratch.for_rows(rows),
        offsets,
        lengths,
        remarks,
    )
    arena.commit(start, outcome & ~7)
    return Pieces(offsets, lengths), remarks, outcome & 7


def _most_bytes(rows: int, blocks: int) -> int:
    """Bytes the kernel may touch: heads, vectors, and 12 bytes and a bit for each float without an integer."""
    return (rows // VECTOR + blocks) * _VECTOR_BYTES + 13 * rows + (HEAD + 64) * blocks
