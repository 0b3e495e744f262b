"""How much is read from files."""

from __future__ import annotations

import threading
from typing import final


@final
class ReadMeter:
    """Counts the blocks that were decoded, and the bytes that what was decoded of them takes in the file.

    What caches answer does not count. A block counts each time that columns of it are decoded. Can be shared by readers
    and threads.
    """

    __slots__ = ("_lock", "blocks", "bytes")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.blocks = 0
        self.bytes = 0

    def add(self, blocks: int, bytes: int) -> None:
        """Count so many blocks and bytes more."""
        with self._lock:
            self.blocks += blocks
            self.bytes += bytes
