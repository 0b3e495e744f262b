"""Run as a process: load every kernel, write and read back some events, and print how many seconds it took.

Kernels are compiled or come from the cache in ``TIDELOG_CACHE_DIR``; the time starts before tidelog is imported.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa


def column(kind: pa.DataType, *content: np.ndarray) -> pa.Array:
    """A column from its buffers: ``pa.array`` would import pandas, if that is installed, before the clock runs."""
    return pa.Array.from_buffers(kind, ROWS, [None, *map(pa.py_buffer, content)])


ROWS = 10_000
number = np.arange(ROWS)
letters = (number % 7 + ord("a")).astype(np.uint8)
events = pa.Table.from_arrays(
    [
        column(pa.int64(), number),
        column(pa.float64(), np.sin(number)),
        column(pa.string(), np.arange(ROWS + 1, dtype=np.int32), letters),
    ],
    ["ts", "value", "name"],
)
start = time.perf_counter()

from formats import ours  # noqa: E402
from tidelog.lazy import load_kernels  # noqa: E402

load_kernels()
with tempfile.TemporaryDirectory() as directory:
    format = ours.Tidelog()
    format.write(Path(directory), format.prepare(events))
    store = format.open(Path(directory))
    assert sum(batch.num_rows for batch in store.scan(None)) == events.num_rows
    store.close()
print(time.perf_counter() - start)
