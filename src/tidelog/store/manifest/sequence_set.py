"""Sets of sequence numbers: which rows of a stream somebody has seen, asks for, or has deleted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from operator import index
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from tidelog.model.arguments import found, integer
from tidelog.model.arrays import distinct
from tidelog.model.errors import InputError
from tidelog.model.times.clock import INT64_MAX

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Span = tuple[int, int]
"""The numbers from the first up to, not including, the second."""

_FORM: Final = "expected ascending pairs such as [[0, 100], [200, 300]], each of a number and the one behind the last"


@final
class SeqSet:
    """A set of sequence numbers: a few half-open intervals, sorted and not touching each other. Immutable.

    Numbers are 0 to 2**63 - 2. ``|``, ``&`` and ``-`` are union, intersection and difference; an empty set is false.
    """

    __slots__ = ("_ends", "_starts", "spans")

    spans: tuple[Span, ...]
    """The intervals, ascending."""
    _starts: Numbers
    _ends: Numbers

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        """The numbers in any of the intervals, which may overlap and come in any order; empty ones are left out.

        Raises :class:`InputError` for bounds outside of 0 to 2**63 - 1.
        """
        merged: list[Span] = []
        try:
            ordered = sorted((index(start), index(end)) for start, end in spans)
        except (TypeError, ValueError):
            raise found("a set of sequence numbers", spans, "intervals such as [(0, 5)]") from None
        for start, end in ordered:
            if start >= end:
                continue
            if start < 0 or end > INT64_MAX:
                raise InputError(f"found sequence numbers {start} to {end - 1}; they are 0 to {INT64_MAX - 1}")
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        self._set(tuple(merged))

    def _set(self, spans: tuple[Span, ...]) -> None:
        object.__setattr__(self, "spans", spans)
        starts: Numbers = np.array([start for start, _ in spans], np.int64)
        ends: Numbers = np.array([end for _, end in spans], np.int64)
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_ends", ends)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a SeqSet does not change; make another one")

    @classmethod
    def below(cls, number: int) -> SeqSet:
        """All numbers below ``number``."""
        return cls([(0, min(integer("a sequence number", number), INT64_MAX))])

    @classmethod
    def of(cls, numbers: Numbers) -> SeqSet:
        """The numbers in an array, which may be in any order."""
        found = distinct(numbers)
        if not len(found):
            return cls()
        ends = np.flatnonzero(np.diff(found) != 1)
        firsts, lasts = found[np.append(0, ends + 1)], found[np.append(ends, len(found) - 1)]
        return cls(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return SeqSet, (self.spans,)

    # -- the set as a whole ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many numbers are in it."""
        return sum(end - start for start, end in self.spans)

    @property
    def stop(self) -> int:
        """The number behind the greatest one; 0 if there is none."""
        return self.spans[-1][1] if self.spans else 0

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeqSet) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    def __repr__(self) -> str:
        return f"SeqSet({list(self.spans)})"

    def __str__(self) -> str:
        return ", ".join(f"{start} to {end - 1}" for start, end in self.spans) or "no numbers"

    # -- what is in it --------------------------------------------------------------------------------------------

    def __contains__(self, number: int) -> bool:
        return self.covers(number, number)

    def contains(self, numbers: Numbers) -> Mask:
        """For each of some numbers whether it is in the set."""
        if len(self.spans) == 1:
            start, end = self.spans[0]
            below: Mask = numbers < end
            return below & (numbers >= start) if start else below
        # An odd number of bounds at or before a number means that it is inside.
        inside = self._bounds().searchsorted(numbers, side="right") & 1
        return inside.astype(np.bool_)

    def _bounds(self) -> Numbers:
        return np.stack([self._starts, self._ends], axis=1).reshape(-1)

    def overlaps(self, low: int, high: int) -> bool:
        """Whether a number from ``low`` to ``high``, both included, is in the set."""
        place = int(self._ends.searchsorted(low, side="right"))
        return place < len(self.spans) and self.spans[place][0] <= high and low <= high

    def overlap_each(self, lows: Numbers, highs: Numbers) -> Mask:
        """:meth:`overlaps` for arrays of bounds, each pair of which has ``low <= high``."""
        if not self.spans:
            return np.zeros(len(lows), np.bool_)
        places = self._ends.searchsorted(lows, side="right")
        last = len(self.spans) - 1
        found: Mask = (places <= last) & (self._starts[np.minimum(places, last)] <= highs)
        return found

    def covers(self, low: int, high: int) -> bool:
        """Whether all numbers from ``low`` to ``high``, both included, are in the set."""
        place = int(self._ends.searchsorted(low, side="right"))
        return place < len(self.spans) and self.spans[place][0] <= low and high < self.spans[place][1]

    # -- sets from sets -------------------------------------------------------------------------------------------

    def __or__(self, other: SeqSet) -> SeqSet:
        if not isinstance(other, SeqSet):
            return NotImplemented
        return SeqSet(chain(self.spans, other.spans))

    def __and__(self, other: SeqSet) -> SeqSet:
        if not isinstance(other, SeqSet):
            return NotImplemented
        return self._selected(other, inverted=False)

    def __sub__(self, other: SeqSet) -> SeqSet:
        if not isinstance(other, SeqSet):
            return NotImplemented
        return self._selected(other, inverted=True)

    def _selected(self, other: SeqSet, *, inverted: bool) -> SeqSet:
        """The numbers that are in both sets, or, inverted, those that are not in the other."""
        cuts = sorted({*chain.from_iterable(self.spans), *chain.from_iterable(other.spans)})
        return SeqSet((start, end) for start, end in pairwise(cuts) if start in self and (start in other) != inverted)

    def issubset(self, other: SeqSet) -> bool:
        """Whether all its numbers are in the other set too."""
        return all(other.covers(start, end - 1) for start, end in self.spans)

    def first(self, count: int) -> SeqSet:
        """The ``count`` smallest numbers; all of them if there are not so many."""
        taken: list[Span] = []
        for start, end in self.spans:
            if count <= 0:
                break
            taken.append((start, min(end, start + count)))
            count -= end - start
        return SeqSet(taken)

    def shifted(self, by: int) -> SeqSet:
        """Each number plus ``by``; those that would be negative are left out."""
        return SeqSet((max(start + by, 0), end + by) for start, end in self.spans) if by else self

    # -- JSON -----------------------------------------------------------------------------------------------------

    def to_list(self) -> list[list[int]]:
        """The set as JSON values: pairs of a first number and the one behind the last."""
        return [[start, end] for start, end in self.spans]

    @classmethod
    def from_list(cls, values: object) -> SeqSet:
        """The set that :meth:`to_list` described; raises :class:`InputError` for anything else."""
        if not isinstance(values, list | tuple):
            raise InputError(f"found {values!r} for a set of sequence numbers; {_FORM}")
        spans: list[Span] = []
        for value in values:
            if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(each) is int for each in value):
                raise InputError(f"found {value!r} in a set of sequence numbers; {_FORM}")
            start, end = value
            if start >= end or (spans and start <= spans[-1][1]):
                raise InputError(f"found {value!r} in the set of sequence numbers {values!r}; {_FORM}")
            spans.append((start, end))
        return cls(spans)


EMPTY: Final = SeqSet()
"""No numbers."""
