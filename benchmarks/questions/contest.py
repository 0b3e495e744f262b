"""One event stream and the contestants that keep it: what all questions about a stream share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import Format, Store
from formats.ours import NAME as OURS
from harness import Bench, Case, Figures, Outcome


@dataclass
class Contest:
    """A stream in memory and, once written, on disk in every contestant's format."""

    stream: str
    table: pa.Table
    formats: Sequence[Format]
    """Those that can take part."""
    directories: dict[str, Path] = field(default_factory=dict)
    """Where each contestant wrote the stream."""

    @property
    def events(self) -> int:
        """The number of events."""
        return self.table.num_rows

    def write(self, bench: Bench) -> dict[str, Outcome]:
        """Race all formats writing the stream; keep what they wrote last."""
        cases = [Case(format.name, _writer(format, self.table)) for format in self.formats]
        outcomes = bench.race(f"{self.stream}: write", cases, writes=True, keep_last=True)
        for name, outcome in outcomes.items():
            assert outcome.directory is not None
            self.directories[name] = outcome.directory
        return outcomes

    def open(self, bench: Bench, formats: Sequence[Format]) -> dict[str, Store]:
        """Open some stores; those that were not in a race before are written first."""
        for format in formats:
            if format.name not in self.directories:
                self.directories[format.name] = bench.workspace.fresh()
                format.write(self.directories[format.name], format.prepare(self.table))
        return {format.name: format.open(self.directories[format.name]) for format in formats}

    def remove(self, bench: Bench) -> None:
        """Remove everything from the disk."""
        for directory in self.directories.values():
            bench.workspace.remove(directory)
        self.directories.clear()


def present(bench: Bench, formats: Sequence[Format]) -> list[Format]:
    """The formats that can take part; the others are noted as missing."""
    found = []
    for format in formats:
        reason = format.unavailable()
        if reason is None:
            found.append(format)
        else:
            bench.missing[format.name] = reason
    return found


def split(figures: dict[str, Figures]) -> tuple[Figures | None, dict[str, Figures]]:
    """Ours, and those of the peers."""
    return figures.get(OURS), {name: found for name, found in figures.items() if name != OURS}


def expect_equal(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Raise unless a contestant gave back what it was given (types may be wider, e.g. large strings)."""
    if found.num_rows != expected.num_rows:
        raise AssertionError(f"{name} gave {found.num_rows} rows, expected {expected.num_rows}")
    for column in expected.schema.names:
        if not found[column].cast(expected[column].type).equals(expected[column]):
            raise AssertionError(f"{name} gave other values in the column {column} than were written")


def _writer(format: Format, table: pa.Table) -> Any:
    prepared = format.prepare(format.share(table))
    return lambda directory: format.write(directory, prepared)
