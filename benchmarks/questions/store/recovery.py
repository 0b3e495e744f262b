"""How long does it take to go on with a stream whose writer was killed in the middle of its work?"""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import data
from formats import event_store
from formats.event_store import EventStore
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question, sync_tree
from questions.store.archive import Archive, start_child

NAME = "recovery"

_BEHIND = 24 << 20
"""Bytes a writer has written behind its last flush, at least, when it is killed: most of what a container writes
between two commits of its own accord, so that recovery has much to verify."""

_LATER = data.START_MICROS + 10**15
"""A time behind all others."""


def ask(bench: Bench, archive: Archive, events: int, limit: Bound) -> None:
    """Let a process append to a stream of so many flushed events, kill it, and open what it left."""
    crashed = archive.take(events)
    bench.on_progress(f"{NAME}: appending to {events:,} events")
    _append_and_kill(crashed)
    opening = _Opening(crashed, events)
    outcome = bench.race(NAME, [opening.case()], writes=True)[OURS]
    bench.workspace.remove(crashed)
    milliseconds = tuple(seconds * 1000 for seconds in opening.seconds[1:])  # but for the warm-up's
    bench.answer(
        Question(
            NAME,
            "ms to open and append, after a kill",
            events,
            Figures(milliseconds, tuple(outcome.samples), outcome.peak_memory),
            {},
            [Comparison("limit", (), limit)],
            higher_is_better=False,
            note=f"killed {_BEHIND >> 20} MiB behind its last flush; kernels loaded; wall and CPU include the close",
        )
    )


class _Opening:
    """Opens copies of a store, each one as its dead writer left it."""

    def __init__(self, crashed: Path, flushed: int) -> None:
        self._crashed = crashed
        self._flushed = flushed
        self._event = {**data.table("sensor", 1).to_pylist()[0], event_store.TIME: _LATER}
        self.seconds: list[float] = []

    def case(self) -> Case:
        """The case to race."""
        return Case(OURS, self._work, before=self._copy, check=self._check)

    def _copy(self, directory: Path) -> None:
        shutil.copytree(self._crashed, directory, dirs_exist_ok=True)
        # What the copy left to be written back is not the recovery's to wait for.
        sync_tree(directory)

    def _work(self, directory: Path) -> int:
        start = time.perf_counter()
        store, stream = event_store.reopen(directory)
        stream.append(self._event)
        self.seconds.append(time.perf_counter() - start)
        store.close()
        reader = EventStore().open(directory)
        rows = reader.aggregate(0, _LATER, "temperature").count
        reader.close()
        return rows

    def _check(self, rows: int) -> None:
        if rows < self._flushed:
            raise AssertionError(f"{rows} events are left, but {self._flushed} had been flushed")


def _append_and_kill(directory: Path) -> None:
    with start_child("store_append_until_killed.py", str(directory), str(_BEHIND)) as child:
        assert child.stdout is not None
        announced = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
    if not announced or child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the writer ended by itself with status {child.returncode}: its own message says why")
