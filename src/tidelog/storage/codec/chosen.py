"""Rows that are wanted of a run of pieces, where these are few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidelog.storage.codec.arena import Ints


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of some pieces, which come one behind the other."""

    places: Ints
    """The numbers of the rows, rising, where the rows of pieces have numbers from their begins on."""
    begins: Ints
    """For each piece the number of its first row."""
    rows: Ints
    """How many rows each piece has."""
    cuts: Ints
    """The places of piece i are those from ``cuts[i]`` to ``cuts[i + 1]`` (exclusive)."""

    @classmethod
    def of(cls, places: Ints, rows: Ints) -> tuple[Chosen, Ints]:
        """Those with rising numbers among the rows of all pieces; the pieces that have some, to which it is confined.

        ``rows`` are those of each piece.
        """
        ends = np.cumsum(rows)
        cuts = places.searchsorted(ends)
        counts = np.diff(cuts, prepend=0)
        pieces = np.flatnonzero(counts)
        rows = rows[pieces]
        return cls(places, ends[pieces] - rows, rows, np.concatenate([cuts[:0], [0], cuts[pieces]])), pieces

    @property
    def counts(self) -> Ints:
        """How many rows are wanted of each piece."""
        return np.diff(self.cuts)

    def moved(self, pieces: Ints | None = None) -> tuple[Ints, Ints]:
        """Where wanted rows are among all rows of some pieces, or of all, and which of the wanted rows these are."""
        if pieces is None:
            pieces = np.arange(len(self.rows))
        counts, rows = self.counts[pieces], self.rows[pieces]
        befores = np.cumsum(counts) - counts
        which = np.arange(int(counts.sum())) + np.repeat(self.cuts[:-1][pieces] - befores, counts)
        shifts = np.cumsum(rows) - rows - self.begins[pieces]
        return self.places[which] + np.repeat(shifts, counts), which
