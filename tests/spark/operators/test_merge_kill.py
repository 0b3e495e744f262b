"""Two receivers, either of which may be dead for a while, into one stream, by a pipeline that is killed anywhere."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from support.spark import pipeline_process
from support.spark.drivers import WAIT, kill, small_spark

TESTS = Path(__file__).resolve().parents[2]
EVENTS = 2_000
OF_FILE = 60
DELAY = 40
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
FILE = """
[pipeline]
name = "receivers"
checkpoint = "checkpoint"

[spark]
master = "local[2]"
config."spark.sql.shuffle.partitions" = 2
config."spark.driver.memory" = "1g"

[sources.north]
format = "parquet"
path = "north"
schema = "ts bigint, k string, n bigint"
options = {{ maxFilesPerTrigger = {files} }}

[sources.south]
format = "parquet"
path = "south"
schema = "ts bigint, k string, n bigint"
options = {{ maxFilesPerTrigger = {files} }}

[[steps]]
name = "clean"
kind = "merge"
inputs = ["north", "south"]
key = ["n"]
time = "ts"
delay = "{delay}"

[sinks.clean]
input = "clean"
path = "store"
stream = "clean"
time = "ts"
"""
Row = tuple[int, str, int]


class Receiver:
    """Writes what it receives to files, out of order; after it was dead it begins a little earlier."""

    def __init__(self, folder: Path, dice: random.Random, whole: list[Row]) -> None:
        folder.mkdir()
        self._folder = folder
        self._dice = dice
        self._rows = sorted(whole, key=lambda each: each[0] + dice.random() * (DELAY - 10))
        self._next = 0

    def work(self, files: int) -> None:
        """Write so many files, if there is so much."""
        self._next = max(0, self._next - self._dice.randrange(8))
        for _ in range(files):
            rows = self._rows[self._next : self._next + OF_FILE]
            if not rows:
                return
            self._next += OF_FILE
            table = pa.table([pa.array(list(each)) for each in zip(*rows, strict=True)], schema=SCHEMA)
            number = len(list(self._folder.glob("*.parquet")))
            hidden, path = self._folder / f"_{number}", self._folder / f"{number:06}.parquet"
            pq.write_table(table, hidden)
            os.utime(hidden, (1_000_000_000 + number,) * 2)
            hidden.rename(path)


def stored(folder: Path) -> list[Row]:
    with tidelog.open(folder / "store", read_only=True) as store:
        return store.sql("SELECT ts, k, n FROM clean ORDER BY n, ts").fetchall() if "clean" in store else []


def campaign(folder: Path, kills: int, seed: int) -> None:
    """Kill a pipeline so many times, with receivers that live and die; then let all come to its end."""
    dice = random.Random(seed)
    whole = [(5 * (number // 2), dice.choice("abc"), number) for number in range(EVENTS)]
    receivers = [Receiver(folder / name, random.Random(f"{seed} {name}"), whole) for name in ("north", "south")]
    tidelog.open(folder / "store").close()
    file, log = folder / "pipeline.toml", folder / "log"
    file.write_text(FILE.format(files=1, delay=DELAY))
    environ = {**small_spark(), "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    for _ in range(kills):
        for each in dice.sample(receivers, dice.choice((1, 2))):
            each.work(dice.randint(4, 12))
        with log.open("a") as errors:
            command = [sys.executable, pipeline_process.__file__, str(file)]
            process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", log.read_text()
            dice.choice(receivers).work(dice.randint(1, 6))
            with pytest.raises(subprocess.TimeoutExpired):  # it would go on for ever
                process.wait(dice.uniform(0, 4))
            kill(process)
        found = stored(folder)
        assert len(set(found)) == len(found), "an event is there twice"
        assert set(found) <= set(whole)
    for each in receivers:
        each.work(EVENTS)
    file.write_text(FILE.format(files=1_000, delay=DELAY))
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "run", str(file), "--once"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert done.returncode == 0, done.stderr
    assert stored(folder) == whole


def test_receivers_that_die_and_a_pipeline_that_is_killed(tmp_path: Path) -> None:
    campaign(tmp_path, kills=1, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 4))
def test_soak_receivers_that_die(tmp_path: Path, seed: int) -> None:
    campaign(tmp_path, kills=10, seed=seed)
