"""A statement while DuckDB runs it, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.threads import beside_main

if TYPE_CHECKING:
    import duckdb

_T = TypeVar("_T")

_PATIENCE: Final = 0.01
"""Seconds between two attempts to stop a statement."""


class Running:
    """A statement that is being run, by a connection of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation) -> None:
        self._connection = connection
        self.relation = relation

    def fetch(self, work: Callable[[duckdb.DuckDBPyRelation], _T]) -> _T:
        """What some work makes of the result; an interrupt stops it."""
        return stoppable(self._connection, partial(work, self.relation))


def stoppable(connection: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """What some work by a connection returns. An interrupt stops DuckDB, which would not notice it for long.

    Interrupts come to the main thread alone, so that is the one that waits while another one works.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    task = beside_main(work)
    try:
        task.wait()
    except BaseException:
        while not task.wait(_PATIENCE):
            connection.interrupt()  # again and again: what has not begun yet does not notice it
        raise
    return task.result()
