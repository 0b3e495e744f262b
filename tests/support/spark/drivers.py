"""Processes that drive Spark, started and killed by tests."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

NOTICE = 5
"""Seconds that workers have to notice that their driver is gone."""
WAIT = 120


SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Only the quick compiler and the simplest collector: tests end before the others would pay off."""


def small_spark(folder: Path) -> dict[str, str]:
    """The environment of a process whose session says nothing of its size, so that it suits a few rows.

    Spark makes 200 partitions of what it has to spread, each with a task, and a state of its own in queries.
    """
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\n")
    return {**os.environ, "SPARK_CONF_DIR": str(folder), "JDK_JAVA_OPTIONS": SHORT_LIVED}


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a driver, its Python and its virtual machine, at once; workers may go on for a moment, until they notice."""
    started = psutil.Process(process.pid).children(recursive=True)
    for each in started:
        with suppress(psutil.NoSuchProcess):  # workers come and go
            if each.name() == "java":
                each.kill()
    process.kill()
    process.wait()
    _, left = psutil.wait_procs(started, NOTICE)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    _, left = psutil.wait_procs(left, WAIT)
    assert left == []
