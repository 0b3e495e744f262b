"""From text arrays to pieces."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces, align
from tidelog.storage.codec.numeric import encode_integers
from tidelog.storage.codec.piece import VECTOR, Encoding, ValidityKind, body_offset, write_head
from tidelog.storage.codec.text import kernels
from tidelog.storage.codec.text.compression import Compressor
from tidelog.storage.codec.text.layout import (
    DICTIONARY_HEAD,
    DIRECTORY_ENTRY,
    LARGEST_TEXT,
    PLAIN_HEAD,
)
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.validity import encode_validity, valid_bits

_SEGMENT_BYTES = 1 << 17
"""Longest segment of several vectors: Zstandard finds hardly more in a longer one, and a read of one vector
expands no more than this."""

_WORTH_COMPRESSING = 1 << 10
"""Bytes of dictionary below which the call costs more time than its space is worth."""

_NOTHING: Bytes = np.empty(0, np.uint8)


def encode_text(array: pa.Array, cuts: Ints, arena: Arena, level: int = 1) -> Pieces:
    """Encode rows ``cuts[i]`` to ``cuts[i + 1]`` of a text or binary array as piece ``i`` in ``arena``.

    ``level`` 0 compresses with LZ4, others with that level of Zstandard. Raises :class:`InputError`, with
    nothing committed to the arena, if a block holds more than 2 GiB of text.
    """
    compressor = Compressor(level)
    validity = encode_validity(array, cuts)
    run = _survey(array, cuts)
    offsets, lengths = np.empty((2, len(cuts) - 1), np.int64)
    for block, kind in enumerate(run.kinds):
        if kind == kernels.PLAIN:
            encoding, parameter, parts = run.plain(block, compressor)
        elif kind == kernels.NOTHING:
            encoding, parameter, parts = Encoding.TEXT_CONSTANT, 0, []
        else:
            encoding, parameter, parts = run.dictionary(block, compressor)
        rows = int(cuts[block + 1] - cuts[block])
        offsets[block], lengths[block] = _put_piece(arena, encoding, parameter, rows, *validity.of_block(block), parts)
    return Pieces(offsets, lengths)


@dataclass(frozen=True)
class _Run:
    """A run of blocks with the encoding of each chosen; lists have one item per block."""

    data: Bytes
    offsets: Ints
    mask: Bytes
    cuts: Ints
    kinds: list[int]
    entries: list[int]
    text_bytes: list[int]
    values: list[Bytes]
    """The distinct values of a DICTIONARY or CONSTANT block, one after the other."""
    streams: list[Bytes]
    """Indexes of a DICTIONARY block, lengths of a PLAIN one."""
    sizes: list[Bytes]
    """The stream of the lengths of the distinct values."""

    def dictionary(self, block: int, compressor: Compressor) -> tuple[Encoding, int, list[Bytes]]:
        """Encoding, parameter and parts of the body of a DICTIONARY or CONSTANT block."""
        values = self.values[block]
        stored = compressor.shorter(values) if len(values) >= _WORTH_COMPRESSING else values
        constant = self.kinds[block] == kernels.CONSTANT
        streams = [] if constant else [self.streams[block], self.sizes[block]]
        head = DICTIONARY_HEAD.pack(
            self.entries[block],
            len(values),
            len(stored),
            compressor.compression,
            *(len(stream) for stream in streams or [_NOTHING, _NOTHING]),
        )
        encoding = Encoding.TEXT_CONSTANT if constant else Encoding.TEXT_DICTIONARY
        return encoding, 0, [np.frombuffer(head, np.uint8), *streams, stored]

    def plain(self, block: int, compressor: Compressor) -> tuple[Encoding, int, list[Bytes]]:
        """Encoding, parameter and parts of the body of a PLAIN block."""
        content, bounds = self._content(block)
        vectors = len(bounds) - 1
        wanted = min(max(-(-len(content) // _SEGMENT_BYTES), 1), vectors)
        per_segment = -(-vectors // wanted)
        ends = bounds[::per_segment].tolist()
        if vectors % per_segment:
            ends.append(len(content))
        segments = [compressor.shorter(content[a:b]) for a, b in pairwise(ends)]
        directory = np.empty(2 + vectors + len(segments), DIRECTORY_ENTRY)
        stream = self.streams[block]
        PLAIN_HEAD.pack_into(directory.data, 0, len(stream), compressor.compression)
        directory[2 : 2 + vectors] = np.diff(bounds)
        directory[2 + vectors :] = [len(segment) for segment in segments]
        return Encoding.TEXT_PLAIN, per_segment, [directory.view(np.uint8), stream, *segments]

    def _content(self, block: int) -> tuple[Bytes, Ints]:
        """The bytes of all valid rows of a block, and where each of its vectors starts and the last ends."""
        first, last = int(self.cuts[block]), int(self.cuts[block + 1])
        places = self.offsets[first : last + 1]
        starts = np.append(np.arange(0, last - first, VECTOR), last - first)
        start, stop = int(places[0]), int(places[-1])
        if stop - start == self.text_bytes[block]:
            return self.data[start:stop], places[starts] - start
        # Null slots may have bytes of their own in Arrow's memory; these are left behind.
        rows = first + np.flatnonzero(self.mask[first:last])
        content = scratch.array("content", self.text_bytes[block], np.uint8)
        sizes = scratch.array("sizes", len(rows), np.int64)
        kernels.copy_values(self.data, self.offsets, rows, content, sizes)
        ends = np.append(0, np.cumsum(sizes))
        return content, ends[np.searchsorted(rows, first + starts)]


def _survey(array: pa.Array, cuts: Ints) -> _Run:
    """Choose encodings, collect distinct values and encode the streams of integers."""
    data, offsets = _memory(array)
    mask = valid_bits(array) if array.null_count else _NOTHING
    blocks = len(cuts) - 1
    rows = np.diff(cuts)
    longest = int(rows.max(initial=0))
    told = np.empty((blocks, kernels.FIELDS), np.int64)
    # A block has at most one entry a row; entries' sizes follow the streams in the same memory.
    numbers = scratch.array("numbers", 2 * len(array) + blocks, np.int64)
    found = scratch.array("found", len(array) + blocks, np.int64)
    kernels.find_distinct(
        data,
        offsets,
        mask,
        cuts,
        scratch.array("table", 2 * longest + 2, np.int32),
        scratch.array("known", longest + 2, np.uint64),
        numbers,
        found,
        told,
    )
    kinds, entries, text_bytes, value_bytes = told.T
    if (text_bytes > LARGEST_TEXT).any():
        block = int(np.argmax(text_bytes))
        raise InputError(
            f"block {block} has {int(rows[block])} rows with {int(text_bytes[block])} bytes of text in one column; "
            f"a block holds at most {LARGEST_TEXT}: cut smaller blocks"
        )
    streamed = kinds <= kernels.DICTIONARY
    stream_cuts = np.append(0, np.cumsum(np.where(streamed, rows, 0)))
    size_cuts = np.append(0, np.cumsum(entries))
    used = int(stream_cuts[-1])
    total = int(size_cuts[-1])
    values = scratch.array("values", int(value_bytes.sum()), np.uint8)
    kernels.copy_values(data, offsets, found[:total], values, numbers[used : used + total])
    scratch.streams.reset()
    encoded = encode_integers(
        numbers[: used + total], np.concatenate([stream_cuts, used + size_cuts[1:]]), scratch.streams
    )
    memory = scratch.streams.data
    images = [
        memory[start : start + length]
        for start, length in zip(encoded.offsets.tolist(), encoded.lengths.tolist(), strict=True)
    ]
    value_ends = np.cumsum(value_bytes)
    return _Run(
        data,
        offsets,
        mask,
        cuts,
        kinds.tolist(),
        entries.tolist(),
        text_bytes.tolist(),
        np.split(values, value_ends[:-1]),
        images[:blocks],
        images[blocks:],
    )


def _memory(array: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of an array and, for each row and one more, where it starts among them."""
    _, places, content = array.buffers()
    data = _NOTHING if content is None else np.frombuffer(content, np.uint8)
    offsets: Ints = scratch.array("offsets", len(array) + 1, np.int64)
    if places is None or len(array) == 0:  # an empty array may come without offsets
        offsets[:] = 0
        return data, offsets
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype("<i8" if wide else "<i4")
    offsets[:] = np.frombuffer(places, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return data, offsets


def _put_piece(
    arena: Arena,
    encoding: Encoding,
    parameter: int,
    rows: int,
    kind: ValidityKind,
    validity: Bytes,
    parts: list[Bytes],
) -> tuple[int, int]:
    """Write a piece of these parts, each 8-byte aligned; returns its offset and length."""
    size = body_offset(len(validity)) + sum(align(len(part)) for part in parts)
    start = arena.reserve(size)
    target = arena.data[start : start + size]
    at = write_head(target, encoding, parameter, rows, kind, validity)
    for part in parts:
        end = at + len(part)
        target[at:end] = part
        at = align(end)
        target[end:at] = 0
    arena.commit(start, size)
    return start, size
