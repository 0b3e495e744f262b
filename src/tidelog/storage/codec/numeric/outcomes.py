"""What the kernels of numbers say about blocks and pieces."""

from __future__ import annotations

BULKY, RUNS_PROMISE, DICTIONARY_PROMISES = 1, 2, 4
"""Remarks on a block that was encoded: packing took off less than a quarter; runs, or a dictionary, may make it clearly
smaller."""

HAS_NULLS, HAS_LEFT = 1, 2
"""Remarks on a run that was decoded: some of its pieces have nulls; some have an encoding that is not the kernel's."""

BAD_PLACE, BAD_RANGE, BAD_ENCODING, BAD_BODY, BAD_ROOM = 1, 2, 3, 4, 5
"""What may be wrong with a piece."""
