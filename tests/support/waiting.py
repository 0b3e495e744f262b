"""Waiting for what other threads and processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds that anything may take on a machine that is busy with something else."""


def until(is_so: Callable[[], bool]) -> None:
    """Return as soon as something is so; fails if it does not come to that."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)
