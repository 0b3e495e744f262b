"""Memory that is used again: the arena an encoding thread writes into.

Fresh pages are the slowest memory there is, so buffers live as long as their thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

ALIGNMENT = 8
"""Every piece, and every stream inside a piece, starts at a multiple of this."""


def align(size: int) -> int:
    """``size`` rounded up to the alignment of pieces."""
    return (size + ALIGNMENT - 1) & -ALIGNMENT


@dataclass(frozen=True)
class DistinctTexts:
    """The distinct valid values of each block of a text column; valid until the thread encodes the next column."""

    data: Bytes
    """The values, one after the other."""
    offsets: Ints
    """Where each value starts, and the last ends."""
    cuts: Ints
    """Values ``cuts[i]`` to ``cuts[i + 1]`` are those of block ``i``."""


@dataclass(frozen=True)
class Pieces:
    """Where the encoded pieces of one column stand in an arena, one per block."""

    offsets: Ints
    lengths: Ints
    distinct: DistinctTexts | None = None
    """What encoding a text column has found, unless some block has too many values to tell."""


class Arena:
    """A growable byte buffer; ``reset`` forgets its content and keeps its memory."""

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.data: Bytes = np.zeros(capacity, np.uint8)
        self.used = 0

    def reset(self) -> None:
        """Forget everything written."""
        self.used = 0

    def reserve(self, size: int) -> int:
        """Make room for ``size`` bytes behind what is used and return where they start (aligned).

        ``data`` may be another array afterwards. Call :meth:`commit` with what was really written.
        """
        start = align(self.used)
        if start + size > len(self.data):
            grown = np.zeros(max(2 * len(self.data), align(start + size)), np.uint8)
            grown[: self.used] = self.data[: self.used]
            self.data = grown
        return start

    def commit(self, start: int, size: int) -> None:
        """Declare ``size`` bytes from ``start`` (as reserved) to be written."""
        self.used = start + size

    def put(self, content: bytes | memoryview | Bytes) -> tuple[int, int]:
        """Copy bytes in; returns their offset and length."""
        view = np.frombuffer(content, np.uint8)
        start = self.reserve(len(view))
        self.data[start : start + len(view)] = view
        self.commit(start, len(view))
        return start, len(view)
