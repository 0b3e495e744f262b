"""Two pipelines and an embedded writer on one stream, for minutes: nothing is lost, and readers never fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from support.streams import reading_process

SECONDS = float(os.environ.get("TIDELOG_SOAK_SECONDS", "600"))
START = 1_767_225_600_000_000
"""2026-01-01 in microseconds."""
STEP = 7_000
SCHEMA = pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("v", pa.float64())])
PIPELINES = ("north", "south")
ROWS = (200, 200, 500)
"""Rows of a file of each pipeline, and of an append of the embedded writer, which comes last."""
LATE = 0.1
"""The part of appends and files that are as old as the stream."""
PAUSE = 0.5
WAIT = 900
"""Seconds that everybody has to end; a campaign is not to fail because the machine is busy."""

PIPELINE = """\
[pipeline]
name = "{name}"
checkpoint = "checkpoint-{name}"

[spark]
master = "local[1]"

[spark.config]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.driver.memory" = "1g"
"spark.log.level" = "OFF"
"spark.sql.shuffle.partitions" = 1

[sources.incoming]
format = "parquet"
path = "{name}"
schema = "at timestamp, id bigint, v double"

[sinks.shared]
input = "incoming"
path = "events"
stream = "shared"
time = "at"
compaction = "{compaction}"

[sinks.own]
input = "incoming"
path = "events"
stream = "{name}"
time = "at"
"""


class Writers:
    """Makes the rows of all writers and knows how many there are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dice = np.random.default_rng(1)
        self.turns = 0

    def expected(self, writer: int) -> npt.NDArray[np.int64]:
        """The ids of all rows of a writer so far, in order."""
        return np.arange(self.turns * ROWS[writer], dtype=np.int64) * len(ROWS) + writer

    def write(self, shared: tidelog.Stream) -> None:
        """One more file for each pipeline, and one more append that is durable when this returns."""
        for writer, name in enumerate(PIPELINES):
            draft = self._folder / name / f".{self.turns}.parquet"
            pq.write_table(self._rows(writer), draft)
            draft.rename(draft.with_name(f"{self.turns}.parquet"))  # complete once it has its name
        shared.append(self._rows(len(PIPELINES)))
        shared.flush()
        self.turns += 1

    def _rows(self, writer: int) -> pa.Table:
        """The next rows of a writer, in no order; now and then their times are anywhere in the past."""
        count = ROWS[writer]
        numbers = self._dice.permutation(np.arange(self.turns * count, (self.turns + 1) * count))
        is_late = self.turns and self._dice.random() < LATE
        times = self._dice.integers(0, self.turns * count, count) if is_late else numbers
        at = pa.array(START + times * STEP * max(ROWS) // count, SCHEMA.field("at").type)
        return pa.table([at, numbers * len(ROWS) + writer, numbers % 100 / 8], schema=SCHEMA)


@contextmanager
def process(command: list[str], log: Path, *, heard: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A running command, killed at the end if it still runs; what it says is logged, unless it is ``heard``."""
    with log.open("a") as file:
        said = subprocess.PIPE if heard else file
        full = [sys.executable, *command]
        started = subprocess.Popen(full, stdin=subprocess.PIPE, stdout=said, stderr=file, text=True)
    with started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def run_pipeline(folder: Path, name: str, *more: str) -> list[str]:
    return ["-m", "tidelog.cli", "pipeline", "run", str(folder / f"{name}.toml"), *more]


def ids(store: tidelog.Store, stream: str) -> npt.NDArray[np.int64]:
    return np.sort(store.stream(stream).scan(columns=["id"]).read_all()["id"].to_numpy())


@pytest.mark.soak
def test_soak_two_pipelines_and_an_embedded_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "events"
    for name, compaction in zip(PIPELINES, ("5s", "commit"), strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.toml").write_text(PIPELINE.format(name=name, compaction=compaction))
    writers = Writers(tmp_path)
    logs = [tmp_path / f"{name}.log" for name in (*PIPELINES, "reader")]
    with tidelog.open(directory) as store:
        # A short grace period, so that files leave while they might be read.
        shared = store.create_stream("shared", SCHEMA, "at", leaf_rows=256, split_bytes=1 << 20, grace="20s")
        writers.write(shared)
        reading = [reading_process.__file__, str(directory), "shared", *map(str, ROWS)]
        with process(reading, logs[2], heard=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n", logs[2].read_text()
            with (
                process(run_pipeline(tmp_path, PIPELINES[0]), logs[0]) as north,
                process(run_pipeline(tmp_path, PIPELINES[1]), logs[1]) as south,
            ):
                running, end = [north, south, reader], time.monotonic() + SECONDS
                while time.monotonic() < end:
                    writers.write(shared)
                    for each, log in zip(running, logs, strict=True):
                        assert each.poll() is None, log.read_text()
                    time.sleep(PAUSE)  # a pace, not a wait: as many files and appends as on any other machine
                for each, log in zip((north, south), logs, strict=False):
                    each.send_signal(signal.SIGINT)
                    each.wait(WAIT)
                    assert each.returncode == 130, log.read_text()
            for name, log in zip(PIPELINES, logs, strict=False):
                with process(run_pipeline(tmp_path, name, "--once"), log) as rest:
                    rest.wait(WAIT)
                    assert rest.returncode == 0, log.read_text()
            said, _ = reader.communicate(timeout=WAIT)
            assert reader.returncode == 0, logs[2].read_text()
    looks, seen = map(int, said.split())
    expected = [writers.expected(writer) for writer in range(len(ROWS))]
    assert seen == sum(map(len, expected)), "what is there was not seen"
    with tidelog.open(directory) as store:
        assert np.array_equal(ids(store, "shared"), np.sort(np.concatenate(expected)))
        for name, own in zip(PIPELINES, expected, strict=False):
            assert np.array_equal(ids(store, name), own)
        assert store.check() == []
        store.remove_orphans(0)
        assert store.check() == []
    with capsys.disabled():
        sys.stdout.write(f"\n{seen} rows of three writers, {looks} looks\n")
