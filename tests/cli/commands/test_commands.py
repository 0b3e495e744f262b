"""Questions and the care of streams through the command line, with DuckDB as oracle."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import tidelog
from support.commands import TRADES, Cli
from tidelog.engine.stream import writer_of
from tidelog.model import to_batches
from tidelog.storage.read.check import Finding
from tidelog.store.bulk import BulkWriter


def duck(query: str) -> list[tuple[Any, ...]]:
    """The answer of DuckDB about the same events."""
    with duckdb.connect() as connection:
        connection.register("trades", TRADES)
        return connection.execute(query).fetchall()


def test_scan_as_table(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades, "--limit", 3)
    assert run.code == 0
    assert run.lines[0].split() == ["ts", "symbol", "price", "volume"]
    assert [line.split() for line in run.lines[2:]] == [
        ["1970-01-01T00:00:00", "S0", "0.0", "0"],
        ["1970-01-01T00:00:01", "S1", "0.25", "37"],
        ["1970-01-01T00:00:02", "S2", "0.5", "74"],
    ]
    assert run.err == ""


def test_a_table_is_short_unless_told_otherwise(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades)
    assert len(run.lines) == 2 + 50
    assert run.err == "the first 50 rows; --limit or another --format shows more\n"
    assert len(cli("scan", *trades, "--limit", 120).lines) == 2 + 120
    whole = cli("scan", *trades, "--end", 50)
    assert whole.err == ""


SELECTIONS: list[tuple[list[Any], str]] = [
    ([], "true"),
    (["--start", "1970-01-01T00:01:00"], "ts >= '1970-01-01 00:01:00'"),
    (["--start", 60_000_000, "--end", 90_500_000], "ts >= '1970-01-01 00:01:00' AND ts < '1970-01-01 00:01:30.5'"),
    (["--where", "price > 12 AND symbol = 'S1'"], "price > 12 AND symbol = 'S1'"),
    (["--where", "symbol IS NULL", "--end", "1970-01-01T00:02:00Z"], "symbol IS NULL AND ts < '1970-01-01 00:02:00'"),
    (["--as-of", 17], "volume IS NOT NULL AND ts < '1970-01-01 00:00:17'"),
]


@pytest.mark.parametrize(("arguments", "condition"), SELECTIONS)
def test_scan_as_json(cli: Cli, trades: list[Any], arguments: list[Any], condition: str) -> None:
    run = cli("scan", *trades, *arguments, "--format", "json", "--columns", "volume,price", "--columns", "symbol")
    rows = [tuple(json.loads(line).values()) for line in run.lines]
    assert rows == duck(f"SELECT volume, price, symbol FROM trades WHERE {condition} ORDER BY ts")


@pytest.mark.parametrize(("arguments", "condition"), SELECTIONS)
def test_aggregates(cli: Cli, trades: list[Any], arguments: list[Any], condition: str) -> None:
    calls = ["count(*)", "count(price)", "sum(volume)", "min(price)", "max(symbol)"]
    run = cli("aggregate", *calls, *trades, *arguments, "--format", "json")
    assert json.loads(run.out) == dict(
        zip(calls, duck(f"SELECT {', '.join(calls)} FROM trades WHERE {condition}")[0], strict=True)
    )


def test_aggregates_as_table_and_csv(cli: Cli, trades: list[Any]) -> None:
    run = cli("aggregate", "count(*)", "max(ts)", "max(price)", *trades, "--where", "price < 0")
    assert [line.split() for line in run.lines[2:]] == [["count(*)", "0"], ["max(ts)", "null"], ["max(price)", "null"]]
    run = cli("aggregate", "count(*)", "max(ts)", *trades, "-F", "csv")
    assert run.lines == ["count(*),max(ts)", "200,1970-01-01T00:03:19"]


def test_how_an_aggregate_is_found(cli: Cli, trades: list[Any]) -> None:
    run = cli("aggregate", "count(*)", *trades, "--explain")
    assert run.code == 0
    assert "count(*): from the index" in run.out


def test_scan_as_csv_with_arrival_order(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades, "--format", "csv", "--seq", "--limit", 2)
    assert list(csv.reader(io.StringIO(run.out))) == [
        ["ts", "symbol", "price", "volume", "_seq"],
        ["1970-01-01T00:00:00.000000", "S0", "0.0", "0", "0"],
        ["1970-01-01T00:00:01.000000", "S1", "0.25", "37", "1"],
    ]


def test_scan_as_arrow_on_standard_output(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades, "--format", "arrow")
    assert pa.ipc.open_stream(run.bytes).read_all().to_pylist() == TRADES.to_pylist()


@pytest.mark.parametrize("limit", [0, 1, 199, 200, 201])
def test_limits(cli: Cli, trades: list[Any], limit: int) -> None:
    first = cli("scan", *trades, "-F", "json").lines
    assert cli("scan", *trades, "-F", "json", "--limit", limit).lines == first[:limit]
    newest = cli("scan", *trades, "-F", "json", "--limit", limit, "--newest-first").lines
    assert newest == first[::-1][:limit]


def test_a_table_of_the_newest(cli: Cli, trades: list[Any]) -> None:
    run = cli("scan", *trades, "--newest-first", "--columns", "ts,price")
    assert "the newest 50 rows; --limit or another --format shows more" in run.err
    assert len(run.lines) == 52


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out.arrows", "out.csv", "out.jsonl"])
@pytest.mark.parametrize("command", ["export", "scan"])
def test_files(cli: Cli, trades: list[Any], tmp_path: Path, name: str, command: str) -> None:
    where = [name] if command == "export" else ["--output", name]
    run = cli(command, *where, *trades, "--start", 1_000_000, "--columns", "ts,price")
    path = tmp_path / name
    assert run.code == 0
    if command == "export":
        assert run.out.startswith("wrote 199 rows, ")
    expected = TRADES.select(["ts", "price"]).slice(1)
    readers = {
        ".parquet": lambda: pyarrow.parquet.read_table(path),
        ".arrow": lambda: pa.ipc.open_file(path).read_all(),
        ".arrows": lambda: pa.ipc.open_stream(path).read_all(),
        ".csv": lambda: duckdb.read_csv(str(path)).arrow().read_all(),
        ".jsonl": lambda: (
            duckdb.read_json(str(path), columns={"ts": "TIMESTAMP", "price": "DOUBLE"}).arrow().read_all()
        ),
    }
    assert readers[path.suffix]().to_pylist() == expected.to_pylist()


def test_what_is_exported_can_be_ingested(cli: Cli, trades: list[Any]) -> None:
    for name in ("a.csv", "a.jsonl", "a.parquet", "a.arrow"):
        assert cli("export", name, *trades).code == 0
        copy = ["--store", "events", "--stream", name.replace(".", "_")]
        assert cli("ingest", name, *copy, "--time", "ts").code == 0
        assert cli("scan", *copy, "-F", "json").out == cli("scan", *trades, "-F", "json").out


def test_streams(cli: Cli, trades: list[Any]) -> None:
    with tidelog.open("events") as store:
        store.create_stream("a", pa.schema([("t", pa.int64()), pa.field("x", pa.bool_(), nullable=False)]), "t")
    assert cli("streams", "--store", "events").lines == ["a", "trades"]
    long = [line.split() for line in cli("streams", "--store", "events", "--long").lines[2:4]]
    assert long == [["a", "t", "int64", "time"], ["a", "x", "bool", "not", "null"]]
    assert json.loads(cli("streams", "--store", "events", "--json").out)["trades"]["time"] == "ts"


def test_stats(cli: Cli, trades: list[Any]) -> None:
    values = json.loads(cli("stats", *trades, "--json").out)
    assert (values["stream"], values["rows"]) == ("trades", 200)
    assert json.loads(cli("stats", "--store", "events", "--json").out).keys() == {"trades"}
    lines = cli("stats", "--store", "events").lines
    assert ["rows", "200"] in [line.split() for line in lines]


def test_stats_show_the_shape_of_trees(cli: Cli, trades: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {
        "rows": 1234567,
        "first": None,
        "trees": [{"leaves": 10, "height": 2}, {"leaves": 2000, "height": 3, "kind": "late"}],
        "cache": {"hits": 5},
        "levels": [],
    }
    monkeypatch.setattr("tidelog.engine.stream.Stream.stats", lambda self: shape)
    assert cli("stats", *trades).lines == [
        "rows   1,234,567",
        "first  -",
        "",
        "trees",
        "leaves  height  kind",
        "────────────────────",
        "    10       2  -",
        " 2,000       3  late",
        "",
        "cache",
        "hits  5",
    ]


def test_stats_as_json_are_json(cli: Cli, tmp_path: Path) -> None:
    """Which has no infinities; points in time are told as such."""
    schema = pa.schema([("ts", pa.timestamp("ms")), ("x", pa.float64()), ("day", pa.date32())])
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("s", schema, "ts", split="1h", leaf_rows=4)
        days = [datetime.date(1969, 12, 31), None, datetime.date(2026, 1, 2)]
        times = [datetime.datetime(2026, 1, 1, 9, minute) for minute in range(3)]
        stream.append({"ts": times, "x": [math.inf, 1.0, -math.inf], "day": days})
        stream.append({"ts": datetime.datetime(2026, 1, 1, 12), "x": 1.0, "day": None})
        stream.flush()
        store.backup(tmp_path / "copy")  # all of it in closed splits
    run = cli("stats", "--store", "copy", "--stream", "s", "--json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(run.out, parse_constant=refuse)["statistics"]
    first = {row["column"]: (row["nulls"], row["min"], row["max"]) for row in told[:3]}
    assert first == {
        "ts": (0, "2026-01-01T09:00:00", "2026-01-01T09:02:00"),
        "x": (0, None, None),
        "day": (1, "1969-12-31", "2026-01-02"),
    }
    assert "1969-12-31" in cli("stats", "--store", "copy", "--columns").out


def test_check_of_a_good_store(cli: Cli, trades: list[Any]) -> None:
    run = cli("check", "--store", "events")
    assert (run.code, run.out) == (0, "1 stream checked, nothing is wrong\n")


def test_check_lists_what_is_wrong(cli: Cli, trades: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("trades/1.tl", "bad checksum"), Finding("trades/2.tl", "gone")]
    monkeypatch.setattr("tidelog.engine.store.Store.check", lambda self: findings)
    run = cli("check", "--store", "events")
    assert (run.code, run.lines, run.err) == (1, [str(each) for each in findings], "2 found\n")


def test_check_of_a_damaged_file(cli: Cli, tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("a", pa.schema([("t", pa.int64()), ("x", pa.float64())]), "t")
        stream.append({"t": range(20_000), "x": [i * 0.37 for i in range(20_000)]})
    (split,) = (tmp_path / "events").rglob("*.tide")
    data = bytearray(split.read_bytes())
    data[len(data) // 2] ^= 0xFF
    split.write_bytes(data)
    run = cli("check", "--store", "events")
    assert run.code == 1
    assert split.name in run.out
    assert run.err.endswith(" found\n")


def test_orphans(cli: Cli, trades: list[Any], tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        stream = store.stream("trades")
        rows = len(stream)
        writer = BulkWriter(writer_of(stream).context)
        for batch in to_batches(TRADES, stream.schema):
            writer.append(batch)
        left = [writer_of(stream).context.path(info.name) for info in writer.finish()]
    old = writer_of(stream).context.path("1600000000000-0123456789abcdef.tide")
    (tmp_path / "events" / old).write_bytes(b"left behind")
    run = cli("check", "--store", "events", "--orphans")
    assert run.code == 0
    listed = [line for line in run.lines if not line.endswith(".lock")]
    assert listed == [f"orphan: {old}", *(f"orphan: {path}" for path in left), "1 stream checked, nothing is wrong"]
    run = cli("check", "--store", "events", "--orphans", "--remove")
    assert f"removed: {old}" in run.lines
    assert f"orphan: {left[0]}" in run.lines
    assert not (tmp_path / "events" / old).exists()
    assert (tmp_path / "events" / left[0]).exists()
    run = cli("check", "--store", "events", "--orphans", "--remove", "--age", "0s")
    assert f"removed: {left[0]}" in run.lines
    assert not any(line.startswith("orphan") for line in run.lines)
    run = cli("check", "--store", "events", "--orphans", "--remove", "--age", "0s")
    assert run.lines == ["1 stream checked, nothing is wrong"]
    with tidelog.open(tmp_path / "events") as store:
        assert len(store.stream("trades")) == rows


def test_removing_needs_orphans_and_an_age(cli: Cli, trades: list[Any]) -> None:
    assert cli("check", "--store", "events", "--remove").code == 2
    run = cli("check", "--store", "events", "--orphans", "--remove", "--age", "soon")
    assert run.code == 1
    assert "older_than" in run.err


def test_configure(cli: Cli, trades: list[Any]) -> None:
    run = cli("configure", "trades", "-s", "events", "--retention", "30d", "--coarse-after", "7d")
    assert run.code == 0
    assert "'trades' has retention 30d, coarse_after 7d, coarse_grain none, grace 600s" in run.out
    assert "retention none, coarse_after 7d" in cli("configure", "trades", "-s", "events", "--retention", "none").out
    assert cli("configure", "trades", "-s", "events").code == 2
    assert "which is no duration" in cli("configure", "trades", "-s", "events", "--retention", "long").err
    with tidelog.open("events", read_only=True) as store:
        assert store.stream("trades").options.coarse_after == "7d"


def test_alter(cli: Cli, trades: list[Any]) -> None:
    given = ["--add", "venue=string", "--add", "fee=float64", "--rename", "price=amount", "--widen", "volume=float64"]
    assert cli("alter", "trades", "-s", "events", "--widen", "volume=int8").code == 1
    assert cli("alter", "trades", "-s", "events", "--add", "venue").code == 2
    assert cli("alter", "trades", "-s", "events", "--rename", "venue").code == 2
    assert cli("alter", "trades", "-s", "events", "--rename", "price=a", "--rename", "price=b").code == 2
    assert cli("alter", "trades", "-s", "events", "--add", "a=int8", "--add", "a=int64").code == 2
    assert cli("alter", "trades", "-s", "events").code == 2
    assert "no column 'pric'" in cli("alter", "trades", "-s", "events", "--rename", "pric=x").err
    run = cli("alter", "trades", "-s", "events", "--add", "venue=string", "--rename", "price=amount")
    assert run.out == (
        "'trades' has the columns ts timestamp[us], symbol string, amount float64, volume int64, venue string\n"
    )
    assert cli("alter", "trades", "-s", "events", *given).code == 1  # some of it was done before
    found = cli("scan", *trades, "--limit", "1", "-F", "csv").lines
    assert found[0].replace('"', "") == "ts,symbol,amount,volume,venue"
    assert cli("aggregate", "max(amount)", "count(venue)", *trades, "-F", "csv").lines[1:] == ["49.75,0"]


def test_salvage(cli: Cli, trades: list[Any], tmp_path: Path) -> None:
    assert cli("salvage", "events", "whole").out == "trades: 200 rows salvaged\n"
    (journal,) = (tmp_path / "events").rglob("journal-*")
    journal.write_bytes(journal.read_bytes()[:70])
    assert cli("check", "--store", "events").code == 1
    result = cli("salvage", "events", "salvaged")
    assert result.code == 1
    assert "lost of trades: " in result.err
    assert "records are lost" in result.err
    assert cli("check", "--store", "salvaged").code == 0
    assert cli("salvage", "events", "salvaged").code == 1
    assert cli("salvage", "nowhere", "new").code == 1


def test_backup_and_restore(cli: Cli, trades: list[Any], tmp_path: Path) -> None:
    run = cli("backup", "copy", "--store", "events")
    assert run.code == 0, run.err
    assert run.out.startswith("backed up 1 stream: 200 rows, ")
    again = cli("backup", "copy", "--store", "events")
    assert (again.code, "choose an empty" in again.err) == (1, True)
    assert cli("backup", "linked", "--store", "events", "--link", "--stream", "trades", "-q").out == ""
    assert cli("restore", "copy", "--store", "restored").out.startswith("restored 1 stream: 200 rows, ")
    assert (
        cli("scan", *trades, "--seq", "-F", "csv").out
        == cli("scan", "-s", "restored", "-n", "trades", "--seq", "-F", "csv").out
    )
    assert cli("restore", "copy", "--store", "restored").code == 1
    assert cli("restore", "nowhere", "--store", "new").code == 1
    assert not (tmp_path / "new").exists()


def test_drop_and_rename(cli: Cli, trades: list[Any]) -> None:
    assert cli("rename", "trades", "deals", "--store", "events").out == "renamed 'trades' to 'deals'\n"
    assert cli("streams", "--store", "events").lines == ["deals"]
    asked = cli("drop", "deals", "--store", "events")
    assert (asked.code, cli("streams", "--store", "events").lines) == (2, ["deals"])
    assert cli("drop", "deals", "--store", "events", "--yes").out.startswith("dropped 'deals'; ")
    assert cli("streams", "--store", "events").lines == []


@pytest.mark.parametrize(
    "command",
    [
        ["scan", "--store", "nowhere", "--stream", "x"],
        ["aggregate", "count(*)", "--store", "nowhere", "--stream", "x"],
        ["streams", "--store", "nowhere"],
        ["stats", "--store", "nowhere"],
        ["check", "--store", "nowhere", "--orphans", "--remove"],
        ["drop", "x", "--store", "nowhere", "--yes"],
        ["rename", "x", "y", "--store", "nowhere"],
        ["backup", "x.csv", "--store", "nowhere"],
        ["alter", "x", "--store", "nowhere", "--rename", "a=b"],
        ["export", "x.csv", "--store", "nowhere", "--stream", "x"],
    ],
)
def test_only_ingest_makes_stores(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    run = cli(*command)
    assert run.code == 1
    assert "nowhere" in run.err
    assert run.err.startswith("tidelog: there is no store")
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scan", "--stream", "tradez"], "did you mean 'trades'?"),
        (["scan", "--stream", "trades", "--columns", "prize"], "did you mean 'price'?"),
        (["scan", "--stream", "trades", "--where", "price >"], "price >"),
        (["scan", "--stream", "trades", "--start", "tomorrow"], "no ISO 8601 time"),
        (["aggregate", "median(", "--stream", "trades"], "median("),
        (["export", "no/where.csv", "--stream", "trades"], "No such directory"),
        (["drop", "tradez", "--yes"], "did you mean 'trades'?"),
    ],
)
def test_errors_are_one_message(cli: Cli, trades: list[Any], arguments: list[str], message: str) -> None:
    run = cli(*arguments, "--store", "events")
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith("tidelog: ")
    assert message in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["scan", "--stream", "trades"],
        ["scan", "--stream", "trades", "--store", "events", "--limit", "-1"],
        ["scan", "--stream", "trades", "--store", "events", "--format", "xml"],
        ["scan", "--stream", "trades", "--store", "events", "--output", "x.txt"],
        ["aggregate", "--stream", "trades", "--store", "events"],
        ["aggregate", "count(*)", "--stream", "trades", "--store", "events", "-F", "parquet"],
        ["export", "x.txt", "--stream", "trades", "--store", "events"],
        ["ingest", "--stream", "trades", "--store", "events"],
    ],
)
def test_commands_without_sense(cli: Cli, trades: list[Any], arguments: list[str]) -> None:
    assert cli(*arguments).code == 2


def test_the_store_may_come_from_the_environment(cli: Cli, trades: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_STORE", "events")
    assert cli("streams").lines == ["trades"]


COMMANDS = [
    "ingest",
    "scan",
    "aggregate",
    "export",
    "streams",
    "stats",
    "check",
    "drop",
    "rename",
    "alter",
    "backup",
    "restore",
    "compact",
    "maintain",
    "coarsen",
    "delete",
    "sql",
    "shell",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(cli: Cli, command: str) -> None:
    run = cli(command, "--help")
    assert run.code == 0
    assert f"Usage: tidelog {command}" in run.out
    assert "--store" in run.out
    assert cli(command, "-h").out == run.out


def test_all_commands_are_listed(cli: Cli) -> None:
    run = cli("--help")
    assert all(f" {command} " in run.out for command in COMMANDS)


def test_version(cli: Cli) -> None:
    run = cli("--version")
    assert (run.code, run.out.split()[0]) == (0, "tidelog")


@pytest.mark.parametrize(
    ("time", "hint"),
    [
        ("2019", "'2019-01-01' for the year"),
        ("20190228", "'2019-02-28' for the day"),
        ("1700000000", "'1700000000s' for a number of seconds since 1970"),
        ("1700000000000", "'1700000000000ms' for a number of milliseconds since 1970"),
    ],
)
def test_integers_that_hardly_count_microseconds_are_refused(cli: Cli, trades: list[Any], time: str, hint: str) -> None:
    for command in (
        ["scan", "--start", time],
        ["aggregate", "count(*)", "--end", time],
        ["export", "a.csv", "--end", time],
        ["delete", time, "--yes"],
        ["coarsen", time, "--yes"],
    ):
        run = cli(*command, *trades)
        assert (run.code, run.out) == (1, "")
        assert hint in run.err
        assert f"'{time}us'" in run.err


@pytest.mark.parametrize(
    ("time", "first"),
    [
        ("2019us", 1),
        ("100s", 100),
        ("-5ms", 0),
        ("100000us", 1),
        ("1500ms", 2),
        ("5000000", 5),
        ("0", 0),
        ("20190000", 21),
    ],
)
def test_times_with_a_unit(cli: Cli, trades: list[Any], time: str, first: int) -> None:
    run = cli("aggregate", "min(ts)", *trades, "--start", time, "-F", "json")
    assert json.loads(run.out) == {"min(ts)": f"1970-01-01T00:{first // 60:02}:{first % 60:02}"}


def test_streams_without_a_unit_take_any_integer(cli: Cli) -> None:
    assert cli("ingest", "-", "-s", "events", "-n", "years", "--time", "t", stdin=b"t\n2018\n2019\n").code == 0
    assert cli("scan", "-s", "events", "-n", "years", "--start", "2019", "-F", "csv").out == "t\n2019\n"
