"""A cache with a budget in bytes, least recently used out first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class CacheStatistics:
    """What a cache did and holds; hits and misses may be a few short when threads count at once."""

    hits: int
    misses: int
    entries: int
    bytes: int


class Cache(Generic[_T]):
    """Values by key; safe to use from several threads, which may compute the same value at once."""

    def __init__(self, budget: int) -> None:
        """A budget of 0 keeps nothing."""
        self._budget = budget
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    def get(self, key: Hashable, make: Callable[[], tuple[_T, int]]) -> _T:
        """The value for ``key``; ``make`` computes it, with its size in bytes, if it is not here."""
        found = self.find(key)
        if found is None:
            found, size = make()
            self.put(key, found, size)
        return found

    def find(self, key: Hashable) -> _T | None:
        """The value for ``key``, None if it is not here."""
        # Without the lock: each step is whole by itself, and what leaves in between was found all the same.
        found = self._entries.get(key)
        if found is None:
            self._misses += 1
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:  # it has just left
            return found[0]
        self._hits += 1
        return found[0]

    def put(self, key: Hashable, value: _T, size: int) -> None:
        """Keep a value of so many bytes, as long as the budget allows."""
        if size > self._budget:
            return
        with self._lock:
            if key not in self._entries:
                self._entries[key] = (value, size)
                self._bytes += size
            while self._bytes > self._budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed

    def statistics(self) -> CacheStatistics:
        """Counters since creation and the present content."""
        with self._lock:
            return CacheStatistics(self._hits, self._misses, len(self._entries), self._bytes)
