"""Input formats: what is read, what is inferred, and where a bad row is, with Python's csv and json as oracles."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tempfile
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.cli.formats import Format
from tidelog.cli.reading import delimited, json_lines
from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.open import open_source
from tidelog.cli.reading.source import BadRowError
from tidelog.model import Schema
from tidelog.model.errors import InputError, SchemaError, StorageError

SCHEMA = Schema(
    pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("n", pa.int32()), ("b", pa.bool_())]), "t"
)
Row = dict[str, Any]


def read(path: Path | str, schema: Schema, **options: Any) -> tuple[list[Row], InputError | None]:
    """The rows before the first error, and the error."""
    rows: list[Row] = []
    with Input(str(path)) as content:
        try:
            for batch in open_source(content, **options).batches(schema):
                assert batch.schema.equals(schema.arrow)
                rows.extend(batch.to_pylist())
        except InputError as error:
            return rows, error
    return rows, None


def inferred(path: Path, time: str = "t", **types: pa.DataType) -> Schema:
    with Input(str(path)) as content:
        return open_source(content).infer(time, types)


def as_csv(rows: list[Row], names: tuple[str, ...] = SCHEMA.names) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(names)
    for row in rows:
        # The csv module writes None and "" alike; quotes tell them apart.
        text.write(",".join(_csv_value(row[name]) for name in names) + "\n")
    return text.getvalue().encode()


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)


def as_json(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


WRITERS: dict[str, Callable[[list[Row]], bytes]] = {"csv": as_csv, "jsonl": as_json}

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "s": st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12),
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "b": st.none() | st.booleans(),
        }
    ),
    max_size=40,
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of a few kilobytes are made of several blocks."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 512)
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 512)


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=scaled(60))
@given(rows=ROWS)
def test_what_was_written_is_read(kind: str, rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"rows.{kind}")
        path.write_bytes(WRITERS[kind](rows))
        assert read(path, SCHEMA) == (rows, None)


BAD = {"t": [None, "soon", 1.5, 2**63], "x": ["much"], "n": [2**31, "1,5"], "b": ["maybe"]}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(("column", "value"), [(column, value) for column in BAD for value in BAD[column]])
def test_a_bad_row_is_told_and_all_before_it_are_kept(kind: str, column: str, value: Any, tmp_path: Path) -> None:
    rows = [{"t": i, "x": i / 8, "s": f"text, {i}\n", "n": i, "b": i % 2 == 0} for i in range(100)]
    path = tmp_path / f"rows.{kind}"
    for bad in (0, 1, 50, 99):
        broken = [*rows]
        for later in range(bad, 100, 20):  # only the first one counts
            broken[later] = rows[later] | {column: value}
        path.write_bytes(WRITERS[kind](broken))
        found, error = read(path, SCHEMA)
        assert found == rows[:bad]
        assert isinstance(error, BadRowError)
        assert (error.row, error.column) == (bad, column)
        assert str(error).startswith(f"{path}, row {bad + 1}, column '{column}': ")


@pytest.mark.usefixtures("small_blocks")
def test_the_uppermost_of_several_faults_counts(tmp_path: Path) -> None:
    rows = [{"t": i, "x": 0.5, "s": "", "n": i, "b": True} for i in range(30)]
    rows[20] |= {"t": "late"}
    rows[19] |= {"b": "wrong"}
    rows[21] |= {"x": "?"}
    path = tmp_path / "rows.csv"
    path.write_bytes(as_csv(rows))
    found, error = read(path, SCHEMA)
    assert (len(found), error and error.column) == (19, "b")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("row", [0, 1, 37, 99])
@pytest.mark.parametrize("text", ["1,2", "1,2,3,4,5,6"])
def test_rows_of_the_wrong_length(row: int, text: str, tmp_path: Path) -> None:
    lines = as_csv([{"t": i, "x": None, "s": "a\n\nb", "n": i, "b": None} for i in range(100)]).decode()
    records = lines.split("\n\n")  # a blank line inside of a value, so that lines are not rows
    assert len(records) == 101
    header, *parts = lines.replace('"a\n\nb"', '"@"').splitlines()
    parts[row:] = [text, *parts[row:]]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *parts]).replace('"@"', '"a\n\nb"'))
    found, error = read(path, SCHEMA)
    assert [each["t"] for each in found] == list(range(row))
    assert isinstance(error, BadRowError)
    assert error.row == row
    assert f"found {text.count(',') + 1} values, expected 5: {text!r}" in str(error)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"t": 1', "Expecting"),
        ("[1]", "expected an object"),
        ('{"t": 1, "y": 2}', "unknown column 'y'"),
        ('{"x": 1}', "not nullable"),
        (b'{"t": 1, "s": "\xff"}', "utf-8"),
    ],
)
def test_lines_that_are_no_event(line: str | bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"t": 1}\n\n{"t": 2}\n' + (line if isinstance(line, bytes) else line.encode()) + b'\n{"t": 4}\n')
    found, error = read(path, SCHEMA)
    assert [each["t"] for each in found] == [1, 2]
    assert isinstance(error, BadRowError)
    assert error.row == 2
    assert reason in str(error)


def test_bytes_that_are_no_text_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"t,s\n1,a\n2,\xff\n")
    found, error = read(path, SCHEMA)
    assert [each["t"] for each in found] == [1]
    assert isinstance(error, BadRowError)
    assert "row 2, column 's'" in str(error)
    assert "UTF-8" in str(error)


def test_json_takes_what_lists_of_dicts_take(tmp_path: Path) -> None:
    """Values that Arrow's parser refuses but tidelog does not: whole floats, times as integers and in several forms."""
    schema = Schema(pa.schema([("t", pa.timestamp("ms")), ("n", pa.int64())]), "t")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"t": 1500, "n": 2.0}\n{"t": "1970-01-01T00:00:02Z", "n": 3}\n{"t": "1970-01-01T00:00:03"}\n')
    found, error = read(path, schema)
    assert error is None
    epoch = datetime(1970, 1, 1)
    assert [row["t"] - epoch for row in found] == [timedelta(milliseconds=each) for each in (1500, 2000, 3000)]
    assert [row["n"] for row in found] == [2, 3, None]


