"""From text arrays to pieces."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.storage.codec.arena import ALIGNMENT, Arena, Bytes, DistinctTexts, Ints, Pieces, align
from tidelog.storage.codec.encodings import HEAD, VECTOR, Encoding
from tidelog.storage.codec.numeric import encode_integers
from tidelog.storage.codec.piece import body_offset, write_head
from tidelog.storage.codec.text.compression import Compressor
from tidelog.storage.codec.text.encoder import kernels
from tidelog.storage.codec.text.layout import (
    CONSTANT,
    DICTIONARY,
    DICTIONARY_HEAD,
    DIRECTORY_ENTRY,
    LARGEST_TEXT,
    NOTHING,
    PLAIN,
    PLAIN_HEAD,
)
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.text.template.encoder import TemplateEncoder, Text
from tidelog.storage.codec.validity import Validity, encode_validity, valid_bits

_SEGMENT_BYTES = 1 << 17
"""About the longest segment of several vectors: Zstandard finds hardly more in a longer one (a single vector of log
lines costs 4 % more, a whole block 1 % less), and a read of one vector expands no more than this or the vector."""

_WORTH_COMPRESSING = 1 << 13
"""Bytes of dictionary below which the call costs more time than its space is worth."""

_PADDING = [b"\0" * (-size % ALIGNMENT) for size in range(ALIGNMENT)]
"""By the size, modulo the alignment, of what is to be padded."""

_Part: TypeAlias = bytes | memoryview | pa.Buffer
"""Bytes of a body, to be padded to the alignment of streams."""

_NOTHING: Bytes = np.empty(0, np.uint8)


def encode_text(array: pa.Array, cuts: Ints, arena: Arena, level: int = 1) -> Pieces:
    """Encode rows ``cuts[i]`` to ``cuts[i + 1]`` of a text or binary array as piece ``i`` in ``arena``.

    ``level`` 0 compresses with LZ4, others with that level of Zstandard. Raises :class:`InputError`, with nothing
    committed to the arena, if a block holds more than 2 GiB of text.
    """
    compressor = Compressor(level)
    templates = TemplateEncoder(compressor)
    offsets, lengths = np.empty((2, len(cuts) - 1), np.int64)
    if len(offsets) == 0:
        return Pieces(offsets, lengths)
    validity = encode_validity(array, cuts)
    run = _survey(array, cuts)
    if run.has_only_short_dictionaries():
        return Pieces(*run.write_dictionaries(validity, arena), run.distinct)
    for block, kind in enumerate(run.kinds):
        if kind == PLAIN:
            encoding, parameter, parts = run.template(block, templates) or run.plain(block, compressor)
        elif kind == NOTHING:
            encoding, parameter, parts = Encoding.TEXT_CONSTANT, 0, []
        else:
            encoding, parameter, parts = run.dictionary(block, compressor)
        bits_kind, bits = validity.of_block(block)
        size = body_offset(len(bits)) + sum(align(len(part)) for part in parts)
        start = arena.reserve(size)
        target = arena.data[start : start + size]
        at = write_head(target, encoding, parameter, run.rows[block], bits_kind, bits)
        for part in parts:
            end = at + len(part)
            target[at:end] = np.frombuffer(part, np.uint8)
            at = align(end)
            target[end:at] = 0
        arena.commit(start, size)
        offsets[block], lengths[block] = start, size
    return Pieces(offsets, lengths, run.distinct)


@dataclass(frozen=True)
class _Run:
    """A run of blocks with the encoding of each chosen; lists have one item per block."""

    data: Bytes
    offsets: Ints
    mask: Bytes
    cuts: Ints
    rows: list[int]
    kinds: list[int]
    text_bytes: list[int]
    layout: Ints
    """Where the parts of each block stand: a row for each, columns as ``kernels.assemble_dictionaries`` takes them."""
    values: Bytes
    """The distinct values of DICTIONARY and CONSTANT blocks, one after the other."""
    streams: Bytes
    """Streams of integers: the indexes of a DICTIONARY block, the lengths of a PLAIN one, the sizes of values."""
    distinct: DistinctTexts | None
    """The distinct values of all blocks, if no block is PLAIN."""

    def has_only_short_dictionaries(self) -> bool:
        """Whether every block is a DICTIONARY whose values are too few to be compressed."""
        lengths = self.layout[:, kernels.VALUES_LENGTH]
        return all(kind == DICTIONARY for kind in self.kinds) and bool((lengths < _WORTH_COMPRESSING).all())

    def write_dictionaries(self, validity: Validity, arena: Arena) -> tuple[Ints, Ints]:
        """Write the pieces of all blocks, short dictionaries, at once; returns their offsets and lengths."""
        parts = self.layout[:, [kernels.INDEXES_LENGTH, kernels.SIZES_LENGTH, kernels.VALUES_LENGTH]]
        bits = np.diff(validity.bounds)
        lengths: Ints = HEAD + DICTIONARY_HEAD.size + ((bits + 7) & -8) + ((parts + 7) & -8).sum(axis=1)
        total = int(lengths.sum())
        start = arena.reserve(total)
        offsets = start + np.cumsum(lengths) - lengths
        kernels.assemble_dictionaries(
            self.layout,
            self.streams,
            self.values,
            validity.kinds,
            validity.content,
            validity.bounds,
            int(Encoding.TEXT_DICTIONARY),
            offsets,
            arena.data,
        )
        arena.commit(start, total)
        return offsets, lengths

    def dictionary(self, block: int, compressor: Compressor) -> tuple[Encoding, int, list[_Part]]:
        """Encoding, parameter and parts of the body of a DICTIONARY or CONSTANT block."""
        _, count, at, size, *streams = self.layout[block].tolist()
        values = self.values[at : at + size].data
        stored = compressor.shorter(values) if size >= _WORTH_COMPRESSING else values
        compression = compressor.compression
        if self.kinds[block] == CONSTANT:
            head = DICTIONARY_HEAD.pack(count, size, len(stored), compression, 0, 0)
            return Encoding.TEXT_CONSTANT, 0, [head, stored]
        indexes, sizes = (self.streams[at : at + length].data for at, length in (streams[:2], streams[2:]))
        head = DICTIONARY_HEAD.pack(count, size, len(stored), compression, len(indexes), len(sizes))
        return Encoding.TEXT_DICTIONARY, 0, [_joined(head, indexes, sizes), stored]

    def template(self, block: int, templates: TemplateEncoder) -> tuple[Encoding, int, list[_Part]] | None:
        """Encoding, parameter and parts of the body of a PLAIN block that is better encoded by templates."""
        first, last = int(self.cuts[block]), int(self.cuts[block + 1])
        text = Text(self.data, self.offsets[first : last + 1], self.mask[first:last], self.text_bytes[block])
        parts = templates.body(text, lambda: self._content(block)[0])
        return None if parts is None else (Encoding.TEXT_TEMPLATE, 0, parts)

    def plain(self, block: int, compressor: Compressor) -> tuple[Encoding, int, list[_Part]]:
        """Encoding, parameter (vectors of a segment) and parts of the body of a PLAIN block."""
        content, bounds = self._content(block)
        vectors = len(bounds) - 1
        wanted = min(max(-(-len(content) // _SEGMENT_BYTES), 1), vectors)
        per_segment = -(-vectors // wanted)
        ends = bounds[::per_segment]
        if vectors % per_segment:
            ends.append(bounds[-1])
        segments = [compressor.shorter(content[start:end]) for start, end in pairwise(ends)]
        sizes = [end - start for start, end in pairwise(bounds)] + [len(segment) for segment in segments]
        at, length = self.layout[block, [kernels.INDEXES_AT, kernels.INDEXES_LENGTH]].tolist()
        stream = self.streams[at : at + length].data
        head = PLAIN_HEAD.pack(len(stream), compressor.compression) + np.array(sizes, DIRECTORY_ENTRY).tobytes()
        return Encoding.TEXT_PLAIN, per_segment, [_joined(head, stream), *segments]

    def _content(self, block: int) -> tuple[memoryview, list[int]]:
        """The bytes of all valid rows of a block, and where each of its vectors starts and the last ends."""
        first, last = int(self.cuts[block]), int(self.cuts[block + 1])
        starts = [*self.offsets[first:last:VECTOR].tolist(), int(self.offsets[last])]
        if starts[-1] - starts[0] == self.text_bytes[block]:
            return self.data[starts[0] : starts[-1]].data, [start - starts[0] for start in starts]
        # Null slots may have bytes of their own in Arrow's memory; these are left behind.
        rows = first + np.flatnonzero(self.mask[first:last])
        content = scratch.array("content", self.text_bytes[block], np.uint8)
        sizes = scratch.array("sizes", len(rows), np.int64)
        kernels.copy_values(self.data, self.offsets, rows, content, sizes)
        ends = np.append(0, np.cumsum(sizes))
        kept = ends[np.searchsorted(rows, np.arange(first, last, VECTOR))]
        return content.data, [*kept.tolist(), self.text_bytes[block]]


def _joined(*parts: _Part) -> bytes:
    """Short parts one after the other, each padded to the alignment of streams: fewer copies to make later."""
    padded = []
    for part in parts:
        padded += [part, _PADDING[len(part) % ALIGNMENT]]
    return b"".join(padded)


def _survey(array: pa.Array, cuts: Ints) -> _Run:
    """Choose encodings, collect distinct values and encode the streams of integers."""
    data, offsets = _memory(array)
    mask = valid_bits(array) if array.null_count else _NOTHING
    rows = np.diff(cuts)
    longest = int(rows.max(initial=0))
    told = np.empty((len(rows), kernels.FIELDS), np.int64)
    # A block has at most one entry a row, and its sizes follow the streams in the same memory.
    numbers = scratch.array("numbers", 2 * len(array), np.int64)
    found = scratch.array("found", len(array), np.int64)
    kernels.find_distinct(
        data,
        offsets,
        mask,
        cuts,
        scratch.array("table", 2 * longest + 2, np.int32),
        scratch.array("known", longest + 2 + kernels.SAMPLE_SLOTS, np.uint64),
        numbers,
        found,
        told,
    )
    kinds, entries, value_bytes, text_bytes = told.T
    if (text_bytes > LARGEST_TEXT).any():
        block = int(np.argmax(text_bytes))
        raise InputError(
            f"block {block} has {int(rows[block])} rows with {int(text_bytes[block])} bytes of text in one column; a "
            f"block holds at most {LARGEST_TEXT}: cut smaller blocks"
        )
    # One call for all streams: those of the blocks, then the sizes of their distinct values.
    number_cuts = np.zeros(2 * len(rows) + 1, np.int64)
    np.cumsum(np.concatenate([np.where(kinds <= DICTIONARY, rows, 0), entries]), out=number_cuts[1:])
    streams_end, sizes_end = int(number_cuts[len(rows)]), int(number_cuts[-1])
    values = scratch.array("values", int(value_bytes.sum()), np.uint8)
    kernels.copy_values(data, offsets, found[: sizes_end - streams_end], values, numbers[streams_end:sizes_end])
    scratch.streams.reset()
    images = encode_integers(numbers[:sizes_end], number_cuts, scratch.streams)
    layout = np.empty((len(rows), kernels.LAYOUT_FIELDS), np.int64)
    layout[:, kernels.ROWS] = rows
    layout[:, kernels.VALUES_COUNT] = entries
    layout[:, kernels.VALUES_AT] = np.cumsum(value_bytes) - value_bytes
    layout[:, kernels.VALUES_LENGTH] = value_bytes
    for first, at, length in (
        (0, kernels.INDEXES_AT, kernels.INDEXES_LENGTH),
        (len(rows), kernels.SIZES_AT, kernels.SIZES_LENGTH),
    ):
        layout[:, at] = images.offsets[first : first + len(rows)]
        layout[:, length] = images.lengths[first : first + len(rows)]
    return _Run(
        data,
        offsets,
        mask,
        cuts,
        rows.tolist(),
        kinds.tolist(),
        text_bytes.tolist(),
        layout,
        values,
        scratch.streams.data,
        None if (kinds == PLAIN).any() else _distinct(values, numbers[streams_end:sizes_end], entries),
    )


def _distinct(values: Bytes, sizes: Ints, entries: Ints) -> DistinctTexts:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    cuts = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(entries, out=cuts[1:])
    return DistinctTexts(values, offsets, cuts)


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
