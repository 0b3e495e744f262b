"""Queries that can be stopped: in a thread of their own, while the main thread waits for them and for Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.cli.interrupts import StoppedError
from tidelog.threads import start

if TYPE_CHECKING:
    from tidelog.engine.store import Store

_SLOW: Final = 0.5
"""Seconds after which a query is one that people wait for."""
_AGAIN: Final = 0.05
"""Seconds until a query that goes on is asked again to stop: it may have been between two questions to DuckDB."""

_R = TypeVar("_R")


def interruptible(store: Callable[[], Store], work: Callable[[], _R], *, is_told: bool = True) -> _R:
    """What ``work``, which asks a store, returns. Ctrl-C stops what the store computes, and is raised then.
    With ``is_told`` people are told on the terminal that they are waiting.

    DuckDB and Arrow do not look for signals, so nothing would happen if the main thread computed itself. Work that was
    done nevertheless by the time it could have been stopped was done: its result is returned.
    """
    task = start(work)
    try:
        if not task.wait(_SLOW):
            with waiting() if is_told else nullcontext():
                task.wait()
    except KeyboardInterrupt as interrupt:
        while not task.is_done:
            with suppress(KeyboardInterrupt):  # one was enough
                store().interrupt()
                task.wait(_AGAIN)
        if task.has_failed or isinstance(interrupt, StoppedError):
            raise
    return task.result()


@contextmanager
def waiting() -> Iterator[None]:
    """Say on standard error that something runs, and for how long, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("Ctrl-C stops it")
    with Progress(
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        progress.add_task("", total=None)
        yield
