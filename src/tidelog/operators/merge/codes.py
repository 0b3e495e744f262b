"""Numbers that kernels and everybody else share."""

from __future__ import annotations

from typing import Final

INSERT: Final = 0
ADJUST: Final = 1
STABLE: Final = 2

NEVER: Final = 2**63 - 1
"""The end of what has no end, and the stable behind everything."""
BEFORE: Final = -(2**63)
"""Before all times: the last stable of a stream that had none, and the end of an event that is not there."""

# The rows of an array of elements.
KIND: Final = 0
PAYLOAD: Final = 1
START: Final = 2
END: Final = 3
OLD: Final = 4
CHECK: Final = 4
"""Of inserts that are told by a key: a hash of all there is to them, or :data:`BEFORE` for none."""
CAUSE: Final = 5
"""Of elements that come out: the row by which they did."""

# Policies.
LAZY: Final = 0
AGGRESSIVE: Final = 1
FULLY_FROZEN: Final = 2
HALF_FROZEN: Final = 3
OPEN_ENDED: Final = 4
LEADER: Final = 5
LEADER_BY_START: Final = 6
FRACTION: Final = 7
LAGGING: Final = 8
EXACT: Final = 9
LEADER_BY_UNFROZEN: Final = 10

# What is known of an input, a column each.
PHASE: Final = 0
REACHED: Final = 1
"""Its last stable."""
NUMBER: Final = 2
JOIN: Final = 3
LATE: Final = 4
FALLBACKS: Final = 5
CLAMPS: Final = 6
UNKNOWN_ENDS: Final = 7
COUNT: Final = 8
"""How many events of the newest start it has given, where that is counted."""
REPEATED_KEYS: Final = 9
UNFROZEN: Final = 10
"""How many events it has that may still vanish, where a policy goes by that."""
INPUT_FIELDS: Final = 11

PENDING: Final = 0
JOINED: Final = 1
LEFT: Final = 2

# What is known of a merge.
MAX_STABLE: Final = 0
OUT_STABLE: Final = 1
TOP: Final = 2
"""Behind the last node that is or was used."""
FREE: Final = 3
"""How many nodes before it are free."""
LEADS: Final = 4
NEWEST: Final = 5
MAX_START: Final = 6
GIVEN: Final = 7
"""How many events of the newest start were given."""
ENTRY_TOP: Final = 8
"""Behind the last entry that is or was used, where ends are counted."""
ENTRY_FREE: Final = 9
TOTAL: Final = 10
"""How many events there are, on all inputs and in the output."""
MERGE_FIELDS: Final = 11

# Why a kernel stops.
DONE: Final = 0
FULL: Final = 1
"""There is no room for what the next row may give."""
MOVED: Final = 2
"""The merge has moved on, and pending inputs may join."""
CONFLICT: Final = 3
"""The next row is another event of a key and start that its input has already."""

# Orders of events of one start.
ONE: Final = 0
SAME_ORDER: Final = 1
DISTINCT: Final = 2
COUNTED: Final = 3
