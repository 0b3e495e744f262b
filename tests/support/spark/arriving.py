"""Rows that arrive, some of them late, and aggregates of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SECOND = 1_000_000
CALLS = {"rows": "count(*)", "total": "sum(n)", "low": "min(x)"}


def arriving(dice: np.random.Generator, count: int, jitter: int) -> pa.Table:
    """Rows that come up to some seconds late."""
    times = np.sort(dice.integers(0, 600, count)) * SECOND
    times -= dice.integers(0, jitter + 1, count) * SECOND * (dice.random(count) < 0.3)
    keys = [("a", "b", None)[each] for each in dice.integers(0, 3, count)]
    columns = {
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "k": pa.array(keys, pa.string()),
        "n": pa.array(dice.integers(-5, 6, count), pa.int64(), mask=dice.random(count) < 0.2),
        "x": pa.array(dice.integers(0, 80, count) / 8),
    }
    return pa.table(columns)
