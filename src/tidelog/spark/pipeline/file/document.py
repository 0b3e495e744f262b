"""A pipeline's file: its text, and which line of it a problem is about."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tidelog.model.errors import StorageError
from tidelog.spark.pipeline.file.positions import Entry, KeyPath, positions
from tidelog.spark.pipeline.file.problems import PipelineError, Problem

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_QUOTES: Final = ('"""', "'''", '"', "'")


@dataclass(frozen=True)
class Document:
    """The text of a pipeline's file."""

    name: str
    """What it is called in messages."""
    text: str

    @classmethod
    def read(cls, path: Path) -> Document:
        """The file of that name. Raises :class:`StorageError` when it cannot be read."""
        try:
            return cls(str(path), path.read_bytes().decode().replace("\r\n", "\n"))
        except UnicodeDecodeError as error:
            raise StorageError(f"{path} is no text in UTF-8 ({error}); expected a pipeline as TOML") from None
        except IsADirectoryError:
            raise StorageError(f"{path} is a directory; name the pipeline's file in it") from None
        except OSError as error:
            hint = "; `tidelog pipeline init` writes a template" if isinstance(error, FileNotFoundError) else ""
            raise StorageError(f"{path}: {error.strerror}{hint}") from None

    def values(self) -> Mapping[str, Any]:
        """What the text says. Raises :class:`PipelineError` for what is no TOML."""
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            found = _PLACE.search(str(error))
            if found is None or found[1] is None:
                line, column = self.text.rstrip("\n").count("\n") + 1, 1
            else:
                line, column = int(found[1]), int(found[2])
            message = f"this is no TOML: {_PLACE.sub('', str(error))}"
            raise PipelineError([self._at(Problem((), message), line, column)]) from None

    @cached_property
    def _positions(self) -> Mapping[KeyPath, Entry]:
        return positions(self.text)

    def locate(self, problem: Problem, text: str | None = None) -> Problem:
        """A problem with its line: that of its key, or, for a place in a ``text`` that stands there, the place's own.

        What the file does not mention is placed at the nearest thing around it that it does.
        """
        path = problem.path
        while path and path not in self._positions:
            path = path[:-1]
        if not path:
            return self._at(problem, 1, 1)
        entry = self._positions[path]
        offset = entry.key
        if problem.offset is not None and text is not None and path == problem.path:
            offset = self._inside(entry, text, problem.offset)
        line_start = self.text.rfind("\n", 0, offset) + 1
        return self._at(problem, self.text.count("\n", 0, offset) + 1, offset - line_start + 1)

    def _inside(self, entry: Entry, text: str, offset: int) -> int:
        """Where a character of a text value stands; where the value begins, if it is not written as it reads."""
        quote = next(each for each in _QUOTES if self.text.startswith(each, entry.value))
        start = entry.value + len(quote)
        if len(quote) == 3 and self.text.startswith("\n", start):
            start += 1  # which TOML leaves out
        return start + offset if self.text.startswith(text, start) else entry.value

    def _at(self, problem: Problem, line: int, column: int) -> Problem:
        lines = self.text.split("\n")
        shown = lines[line - 1] if line <= len(lines) else ""
        return replace(problem, file=self.name, line=line, column=column, shown=shown)
