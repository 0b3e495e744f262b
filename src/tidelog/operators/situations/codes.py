"""Numbers that the kernels of situations and those who call them share."""

from __future__ import annotations

from typing import Final

STARTED: Final = 0
"""A change of a situation: from now on it counts, and it goes on."""
ENDED: Final = 1
"""It has ended, and has counted before."""
WHOLE: Final = 2
"""It has ended, and counts from now on."""

STAYS: Final = 1
"""Of a run of rows: it is not over."""

NO_TIME: Final = (1 << 63) - 1
"""The end of situations that go on."""
