"""A streaming query of windows that is killed at any moment gives exactly the rows of one that is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.spark import pipeline_process
from support.spark.drivers import WAIT, kill, small_spark

TESTS = Path(__file__).resolve().parents[2]
ROWS = 6_000
LATENESS = 5
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
QUERY = (
    "SELECT k, window_start, window_end, count(*) AS rows, sum(n) AS total, first(n) AS f FROM events "
    "GROUP BY k, window(ts, 60, 20)"
)
FILE = """
[pipeline]
name = "windows"
checkpoint = "checkpoint"

[spark]
master = "local[2]"
config."spark.sql.shuffle.partitions" = 2
config."spark.driver.memory" = "1g"

[sources.events]
format = "tidelog"
path = "store"
stream = "in"
options = {{ maxRowsPerBatch = {rows}, seq = true }}

[[steps]]
name = "windows"
kind = "continuous"
query = "{query}"
lateness = "{lateness}"

[sinks.windows]
input = "windows"
path = "store"
stream = "out"
time = "window_end"
"""


def create(folder: Path, dice: np.random.Generator) -> list[tuple[object, ...]]:
    """A stream whose rows come as late as they may; the windows that are over at its end."""
    times = np.sort(dice.integers(0, ROWS, ROWS)) - dice.integers(0, LATENESS + 1, ROWS) * (dice.random(ROWS) < 0.3)
    keys = [("a", "b", "c", None)[each] for each in dice.integers(0, 4, ROWS)]
    with tidelog.open(folder / "store") as store:
        stream = store.create_stream("in", SCHEMA, "ts", leaf_rows=64)
        stream.append({"ts": times, "k": keys, "n": dice.integers(-9, 10, ROWS)})
        stream.flush()
        text = f"SELECT * FROM ({QUERY}) WHERE window_end <= {times.max() - LATENESS}"
        return sorted(store.sql(text.replace("events", '"in"')).fetchall(), key=repr)


def stored(folder: Path) -> list[tuple[object, ...]]:
    with tidelog.open(folder / "store", read_only=True) as store:
        text = "SELECT k, window_start, window_end, rows, total, f FROM out"
        return sorted(store.sql(text).fetchall(), key=repr) if "out" in store else []


def campaign(folder: Path, kills: int, seed: int) -> None:
    """Kill a pipeline so many times, then let it come to its end."""
    expected = create(folder, np.random.default_rng(seed))
    file, log = folder / "pipeline.toml", folder / "log"
    environ = {**small_spark(), "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    dice = random.Random(seed)
    file.write_text(FILE.format(rows=ROWS // (20 * kills), query=QUERY, lateness=LATENESS))
    for _ in range(kills):
        with log.open("a") as errors:
            command = [sys.executable, pipeline_process.__file__, str(file)]
            process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", log.read_text()
            with pytest.raises(subprocess.TimeoutExpired):  # it would go on for ever
                process.wait(dice.uniform(0, 3))
            kill(process)
        found = stored(folder)
        assert len(set(found)) == len(found), "a window is there twice"
        assert set(found) <= set(expected)
    file.write_text(FILE.format(rows=ROWS, query=QUERY, lateness=LATENESS))
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "run", str(file), "--once"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert done.returncode == 0, done.stderr
    assert stored(folder) == expected
    assert len(expected) > ROWS // 20


def test_windows_that_are_killed(tmp_path: Path) -> None:
    campaign(tmp_path, kills=3, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 4))
def test_soak_windows_that_are_killed(tmp_path: Path, seed: int) -> None:
    campaign(tmp_path, kills=10, seed=seed)
