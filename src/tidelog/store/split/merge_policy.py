"""When merging splits, or writing one anew, is worth the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """When merging is worth the work."""

    least: int
    """So many small neighbours are merged."""
    growth: int | None
    """Sizes of one tier differ by less than this factor; None: all splits of less than half the full size are one."""
    share: float
    """What overlaps a split of full size is merged into it when it has this share of its bytes."""
    dead_share: float
    """A split is written anew for its space when this share of its events is before ``deleted_before``, or when this
    share of its bytes was written again for late rows."""
    dead_bytes: int
    """And only if that frees so many bytes."""

    def is_worn(self, size: int, dead: float) -> bool:
        """Whether a split of so many bytes, some of them dead, is to be written anew for its space."""
        return dead >= self.dead_bytes and dead >= self.dead_share * size


AUTOMATIC: Final = MergePolicy(least=8, growth=8, share=0.25, dead_share=0.5, dead_bytes=1 << 20)
"""A row is rewritten a few times in its life: once for each factor of 8 from half a megabyte to a full split."""

THOROUGH: Final = MergePolicy(least=2, growth=None, share=0.0, dead_share=0.125, dead_bytes=1 << 16)
"""Until no split overlaps another, no two small ones are neighbours, and little space is taken by deleted events."""
