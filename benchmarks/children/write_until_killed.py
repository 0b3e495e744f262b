"""Run as a process: write sensor events into a container, say when enough are durable, write on until killed.

Arguments: the directory and the number of events.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import data
from formats import ours

directory, events = Path(sys.argv[1]), int(sys.argv[2])
container = ours.create(directory, data.Sensor.schema)
for batch in data.batches("sensor", events):
    container.extend(batch)
container.flush()
print("flushed", flush=True)
for batch in itertools.cycle(data.batches("sensor", data.CHUNK_ROWS)):
    container.extend(batch)
