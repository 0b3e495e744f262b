"""Taking a snapshot apart, so that others, elsewhere, read its rows in parallel (docs/design/004-spark.md).

A :class:`Piece` is a set of time ranges and everything needed to read exactly the planned rows of it: files by name, a
split that is still written at a commit, and the rows that are in no file. So what is committed, flushed or closed
meanwhile changes nothing. Files that leave the manifest stay for the stream's grace period; pieces should be read
within it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import NODE_CACHE_BYTES, NodeCache
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import RowChoice
from tidelog.model.errors import InputError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import ALWAYS, Intervals
from tidelog.storage import ContainerReader
from tidelog.storage.media.medium import Medium
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.schemas import SchemaHistory
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet
from tidelog.store.manifest.state import Removed
from tidelog.store.read.parts.evolved import under
from tidelog.store.read.parts.memory import MemoryPart
from tidelog.store.read.parts.part import Opened, Part
from tidelog.store.read.parts.split_trees import SplitTrees
from tidelog.store.read.parts.tree import TreePart
from tidelog.store.read.scan import readable, scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.wanted import Wanted, pruning
from tidelog.store.rows.stored import Ints, concatenated
from tidelog.store.split.context import StreamContext

ROWS_PER_PIECE: Final = 1 << 20
"""Rows of a piece unless somebody says otherwise."""

_GRAIN: Final = 8
"""Into how many subtrees, at least, the rows of a piece are divided before cuts are chosen."""

_ROUNDS: Final = 3
"""How often subtrees are divided again when most of them turn out not to be wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The rows of a snapshot in a set of time ranges, without a look at any of them. Can be pickled and sent."""

    ranges: Intervals
    rows: int
    """About how many rows it has; conditions are not taken into account row by row."""
    manifest: Manifest
    """What matters here of the snapshot's manifest: the splits and deletions that reach into the ranges."""
    opened: tuple[Opened, ...] = ()
    memory: bytes = b""
    """Rows that are in no file, as the Arrow IPC message of a batch of stored rows."""
    numbers: SeqSet | None = None
    """The sequence numbers that were asked for; None if all were."""
    version: int = 0
    """The version of the schema that the snapshot was presented under."""

    @property
    def interval(self) -> Interval:
        """The interval that all of its ranges are in."""
        return self.ranges.bounds

    @property
    def layout(self) -> Layout:
        """The layout that the snapshot was presented under."""
        return SchemaHistory(self.manifest, self.version).layout


def plan(
    snapshot: Snapshot,
    ranges: Intervals,
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
    *,
    pieces: int | None = None,
    rows_per_piece: int | None = None,
    counters: ReadCounters | None = None,
) -> list[Piece]:
    """Disjoint pieces of about equal work, in order, that together have the rows which :func:`scan` would find.

    Give either the number of ``pieces``, which is not exceeded, or ``rows_per_piece``. Pieces are cut at the bounds of
    subtrees, so rows of the same time are never parted, and a piece has a leaf of rows at the least. Where no row can
    satisfy ``where`` and ``numbers`` by what entries say there is no piece. Reads inner nodes, and no events.

    Raises :class:`InputError` for a snapshot of the process that writes the tail, which may have rows that nobody else
    has; ``Stream.published`` takes others.
    """
    for name, value in (("pieces", pieces), ("rows_per_piece", rows_per_piece)):
        if value is not None and value < 1:
            raise InputError(f"found {value} for {name}; expected 1 or more")
    if pieces is not None and rows_per_piece is not None:
        raise InputError("found both pieces and rows_per_piece; give one of them")
    if pieces is None and rows_per_piece is None:
        rows_per_piece = ROWS_PER_PIECE
    _refuse_view(snapshot)
    ranges, parts = readable(snapshot, ranges, numbers)
    work = [_Work(part, ranges, where, numbers) for part in parts]
    target = _divided(work, pieces, rows_per_piece, counters or ReadCounters())
    cuts = _cuts(work, target)
    bounds = [ranges.bounds.start, *cuts, ranges.bounds.end]
    reached = [each.reached(cuts) for each in work]
    found = []
    for index, (low, high) in enumerate(pairwise(bounds)):
        inside = ranges & Interval(low, high)
        chosen = [each for each, indexes in zip(work, reached, strict=True) if index in indexes]
        if chosen and inside:
            rows = round(sum(each.rows_in(span) for each in chosen for span in inside.spans))
            found.append(_of_parts(snapshot, inside, [each.part for each in chosen], rows, numbers))
    return found


