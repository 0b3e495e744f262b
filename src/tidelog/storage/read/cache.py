"""A cache with a budget in bytes, least recently used out first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Cache(Generic[_T]):
    """Values by key; safe to use from several threads, which may compute the same value at once."""

    def __init__(self, budget: int) -> None:
        """A budget of 0 keeps nothing."""
        self.budget = budget
        """Bytes that all values may have together; less is heeded with the next that comes."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self.bytes = 0
        """What the values here have together."""

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Hashable) -> _T | None:
        """The value for ``key``, None if it is not here."""
        # Without the lock: each step is whole by itself, and what leaves in between was found all the same.
        found = self._entries.get(key)
        if found is None:
            return None
        try:  # noqa: SIM105  # `suppress` takes longer than all of this
            self._entries.move_to_end(key)
        except KeyError:  # it has just left
            pass
        return found[0]

    def put(self, key: Hashable, value: _T, size: int) -> None:
        """Keep a value of so many bytes, as long as the budget allows."""
        if size > self.budget:
            return
        with self._lock:
            if key not in self._entries:
                self._entries[key] = (value, size)
                self.bytes += size
            while self.bytes > self.budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self.bytes -= freed
