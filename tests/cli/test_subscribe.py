"""``tidelog subscribe`` and ``tidelog scan --follow``: rows as they come, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.commands import TRADES, Cli, stored


def test_what_is_there(cli: Cli, trades: list[Any]) -> None:
    run = cli(
        "subscribe", "SELECT ts, price * 2 AS p FROM trades WHERE volume < $v", "-p", "v=3", "-s", "events", "--once"
    )
    assert run.code == 0
    with tidelog.open("events", read_only=True) as store:
        expected = store.sql("SELECT price * 2 AS p FROM trades WHERE volume < 3 ORDER BY ts").arrow()
    assert [line.split(",")[1] for line in run.lines] == [
        "p",
        *("" if each is None else str(each) for each in expected["p"].to_pylist()),
    ]
    one = cli("subscribe", "-s", "events", "--limit", 1, "-F", "json", stdin=b"SELECT ts, volume FROM trades")
    assert [json.loads(line)["volume"] for line in one.lines] == [0]
    arrow = cli("subscribe", "FROM trades", "-s", "events", "--once", "-F", "arrow", "--start", "1970-01-01T00:01")
    assert pa.ipc.open_stream(arrow.bytes).read_all().num_rows == 140


def test_names_and_streams(cli: Cli, trades: list[Any]) -> None:
    asked = ("subscribe", "SELECT ts, volume FROM trades WHERE price > 3", "-s", "events", "--once")
    first = cli(*asked, "--name", "n")
    assert len(first.lines) > 100
    assert cli(*asked, "--name", "n").lines == ["ts,volume"]
    into = cli(*asked, "--into", "found")
    assert (into.code, into.out) == (0, "")
    assert into.err == f"appended {len(first.lines) - 1} rows to found\n"
    assert len(stored("events", "found")) == len(first.lines) - 1
    assert cli(*asked, "--into", "found").err == "appended 0 rows to found\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("subscribe", "SELECT count(*) FROM trades", "-s", "events"), "found the aggregate count_star"),
        (("subscribe", "SELECT ts FROM trades", "-s", "events", "--name", "n", "--limit", 3), "take whole"),
        (("subscribe", "SELECT ts FROM trades", "-s", "events", "-F", "parquet"), "cannot be read while"),
        (("subscribe", "SELECT ts FROM trades", "-s", "nowhere"), "no store"),
        (("scan", "-s", "events", "-n", "trades", "--follow", "--end", "5"), "have no end"),
        (("scan", "-s", "events", "-n", "trades", "--follow", "-F", "table"), "cannot be read while"),
    ],
)
def test_what_cannot_be(cli: Cli, trades: list[Any], arguments: tuple[Any, ...], message: str) -> None:
    run = cli(*arguments)
    assert run.code in (1, 2)
    assert message in " ".join(run.err.replace("│", " ").split())


def test_scan_follow(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades, "--follow", "--columns", "volume", "--where", "volume > 98", "--limit", 2, "--seq")
    assert run.lines[0] == "volume,_seq"
    assert [int(line.split(",")[0]) for line in run.lines[1:]] == [
        row["volume"] for row in TRADES.to_pylist() if row["volume"] > 98
    ][:2]


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGINT, ["scan", "-n", "a", "--follow"]),
        (signal.SIGTERM, ["subscribe", "FROM a", "--name", "n"]),
    ],
)
def test_signals_are_the_usual_end(tmp_path: Path, number: signal.Signals, command: list[str]) -> None:
    with tidelog.open(tmp_path / "e") as store:
        stream = store.create_stream("a", pa.schema([("t", pa.int64()), ("x", pa.int64())]), "t")
        stream.append({"t": range(3), "x": 1})
        stream.flush()
        script = [sys.executable, "-W", "error", "-m", "tidelog.cli", *command, "-s", "e"]
        with subprocess.Popen(
            script, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                assert [process.stdout.readline() for _ in range(4)] == [b"t,x\n", b"0,1\n", b"1,1\n", b"2,1\n"]
                stream.append({"t": [7], "x": 5})
                stream.flush()
                assert process.stdout.readline() == b"7,5\n"
                process.send_signal(number)
                assert process.wait(100) == 0
                assert process.stdout.read() == process.stderr.read() == b""
            finally:
                process.kill()
        if "--name" in command:
            assert store.subscriptions()[0].behind == 0