class _Work:
    """What there is to read of a part: its subtrees, with the first and the last time and the rows of each."""

    def __init__(self, part: Part, ranges: Intervals, where: Predicate | None, numbers: SeqSet | None) -> None:
        self.part = part
        self.lows: Ints = np.empty(0, np.int64)
        self.highs: Ints = np.empty(0, np.int64)
        self.rows: Ints = np.empty(0, np.int64)
        wanted = Wanted(part.layout.schema.time, ranges, None, numbers).of(part)
        self._within = wanted.ranges.bounds
        choice = wanted.choice(part, part.layout.stored) or RowChoice([], _every, None)
        self._choice = replace(choice, may_hold=pruning(part.layout, where, numbers, part.base, wanted.ranges))

    def divide(self, most_rows: int, counters: ReadCounters) -> int:
        """Divide it into subtrees of so many rows at most; returns how many rows they have."""
        start, end = self._within.start, self._within.end
        found = self.part.subtrees(most_rows, start, end, self._choice, counters)
        self.lows, self.highs, self.rows = np.array(found, np.int64).reshape(-1, 3).T
        if start is not None:
            self.lows = np.maximum(self.lows, start)
        return int(self.rows.sum())

    def reached(self, cuts: Sequence[int]) -> set[int]:
        """The intervals between cuts that it has rows in."""
        limits = np.array(cuts, np.int64)
        firsts, lasts = limits.searchsorted(self.lows, side="right"), limits.searchsorted(self.highs, side="right")
        found: set[int] = set()
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            found.update(range(first, last + 1))
        return found

    def rows_in(self, interval: Interval) -> float:
        """About how many rows it has in an interval, as if those of a subtree came at equal distances."""
        lows, ends = self.lows.astype(np.float64), self.highs.astype(np.float64) + 1
        firsts = lows if interval.start is None else np.maximum(lows, interval.start)
        lasts = ends if interval.end is None else np.minimum(ends, interval.end)
        shares = np.maximum(lasts - firsts, 0) / np.maximum(ends - lows, 1)
        return float((self.rows * shares).sum())


