"""Pipelines that are killed at any moment, of ingestion or of compaction, and go on where they were."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidelog
from support import pipeline_process
from support.drivers import WAIT, kill

TESTS = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 1, tzinfo=UTC)
FILE_ROWS = 40
OVERLAP = 10
"""Rows of each file that the next one has again."""

PIPELINE = """\
[pipeline]
name = "readings"
checkpoint = "state"

[spark]
master = "local[2]"

[spark.config]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.driver.memory" = "1g"
"spark.log.level" = "OFF"
"spark.sql.shuffle.partitions" = 1

[sources.north]
format = "json"
path = "north"
schema = "at timestamp, id bigint, v double"
options = { maxFilesPerTrigger = 1 }
watermark = { column = "at", delay = "12h" }

[sources.south]
format = "json"
path = "south"
schema = "at timestamp, id bigint, v double"
options = { maxFilesPerTrigger = 1 }
watermark = { column = "at", delay = "12h" }

[[steps]]
name = "both"
sql = "SELECT * FROM north UNION ALL SELECT * FROM south"

[[steps]]
name = "once_each"
kind = "deduplicate"
input = "both"
keys = ["id"]

[sinks.readings]
input = "once_each"
path = "events"
stream = "readings"
time = "at"
stream_options = { leaf_rows = 64 }
compaction = "500ms"
"""


def event(number: int) -> dict[str, Any]:
    return {"at": (START + timedelta(seconds=number // 3)).isoformat(), "id": number, "v": number % 17 / 4}


def prepare(folder: Path, files: int, seed: int) -> int:
    """Write files, unordered and overlapping, into two directories; returns the number of events."""
    dice = random.Random(seed)
    step = FILE_ROWS - OVERLAP
    for index in range(files):
        place = folder / ("north", "south")[index % 2]
        place.mkdir(exist_ok=True)
        rows = [event(number) for number in range(index * step, index * step + FILE_ROWS)]
        dice.shuffle(rows)
        file = place / f"{index:04d}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (index, index))  # Spark takes the oldest first
    return files * step + OVERLAP


def stored(folder: Path) -> list[dict[str, Any]]:
    with tidelog.open(folder / "events", read_only=True) as store:
        rows: list[dict[str, Any]] = store.stream("readings").scan().read_all().to_pylist()
        return rows


def campaign(folder: Path, kills: int, files: int, seed: int) -> None:
    events = prepare(folder, files, seed)
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    log = folder / "log"
    dice = random.Random(seed)
    for _ in range(kills):
        with log.open("a") as errors:
            command = [sys.executable, pipeline_process.__file__, str(file)]
            process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", log.read_text()
            with pytest.raises(subprocess.TimeoutExpired):  # it would go on for ever
                process.wait(dice.uniform(0, 4))
            kill(process)
        numbers = [row["id"] for row in stored(folder)]
        assert len(set(numbers)) == len(numbers), "an event is there twice"
    file.write_text(PIPELINE.replace("maxFilesPerTrigger = 1", f"maxFilesPerTrigger = {files}"))
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "run", str(file), "--once"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("readings: "), done.stdout
    expected = sorted((event(number) for number in range(events)), key=lambda row: (row["at"], row["id"]))
    found = [{**row, "at": row["at"].isoformat()} for row in stored(folder)]
    assert [row["at"] for row in found] == [row["at"] for row in expected], "in order"
    assert sorted(found, key=lambda row: (row["at"], row["id"])) == expected
    with tidelog.open(folder / "events") as store:
        assert store.check() == []
        stream = store.stream("readings")
        for low, high in [(0, events), (events // 3, events // 2), (7, 8)]:
            span = [START + timedelta(seconds=bound) for bound in (low, high)]
            within = [row["v"] for row in expected if low <= (datetime.fromisoformat(row["at"]) - START).seconds < high]
            answer = stream.aggregate(*span, ["count(*)", "sum(v)", "max(v)"])
            wanted = {"count(*)": len(within), "sum(v)": sum(within), "max(v)": max(within)} if within else None
            assert wanted is None or answer == wanted
        store.remove_orphans(0)
        assert store.check() == []


def test_pipelines_that_are_killed(tmp_path: Path) -> None:
    campaign(tmp_path, kills=3, files=60, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_soak_pipelines_that_are_killed(tmp_path: Path, seed: int) -> None:
    campaign(tmp_path, kills=10, files=400, seed=seed)
