"""Reading blocks: from ids through addresses and directories to frames, columns and batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError, InputError, NotFoundError
from tidelog.storage import block, workers
from tidelog.storage.cache import Cache
from tidelog.storage.codec import Bytes, Ints, is_text
from tidelog.storage.codec.piece import VECTOR
from tidelog.storage.codec.text import TextOverflowError
from tidelog.storage.commit import Commit
from tidelog.storage.leafnumbers import Numbers, Selection, are_numbers
from tidelog.storage.macroblock import Directory, read_directory
from tidelog.storage.media import File
from tidelog.storage.meter import ReadMeter
from tidelog.storage.summary import SUMMARY
from tidelog.storage.translation import Addresses
from tidelog.storage.units import NIL, STRIDE
from tidelog.storage.valuerange import ValueRange

_TASK_BYTES = 32 << 20
"""Decoded bytes a scan aims at in one task. Between kernel calls a task holds the interpreter lock, and with several
threads at work every call waits for it: with tasks of 8 MiB a scan of five columns takes half as long again."""

_TASK_ROWS = 5 << 19
"""Rows of a task at the most, so that scans of few columns are many tasks too."""

_TASK_STORED_BYTES = 24 << 20
"""Stored bytes a scan copies in one task at the most, unless a single block has more."""

_SMALLEST_TASK = 8
"""A scan of few blocks is cut into a task for each thread, but not into tasks of fewer blocks than this."""

_SMALLEST_COUNT = 48
"""Blocks that are counted by one thread at the least: handing work over takes as long as counting in a few blocks."""

_EXPECTED_SHARE = 16
"""One row in so many is expected to be found, so much room is made for them at first."""

_NO_PLACES = np.empty(0, np.int64)

_DENSE = 16
"""Ids that are, on average, at most so far apart are translated as one range."""

_TEXT_BYTES = 32
"""What a text value is taken to have."""

_CACHED_DIRECTORIES = 4 << 20
_KEPT_BUFFER = 64 << 20
"""A thread's read buffer is kept for the next read up to this size."""

_scratch = threading.local()

RowTest = Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]
"""Tells for each row of a batch whether it is wanted."""


@dataclass(frozen=True, slots=True)
class _Extents:
    """Where the frames of a run of blocks stand in the file."""

    starts: Ints
    sizes: Ints
    rests: dict[int, list[tuple[int, int]]]
    """For frames split over macro blocks, by index in the run: (start, size) of each further part."""

    def lengths(self) -> Ints:
        """The frames' lengths, all parts together."""
        lengths = self.sizes.copy()
        for index, parts in self.rests.items():
            lengths[index] += sum(size for _, size in parts)
        return lengths


