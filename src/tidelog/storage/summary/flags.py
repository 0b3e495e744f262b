"""What a summary says of its own fields, and how sums are made; kernels go by it too."""

from __future__ import annotations

HAS_BOUNDS = 1
HAS_SUM = 2
INTEGER_SUM = 4
MIN_TRUNCATED = 8
MAX_TRUNCATED = 16

LANES = 64
"""Independent accumulators of a float sum: enough for the adder's latency, whatever the vector width."""
