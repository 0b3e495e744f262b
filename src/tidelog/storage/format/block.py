"""Frames (C-blocks): the encoded, checksummed images of blocks (L-blocks).

A block is either a *leaf*, rows of the container's schema in PAX layout, or a *node*, bytes of a layer
above. The frame of a block starts at a multiple of 8 in its file::

    0   u64 hash of the head behind this field (``kernels.hash64``)
    8   u64 block id
    16  u32 length of the frame, a multiple of 8
    20  u32 length of the head
    24  u32 rows
    28  u16 columns
    30  u16 kind: 0 leaf, 1 node
    32  column directory: for each column  u32 offset in the frame, u32 length, u64 hash of the piece
    ..  summaries: 48 bytes for each column (leaves only; ``tidelog.storage.summary``)
    ..  pieces, each at a multiple of 8, padded with zeros, which its hash includes

A node has one piece: ``u8 codec (0 raw, 1 LZ4), 7 zero bytes, u64 length of the bytes``, then the bytes.
See spec/event-store.md 2.1 and 2.2; lengths are 32 bits wide here.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError, InputError
from tidelog.storage.codec import Arena, Bytes, Chosen, Ints, decode_columns, decode_rows, encode_column
from tidelog.storage.codec.arena import align
from tidelog.storage.codec.numeric.columns import column_of
from tidelog.storage.codec.numeric.consecutive import encode_consecutive
from tidelog.storage.codec.numeric.decoder import find_in_range
from tidelog.storage.format import kernels
from tidelog.storage.format.frame import ENTRY_BYTES, HEAD_BYTES, OK, SUMMARY_BYTES
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.value_range import ValueRange
from tidelog.storage.rows.numbered import NumberedRows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows, OrderedRuns
from tidelog.storage.summary import SUMMARY, WORDS, summarise_consecutive, summarise_into

Words = npt.NDArray[np.uint64]

LEAF, NODE = 0, 1

LARGEST_FRAME = (1 << 31) - 1
"""Frames and the values in them stay below 2 GiB, so that every offset fits 32 bits."""

_HEAD = struct.Struct("<QQIIIHH")
_ENTRY = struct.Struct("<IIQ")
_NODE_HEAD = struct.Struct("<B7xQ")
_MOST_OF_LZ4 = 255
"""Bytes that one byte of LZ4 stands for at the most."""
_scratch = threading.local()


@dataclass(slots=True)
class Frames:
    """The frames of blocks, consecutive ones unless their encoder was told otherwise, one behind the other."""

    words: Words
    bounds: list[int]
    first_id: int
    rows: int
    digests: list[int]
    """The hash of each frame."""
    leaf_rows: Ints
    """Rows of each block if these are leaves, else empty."""
    summaries: npt.NDArray[np.void]
    """By leaf and column."""

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def content(self) -> memoryview:
        """The bytes of all frames: those between consecutive bounds; what is behind the last one has no meaning."""
        return self.words.view(np.uint8).data


def encode_leaves(
    batch: AnyRows | OrderedRuns, cuts: Ints, first_id: int, words: Words | None = None, ids: Ints | None = None
) -> Frames:
    """Encode a run of leaves: rows ``cuts[i]`` to ``cuts[i + 1]`` of ``batch`` become block ``first_id + i``.

    With ``ids`` they become block ``ids[i]``, for leaves that are not neighbours. ``words`` is memory to use again if
    it is large enough. May be called from any thread.
    """
    arena = _thread_arena()
    content = batch.batch if isinstance(batch, NumberedRows) else batch
    columns, blocks = len(content.schema) + (content is not batch), len(cuts) - 1
    rows = np.diff(cuts)
    offsets = np.empty((columns, blocks), np.int64)
    lengths = np.empty((columns, blocks), np.int64)
    by_column = np.zeros((columns, blocks, WORDS), np.uint64)
    arrays = content.columns() if isinstance(content, OrderedRows | OrderedRuns) else content.columns
    for c, column in enumerate(arrays):
        pieces = encode_column(column, cuts, arena)
        offsets[c], lengths[c] = pieces.offsets, pieces.lengths
        summarise_into(column, cuts, by_column[c], pieces.distinct)
    if isinstance(batch, NumberedRows):
        pieces = encode_consecutive(batch.first, cuts, arena)
        offsets[-1], lengths[-1] = pieces.offsets, pieces.lengths
        summarise_consecutive(batch.first, cuts, by_column[-1])
    summaries = np.ascontiguousarray(by_column.transpose(1, 0, 2))
    sizes = head_length(columns) + ((lengths + 7) & ~7).sum(axis=0)
    if sizes.max(initial=0) > LARGEST_FRAME:
        longest = int(sizes.argmax())
        raise InputError(
            f"a block of {int(rows[longest])} rows takes {int(sizes[longest])} bytes encoded, at most {LARGEST_FRAME} "
            "are possible; "
            "append fewer rows at a time, or store such large values outside the stream"
        )
    bounds = np.zeros(blocks + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    words = _room(words, int(bounds[-1]))
    digests = np.empty(blocks, np.uint64)
    kernels.assemble_frames(
        arena.data,
        offsets,
        lengths,
        summaries,
        rows,
        np.arange(first_id, first_id + blocks, dtype=np.int64) if ids is None else ids,
        bounds,
        words,
        digests,
    )
    return Frames(
        words, bounds.tolist(), first_id, batch.num_rows, digests.tolist(), rows, summaries.view(SUMMARY)[..., 0]
    )


def encode_node(content: bytes | memoryview, id: int) -> Frames:
    """Encode a node: LZ4 if that saves space, the bytes as they are otherwise."""
    size = len(content)
    packed = pa.Codec("lz4_raw").compress(content, asbytes=True) if size else b""
    codec, body = (1, packed) if len(packed) < size else (0, bytes(content))
    piece = _NODE_HEAD.pack(codec, size) + body
    head = HEAD_BYTES + ENTRY_BYTES
    length = head + align(len(piece))
    if length > LARGEST_FRAME:
        raise InputError(f"a node of {size} bytes does not fit a frame of at most {LARGEST_FRAME} bytes")
    words = np.zeros(length // 8, np.uint64)
    view = words.view(np.uint8).data
    view[head : head + len(piece)] = piece
    first = head // 8
    _ENTRY.pack_into(view, HEAD_BYTES, head, len(piece), int(kernels.hash64(words, first, len(words) - first)))
    _HEAD.pack_into(view, 0, 0, id, length, head, 0, 1, NODE)
    words[0] = kernels.hash64(words, 1, head // 8 - 1)
    digest = int(kernels.hash64(words, 0, len(words)))
    return Frames(words, [0, length], id, 0, [digest], np.empty(0, np.int64), np.empty((0, 0), SUMMARY))


def head_length(columns: int) -> int:
    """Bytes of the head of a leaf with so many columns."""
    return HEAD_BYTES + columns * (ENTRY_BYTES + SUMMARY_BYTES)


@dataclass(slots=True)
class OpenFrames:
    """Frames found in a buffer, their heads verified."""

    buffer: Bytes
    offsets: Ints
    rows: Ints
    ids: Ints
    meter: ReadMeter

    def some(self, frames: Ints) -> OpenFrames:
        """Those of the frames with these numbers."""
        return OpenFrames(self.buffer, self.offsets[frames], self.rows[frames], self.ids[frames], self.meter)

    def kind(self, index: int) -> int:
        """Whether a block is a leaf or a node."""
        at = int(self.offsets[index])
        return int(_HEAD.unpack_from(self.buffer.data, at)[6])

    def summaries(self, index: int) -> npt.NDArray[np.void]:
        """A leaf's summaries, one for each column (a copy)."""
        at = int(self.offsets[index])
        columns = _HEAD.unpack_from(self.buffer.data, at)[5]
        start = at + HEAD_BYTES + columns * ENTRY_BYTES
        return self.buffer[start : start + columns * SUMMARY_BYTES].copy().view(SUMMARY)