class BlockSource:
    """Reads the blocks of one container file, given the translation of their ids.

    Safe to use from several threads as far as ``addresses`` is.
    """

    def __init__(
        self,
        file: File,
        schema: pa.Schema,
        addresses: Callable[[int, int], Addresses],
        limit: Callable[[], int],
        cache: Cache[pa.Array],
        address: Callable[[int], int] | None = None,
    ) -> None:
        """``addresses(first, last)`` translates a range of ids; no byte at or behind ``limit()`` is read.

        ``address`` translates a single one, if there is a quicker way.
        """
        self._address = address or (lambda id: int(addresses(id, id + 1)[0]))
        self._file = file
        self._schema = schema
        self._addresses = addresses
        self._limit = limit
        self._cache = cache
        self.meter = ReadMeter()
        """Counts what is decoded; may be replaced by one that others use too."""
        self._directories: Cache[Directory] = Cache(_CACHED_DIRECTORIES)
        self._selections: dict[tuple[int, ...], Selection | None] = {}
        """Columns that :meth:`numbers` was asked for; None for those that are not all numbers."""
        self._mapped: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        """The words of the file, as far as they were committed when they were mapped."""

    def column_indexes(self, columns: Sequence[str] | None) -> list[int]:
        """The positions of named columns in the schema; all for None."""
        if columns is None:
            return list(range(len(self._schema)))
        indexes = [self._schema.get_field_index(name) for name in columns]
        for name, index in zip(columns, indexes, strict=True):
            if index < 0:
                raise NotFoundError(f"no column {name!r}; the columns are {', '.join(map(repr, self._schema.names))}")
        return indexes

    def read(self, id: int, columns: Sequence[str] | None, rows: tuple[int, int] | None) -> pa.RecordBatch:
        """The columns of one leaf; of rows ``[rows[0], rows[1])`` only, and decoding no others, if given."""
        indexes = self.column_indexes(columns)
        if rows is None and indexes:
            arrays = self._whole_columns(id, indexes)
            return self._batch(arrays, indexes, len(arrays[0]))
        leaf = self._open_leaf(id)
        count = int(leaf.rows[0])
        start, stop = rows or (0, count)
        if not 0 <= start <= stop <= count:
            raise InputError(f"rows {start} to {stop} were asked for, block {id} has rows 0 to {count}")
        first = start - start % VECTOR
        last = min(count, -(-stop // VECTOR) * VECTOR)
        decoded = self._decode(leaf, indexes, first, last)
        return self._batch([each.slice(start - first, stop - start) for each in decoded], indexes, stop - start)

    def _whole_columns(self, id: int, indexes: list[int]) -> list[pa.Array]:
        """Columns of a leaf from the cache; what is not there is decoded together and put there."""
        address = self._address(id)
        found = {index: self._cache.find((address, index)) for index in indexes}
        missing = [index for index, array in found.items() if array is None]
        if missing:
            leaf = self._open_leaf(id)
            for index, array in zip(missing, self._decode(leaf, missing, 0, int(leaf.rows[0])), strict=True):
                found[index] = array
                self._cache.put((address, index), array, array.nbytes)
        return [found[index] for index in indexes]

    def _open_leaf(self, id: int) -> block.OpenFrames:
        leaf = self._open(np.array([id]))
        if leaf.kind(0) != block.LEAF:
            raise InputError(f"block {id} is a node, not a leaf with columns; use read_node")
        return leaf

    def _decode(self, leaf: block.OpenFrames, indexes: list[int], start: int, stop: int) -> list[pa.Array]:
        bounds = np.array([start], np.int64), np.array([stop], np.int64)
        return block.decode_leaves(leaf, self._schema, indexes, *bounds) if indexes else []

    def numbers(self, ids: Sequence[int], columns: tuple[int, ...]) -> tuple[Numbers, list[int]] | None:
        """Columns of a few leaves, given by their positions, and the rows of each leaf.

        The arrays have the rows of all leaves and are valid until the thread's next call. None if columns cannot be had
        like that (:mod:`tidelog.storage.leafnumbers`); then :meth:`read` them.
        """
        selection = self._selections.get(columns)
        if selection is None:
            if columns in self._selections or not self._file.maps:
                return None
            types = [self._schema.types[column] for column in columns]
            selection = Selection(columns, types) if are_numbers(types) else None
            self._selections[columns] = selection
            if selection is None:
                return None
        places, sizes, splits = zip(*map(self._place, ids), strict=True)
        if any(splits):
            return None
        end = max(map(add, places, sizes))
        if end > 8 * len(self._mapped):
            self._map(end)
        reader = selection.reader(len(ids))
        numbers = reader.read(self._mapped, places, sizes, ids)
        if numbers is not None:
            self.meter.add(len(ids), reader.stored_bytes)
        return numbers

    def _map(self, end: int) -> None:
        """Map the file again, up to ``end`` at least."""
        size = self._limit() & ~7
        words = np.frombuffer(self._file.view(0, max(size, end)), np.uint8)
        if len(words) < end:
            raise self._cut_off(len(words), end)
        self._mapped = words[: len(words) & ~7].view(np.uint64)

    def read_node(self, id: int) -> bytes:
        """The bytes of one node."""
        frames = self._open(np.array([id]))
        if frames.kind(0) != block.NODE:
            raise InputError(f"block {id} is a leaf, not a node; use read")
        return block.decode_node(frames, 0)

    def blocks_per_task(self, commit: Commit, columns: Sequence[str] | None, blocks: int) -> int:
        """How many blocks make a good unit of work for a scan of ``blocks``, from the averages of what is stored."""
        if not commit.next_id:
            return 1
        types = [self._schema.types[index] for index in self.column_indexes(columns)]
        width = sum(_TEXT_BYTES if is_text(type) else max(8, type.bit_width) // 8 for type in types)
        rows = max(1, commit.rows // commit.next_id)
        most = min(_TASK_BYTES // (rows * max(width, 1)), _TASK_ROWS // rows)
        if not self._file.maps:
            most = min(most, _TASK_STORED_BYTES // max(1, commit.end // commit.next_id))
        share = -(-blocks // workers.THREADS)
        return max(1, min(most, max(share, _SMALLEST_TASK)))

    def scan(
        self, first: int, last: int, columns: Sequence[str] | None, blocks_per_task: int
    ) -> Iterator[pa.RecordBatch]:
        """The leaves with ids from ``first`` to ``last`` (exclusive) as batches of several blocks, with read-ahead.

        A batch has at most ``blocks_per_task`` blocks.
        """
        indexes = self.column_indexes(columns)
        jobs = (
            partial(self._decode_run, start, min(start + blocks_per_task, last), indexes)
            for start in range(first, last, blocks_per_task)
        )
        for batches in workers.in_order(jobs, ahead=workers.THREADS):
            yield from batches

    def select(
        self,
        ids: Ints,
        columns: Sequence[str],
        tested: Sequence[str],
        test: RowTest,
        wanted: ValueRange | None,
        blocks_per_task: int,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some leaves, given by ascending ids, that pass a test of the columns ``tested``; with read-ahead.

        Other columns are decoded only around rows that pass. ``test`` is called on other threads. Leaves without such
        rows leave no trace. If the test is for a range of one column's values, ``wanted`` is that, and the
        test is asked only where it cannot be told from encoded values.
        """
        chosen = _Selection(self.column_indexes(columns), self.column_indexes(tested), test, wanted)
        jobs = (
            partial(self._select_run, ids[start : start + blocks_per_task], chosen)
            for start in range(0, len(ids), blocks_per_task)
        )
        for batches in workers.in_order(jobs, ahead=workers.THREADS):
            yield from batches

    def count(self, ids: Ints, wanted: ValueRange, test: RowTest, blocks_per_task: int) -> int:
        """How many rows of some leaves, given by ascending ids, have a value in a range.

        ``test`` tells the same of rows with the one column of the range.
        """
        if not len(ids):
            return 0
        chosen = _Selection([], self.column_indexes([wanted.column]), test, wanted)
        share = max(_SMALLEST_COUNT, -(-len(ids) // workers.THREADS))
        jobs = [
            partial(self._count_run, ids[start : start + share], chosen, blocks_per_task)
            for start in range(0, len(ids), share)
        ]
        return sum(workers.together(jobs))

    def _count_run(self, ids: Ints, chosen: _Selection, most: int) -> int:
        assert chosen.wanted is not None
        frames = self._open(ids)
        count, left = block.find_in_leaves(frames, self._schema, chosen.tested[0], chosen.wanted, _NO_PLACES)
        for start in range(0, len(left), most):
            count += int(self._mask(frames.some(left[start : start + most]), chosen)[0].sum())
        return count

    def _mask(self, frames: block.OpenFrames, chosen: _Selection) -> tuple[npt.NDArray[np.bool_], dict[int, pa.Array]]:
        """Which rows of leaves pass, and the columns that this was told from."""
        starts = np.zeros(len(frames.rows), np.int64)
        arrays = block.decode_leaves(frames, self._schema, chosen.tested, starts, frames.rows)
        mask = chosen.test(self._batch(arrays, chosen.tested, int(frames.rows.sum())))
        return mask, dict(zip(chosen.tested, arrays, strict=True))

    def _places(self, frames: block.OpenFrames, chosen: _Selection) -> tuple[Ints, dict[int, pa.Array]]:
        """The rows that pass, by their places among those of all leaves, and columns that are decoded with all rows."""
        if chosen.wanted is None:
            mask, arrays = self._mask(frames, chosen)
            return np.flatnonzero(mask), arrays
        room = int(frames.rows.sum()) // _EXPECTED_SHARE
        while True:
            places = np.empty(room, np.int64)
            count, left = block.find_in_leaves(frames, self._schema, chosen.tested[0], chosen.wanted, places)
            if count <= room:
                break
            room = count
        places = places[:count]
        if len(left):
            mask, _ = self._mask(frames.some(left), chosen)
            rows, firsts = frames.rows[left], (np.cumsum(frames.rows) - frames.rows)[left]
            others = np.flatnonzero(mask) + np.repeat(firsts - (np.cumsum(rows) - rows), rows)[mask]
            places = np.sort(np.concatenate([places, others]))
        return places, {}

    def _select_run(self, ids: Ints, chosen: _Selection) -> list[pa.RecordBatch]:
        frames = self._open(ids)
        indexes = chosen.columns
        try:
            places, found = self._places(frames, chosen)
            if not len(places):
                return []
            taken = pa.array(places)
            result = {index: found[index].take(taken) for index in indexes if index in found}
            for rest in _numbers_and_texts([index for index in indexes if index not in found], self._schema):
                around = _around(frames, places, VECTOR if is_text(self._schema.types[rest[0]]) else 0)
                others = block.decode_leaves(
                    around.frames, self._schema, rest, around.starts, around.stops, around.leaves
                )
                taken = pa.array(around.places)
                result |= {index: array.take(taken) for index, array in zip(rest, others, strict=True)}
        except TextOverflowError:
            if len(ids) == 1:
                raise
            middle = len(ids) // 2
            return self._select_run(ids[:middle], chosen) + self._select_run(ids[middle:], chosen)
        return [self._batch([result[index] for index in indexes], indexes, len(places))]

    def summaries(self, first: int, last: int) -> tuple[Ints, Ints, npt.NDArray[np.void]]:
        """Ids, row counts and summaries (by leaf and column) of the leaves in a range of ids; no events are decoded."""
        ids: list[Ints] = []
        rows: list[Ints] = []
        tables: list[npt.NDArray[np.void]] = []
        for start in range(first, last, 256):
            frames = self._open(np.arange(start, min(start + 256, last)))
            leaves = np.flatnonzero(frames.rows)
            ids.append(frames.ids[leaves])
            rows.append(frames.rows[leaves])
            tables.extend(frames.summaries(int(i)) for i in leaves)
        empty = np.empty(0, np.int64)
        table = np.stack(tables) if tables else np.empty((0, len(self._schema)), SUMMARY)
        return np.concatenate([empty, *ids]), np.concatenate([empty, *rows]), table

    def size_and_rows(self, id: int) -> tuple[int, int]:
        """Stored bytes and rows of a block."""
        extents = self._extents(np.array([id]))
        return int(extents.lengths()[0]), int(self._open(np.array([id])).rows[0])

    def _decode_run(self, first: int, last: int, indexes: list[int]) -> list[pa.RecordBatch]:
        """The leaves of a run of blocks as one batch, or as several if one could not hold all their text."""
        frames = self._open(np.arange(first, last))
        leaves = np.flatnonzero(frames.rows)
        if not len(leaves):
            return []
        if len(leaves) < len(frames.rows):
            frames = frames.some(leaves)
        starts = np.zeros(len(leaves), np.int64)
        try:
            arrays = block.decode_leaves(frames, self._schema, indexes, starts, frames.rows)
        except TextOverflowError:
            middle = int(frames.ids[len(leaves) // 2])
            if middle == first:
                raise
            return self._decode_run(first, middle, indexes) + self._decode_run(middle, last, indexes)
        return [self._batch(arrays, indexes, int(frames.rows.sum()))]

    def _batch(self, arrays: list[pa.Array], indexes: list[int], rows: int) -> pa.RecordBatch:
        fields = [self._schema.field(index) for index in indexes]
        if not fields:  # Arrow cannot say how many rows a batch without columns has, except through a struct
            rowless = pa.Array.from_buffers(pa.struct([]), rows, [None], children=[])
            return pa.RecordBatch.from_struct_array(rowless)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _open(self, ids: Ints) -> block.OpenFrames:
        """Open the frames of blocks with ascending ids, where they stand if the file is mapped and none is split.

        Otherwise they are read into a buffer the calling thread uses again.
        """
        extents = self._extents(ids)
        lengths = extents.lengths()
        low, high = int(extents.starts.min()), int((extents.starts + extents.sizes).max())
        if self._file.maps and not extents.rests:
            frames = np.frombuffer(self._file.view(low, high - low), np.uint8)
            if len(frames) < high - low:
                raise self._cut_off(low + len(frames), high)
            return block.open_frames(frames, extents.starts - low, lengths, ids, self.meter)
        if high - low <= 2 * int(extents.sizes.sum()) + (1 << 16):
            offsets, used = extents.starts - low, high - low
            buffer = _buffer(used + sum(int(lengths[i]) for i in extents.rests))
            self._fill(low, buffer[:used])
        else:
            offsets = np.cumsum(lengths) - lengths
            used = int(lengths.sum())
            buffer = _buffer(used + sum(int(lengths[i]) for i in extents.rests))
            for at, start, size in _rows(offsets, extents.starts, extents.sizes):
                self._fill(start, buffer[at : at + size])
        for index, parts in extents.rests.items():
            at, size = int(offsets[index]), int(extents.sizes[index])
            buffer[used : used + size] = buffer[at : at + size]
            offsets[index] = used
            used += size
            for start, size in parts:
                self._fill(start, buffer[used : used + size])
                used += size
        return block.open_frames(buffer[:used], offsets, lengths, ids, self.meter)

    def _fill(self, offset: int, target: Bytes) -> None:
        read = self._file.read_into(offset, target.data)
        if read < len(target):
            raise self._cut_off(offset + read, offset + len(target))

    def _cut_off(self, end: int, expected: int) -> CorruptionError:
        return CorruptionError(f"{self._file.name} ends at {end}, but bytes up to {expected} were committed")

    def _extents(self, ids: Ints) -> _Extents:
        first, last = int(ids[0]), int(ids[-1]) + 1
        if len(ids) == 1:
            return self._extent(first)
        if last - first <= _DENSE * len(ids):
            addresses = self._addresses(first, last)[ids - first]
        else:
            cuts = np.flatnonzero(np.diff(ids) > 1) + 1
            addresses = np.concatenate([self._addresses(int(run[0]), int(run[-1]) + 1) for run in np.split(ids, cuts)])
        positions = (addresses >> np.uint64(16)).astype(np.int64)
        slots = (addresses & np.uint64(0xFFFF)).astype(np.int64)
        # Neighbours stand in the same macro block for the most part: the directories of all of them become one table.
        turns = np.flatnonzero(np.diff(positions, prepend=-1))
        directories = [self._directory(position) for position in positions[turns].tolist()]
        counts = np.array([len(directory.ids) for directory in directories], np.int64)
        members = np.diff(turns, append=len(ids))
        places = slots + np.repeat(np.cumsum(counts) - counts, members)
        outside = slots >= np.repeat(counts, members)
        if outside.any() or (np.concatenate([each.ids for each in directories])[places] != ids).any():
            raise CorruptionError(
                f"{self._file.name}: the macro blocks at offsets {directories[0].offset} to {directories[-1].offset} "
                f"do not hold the blocks that the address tree places there (among blocks {first} to {last - 1})"
            )
        starts = np.concatenate([each.starts for each in directories])[places]
        sizes = np.concatenate([each.sizes for each in directories])[places]
        rests: dict[int, list[tuple[int, int]]] = {}
        for directory, turn, count in zip(directories, turns.tolist(), members.tolist(), strict=True):
            if directory.next != NIL:
                for index in range(turn, turn + count):
                    if slots[index] == len(directory.ids) - 1:
                        rests[index] = self._continuations(directory)
        return _Extents(starts, sizes, rests)

    def _extent(self, id: int) -> _Extents:
        """Where the frame of one block stands."""
        start, size, is_split = self._place(id)
        rests = {0: self._continuations(self._directory(self._address(id) >> 16))} if is_split else {}
        return _Extents(np.array([start]), np.array([size]), rests)

    def _place(self, id: int) -> tuple[int, int, bool]:
        """Where the frame of one block starts, its size there, and whether it goes on in another macro block."""
        address = self._address(id)
        directory, slot = self._directory(address >> 16), address & 0xFFFF
        count = len(directory.ids)
        if slot >= count or directory.ids[slot] != id:
            raise CorruptionError(
                f"{self._file.name}: the macro block at offset {directory.offset} does not hold block {id}, which the "
                "address tree places there"
            )
        is_split = directory.next != NIL and slot == count - 1
        return int(directory.starts[slot]), int(directory.sizes[slot]), is_split

    def _continuations(self, directory: Directory) -> list[tuple[int, int]]:
        id = directory.ids[-1]
        parts = []
        while directory.next != NIL:
            if directory.next * STRIDE <= directory.offset:
                raise CorruptionError(f"{self._file.name}: the macro block at {directory.offset} continues backwards")
            directory = self._directory(directory.next)
            if not len(directory.ids) or directory.ids[0] != id:
                raise CorruptionError(
                    f"{self._file.name}: the macro block at offset {directory.offset} does not continue block {id}"
                )
            parts.append((int(directory.starts[0]), int(directory.sizes[0])))
            if len(directory.ids) > 1:
                break
        return parts

    def _directory(self, position: int) -> Directory:
        directory = self._directories.find(position)
        if directory is None:
            directory = read_directory(self._file, position, self._limit())
            self._directories.put(position, directory, 200 + 40 * len(directory.ids))
        return directory


@dataclass(frozen=True, slots=True)
class _Selection:
    """What is looked for in leaves, and which columns of it are wanted; columns by their positions."""

    columns: list[int]
    tested: list[int]
    test: RowTest
    wanted: ValueRange | None


@dataclass(frozen=True, slots=True)
class _Around:
    """Whole vectors of leaves around rows that are wanted: runs of them, ``leaves[i]`` being the leaf of run i."""

    frames: block.OpenFrames
    leaves: Ints
    starts: Ints
    stops: Ints
    places: Ints
    """Where the wanted rows are among those of all runs."""


def _around(frames: block.OpenFrames, places: Ints, gap: int) -> _Around:
    """What to decode for wanted rows, given by their rising places among the rows of all leaves.

    Runs of a leaf that are up to ``gap`` vectors apart are made one.
    """
    ends = np.cumsum(frames.rows)
    owners = np.searchsorted(ends, places, side="right")
    begin = (ends - frames.rows)[owners]
    vectors = (places - begin) // VECTOR
    # A run begins wherever the leaf changes, or there are vectors in between without a wanted row.
    begins = np.ones(len(places), np.bool_)
    begins[1:] = (owners[1:] != owners[:-1]) | (vectors[1:] - vectors[:-1] > 1 + gap)
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(places)) - 1
    of_run = owners[firsts]
    leaves, numbers = np.unique(of_run, return_inverse=True)
    starts = vectors[firsts] * VECTOR
    stops = np.minimum((vectors[lasts] + 1) * VECTOR, frames.rows[of_run])
    sizes = stops - starts
    moved = np.cumsum(sizes) - sizes - starts - begin[firsts]
    return _Around(frames.some(leaves), numbers, starts, stops, places + np.repeat(moved, lasts - firsts + 1))


def _numbers_and_texts(columns: list[int], schema: pa.Schema) -> list[list[int]]:
    """Columns of numbers, and those of text, as far as there are any."""
    texts = [column for column in columns if is_text(schema.types[column])]
    numbers = [column for column in columns if column not in texts]
    return [part for part in (numbers, texts) if part]


def _rows(*columns: Ints) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _buffer(size: int) -> Bytes:
    """The calling thread's read buffer, at least ``size`` bytes."""
    buffer: Bytes | None = getattr(_scratch, "buffer", None)
    if buffer is None or len(buffer) < size:
        # Whole words, aligned: kernels look at the buffer as 64-bit words.
        buffer = np.empty((size + size // 4 + 7) // 8, np.uint64).view(np.uint8)
        if len(buffer) <= _KEPT_BUFFER:
            _scratch.buffer = buffer
    return buffer[: (size + 7) & ~7]
