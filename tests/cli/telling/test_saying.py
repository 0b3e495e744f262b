"""Names and values never give orders to the terminal, whatever command shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import tidelog
from support.commands import Cli
from tidelog.cli.telling.pipeline_view import PipelineView
from tidelog.cli.telling.progress import CopyProgress, IngestProgress
from tidelog.cli.telling.saying import printable

ORDERS = "a\x1b]0;owned\x07\x9b31m\x7f\u202e[red]"
"""A title, a bell, a colour by a control character of its own, a turn of the direction, and a mark of the library."""
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    with tidelog.open(tmp_path / "events") as store:
        schema = pa.schema([("ts", pa.int64()), (ORDERS, pa.string()), ("x", pa.int64())])
        store.create_stream(ORDERS, schema, "ts").append({"ts": [1, 2], ORDERS: [ORDERS, "b"], "x": [1, 2]})
    return ORDERS


COMMANDS = [
    ["streams", "--long"],
    ["streams"],
    ["stats", "--columns"],
    ["scan", "-n", ORDERS],
    ["scan", "-n", ORDERS, "--where", ORDERS],
    ["scan", "-n", ORDERS, "--columns", ORDERS],
    ["scan", "-n", f"{ORDERS} not there"],
    ["aggregate", f'max("{ORDERS}")', "-n", ORDERS],
    ["aggregate", f'max("{ORDERS}")', "-n", ORDERS, "--explain"],
    ["check"],
    ["compact"],
    ["maintain"],
    ["coarsen", "0", "-n", ORDERS, "--yes"],
    ["delete", "0", "-n", ORDERS, "--yes"],
    ["configure", ORDERS, "--grace", "60s"],
    ["export", f"{ORDERS}.csv".replace("/", ""), "-n", ORDERS],
    ["backup", f"copy{ORDERS}"],
    ["backup", "events/inside"],
    ["ingest", f"no{ORDERS}", "-n", ORDERS],
    ["rename", ORDERS, f"{ORDERS}2"],
    ["drop", ORDERS, "--yes"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_what_commands_say(cli: Cli, hostile: str, command: list[str]) -> None:
    run = cli(*command, "-s", "events")
    for said in (run.out, run.err):
        assert CONTROLS.findall(said) == []
    if command in (["streams"], ["scan", "-n", ORDERS]):
        assert r"a\x1b]0;owned\x07\x9b31m\x7f\u202e[red]" in run.out


def test_machines_get_values_as_they_are(cli: Cli, hostile: str) -> None:
    run = cli("scan", "-s", "events", "-n", ORDERS, "--columns", ORDERS, "--format", "csv")
    assert run.out.splitlines()[1] == ORDERS


def test_bars_and_tables_that_change(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Console, "is_terminal", property(lambda _: True))
    for bar in (IngestProgress(100), CopyProgress()):
        with bar:
            bar.update(ORDERS, 5, 50)
            seen.append(str(bar._progress.tasks[0].description))
    assert seen == [printable(ORDERS)] * 2
    assert PipelineView(ORDERS, enabled=False)
    assert "\x07" not in capsys.readouterr().err


def test_printable() -> None:
    assert printable("plain äöü €") == "plain äöü €"
    assert printable(printable(ORDERS)) == printable(ORDERS)
    assert not CONTROLS.search(printable("".join(map(chr, range(0x300))) + "\ud800"))
