"""Run as a process: aggregate all of a store's stream again and again, until the standard input ends.

Arguments: the directory, and how many events there must be each time. Prints a line when it is ready, and then how many
times it asked, and the longest wait in seconds.
"""

from __future__ import annotations

import sys
import threading
import time

import data
import tidelog
from formats.event_store import STREAM

directory, events = sys.argv[1], int(sys.argv[2])
column = data.Sensor.schema.names[1]
over = threading.Event()
waits: list[float] = []
with tidelog.open(directory, read_only=True) as store:
    stream = store.stream(STREAM)
    stream.aggregate(None, None, ["count(*)"])
    print("ready", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.is_set() or not waits:
        began = time.perf_counter()
        found = stream.aggregate(None, None, ["count(*)", f"sum({column})"])
        waits.append(time.perf_counter() - began)
        if found["count(*)"] != events:
            raise AssertionError(f"{found['count(*)']} events were there, expected {events}")
print(len(waits), max(waits))
