"""The command line: ``tidelog``, or ``python -m tidelog.cli``."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Final

_OBJECTS: Final = 50_000
"""So many new ones until garbage is collected; Python's own threshold is 700."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 after an error, 2 for a command that makes no sense."""
    if arguments is None:  # a process of our own, in which little is garbage: see tidelog.lazy.without_collecting
        gc.set_threshold(_OBJECTS)
    from tidelog.cli.app import run  # Typer takes a while to load, and whoever imports a part needs none of it

    return run(arguments)
