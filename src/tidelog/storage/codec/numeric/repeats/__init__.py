"""Columns with repeated values: runs of equal ones, and dictionaries of few distinct ones.

Both are pairs of integer streams (:mod:`tidelog.storage.codec.numeric.pairs`) of the column's words, floats by
their bit patterns:

* RUNS: the value of each run; the length of each run.
* DICTIONARY: the distinct values in order of appearance, 1,024 at most; for each row the number of its value.
"""

from __future__ import annotations

import threading

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import VECTOR, Encoding
from tidelog.storage.codec.numeric.columns import DTYPES, Column, Words
from tidelog.storage.codec.numeric.decoder import decode_blocks, decode_integers
from tidelog.storage.codec.numeric.encoder import encode_integers
from tidelog.storage.codec.numeric.outcomes import BULKY, DICTIONARY_PROMISES, RUNS_PROMISE
from tidelog.storage.codec.numeric.pairs import find_pairs, pair_lengths, write_pairs
from tidelog.storage.codec.numeric.repeats import kernels
from tidelog.storage.codec.piece import Heads, read_heads


class _Scratch(threading.local):
    """Working memory, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.streams = Arena()
        self.words: Words = np.empty(0, np.uint64)

    def areas(self, rows: int) -> tuple[Words, Words, Words]:
        if len(self.words) < 3 * rows:
            self.words = np.empty(3 * rows, np.uint64)
        return self.words[:rows], self.words[rows : 2 * rows], self.words[2 * rows : 3 * rows]


_scratch = _Scratch()


def encode_repeats(arena: Arena, pieces: Pieces, remarks: Bytes, column: Column) -> None:
    """Give blocks new pieces, as runs or with a dictionary, where remarks promise it and they get smaller.

    ``pieces`` and ``remarks`` are those of :func:`~tidelog.storage.codec.numeric.encoder.encode_blocks`;
    the pieces, and the remarks on those that are no longer bulky, are changed in place.
    """
    blocks = np.flatnonzero(remarks & (RUNS_PROMISE | DICTIONARY_PROMISES))
    offsets, lengths, marks = pieces.offsets[blocks], pieces.lengths[blocks], remarks[blocks]
    heads = read_heads(arena.data, offsets, lengths)
    cuts = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(heads.rows, out=cuts[1:])
    values, one, other = _scratch.areas(int(cuts[-1]))
    target = values if column.width == 8 else np.empty(len(values), DTYPES[column.width])
    zeros = np.zeros(len(blocks), np.int64)
    decode_blocks(column, arena.data, offsets, lengths, zeros, heads.rows, target.view(np.uint8))
    if target is not values:
        values[:] = target
    bounds, number_bounds = np.empty((2, len(cuts)), np.int64)
    if (marks & RUNS_PROMISE).any():
        kernels.find_runs(values, cuts, marks & RUNS_PROMISE, one, other, bounds)
        _replace(arena, pieces, remarks, blocks, heads, Encoding.RUNS, one, bounds, other, bounds)
    if (marks & DICTIONARY_PROMISES).any():
        wanted = marks & DICTIONARY_PROMISES
        table = np.empty(kernels.TABLE, np.uint64)
        kernels.find_distinct(values, cuts, wanted, table, one, bounds, other, number_bounds)
        _replace(arena, pieces, remarks, blocks, heads, Encoding.DICTIONARY, one, bounds, other, number_bounds)


def _replace(
    arena: Arena,
    pieces: Pieces,
    remarks: Bytes,
    blocks: Ints,
    heads: Heads,
    encoding: Encoding,
    first: Words,
    first_bounds: Ints,
    second: Words,
    second_bounds: Ints,
) -> None:
    """Write pairs of streams for the blocks that have any, where that saves an eighth of what the block has now.

    Less would not make up for the slower decoding.
    """
    streams = _scratch.streams
    streams.reset()
    ones = encode_integers(first.view(np.int64), first_bounds, streams)
    others = encode_integers(second.view(np.int64), second_bounds, streams)
    shorter = 8 * pair_lengths(heads.body, ones, others) <= 7 * pieces.lengths[blocks]
    chosen = np.flatnonzero(shorter & (first_bounds[1:] > first_bounds[:-1]))
    if len(chosen):
        remarks[blocks[chosen]] &= ~np.uint8(BULKY)
        write_pairs(
            arena,
            pieces,
            blocks[chosen],
            encoding,
            arena.data,
            heads.body[chosen],
            streams.data,
            Pieces(ones.offsets[chosen], ones.lengths[chosen]),
            Pieces(others.offsets[chosen], others.lengths[chosen]),
        )


def decode_runs(
    buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads, starts: Ints, stops: Ints, places: Ints, out: Ints
) -> None:
    """Write rows ``[starts[i], stops[i])`` of RUNS pieces into ``out``, from ``places[i]`` on."""
    wrong = kernels.expand_runs(*_runs(buffer, offsets, lengths, heads), heads.rows, starts, stops, places, out)
    if wrong >= 0:
        raise _wrong_runs(int(wrong), heads)


def decode_run_rows(
    buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads, chosen: Chosen, pieces: Ints, out: Ints
) -> None:
    """Write the chosen rows of RUNS pieces, which have the numbers ``pieces`` among all, to where they belong."""
    begins, firsts, lasts = chosen.begins[pieces], chosen.cuts[:-1][pieces], chosen.cuts[1:][pieces]
    places = np.ascontiguousarray(chosen.places)
    runs = _runs(buffer, offsets, lengths, heads)
    wrong = kernels.pick_runs(*runs, heads.rows, places, begins, firsts, lasts, out)
    if wrong >= 0:
        raise _wrong_runs(int(wrong), heads)


def _runs(buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads) -> tuple[Ints, Ints, Ints]:
    """The values and the lengths of the runs of pieces, and the bounds of each piece among them."""
    of_values, of_lengths = find_pairs(buffer, offsets, lengths, heads)
    values, bounds = _whole_streams(buffer, of_values)
    run_lengths, length_bounds = _whole_streams(buffer, of_lengths)
    if (bounds != length_bounds).any():
        raise CorruptionError("a piece of runs has other numbers of values and of lengths")
    return values, run_lengths, bounds


def _wrong_runs(piece: int, heads: Heads) -> CorruptionError:
    return CorruptionError(f"the runs of piece {piece} do not have its {int(heads.rows[piece])} rows together")


def decode_dictionaries(
    buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads, starts: Ints, stops: Ints, out: Ints
) -> None:
    """Write rows ``[starts[i], stops[i])`` of DICTIONARY pieces into ``out``, one behind the other."""
    of_distinct, of_numbers = find_pairs(buffer, offsets, lengths, heads)
    distinct, bounds = _whole_streams(buffer, of_distinct)
    decode_integers(buffer, of_numbers.offsets, of_numbers.lengths, starts, stops, out)
    cuts = np.zeros(len(offsets) + 1, np.int64)
    np.cumsum(stops - starts, out=cuts[1:])
    wrong = kernels.expand_dictionaries(distinct, bounds, cuts, out)
    if wrong >= 0:
        size = int(bounds[wrong + 1] - bounds[wrong])
        raise CorruptionError(f"a row of piece {wrong} refers to none of the {size} values of its dictionary")


def _whole_streams(buffer: Bytes, streams: Pieces) -> tuple[Ints, Ints]:
    """All values of streams, and the bounds of each among them."""
    offsets, lengths = streams.offsets, streams.lengths
    heads = read_heads(buffer, offsets, lengths)
    bounds = np.zeros(len(offsets) + 1, np.int64)
    np.cumsum(heads.rows, out=bounds[1:])
    # A vector takes a word at least: more values than this cannot be in there, and are not allocated.
    excess = heads.rows > (lengths >> 3) * VECTOR
    if excess.any():
        i = int(np.argmax(excess))
        raise CorruptionError(f"a stream of {int(lengths[i])} bytes claims {int(heads.rows[i])} values")
    values = np.empty(int(bounds[-1]), np.int64)
    decode_integers(buffer, offsets, lengths, np.zeros(len(offsets), np.int64), heads.rows, values)
    return values, bounds
