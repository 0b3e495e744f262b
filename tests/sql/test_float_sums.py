"""Sums of floats that are no multiples of a power of two: how far they may be from the exact ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store

ROWS = 20_000
UNIT = 2.0**-53
"""By how much a float may be off, relative to itself, after one rounding."""


@pytest.fixture(scope="module")
def values() -> npt.NDArray[np.float64]:
    """Of many sizes and both signs, so that much of them cancels."""
    dice = np.random.default_rng(70)
    return dice.standard_normal(ROWS) * 10.0 ** dice.integers(-9, 10, ROWS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, values: object) -> Iterator[Store]:
    made: Path = tmp_path_factory.mktemp("sums")
    opened = tidelog.open(made, maintenance="manual")
    rows = pa.table({"ts": np.arange(ROWS), "k": np.arange(ROWS) % 7, "x": values})
    opened.create_stream("s", rows.schema, "ts", leaf_rows=512).append(rows)
    yield opened
    opened.close()


def check(found: float, parts: list[float], roundings: int) -> None:
    """Every rounding is off by at most a unit of all that was added up so far, which no sum of sizes exceeds."""
    exact = math.fsum(parts)
    assert abs(found - exact) <= roundings * UNIT * math.fsum(map(abs, parts)), (found, exact)


@pytest.mark.parametrize("condition", ["", "WHERE ts BETWEEN 700 AND 17300"], ids=["all", "cut leaves"])
def test_from_the_index(store: Store, values: npt.NDArray[np.float64], condition: str) -> None:
    """The index adds up leaves, so there are hardly more roundings than a leaf has rows."""
    wanted = values.tolist() if not condition else values[700:17301].tolist()
    text = f"SELECT sum(x), avg(x) FROM s {condition}"
    assert "index" in str(store.sql(text).explain())
    total, mean = store.sql(text).fetchall()[0]
    check(total, wanted, 1024)
    check(mean * len(wanted), wanted, 1026)


def test_from_the_events(store: Store, values: npt.NDArray[np.float64]) -> None:
    parts = defaultdict(list)
    for at, value in enumerate(values.tolist()):
        parts[at % 7].append(value)
    for key, total, mean in store.sql("SELECT k, sum(x), avg(x) FROM s GROUP BY k").fetchall():
        check(total, parts[key], len(parts[key]))
        check(mean * len(parts[key]), parts[key], len(parts[key]) + 2)


def test_windows(store: Store, values: npt.NDArray[np.float64]) -> None:
    """Windows are merges of slices: each row is in a few of them."""
    text = "SELECT window_start, window_end, sum(x) FROM s GROUP BY window(ts, 4000, 1000)"
    found = store.sql(text).fetchall()
    assert len(found) == ROWS // 1000 + 3
    for start, end, total in found:
        wanted = values[max(start, 0) : end].tolist()
        check(total, wanted, len(wanted))
