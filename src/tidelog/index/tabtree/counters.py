"""What a read of a tree has cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReadCounters:
    """Filled by the methods of a reader that it is passed to; one for each thread."""

    nodes: int = 0
    """Inner nodes visited."""
    node_reads: int = 0
    """Those of them that were not in the cache."""
    leaves: int = 0
    """Leaves of which columns were decoded, or taken from the block cache."""
