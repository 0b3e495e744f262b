"""States of user-defined aggregates of time ranges: of whole subtrees from entries, of leaves at the ends from rows.

What entries do not know is looked for in the nodes below, down to the rows (:mod:`tidelog.index.states`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidelog.index.columnvalues import ColumnValues
from tidelog.index.entries import WORDS_BEFORE, WORDS_OF_COLUMN, Words
from tidelog.index.node import Children
from tidelog.index.states import States
from tidelog.index.tabtree.aggregating import bounds_in, cover
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import Edge, Nodes
from tidelog.model.arrays import integers
from tidelog.storage.codec import Ints

_GATHERED: Final = 1 << 16
"""Words of states that are gathered before they are merged into one row."""


def gather(
    nodes: Nodes, start: int | None, end: int | None, wanted: States, counters: ReadCounters | None = None
) -> Words:
    """The states of the rows in a time range, all of which the tree keeps, as a table of one row."""
    gathering = _Gathering(nodes, wanted, counters)
    parts = cover(nodes, start, end, counters)
    edges: list[Edge] = []
    if parts.left is not None:
        edges.append((parts.left, start, end if parts.left == parts.right else None))
    if parts.right is not None and parts.right != parts.left:
        edges.append((parts.right, None, end))
    if edges:
        gathering.take_leaves(edges)
    for children, first, last in parts.runs:
        gathering.take(children, first, last)
    return gathering.result()


_REMEMBERED_BYTES: Final = 4 << 20
"""States of subtrees that a tree remembers, about: many times those of a flank of small states."""


class _Gathering:
    def __init__(self, nodes: Nodes, wanted: States, counters: ReadCounters | None) -> None:
        self._nodes = nodes
        self._wanted = wanted
        self._counters = counters
        layout = nodes.layout
        before = WORDS_BEFORE + WORDS_OF_COLUMN * len(layout.kinds)
        self._words: Ints = layout.states.words_of(wanted) + before
        self._columns = tuple(layout.index(name) for name in wanted.columns)
        self._tables: list[Words] = []
        self._size = 0

    def take(self, children: Children, first: int, last: int) -> None:
        """Take in entries ``first`` to ``last`` (exclusive)."""
        table = children.words[first:last][:, self._words]
        unknown = self._wanted.is_unknown(table)
        if unknown.any():
            self._add(table[~unknown])
            for child in (np.flatnonzero(unknown) + first).tolist():
                self._add(self._below(children.ids[child], children.levels[child]))
        else:
            self._add(table)

    def _below(self, id: int, level: int) -> Words:
        """The states of all rows below an entry that does not know them, as a table of one row; found once."""
        known, key = self._nodes.found_states, (self._wanted.kept, id)
        row = known.get(key)
        if row is None:
            inner = _Gathering(self._nodes, self._wanted, self._counters)
            if level:
                children = self._nodes.node(id, self._counters)
                inner.take(children, 0, len(children))
            else:
                inner.take_leaves([(id, None, None)])
            row = inner.result()
            if len(known) * row.nbytes >= _REMEMBERED_BYTES:
                known.clear()
            known[key] = row
        return row

    def take_leaves(self, leaves: Sequence[Edge]) -> None:
        """Take in the rows of leaves that are in a time range each."""
        numbers = self._nodes.numbers_between(leaves, self._columns, self._counters)
        if numbers is None:
            time = self._nodes.layout.time
            for id, start, end in leaves:
                rows = self._nodes.read(id, list(dict.fromkeys((time, *self._columns))))
                cuts = np.array(bounds_in(integers(rows.column(0)), start, end), np.int64)
                self._add(self._wanted.of_rows(rows, cuts))
            return
        values, found = numbers
        bounds = found.tolist()
        for first, last in zip(bounds[::2], bounds[1::2], strict=True):
            own = {name: column[first:last] for name, column in zip(self._wanted.columns, values, strict=True)}
            self._add(self._wanted.of_columns(ColumnValues.of_numbers(own), np.array([0, last - first], np.int64)))

    def _add(self, table: Words) -> None:
        self._tables.append(table)
        self._size += table.size
        if self._size > _GATHERED:
            self._tables = [self.result()]
            self._size = self._tables[0].size

    def result(self) -> Words:
        """What was taken in, as one row."""
        table = np.concatenate([np.zeros((0, self._wanted.words), np.uint64), *self._tables])
        return self._wanted.merge(table, np.array([0, len(table)], np.int64))
