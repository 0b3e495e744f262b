"""Single rows of columns of numbers, where few are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import VECTOR, Encoding
from tidelog.storage.codec.numeric.chosen import kernels
from tidelog.storage.codec.numeric.codec import ALIGNMENT, array_of, decode_left
from tidelog.storage.codec.numeric.columns import DTYPES, EMPTY, INT64, Column, aligned, column_of
from tidelog.storage.codec.numeric.decoder import COMPLAINTS
from tidelog.storage.codec.numeric.outcomes import HAS_LEFT, HAS_NULLS
from tidelog.storage.codec.numeric.repeats import decode_run_rows
from tidelog.storage.codec.piece import check_ranges, read_heads
from tidelog.storage.codec.validity import decode_validity_rows


def decode_number_rows(
    types: Sequence[pa.DataType], buffer: Bytes, offsets: Ints, lengths: Ints, chosen: Chosen
) -> list[pa.Array]:
    """Some rows of several columns, a row of ``offsets`` and ``lengths`` for each and a column for each piece.

    The columns share one stretch of memory. Raises :class:`CorruptionError`.
    """
    columns = [column_of(type) for type in types]
    rows = len(chosen.places)
    bases = list(accumulate(((column.width * rows + ALIGNMENT - 1) & -ALIGNMENT for column in columns), initial=0))
    memory, owner = allocate(bases.pop())
    cuts = chosen.cuts
    remarks, outcome = _decode(
        columns, bases, buffer, offsets, lengths, chosen.places, chosen.begins, cuts[:-1], cuts[1:], cuts[:-1], memory
    )
    arrays = []
    for i, (type, column, base) in enumerate(zip(types, columns, bases, strict=True)):
        size = column.width * rows
        bitmap, nulls = None, 0
        if outcome and (own := remarks[i]).any():
            heads = read_heads(buffer, offsets[i], lengths[i])
            left = np.flatnonzero(own & HAS_LEFT)
            if len(left):
                words = memory[base : base + size].view(DTYPES[column.word])
                _take_left(column, buffer, offsets[i][left], lengths[i][left], chosen, left, words)
            if (own & HAS_NULLS).any():
                bitmap, nulls = decode_validity_rows(buffer, offsets[i], heads, chosen)
        arrays.append(array_of(type, column, memory[base : base + size], owner.slice(base, size), bitmap, nulls))
    return arrays


def decode_stream_rows(
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    places: Ints,
    begins: Ints,
    firsts: Ints,
    lasts: Ints,
    targets: Ints,
    out: Ints,
) -> None:
    """Some values of streams of integers.

    Of stream i those numbered ``places[k] - begins[i]`` for k from ``firsts[i]`` to ``lasts[i]`` (exclusive). They go
    to ``out`` from ``targets[i]`` on. Raises :class:`CorruptionError`.
    """
    _, outcome = _decode(
        [INT64],
        [0],
        buffer,
        offsets[None, :],
        lengths[None, :],
        places,
        begins,
        firsts,
        lasts,
        targets,
        out.view(np.uint8),
    )
    if outcome:
        raise CorruptionError("an integer stream has nulls or another encoding than packed and raw")


def _decode(
    columns: Sequence[Column],
    bases: Sequence[int],
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    places: Ints,
    begins: Ints,
    firsts: Ints,
    lasts: Ints,
    targets: Ints,
    memory: Bytes,
) -> tuple[npt.NDArray[np.uint8], int]:
    words = aligned(buffer[: len(buffer) & ~7].view(np.uint64))
    remarks = np.empty(offsets.shape, np.uint8)
    views: dict[int, npt.NDArray[Any]] = {word: memory.view(DTYPES[word]) for word in {each.word for each in columns}}
    outcome: int = kernels.decode_rows(
        words.view(np.uint8),
        words,
        np.ascontiguousarray(offsets),
        np.ascontiguousarray(lengths),
        np.array([column.floats for column in columns], np.uint8),
        np.array([column.width for column in columns], np.int64),
        np.array(bases, np.int64),
        np.ascontiguousarray(places),
        begins,
        firsts,
        lasts,
        targets,
        memory,
        views.get(2, EMPTY[2]),
        views.get(4, EMPTY[4]),
        views.get(8, EMPTY[8]),
        np.empty(2 * VECTOR, np.uint64),
        remarks,
    )
    if outcome < 0:
        piece, complaint = divmod(-outcome, 8)
        raise CorruptionError(f"piece {piece} of {offsets.size} {COMPLAINTS[complaint]}")
    return remarks, outcome


def _take_left(
    column: Column, buffer: Bytes, offsets: Ints, lengths: Ints, chosen: Chosen, pieces: Ints, out: npt.NDArray[Any]
) -> None:
    """Put the rows of pieces that the kernel does not know where they belong; they are decoded whole but for runs."""
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, np.zeros(len(pieces), np.int64), chosen.rows[pieces])
    runs = heads.encoding == Encoding.RUNS
    if column.width == 8 and runs.any():
        own, others = np.flatnonzero(runs), np.flatnonzero(~runs)
        decode_run_rows(buffer, offsets[own], lengths[own], heads.select(own), chosen, pieces[own], out.view(np.int64))
        if not len(others):
            return
        offsets, lengths, pieces, heads = offsets[others], lengths[others], pieces[others], heads.select(others)
    rows = chosen.rows[pieces]
    scale = column.width // column.word
    whole = np.empty(int(rows.sum()) * scale, out.dtype)
    none, all_left = np.zeros(len(rows), np.int64), np.full(len(rows), HAS_LEFT, np.uint8)
    decode_left(column, buffer, offsets, lengths, heads, none, rows, all_left, whole.view(np.uint8))
    places, which = chosen.moved(pieces)
    out.reshape(-1, scale)[which] = whole.reshape(-1, scale)[places]
