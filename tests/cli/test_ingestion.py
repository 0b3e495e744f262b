"""Files into streams: what is stored, what is told, and what happens when it does not go to the end."""

from __future__ import annotations

import gzip
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.commands import TRADES, Cli, stored
from support.profiles import scaled
from tidelog.cli import ingestion as module
from tidelog.cli.ingestion import IngestOptions, IngestResult, ingest_files, rebatched
from tidelog.cli.interrupts import interrupts_held
from tidelog.cli.telling.progress import IngestProgress
from tidelog.model.errors import InputError

TO = ["--store", "events", "--stream", "trades"]
NEW = [*TO, "--time", "t"]


def lines(start: int, end: int) -> str:
    return "".join(f"{i},{i / 4},s{i % 3}\n" for i in range(start, end))


def write_csv(path: Path, start: int, end: int) -> Path:
    path.write_text("t,x,s\n" + lines(start, end))
    return path


def times(stream: str = "trades") -> list[int]:
    return [row["t"] for row in stored("events", stream)]


def test_a_stream_is_created_from_the_first_file(cli: Cli, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 10)
    write_csv(tmp_path / "b.csv", 10, 15)
    run = cli("ingest", "a.csv", "b.csv", *NEW)
    assert run.code == 0
    size = (tmp_path / "a.csv").stat().st_size + (tmp_path / "b.csv").stat().st_size
    pattern = rf"created 'trades': 15 rows, {size} B in \d+\.\d\d s, [\d,]+ rows/s, [\d.]+ k?B/s\n"
    assert re.fullmatch(pattern, run.out)
    assert run.err == ""
    assert stored("events") == [{"t": i, "x": i / 4, "s": f"s{i % 3}"} for i in range(15)]
    with tidelog.open("events", read_only=True) as store:
        schema = store.stream("trades").schema
    assert schema == tidelog.Schema(pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string())]), "t")


def test_an_existing_stream_gives_the_types(cli: Cli, tmp_path: Path, trades: list[Any]) -> None:
    (tmp_path / "more.csv").write_text("ts,volume,price\n1970-01-01T00:05:00Z,5,1\n400000000,,2\n")
    run = cli("ingest", "more.csv", *trades)
    assert run.out.startswith("appended to 'trades': 2 rows, ")
    rows = stored("events", start="1970-01-01T00:05:00")
    assert [(row["symbol"], row["price"], row["volume"]) for row in rows] == [(None, 1.0, 5), (None, 2.0, None)]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(cli: Cli, packed: bool) -> None:
    data = b'{"t": 1, "x": 0.5}\n{"t": 2}\n'
    assert cli("ingest", "-", *NEW, stdin=gzip.compress(data) if packed else data).code == 0
    assert stored("events") == [{"t": 1, "x": 0.5}, {"t": 2, "x": None}]
    assert cli("ingest", "-", *TO, "--format", "csv", stdin=b"t\n3\n").code == 0
    assert times() == [1, 2, 3]
    assert cli("ingest", "-", "-", *TO).code == 2


