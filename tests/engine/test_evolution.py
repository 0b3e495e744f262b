"""Changes of a stream's schema: what was written before is read through the new one, by everybody, and nothing is lost.

The oracle is a list of dicts that is changed as the schema is.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidelog
from support.media.crash import RecordingMedium, kills, power_losses, random_power_losses
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import LockedError, NotFoundError, ReadOnlyError, SchemaError
from tidelog.model.times.intervals import ALWAYS
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.pieces import plan, scan_piece
from tidelog.store.split.context import StreamContext

NAME = "s"
SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("a", pa.int32()), ("b", pa.string())])
SMALL: dict[str, Any] = {"leaf_rows": 8, "fanout": 3, "split": 100, "late_rows": 20, "journal_bytes": 4000}


def rows_of(stream: Stream, **options: Any) -> list[dict[str, Any]]:
    return stream.scan(**options).read_all().to_pylist()


@pytest.fixture
def stream() -> Iterator[Stream]:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream(NAME, SCHEMA, "ts", **SMALL)
        stream.append([{"ts": i, "a": i, "b": f"{i}"} for i in range(250)])
        yield stream


def test_added_columns_are_null_before(stream: Stream) -> None:
    before = stream.snapshot()
    schema = stream.evolve(add=[("x", pa.float64()), ("y", pa.string())])
    assert (schema, stream.schema) == (stream.schema, schema)
    assert schema.names == ("ts", "a", "b", "x", "y")
    stream.append({"ts": 250, "a": 1, "b": "new", "x": 0.5, "y": "z"})
    stream.append([{"ts": 251, "a": 1, "b": "new"}, {"ts": 3, "x": 7.0}])
    found = rows_of(stream)
    assert len(found) == 253
    assert found[10] == {"ts": 9, "a": 9, "b": "9", "x": None, "y": None}
    assert found[4] == {"ts": 3, "a": None, "b": None, "x": 7.0, "y": None}
    assert found[-2] == {"ts": 250, "a": 1, "b": "new", "x": 0.5, "y": "z"}
    assert stream.aggregate(None, None, ["count(*)", "count(x)", "sum(x)", "max(y)", "max(a)"]) == {
        "count(*)": 253,
        "count(x)": 2,
        "sum(x)": 7.5,
        "max(y)": "z",
        "max(a)": 249,
    }
    assert "events" not in stream.explain(None, None, ["count(*)", "count(x)", "sum(x)", "max(y)", "max(a)"])
    assert [row["ts"] for row in rows_of(stream, where="x > 0")] == [3, 250]
    assert len(rows_of(stream, where="x IS NULL")) == 251
    assert stream.aggregate(None, None, ["count(*)"], where="a > 100 AND a < 200")["count(*)"] == 99
    # What was taken before is as it was.
    assert before.layout.schema.names == ("ts", "a", "b")
    assert rows_of(stream, as_of=before) == [{"ts": i, "a": i, "b": f"{i}"} for i in range(250)]
    with pytest.raises(NotFoundError, match="'x'"):
        stream.scan(columns=["x"], as_of=before)


def test_renamed_columns_keep_their_values_and_swaps_work(stream: Stream) -> None:
    stream.evolve(rename={"a": "value", "b": "a"})
    stream.append({"ts": 300, "value": 1, "a": "text"})
    stream.evolve(add={"b": pa.int8()})  # a name that a column had before
    stream.append({"ts": 301, "value": 2, "a": "more", "b": 3})
    stream.evolve(rename={"value": "b", "b": "value"})
    stream.append({"ts": 302, "b": 9, "a": "last", "value": 4})
    found = rows_of(stream)
    assert found[7] == {"ts": 7, "b": 7, "a": "7", "value": None}
    assert found[-3:] == [
        {"ts": 300, "b": 1, "a": "text", "value": None},
        {"ts": 301, "b": 2, "a": "more", "value": 3},
        {"ts": 302, "b": 9, "a": "last", "value": 4},
    ]
    assert stream.aggregate(None, None, ["sum(b)", "sum(value)", "min(a)"]) == {
        "sum(b)": sum(range(250)) + 12,
        "sum(value)": 7,
        "min(a)": "0",
    }
    assert [row["ts"] for row in rows_of(stream, where="b = 42 OR value = 3")] == [42, 301]


def test_the_time_column_can_be_renamed(stream: Stream) -> None:
    assert stream.evolve(rename={"ts": "at"}).time == "at"
    stream.append({"at": 100, "a": 1})
    assert len(rows_of(stream, start=90, end=110)) == 21
    assert stream.aggregate(90, 110, ["count(*)", "max(at)"]) == {"count(*)": 21, "max(at)": 109}
    assert stream.rank(100) == 100


WIDENINGS = [
    (pa.int8(), pa.int16(), -5),
    (pa.int32(), pa.int64(), -(2**31)),
    (pa.uint8(), pa.uint64(), 200),
    (pa.uint32(), pa.int64(), 2**32 - 1),
    (pa.int32(), pa.float64(), -7),
    (pa.uint16(), pa.float32(), 65535),
    (pa.float32(), pa.float64(), 0.1),
    (pa.string(), pa.large_string(), "text"),
    (pa.binary(), pa.large_binary(), b"\xff"),
    (pa.decimal128(5, 2), pa.decimal128(12, 4), Decimal("1.25")),
]


@pytest.mark.parametrize(("narrow", "wide", "value"), WIDENINGS, ids=[f"{a}-{b}" for a, b, _ in WIDENINGS])
def test_widened_columns(narrow: pa.DataType, wide: pa.DataType, value: Any) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream(NAME, pa.schema([("ts", pa.int64()), ("x", narrow)]), "ts", **SMALL)
        values = [None, value] * 60
        stream.append({"ts": list(range(120)), "x": pa.array(values, narrow)})
        stream.evolve(widen={"x": wide})
        stream.append({"ts": [120], "x": pa.array([value], narrow).cast(wide)})
        expected = pa.array([*values, value], narrow).cast(wide).to_pylist()
        assert [row["x"] for row in rows_of(stream)] == expected
        assert stream.schema.field("x").type == wide
        known = [each for each in expected if each is not None]
        answer = stream.aggregate(None, None, ["count(x)", "min(x)", "max(x)"])
        assert answer == {"count(x)": len(known), "min(x)": min(known), "max(x)": max(known)}
        ranges = [(0, 10), (5, 121), (30, 31)]
        for (start, end), each in zip(ranges, stream.aggregate_all(ranges, ["count(x)", "max(x)"]), strict=True):
            part = [row for row in expected[start:end] if row is not None]
            assert each == {"count(x)": len(part), "max(x)": max(part, default=None)}
        if not isinstance(value, str | bytes):
            total = stream.aggregate(None, None, ["sum(x)"])["sum(x)"]
            assert math.isclose(float(total), float(sum(known)), rel_tol=1e-6)
            assert len(rows_of(stream, where=f"x <= {expected[1]}")) == 61
            assert rows_of(stream, where=f"x > {expected[1]}") == []


def test_only_splits_whose_entries_do_not_compare_are_read(stream: Stream) -> None:
    stream.evolve(widen={"a": pa.float64()})
    stream.append([{"ts": i, "a": i + 0.5} for i in range(300, 700)])
    stream.flush()
    asked = ["max(a)", "count(*)"]
    old = stream.explain(0, 300, asked)
    new = stream.explain(300, None, asked)
    assert "events" not in old + new
    assert int(new.split()[-2]) < int(old.split()[-2]), "leaves of the new ones were not read"
    assert stream.aggregate(None, None, asked) == {"max(a)": 699.5, "count(*)": 650}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"add": [pa.field("x", pa.int8(), nullable=False)]}, "not nullable"),
        ({"add": [("a", pa.int8())]}, "both called 'a'"),
        ({"add": [("_seq", pa.int8())]}, "reserved"),
        ({"add": 5}, "expected columns"),
        ({"widen": {"a": pa.int8()}}, "no widening"),
        ({"widen": {"a": pa.string()}}, "no widening"),
        ({"widen": {"ts": pa.float64()}}, "time column"),
        ({"widen": {"zz": pa.int64()}}, "widen: there is no column 'zz'"),
        ({"widen": {"a": int}}, "widen: found <class 'int'> as the type of column 'a'"),
        ({"widen": {"a": "int63"}}, "widen: found 'int63' as the type of column 'a'"),
        ({"widen": ["a"]}, "widen is .* expected columns and types"),
        ({"widen": 5}, "widen is 5"),
        ({"rename": {"a": 5}}, "rename: found 5 as the name of column 'a'"),
        ({"rename": {"a": None}}, "rename: found None"),
        ({"rename": ["a"]}, "rename is .* expected old and new names"),
        ({"rename": {"a": "b"}}, "both called 'b'"),
        ({"rename": {"zz": "b"}}, "rename: there is no column 'zz'"),
        ({"loosen": ["ts"]}, "every event has a time"),
        ({"loosen": "ts"}, "list of names"),
        ({"loosen": 5}, "list of names"),
        ({"schema": pa.schema([("ts", pa.int64())])}, "'a' is missing"),
        ({"schema": SCHEMA, "rename": {"a": "c"}}, "give one of them"),
    ],
)
def test_what_cannot_work_fails_at_the_call_and_changes_nothing(
    stream: Stream, changes: dict[str, Any], message: str
) -> None:
    number = stream.snapshot().manifest.number
    with pytest.raises(SchemaError, match=message):
        stream.evolve(**changes)
    assert stream.snapshot().manifest.number == number
    stream.append({"ts": 1000, "a": 1, "b": "still"})
    assert len(stream) == 251


def test_a_whole_schema_and_one_that_is_the_same(stream: Stream) -> None:
    number = stream.snapshot().manifest.number
    stream.evolve(SCHEMA)
    stream.evolve()
    assert stream.snapshot().manifest.number == number
    wide = pa.schema([("n", pa.int8()), ("b", pa.large_string()), ("ts", pa.int64()), ("a", pa.int64())])
    stream.evolve(wide)
    stream.append({"ts": 400, "n": 1, "a": 2**40, "b": "x"})
    assert rows_of(stream)[-1] == {"n": 1, "b": "x", "ts": 400, "a": 2**40}
    assert rows_of(stream)[3] == {"n": None, "b": "3", "ts": 3, "a": 3}
    assert stream.aggregate(None, None, ["max(a)", "max(b)"]) == {"max(a)": 2**40, "max(b)": "x"}


def test_types_may_be_given_by_name(stream: Stream) -> None:
    stream.evolve(add={"c": "float32"}, widen={"a": "int64"})
    assert (stream.schema.field("a").type, stream.schema.field("c").type) == (pa.int64(), pa.float32())


def test_loosened_columns_take_nulls() -> None:
    with Store(MemoryMedium()) as store:
        schema = pa.schema([("ts", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
        stream = store.create_stream(NAME, schema, "ts")
        stream.append({"ts": 1, "x": 5})
        with pytest.raises(tidelog.InputError):
            stream.append({"ts": 2, "x": None})
        stream.evolve(loosen=["x"])
        stream.append({"ts": 2, "x": None})
        assert stream.aggregate(None, None, ["count(*)", "sum(x)"]) == {"count(*)": 2, "sum(x)": 5}


def test_the_option_aggregates_follows_names() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream(NAME, SCHEMA, "ts", **SMALL, aggregates=["a"])
        stream.append([{"ts": i, "a": i, "b": "x"} for i in range(120)])
        stream.evolve(rename={"a": "b", "b": "a"}, add=[("c", pa.int8())])
        stream.append([{"ts": i, "b": i, "a": "y"} for i in range(200, 320)])
        assert stream.options.aggregates == ("b",)
        assert stream.aggregate(None, None, ["max(b)", "max(a)", "count(c)"]) == {
            "max(b)": 319,
            "max(a)": "y",
            "count(c)": 0,
        }
        told = stream.explain(None, None, ["max(b)", "max(a)"]).splitlines()
        assert [line.split()[-1] for line in told[:2]] == ["index", "events"]


def test_states_of_user_defined_aggregates(stream: Stream) -> None:
    stream.attach("second_largest(a)", mode="rebuild")
    assert stream.aggregate(None, None, ["second_largest(a)"]) == {"second_largest(a)": 248}
    stream.evolve(rename={"a": "n"})
    stream.append([{"ts": i, "n": 1000 + i} for i in range(300, 420)])
    stream.flush()
    assert stream.aggregate(None, None, ["second_largest(n)"]) == {"second_largest(n)": 1418}
    assert stream.explain(None, None, ["second_largest(n)"]).splitlines()[0].endswith("from the index")
    assert stream.aggregate(None, 250, ["second_largest(n)"]) == {"second_largest(n)": 248}
    stream.evolve(widen={"n": pa.float64()}, add=[("x", pa.int8())])
    stream.append([{"ts": i, "n": 0.5} for i in range(500, 620)])
    assert stream.aggregate(None, 250, ["second_largest(n)"]) == {"second_largest(n)": 248.0}
    assert stream.aggregate(450, None, ["second_largest(n)", "count(x)"]) == {"second_largest(n)": 0.5, "count(x)": 0}
    stream.compact()
    assert stream.aggregate(None, None, ["second_largest(n)", "min(n)"]) == {"second_largest(n)": 1418.0, "min(n)": 0.0}
    assert stream.options.user_aggregates[0].columns == ("n",)


def test_gathered_and_late_rows_and_producers_survive_a_change(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        stream = store.create_stream(NAME, SCHEMA, "ts", **SMALL)
        stream.append([{"ts": i, "a": i} for i in range(50)], producer="p", number=3)
        stream.append({"ts": 60, "a": 60})
        stream.append([{"ts": 5, "a": 55}])
        stream.evolve(rename={"a": "n"})
        assert stream.last_number("p") == 3
        stream.append([{"ts": 61, "n": 1}], producer="p", number=3)
        stream.append({"ts": 62, "n": 62})
        assert [row["n"] for row in rows_of(stream)] == [*range(6), 55, *range(6, 50), 60, 62]
        with Store.open(tmp_path, read_only=True) as other:
            assert len(other.stream(NAME)) == 52, "all that came before the change is durable"
    with Store.open(tmp_path) as store:
        assert store.stream(NAME).last_number("p") == 3
        assert len(store.stream(NAME)) == 53
        assert store.check() == []


def test_other_streams_of_the_process_and_readers_notice(tmp_path: Path) -> None:
    with Store.open(tmp_path) as writer, Store.open(tmp_path) as other, Store.open(tmp_path, read_only=True) as reader:
        stream = writer.create_stream(NAME, SCHEMA, "ts", **SMALL)
        stream.append({"ts": 1, "a": 1, "b": "x"})
        stream.flush()
        seen = reader.stream(NAME)
        held = seen.snapshot()
        stale = other.stream(NAME)
        with pytest.raises(LockedError, match="while another process writes"):
            stale.evolve(rename={"a": "c"})
        with pytest.raises(ReadOnlyError):
            seen.evolve(rename={"a": "c"})
        stream.evolve(rename={"a": "n"}, add=[("x", pa.int8())])
        stream.append({"ts": 2, "n": 2, "x": 7})
        stream.flush()
        assert rows_of(seen) == [{"ts": 1, "n": 1, "b": "x", "x": None}, {"ts": 2, "n": 2, "b": None, "x": 7}]
        assert seen.schema == stream.schema
        assert rows_of(seen, as_of=held) == [{"ts": 1, "a": 1, "b": "x"}]
        writer.close()
        stale.append({"ts": 3, "n": 3, "x": 1})  # its first look since the change
        assert [row["n"] for row in rows_of(stale)] == [1, 2, 3]
        stale.close()
        assert [row["n"] for row in rows_of(seen)] == [1, 2, 3]


def test_who_does_not_write_leaves_the_lock(tmp_path: Path) -> None:
    with Store.open(tmp_path) as one, Store.open(tmp_path) as two:
        one.create_stream(NAME, SCHEMA, "ts").evolve(add=[("x", pa.int8())])
        with pytest.raises(SchemaError):
            one.stream(NAME).evolve(rename={"y": "z"})
        two.stream(NAME).append({"ts": 1, "x": 1})
        assert len(two.stream(NAME)) == 1


def test_files_written_beside_the_tail_under_the_schema_before(stream: Stream) -> None:
    before = writer_of(stream).context
    writer = BulkWriter(before)
    writer.append(pa.RecordBatch.from_pylist([{"ts": 1000, "a": -1, "b": "loaded"}], schema=stream.schema.arrow))
    infos = writer.finish()
    stream.evolve(rename={"a": "n"}, widen={"a": pa.int64()})
    assert commit_bulk(writer_of(stream).manifests, infos)
    late = BulkWriter(StreamContext.of(writer_of(stream).manifests, 0))  # a job that was planned before
    late.append(pa.RecordBatch.from_pylist([{"ts": 1001, "a": -2, "b": "too"}], schema=before.layout.schema.arrow))
    assert commit_bulk(writer_of(stream).manifests, late.finish())
    assert [row["n"] for row in rows_of(stream)][-2:] == [-1, -2]
    assert stream.aggregate(None, None, ["min(n)"]) == {"min(n)": -2}


def test_an_older_version_can_be_read_under(stream: Stream) -> None:
    medium, directory = writer_of(stream).manifests.medium, writer_of(stream).context.directory
    stream.evolve(rename={"a": "n", "b": "a"}, widen={"a": pa.int64()})
    stream.evolve(add=[("b", pa.int8())])
    stream.append([{"ts": i, "n": i, "a": "new", "b": 1} for i in range(300, 420)])
    stream.flush()
    expected = [{"ts": i, "a": i, "b": f"{i}"} for i in range(250)]
    expected += [{"ts": i, "a": i, "b": "new"} for i in range(300, 420)]
    snapshot = writer_of(stream).published(0)
    assert snapshot.layout.schema.arrow.types == [pa.int64(), pa.int32(), pa.string()]
    assert rows_of(stream, as_of=snapshot) == expected
    found = []
    for piece in plan(snapshot, ALWAYS, rows_per_piece=40):
        for batch in scan_piece(medium, directory, piece, ["ts", "a", "b"]):
            found += batch.to_pylist()
    assert found == expected
    assert stream.aggregate(None, None, ["max(a)", "min(b)"], as_of=snapshot) == {"max(a)": 419, "min(b)": "0"}
    stream.append({"ts": 500, "n": 2**40})
    stream.flush()
    with pytest.raises(SchemaError, match="start again with the new schema"):
        rows_of(stream, as_of=writer_of(stream).published(0))


def test_pieces_of_a_mixed_stream(stream: Stream) -> None:
    stream.evolve(rename={"a": "n"}, add=[("x", pa.int8())], widen={"b": pa.large_string()})
    stream.append([{"ts": i, "n": i, "x": 1} for i in range(200, 420)])
    stream.flush()
    found = []
    for piece in plan(writer_of(stream).published(), ALWAYS, rows_per_piece=40):
        for batch in scan_piece(
            writer_of(stream).manifests.medium, writer_of(stream).context.directory, piece, ["ts", "n", "x", "_seq"]
        ):
            found += batch.to_pylist()
    assert found == rows_of(stream, columns=["ts", "n", "x"], seq=True)


READER = """
import sys
from tidelog.engine.store import Store
with Store.open(sys.argv[1], read_only=True) as store:
    stream = store.stream("s")
    versions = 0
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    for line in sys.stdin:
        count = int(line)
        table = stream.scan(seq=True).read_all()
        assert table.num_rows >= count, (table.num_rows, count)
        name = next(name for name in table.column_names if name.startswith("a"))
        assert table["_seq"].to_pylist() == table[name].to_pylist()
        assert stream.aggregate(None, None, ["count(*)"])["count(*)"] >= count
        sys.stdout.write(f"{name}\\n")
        sys.stdout.flush()
