"""What CSV and JSON inputs hold: quotes, arrays, seconds and numbers that must stay what they are."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import threading
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.commands import Cli, stored
from support.profiles import scaled
from tidelog.cli.reading import delimited, json_lines
from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.json_arrays import ArrayLines
from tidelog.cli.reading.open import open_source
from tidelog.cli.reading.quotes import QuoteWatch
from tidelog.cli.reading.source import BadRowError
from tidelog.model import Schema
from tidelog.model.errors import InputError

TO = ["--store", "events", "--stream", "trades"]
NEW = [*TO, "--time", "t"]
SCHEMA = Schema(pa.schema([("t", pa.int64()), ("s", pa.string()), ("x", pa.string())]), "t")
EPOCH = datetime(1970, 1, 1)


def read(path: Path, schema: Schema, **options: Any) -> tuple[list[dict[str, Any]], InputError | None]:
    rows: list[dict[str, Any]] = []
    with Input(str(path)) as content:
        try:
            for batch in open_source(content, **options).batches(schema):
                rows.extend(batch.to_pylist())
        except InputError as error:
            return rows, error
    return rows, None


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 512)
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 512)


# Quotes. ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [1, 2])
@pytest.mark.parametrize("blocks", ["small", "large"])
@pytest.mark.parametrize("bad", [0, 3, 60, 99])
def test_a_quote_that_is_not_closed_is_told_with_its_line(
    column: int, blocks: str, bad: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if blocks == "small":
        request.getfixturevalue("small_blocks")
    rows = [[str(i), f"two\nlines {i}" if i % 5 == 0 else "a", f'say "{i}"'] for i in range(100)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows[:bad])
    line = 2 + text.getvalue().count("\n")
    values = [str(bad), "plain", "plain"]
    values[column] = '"open, and'
    text.write(",".join(values[: column + 1] if column == 2 else values) + "\n")
    csv.writer(text, lineterminator="\n").writerows([["7", "b", "c"]] * (99 - bad))
    path = tmp_path / "rows.csv"
    path.write_text("t,s,x\n" + text.getvalue().replace('"b"', "b"))
    found, error = read(path, SCHEMA)
    assert [row["t"] for row in found] == list(range(bad))
    assert isinstance(error, BadRowError)
    assert error.row == bad
    assert f"found a quote in line {line} that is not closed" in str(error)


def test_a_row_of_the_wrong_length_above_an_open_quote_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('t,s,x\n1,a,b\n2,a\n3,a,"open\n4,a,b\n')
    found, error = read(path, SCHEMA)
    assert len(found) == 1
    assert error is not None
    assert (error.row, "found 2 values" in str(error)) == (1, True)


def test_an_open_quote_in_the_line_of_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('t,"s,x\n1,a,b\n')
    error = read(path, SCHEMA)[1]
    assert error is not None
    assert "line of column names is damaged: a quote in it is not closed" in str(error)


def test_quotes_that_mean_themselves(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('t,s,x\n1,5" pipe,a"b"c"\n2,"6"" pipe","7"\n3,""x,b"\n')
    found, error = read(path, SCHEMA)
    assert error is None
    assert [(row["s"], row["x"]) for row in found] == [('5" pipe', 'a"b"c"'), ('6" pipe', "7"), ("x", 'b"')]


def open_line(text: bytes) -> int | None:
    """Where a value is open at the end of a text, by the rules of the parser, one byte after the other."""
    state, line, began = "start", 1, 0
    for byte in text:
        sign = chr(byte)
        if state == "start" and sign == '"':
            state, began = "inside", line
        elif state == "inside":
            state = "behind" if sign == '"' else "inside"
        elif state == "behind" and sign == '"':
            state = "inside"
        else:
            state = "start" if sign in ",\n\r" else "plain"
        line += sign == "\n"
    return began if state == "inside" else None


@settings(max_examples=scaled(300))
@given(st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"a", b'""', b" "]), max_size=40), st.data())
def test_quotes_are_followed_like_by_a_loop(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    watch = QuoteWatch(",")
    start = 0
    while start < len(text):
        end = data.draw(st.integers(start + 1, len(text)))
        watch.feed(text[start:end])
        start = end
    assert (watch.line if watch.is_open else None) == open_line(text)


# Numbers. ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("n", "0012", "the padding zeros of which int64 would lose"),
        ("n", "-0012", "the padding zeros"),
        ("x", "0012", "the padding zeros of which float64 would lose"),
        ("x", "9007199254740993", "which float64 would round"),
    ],
)
def test_a_number_that_would_change_is_refused(cli: Cli, tmp_path: Path, column: str, value: str, why: str) -> None:
    """It came too late to make the column one of texts."""
    values = {"n": "7", "x": "0.5"} | {column: value}
    head = "t,n,x\n" + "".join(f"{i},{i},{i}.5\n" for i in range(200))
    (tmp_path / "a.csv").write_text(head + f"200,{values['n']},{values['x']}\n")
    run = cli("ingest", "a.csv", *NEW, "--producer", "p")
    assert run.code == 1
    assert f"a.csv, row 201, column '{column}': found '{value}', {why}" in run.err
    type_ = "int64" if column == "n" else "float64"
    assert f"--type {column}=string" in run.err
    assert f"--type {column}={type_}" in run.err
    assert len(stored("events")) == 200
    assert cli("ingest", "a.csv", *NEW, "--producer", "p").code == 1  # not because the stream is there now
    run = cli("ingest", "a.csv", *NEW, "--producer", "p", "--type", f"{column}={type_}")
    assert run.code == 0
    assert stored("events")[-1][column] == (int(value) if column == "n" else float(value))


def test_a_command_with_types_can_be_repeated(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,zip\n1,12\n2,0034\n")
    command = ["ingest", "a.csv", *NEW, "--type", "zip=string", "--type", "t=timestamp[ms]"]
    assert cli(*command).code == 0
    assert cli(*command).out.startswith("appended to 'trades': 2 rows")
    run = cli("ingest", "a.csv", *NEW, "--type", "zip=int64")
    assert (run.code, "its column 'zip' has the type string, not int64" in run.err) == (1, True)
    run = cli("ingest", "a.csv", *NEW, "--type", "zap=string")
    assert (run.code, "did you mean 'zip'?" in run.err) == (1, True)
    assert [row["zip"] for row in stored("events")] == ["12", "12", "0034", "0034"]


# Seconds. ---------------------------------------------------------------------------------------------


def exactly(text: str) -> datetime:
    return EPOCH + timedelta(microseconds=int(Fraction(text) * 10**6))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_seconds_with_a_point_are_times(cli: Cli, tmp_path: Path, kind: str) -> None:
    texts = ["1700000000.25", "1700000001", "-1.5", "1700000000.000001", "1.7e9"]
    if kind == "csv":
        content = "t,n\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts))
    else:
        objects = [f'{{"t": {text}, "n": {i}}}' for i, text in enumerate(texts)]
        content = "\n".join(objects) if kind == "jsonl" else "[" + ",\n".join(objects) + "]"
    (tmp_path / f"a.{kind}").write_text(content)
    assert cli("ingest", f"a.{kind}", *NEW).code == 0
    assert {row["n"]: row["t"] for row in stored("events")} == {i: exactly(text) for i, text in enumerate(texts)}
    described = json.loads(cli("streams", "-s", "events", "--json").out)["trades"]["columns"][0]
    assert (described["type"], described["unit"]) == ("timestamp", "us")
    assert cli("ingest", f"a.{kind}", *NEW, "--store", "ms", "--type", "t=timestamp[ms]").code == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_digits_of_seconds_decide_the_unit(cli: Cli, tmp_path: Path, kind: str) -> None:
    text = "1700000000.1234567"
    (tmp_path / "a").write_text(f"t\n{text}\n" if kind == "csv" else f'{{"t": {text}}}\n')
    assert cli("ingest", "a", *NEW).code == 0
    assert cli("scan", *TO, "-F", "csv").out == "t\n2023-11-14T22:13:20.123456700\n"


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_numbers_of_times_are_of_one_kind(tmp_path: Path, kind: str) -> None:
    """Those without a point are seconds if others have one; but not if none at the top has."""
    schema = Schema(pa.schema([("t", pa.timestamp("ms")), ("s", pa.string())]), "t")
    path = tmp_path / f"a.{kind}"

    def write(values: list[str]) -> None:
        if kind == "csv":
            path.write_text("t,s\n" + "".join(f"{value},{'x' * 20}\n" for value in values))
        else:
            path.write_text("".join(f'{{"t": {value}, "s": "{"x" * 20}"}}\n' for value in values))

    write([*["1000.5"] * 50, *["2000"] * 200])
    found, error = read(path, schema)
    assert error is None
    assert [row["t"] for row in found] == [EPOCH + timedelta(seconds=1000.5)] * 50 + [
        EPOCH + timedelta(seconds=2000)
    ] * 200
    write([*["1000"] * 100, "2000.5"])
    found, error = read(path, schema)
    assert [row["t"] for row in found] == [EPOCH + timedelta(seconds=1)] * 100
    assert error is not None
    assert (error.row, "a number with a point is in seconds" in str(error)) == (100, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1700000000.1234", "falls between two milliseconds"),
        ("1700000000250.5", "no time in seconds since 1970 before the year 5138"),
        ("2026-01-01", "expected seconds since 1970 such as 1700000000.25"),
    ],
)
def test_what_is_no_time_in_seconds(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t\n1.5\n{text}\n")
    found, error = read(path, Schema(pa.schema([("t", pa.timestamp("ms"))]), "t"))
    assert (len(found), error is not None and reason in str(error)) == (1, True)


def test_times_are_converted_by_the_form_of_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Arrow takes far longer to refuse a column than to convert it, so each column is tried once."""
    tried: list[pa.DataType] = []
    cast = pa.StringArray.cast

    class Counted:
        def __init__(self, values: pa.Array) -> None:
            self._values = values

        def __getattr__(self, name: str) -> Any:
            return getattr(self._values, name)

        def __getitem__(self, index: Any) -> Any:
            return self._values[index]

        def cast(self, target: pa.DataType) -> Any:
            tried.append(target)
            return cast(self._values, target)

    from tidelog.cli.reading import texts

    monkeypatch.setattr(texts, "first_text", lambda values: values[0].as_py())
    for first in ("1700000000000000", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00"):
        tried.clear()
        texts.typed(Counted(pa.array([first] * 3)), pa.field("t", pa.timestamp("us")))
        assert len(tried) == 1


# Arrays. ----------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text('"\\[]{},:\n a', max_size=5), VALUES, max_size=3), max_size=8)


@settings(max_examples=scaled(50))
@given(OBJECTS, st.sampled_from([None, 0, 2]), st.booleans(), st.data())
def test_an_array_becomes_lines(objects: list[Any], indent: int | None, plain: bool, data: st.DataObject) -> None:
    text = json.dumps(objects, indent=indent, ensure_ascii=plain).encode()
    lines = ArrayLines()
    start = 0
    pieces = []
    while start < len(text):
        end = data.draw(st.integers(start + 1, len(text)))
        pieces.append(lines.feed(text[start:end]))
        assert len(pieces[-1]) == end - start
        start = end
    assert [json.loads(line) for line in b"".join(pieces).split(b"\n") if line.strip()] == objects
    assert lines.fault() is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a"])
def test_an_array_is_read_in_blocks(name: str, indent: int | None, tmp_path: Path) -> None:
    rows = [{"t": i, "s": 'a "b" \\ [c], {d}\n', "x": None if i % 3 else str(i)} for i in range(300)]
    path = tmp_path / name
    path.write_text("\ufeff \n" + json.dumps(rows, indent=indent) + "\n")
    assert read(path, SCHEMA) == (rows, None)
    for wrong, row, reason in (
        ('[{"t": 1}, {"t": "x"}]', 1, "row 2, column 't'"),
        ('[{"t": 1}, 5, {"t": 2}]', 1, "row 2: found 5, expected an object"),
        ('[{"t": 1}, {"t": ', None, "row 2: "),
        ('[{"t": 1},', None, "the array is not closed; the input seems to be cut off"),
        ('[{"t": 1}] {"t": 2}', None, "found more behind the end of the array"),
    ):
        path.write_text(wrong)
        found, error = read(path, SCHEMA)
        assert [each["t"] for each in found] == [1]
        assert error is not None
        assert reason in str(error)
        assert row is None or error.row == row


def test_memory_does_not_grow_with_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 1 << 16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_text(json.dumps([{"t": i, "s": "x" * 50} for i in range(50_000)], indent=1))
        with Input(str(path)) as content:
            source = json_lines.JsonLinesSource(content)
            longest = max(len(block) for block in source._read())
    assert longest < 4 << 16


def test_an_empty_array(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(" [ ] ")
    run = cli("ingest", "a.json", *NEW)
    assert (run.code, "found nothing" in run.err) == (1, True)


# Bytes of standard input, columns and options. --------------------------------------------------------


def test_bytes_of_a_pipe_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"t,x\n" + b"".join(b"%d,1\n" % i for i in range(5000))
    source, target = os.pipe()

    def write() -> None:
        with os.fdopen(target, "wb") as file:
            file.write(data)

    with os.fdopen(source) as stdin:
        writer = threading.Thread(target=write)
        writer.start()
        monkeypatch.setattr("sys.stdin", stdin)
        with Input("-") as content:
            assert content.size is None
            while content.read(1000):
                pass
            assert content.position == len(data)
        writer.join()


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.arrow", "t.arrows"])
def test_only_some_columns_are_taken(cli: Cli, trades: list[Any], name: str) -> None:
    assert cli("export", name, *trades).code == 0
    new = ["--store", "events", "--stream", "some", "--time", "ts"]
    assert cli("ingest", name, *new, "--columns", "price").code == 0
    expected = [(row["ts"], row["price"]) for row in stored("events")]
    assert [tuple(row.values()) for row in stored("events", "some")] == expected
    assert cli("ingest", name, *new, "--columns", "ts,price").code == 0  # into the stream that is there
    assert len(stored("events", "some")) == 2 * len(expected)
    run = cli("ingest", name, *new, "--columns", "ts,prize")
    assert (run.code, "did you mean 'price'?" in run.err) == (1, True)
    run = cli("ingest", name, "--store", "events", "--stream", "new", "--time", "ts", "--columns", "prize")
    assert (run.code, "did you mean 'price'?" in run.err) == (1, True)


def test_options_of_a_new_stream(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,x,y\n2026-01-01,1,2\n")
    given = {
        "split": "1d",
        "durability": "batch",
        "retention": "30d",
        "lateness": "1h",
        "too-late": "aside",
        "leaf_rows": "1_000",
        "aggregates": "x,y",
        "user_aggregates": "last(x)",
        "grace": "5m",
    }
    options = [part for name, value in given.items() for part in ("--option", f"{name}={value}")]
    command = ["ingest", "a.csv", *NEW, *options]
    assert cli(*command).code == 0
    with tidelog.open("events", read_only=True) as store:
        found = store.stream("trades").options
    assert (found.split, found.durability, found.retention, found.lateness) == ("1d", "batch", "30d", "1h")
    assert (found.too_late, found.leaf_rows, found.aggregates, found.grace) == ("aside", 1000, ("x", "y"), 300.0)
    assert [binding.name for binding in found.user_aggregates] == ["last(x)"]
    assert cli(*command).code == 0  # again
    run = cli("ingest", "a.csv", *NEW, "--option", "split=2d")
    assert (run.code, "has split=1d, not 2d" in run.err) == (1, True)
    for wrong, reason in (
        ("splitt=1d", "did you mean 'split'?"),
        ("split", "expected NAME=VALUE"),
        ("split=soon", "no duration"),
        ("leaf_rows=many", "expected a whole number"),
        ("durability=sometimes", "expected one of"),
    ):
        run = cli("ingest", "a.csv", *NEW, "--option", wrong)
        assert run.code == 2
        assert reason in " ".join(run.err.replace("│", " ").split())
