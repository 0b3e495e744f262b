"""A store that statements are asked of one after the other, and how their results are shown."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tidelog.cli.running import interruptible
from tidelog.cli.shell.inputs import MARK, as_command, inputs
from tidelog.cli.stores import existing
from tidelog.cli.telling.saying import say
from tidelog.cli.telling.units import duration
from tidelog.cli.writing.results import Form, fetched, is_quiet
from tidelog.model.errors import InputError
from tidelog.sql.statements import changes_something
from tidelog.sql.text.tokens import statements

if TYPE_CHECKING:
    from tidelog.engine.store import Store
    from tidelog.sql.result import Result

_DEEPEST: Final = 16
"""Files that run files."""


class LeaveError(Exception):
    """Somebody wants to leave the shell."""


class Session:
    """Runs statements and commands of the shell. A context manager.

    The store is open for reading until a statement comes that changes something, so that a shell does not keep others
    from writing; from then on it is open for writing, unless ``read_only``.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        timezone: str = "UTC",
        sql_memory: str | None = None,
        is_timed: bool = False,
    ) -> None:
        self.store: Store = existing(path, read_only=True, sql_memory=sql_memory)
        self._sql_memory = sql_memory
        self.form = Form.TABLE
        self.limit: int | None = None
        self.is_timed = is_timed
        self._path = path
        self._timezone = timezone
        self._may_write = not read_only
        self._file: io.TextIOWrapper | None = None
        self._depth = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.write_to(None)
        finally:
            self.store.close()

    def run(self, text: str) -> None:
        """Do what was typed: statements, or a command. Raises :class:`LeaveError` where that is to leave."""
        asked = as_command(text)
        if asked is not None:
            from tidelog.cli.shell.commands import command

            command(self, asked)
            return
        for statement, _ in statements(text):
            took = self.show(statement)
            if self.is_timed:
                say(f"{took * 1000:.1f} ms" if took < 1 else duration(took), err=True)

    def run_lines(self, lines: Iterable[str]) -> None:
        """Do what is in a file, up to the first error, which is raised."""
        for text in inputs(lines):
            self.run(text)

    def run_file(self, path: Path) -> None:
        """Likewise, by name."""
        if self._depth == _DEEPEST:
            raise InputError(f"{path}: {_DEEPEST} files run each other already; expected fewer")
        self._depth += 1
        try:
            with path.open(encoding="utf-8") as file:
                self.run_lines(file)
        finally:
            self._depth -= 1

    def write_to(self, path: Path | None) -> None:
        """Write results to a file from now on; None: to standard output."""
        opened = None if path is None else path.open("w", encoding="utf-8", newline="")
        if self._file is not None:
            self._file.close()
        self._file = opened

    def show(self, statement: str) -> float:
        """Run one statement and show its result; returns the seconds that took, but for printing."""
        started = time.perf_counter()
        if self._may_write and changes_something(statement):
            self._open_to_write()
        with nullcontext() if self._file is None else redirect_stdout(self._file):
            show = interruptible(
                lambda: self.store, partial(self._fetched, statement), is_told=is_quiet(self.form, None)
            )
            took = time.perf_counter() - started
            show()
            sys.stdout.flush()
        return took

    def _fetched(self, statement: str, results: list[Result]) -> Callable[[], None]:
        results.append(self.store.sql(statement, timezone=self._timezone))
        return fetched(results[0], self.form, None, self.limit, f"{MARK}limit or another {MARK}format")

    def _open_to_write(self) -> None:
        opened = existing(self._path, sql_memory=self._sql_memory)
        self.store.close()
        self.store = opened
        self._may_write = False  # it can already
