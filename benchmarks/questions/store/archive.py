"""Long streams on disk, made once by streaming and shared by the questions that need them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import data
from formats.duckdb_file import DuckDB
from harness import Bench
from harness.measuring import private_memory

STREAM = "sensor"

_CHILDREN = Path(__file__).parents[2] / "children"
_LOOK_SECONDS = 0.005


class Archive:
    """Stores of the first events of the stream :data:`STREAM`, in several lengths."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._ours: dict[int, Path] = {}
        self._duckdb: dict[int, Path] = {}
        self._ingest_memory: dict[int, int] = {}

    def ours(self, events: int) -> Path:
        """The directory of an event store; written by a process of its own, whose memory is watched."""
        if events not in self._ours:
            self._bench.on_progress(f"writing {events:,} events")
            directory = self._bench.workspace.fresh()
            self._ingest_memory[events] = run_watched("store_ingest.py", str(directory), str(events))[0]
            self._ours[events] = directory
        return self._ours[events]

    def ingest_memory(self, events: int) -> int:
        """Private bytes, at their peak, of the process that wrote :meth:`ours`."""
        self.ours(events)
        return self._ingest_memory[events]

    def duckdb(self, events: int) -> Path:
        """The directory of a DuckDB file."""
        if events not in self._duckdb:
            self._bench.on_progress(f"writing {events:,} events to DuckDB")
            directory = self._bench.workspace.fresh()
            DuckDB().write_stream(directory, data.Sensor.schema, _row_groups(events))
            self._duckdb[events] = directory
        return self._duckdb[events]

    def take(self, events: int) -> Path:
        """The directory of :meth:`ours`, which is the caller's from now on, to change and to remove."""
        directory = self.ours(events)
        del self._ours[events]
        return directory

    def remove(self) -> None:
        """Remove everything from the disk."""
        for directory in (*self._ours.values(), *self._duckdb.values()):
            self._bench.workspace.remove(directory)
        self._ours.clear()
        self._duckdb.clear()


def run_watched(script: str, *arguments: str) -> tuple[int, str]:
    """Run one of ``children/`` to its end; its private memory (RssAnon) at the peak, in bytes, and what it printed.

    We look every few milliseconds, from outside, so that watching costs the process nothing.
    """
    with start_child(script, *arguments) as child:
        peak = 0
        while child.poll() is None:
            try:
                peak = max(peak, private_memory(child.pid))
            except (OSError, RuntimeError):  # it has ended: no such file, or no memory any more
                continue
            time.sleep(_LOOK_SECONDS)
        assert child.stdout is not None
        printed = child.stdout.read()
    if child.returncode != 0:
        raise RuntimeError(f"{script} ended with status {child.returncode}: its own message says why")
    return peak, printed


def start_child(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start one of ``children/``, its standard input and output in pipes."""
    paths = [str(_CHILDREN.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, str(_CHILDREN / script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _row_groups(events: int) -> Iterator[pa.RecordBatch]:
    """The stream in batches of whole row groups of DuckDB: fifteen of the generator's are sixteen row groups."""
    some: list[pa.RecordBatch] = []
    for batch in data.batches(STREAM, events):
        some.append(batch)
        if len(some) == 15:
            yield pa.concat_batches(some)
            some = []
    if some:
        yield pa.concat_batches(some)
