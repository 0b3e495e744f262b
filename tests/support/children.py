"""Python processes of their own, for what one process cannot show: being killed, being refused, dying of a signal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MEDIA_ALONE = """
import sys, types
import tidelog
# The package itself loads compiled kernels; a process that only needs files starts many times faster without.
package = types.ModuleType("tidelog.storage")
package.__path__ = [tidelog.__path__[0] + "/storage"]
sys.modules["tidelog.storage"] = package
from tidelog.model.errors import LockedError
from tidelog.storage.media.file_medium import FileMedium
"""
"""Prepended to every script: gives it ``FileMedium`` and ``LockedError``."""


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A running script with pipes to its standard input and output; killed at the end if it still runs."""
    process = subprocess.Popen(_command(script, arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def run(script: str, *arguments: object) -> None:
    """Run a script to its end; any error or signal in it fails the test."""
    done = subprocess.run(_command(script, arguments), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr}"


def _command(script: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-W", "error", "-c", MEDIA_ALONE + script, *map(str, arguments)]
