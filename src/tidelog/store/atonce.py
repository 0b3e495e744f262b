"""Doing the same for many streams, several of them at a time: it is mostly waiting for the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

AT_ONCE: Final = 8
"""Streams that are worked on at once. Syncs that come together share a commit of the file system's journal."""

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of some work for each item, in their order; the first error, by that order, is raised at the end.

    Items must not depend on each other. When this returns or raises, nothing is still being worked on: every item was
    tried, or, where an error came before, may have been left out.
    """
    waiting = list(items)
    if len(waiting) < 2:
        return [work(item) for item in waiting]
    with ThreadPoolExecutor(min(AT_ONCE, len(waiting)), thread_name_prefix="tidelog-streams") as pool:
        try:
            results = pool.map(work, waiting)
        except RuntimeError:  # Python is ending, and its threads have ended
            return [work(item) for item in waiting]
        return list(results)


__all__ = ["AT_ONCE", "at_once"]
