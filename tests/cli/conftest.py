"""Commands in this process, in a folder of their own, and a stream to ask about."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import tidelog
from support.commands import TRADES, Cli, Run
from tidelog.cli import main


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
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
