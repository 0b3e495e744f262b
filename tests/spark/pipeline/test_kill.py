"""Pipelines that are killed at any moment, of ingestion and of compaction, and go on where they were.

It is the pipeline of the demonstration: two receivers of the same events, whose files are unordered, with events that
are late, and there twice; one of them dies. They are merged into one stream.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import dropping
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.spark import pipeline_process
from support.spark.drivers import WAIT, kill_after

TESTS = Path(__file__).resolve().parents[2]
DEMO = Path(dropping.__file__).with_name("pipeline.toml")
STREAM = "levels"
FILE_EVENTS = 40


def pipeline_text(most_files: int) -> str:
    """The demonstration's pipeline with small leaves and frequent compaction, so many files of a source a batch."""
    text = DEMO.read_text()
    for old, new in (
        ("maxFilesPerTrigger = 3", f"maxFilesPerTrigger = {most_files}"),
        ("leaf_rows = 512", "leaf_rows = 64"),
        ("[sinks.levels]\n", '[sinks.levels]\ncompaction = "500ms"\n'),
        ("[spark.config]\n", '[spark.config]\n"spark.driver.memory" = "1g"\n'),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return text


def stored(folder: Path) -> pa.Table:
    with tidelog.open(folder / "events", read_only=True) as store:
        return store.stream(STREAM).scan().read_all()


def campaign(folder: Path, kills: int, files: int, seed: int) -> None:
    """Kill a pipeline so many times, every other time while it maintains its stream, then let it come to its end."""
    made = dropping.Events(files * FILE_EVENTS, FILE_EVENTS)
    dropping.make_directories(folder)
    for name, number, rows in made.files():
        file = made.write(folder, name, number, rows)
        os.utime(file, (number, number))  # Spark takes the oldest first
    file = folder / "pipeline.toml"
    file.write_text(pipeline_text(1))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    log = folder / "log"
    dice = random.Random(seed)
    for number in range(kills):
        command = [sys.executable, pipeline_process.__file__, str(file)]
        is_maintaining = number % 2 == 1
        lines = ["ready", "maintaining"] if is_maintaining else ["ready"]
        kill_after(command, environ, log, lines, dice.uniform(0, 0.1 if is_maintaining else 4))
        numbers = stored(folder)["id"].to_numpy()
        assert len(np.unique(numbers)) == len(numbers), "an event is there twice"
    file.write_text(pipeline_text(files))
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "run", str(file), "--once"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{STREAM}: "), done.stdout
    check(folder, made, random.Random(seed))


def check(folder: Path, made: dropping.Events, dice: random.Random) -> None:
    """Every event is there once, in order, and aggregates are those of a recount."""
    expected = made.columns(np.arange(made.count))
    found = stored(folder)
    for name in expected.column_names:
        assert found[name].equals(expected[name]), name
    levels = expected["level"].to_numpy()
    calls = ["count(*)", "sum(level)", "min(level)", "max(level)"]
    with tidelog.open(folder / "events") as store:
        assert store.check() == []
        stream = store.stream(STREAM)
        for low, high in [(0, made.count), *(sorted(dice.sample(range(made.count), 2)) for _ in range(20))]:
            within = levels[low:high]
            answer = stream.aggregate(*(dropping.START + dropping.STEP * each for each in (low, high)), calls)
            recount = [len(within), within.sum(), within.min(), within.max()]
            assert [answer[call] for call in calls] == pytest.approx(recount, rel=1e-12), (low, high)
        store.remove_orphans(0)
        assert store.check() == []


def test_pipelines_that_are_killed(tmp_path: Path) -> None:
    campaign(tmp_path, kills=3, files=30, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_soak_pipelines_that_are_killed(tmp_path: Path, seed: int) -> None:
    campaign(tmp_path, kills=10, files=200, seed=seed)
