"""Building a tree: leaves and nodes go into a container in post-order, the flank stays in memory."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import ids, kernels
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, copied, empty, from_summaries, merge, put_leaves, words_of
from tidelog.index.layout import Layout
from tidelog.index.node import Node
from tidelog.index.tabtree.flank import Flank, read_full_node
from tidelog.index.tabtree.merging import (
    GROWTH,
    LeafBounds,
    Shares,
    bounds_in,
    check_late,
    shares_of,
    updates_of,
    with_states,
)
from tidelog.index.tabtree.root import Root, closing_levels
from tidelog.model.arrays import integers
from tidelog.model.errors import ClosedError, InputError, StorageError
from tidelog.storage import Container
from tidelog.storage.codec import Ints
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows

Place = tuple[int, int]
"""Time and sequence number of a row: its place in the order of a stream."""


class TreeWriter:
    """Appends rows to the tree in a container, which it has for itself. One thread at a time.

    Ids are given out at once; entries come to be when the container has encoded and placed a block, so what
    :meth:`flank` and :meth:`entry` tell lags behind until the container was flushed. They may be called from any
    thread.
    (spec/event-store.md 3.2)
    """

    def __init__(self, container: Container, layout: Layout) -> None:
        """For an empty container; see :meth:`resume` for others."""
        if container.blocks:
            raise InputError(
                f"the container has {container.blocks} blocks; use TreeWriter.resume to go on with its tree"
            )
        layout.check_container(container.schema)
        self._take_over(container, Flank(layout, (), 0, 0), None)

    @classmethod
    def resume(cls, container: Container, layout: Layout | None = None) -> TreeWriter:
        """Go on with the tree in a container that was just opened, after a crash too.

        The flank is read from at most ``fanout`` blocks of each level, and nodes that the end of the last writer left
        out are appended. The layout is the one in the container's description unless given. If that writer was closing
        the tree, only :meth:`close` is possible (:attr:`is_closing`).
        """
        reader = container.snapshot()
        layout = layout or Layout.of(reader.description)
        if reader.blocks != container.blocks:
            raise InputError("the container has blocks that are not committed; resume a tree before writing to it")
        flank = Flank.read(reader, layout, with_states=True)
        last: Place | None = None
        if flank.leaves:
            id = ids.leaf_id(flank.leaves - 1, layout.fanout)
            rows = int(flank.levels[0]["rows"][-1]) if len(flank.levels[0]) else reader.read(id, []).num_rows
            stored = layout.stored.names
            row = reader.read(id, [stored[layout.time], stored[layout.sequence]], (rows - 1, rows))
            last = int(integers(row.column(0))[0]), int(integers(row.column(1))[0])
        writer = cls.__new__(cls)
        writer._take_over(container, flank, last)
        if not flank.closing:
            reached, _ = ids.locate(flank.blocks - 1, layout.fanout) if flank.blocks else (0, 0)
            writer._append_full_nodes(above=reached)
        return writer

    def _take_over(self, container: Container, flank: Flank, last: Place | None) -> None:
        self.layout = flank.layout
        self._container = container
        self._root: Root | None = None
        self._last = last
        # What was given to the container:
        self._leaves = flank.leaves
        self._rows = flank.rows
        self._closing = flank.closing
        # What it has placed; changed by its callbacks, hence a lock that is held for nothing else:
        self._lock = threading.Lock()
        self._levels: list[Entries] = []
        self._counts: list[int] = []
        for level, entries in enumerate(flank.levels):
            self._add(level, entries)
        self._states: deque[Words] = deque()
        """The states of user-defined aggregates of leaves that have no entries yet, in order."""
        self._placed_leaves = flank.leaves
        self._placed_blocks = flank.blocks
        self._flank: Flank | None = None
        self._bounds = LeafBounds(flank.layout)
        self._bounded = 0
        """How many nodes over leaves these bounds are from."""
        self._made_bounds: dict[int, Ints] = {}
        """Bounds of the leaves of further such nodes that this writer has made, by ordinal: these need not be read."""
        container.on_leaves = self._take_leaves

    # -- writing --------------------------------------------------------------------------------------------------

    @property
    def leaves(self) -> int:
        """How many leaves were appended."""
        return self._leaves

    @property
    def rows(self) -> int:
        """How many rows were appended."""
        return self._rows

    @property
    def last(self) -> Place | None:
        """Time and sequence number of the last row appended; the next one must be greater."""
        return self._last

    @property
    def is_closing(self) -> bool:
        """Whether a writer before this one ended while it closed the tree: now it can only be closed."""
        return self._closing > 0 and self._root is None

    def extend(self, batch: AnyRows, *, in_order: bool = False, breaks: Ints | None = None) -> int:
        """Append rows, cut into leaves as the container does it; returns the number of leaves.

        A leaf ends at each of the ``breaks`` too, rising places behind the first row, unless the tree keeps
        user-defined aggregates.

        The rows are sorted by (time, sequence number), without two that are equal in both, and greater than the last
        one before. Otherwise, or if the batch is not of the stored schema, :class:`InputError` is raised and nothing
        is written; with ``in_order`` the caller has seen to the order of the rows among themselves. The last leaf is as
        small as what is left for it: give whole leaves where it matters.
        """
        self._check_open()
        if isinstance(batch, OrderedRows) and self.layout.states.words:
            batch = batch.gathered()
        last = self._check_order(batch, in_order)
        if last is None:
            return 0
        leaves = 0
        fanout = self.layout.fanout
        while batch.num_rows:
            room = fanout - self._leaves % fanout
            part = batch
            if self.layout.states.words and not isinstance(batch, OrderedRows):
                part = self._fitting(batch, room)
                self._compute_states(part)
                breaks = None  # the states were computed for leaves without them
            added, rows = self._container.extend_up_to(part, room, breaks)
            self._leaves += len(added)
            self._rows += rows
            leaves += len(added)
            self._append_full_nodes(above=0)
            if rows == batch.num_rows:
                break
            batch = batch.slice(rows)
            if breaks is not None:
                breaks = breaks[breaks > rows] - rows
        self._last = last
        return leaves

    # -- merging --------------------------------------------------------------------------------------------------

    def shares(self, times: Ints) -> Shares:
        """Which leaves rows of sorted times belong to. There must be leaves."""
        return shares_of(self.leaf_bounds(), times)

    def room(self, leaves: Ints, rows: pa.RecordBatch | OrderedRows) -> Ints:
        """How many such rows as these some leaves, given by their ordinals, can still take."""
        parts = rows.parts if isinstance(rows, OrderedRows) else [rows]
        full = min((self._container.leaf_rows(part) for part in parts if part.num_rows), default=0)
        return np.maximum(GROWTH * full - self.leaf_bounds().rows[leaves], 0)

    def merge(self, rows: pa.RecordBatch | OrderedRows) -> int:
        """Put late rows where they belong; returns how many are new, for those that are there already are dropped.

        They are sorted by (time, sequence number) and not behind the last one appended. Ordered ones are gathered when
        they are encoded. It takes effect, all of it or nothing, with the next flush of the container. Raises
        :class:`InputError`, and has done nothing, for other rows, and for more of them than a leaf has :meth:`room`
        for. Reads and writes every leaf that gets rows and the nodes above them once (spec/event-store.md 6.2): who has
        many rows merges them in several calls.
        """
        self._check_open()
        if not isinstance(rows, OrderedRows):
            rows = OrderedRows.of(rows, self.layout.time)
        check_late(self.layout, rows, self._last)
        if not rows.num_rows:
            return 0
        bounds = self.leaf_bounds()
        shares = shares_of(bounds, rows.times)
        leaves, room = shares.leaves, self.room(shares.leaves, rows)
        if (shares.counts > room).any():
            index = int(np.argmax(shares.counts > room))
            raise InputError(
                f"found {int(shares.counts[index])} rows for leaf {int(leaves[index])}, which has room for "
                f"{int(room[index])}; expected no more (TreeWriter.room tells)"
            )
        updates = updates_of(self.layout, bounds, shares, rows)
        states: list[Words] = []
        if self.layout.states.words:
            updates, states = with_states(self.layout, updates)
        images = self._container.update_leaves(updates)
        new_rows, summaries = (np.concatenate([image[index] for image in images]) for index in (0, 1))
        added = int(new_rows.sum() - bounds.rows[leaves].sum())
        with self._lock:
            found = ids.leaf_ids(leaves, self.layout.fanout)
            new_states = np.concatenate(states) if states else None
            entries = from_summaries(self.layout, found, new_rows, summaries, new_states)
            bounds.replace(leaves, entries)
            self._replace_entries(0, leaves, entries)
            self._rows += added
            self._flank = None
        return added

    def hasten(self) -> None:
        """Begin to encode everything appended so far, for somebody who will merge rows into it."""
        self._container.hasten()

    def leaf_bounds(self) -> LeafBounds:
        """The bounds of all leaves, until something is appended. A node is read when they are first asked for."""
        self._container.settle()
        fanout = self.layout.fanout
        with self._lock:
            full = self._placed_leaves // fanout
            known = self._bounds
            known.keep(min(len(known), self._bounded * fanout))
            added = [self._bounds_of(ordinal) for ordinal in range(self._bounded, full)]
            self._bounded = full
            rest = (entries[:count] for entries, count in zip(self._levels[:1], self._counts, strict=False))
            known.add(*added, *(bounds_in(self.layout, entries) for entries in rest))
            return known

    def _bounds_of(self, ordinal: int) -> Ints:
        """The bounds of the leaves below a full node, which is read unless this writer has made it."""
        found = self._made_bounds.pop(ordinal, None)
        return bounds_in(self.layout, self._read(1, ordinal).entries) if found is None else found

    def _read(self, level: int, ordinal: int) -> Node:
        return read_full_node(self._container, self.layout, level, ordinal)

    def _replace_entries(self, level: int, ordinals: Ints, entries: Entries) -> None:
        """Give blocks of a level, by rising ordinals, other entries: in the flank, or in new images of their nodes."""
        fanout = self.layout.fanout
        parents = ordinals // fanout
        first_open = self._placed_leaves // fanout ** (level + 1)
        is_open = parents >= first_open
        self._levels[level][ordinals[is_open] - first_open * fanout] = entries[is_open]
        above, firsts = np.unique(parents[~is_open], return_index=True)
        if not len(above):
            return
        merged = empty(self.layout, len(above))
        lasts = np.append(firsts[1:], int((~is_open).sum()))
        for index, (parent, first, last) in enumerate(zip(above.tolist(), firsts, lasts, strict=True)):
            node = self._read(level + 1, parent)
            changed = node.entries.copy()
            changed[ordinals[first:last] - parent * fanout] = entries[first:last]
            self._container.update(node.id, replace(node, entries=changed).to_bytes())
            merged[index : index + 1] = merge(self.layout, changed)
            merged["child"][index] = node.id
        self._replace_entries(level + 1, above, merged)

    # -- closing --------------------------------------------------------------------------------------------------

    def close(self) -> Root:
        """Append the nodes that lead to one root; nothing can be appended afterwards.

        The tree is closed for others when the container was flushed with the root in its metadata. Closing again gives
        the same root.
        """
        if self._root is None:
            levels, top = closing_levels(self._leaves, self.layout.fanout)
            closing: list[tuple[int, int]] = []
            first = self._container.blocks - self._closing
            for index, level in enumerate(levels):
                if index < self._closing:
                    self._retrace(level, first + index)
                    closing.append((level, first + index))
                else:
                    closing.append((level, self._append_node(level, closing=True)))
            if closing:
                id = closing[-1][1]
            elif self._leaves:
                id = ids.node_id(top, self._leaves // self.layout.fanout**top - 1, self.layout.fanout)
            else:
                id = ids.NIL
            self._root = Root(
                id, top, self.layout.fanout, self._leaves, self._rows, self._container.blocks, tuple(closing)
            )
        return self._root

    def _compute_states(self, rows: Rows) -> None:
        """The states of user-defined aggregates of leaves that the container is about to cut."""
        step = self._container.leaf_rows(rows)
        cuts = np.append(np.arange(0, rows.num_rows, step, dtype=np.int64), rows.num_rows)
        states = self.layout.states.of_rows(rows, cuts)
        with self._lock:
            self._states.append(states)

    def _fitting(self, batch: Rows, room: int) -> Rows:
        """So many first rows of a batch that the container makes at most ``room`` leaves of them."""
        rows = self._container.leaf_rows(batch)
        while batch.num_rows > room * rows:
            batch = batch.slice(0, room * rows)
            rows = self._container.leaf_rows(batch)  # may be fewer where the rows are longer than those cut off
        return batch

    def _append_full_nodes(self, *, above: int) -> None:
        """Append the nodes that the last leaf has filled, on levels higher than ``above``."""
        level, leaves = 1, self.layout.fanout
        while self._leaves and self._leaves % leaves == 0:
            if level > above:
                id = self._append_node(level, closing=False)
                expected = ids.node_id(level, self._leaves // leaves - 1, self.layout.fanout)
                if id != expected:
                    raise StorageError(
                        f"a node got id {id}, expected {expected}: something else was appended to the container of "
                        "the tree; close it and do not use it again"
                    )
            level, leaves = level + 1, leaves * self.layout.fanout

    def _append_node(self, level: int, *, closing: bool) -> int:
        id = self._container.blocks
        return self._container.append_later(partial(self._make_node, level, id, closing))

    def _check_open(self) -> None:
        if self._root is not None:
            raise ClosedError("the tree is closed; append to a new one")
        if self._closing:
            raise ClosedError("the tree was being closed when its writer ended; close it and append to a new one")

    def _check_order(self, batch: AnyRows, in_order: bool) -> Place | None:
        """The place of the last row."""
        expected = self.layout.schema.arrow if isinstance(batch, NumberedRows) else self.layout.stored
        if batch.schema is not expected and not batch.schema.equals(expected):
            raise InputError(
                f"found a batch of the columns {', '.join(batch.schema.names)}, expected the stored ones, "
                f"{', '.join(expected.names)}, of the types in the schema"
            )
        if not batch.num_rows:
            return None
        sequence: range | Ints
        if isinstance(batch, OrderedRows):  # which are in the order of times and numbers, or would not be such
            times, sequence, in_order = batch.times, np.array([batch.number(0), batch.number(-1)]), True
        elif isinstance(batch, NumberedRows):
            times = integers(_without_nulls(batch.batch, self.layout.time))
            sequence = range(batch.first, batch.first + batch.num_rows)
        else:
            times = integers(_without_nulls(batch, self.layout.time))
            sequence = integers(_without_nulls(batch, self.layout.sequence))
        row = 0
        before, first = self._last, (int(times[0]), int(sequence[0]))
        if before is None or first > before:
            row = -1 if in_order else _first_disorder(times, sequence)
            if row < 0:
                return int(times[-1]), int(sequence[-1])
            before, first = ((int(times[at]), int(sequence[at])) for at in (row - 1, row))
        raise InputError(
            f"found a row with time {first[0]} and sequence number {first[1]} behind one with {before[0]} and "
            f"{before[1]}; expected rows in ascending order of both",
            row=row,
            column=self.layout.schema.time,
        )

    # -- what has been placed -------------------------------------------------------------------------------------

    def flank(self) -> Flank:
        """The flank as of the blocks that the container has placed: all of them, after a flush."""
        with self._lock:
            if self._flank is None:
                levels = [copied(entries[:count]) for entries, count in zip(self._levels, self._counts, strict=True)]
                for entries in levels:
                    entries.flags.writeable = False
                self._flank = Flank(self.layout, tuple(levels), self._placed_leaves, self._placed_blocks)
            return self._flank

    def entry(self) -> Aggregate:
        """Everything that the entries say about the whole tree, as far as it is placed."""
        flank = self.flank()
        return Aggregate(self.layout, entry=merge(self.layout, flank.children().entries))

    def _take_leaves(self, first_id: int, rows: Ints, summaries: npt.NDArray[np.void]) -> None:
        """Called by the container: it has placed a run of leaves."""
        ids = np.arange(first_id, first_id + len(rows), dtype=np.int64)
        with self._lock:
            states = self._next_states(len(rows)) if self.layout.states.words else None
            put_leaves(self.layout, ids, rows, summaries, states, self._room(0, len(rows)))
            self._placed_leaves += len(rows)
            self._placed_blocks += len(rows)
            self._flank = None

    def _next_states(self, leaves: int) -> Words:
        """The states of the next leaves; they were computed before the container was given the rows."""
        taken: list[Words] = []
        while leaves:
            states = self._states.popleft()
            if len(states) > leaves:
                self._states.appendleft(states[leaves:])
                states = states[:leaves]
            taken.append(states)
            leaves -= len(states)
        return np.concatenate(taken)

    def _make_node(self, level: int, id: int, closing: bool) -> bytes:
        """Called by the container: it has placed every block before this node. Its entry goes up a level."""
        with self._lock:
            node = self._pop(level, id, closing=closing)
            self._placed_blocks += 1
            self._flank = None
        return node.to_bytes()

    def _retrace(self, level: int, id: int) -> None:
        """Do with the flank what a node did that was written before a crash."""
        with self._lock:
            self._pop(level, id, closing=True)
            self._flank = None

    def _pop(self, level: int, id: int, *, closing: bool) -> Node:
        fanout = self.layout.fanout
        count = self._counts[level - 1]
        if not closing and count != fanout:
            raise StorageError(f"node {id} of level {level} is to be made of {count} entries instead of {fanout}")
        entries = copied(self._levels[level - 1][:count])
        self._counts[level - 1] = 0
        step = fanout**level
        ordinal = (self._placed_leaves - 1) // step
        previous, following = ids.neighbours(level, ordinal, fanout)
        node = Node(level, id, previous, ids.NIL if closing else following, ordinal * step, closing, entries)
        above = merge(self.layout, entries)
        above["child"] = id
        self._add(level, above)
        if level == 1 and not closing:
            self._made_bounds[ordinal] = bounds_in(self.layout, entries)
        return node

    def _add(self, level: int, entries: Entries) -> None:
        self._room(level, len(entries))[:] = words_of(entries)

    def _room(self, level: int, entries: int) -> Words:
        """The words of the next entries of a level, which are to be written."""
        while len(self._levels) <= level:
            self._levels.append(empty(self.layout, self.layout.fanout))
            self._counts.append(0)
        count = self._counts[level]
        if count + entries > self.layout.fanout:
            raise StorageError(
                f"level {level} of the flank would have {count + entries} entries, at most {self.layout.fanout} "
                "are possible: something else was appended to the container of the tree"
            )
        self._counts[level] = count + entries
        return words_of(self._levels[level])[count : count + entries]


def _first_disorder(times: Ints, sequence: range | Ints) -> int:
    numbers = np.arange(sequence.start, sequence.stop) if isinstance(sequence, range) else sequence
    return int(kernels.first_disorder(times, numbers))


def _without_nulls(batch: pa.RecordBatch, index: int) -> pa.Array:
    """A column that every row must have a value of."""
    column = batch.column(index)
    if column.null_count:
        name = batch.schema.names[index]
        raise InputError(f"found a row without {name!r}; expected every row to have one", column=name)
    return column
