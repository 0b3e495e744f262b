"""How many files of streams a process keeps open to read them again: one limit for all of them.

Opening a file takes a hundred times as long as using one that is open, so those that were read stay open. The system
allows a process so many descriptors, though, which it needs for other things too. So whoever keeps a file open says so
here, and lets go of it when it is the one not used for longest and there are too many. A file that is being read stays
open, however many there are: its reader refers to it, and it is closed when nobody does any more.
"""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol, final

_SHARE: Final = 4
"""One file for so many descriptors that the process may have. A mapped file takes two, so that is half of them."""

_FEWEST: Final = 8
_MOST: Final = 1024
"""Files to keep open, whatever the system allows."""


class Holder(Protocol):
    """Somebody who keeps files open. Not kept alive by what it has said."""

    def let_go(self, key: Any) -> bool:
        """Keep a file no longer; whether it is closed now, and not because somebody is reading it still open.

        Called while others wait: must not wait for anything, nor say anything to :class:`OpenFiles`.
        """


def allowed() -> int:
    """How many files the process should keep open, by the limit of descriptors that it has now (``ulimit -n``)."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(descriptors // _SHARE, _MOST))


@final
class OpenFiles:
    """The files that are kept open, least recently used first. May be used from several threads."""

    def __init__(self, limit: Callable[[], int] = allowed) -> None:
        """``limit`` is asked whenever a file was opened."""
        self._limit = limit
        # Re-entrant: what is closed may set off garbage collection, and so whatever else uses files.
        self._lock = threading.RLock()
        self._order: OrderedDict[tuple[weakref.ref[Holder], Hashable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def opened(self, holder: Holder, key: Hashable) -> None:
        """A holder keeps one more file open, under a key of its own. Others are let go if there are too many."""
        with self._lock:
            self._order[weakref.ref(holder), key] = None
            excess = len(self._order) - self._limit()
            if excess > 0:
                self._let_go(excess)

    def used(self, holder: Holder, key: Hashable) -> None:
        """A file was used just now."""
        entry = weakref.ref(holder), key
        with self._lock:
            if entry in self._order:  # or it was let go at this very moment
                self._order.move_to_end(entry)

    def closed(self, holder: Holder, key: Hashable) -> None:
        """A holder does not keep a file any more."""
        with self._lock:
            self._order.pop((weakref.ref(holder), key), None)

    def _let_go(self, excess: int) -> None:
        """Have so many files closed, if that can be."""
        entries = list(self._order)
        gone = [entry for entry in entries if entry[0]() is None]  # and so their files
        for entry in gone:
            self._order.pop(entry, None)
        excess -= len(gone)
        for entry in entries:
            if excess <= 0:
                return
            reference, key = entry
            holder = reference()
            if holder is not None and holder.let_go(key):
                self._order.pop(entry, None)
                excess -= 1

    def forked(self) -> None:
        """Nobody else is here in a child process: not even whoever was just at it."""
        self._lock = threading.RLock()


FILES: Final = OpenFiles()
"""Those of this process."""

os.register_at_fork(after_in_child=FILES.forked)
