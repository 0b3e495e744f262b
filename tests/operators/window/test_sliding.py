"""Ranges of slices, merged: against merges of each range by itself, call by call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.profiles import scaled
from tidelog.expr import parse_aggregate
from tidelog.operators.window.sliding import Sliding, merge_groups

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("_seq", pa.int64()), ("x", pa.float64()), ("n", pa.int64()), ("k", pa.string())]
)
CALLS = ("count(*)", "sum(x)", "sum(n)", "min(x)", "max(n)", "first(k)", "last(n)", "var_pop(x)", "min(k)", "last(x)")


@pytest.mark.parametrize("seed", range(scaled(12)))
def test_ranges(seed: int) -> None:
    dice = np.random.default_rng(seed)
    count = int(dice.integers(1, 120))
    columns = [
        pa.array(np.arange(count)),
        pa.array(np.arange(count)),
        pa.array(dice.integers(-9, 9, count) / 4, mask=dice.random(count) < 0.2),
        pa.array(dice.integers(-9, 9, count), mask=dice.random(count) < 0.2),
        pa.array(dice.choice(["a", "b", "c"], count)),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    folds = [parse_aggregate(text, SCHEMA, "ts") for text in CALLS]
    cuts = np.arange(count + 1)
    every = [fold.lift(rows, cuts) for fold in folds]
    longest = int(dice.choice([1, 2, 5, 40, 200]))
    firsts = np.sort(dice.integers(0, count, int(dice.integers(1, 150))))
    lasts = np.maximum.accumulate(np.minimum(firsts + dice.integers(1, longest + 1, len(firsts)), count))
    expected = [
        [
            fold.lower(fold.merge(own[first:last], np.array([0, last - first])))[0]
            for first, last in zip(firsts, lasts, strict=True)
        ]
        for fold, own in zip(folds, every, strict=True)
    ]
    at_once, _ = merge_groups(folds, every, firsts, lasts)
    for fold, own, wanted in zip(folds, at_once, expected, strict=True):
        assert fold.lower(own) == pytest.approx(wanted), str(fold)
    # The same in several calls, slices put in as they are needed and dropped when they are not.
    sliding, added, done = Sliding(folds), 0, 0
    found: list[list[object]] = [[] for _ in folds]
    while done < len(firsts):
        more = min(done + int(dice.integers(1, 20)), len(firsts))
        while added < lasts[more - 1]:
            until = min(added + int(dice.integers(1, 30)), count)
            sliding.append([own[added:until] for own in every])
            added = until
        for values, fold, own in zip(found, folds, sliding.merged(firsts[done:more], lasts[done:more]), strict=True):
            values += fold.lower(own)
        sliding.drop(int(firsts[more - 1]))
        done = more
    for fold, values, wanted in zip(folds, found, expected, strict=True):
        assert values == pytest.approx(wanted), str(fold)
