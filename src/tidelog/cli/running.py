"""Queries that can be stopped: in a thread of their own, while the main thread waits for them and for Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.cli.interrupts import StoppedError
from tidelog.cli.telling.units import count
from tidelog.threads import start

if TYPE_CHECKING:
    from tidelog.engine.store import Store
    from tidelog.sql.result import Result

_SLOW: Final = 0.5
"""Seconds after which a query is one that people wait for."""
_AGAIN: Final = 0.05
"""Seconds until a query that goes on is asked again to stop: it may have been between two questions to DuckDB."""

_R = TypeVar("_R")


def interruptible(store: Callable[[], Store], work: Callable[[list[Result]], _R], *, is_told: bool = True) -> _R:
    """What ``work``, which asks a store, returns. Ctrl-C stops what the store computes, and is raised then.
    With ``is_told`` people are told on the terminal that they are waiting, and how far the results have come that
    ``work`` puts into a list.

    DuckDB and Arrow do not look for signals, so nothing would happen if the main thread computed itself. Work that was
    done nevertheless by the time it could have been stopped was done: its result is returned.
    """
    results: list[Result] = []
    task = start(lambda: work(results))
    try:
        if not task.wait(_SLOW):
            with waiting() if is_told else nullcontext(_say_nothing) as say:
                while not task.wait(_SLOW):
                    say(results)
    except KeyboardInterrupt as interrupt:
        while not task.is_done:
            with suppress(KeyboardInterrupt):  # one was enough
                store().interrupt()
                task.wait(_AGAIN)
        if task.has_failed or isinstance(interrupt, StoppedError):
            raise
    return task.result()


@contextmanager
def waiting() -> Iterator[Callable[[list[Result]], None]]:
    """Say on standard error that something runs, and for how long, if that is a terminal; and how far results have
    come, to what is entered."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"), TextColumn("Ctrl-C stops it")
    with Progress(
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task("", total=None)
        yield lambda results: progress.update(task, description=_read(results))


def _read(results: list[Result]) -> str:
    """How much was read for the last of some results; nothing is said of what reads no blocks."""
    done, total = results[-1].progress if results else (0, 0)
    return f"{count(done)} of about {count(total)} blocks read" if done else ""


def _say_nothing(results: list[Result]) -> None:
    pass
