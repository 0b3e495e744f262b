"""A pipeline on Spark from end to end: files into a stream, killed, resumed, questions meanwhile, a page at the end."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from dropping import START, STEP, Dropper, Events
from page import Level, write_page
from rich.progress import Progress, TaskID

import tidelog

STREAM = "levels"
SECONDS_PER_FILE = 0.25
POINTS = 120
"""Points of a plot."""
AGGREGATES = ["count(*)", "min(level)", "max(level)", "avg(level)"]

PIPELINE = Path(__file__).with_name("pipeline.toml")


@dataclass
class Asked:
    """Questions that were asked while the stream grew: from the index, and from a scan of the same events."""

    index_seconds: list[float] = field(default_factory=list)
    scan_seconds: list[float] = field(default_factory=list)
    index_blocks: list[int] = field(default_factory=list)
    scan_blocks: list[int] = field(default_factory=list)
    growth: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start, and events that were there."""


def show_pipeline(directory: Path, page: Path, events: int, progress: Progress) -> dict[str, str]:
    """The whole of it; returns what to say about it. Ends the program if an event is missing, or there twice."""
    if find_spec("pyspark") is None:
        return {"pipeline": "not shown, for PySpark is not installed: pip install 'tidelog[spark]'"}
    directory.mkdir(parents=True)
    shutil.copy(PIPELINE, directory)
    made = Events(events)
    dropper = Dropper(directory, made, SECONDS_PER_FILE)
    dropper.start()
    task = progress.add_task("starting the pipeline on Spark", total=events)
    began = time.perf_counter()
    asked = Asked()
    runs = [_start(directory)]
    try:
        _ask_until(directory, events // 3, runs[0], asked, progress, task, began)
        _kill(runs[0])
        killed_at = _count(directory)
        progress.update(task, description="killed the pipeline; starting it again")
        runs.append(_start(directory))
        _ask_until(directory, events, runs[1], asked, progress, task, began)
        spent = time.perf_counter() - began
        runs[1].send_signal(signal.SIGINT)
        code = runs[1].wait(60)
    finally:
        dropper.stop.set()
        for run in runs:
            if run.poll() is None:
                _kill(run)
    if code != 130:
        raise SystemExit(f"the pipeline ended with {code} after an interrupt, expected 130; see {directory / 'log'}")
    progress.update(task, description="comparing every event, drawing")
    levels = _verify(directory, made)
    said = {
        "files of two receivers, one of which dies": f"{dropper.rows:,} rows, unordered, some late, some twice",
        "pipeline: killed with SIGKILL, and resumed": f"after {killed_at:,} events",
        "events in the merged stream at the end": f"{events:,}, each once, in order; aggregates equal a recount",
        "from the first file to the last event": f"{spent:.1f} s, with both starts of Spark",
        "aggregates of a range meanwhile, from the index": _timing(asked.index_seconds, asked.index_blocks),
        "the same from a scan": _timing(asked.scan_seconds, asked.scan_blocks),
    }
    write_page(page, said, levels, asked.growth)
    return {**said, "page with plots at three zoom levels": str(page)}


def _start(directory: Path) -> subprocess.Popen[bytes]:
    """The pipeline as a process, at the head of a group of its own, with Spark's virtual machine in it."""
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "run", str(directory / PIPELINE.name)]
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _kill(run: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()


def _count(directory: Path) -> int:
    with suppress(tidelog.TidelogError), tidelog.open(directory / "events", read_only=True) as store:
        return len(store.stream(STREAM)) if STREAM in store else 0
    return 0


def _ask_until(
    directory: Path,
    wanted: int,
    run: subprocess.Popen[bytes],
    asked: Asked,
    progress: Progress,
    task: TaskID,
    began: float,
) -> None:
    """Ask the growing stream until so many events are in it."""
    dice = np.random.default_rng(1)
    there = 0
    while there < wanted:
        if run.poll() is not None:
            raise SystemExit(f"the pipeline ended with {run.returncode}; see {directory / 'log'}")
        there = _count(directory)
        asked.growth.append((time.perf_counter() - began, there))
        progress.update(task, completed=there)
        if there:
            progress.update(task, description="the pipeline ingests, the library answers")
            with tidelog.open(directory / "events", read_only=True) as store:
                _ask(store.stream(STREAM), there, dice, asked)
        time.sleep(0.5)


def _ask(stream: Any, there: int, dice: np.random.Generator, asked: Asked) -> None:
    """One range of the stream as it is now, from the index and from its events."""
    snapshot = stream.snapshot()
    low, high = sorted((START + STEP * dice.integers(0, there, 2)).tolist())
    before, began = stream.stats()["blocks_read"], time.perf_counter()
    answer = stream.aggregate(low, high, AGGREGATES, as_of=snapshot)
    asked.index_seconds.append(time.perf_counter() - began)
    between, began = stream.stats()["blocks_read"], time.perf_counter()
    values = stream.scan(low, high, columns=["level"], as_of=snapshot).read_all()["level"].to_numpy()
    recount = [len(values), *((values.min(), values.max(), values.mean()) if len(values) else (None,) * 3)]
    asked.scan_seconds.append(time.perf_counter() - began)
    asked.index_blocks.append(between - before)
    asked.scan_blocks.append(stream.stats()["blocks_read"] - between)
    if not all(_equal(answer[text], value) for text, value in zip(AGGREGATES, recount, strict=True)):
        raise SystemExit(f"the index says {answer}, a scan {recount}")


def _equal(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else bool(np.isclose(one, other, rtol=1e-12))


def _verify(directory: Path, made: Events) -> Sequence[Level]:
    """Compare the stream with what was made; returns a range at three zoom levels, from the tree's aggregates."""
    with tidelog.open(directory / "events") as store:
        stream = store.stream(STREAM)
        rows = stream.scan().read_all()
        expected = made.columns(np.arange(made.count))
        if not all(rows[name].equals(expected[name]) for name in expected.column_names):
            raise SystemExit(f"{rows.num_rows} events are in the stream and not all are what was made")
        findings = store.check()
        if findings:
            raise SystemExit("\n".join(map(str, findings)))
    return [_level(directory, made.count, part) for part in (1, 12, 144)]


def _level(directory: Path, count: int, part: int) -> Level:
    """A part of the stream's time as a few hundred intervals, none of whose events are read but at their ends."""
    length = count * STEP // part
    start = START + (count * STEP - length) // 3
    bounds = [start + length * point // POINTS for point in range(POINTS + 1)]
    with tidelog.open(directory / "events", read_only=True) as store:  # anew: nothing is in memory
        stream = store.stream(STREAM)
        before, began = stream.stats()["blocks_read"], time.perf_counter()
        found = stream.aggregate_all(itertools.pairwise(bounds), AGGREGATES)
        spent = time.perf_counter() - began
        blocks = stream.stats()["blocks_read"] - before
    return Level(
        events=sum(each["count(*)"] for each in found),
        low=[each["min(level)"] for each in found],
        high=[each["max(level)"] for each in found],
        mean=[each["avg(level)"] for each in found],
        seconds=spent,
        blocks=blocks,
    )


def _timing(seconds: Sequence[float], blocks: Sequence[int]) -> str:
    return f"{statistics.median(seconds) * 1e3:.2f} ms, {statistics.median(blocks):.0f} blocks read (medians)"
