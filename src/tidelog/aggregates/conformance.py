"""What every aggregate must fulfil, checked for random rows: :mod:`tidelog.aggregates.contract` says it in words.

To be run against your own aggregates too::

    FoldConformance(parse_aggregate("peak(price)", schema)).check(rows, np.random.default_rng(1))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import UNKNOWN, Fold, Total

_MOST_RUNS: Final = 6


@final
class FoldConformance:
    """Checks of one fold; each raises :class:`AssertionError`, which says what is not as it must be."""

    def __init__(
        self, fold: Fold, *, tolerance: float = 1e-9, is_same: Callable[[Any, Any], bool] | None = None
    ) -> None:
        """``tolerance`` is how far apart, relative to their size, floats of different groupings may be.

        ``is_same`` compares values that are not numbers, such as sketches, of which the bytes may differ.
        """
        self.fold = fold
        self._is_same = is_same or partial(_is_close, tolerance)

    def check(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """All of it, for rows in order, which have the columns of the fold."""
        self.check_nothing(rows)
        self.check_runs(rows, dice)
        self.check_groupings(rows, dice)
        self.check_scans(rows, dice)
        self.check_types(rows)
        self.check_packing(rows, dice)
        self.check_purity(rows, dice)

    def check_nothing(self, rows: pa.RecordBatch) -> None:
        """No rows are the same however they come about, and change nothing where they are merged."""
        nothing = self.fold.lift(rows.slice(0, 0), np.zeros(3, np.int64))
        assert len(nothing) == 2, f"two empty runs have {len(nothing)} states"
        start = self.fold.start()
        assert len(start) == 1, f"start() gives {len(start)} states"
        (none,) = self.fold.lower(start)
        assert none in (None, 0), f"the value of no rows is {none!r}"
        self._same(self.fold.lower(nothing), [none, none], "empty runs of rows")
        empty = self.fold.merge(np.concatenate([start, nothing]), np.array([0, 0, 3, 3], np.int64))
        self._same(self.fold.lower(empty), [none] * 3, "runs of no states, or of those of no rows")
        whole = self._whole(rows)
        beside = np.concatenate([nothing, whole, start])
        found = self.fold.merge(beside, np.array([0, len(beside)], np.int64))
        self._same(self.fold.lower(found), self.fold.lower(whole), "rows merged with no rows")

    def check_runs(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """Runs lifted at once are what each of them is by itself."""
        cuts = _cuts(rows.num_rows, dice)
        together = self.fold.lower(self.fold.lift(rows, cuts))
        singly = [
            self.fold.lower(self._whole(rows.slice(first, last - first)))[0]
            for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
        ]
        self._same(together, singly, f"runs of rows cut at {cuts.tolist()}")

    def check_groupings(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """All rows lifted at once are all parts merged, in whatever groups and, unless it is ordered, order."""
        expected = self.fold.lower(self._whole(rows))
        states = self.fold.lift(rows, _cuts(rows.num_rows, dice))
        while len(states) > 1:
            if not self.fold.is_ordered:
                states = states[dice.permutation(len(states))]
            cuts = _cuts(len(states), dice)
            merged = self.fold.merge(states, cuts)
            assert len(merged) == len(cuts) - 1, f"{len(cuts) - 1} runs of states gave {len(merged)}"
            states = merged if len(merged) < len(states) else self._merged(states)
        self._same(self.fold.lower(states), expected, "parts that were merged")
        total = Total(self.fold)
        for part in (rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)):
            total.add(part)
        self._same([total.value()], expected, "rows that were added in two halves")

    def check_scans(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """Running merges are what merges of the same states are, and so are merges of pairs."""
        states = self.fold.lift(rows, _cuts(rows.num_rows, dice))
        states = states[np.sort(dice.integers(0, len(states), int(dice.integers(1, 20))))]
        cuts = _cuts(len(states), dice)
        for backward in (False, True):
            bounds = []
            for first, last in pairwise(cuts.tolist()):
                bounds += [(at, last) if backward else (first, at + 1) for at in range(first, last)]
            expected = [self.fold.lower(self._merged(states[first:last]))[0] for first, last in bounds]
            found = self.fold.lower(self.fold.scan(states, cuts, backward=backward))
            self._same(found, expected, f"running merges of runs cut at {cuts.tolist()}")
        half = len(states) // 2
        pairs = self.fold.lower(self.fold.plus(states[:half], states[half : 2 * half]))
        singly = [self.fold.lower(self._merged(states[[at, half + at]]))[0] for at in range(half)]
        self._same(pairs, singly, "merges of pairs")

    def check_packing(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """States are the same after they were bytes, and their values after they were a column."""
        states = np.concatenate([self.fold.start(), self.fold.lift(rows, _cuts(rows.num_rows, dice))])
        expected = self.fold.lower(states)
        found = self.fold.unpack(pa.py_buffer(bytes(self.fold.pack(states))))
        assert found.dtype == states.dtype, f"states of {states.dtype} were packed, and ones of {found.dtype} unpacked"
        self._same(self.fold.lower(found), expected, "states that were packed")
        self._same(self.fold.lower(self._merged(found)), self.fold.lower(self._merged(states)), "merges of these")
        if self.fold.type is not None and UNKNOWN not in expected:
            column = self.fold.lower_column(states)
            assert column.type == self.fold.type, f"found a column of {column.type}, expected {self.fold.type}"
            told = pa.array(expected, self.fold.type)
            assert len(column) == len(told), f"found {len(column)} values, expected {len(told)}"
            for place, (one, other) in enumerate(zip(column, told, strict=True)):
                is_same = one.equals(other) or (
                    one.is_valid and other.is_valid and self._is_same(one.as_py(), other.as_py())
                )
                assert is_same, f"value {place} of a column is {one!r}, expected {other!r}"

    def check_types(self, rows: pa.RecordBatch) -> None:
        """Values are of the type that is told, and a null is None."""
        if self.fold.type is None:
            return
        for value in self.fold.lower(np.concatenate([self.fold.start(), self._whole(rows)])):
            if value is not UNKNOWN and not isinstance(value, np.datetime64):
                pa.scalar(value, self.fold.type)

    def check_purity(self, rows: pa.RecordBatch, dice: np.random.Generator) -> None:
        """Neither merging nor lowering changes a state."""
        states = self.fold.lift(rows, _cuts(rows.num_rows, dice))
        before = states.copy()
        self._merged(states)
        self._same(self.fold.lower(states), self.fold.lower(before), "states after they were merged")

    def _whole(self, rows: pa.RecordBatch) -> States:
        found = self.fold.lift(rows, np.array([0, rows.num_rows], np.int64))
        assert len(found) == 1, f"one run of rows has {len(found)} states"
        return found

    def _merged(self, states: States) -> States:
        return self.fold.merge(states, np.array([0, len(states)], np.int64))

    def _same(self, found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
        assert len(found) == len(expected), f"{what}: found {len(found)} values, expected {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            assert self._is_same(one, other), f"{what}: found {one!r}, expected {other!r}"


def _cuts(length: int, dice: np.random.Generator) -> Cuts:
    """Some runs of so many, a few of them empty."""
    inner = np.sort(dice.integers(0, length + 1, int(dice.integers(0, _MOST_RUNS))))
    return np.concatenate([[0], inner, [length]]).astype(np.int64)


def _is_close(tolerance: float, one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_close(tolerance, one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(partial(_is_close, tolerance), one, other))
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and bool(one == other)