def test_a_large_input_goes_in_batches_and_flushes(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_ROWS", 250)
    calls: list[int | str] = []
    append, flush = tidelog.engine.stream.Stream.append, tidelog.engine.stream.Stream.flush

    def recorded_append(self: Any, data: Any, **options: Any) -> None:
        calls.append(data.num_rows)
        append(self, data, **options)

    def recorded_flush(self: Any) -> None:
        calls.append("flush")
        flush(self)

    monkeypatch.setattr("tidelog.engine.stream.Stream.append", recorded_append)
    monkeypatch.setattr("tidelog.engine.stream.Stream.flush", recorded_flush)
    write_csv(tmp_path / "a.csv", 0, 730)
    assert cli("ingest", "a.csv", *NEW, "--batch-rows", 100).code == 0
    expected = [100, 100, 100, "flush", 100, 100, 100, "flush", 100, 30, "flush"]
    assert calls[: len(expected)] == expected
    assert times() == list(range(730))


def test_a_bad_row_ends_it_and_all_before_are_stored(cli: Cli, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 30)
    (tmp_path / "b.csv").write_text("t,x,s\n" + lines(30, 55) + "55,much,s\n" + lines(56, 60))
    run = cli("ingest", "a.csv", "b.csv", *NEW, "--batch-rows", 10)
    assert (run.code, run.out) == (1, "")
    assert run.err.splitlines() == [
        "tidelog: b.csv, row 26, column 'x': found 'much', expected float64; mend the row, or if the value stands for "
        "null, say so with --null",
        "55 rows before that are stored; leave that out when you try again, or use --producer, which does so by itself",
    ]
    assert times() == list(range(55))


def test_a_producer_goes_on_where_it_stopped(cli: Cli, tmp_path: Path) -> None:
    """After a bad row, with other batch sizes, after more rows were added, and when all is there: each row once."""
    first = write_csv(tmp_path / "a.csv", 0, 30)
    second = tmp_path / "b.csv"
    second.write_text("t,x,s\n" + lines(30, 47) + "bad,0,s\n")
    command = ["ingest", "a.csv", "b.csv", *NEW, "--producer", "files"]
    run = cli(*command, "--batch-rows", 10)
    assert run.code == 1
    assert run.err.endswith("47 rows before that are stored; run the same command again to go on from there\n")
    write_csv(second, 30, 60)
    run = cli(*command, "--batch-rows", 7)
    assert run.out.startswith("appended to 'trades': 13 rows (47 more were there already), ")
    write_csv(second, 30, 65)
    assert cli(*command).out.startswith("appended to 'trades': 5 rows (60 more were there already), ")
    assert cli(*command).out.startswith("appended to 'trades': 0 rows (65 more were there already), ")
    assert times() == list(range(65))
    assert cli("ingest", first, *TO, "--producer", "another").code == 0
    assert len(times()) == 95


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts are what they usually are, even where the tests run in the background and none can come."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_what_was_stored(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(tmp_path / "a.csv", 0, 30)
    append = tidelog.engine.stream.Stream.append

    def interrupted(self: Any, data: Any, **options: Any) -> None:
        if data["t"][0].as_py() == 10:
            signal.raise_signal(signal.SIGINT)  # must not stop this append half-way
        append(self, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr("tidelog.engine.stream.Stream.append", interrupted)
        run = cli("ingest", "a.csv", *NEW, "--batch-rows", 10, "--producer", "p")
    assert run.code == 130
    assert run.err.startswith("tidelog: interrupted\n20 rows before that are stored; run the same command again")
    assert cli("ingest", "a.csv", *NEW, "--producer", "p").code == 0
    assert times() == list(range(30))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv", *NEW], "missing.csv: No such file or directory\n"),
        (["a.csv", "missing.csv", *NEW], "missing.csv: No such file or directory\n"),
        (["a.csv", *TO], "name the column of event times with --time"),
        (["a.csv", *TO, "--time", "time"], "no column 'time' to take the event time from; "),
        (["a.csv", *TO, "--time", "s"], "the time column 's' has type string"),
        (["a.csv", *NEW, "--no-create"], "there is no stream 'trades'"),
        (["null.csv", *NEW], "'x': type null cannot be stored"),
        (["empty.csv", *NEW], "empty.csv: found nothing"),
        (["a.csv", *NEW, "--format", "parquet"], "a.csv: cannot be read: "),
        ([".", *NEW], "found a directory"),
    ],
)
def test_nothing_is_made_in_vain(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    write_csv(tmp_path / "a.csv", 0, 3)
    (tmp_path / "null.csv").write_text("t,x\n1,\n")
    (tmp_path / "empty.csv").write_text("")
    run = cli("ingest", *arguments)
    assert (run.code, run.out) == (1, "")
    assert message in run.err
    if (tmp_path / "events").exists():
        assert cli("streams", "--store", "events").lines == []


def test_an_existing_stream_is_not_redefined(cli: Cli, tmp_path: Path, trades: list[Any]) -> None:
    (tmp_path / "a.csv").write_text("ts,volume\n1,1\n")
    assert (
        "takes its times from column 'ts', not from 'volume'" in cli("ingest", "a.csv", *trades, "--time", "volume").err
    )
    assert "leave out --type" in cli("ingest", "a.csv", *trades, "--type", "volume=int8").err


def test_types_can_be_given(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,price,zip,note\n1,3,12345,\n")
    types = ["t=timestamp[ms, UTC]", "price=decimal128(10, 2)", "zip=string", "note=string"]
    arguments = [part for each in types for part in ("--type", each)]
    assert cli("ingest", "a.csv", *NEW, *arguments).code == 0
    described = json.loads(cli("streams", "--store", "events", "--json").out)["trades"]["columns"]
    assert [(each["type"], each.get("unit"), each.get("scale")) for each in described] == [
        ("timestamp", "ms", None),
        ("decimal128", None, 2),
        ("string", None, None),
        ("string", None, None),
    ]
    for wrong in ("price", "price=money", "=int64", "t=timestamp[fortnight]"):
        run = cli("ingest", "a.csv", *NEW, "--type", wrong)
        assert (run.code, "--type" in run.err) == (2, True)


def test_other_separators_and_nulls(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("t;x\n1;NA\n2;0.5\n")
    assert cli("ingest", "a.txt", *NEW, "--delimiter", ";", "--null", "NA").code == 0
    assert stored("events") == [{"t": 1, "x": None}, {"t": 2, "x": 0.5}]
    assert cli("ingest", "a.txt", *NEW, "--delimiter", ";;").code == 2


def test_quiet(cli: Cli, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 3)
    run = cli("ingest", "a.csv", *NEW, "--quiet")
    assert (run.code, run.out, run.err) == (0, "", "")


@settings(max_examples=scaled(50))
@given(st.lists(st.integers(0, 20)), st.integers(1, 15), st.booleans())
def test_batches_of_one_size(sizes: list[int], rows: int, fails: bool) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        for size in sizes:
            yield pa.record_batch({"n": pa.array(range(start, start + size), pa.int64())})
            start += size
        if fails:
            raise InputError("stop")

    found: list[pa.RecordBatch] = []
    try:
        found.extend(rebatched(batches(), rows))
        failed = False
    except InputError:
        failed = True
    if not fails:  # a list takes nothing from an iterator that fails
        assert [value for batch in found for value in batch["n"].to_pylist()] == list(range(sum(sizes)))
        assert all(batch.num_rows == rows for batch in found[:-1])
        assert all(0 < batch.num_rows <= rows for batch in found)
    assert failed == fails


def test_batches_before_an_error_come_first() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1, 2, 3]})
        raise InputError("stop")

    stream = rebatched(batches(), 2)
    assert next(stream)["n"].to_pylist() == [1, 2]
    assert next(stream)["n"].to_pylist() == [3]
    with pytest.raises(InputError):
        next(stream)


