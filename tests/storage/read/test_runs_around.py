"""What is decoded around rows that are wanted, against a look at every vector."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.read import kernels


@pytest.mark.parametrize("seed", range(40))
def test_runs(seed: int) -> None:
    dice = random.Random(seed)
    rows = [dice.choice([1, 700, VECTOR, 3000, 8192, 20_000]) for _ in range(dice.choice([1, 5]))]
    gap = dice.choice([0, 0, 2, VECTOR])
    count = dice.choice([1, 2, 10, 500])
    places = np.array(sorted(dice.sample(range(sum(rows)), min(count, sum(rows)))), np.int64)
    wanted: list[list[int]] = [[] for _ in rows]
    owners = np.repeat(np.arange(len(rows)), rows)
    begins = np.cumsum(rows) - rows
    for place in places.tolist():
        leaf = int(owners[place])
        vector = (place - int(begins[leaf])) // VECTOR
        if vector not in wanted[leaf]:
            wanted[leaf].append(vector)
    expected = []
    for leaf, vectors in enumerate(wanted):
        for at, vector in enumerate(vectors):
            stop = min((vector + 1) * VECTOR, rows[leaf])
            if at and vector - vectors[at - 1] <= 1 + gap:
                expected[-1] = (leaf, expected[-1][1], stop)
            else:
                expected.append((leaf, vector * VECTOR, stop))
    most = sum(-(-each // VECTOR) for each in rows)
    leaves, starts, stops = (np.zeros(most, np.int64) for _ in range(3))
    moved = np.empty(len(places), np.int64)
    found = kernels.runs_around(np.array(rows), places, gap, leaves, starts, stops, moved)
    assert list(zip(leaves[:found].tolist(), starts[:found].tolist(), stops[:found].tolist(), strict=True)) == expected
    decoded = [int(begins[leaf]) + row for leaf, start, stop in expected for row in range(start, stop)]
    assert np.array(decoded)[moved].tolist() == places.tolist()
