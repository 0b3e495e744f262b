"""How a running pipeline is shown: a table that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidelog.cli.telling.saying import printable, say
from tidelog.cli.telling.units import count, rows

if TYPE_CHECKING:
    from tidelog.spark.pipeline import Progress

LINE_SECONDS: Final = 10.0
"""How often a sink is told about where there is no terminal."""

_HEADERS: Final = ("sink", "state", "batches", "rows", "rows/s", "batch", "lag", "late", "dropped", "duplicates")


class PipelineView:
    """Progress on standard error. A context manager."""

    def __init__(self, pipeline: str, *, enabled: bool = True) -> None:
        self._pipeline = pipeline
        self._enabled = enabled
        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=4) if enabled and console.is_terminal else None
        self._told = time.monotonic()
        self._batches = -1

    def update(self, sinks: Sequence[Progress]) -> None:
        """Show how far the sinks have come."""
        if self._live is not None:
            self._live.update(_table(self._pipeline, sinks))
            return
        now, batches = time.monotonic(), sum(each.batches for each in sinks)
        if self._enabled and batches != self._batches and now - self._told >= LINE_SECONDS:
            self._told, self._batches = now, batches
            for each in sinks:
                say(_line(each), err=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def summary(sinks: Sequence[Progress], seconds: float) -> str:
    """What a run has done, a line for each sink."""
    return "\n".join(f"{_line(each)}, {seconds:.1f} s in all" for each in sinks)


def _line(sink: Progress) -> str:
    said = [f"{rows(sink.rows_read)} in {count(sink.batches)} {'batch' if sink.batches == 1 else 'batches'}"]
    if sink.busy_seconds > 0:
        said.append(f"{count(int(sink.rows_read / sink.busy_seconds))} rows/s")
    said += [f"{count(number)} {word}" for word, number in _counters(sink) if number]
    return f"{sink.sink}: {', '.join(said)}"


def _counters(sink: Progress) -> list[tuple[str, int]]:
    return [
        ("late", sink.late or 0),
        ("dropped behind the watermark", sink.dropped),
        ("duplicates dropped", sink.duplicates),
        ("failures of maintenance", sink.maintenance_failures),
    ]


def _table(pipeline: str, sinks: Sequence[Progress]) -> Table:
    table = Table(title=Text(f"pipeline {printable(pipeline)}"), title_justify="left")
    for name in _HEADERS:
        table.add_column(name, justify="left" if name in ("sink", "state") else "right")
    for each in sinks:
        table.add_row(
            Text(printable(each.sink)),
            each.state,
            count(each.batches),
            count(each.rows_read),
            count(int(each.rows_per_second)),
            f"{each.batch_seconds:.2f} s",
            _lag(each),
            "-" if each.late is None else count(each.late),
            count(each.dropped),
            count(each.duplicates),
        )
    return table


def _lag(sink: Progress) -> str:
    if sink.behind is not None:
        return rows(sink.behind)
    return "-" if sink.lag_seconds is None else f"{sink.lag_seconds:,.0f} s"