@pytest.mark.usefixtures("small_blocks")
def test_integer_times_are_parsed_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(pa.schema([("t", pa.timestamp("us"))]), "t")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"t": {i}}}\n' for i in range(1000)))
    slow: list[int] = []
    original = json_lines.JsonLinesSource._line_by_line

    def counted(self: Any, block: bytes, schema: Schema, first_row: int) -> Any:
        slow.append(first_row)
        return original(self, block, schema, first_row)

    monkeypatch.setattr(json_lines.JsonLinesSource, "_line_by_line", counted)
    found, error = read(path, schema)
    assert (len(found), error, slow) == (1000, None, [])


def test_nulls_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('t,s,n\n1,,NA\n2,"",7\n3,NA,"8"\n')
    assert str(read(path, SCHEMA)[1]).endswith("say so with --null")
    found, error = read(path, SCHEMA, nulls=["NA"])
    assert error is None
    assert [(row["s"], row["n"]) for row in found] == [(None, None), ("", 7), (None, 8)]


def test_separators(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("t\ts\n1\ta,b\n")
    assert read(path, SCHEMA)[0][0]["s"] == "a,b"
    path.write_text("t;s\n1;a\tb\n")
    assert read(path, SCHEMA, delimiter=";")[0][0]["s"] == "a\tb"


def test_columns_in_any_order_and_with_a_mark_at_the_front(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xef\xbb\xbfs,t\nx,1\n")
    assert read(path, SCHEMA)[0] == [{"t": 1, "x": None, "s": "x", "n": None, "b": None}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [("t,y\n1,2\n", "unknown column 'y'"), ("s\nx\n", "no column 't'"), ("t,t\n1,2\n", "two columns called 't'")],
)
def test_columns_that_do_not_fit(content: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=reason):
        raise read_error(path)


def read_error(path: Path) -> InputError:
    try:
        error = read(path, SCHEMA)[1]
    except InputError as raised:
        return raised
    assert error is not None
    return error


def test_inference_from_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,day,zip,price,note,n\n2026-01-01,2026-01-02,01234,3,x,7\n2026-01-02,2026-01-02,5,3.5,,8\n")
    assert inferred(path, n=pa.int8()) == Schema(
        pa.schema(
            [
                ("t", pa.timestamp("us")),
                ("day", pa.date32()),
                ("zip", pa.string()),
                ("price", pa.float64()),
                ("note", pa.string()),
                ("n", pa.int8()),
            ]
        ),
        "t",
    )


def test_inference_from_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"t": "2026-01-01T00:00:00.5Z", "x": 1, "s": "12"}\n{"x": 2.5, "b": true, "t": "2026-01-01T00:00:00Z"}'
    )
    assert inferred(path, n=pa.int8()) == Schema(
        pa.schema(
            [
                ("t", pa.timestamp("us", "UTC")),
                ("x", pa.float64()),
                ("s", pa.string()),
                ("b", pa.bool_()),
                ("n", pa.int8()),
            ]
        ),
        "t",
    )


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.arrow"])
def test_the_rows_that_types_were_told_from_are_read_too(name: str, tmp_path: Path) -> None:
    rows = [{"t": i, "x": i / 2} for i in range(3)]
    path = tmp_path / name
    table = pa.Table.from_pylist(rows)
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(table, path)
    elif name.endswith("arrow"):
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_bytes(as_csv(rows, ("t", "x")) if name.endswith("csv") else as_json(rows))
    with Input(str(path)) as content:
        source = open_source(content)
        schema = source.infer("t", {})
        assert [row for batch in source.batches(schema) for row in batch.to_pylist()] == rows


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_empty_inputs(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    assert read(path, SCHEMA) == ([], None)
    with pytest.raises(InputError, match="found nothing"):
        inferred(path)


def test_a_column_without_values_has_no_type(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n1,\n")
    with pytest.raises(SchemaError, match="'x': type null"):
        inferred(path)


TABLE = pa.table({"t": pa.array([1, 2, 3], pa.int64()), "s": ["a", None, "c"]})


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(TABLE, sink)
    return sink.getvalue()


def arrow_bytes(make: Any) -> bytes:
    sink = io.BytesIO()
    with make(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    return sink.getvalue()


CONTENTS: dict[str, Callable[[], bytes]] = {
    "csv": lambda: b't,s\n1,a\n2,\n3,"c"\n',
    "jsonl": lambda: b'{"t": 1, "s": "a"}\n{"t": 2}\n{"t": 3, "s": "c"}\n',
    "parquet": parquet_bytes,
    "arrow file": lambda: arrow_bytes(pa.ipc.new_file),
    "arrow stream": lambda: arrow_bytes(pa.ipc.new_stream),
}


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", CONTENTS)
def test_formats_are_recognised_by_their_content(kind: str, is_packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    data = CONTENTS[kind]()
    # Two members, as made by appending to a compressed file.
    path.write_bytes(gzip.compress(data[:7]) + gzip.compress(data[7:]) if is_packed else data)
    with Input(str(path)) as content:
        assert content.format == kind.split()[0]
    schema = Schema(TABLE.schema, "t")
    assert read(path, schema) == (TABLE.to_pylist(), None)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.CSV", "rows.tsv"])
def test_names_tell_formats(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"{" if not name.endswith("gz") else gzip.compress(b"{"))
    with Input(str(path)) as content:
        assert content.format is Format.CSV
    with Input(str(path), Format.JSONL) as content:
        assert content.format is Format.JSONL


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_a_bad_row_of_a_typed_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(CONTENTS[kind]())
    found, error = read(path, Schema(pa.schema([("t", pa.int64()), pa.field("s", pa.string(), nullable=False)]), "t"))
    assert found == [{"t": 1, "s": "a"}]
    assert isinstance(error, BadRowError)
    assert str(error) == f"{path}, row 2, column 's': found a null, but the column is not nullable"


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream", "gzip"])
def test_files_that_are_cut_off(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    data = gzip.compress(CONTENTS["csv"]()) if kind == "gzip" else CONTENTS[kind]()
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(InputError, match="cannot be read"):
        raise read_error(path)


def test_content_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"\0\1\2")
    with pytest.raises(InputError, match="no known format"):
        Input(str(path))
    with pytest.raises(StorageError, match="found a directory"):
        Input(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        Input(str(tmp_path / "missing"))


def test_zoned_times_of_text(tmp_path: Path) -> None:
    schema = Schema(pa.schema([("t", pa.timestamp("us", "Europe/Berlin"))]), "t")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for name, text in (("a.csv", "t\n2026-01-01T13:00:00+01:00\n"), ("a.jsonl", '{"t": "2026-01-01T12:00:00Z"}\n')):
        path = tmp_path / name
        path.write_text(text)
        found, error = read(path, schema)
        assert error is None
        assert [row["t"] for row in found] == [noon]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"t,x\n1,2,3\n", "row 1: found 3 values, expected 2: '1,2,3'"),
        (b"t,x\n1\n", "row 1: found 1 values, expected 2: '1'"),
        (b't,x\n1,"open\n', "row 1: found a quote in line 2 that is not closed"),
        (b"t;x\n1;2\n", "found one column, 't;x'; if another sign than ',' separates its names"),
        (b"t\tx,y\n", "there is no column 't'"),
        ("t,x\n1,2\n".encode("utf-16"), "cannot be read: its line of column names is no text in UTF-8"),
        ("t,caf\u00e9\n1,2\n".encode("latin-1"), "cannot be read: its line of column names is no text in UTF-8"),
    ],
)
def test_what_is_wrong_before_there_is_a_type(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises((InputError, SchemaError), match=re.escape(reason)):
        inferred(path)


def test_a_stream_that_is_there_has_other_columns_than_a_file_with_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"t;x\n1;2\n")
    rows, error = read(path, SCHEMA)
    assert not rows
    assert "say so with --delimiter" in str(error)
    assert read(path, SCHEMA, delimiter=";")[0][0]["x"] == 2


def test_the_parser_has_let_go_of_an_input_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would abort the process if it did so while Python ends."""
    read_by_parser: list[weakref.ref[object]] = []

    class Content(delimited._WatchedContent):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            read_by_parser.append(weakref.ref(self))

    monkeypatch.setattr(delimited, "_WatchedContent", Content)
    path = tmp_path / "rows.csv"
    path.write_bytes(b"t,x\n1,2\n")
    for _ in range(20):
        inferred(path)
        assert read_by_parser.pop()() is None
