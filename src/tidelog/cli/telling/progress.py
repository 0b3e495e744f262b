"""How far a long command has come: a bar on standard error, if that is a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from tidelog.cli.telling.saying import printable
from tidelog.cli.telling.units import count


class _Bar:
    """A bar with a name, and something said behind it. A context manager."""

    def __init__(self, behind: ProgressColumn, *, enabled: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            behind,
            console=console,
            disable=not (enabled and console.is_terminal),
            transient=True,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()


class IngestProgress(_Bar):
    """Rows and their rate, and a bar over the bytes of the inputs when their sizes are known."""

    def __init__(self, total_bytes: int | None, *, enabled: bool = True) -> None:
        super().__init__(_RowsColumn(), enabled=enabled)
        self._task = self._progress.add_task("", total=total_bytes, rows=0)

    def update(self, name: str, rows: int, read_bytes: int) -> None:
        """Say which input is being read, how many rows were stored and how many bytes read, both over all inputs."""
        self._progress.update(self._task, description=printable(name), rows=rows, completed=read_bytes)


class CopyProgress(_Bar):
    """A bar over the bytes that are copied."""

    def __init__(self, *, enabled: bool = True) -> None:
        super().__init__(DownloadColumn(), enabled=enabled)
        self._task = self._progress.add_task("", total=None)

    def update(self, name: str, done: int, total: int) -> None:
        """Say which stream is being copied, and how many bytes of how many are."""
        self._progress.update(self._task, description=printable(name), completed=done, total=total)


class WarmProgress(_Bar):
    """How many kernels are ready, of how many."""

    def __init__(self) -> None:
        super().__init__(TextColumn("{task.completed} of {task.total}"), enabled=True)
        self._task = self._progress.add_task("compiling kernels", total=None)

    def update(self, ready: int, total: int) -> None:
        """Say how many are ready."""
        self._progress.update(self._task, completed=ready, total=total)


class _RowsColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        rows = task.fields["rows"]
        seconds = task.elapsed or 0.0
        rate = f", {count(rows / seconds)} rows/s" if seconds > 0 else ""
        return Text(f"{count(rows)} rows{rate}")
