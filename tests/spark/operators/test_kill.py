"""Streaming queries of windows and situations that are killed at any moment give what they give if they are not."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidelog
from support.spark import pipeline_process
from support.spark.drivers import kill_after, small_spark
from tidelog.spark import pipeline

TESTS = Path(__file__).resolve().parents[2]
ROWS = 6_000
LATENESS = 5
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
QUERY = (
    "SELECT k, window_start, window_end, count(*) AS rows, sum(n) AS total, first(n) AS f FROM events "
    "GROUP BY k, window(ts, 60, 20)"
)
SITUATIONS = (
    "SELECT k, s, rows, match_time FROM events SITUATIONS (PARTITION BY k DEFINE H AS n > -3, L AS n < 5 AT LEAST 2 "
    "TICKS PATTERN H overlaps | during | meets | before L WITHIN 40 TICKS RETURN H.start_time AS s, count(L.*) AS rows)"
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

[[steps]]
name = "situations"
kind = "continuous"
query = "{situations}"
lateness = "{lateness}"

[sinks.windows]
input = "windows"
path = "store"
stream = "out"
time = "window_end"

[sinks.situations]
input = "situations"
path = "store"
stream = "matches"
time = "match_time"
"""
Found = dict[str, list[tuple[object, ...]]]


def create(folder: Path, dice: np.random.Generator) -> Found:
    """A stream whose rows come as late as they may; the windows and matches that are over at its end."""
    times = np.sort(dice.integers(0, ROWS, ROWS)) - dice.integers(0, LATENESS + 1, ROWS) * (dice.random(ROWS) < 0.3)
    keys = [("a", "b", "c", None)[each] for each in dice.integers(0, 4, ROWS)]
    with tidelog.open(folder / "store") as store:
        stream = store.create_stream("in", SCHEMA, "ts", leaf_rows=64)
        stream.append({"ts": times, "k": keys, "n": dice.integers(-9, 10, ROWS)})
        stream.flush()
        over = times.max() - LATENESS
        texts = {
            "out": f"SELECT * FROM ({QUERY}) WHERE window_end <= {over}",
            "matches": f"SELECT * FROM ({SITUATIONS}) WHERE match_time < {over}",
        }
        return {
            name: sorted(store.sql(text.replace("events", '"in"')).fetchall(), key=repr) for name, text in texts.items()
        }


def stored(folder: Path) -> Found:
    texts = {
        "out": "SELECT k, window_start, window_end, rows, total, f FROM out",
        "matches": "SELECT k, s, rows, match_time FROM matches",
    }
    with tidelog.open(folder / "store", read_only=True) as store:
        return {
            name: sorted(store.sql(text).fetchall(), key=repr) if name in store else [] for name, text in texts.items()
        }


def campaign(session: SparkSession, folder: Path, kills: int, seed: int) -> None:
    """Kill a pipeline so many times, then let it come to its end, in the session that tests share."""
    expected = create(folder, np.random.default_rng(seed))
    file, log = folder / "pipeline.toml", folder / "log"
    environ = {**small_spark(), "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    dice = random.Random(seed)
    given = {"query": QUERY, "situations": SITUATIONS, "lateness": LATENESS}
    file.write_text(FILE.format(rows=ROWS // (20 * kills), **given))
    for _ in range(kills):
        command = [sys.executable, pipeline_process.__file__, str(file)]
        kill_after(command, environ, log, ["ready"], dice.uniform(0, 3))
        for name, found in stored(folder).items():
            assert not Counter(found) - Counter(expected[name]), f"rows of {name} are wrong, or there twice"
    file.write_text(FILE.format(rows=ROWS, **given))
    done = pipeline.run(pipeline.load(file), session=session, once=True)
    assert {each.state for each in done.sinks} == {"done"}
    assert stored(folder) == expected
    assert min(map(len, expected.values())) > ROWS // 20


def test_windows_and_situations_that_are_killed(session: SparkSession, tmp_path: Path) -> None:
    campaign(session, tmp_path, kills=3, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 4))
def test_soak_windows_that_are_killed(session: SparkSession, tmp_path: Path, seed: int) -> None:
    campaign(session, tmp_path, kills=10, seed=seed)
