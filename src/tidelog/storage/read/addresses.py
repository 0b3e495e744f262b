"""Where blocks stand: the translation of their ids to addresses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from tidelog.model.errors import NotFoundError
from tidelog.storage.format.translation import Addresses, Translation, read_page
from tidelog.storage.media.medium import File
from tidelog.storage.read.cache import Cache

_PAGE_CACHE_BYTES = 4 << 20
_MOST_PAGES = 64
"""Pages whose addresses a reader has at hand: some 40 kB each."""


class PageLoader:
    """Reads and caches the entries of address pages."""

    def __init__(self, file: File, cache: Cache[Addresses] | None = None) -> None:
        self._file = file
        self._cache: Cache[Addresses] = Cache(_PAGE_CACHE_BYTES) if cache is None else cache

    def of(self, file: File) -> PageLoader:
        """One that reads the same pages by way of another object of the same file."""
        return PageLoader(file, self._cache)

    def __call__(self, position: int) -> Addresses:
        """The entries of the page at ``position``."""
        entries = self._cache.find(position)
        if entries is None:
            entries = read_page(self._file, position, self._file.size()).entries
            self._cache.put(position, entries, entries.nbytes)
        return entries


class AddressBook(ABC):
    """Translates ids of blocks."""

    @abstractmethod
    def one(self, id: int) -> int:
        """The address of a block."""

    def several(self, first: int, last: int) -> Addresses:
        """The addresses of the blocks ``first`` to ``last`` (exclusive)."""
        return np.array([self.one(id) for id in range(first, last)], np.uint64)


class PinnedAddresses(AddressBook):
    """Translates ids as a commit has them: by the tree, unless the block was replaced before that commit.

    Raises :class:`NotFoundError` for ids that it has not. May be used from several threads.
    """

    def __init__(self, translation: Translation, relocations: Mapping[int, int], blocks: int) -> None:
        """``blocks`` is how many the commit has; the tree may have more."""
        self._translation = translation
        self._blocks = blocks
        order = sorted(relocations)
        self._moved = np.array(order, np.int64)
        self._targets = np.array([relocations[id] for id in order], np.uint64)
        self._pages: dict[int, list[int]] = {}
        """The addresses in pages that were asked about, as plain numbers."""

    def one(self, id: int) -> int:
        """The address of a block."""
        fanout = self._translation.fanout
        page, entry = divmod(id, fanout)
        if not 0 <= id < self._blocks:
            raise self._missing(id)
        addresses = self._pages.get(page)
        if addresses is None:
            first, last = page * fanout, min((page + 1) * fanout, self._blocks)
            addresses = self._pages[page] = self.several(first, last).tolist()
            if len(self._pages) > _MOST_PAGES:
                self._pages.pop(next(iter(self._pages)), None)
        return addresses[entry]

    def several(self, first: int, last: int) -> Addresses:
        """The addresses of the blocks ``first`` to ``last`` (exclusive)."""
        if first < 0 or last > self._blocks:
            raise self._missing(first if first < 0 else last - 1)
        addresses = self._translation.lookup(first, last)
        if not len(self._moved):
            return addresses
        low, high = np.searchsorted(self._moved, (first, last)).tolist()
        if low < high:
            addresses = addresses.copy()
            addresses[self._moved[low:high] - first] = self._targets[low:high]
        return addresses

    def _missing(self, id: int) -> NotFoundError:
        return NotFoundError(f"no block {id}: the ids at this commit are 0 to {self._blocks - 1}")
