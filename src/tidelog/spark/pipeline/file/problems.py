"""What is wrong with a pipeline, and where: all of it at once, each with its line where there is a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.model.errors import InputError
from tidelog.spark.pipeline.file.positions import KeyPath

_SHOWN: Final = 100
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    path: KeyPath
    """What is wrong, e.g. ``("sources", "trades", "path")``."""
    message: str
    offset: int | None = None
    """Which character of a text, such as the SQL of a step; counted from 0."""
    file: str | None = None
    line: int | None = None
    """Counted from 1, as ``column``; None for what was made in Python."""
    column: int | None = None
    shown: str | None = None
    """The line itself."""

    def __str__(self) -> str:
        if self.line is None:
            place = ".".join(map(str, self.path))
            return f"{place}: {self.message}" if place else self.message
        told = f"{self.file}:{self.line}: {self.message}"
        if self.shown is None or not self.shown.strip():
            return told
        margin = f"{self.line:>6} | "
        line, column = self.shown.replace("\t", " "), self.column or 1
        mark = f"\n{' ' * (len(margin) - 2)}| {' ' * (column - 1)}^" if column <= _SHOWN else ""
        return f"{told}\n{margin}{line[:_SHOWN]}{mark}"


class PipelineError(InputError):
    """A pipeline cannot be run as it stands; nothing was started. ``problems`` lists what was found, in order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[PipelineError], tuple[tuple[Problem, ...]]]:
        return PipelineError, (self.problems,)
