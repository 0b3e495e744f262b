"""Processes that drive Spark, started and killed by tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from archive_classes import ARCHIVE, QUIET, submit_arguments

NOTICE = 5
"""Seconds that workers have to notice that their driver is gone."""
WAIT = 600
STARTS = 3
RACE = b"IllegalStateException: Illegal size"
"""What Spark 4.3 says, rarely, when it plans a batch of one query beside that of another: a map that one of its threads
writes is changed by another. The query ends, and a restart goes on behind what it has committed, as after a kill."""


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


def kill_after(
    command: Sequence[str], environ: Mapping[str, str], log: Path, lines: Sequence[str], seconds: float
) -> None:
    """Start a driver, wait until it has said some lines and so many seconds more, and kill it.

    It would go on for ever: one that ends by itself is an error, except by :data:`RACE`, when another one is started.
    """
    for _ in range(STARTS):
        begin = log.stat().st_size if log.exists() else 0
        with log.open("a") as errors:
            process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            assert process.stdout is not None
            if all(process.stdout.readline() == f"{line}\n" for line in lines):
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    kill(process)
                    return
            if process.poll() is None:
                kill(process)
        told = log.read_bytes()[begin:]
        assert RACE in told, told.decode(errors="replace")
    raise AssertionError(f"{STARTS} drivers in turn have ended by themselves")
