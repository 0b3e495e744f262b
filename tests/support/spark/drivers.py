"""Processes that drive Spark, started and killed by tests."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import psutil

NOTICE = 5
"""Seconds that workers have to notice that their driver is gone."""
WAIT = 120


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
