"""Output formats, read back by Python's csv and json, and tables by eye."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import os
import stat
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tidelog.cli.formats import Output
from tidelog.cli.telling.saying import printable
from tidelog.cli.telling.units import count, duration, size
from tidelog.cli.writing.formats import output_for, writer
from tidelog.cli.writing.table import Column, columns_of, fitted_widths, print_table
from tidelog.cli.writing.target import opened
from tidelog.cli.writing.texts import csv_lines, json_lines
from tidelog.model.errors import InputError

BATCH = pa.record_batch(
    {
        "t": pa.array([0, 1_500_000], pa.timestamp("us")),
        "z": pa.array([1000, None], pa.timestamp("ms", "Europe/Berlin")),
        "i": pa.array([-1, None], pa.int64()),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "f": pa.array([1.0, float("nan")]),
        "g": pa.array([0.1, None], pa.float32()),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "b": [True, None],
        "day": pa.array([date(2026, 1, 1), None]),
        "s": ['a "b",\n\\ é', ""],
        "x": pa.array([b"\xff\0", None], pa.binary()),
    }
)


def test_json_has_every_type() -> None:
    first, second = map(json.loads, json_lines(BATCH).splitlines())
    assert first == {
        "t": "1970-01-01T00:00:00.000000",
        "z": "1970-01-01T00:00:01.000Z",
        "i": -1,
        "u": 2**64 - 1,
        "f": 1.0,
        "g": 0.1,
        "d": 1.5,
        "b": True,
        "day": "2026-01-01",
        "s": 'a "b",\n\\ é',
        "x": base64.b64encode(b"\xff\0").decode(),
    }
    assert isinstance(first["f"], float)
    assert {name for name, value in second.items() if value is None} == {"z", "i", "f", "g", "d", "b", "day", "x"}


def test_csv_has_every_type() -> None:
    first, second = csv.reader(io.StringIO(csv_lines(BATCH).decode()))
    assert first == [
        "1970-01-01T00:00:00.000000",
        "1970-01-01T00:00:01.000Z",
        "-1",
        str(2**64 - 1),
        "1.0",
        "0.1",
        "1.50",
        "true",
        "2026-01-01",
        'a "b",\n\\ é',
        base64.b64encode(b"\xff\0").decode(),
    ]
    empty = {name for name, text in zip(BATCH.schema.names, second, strict=True) if text == ""}
    assert empty == {"z", "i", "g", "d", "b", "day", "s", "x"}
    assert csv_lines(BATCH).decode().endswith(',"",\n')  # a text that is empty, and nothing


MADE = {
    "[1, NULL]": ("[1, NULL]", [1, None]),
    "['a', 'b,c']": ("[a, 'b,c']", ["a", "b,c"]),
    "['NaN'::DOUBLE, 'inf'::DOUBLE, 1.5]": ("[nan, inf, 1.5]", [None, None, 1.5]),
    "['NaN']": ("[NaN]", ["NaN"]),
    "{'a': 1, 'b': DATE '2026-01-02'}": ("{'a': 1, 'b': 2026-01-02}", {"a": 1, "b": "2026-01-02"}),
    "MAP {'k': [1]}": ("{k=[1]}", {"k": [1]}),
    "[1, 2]::INTEGER[2]": ("[1, 2]", [1, 2]),
    "INTERVAL '1 month 2 days 3 seconds'": ("1 month 2 days 00:00:03", "1 month 2 days 00:00:03"),
    "12::BIGNUM": ("12", 12),
    "CASE WHEN false THEN [1] END": (None, None),
}
"""What queries make that no stream has: as text and in JSON."""


@pytest.mark.parametrize("expression", MADE)
def test_what_queries_make(expression: str) -> None:
    text, value = MADE[expression]
    (batch,) = tidelog.sql(f"SELECT {expression} AS v, 7 AS n").arrow().combine_chunks().to_batches()
    assert columns_of(batch)[0].texts == [text]
    assert list(csv.reader(io.StringIO(csv_lines(batch).decode()))) == [[text or "", "7"]]
    assert json.loads(json_lines(batch)) == {"v": value, "n": 7}


def test_what_parquet_does_not_have() -> None:
    schema = tidelog.sql("SELECT 1 AS n, INTERVAL 1 DAY AS gap").schema
    with pytest.raises(InputError, match=r"column 'gap': found month_day_nano_interval, .* epoch\(x\)"):
        writer(Output.PARQUET, io.BytesIO(), schema, is_stream=False)


TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=20)


@given(TEXTS, st.text(st.characters(codec="utf-8"), max_size=4))
def test_json_of_any_text(texts: list[str | None], name: str) -> None:
    lines = json_lines(pa.record_batch({name: pa.array(texts, pa.string())})).decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [{name: text} for text in texts]


@given(TEXTS)
def test_csv_of_any_text(texts: list[str | None]) -> None:
    batch = pa.record_batch({"n": pa.array(range(len(texts))), "s": pa.array(texts, pa.string())})
    text = csv_lines(batch).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [[str(number), each or ""] for number, each in enumerate(texts)]
    assert [f'{number},""' in text for number, each in enumerate(texts) if each == ""] == [True] * texts.count("")


@given(st.lists(st.floats(), min_size=1))
def test_json_of_any_float(values: list[float]) -> None:
    read = [json.loads(line)["f"] for line in json_lines(pa.record_batch({"f": pa.array(values)})).splitlines()]
    assert read == [value if math.isfinite(value) else None for value in values]


@pytest.mark.parametrize(
    ("name", "output"),
    [("a.csv", "csv"), ("a.JSONL", "json"), ("a.arrow", "arrow"), ("a.pq", "parquet"), ("a.txt", None), ("a", None)],
)
def test_names_ask_for_formats(name: str, output: str | None) -> None:
    assert output_for(Path(name)) == output


def test_parquet_has_groups_of_rows_and_arrow_has_two_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.cli.writing.formats._ParquetWriter.ROW_GROUP_ROWS", 3)
    written: dict[str, io.BytesIO] = {}
    for name, output, is_stream in (
        ("parquet", Output.PARQUET, True),
        ("stream", Output.ARROW, True),
        ("file", Output.ARROW, False),
    ):
        written[name] = io.BytesIO()
        with writer(output, written[name], BATCH.schema, is_stream=is_stream) as sink:
            for _ in range(5):
                sink.write(BATCH)
        written[name].seek(0)
    expected = pa.Table.from_batches([BATCH] * 5).drop_columns(["f"])  # NaN equals nothing
    parquet = pyarrow.parquet.ParquetFile(written["parquet"])
    assert [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)] == [4, 4, 2]
    assert parquet.read().drop_columns(["f"]).equals(expected)
    assert pa.ipc.open_stream(written["stream"]).read_all().drop_columns(["f"]).equals(expected)
    assert pa.ipc.open_file(written["file"]).read_all().drop_columns(["f"]).equals(expected)


@pytest.mark.parametrize("output", [Output.PARQUET, Output.ARROW, Output.CSV, Output.JSON])
def test_no_rows_at_all(output: Output) -> None:
    file = io.BytesIO()
    with writer(output, file, BATCH.schema, is_stream=False):
        pass
    text = {Output.CSV: ",".join(BATCH.schema.names).encode() + b"\n", Output.JSON: b""}
    assert text.get(output, file.getvalue()) == file.getvalue()


@pytest.mark.parametrize("limit", [1, 10, 100, 1000])
def test_text_in_parts_is_the_same_text(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.cli.writing.formats.TEXT_BYTES", limit)
    batch = pa.record_batch({"s": [f"text {i}" for i in range(57)]})
    file = io.BytesIO()
    with writer(Output.JSON, file, batch.schema, is_stream=True) as sink:
        sink.write(batch)
        sink.write(batch.slice(0, 0))
    assert [json.loads(line) for line in file.getvalue().splitlines()] == batch.to_pylist()


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)

    def fail() -> None:
        with opened(path) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["out"])
    with opened(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_a_link_and_devices_are_written_directly(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with opened(link) as file:
        file.write(b"x")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "x"
    with opened(Path("/dev/null")) as file:
        file.write(b"x")
    with pytest.raises(FileNotFoundError, match="No such directory"), opened(tmp_path / "no" / "where"):
        pass


def table_lines(columns: list[Column], capsys: pytest.CaptureFixture[str], width: int | None) -> list[str]:
    print_table(columns, width=width)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    return [*lines[:1], *lines[2:]]


COLUMNS = [
    Column("number", ["1", "1234567890123", None], is_number=True),
    Column("text", ["short", "a very long text that goes on and on and on", "[red]x"]),
    Column("last", ["9", "10", "11"], is_number=True),
]


def test_a_table_with_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert table_lines(COLUMNS, capsys, None) == [
        "       number  text                                         last",
        "            1  short                                           9",
        "1234567890123  a very long text that goes on and on and on    10",
        "         null  [red]x                                         11",
    ]


def test_a_narrow_table_cuts_texts_and_never_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert table_lines(COLUMNS, capsys, 40) == [
        "       number  text                 last",
        "            1  short                   9",
        "1234567890123  a very long text t…    10",
        "         null  [red]x                 11",
    ]


def test_a_very_narrow_table_leaves_columns_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert table_lines(COLUMNS, capsys, 26) == [
        "       number  text      …",
        "            1  short     …",
        "1234567890123  a very …  …",
        "         null  [red]x    …",
    ]
    assert table_lines(COLUMNS, capsys, 3)[2].startswith("1234567890123")


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.text("ab", max_size=90), min_size=3, max_size=3)), min_size=1),
    st.integers(1, 200),
)
def test_widths_fit_the_terminal(parts: list[tuple[bool, list[str]]], width: int) -> None:
    columns = [Column("c", texts, is_number) for is_number, texts in parts]
    widths = fitted_widths(columns, width)
    assert 1 <= len(widths) <= len(columns)
    for column, room in zip(columns, widths, strict=False):
        assert room == column.width() if column.is_number else room <= column.width()
    marker = 3 if len(widths) < len(columns) else 0
    assert len(widths) == 1 or sum(widths) + 2 * (len(widths) - 1) + marker <= width


def test_wide_characters_keep_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    lines = table_lines([Column("c", ["日本語", "ab"]), Column("n", ["1", "2"], True)], capsys, None)
    assert lines[1:] == ["日本語  1", "ab      2"]


def test_texts_give_no_orders_to_the_terminal() -> None:
    assert printable("a\x1b[31m\n\tb\u202e\x9b") == r"a\x1b[31m\n\tb\u202e\x9b"


def test_times_have_no_digits_that_are_zero_everywhere() -> None:
    def texts(ticks: list[int | None]) -> Any:
        return columns_of(pa.record_batch({"t": pa.array(ticks, pa.timestamp("ns", "UTC"))}))[0].texts

    assert texts([0, 10**9]) == ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"]
    assert texts([None, 5 * 10**6]) == [None, "1970-01-01T00:00:00.005Z"]
    assert texts([1]) == ["1970-01-01T00:00:00.000000001Z"]
    assert datetime.fromisoformat("1970-01-01T00:00:01Z") == datetime.fromtimestamp(1, UTC)


def test_numbers_for_people() -> None:
    assert [size(each) for each in (0, 999, 1000, 999_949, 999_950, 12_345_678, 2e18)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
        "12.3 MB",
        "2000.0 PB",
    ]
    assert (count(1234567.8), duration(1.234), duration(1234.5)) == ("1,234,568", "1.23 s", "1,234 s")