def open_frames(buffer: Bytes, offsets: Ints, lengths: Ints, ids: Ints, meter: ReadMeter) -> OpenFrames:
    """Verify the heads of frames at ``offsets`` of ``buffer`` (multiples of 8) against the ids expected.

    What is decoded of them is counted by the meter.
    """
    rows = np.empty(len(offsets), np.int64)
    words = buffer[: len(buffer) & ~7].view(np.uint64)
    bad = int(kernels.open_frames(words, offsets, lengths, ids, rows))
    if bad != OK:
        raise CorruptionError(
            f"the head of block {int(ids[bad])} is damaged: its checksum, id or length is not what was written"
        )
    return OpenFrames(buffer, offsets, rows, ids, meter)


def decode_leaves(
    frames: OpenFrames,
    schema: pa.Schema,
    columns: Sequence[int],
    starts: Ints,
    stops: Ints,
    leaves: Ints | None = None,
    *,
    coded: bool = False,
    united: bool = True,
) -> list[pa.Array]:
    """The asked-for columns of a run of leaves, each as one array over all blocks.

    Rows ``starts[i]`` to ``stops[i]`` of block ``i``, or of block ``leaves[i]`` of the run; ``starts`` are multiples of
    the vector size, ``stops`` too or the block's row count. Strings come as dictionaries where they are stored so, if
    ``coded``, and with each value once if ``united``.
    """
    if not len(columns):
        return []
    offsets, lengths = _locate(frames, schema, columns)
    if leaves is not None:
        offsets, lengths = offsets[:, leaves], lengths[:, leaves]
    types = schema.types
    wanted = [types[column] for column in columns]
    return decode_columns(wanted, frames.buffer, offsets, lengths, starts, stops, coded=coded, united=united)


