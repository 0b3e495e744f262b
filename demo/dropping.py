"""Files of two receivers of the same events, which arrive while a pipeline reads them.

Each has some events late and some twice, others than the other has; one of them dies, with what it had not sent yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

START = 1_767_225_600_000_000
"""2026-01-01 in microseconds."""
STEP = 1_000
"""Microseconds from event to event."""
LATE = 0.03
"""The part of a file's events that comes with the next file of its directory instead."""
TWICE = 0.02
"""The part of a file's events that comes with the next file of its directory once more."""
DIRECTORIES = ("north", "south")
MORTAL = "south"
LIFE = 0.6
"""The part of the events after which that receiver is dead."""


@dataclass(frozen=True)
class Events:
    """All events that will be, numbered in order of time; the same in every run."""

    count: int
    file_events: int = 10_000
    """How many make a file, but for those that are late, or there twice."""

    def columns(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """The events of some numbers, as they come in a file."""
        times = START + STEP * numbers
        return pa.table(
            {
                "at": pa.array(times, pa.timestamp("us", "UTC")),
                "id": numbers,
                "place": pa.array(np.array(DIRECTORIES)[numbers % 2]),
                "level": self.levels(numbers),
            }
        )

    def levels(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Water levels: a tide, waves on it, and noise that is a function of the number."""
        noise = ((numbers * 2_654_435_761) % 1_000) / 1_000
        tide = 2.0 * np.sin(2 * np.pi * numbers / self.count * 3)
        return np.round(5.0 + tide + 0.4 * np.sin(numbers / 900) + 0.3 * noise, 3)

    def files(self) -> Iterator[tuple[str, int, npt.NDArray[np.int64]]]:
        """Directory, number and events of each file, in the order in which they arrive."""
        dice = np.random.default_rng(7)
        held: dict[str, npt.NDArray[np.int64]] = {name: np.empty(0, np.int64) for name in DIRECTORIES}
        steps = range(0, self.count, self.file_events)
        for number, start in enumerate(steps):
            own = np.arange(start, min(start + self.file_events, self.count))
            is_last = number + 1 == len(steps)
            for name in DIRECTORIES:
                if name == MORTAL and start >= LIFE * self.count:
                    continue
                chance = dice.random(len(own))
                is_late, is_twice = chance < LATE, (chance >= LATE) & (chance < LATE + TWICE)
                now, later = own[~is_late], own[is_late | is_twice]
                rows = np.concatenate([now, held[name], *([later] if is_last else [])])
                held[name] = later
                yield name, number, dice.permutation(rows)

    def write(self, folder: Path, name: str, number: int, rows: npt.NDArray[np.int64]) -> Path:
        """Put a file of some events into a directory, complete once it has its name."""
        table = self.columns(rows)
        kind = "csv" if name == "north" else "parquet"
        draft = folder / name / f".{number:05d}.{kind}"
        if kind == "csv":
            pc.write_csv(table, draft)
        else:
            pq.write_table(table, draft)
        return draft.replace(draft.with_name(draft.name[1:]))


def make_directories(folder: Path) -> None:
    """The directories that files arrive in."""
    for name in DIRECTORIES:
        (folder / name).mkdir(parents=True, exist_ok=True)


class Dropper:
    """Puts the files into their directories from a thread, one every so often. ``done`` is set after the last."""

    def __init__(self, folder: Path, events: Events, every: float) -> None:
        self._folder = folder
        self._events = events
        self._every = every
        self.rows = 0
        """Rows in files so far, with those that are there twice."""
        self.done = threading.Event()
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dropping files", daemon=True)

    def start(self) -> None:
        """Begin."""
        make_directories(self._folder)
        self._thread.start()

    def _run(self) -> None:
        for name, number, rows in self._events.files():
            self._events.write(self._folder, name, number, rows)
            self.rows += len(rows)
            if self.stop.wait(self._every):
                return
        self.done.set()
