"""Run as a process: write sensor events into a new store, durable at the end. Arguments: the directory, how many."""

from __future__ import annotations

import sys
from pathlib import Path

import data
from formats import event_store

event_store.fill(Path(sys.argv[1]), data.Sensor.schema, data.batches("sensor", int(sys.argv[2])))
