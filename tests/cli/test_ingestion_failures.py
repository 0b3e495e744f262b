"""Ingestion that does not go to its end: what is told to be stored is, and nothing is left that nobody wanted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from support.commands import Cli, stored
from support.media.full_disk import limit_disk, used
from tidelog.cli import ingestion as module
from tidelog.cli.interrupts import StoppedError, interrupts_held, signals_raised

TO = ["--store", "events", "--stream", "trades"]
NEW = [*TO, "--time", "t"]


def write_csv(path: Path, rows: int) -> None:
    path.write_text("t,x,s\n" + "".join(f"{i},{i * 0.7312:.9f},{(i * 2654435761) % 2**61}\n" for i in range(rows)))


def told(complaint: str) -> int:
    """How many rows a message says are stored; at least so many, if it does not know better."""
    match = re.search(r"^(?:at least )?([\d,]+) rows? before that (?:is|are) stored", complaint, re.M)
    assert match is not None or "nothing was stored" in complaint
    return 0 if match is None else int(match[1].replace(",", ""))


@pytest.mark.parametrize("producer", [[], ["--producer", "p"]], ids=["plain", "producer"])
@pytest.mark.parametrize("room", [0, 100_000, 480_000, 540_000, 840_000])
def test_on_a_full_disk_what_is_told_is_stored(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, producer: list[str]
) -> None:
    monkeypatch.setattr(module, "FLUSH_ROWS", 3000)
    write_csv(tmp_path / "a.csv", 30_000)
    tidelog.open(tmp_path / "events").close()
    limit = limit_disk(monkeypatch, tmp_path / "events")
    limit(used(tmp_path / "events") + room)
    run = cli("ingest", "a.csv", *NEW, "--batch-rows", 1000, *producer)
    assert run.code == 1
    assert "No space left on device" in run.err
    assert "had a failure before" not in run.err
    limit(None)
    if "at least" not in run.err and not told(run.err):
        assert cli("streams", "--store", "events").lines == []
        return
    times = [row["t"] for row in stored("events", columns=["t"])]
    assert times == list(range(len(times)))
    assert len(times) >= told(run.err)
    assert "at least" in run.err or len(times) == told(run.err)
    if producer:
        assert cli("ingest", "a.csv", *NEW, *producer).code == 0
        assert [row["t"] for row in stored("events", columns=["t"])] == list(range(30_000))


def test_a_full_disk_does_not_hide_a_bad_row(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(tmp_path / "a.csv", 3000)
    with (tmp_path / "a.csv").open("a") as file:
        file.write("3000,much,1\n")
    tidelog.open(tmp_path / "events").close()
    flush = tidelog.engine.stream.Stream.flush

    def full(self: Any) -> None:
        limit_disk(monkeypatch, tmp_path / "events")(0)
        flush(self)

    monkeypatch.setattr("tidelog.engine.stream.Stream.flush", full)
    run = cli("ingest", "a.csv", *NEW, "--type", "x=float64")
    first, second, third = run.err.splitlines()
    assert first.startswith("tidelog: a.csv, row 3001, column 'x': found 'much'")
    assert second.startswith("besides: ")
    assert "No space left on device" in second
    assert third.startswith(("nothing was stored", "at least 0 rows before that are stored"))


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Signals end the process, even where the tests run in the background and they are ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(("number", "word"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")])
def test_a_signal_keeps_what_an_interrupt_keeps(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, word: str
) -> None:
    write_csv(tmp_path / "a.csv", 30)
    append = tidelog.engine.stream.Stream.append

    def stopped(self: Any, data: Any, **options: Any) -> None:
        if data["t"][0].as_py() == 10:
            signal.raise_signal(number)  # must not stop this append half-way
        append(self, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr("tidelog.engine.stream.Stream.append", stopped)
        run = cli("ingest", "a.csv", *NEW, "--batch-rows", 10, "--producer", "p")
    assert run.code == 128 + number
    assert run.err.startswith(f"tidelog: stopped by {word}\n20 rows before that are stored; run the same command again")
    assert signal.getsignal(number) == signal.SIG_DFL
    assert cli("ingest", "a.csv", *NEW, "--producer", "p").code == 0
    assert [row["t"] for row in stored("events")] == list(range(30))


@pytest.mark.usefixtures("usual_signals")
def test_signals_that_are_ignored_stay_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals_raised():
        signal.raise_signal(signal.SIGHUP)
        with interrupts_held():
            signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.usefixtures("usual_signals")
def test_the_first_of_several_signals_counts() -> None:
    done: list[str] = []

    def work() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            done.append("held")
        done.append("not reached")

    with signals_raised(), pytest.raises(StoppedError) as caught:
        work()
    assert caught.value.number == signal.SIGTERM
    assert done == ["held"]


def test_a_process_that_is_terminated(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidelog.cli", "ingest", "-", *NEW]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(b'{"t": %d, "s": "%0100d"}\n' % (i, i) for i in range(120_000)))
        process.stdin.flush()
        deadline = time.monotonic() + 100
        while not list(tmp_path.glob("events/streams/*/tail/journal*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        complaint = process.communicate(timeout=100)[1].decode()
        assert process.returncode == 143
    assert complaint.startswith("tidelog: stopped by SIGTERM\n")
    number = told(complaint)
    if number:
        assert [row["t"] for row in stored(tmp_path / "events", columns=["t"])] == list(range(number))


@pytest.mark.parametrize(
    "content", ["t,x\nsoon,1\n", "t,x\n1,1\n2", 't,x\n1,"open\n', "t,x\n,1\n"], ids=["time", "short", "quote", "null"]
)
def test_a_stream_that_got_nothing_is_removed(cli: Cli, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    run = cli("ingest", "a.csv", *NEW, "--type", "t=int64", "--type", "x=string", "--batch-rows", "1")
    assert run.code == 1
    is_empty = "nothing was stored" in run.err
    assert cli("streams", "--store", "events").lines == ([] if is_empty else ["trades"])
    (tmp_path / "a.csv").write_text("t,x\n2026-01-01,1\n")
    if is_empty:
        assert cli("ingest", "a.csv", *NEW).out.startswith("created 'trades': 1 row, ")


def test_a_stream_that_was_there_before_stays(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,x\n")
    assert cli("ingest", "a.csv", *NEW, "--type", "t=int64", "--type", "x=int64").code == 0
    (tmp_path / "a.csv").write_text("t,x\nsoon,1\n")
    assert cli("ingest", "a.csv", *NEW).code == 1
    assert cli("streams", "--store", "events").lines == ["trades"]