def decode_places(
    frames: OpenFrames, schema: pa.Schema, columns: Sequence[int], places: Ints, *, coded: bool = False
) -> list[pa.Array | None]:
    """The asked-for columns of single rows of a run of leaves, given by their rising places among those of all leaves.

    Strings come as dictionaries if ``coded``. None for columns of text that are not stored as dictionaries.
    """
    chosen, leaves = Chosen.of(places, frames.rows)
    frames = frames if len(leaves) == len(frames.rows) else frames.some(leaves)
    offsets, lengths = _locate(frames, schema, columns)
    types = [schema.types[column] for column in columns]
    return decode_rows(types, frames.buffer, offsets, lengths, chosen, coded=coded)


def find_in_leaves(
    frames: OpenFrames, schema: pa.Schema, column: int, wanted: ValueRange, places: Ints
) -> tuple[int, Ints]:
    """How many rows of a run of leaves have a value in a range; the first of them are put into ``places``.

    A place is the number of a row among those of all leaves. The second result are the leaves, by their number in the
    run, that were passed over and must be decoded.
    """
    offsets, lengths = _locate(frames, schema, [column])
    shape = column_of(schema.types[column])
    found, left = find_in_range(
        shape, wanted.low, wanted.high, wanted.nans, frames.buffer, offsets[0], lengths[0], frames.rows, places
    )
    return found, np.flatnonzero(left)


def _locate(frames: OpenFrames, schema: pa.Schema, columns: Sequence[int]) -> tuple[Ints, Ints]:
    """Where the pieces of columns stand, and their lengths, by column and frame; their checksums are verified."""
    words = frames.buffer[: len(frames.buffer) & ~7].view(np.uint64)
    offsets = np.empty((len(columns), len(frames.offsets)), np.int64)
    lengths = np.empty_like(offsets)
    bad = int(kernels.locate_pieces(words, frames.offsets, np.array(columns, np.int64), offsets, lengths))
    if bad != OK:
        column, frame = divmod(bad, len(frames.offsets))
        raise CorruptionError(
            f"column {schema.names[columns[column]]!r} of block {int(frames.ids[frame])} is damaged: "
            "its checksum is not the one written"
        )
    frames.meter.add(len(frames.offsets), int(lengths.sum()))
    return offsets, lengths


def decode_node(frames: OpenFrames, index: int) -> bytes:
    """The bytes of a node."""
    offset = np.empty((1, 1), np.int64)
    length = np.empty((1, 1), np.int64)
    only = np.zeros(1, np.int64)
    words = frames.buffer[: len(frames.buffer) & ~7].view(np.uint64)
    if kernels.locate_pieces(words, frames.offsets[index : index + 1], only, offset, length) != OK:
        raise CorruptionError(f"node {int(frames.ids[index])} is damaged: its checksum is not the one written")
    start, stop = int(offset[0, 0]), int(offset[0, 0] + length[0, 0])
    frames.meter.add(1, stop - start)
    if stop - start < _NODE_HEAD.size:
        raise CorruptionError(f"node {int(frames.ids[index])} makes no sense: it has {stop - start} bytes")
    codec, size = _NODE_HEAD.unpack_from(frames.buffer.data, start)
    body = frames.buffer.data[start + _NODE_HEAD.size : stop]
    if codec == 0:
        return bytes(body)
    if size > _MOST_OF_LZ4 * (len(body) + 1):  # more than so many bytes cannot come of them
        raise CorruptionError(f"node {int(frames.ids[index])} makes no sense: {size} bytes were stored in {len(body)}")
    try:
        content: bytes = pa.Codec("lz4_raw").decompress(body, decompressed_size=size, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"node {int(frames.ids[index])} cannot be read: {error}") from error
    return content


def _thread_arena() -> Arena:
    """The calling thread's arena, empty."""
    arena: Arena | None = getattr(_scratch, "arena", None)
    if arena is None:
        arena = _scratch.arena = Arena()
    arena.reset()
    return arena


def _room(words: Words | None, size: int) -> Words:
    if words is not None and words.nbytes >= size:
        return words
    return np.empty(size // 8, np.uint64)
