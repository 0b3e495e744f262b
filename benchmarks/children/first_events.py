"""Run as a process: load every kernel, write and read back some events, and print how many seconds it took.

Kernels are compiled or come from the cache in ``TIDELOG_CACHE_DIR``; the time starts before tidelog is imported.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

rows = np.arange(10_000)
events = pa.table({"ts": rows, "value": np.sin(rows), "name": [f"sensor {row % 7}" for row in rows]})
start = time.perf_counter()

import tidelog  # noqa: E402
from formats import ours  # noqa: E402

package = Path(tidelog.__file__).parent
for path in sorted(package.rglob("kernels.py")):
    importlib.import_module(".".join(("tidelog", *path.relative_to(package).with_suffix("").parts)))
with tempfile.TemporaryDirectory() as directory:
    format = ours.Tidelog()
    format.write(Path(directory), format.prepare(events))
    store = format.open(Path(directory))
    assert sum(batch.num_rows for batch in store.scan(None)) == events.num_rows
    store.close()
print(time.perf_counter() - start)
