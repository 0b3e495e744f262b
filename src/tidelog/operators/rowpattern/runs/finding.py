"""Patterns whose matches are found from run to run.

At random every second row of a rise or a fall ends it, and a search that decides at each row whether it goes on is
wrong about that as often, which costs a processor more than all else. What is known of whole columns as bits tells the
end of a run by counting zeros, whatever its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.base import Ints
from tidelog.operators.rowpattern import opcodes
from tidelog.operators.rowpattern.conditions.conditions import Evaluated
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.runs import kernels
from tidelog.operators.rowpattern.syntax import (
    Concatenation,
    Pattern,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    Variable,
)

_SLACK: Final = 8
_FEWEST: Final = 1024
"""Rows for which it is worth packing bits."""


@dataclass(frozen=True)
class Runs:
    """The parts of a pattern, each of them one row or a run of rows of one variable."""

    variables: npt.NDArray[np.int32]
    is_run: npt.NDArray[np.uint8]
    most_rows: int

    @classmethod
    def of(cls, query: RowPattern) -> Runs | None:
        """Those of a query; None if its pattern is another one, or more is asked than where matches are."""
        is_plain = query.strategy is Strategy.CONTIGUOUS and query.skip is Skip.PAST_LAST_ROW and query.frame is None
        is_more = query.is_all_matches or query.with_timeouts or query.rows is Rows.WITH_UNMATCHED
        parts = _parts(query.pattern)
        if not is_plain or is_more or query.within is not None or parts is None:
            return None
        places = [query.variables.index(name) for name, _ in parts]
        is_run = np.array([is_run for _, is_run in parts], np.uint8)
        return cls(np.array(places, np.int32), is_run, query.limits.match_rows)

    def matches(self, evaluated: Evaluated, partitions: Partitions, expected: tuple[int, int]) -> Matches | None:
        """The matches that are certain, and ``partitions`` is changed; None if they have to be found in another way.

        There is room for so many matches, and rows of these, as are expected, and for more if there are more.
        """
        count, kinds, masks = len(evaluated.rows), evaluated.kinds, evaluated.masks
        is_open = partitions.closed == 0
        are_told = len(partitions.forced_cuts) or partitions.stops is not None or len(partitions.seen)
        if count < _FEWEST or are_told or np.any(kinds > opcodes.MASK) or np.any(is_open[:-1]):
            return None
        if np.any(is_open) and (evaluated.conditions.ahead or partitions.highs[-1] != count):
            return None
        own = [masks[place] for place in self.variables]
        if any(run and np.any(one & other) for run, one, other in zip(self.is_run, own, own[1:], strict=False)):
            return None
        begins = own[0]
        if len(own) > 1:
            begins = begins.copy()
            begins[:-1] &= own[1][1:] if not self.is_run[0] else own[0][1:] | own[1][1:]
        bits = np.stack([_bits(each) for each in own])
        room = max(expected[0], 1024), max(expected[1], 1024)
        for most, most_rows in (room, (count // len(own) + 1, count)):
            resumes, numbers = partitions.resumes.copy(), partitions.numbers.copy()
            found = np.empty((6, most), np.int64)
            rows, variables = np.empty(most_rows + _SLACK, np.int64), np.empty(most_rows + _SLACK, np.int32)
            told: int = kernels.find(
                *(_bits(begins), bits, self.is_run, self.variables, self.most_rows),
                *(partitions.lows, partitions.highs, partitions.closed, resumes, numbers, partitions.decisions),
                *(np.zeros((len(own), 3), np.int64), found, rows, variables),
            )
            if told >= 0:
                partitions.resumes[:], partitions.numbers[:] = resumes, numbers
                return _told(evaluated, found[:, :told], rows, variables)
            if told == -1:
                break
        return None


def _told(evaluated: Evaluated, found: Ints, rows: Ints, variables: npt.NDArray[np.int32]) -> Matches:
    count = int(found[2, -1]) if found.shape[1] else 0
    return Matches(
        evaluated.rows,
        found[0],
        found[1],
        found[3],
        found[4],
        found[5],
        np.concatenate([[0], found[2]]),
        rows[:count],
        variables[:count],
        np.zeros(count, np.bool_),
    )


def _parts(pattern: Pattern) -> list[tuple[str, bool]] | None:
    """The variable of each part, and whether it is a run; None for another pattern."""
    found = []
    for part in pattern.parts if isinstance(pattern, Concatenation) else (pattern,):
        match part:
            case Variable(name):
                found.append((name, False))
            case Quantified(Variable(name), 1, None, True):
                found.append((name, True))
            case _:
                return None
    return found


def _bits(mask: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """A bit for each row, and words of nothing behind them."""
    bits = np.zeros(8 * (len(mask) // 64 + 3), np.uint8)
    packed = np.packbits(mask, bitorder="little")
    bits[: len(packed)] = packed
    return bits.view(np.uint64)