def test_progress_shows_rows_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with IngestProgress(1000) as progress:
        progress.update("trades.csv", 1234, 500)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "trades.csv" in shown.err
    assert "1,234 rows" in shown.err


def test_memory_does_not_grow_with_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a few blocks are alive at a time, however many there are."""
    monkeypatch.setattr("tidelog.cli.reading.delimited.BLOCK_BYTES", 1 << 16)
    path = write_csv(tmp_path / "a.csv", 0, 200_000)
    before = pa.total_allocated_bytes()
    peaks: list[int] = []
    append = tidelog.engine.stream.Stream.append

    def measured(self: Any, data: Any, **options: Any) -> None:
        peaks.append(pa.total_allocated_bytes() - before)
        append(self, data, **options)

    monkeypatch.setattr("tidelog.engine.stream.Stream.append", measured)
    options = IngestOptions(stream="trades", time="t", batch_rows=1000, progress=False)
    result = ingest_files(tmp_path / "events", [str(path)], options)
    assert result.rows == 200_000
    assert max(peaks[100:]) < 2 * max(peaks[:50]) + (4 << 20)


def test_a_result_in_words() -> None:
    result = IngestResult("a", created=True, rows=1_000_000, bytes=50_000_000, seconds=2.0)
    assert str(result) == "created 'a': 1,000,000 rows, 50.0 MB in 2.00 s, 500,000 rows/s, 25.0 MB/s"


def test_the_same_rows_from_every_format(cli: Cli, tmp_path: Path, trades: list[Any]) -> None:
    names = ["t.csv", "t.jsonl", "t.parquet", "t.arrow", "t.arrows"]
    for name in names:
        assert cli("export", name, *trades).code == 0
    assert cli("ingest", *names, "--store", "events", "--stream", "all", "--time", "ts").code == 0
    rows = stored("events", "all")
    assert len(rows) == 5 * TRADES.num_rows
    assert rows == [row for row in TRADES.to_pylist() for _ in names]


@pytest.mark.usefixtures("interruptible")
def test_interrupts_wait_for_the_end_of_a_block() -> None:
    done: list[str] = []

    def work() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            done.append("held")
        done.append("not reached")

    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["held"]
    assert signal.getsignal(signal.SIGINT) is usual
