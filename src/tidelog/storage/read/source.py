"""Reading blocks: from ids through addresses and directories to frames, columns and batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads
from tidelog.model.arrays import batch_of
from tidelog.model.errors import CorruptionError, InputError, NotFoundError, did_you_mean
from tidelog.storage.codec import Ints, is_text
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.text import TextOverflowError
from tidelog.storage.format import block
from tidelog.storage.format.commit import Commit
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.value_range import ValueRange
from tidelog.storage.media.medium import File
from tidelog.storage.read import kernels
from tidelog.storage.read.addresses import AddressBook
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.frame_source import FrameSource
from tidelog.storage.read.number_source import NumberSource
from tidelog.storage.summary import SUMMARY

_TASK_BYTES = 32 << 20
"""Decoded bytes a scan aims at in one task. Between kernel calls a task holds the interpreter lock, and with several
threads at work every call waits for it: with tasks of 8 MiB a scan of five columns takes half as long again."""

_TASK_ROWS = 5 << 19
"""Rows of a task at the most, so that scans of few columns are many tasks too."""

_TASK_STORED_BYTES = 24 << 20
"""Stored bytes a scan copies, or decodes texts of, in one task at the most, unless a single block has more."""

_AROUND_SHARE = 2
"""Columns of which only those rows are decoded that pass a test count by one part in so many: perhaps all rows do."""

_SMALLEST_TASK = 8
"""A scan of few blocks is cut into a task for each thread, but not into tasks of fewer blocks than this."""

_SMALLEST_COUNT = 48
"""Blocks that are counted by one thread at the least: handing work over takes as long as counting in a few blocks."""

_NO_PLACES = np.empty(0, np.int64)

_TEXT_BYTES, _CODED_TEXT_BYTES = 32, 16
"""What a text value is taken to have, and one that may come as a number."""

RowTest = Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]
"""Tells for each row of a batch whether it is wanted."""


class BlockReader:
    """Reads the blocks of a container as of one commit, given the translation of their ids.

    Never locks, truncates or repairs anything. May be used from several threads.
    """

    def __init__(
        self, file: File, schema: pa.Schema, commit: Commit, addresses: AddressBook, cache: Cache[pa.Array]
    ) -> None:
        self._file = file
        self.commit = commit
        self.schema = schema
        self._cache = cache
        self._frames = FrameSource(file, addresses, commit.end)
        self.numbers = NumberSource(self._frames, schema, is_mapped=file.maps)
        """Reads numbers of a few leaves without Arrow."""
        self._is_coded = False

    @property
    def coded(self) -> Self:
        """The same blocks; scans and selections give strings as dictionaries where they are stored so."""
        found = copy.copy(self)
        found._is_coded = True
        return found

    def measure(self, meter: ReadMeter) -> None:
        """Let a meter count what is read from now on."""
        self._frames.meter = meter

    def rename(self, names: Sequence[str]) -> None:
        """Call the columns of leaves something else, for all in their order; before anything was read."""
        self.schema = pa.schema([field.with_name(name) for field, name in zip(self.schema, names, strict=True)])

    @property
    def blocks(self) -> int:
        """How many blocks there are; their ids are 0 to ``blocks - 1``."""
        return self.commit.next_id

    @property
    def rows(self) -> int:
        """How many rows the leaves have together."""
        return self.commit.rows

    def _column_indexes(self, columns: Sequence[str] | None) -> list[int]:
        """The positions of named columns in the schema; all for None."""
        if columns is None:
            return list(range(len(self.schema)))
        indexes = [self.schema.get_field_index(name) for name in columns]
        for name, index in zip(columns, indexes, strict=True):
            if index < 0:
                raise NotFoundError(f"no column {name!r}; {did_you_mean(name, self.schema.names)}")
        return indexes

    def read(
        self, id: int, columns: Sequence[str] | None = None, rows: tuple[int, int] | None = None
    ) -> pa.RecordBatch:
        """A leaf's columns (all for None); with ``rows`` only those ``[rows[0], rows[1])``, decoding little more."""
        indexes = self._column_indexes(columns)
        if rows is None and indexes:
            arrays = self._whole_columns(id, indexes)
            return self._batch(arrays, indexes, len(arrays[0]))
        leaf = self._frames.open_leaf(id)
        count = int(leaf.rows[0])
        start, stop = rows or (0, count)
        if not 0 <= start <= stop <= count:
            raise InputError(f"rows {start} to {stop} were asked for, block {id} has rows 0 to {count}")
        first = start - start % VECTOR
        last = min(count, -(-stop // VECTOR) * VECTOR)
        decoded = self._decode(leaf, indexes, first, last)
        return self._batch([each.slice(start - first, stop - start) for each in decoded], indexes, stop - start)

    def heads(self, ids: Ints, columns: Sequence[str], vectors: int) -> tuple[pa.RecordBatch, Ints]:
        """The first rows of leaves, given by rising ids, as one batch; where each begins, and the end.

        Of each at most so many vectors, which are 1,024 rows.
        """
        indexes = self._column_indexes(columns)
        frames = self._frames.open(ids)
        stops = np.minimum(frames.rows, vectors * VECTOR)
        arrays = block.decode_leaves(frames, self.schema, indexes, np.zeros(len(ids), np.int64), stops)
        cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(stops)])
        return self._batch(arrays, indexes, int(cuts[-1])), cuts

    def _whole_columns(self, id: int, indexes: list[int]) -> list[pa.Array]:
        """Columns of a leaf from the cache; what is not there is decoded together and put there."""
        address = self._frames.address(id)
        found = {index: self._cache.find((address, index)) for index in indexes}
        missing = [index for index, array in found.items() if array is None]
        if missing:
            leaf = self._frames.open_leaf(id)
            for index, array in zip(missing, self._decode(leaf, missing, 0, int(leaf.rows[0])), strict=True):
                found[index] = array
                self._cache.put((address, index), array, array.nbytes)
        return [found[index] for index in indexes]

    def read_leaves(self, ids: Ints) -> tuple[pa.RecordBatch, Ints]:
        """All columns of a few leaves, given by rising ids, as one batch; where each begins, and the end."""
        frames = self._frames.open(ids)
        if not frames.rows.all():
            node = int(ids[int(np.argmin(frames.rows))])
            raise InputError(f"block {node} is a node, not a leaf with columns; use read_node")
        indexes = self._column_indexes(None)
        arrays = block.decode_leaves(frames, self.schema, indexes, np.zeros(len(ids), np.int64), frames.rows)
        cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(frames.rows)])
        return self._batch(arrays, indexes, int(cuts[-1])), cuts

    def _decode(self, leaf: block.OpenFrames, indexes: list[int], start: int, stop: int) -> list[pa.Array]:
        bounds = np.array([start], np.int64), np.array([stop], np.int64)
        return block.decode_leaves(leaf, self.schema, indexes, *bounds)

    def read_node(self, id: int) -> bytes:
        """A node's bytes."""
        return self._frames.read_node(id)

    def stored_bytes(self, ids: Ints) -> int:
        """The bytes that some blocks, given by rising ids, take in the file."""
        return int(self._frames.lengths(ids).sum())

    def _blocks_per_task(self, columns: Sequence[str] | None, blocks: int, around: Sequence[str] = ()) -> int:
        """How many blocks make a good unit of work for a scan of ``blocks``, from the averages of what is stored.

        Columns ``around`` are decoded of some rows only.
        """
        commit = self.commit
        if not commit.next_id:
            return 1
        types = [self.schema.types[index] for index in self._column_indexes(columns)]
        others = [self.schema.types[index] for index in self._column_indexes(around)]
        width = self._width(types) + self._width(others) // _AROUND_SHARE
        types += others
        rows = max(1, commit.rows // commit.next_id)
        most = min(_TASK_BYTES // (rows * max(width, 1)), _TASK_ROWS // rows)
        if not self._file.maps or any(map(is_text, types)):  # how long texts are, only what is stored can tell
            most = min(most, _TASK_STORED_BYTES // max(1, commit.end // commit.next_id))
        share = -(-blocks // threads.THREADS)
        return max(1, min(most, max(share, _SMALLEST_TASK)))

    def _width(self, types: Sequence[pa.DataType]) -> int:
        """The bytes that a row of some types is taken to have when it is decoded."""
        of_text = _CODED_TEXT_BYTES if self._is_coded else _TEXT_BYTES
        return sum(of_text if is_text(type) else max(8, type.bit_width) // 8 for type in types)

    def scan(
        self, first: int = 0, last: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The leaves with ids from ``first`` to ``last`` (exclusive, None for all), in order, several to a batch.

        Lazy: a few batches are decoded ahead on other threads. An abandoned iterator frees everything.
        """
        last = self.blocks if last is None else min(last, self.blocks)
        first = max(first, 0)
        blocks = self._blocks_per_task(columns, last - first)
        indexes = self._column_indexes(columns)
        jobs = (
            partial(self._decode_run, np.arange(start, min(start + blocks, last)), indexes)
            for start in range(first, last, blocks)
        )
        return _flat(threads.in_order(jobs, ahead=threads.THREADS))

    def scan_leaves(self, ids: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Leaves, given by rising ids, whole, in order, several to a batch. Lazy, like :meth:`scan`."""
        blocks = self._blocks_per_task(columns, len(ids))
        indexes = self._column_indexes(columns)
        jobs = (partial(self._decode_run, ids[start : start + blocks], indexes) for start in range(0, len(ids), blocks))
        return _flat(threads.in_order(jobs, ahead=threads.THREADS))

    def select(
        self,
        ids: Ints,
        columns: Sequence[str],
        tested: Sequence[str],
        test: RowTest,
        wanted: ValueRange | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of leaves, given by ascending ids, that pass a test, which sees the columns ``tested``.

        Lazy, like :meth:`scan`; ``columns`` that are not tested are decoded only around rows that pass. If a test is
        for a range of one column's values, ``wanted`` is that: it is told from encoded values where that can be.
        """
        blocks = self._blocks_per_task(tested, len(ids), [name for name in columns if name not in tested])
        chosen = _Selection(self._column_indexes(columns), self._column_indexes(tested), test, wanted)
        jobs = (partial(self._select_run, ids[start : start + blocks], chosen) for start in range(0, len(ids), blocks))
        return _flat(threads.in_order(jobs, ahead=threads.THREADS))

    def count(self, ids: Ints, wanted: ValueRange, test: RowTest) -> int:
        """How many rows of leaves, given by ascending ids, have a value in a range; ``test`` tells the same of batches.

        Counts encoded values where that can be.
        """
        if not len(ids):
            return 0
        blocks = self._blocks_per_task([wanted.column], len(ids))
        chosen = _Selection([], self._column_indexes([wanted.column]), test, wanted)
        share = max(_SMALLEST_COUNT, -(-len(ids) // threads.THREADS))
        jobs = [
            partial(self._count_run, ids[start : start + share], chosen, blocks) for start in range(0, len(ids), share)
        ]
        return sum(threads.together(jobs))

    def _count_run(self, ids: Ints, chosen: _Selection, most: int) -> int:
        assert chosen.wanted is not None
        frames = self._frames.open(ids)
        count, left = block.find_in_leaves(frames, self.schema, chosen.tested[0], chosen.wanted, _NO_PLACES)
        for start in range(0, len(left), most):
            count += int(self._mask(frames.some(left[start : start + most]), chosen)[0].sum())
        return count

    def _mask(self, frames: block.OpenFrames, chosen: _Selection) -> tuple[npt.NDArray[np.bool_], dict[int, pa.Array]]:
        """Which rows of leaves pass, and the columns that this was told from."""
        starts = np.zeros(len(frames.rows), np.int64)
        tested, rows = chosen.tested, int(frames.rows.sum())
        # Conditions of texts are told from distinct values, which need not be united for that.
        types = self.schema.types
        united = self._is_coded and any(is_text(types[index]) for index in tested if index in chosen.columns)
        arrays = block.decode_leaves(frames, self.schema, tested, starts, frames.rows, coded=True, united=united)
        fields = [self.schema.field(index).with_type(array.type) for index, array in zip(tested, arrays, strict=True)]
        mask = chosen.test(batch_of(arrays, pa.schema(fields), rows))
        known = zip(tested, arrays, strict=True)
        return mask, {index: array for index, array in known if united or not pa.types.is_dictionary(array.type)}

    def _places(self, frames: block.OpenFrames, chosen: _Selection) -> tuple[Ints, dict[int, pa.Array]]:
        """The rows that pass, by their places among those of all leaves, and columns that are decoded with all rows."""
        if chosen.wanted is None:
            mask, arrays = self._mask(frames, chosen)
            return np.flatnonzero(mask), arrays
        places = np.empty(int(frames.rows.sum()), np.int64)
        count, left = block.find_in_leaves(frames, self.schema, chosen.tested[0], chosen.wanted, places)
        places = places[:count]
        if len(left):
            mask, _ = self._mask(frames.some(left), chosen)
            rows, firsts = frames.rows[left], (np.cumsum(frames.rows) - frames.rows)[left]
            others = np.flatnonzero(mask) + np.repeat(firsts - (np.cumsum(rows) - rows), rows)[mask]
            places = np.sort(np.concatenate([places, others]))
        return places, {}

    def _select_run(self, ids: Ints, chosen: _Selection) -> list[pa.RecordBatch]:
        frames = self._frames.open(ids)
        indexes = chosen.columns
        try:
            places, found = self._places(frames, chosen)
            if not len(places):
                return []
            result = {index: _at(found[index], places) for index in indexes if index in found}
            missing = [index for index in indexes if index not in found]
            if missing and len(places) < frames.rows.sum():
                rows = block.decode_places(frames, self.schema, missing, places, coded=self._is_coded)
                result |= {index: array for index, array in zip(missing, rows, strict=True) if array is not None}
                missing = [index for index in missing if index not in result]
            if missing:
                around = _around(frames, places, VECTOR)
                others = block.decode_leaves(
                    around.frames,
                    self.schema,
                    missing,
                    around.starts,
                    around.stops,
                    around.leaves,
                    coded=self._is_coded,
                )
                result |= {index: _at(array, around.places) for index, array in zip(missing, others, strict=True)}
        except TextOverflowError:
            if len(ids) == 1:
                raise
            middle = len(ids) // 2
            return self._select_run(ids[:middle], chosen) + self._select_run(ids[middle:], chosen)
        return [self._batch([result[index] for index in indexes], indexes, len(places))]

    def summaries(self, first: int = 0, last: int | None = None) -> tuple[Ints, Ints, npt.NDArray[np.void]]:
        """Ids, row counts and per-column summaries of the leaves in a range of ids, read from frame heads."""
        first, last = max(first, 0), self.blocks if last is None else min(last, self.blocks)
        ids: list[Ints] = []
        rows: list[Ints] = []
        tables: list[npt.NDArray[np.void]] = []
        for start in range(first, last, 256):
            frames = self._frames.open(np.arange(start, min(start + 256, last)))
            leaves = np.flatnonzero(frames.rows)
            ids.append(frames.ids[leaves])
            rows.append(frames.rows[leaves])
            tables.extend(frames.summaries(int(i)) for i in leaves)
        if any(len(each) != len(self.schema) for each in tables):
            raise CorruptionError(f"blocks {first} to {last - 1} have leaves of other columns than the file")
        empty = np.empty(0, np.int64)
        table = np.stack(tables) if tables else np.empty((0, len(self.schema)), SUMMARY)
        return np.concatenate([empty, *ids]), np.concatenate([empty, *rows]), table

    def _decode_run(self, ids: Ints, indexes: list[int]) -> list[pa.RecordBatch]:
        """The leaves among some blocks as one batch, or as several if one could not hold all their text."""
        frames = self._frames.open(ids)
        leaves = np.flatnonzero(frames.rows)
        if not len(leaves):
            return []
        if len(leaves) < len(frames.rows):
            frames = frames.some(leaves)
        starts = np.zeros(len(leaves), np.int64)
        try:
            arrays = block.decode_leaves(frames, self.schema, indexes, starts, frames.rows, coded=self._is_coded)
        except TextOverflowError:
            middle = len(leaves) // 2
            if not middle:
                raise
            whole = ids[leaves]
            return self._decode_run(whole[:middle], indexes) + self._decode_run(whole[middle:], indexes)
        return [self._batch(arrays, indexes, int(frames.rows.sum()))]

    def _batch(self, arrays: list[pa.Array], indexes: list[int], rows: int) -> pa.RecordBatch:
        schema = pa.schema([self.schema.field(index) for index in indexes])
        if self._is_coded:
            fields = zip(schema, arrays, strict=True)
            schema = pa.schema([field.with_type(array.type) for field, array in fields])
        return batch_of(arrays, schema, rows)


def _flat(runs: Iterator[list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    for batches in runs:
        yield from batches


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
    if len(places) == frames.rows.sum():
        return _Around(frames, np.arange(len(frames.rows)), np.zeros(len(frames.rows), np.int64), frames.rows, places)
    most = min(len(places), int((-(-frames.rows // VECTOR)).sum()))
    of_run, starts, stops = (np.zeros(most, np.int64) for _ in range(3))
    moved = np.empty(len(places), np.int64)
    count = int(kernels.runs_around(frames.rows, places, gap, of_run, starts, stops, moved))
    leaves, numbers = np.unique(of_run[:count], return_inverse=True)
    return _Around(frames.some(leaves), numbers, starts[:count], stops[:count], moved)


def _at(array: pa.Array, places: Ints) -> pa.Array:
    """The values at rising places; not copied if they follow one another and are most of the array."""
    first, count = int(places[0]), len(places)
    if places[-1] - first + 1 == count and 2 * count > len(array):
        return array.slice(first, count)
    return array.take(pa.array(places))
