"""Run as a process: append sensor events to a store without a flush, and wait to be killed.

Arguments: the directory, and how many bytes to write before saying so. A line says that the time to kill has come;
writing goes on meanwhile.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pyarrow as pa

import data
from formats import event_store
from harness import bytes_on_disk

directory, behind = Path(sys.argv[1]), int(sys.argv[2])
flushed = bytes_on_disk(directory)
_, stream = event_store.reopen(directory)
last = stream.nth(-1, [event_store.TIME])[event_store.TIME]
announced = False
for batch in itertools.cycle(list(data.batches("sensor", 4 * data.CHUNK_ROWS))):
    times = batch.column(event_store.TIME).to_numpy()
    times = times - times[0] + last + 1
    last = int(times[-1])
    stream.append(batch.set_column(0, event_store.TIME, pa.array(times)))
    if not announced and bytes_on_disk(directory) >= flushed + behind:
        print("behind", flush=True)
        announced = True
