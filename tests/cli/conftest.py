"""Commands in this process, with what they print, and streams to ask about."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.cli import main

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


Cli = Callable[..., Run]


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs ``tidelog`` with some arguments, in a folder of its own; ``stdin`` is bytes for standard input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("TIDELOG_TRACEBACK", raising=False)

    def run(*arguments: object, stdin: bytes = b"") -> Run:
        source = tmp_path / ".stdin"
        source.write_bytes(stdin)
        capfdbinary.readouterr()
        with source.open("rb") as file:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
            code = main([str(each) for each in arguments])
        captured = capfdbinary.readouterr()
        return Run(code, captured.out, captured.err.decode())

    return run


@pytest.fixture
def trades(tmp_path: Path) -> list[Any]:
    """A store ``events`` with the stream ``trades``; the arguments that name them."""
    with tidelog.open(tmp_path / "events") as store:
        store.create_stream("trades", TRADES.schema, "ts").append(TRADES)
    return ["--store", "events", "--stream", "trades"]


def stored(path: Path, stream: str = "trades", **selection: Any) -> list[dict[str, Any]]:
    """The rows of a stream, read without the command line."""
    with tidelog.open(path, read_only=True) as store:
        rows: list[dict[str, Any]] = store.stream(stream).scan(**selection).read_all().to_pylist()
        return rows