"""


def test_readers_in_another_process_across_changes(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        stream = store.create_stream(NAME, SCHEMA, "ts", **SMALL)
        command = [sys.executable, "-W", "error", "-c", READER, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdin is not None
            assert reader.stdout.readline() == "ready\n"
            count, name = 0, "a"
            for step in range(12):
                rows = [{"ts": count + i, name: count + i} for i in range(step * 7 % 40 + 1)]
                stream.append(rows)
                stream.flush()
                count += len(rows)
                if step % 3 == 2:
                    stream.evolve(rename={name: f"a{step}"}, add=[(f"x{step}", pa.int8())])
                    name = f"a{step}"
                reader.stdin.write(f"{count}\n")
                reader.stdin.flush()
                assert reader.stdout.readline().strip() == name
            reader.stdin.close()
            assert reader.wait() == 0


# -- any sequence of changes --------------------------------------------------------------------------------------

TYPES = {pa.int8(): pa.int32(), pa.int32(): pa.int64(), pa.float32(): pa.float64(), pa.string(): pa.large_string()}
WIDER = {**TYPES, pa.uint8(): pa.int16(), pa.int16(): pa.float64()}


class Model:
    """A stream and the rows that it should have."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.medium = MemoryMedium()
        self.store = Store(self.medium)
        self.stream = self.store.create_stream(NAME, SCHEMA, "ts", **SMALL)
        self.fields: dict[str, pa.DataType] = {"a": pa.int32(), "b": pa.string()}
        self.rows: list[dict[str, Any]] = []
        self.held: list[tuple[Any, list[dict[str, Any]]]] = []
        self.fresh = 0

    def value(self, type: pa.DataType) -> Any:
        if self.dice.random() < 0.2:
            return None
        if pa.types.is_floating(type):
            return self.dice.randrange(-8, 8) / 4
        if pa.types.is_integer(type):
            return self.dice.randrange(0, 100)
        return self.dice.choice(["", "x", "yy", "ü"])

    def append(self) -> None:
        count = self.dice.choice([1, 5, 30, 120])
        start = self.dice.randrange(400)
        rows = [
            {"ts": start + i // 2, **{name: self.value(type) for name, type in self.fields.items()}}
            for i in range(count)
        ]
        self.stream.append(rows if count > 1 else rows[0])
        self.rows += [{**row, "_seq": len(self.rows) + i} for i, row in enumerate(rows)]

    def evolve(self) -> None:
        add = {}
        if self.dice.random() < 0.5:
            self.fresh += 1
            add = {f"c{self.fresh}": self.dice.choice([pa.int8(), pa.float32(), pa.string(), pa.uint8()])}
        widen = {name: WIDER[type] for name, type in self.fields.items() if type in WIDER and self.dice.random() < 0.3}
        names = [name for name in self.fields if self.dice.random() < 0.5]
        others = names[1:] + names[:1] if self.dice.random() < 0.5 else [f"r{self.fresh}_{name}" for name in names]
        rename = dict(zip(names, others, strict=True))
        self.stream.evolve(add=add, widen=widen, rename=rename)
        fields = {rename.get(name, name): widen.get(name, type) for name, type in self.fields.items()}
        self.fields = {**fields, **add}
        self.rows = [
            {**{rename.get(name, name): value for name, value in row.items()}, **dict.fromkeys(add)}
            for row in self.rows
        ]

    def hold(self) -> None:
        self.held.append((self.stream.snapshot(), self.expected()))

    def reopen(self) -> None:
        self.store.close()
        self.held = []  # of a stream that was closed
        self.store = Store(self.medium)
        self.stream = self.store.stream(NAME)

    def expected(self) -> list[dict[str, Any]]:
        order = sorted(self.rows, key=lambda row: (row["ts"], row["_seq"]))
        return [{name: row[name] for name in ("ts", *self.fields, "_seq")} for row in order]

    def check(self) -> None:
        assert self.stream.schema.names == ("ts", *self.fields)
        expected = self.expected()
        assert rows_of(self.stream, seq=True) == expected
        start = self.dice.randrange(300)
        end = start + self.dice.randrange(1, 300)
        part = [row for row in expected if start <= row["ts"] < end]
        for name, type in self.fields.items():
            values = [row[name] for row in part if row[name] is not None]
            asked = [f'count("{name}")', f'min("{name}")', f'max("{name}")']
            wanted = [len(values), min(values, default=None), max(values, default=None)]
            assert list(self.stream.aggregate(start, end, asked).values()) == wanted
            assert list(self.stream.aggregate_all([(start, end)], asked)[0].values()) == wanted
            where = f"\"{name}\" = 'x'" if type in (pa.string(), pa.large_string()) else f'"{name}" > 0'
            present = [row for row in part if row[name] is not None]
            kept = [row for row in present if (row[name] == "x" if "'" in where else row[name] > 0)]
            assert rows_of(self.stream, start=start, end=end, where=where, seq=True) == kept
            assert self.stream.aggregate(start, end, "count(*)", where)["count(*)"] == len(kept)
        for snapshot, rows in self.held:
            assert rows_of(self.stream, as_of=snapshot, seq=True) == rows


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.lists(st.sampled_from("aaeehrfc"), min_size=3, max_size=12))
def test_any_sequence_of_changes(seed: int, steps: list[str]) -> None:
    model = Model(seed)
    try:
        model.append()
        for step in steps:
            match step:
                case "a":
                    model.append()
                case "e":
                    model.evolve()
                case "h":
                    model.hold()
                case "r":
                    model.reopen()
                case "f":
                    model.stream.flush()
                case "c":
                    model.stream.compact()
        model.check()
        model.reopen()
        model.check()
        assert model.store.check() == []
        target = MemoryMedium()
        model.store._back_up(target)
        with Store(target) as copy:
            assert rows_of(copy.stream(NAME), seq=True) == model.expected()
            assert copy.check() == []
    finally:
        model.store.close()


