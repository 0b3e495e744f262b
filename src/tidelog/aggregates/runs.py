"""Whole-array helpers for runs: what most aggregates consist of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.aggregates.base import Cuts

Values = npt.NDArray[Any]


def sums(values: Values, cuts: Cuts) -> Values:
    """The sum of each run; infinite where it exceeds what a double holds, which is no reason for a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.reduceat(values, cuts[:-1])


def largest(values: Values, cuts: Cuts) -> Values:
    """The largest value of each run; NaN is greater than every number."""
    return np.maximum.reduceat(values, cuts[:-1])


def smallest(values: Values, cuts: Cuts) -> Values:
    """The smallest value of each run; NaN is greater than every number, so it is one only among NaN."""
    return np.fmin.reduceat(values, cuts[:-1])


def spread(per_run: Values, cuts: Cuts) -> Values:
    """A value for each run, repeated for each member of the run."""
    return np.repeat(per_run, np.diff(cuts))


def compressed(cuts: Cuts, kept: npt.NDArray[np.bool_] | None) -> Cuts:
    """Cuts of rows as cuts of those that are kept; None for all."""
    if kept is None:
        return cuts
    before: Cuts = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
    return before[cuts]


def filled(cuts: Cuts) -> tuple[npt.NDArray[np.bool_], Cuts]:
    """Which runs are not empty, and the cuts of these."""
    found: npt.NDArray[np.bool_] = np.diff(cuts) > 0
    return found, cuts if found.all() else np.append(cuts[:-1][found], cuts[-1])
