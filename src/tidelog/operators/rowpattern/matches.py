"""What a search has found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.opcodes import MATCHED, TIMED_OUT, UNMATCHED
from tidelog.operators.rowpattern.rows import Mask, Rows, index_array

Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Matches:
    """Matches, partial ones that timed out, and rows in none of them, in order; their rows and variables, one match
    behind the other."""

    rows: Rows
    partitions: Ints
    starts: Ints
    """The row at which the search was."""
    kinds: Ints
    numbers: Ints
    decided: Ints
    offsets: Ints
    """Where the rows of each match begin, and how many there are."""
    places: Ints
    """The rows of matches."""
    variables: Ints32
    """The variables these are bound to."""
    excluded: Mask
    """Which of these do not come out."""
    skips: bool = False
    """Whether there may be rows between those of a match."""
    frames: tuple[Ints, Ints] | None = None
    """The first row that each match sees, and the end of these, if they are not all rows of its partition."""

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> Ints:
        """How many rows each match has."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> Ints:
        """The match of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def seen(self, which: Ints) -> tuple[Ints, Ints]:
        """The first row that some of them see, and the end of these."""
        if self.frames is not None:
            return self.frames[0][which], self.frames[1][which]
        own = self.partitions[which]
        return self.rows.cuts[own], self.rows.cuts[own + 1]

    @property
    def is_match(self) -> Mask:
        """Which of them are matches."""
        found: Mask = self.kinds == MATCHED
        return found

    @property
    def is_timed_out(self) -> Mask:
        """Which of them are partial matches that timed out."""
        found: Mask = self.kinds == TIMED_OUT
        return found

    @property
    def is_unmatched(self) -> Mask:
        """Which of them are rows in no match."""
        found: Mask = self.kinds == UNMATCHED
        return found

    @property
    def number_column(self) -> pa.Array:
        """The numbers of matches; NULL for what is none."""
        return index_array(self.numbers, self.is_timed_out)

    def chosen(self, which: Mask) -> Matches:
        """Some of them."""
        if which.all():
            return self
        kept = np.repeat(which, self.lengths)
        return Matches(
            self.rows,
            self.partitions[which],
            self.starts[which],
            self.kinds[which],
            self.numbers[which],
            self.decided[which],
            np.concatenate([[0], np.cumsum(self.lengths[which])]).astype(np.int64),
            self.places[kept],
            self.variables[kept],
            self.excluded[kept],
            self.skips,
            None if self.frames is None else (self.frames[0][which], self.frames[1][which]),
        )

    def taken(self, places: Ints) -> Matches:
        """Some of them, in some order."""
        lengths = self.lengths[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.repeat(self.offsets[places] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Matches(
            self.rows,
            self.partitions[places],
            self.starts[places],
            self.kinds[places],
            self.numbers[places],
            self.decided[places],
            offsets,
            self.places[rows],
            self.variables[rows],
            self.excluded[rows],
            self.skips,
            None if self.frames is None else (self.frames[0][places], self.frames[1][places]),
        )
