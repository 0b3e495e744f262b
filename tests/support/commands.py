"""Commands of the command line as tests see them, and the events they are tried with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import tidelog

TRADES = pa.table(
    {
        "ts": pa.array([i * 1_000_000 for i in range(200)], pa.timestamp("us")),
        "symbol": pa.array([None if i % 7 == 3 else f"S{i % 5}" for i in range(200)]),
        "price": pa.array([None if i % 11 == 5 else i / 4 for i in range(200)]),
        "volume": pa.array([(i * 37) % 101 for i in range(200)], pa.int64()),
    }
)
"""Events of one per second from the epoch on."""


@dataclass(frozen=True)
class Run:
    """How a command ended and what it printed."""

    code: int
    bytes: bytes
    err: str

    @property
    def out(self) -> str:
        return self.bytes.decode()

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


Cli: TypeAlias = Callable[..., Run]
"""Runs ``tidelog`` with some arguments; ``stdin`` is bytes for standard input."""


def stored(path: Path | str, stream: str = "trades", **selection: Any) -> list[dict[str, Any]]:
    """The rows of a stream, read without the command line."""
    with tidelog.open(path, read_only=True) as store:
        rows: list[dict[str, Any]] = store.stream(stream).scan(**selection).read_all().to_pylist()
        return rows
