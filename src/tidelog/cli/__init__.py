"""The command line: ``tidelog``, or ``python -m tidelog.cli``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

_OBJECTS: Final = 50_000
"""So many new ones until garbage is collected; Python's own threshold is 700."""

ENDED_BY_SIGNAL: Final = 128
"""What the shell adds to the number of the signal that has ended a program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 after an error, 2 for a command that makes no sense.

    More than 128 if a signal has asked it to stop; without ``arguments`` the process has ended then.
    """
    if arguments is None:  # a process of our own, in which little is garbage: see tidelog.lazy.without_collecting
        gc.set_threshold(_OBJECTS)
    from tidelog.cli.app import run  # Typer takes a while to load, and whoever imports a part needs none of it

    code = run(arguments)
    if arguments is None and code > ENDED_BY_SIGNAL:
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """End the process as Python does, but for threads of others that were left in the midst of something.

    Arrow's parser has one, which calls Python to read. If Python has ended by then, the process is aborted.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
