"""Run as a process: write sensor events into a container, flush, write on without a flush, and wait to be killed.

Arguments: the directory, the number of events, and how many bytes to write behind the flush before saying so. A line
with the file's length at the flush says that the time to kill has come; writing goes on meanwhile.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import data
from formats import ours

directory, events, behind = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
container = ours.create(directory, data.Sensor.schema)
for batch in data.batches("sensor", events):
    container.extend(batch)
container.flush()
flushed = os.path.getsize(directory / ours.FILE)
announced = False
more = list(data.batches("sensor", 4 * data.CHUNK_ROWS))
for batch in itertools.cycle(more):
    container.extend(batch)
    if not announced and os.path.getsize(directory / ours.FILE) >= flushed + behind:
        print(flushed, flush=True)
        announced = True
