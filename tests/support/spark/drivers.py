"""Processes that drive Spark, started and killed by tests."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import psutil

from archive_classes import ARCHIVE, QUIET, submit_arguments

NOTICE = 5
"""Seconds that workers have to notice that their driver is gone."""
WAIT = 600


def start_light() -> None:
    """Have drivers that this process starts, and those that its children start, take little: see :func:`_options`."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(_options())


def small_spark() -> dict[str, str]:
    """The environment of a process whose session says nothing of its size, so that it suits a few rows.

    Spark makes 200 partitions of what it has to spread, each with a task, and a state of its own in queries.
    """
    arguments = f"--conf spark.sql.shuffle.partitions=2 {submit_arguments(_options())}"
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": arguments}


def _options() -> str:
    """Options of Java: the quick compiler and the simplest collector, as tests end before others would pay off.

    And classes from an archive, if there is one.
    """
    archive = f" -XX:SharedArchiveFile={ARCHIVE} {QUIET}" if ARCHIVE.exists() else ""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC{archive}"


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
