"""Run as a process: scan all of a store's stream and print the number of events. Argument: the directory."""

from __future__ import annotations

import sys
from pathlib import Path

from formats.event_store import EventStore

reader = EventStore().open(Path(sys.argv[1]))
print(sum(batch.num_rows for batch in reader.scan(None)))
reader.close()