# -- crashes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_a_crash_leaves_one_schema_or_the_other_and_all_rows(every: int) -> None:
    medium = RecordingMedium()
    store = Store(medium)
    stream = store.create_stream(NAME, SCHEMA, "ts", **SMALL)
    stream.append([{"ts": i, "a": i} for i in range(30)], producer="p", number=1)
    stream.append([{"ts": 2, "a": 1000}])
    stream.flush()
    medium.mark(("rows", 31))
    begun = len(medium.log)
    stream.append({"ts": 40, "a": 40})
    stream.evolve(rename={"a": "n"}, add=[("x", pa.int8())])
    medium.mark(("evolved", 32))
    stream.append([{"ts": 41 + i, "n": 41 + i, "x": 1} for i in range(20)])
    stream.flush()
    medium.mark(("rows", 52))
    store.close()
    positions = range(begun, len(medium.log) + 1)
    seen = {"a": 0, "n": 0}
    crashes = [
        *power_losses(medium, positions, singles=2),
        *random_power_losses(medium, 1, 7, positions),
        *kills(medium, positions),
    ]
    for index, crash in enumerate(crashes):
        if index % every:
            continue
        state = crash.medium()
        marks = dict(crash.marks)
        with Store(state, read_only=True) as reader:
            before = rows_of(reader.stream(NAME))
        with Store(state) as survivor:
            found = survivor.stream(NAME)
            name = found.schema.names[1]
            seen[name] += 1
            assert name == "n" or "evolved" not in marks, crash
            rows = rows_of(found)
            assert rows == before, crash
            values = [row[name] for row in rows]
            least = max(marks["rows"], marks.get("evolved", 0))
            assert len(values) >= least, crash
            assert sorted(values) == sorted([*range(30), 1000, *range(40, 61)])[: len(values)] or 1000 in values, crash
            assert len(set(values)) == len(values), crash
            found.append([{"ts": 0, name: -1}], producer="p", number=1)
            found.append({"ts": 100, name: 7})
            found.evolve(rename={name: "z"})
            assert [row["z"] for row in rows_of(found)][-1] == 7
            assert len(found) == len(values) + 1, crash
            if index % 40 == 0:
                assert survivor.check() == [], crash
    assert min(seen.values()) > 10


def test_reduced_splits(stream: Stream) -> None:
    stream.evolve(rename={"a": "n"})
    stream.append([{"ts": i, "n": i} for i in range(300, 420)])
    stream.flush()
    assert stream.coarsen(400).splits >= 3
    stream.evolve(rename={"n": "m", "b": "n"}, add=[("x", pa.int8())])
    stream.append([{"ts": i, "m": i, "x": 1} for i in range(500, 620)])
    asked = ["count(*)", "sum(m)", "max(n)", "count(x)"]
    values = [*range(250), *range(300, 420), *range(500, 620)]
    assert stream.aggregate(None, None, asked) == dict(zip(asked, [490, sum(values), "99", 120], strict=True))
    assert stream.rank(450) == 370
    with pytest.raises(tidelog.GrainError):
        stream.scan(0, 100)
    assert len(rows_of(stream, start=500)) == 120
    stream.evolve(widen={"m": pa.float64()})
    assert stream.aggregate(None, None, ["count(*)", "max(n)"]) == {"count(*)": 490, "max(n)": "99"}
    with pytest.raises(tidelog.GrainError):
        stream.aggregate(None, None, ["sum(m)"])
    assert stream.stats()["rows"] == 490
