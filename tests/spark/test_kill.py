"""Drivers of Spark that are killed at any moment of their work, streaming queries and batch jobs alike."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidelog
from support.spark import driver_process
from support.spark.driver_process import JOB_ROWS, SCHEMA, rows_of
from support.spark.drivers import kill

TESTS = Path(__file__).resolve().parents[1]
ROWS = 3_000
ROWS_PER_BATCH = 60
MANY_JOBS = 10_000
"""A driver has work for longer than it lives."""


def create(path: Path) -> None:
    with tidelog.open(path / "store") as store:
        numbers = list(range(ROWS))
        store.create_stream("in", SCHEMA, "ts", leaf_rows=64).append({"ts": numbers, "v": numbers})
        for name in ("out", "jobs"):
            store.create_stream(name, SCHEMA, "ts")


def start(path: Path) -> subprocess.Popen[str]:
    arguments = map(str, (path / "store", path, ROWS_PER_BATCH, MANY_JOBS))
    command = [sys.executable, driver_process.__file__, *arguments]
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    with (path / "log").open("a") as log:
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)


def values(store: tidelog.Store, stream: str) -> list[int]:
    return sorted(store.stream(stream).scan(columns=["v"]).read_all()["v"].to_pylist())


def check(path: Path) -> tuple[int, int]:
    """Check that nothing is there twice or in part; returns how many rows were copied and how many jobs are done."""
    noted = len((path / "done").read_text().splitlines())
    with tidelog.open(path / "store", read_only=True) as store:
        copied, written = values(store, "out"), values(store, "jobs")
    assert copied == list(range(len(copied)))
    assert len(copied) % ROWS_PER_BATCH == 0
    jobs = len(written) // JOB_ROWS
    assert written == [row for job in range(jobs) for row in rows_of(job)]
    assert noted <= jobs <= noted + 1
    return len(copied), jobs


def campaign(session: SparkSession, path: Path, kills: int, seed: int) -> None:
    """Kill a driver so many times, then have its work done, in the session that tests share."""
    done = 0
    dice = random.Random(seed)
    create(path)
    for _ in range(kills):
        with start(path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", (path / "log").read_text()
            with pytest.raises(subprocess.TimeoutExpired):  # the work is not done by then
                process.wait(dice.uniform(0, 6))
            kill(process)
        done = check(path)[1]
    driver_process.work(session, str(path / "store"), path, ROWS, done + 2)
    with tidelog.open(path / "store") as store:
        assert values(store, "out") == list(range(ROWS))
        assert values(store, "jobs") == list(range((done + 2) * JOB_ROWS))
        assert store.check() == []
        orphans = store.orphans()
        assert sorted(store.remove_orphans(0)) == sorted(orphans)
        assert store.orphans() == []
        assert store.check() == []
        assert values(store, "out") == list(range(ROWS))


def test_drivers_that_are_killed(session: SparkSession, tmp_path: Path) -> None:
    campaign(session, tmp_path, 3, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 5))
def test_soak_drivers_that_are_killed(session: SparkSession, tmp_path: Path, seed: int) -> None:
    campaign(session, tmp_path, 5, seed)
