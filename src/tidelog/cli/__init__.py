"""The command line: ``tidelog``, or ``python -m tidelog.cli``."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 after an error, 2 for a command that makes no sense."""
    from tidelog.cli.app import run  # Typer takes a while to load, and whoever imports a part needs none of it

    return run(arguments)