def _every(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return np.ones(rows.num_rows, np.bool_)


def _divided(work: Sequence[_Work], pieces: int | None, rows_per_piece: int | None, counters: ReadCounters) -> int:
    """Divide parts finely enough to cut them; returns the rows that a piece is to have."""
    total = sum(each.part.rows for each in work)
    target = 1
    for _ in range(_ROUNDS):
        target = rows_per_piece or max(-(-total // (pieces or 1)), 1)
        grain = max(target // _GRAIN, 1)
        wanted = sum(each.divide(grain, counters) for each in work)
        # Fewer than were thought of: with a smaller target, smaller subtrees matter.
        is_fine = rows_per_piece is not None or wanted * 2 > total
        total = wanted
        if is_fine:
            break
    return rows_per_piece or max(-(-total // (pieces or 1)), 1)


def _cuts(work: Sequence[_Work], target: int) -> list[int]:
    """Times between which there are about so many rows each, all of them first times of subtrees."""
    if not work:
        return []
    lows, places = np.unique(np.concatenate([each.lows for each in work]), return_inverse=True)
    rows = np.bincount(places, np.concatenate([each.rows for each in work]), len(lows)).astype(np.int64)
    before = np.cumsum(rows) - rows
    begins = np.flatnonzero(np.diff(before // target)) + 1
    cuts: list[int] = lows[begins].tolist()
    return cuts


def whole(snapshot: Snapshot, numbers: SeqSet | None = None) -> Piece:
    """All of a snapshot as one piece, for those who ask it for aggregates elsewhere; coarse splits are part of it.

    Reads nothing. Raises :class:`InputError` like :func:`plan`.
    """
    _refuse_view(snapshot)
    return _of_parts(snapshot, ALWAYS, snapshot.parts, sum(part.rows for part in snapshot.parts), numbers)


def within(snapshot: Snapshot, ranges: Intervals, numbers: SeqSet | None = None) -> list[Piece]:
    """What a snapshot has in a set of time ranges as one piece, or none if no part reaches into it; reads nothing.

    Raises like :func:`plan`.
    """
    _refuse_view(snapshot)
    ranges, parts = readable(snapshot, ranges, numbers)
    rows = sum(part.rows for part in parts)
    return [_of_parts(snapshot, ranges, parts, rows, numbers)] if parts else []


def _refuse_view(snapshot: Snapshot) -> None:
    if snapshot.view is not None:
        raise InputError(
            "found a snapshot of what this process has appended, which others cannot read; take it with published()"
        )


def _of_parts(snapshot: Snapshot, ranges: Intervals, parts: Sequence[Part], rows: int, numbers: SeqSet | None) -> Piece:
    start, end = ranges.bounds.start, ranges.bounds.end
    memory = b""
    for part in parts:
        if part.in_memory:  # only its writer has a snapshot with several of them
            stored = part.layout.stored
            choice = Wanted(part.layout.schema.time, ranges, None, numbers).choice(part, stored)
            rows_of = part.scan(start, end, stored.names, None, ReadCounters())
            if choice is not None:
                rows_of = part.select(start, end, stored.names, choice, ReadCounters())
            left = concatenated(list(rows_of), stored)
            memory = left.serialize().to_pybytes() if left.num_rows else b""
    manifest = replace(
        snapshot.manifest,
        splits={part.info.name: part.info for part in parts if part.info is not None},
        deletions=tuple(snapshot.deletions(start, end)),
        deleted_seen=EMPTY,
        gone=EMPTY,
        transactions={},
        removed=Removed(),
    )
    return Piece(
        ranges=ranges,
        rows=rows,
        manifest=manifest,
        opened=tuple(part.opened for part in parts if part.opened is not None),
        memory=memory,
        numbers=numbers,
        version=snapshot.version,
    )


def open_piece(medium: Medium, directory: str, piece: Piece, nodes: NodeCache | None = None) -> Snapshot:
    """A snapshot with the rows of a piece, to be scanned with its ranges and its numbers; see :func:`scan_piece`.

    ``directory`` is the stream's. ``nodes`` may be shared with other pieces of the same stream. Files of closed splits
    are opened when they are read: :class:`NotFoundError` then tells that one has gone, because the grace period was
    over.
    """
    cache = NodeCache(NODE_CACHE_BYTES) if nodes is None else nodes
    history = SchemaHistory(piece.manifest, piece.version)
    layout = history.layout
    context = StreamContext(medium, directory, layout, piece.manifest.options, time.time, cache, history=history)
    parts: list[Part] = [*SplitTrees(context).parts(context, piece.manifest, None).parts.values()]
    for name, at in piece.opened:
        reader = ContainerReader.open(medium, context.path(name), at=at)
        reader.measure(context.meter)
        parts.append(under(TreePart(TreeReader(reader, context.read_layout(reader)), (name, at)), layout))
    if piece.memory:
        parts.append(MemoryPart(layout, pa.ipc.read_record_batch(pa.py_buffer(piece.memory), layout.stored)))
    return Snapshot(piece.manifest, layout, tuple(parts), piece.manifest.next_seq, version=piece.version)


def count_piece(medium: Medium, directory: str, piece: Piece) -> int:
    """How many rows a piece has, from the index; its events are read only at the ends of its ranges, and where some
    were overwritten. Not for pieces of certain numbers."""
    assert piece.numbers is None
    snapshot = open_piece(medium, directory, piece).living
    ranges, parts = snapshot.reached_by(piece.ranges)
    counters, none = ReadCounters(), np.empty(0, np.int64)
    return sum(
        part.aggregate(span.start, span.end, none, counters).rows
        for part in parts
        for span in ranges.reaching(part.first, part.last).spans
    )


def scan_piece(
    medium: Medium,
    directory: str,
    piece: Piece,
    columns: Sequence[str],
    where: Predicate | None = None,
    counters: ReadCounters | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that satisfy ``where``, in order, lazily; see :func:`tidelog.store.read.scan.scan`."""
    snapshot = open_piece(medium, directory, piece)
    return scan(snapshot, piece.ranges, columns, where, piece.numbers, counters)
