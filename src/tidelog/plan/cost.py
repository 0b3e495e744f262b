"""What plans of windows cost: merges of states for each slide, and what these take on this machine.

A plan from the index merges, for each slice, entries on the way down to the two ends of it, and the rows of a leaf; a
replay lifts every row. Reading is not modelled apart: it is part of what a row takes. How windows are made of slices is
the same in both plans, and left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A tree, or several as one."""

    levels: int
    """That of leaves included."""
    leaf_rows: float
    fanout: float

    @classmethod
    def of(cls, rows: int, leaf_rows: int, fanout: int) -> TreeShape:
        """The shape of a tree with so many rows."""
        levels, nodes = 1, rows / leaf_rows
        while nodes > 1:
            levels, nodes = levels + 1, nodes / fanout
        return cls(levels, leaf_rows, fanout)


@dataclass(frozen=True, slots=True)
class Merges:
    """What is merged for one slice."""

    entries: float
    rows: float

    @property
    def total(self) -> float:
        """Merges, whatever of."""
        return self.entries + self.rows


def merges_of_slice(tree: TreeShape, rows: float) -> Merges:
    """What the index merges for a slice of so many rows.

    Down to the level where both ends part an entry on each; there the children between them; below it half a node on
    each side of each level; then a leaf, or what the slice has if that is less.
    """
    if rows <= 0:
        return Merges(0, 0)
    leaves = rows / tree.leaf_rows
    # A little less than nothing more: 152 ** 2 children are two levels, whatever the logarithm is rounded to.
    split = max(0, math.ceil(math.log(leaves, tree.fanout) - 1e-12)) if leaves > 0 else 0
    above = tree.levels - 1 - split
    across = math.ceil(leaves / tree.fanout ** (split - 1) - 1e-9) if split else 0
    below = max(0, split - 1) * tree.fanout
    return Merges(above + across + below, min(1.0, leaves) * tree.leaf_rows)


def merges_of_slide(tree: TreeShape, size: float, slide: float) -> Merges:
    """What the index merges with each slide of windows; both in rows.

    Where the size is no multiple of the slide, a slide is two slices.
    """
    rest = math.fmod(size, slide) if size > slide else 0.0
    parts = [merges_of_slice(tree, rest), merges_of_slice(tree, min(size, slide) - rest)]
    return Merges(sum(part.entries for part in parts), sum(part.rows for part in parts))


@dataclass(frozen=True, slots=True)
class Weights:
    """Seconds of processors of this machine, for certain aggregates of certain columns."""

    replayed_row: float
    """Of a row that is read and lifted, as all are in a replay."""
    cut_row: float
    """Of a row of a leaf that a slice ends in."""
    entry: float
    """Of an entry that is merged."""
    slice: float
    """Of a slice, whatever it is merged from."""

    def of_replay(self, rows: float) -> float:
        """Seconds of a replay of so many rows."""
        return self.replayed_row * rows

    def of_index(self, merges: Merges, times: float) -> float:
        """Seconds of merging so much, so many times, from the index."""
        return times * (merges.entries * self.entry + merges.rows * self.cut_row + self.slice)


USUAL = Weights(replayed_row=5e-9, cut_row=6e-9, entry=2e-8, slice=4e-6)
"""Where there is too little to measure anything."""
