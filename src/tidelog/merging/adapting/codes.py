"""Numbers that kernels and their callers share."""

from __future__ import annotations

from typing import Final

# Rows, by the places of their kinds' names.
ADD: Final = 0
MODIFY: Final = 1
FINALIZE: Final = 2

OPEN: Final = 0
CLOSE: Final = 1

INSERTED: Final = 0
DELETE: Final = 1

NOTHING: Final = -1
"""The kind of the element of a row that says nothing new."""

# Why a kernel stops, besides being done.
UNKNOWN: Final = 1
"""The row is of no kind there is, or of an event that is not there."""
SAME_NUMBER: Final = 2
"""Another payload has the number of the row's."""
