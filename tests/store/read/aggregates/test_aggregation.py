"""Aggregates of streams against DuckDB, wherever their answers come from."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import commit_bulk

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("u16", pa.uint16()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("dec", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("ms")),
        ("zoned", pa.timestamp("s", "UTC")),
        ("flag", pa.bool_()),
        ("word", pa.string()),
        ("nothing", pa.float64()),
    ]
)
ROWS = 700
RANGES = [(None, None), (100, 400), (0, 1), (399, 400), (5, 5), (9, 3), (-50, 90), (10_000, None)]


def rows() -> pa.Table:
    dice = random.Random(1)
    start = dt.datetime(2020, 1, 1)
    zoned = dt.datetime(1999, 12, 31, tzinfo=dt.UTC)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.2 else value

    columns: list[list[Any]] = [[] for _ in SCHEMA]
    for index in range(ROWS):
        number = dice.randrange(-100, 100)
        values = [
            index // 2 if dice.random() < 0.8 else dice.randrange(400),
            maybe(number),
            maybe(number * 10_000_000),
            maybe((1 << 62) + number),
            maybe(number + 100),
            maybe(number / 4),
            maybe(number * 0.5),
            maybe(decimal.Decimal(number) / 100),
            maybe((start + dt.timedelta(days=number)).date()),
            maybe(start + dt.timedelta(milliseconds=number)),
            maybe(zoned + dt.timedelta(seconds=number)),
            maybe(number > 0),
            maybe(f"word {number}" * dice.choice([1, 1, 5])),
            None,
        ]
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def filled(**options: Any) -> Stream:
    """A stream with closed splits, a split of late rows, an open one, and rows in memory."""
    stream = Store(MemoryMedium()).create_stream(
        "s", SCHEMA, "ts", leaf_rows=16, fanout=3, split=100, late_rows=60, **options
    )
    whole = rows()
    for first in range(0, ROWS, 90):
        stream.append(whole.slice(first, 90))
        stream.flush()
    return stream


@pytest.fixture(scope="module")
def stream() -> Stream:
    return filled()


def ask_duckdb(texts: list[str], start: int | None, end: int | None, where: str | None) -> list[Any]:
    conditions = [f"ts >= {start}"] * (start is not None) + [f"ts < {end}"] * (end is not None)
    conditions += [where] * (where is not None)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", rows())
        answer = connection.execute(
            f"SELECT {', '.join(texts)} FROM t WHERE {' AND '.join(f'({c})' for c in conditions) or 'true'}"
        ).fetchone()
    assert answer is not None
    return list(answer)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, rel_tol=1e-12)
    if isinstance(expected, dt.datetime) and expected.tzinfo is not None:
        return isinstance(found, dt.datetime) and found.timestamp() == expected.timestamp()
    return type(found) is type(expected) and found == expected


def texts() -> list[str]:
    made = ["count(*)"]
    for name in SCHEMA.names:
        made += [f"count({name})", f"min({name})", f"max({name})"]
        if name not in ("day", "moment", "zoned", "flag", "word"):
            made += [f"sum({name})", f"avg({name})"]
    return made


@pytest.mark.parametrize("where", [None, "i8 > 0", "word IS NOT NULL AND f64 < 10"])
@pytest.mark.parametrize(("start", "end"), RANGES)
def test_answers_are_those_of_duckdb(stream: Stream, start: int | None, end: int | None, where: str | None) -> None:
    wanted = [*texts(), "stddev(f64)", "sum(f64 * 2)"]
    found = stream.aggregate(start, end, wanted, where)
    expected = dict(zip(wanted, ask_duckdb(wanted, start, end, where), strict=True))
    wrong = {text: (found[text], expected[text]) for text in wanted if not same(found[text], expected[text])}
    assert not wrong


CONDITIONS = [
    *("i8 BETWEEN -20 AND 20", "i8 = 7", "i32 > 500000000", "i64 < 4611686018427387904", "u16 <= 99.5", "u16 > -5"),
    *("f32 > 2.25", "f64 BETWEEN -3.5 AND 4", "f64 >= 0", "f64 < -1e300", "f64 IN (1.5)", "f64 > 100 AND f64 < 50"),
    *("day < DATE '2020-01-05'", "moment >= TIMESTAMP '2020-01-01 00:00:00.010'", "NOT f64 < 3", "ts >= 120"),
    *(
        "zoned > TIMESTAMPTZ '1999-12-31 00:00:09+00'",
        "nothing > 0",
        "i8 = 5 OR i8 = 9",
        "dec > 0.25",
        "word > 'word 5'",
    ),
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_counts_of_rows_that_satisfy_a_condition(stream: Stream, where: str) -> None:
    for start, end in RANGES:
        (expected,) = ask_duckdb(["count(*)"], start, end, where)
        assert stream.aggregate(start, end, "count(*)", where) == {"count(*)": expected}
        assert stream.scan(start, end, ["word", "f64"], where).read_all().num_rows == expected


def test_leaves_all_of_whose_rows_count_are_not_read() -> None:
    stream = Store(MemoryMedium()).create_stream("s", pa.schema([("ts", pa.int64()), ("n", pa.float64())]), "ts")
    stream.append({"ts": list(range(100_000)), "n": [n / 4 for n in range(100_000)]})
    for where, leaves in (("n >= 0", 0), ("n < 25000", 0), ("n >= 100.25", 1), ("n > 24999", 1), ("n = 0", 1)):
        expected = stream.aggregate(None, None, "count(n)", where)["count(n)"]
        assert stream.aggregate(None, None, "count(*)", where) == {"count(*)": expected}
        told = stream.explain(None, None, "count(*)", where)
        assert told.endswith(f" {leaves} leaves"), told
    assert stream.aggregate(10, 99_990, "count(*)", "n >= 100.25") == {"count(*)": 99_990 - 401}


@pytest.mark.parametrize("where", [None, "i8 > 0"])
def test_many_ranges_at_once_are_those_ranges_one_by_one(stream: Stream, where: str | None) -> None:
    wanted = [*texts(), "stddev(f64)"]
    ranges = [*RANGES, *((start, start + 37) for start in range(-20, 420, 13)), (0, (1 << 63) - 1), (3, None)]
    assert stream.aggregate_all([], wanted, where) == []
    found = stream.aggregate_all(ranges, wanted, where)
    assert len(found) == len(ranges)
    for (start, end), answer in zip(ranges, found, strict=True):
        alone = stream.aggregate(start, end, wanted, where)
        assert all(same(answer[text], alone[text]) for text in wanted), (start, end)


def test_many_ranges_read_every_block_once() -> None:
    stream = Store(MemoryMedium()).create_stream(
        "s", pa.schema([("ts", pa.int64()), ("n", pa.int64())]), "ts", leaf_rows=100
    )
    stream.append({"ts": list(range(10_000)), "n": list(range(10_000))})
    stream.flush()
    ranges = [(start, start + 5_000) for start in range(5_000)]
    found = stream.aggregate_all(ranges, ["sum(n)", "count(*)"])
    assert found == [{"sum(n)": sum(range(*each)), "count(*)": 5_000} for each in ranges]


class TestOnDisk:
    """Files are mapped, and leaves of numbers without nulls are summarised where they stand."""

    SCHEMA = pa.schema(
        [
            ("ts", pa.timestamp("us")),
            *((f"i{width}", getattr(pa, f"int{width}")()) for width in (8, 16, 32, 64)),
            *((f"u{width}", getattr(pa, f"uint{width}")()) for width in (8, 16, 32, 64)),
            ("f32", pa.float32()),
            ("f64", pa.float64()),
            ("day", pa.date32()),
            ("moment", pa.timestamp("ms", "UTC")),
            ("word", pa.string()),
            ("gap", pa.float64()),
        ]
    )

    @staticmethod
    def column(field: pa.Field, dice: random.Random, rows: int) -> pa.Array:
        if field.name == "ts":
            return pa.array(sorted(dice.randrange(1000) for _ in range(rows)), field.type)
        if pa.types.is_integer(field.type):
            width = field.type.bit_width
            low = 0 if field.name[0] == "u" else -(1 << (width - 1))
            return pa.array(
                [dice.choice([low, low + (1 << width) - 1, dice.randrange(9)]) for _ in range(rows)], field.type
            )
        if field.name in ("day", "moment"):
            return pa.array([dice.randrange(-1000, 1000) for _ in range(rows)], field.type)
        if field.name == "word":
            return pa.array([dice.choice(["a", "b", "long enough to be cut"]) for _ in range(rows)])
        values = [dice.choice([dice.randrange(-999, 999) / 8, math.nan, -0.0, math.inf]) for _ in range(rows)]
        if field.name == "gap":
            values = [None if dice.random() < 0.1 else value for value in values]
        return pa.array(values, field.type)

    def test_answers_are_those_of_duckdb(self, tmp_path: Path) -> None:
        dice = random.Random(4)
        table = pa.table([self.column(field, dice, 5000) for field in self.SCHEMA], schema=self.SCHEMA)
        with tidelog.open(tmp_path / "store") as store:
            stream = store.create_stream("s", schema=self.SCHEMA, time="ts", leaf_rows=1500, fanout=3)
            stream.append(table)
        wanted = ["count(*)"]
        for field in self.SCHEMA:
            wanted += [f"{function}({field.name})" for function in ("count", "min", "max")]
            if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
                wanted += [f"sum({field.name})", f"avg({field.name})"]
        with tidelog.open(tmp_path / "store", read_only=True) as store, duckdb.connect() as connection:
            stream = store.stream("s")
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("t", table)
            for start, end in [(0, 1000), (1, 999), (300, 310), (500, 501), (999, 1000), (250, 750)]:
                found = stream.aggregate(start, end, wanted)
                answer = connection.execute(
                    f"SELECT {', '.join(wanted)} FROM t WHERE epoch_us(ts) >= {start} AND epoch_us(ts) < {end}"
                ).fetchone()
                assert answer is not None
                wrong = [
                    (text, found[text], value)
                    for text, value in zip(wanted, answer, strict=True)
                    if not same(found[text], value)
                ]
                assert not wrong, (start, end, wrong)

    @pytest.mark.parametrize("names", [["i64", "f64", "u8", "day"], ["i64", "word"], ["gap"], []])
    def test_leaves_that_are_cut_together(self, tmp_path: Path, names: list[str]) -> None:
        """Of numbers, several leaves at a time are taken apart; rows of one time are in more than one of them."""
        dice = random.Random(5)
        schema = pa.schema([self.SCHEMA.field(name) for name in ["ts", *names]])
        table = pa.table([self.column(field, dice, 5000) for field in schema], schema=schema)
        with tidelog.open(tmp_path / "store") as store:
            store.create_stream("s", schema=schema, time="ts", leaf_rows=96, fanout=5).append(table)
        wanted = ["count(*)", "min(ts)", *(f"{call}({name})" for name in names for call in ("count", "min", "max"))]
        wanted += [f"sum({name})" for name in names if not pa.types.is_date(self.SCHEMA.field(name).type)]
        wanted = [text for text in wanted if text != "sum(word)"]
        ranges = [sorted(dice.sample(range(-9, 1010), 2)) for _ in range(200)]
        with tidelog.open(tmp_path / "store", read_only=True) as store, duckdb.connect() as connection:
            found = store.stream("s").aggregate_all([(low, high) for low, high in ranges], wanted)
            connection.register("t", table)
            for (low, high), answers in zip(ranges, found, strict=True):
                expected = connection.execute(
                    f"SELECT {', '.join(wanted)} FROM t WHERE epoch_us(ts) >= {low} AND epoch_us(ts) < {high}"
                ).fetchone()
                assert expected is not None
                assert all(same(answers[text], value) for text, value in zip(wanted, expected, strict=True)), (
                    low,
                    high,
                )


def test_plain_aggregates_come_from_the_index(stream: Stream) -> None:
    told = stream.explain(None, None, ["count(*)", "sum(i8)", "min(f64)", "avg(i32)", "stddev(f64)"])
    assert [line.rsplit(" ", 1)[1] for line in told.splitlines()[:5]] == ["index"] * 4 + ["events"]
    assert "from the index" not in stream.explain(None, None, "sum(i8)", "i8 > 3")


def test_columns_without_aggregates_are_computed_from_events(stream: Stream) -> None:
    other = filled(aggregates=["i8"])
    wanted = ["sum(i8)", "sum(i32)", "max(word)", "count(*)"]
    for start, end in RANGES:
        assert other.aggregate(start, end, wanted) == stream.aggregate(start, end, wanted)
    assert "sum(i32): from events" in other.explain(None, None, wanted)


def test_nan_and_infinities() -> None:
    stream = Store(MemoryMedium()).create_stream(
        "s", pa.schema([("ts", pa.int64()), ("x", pa.float64())]), "ts", leaf_rows=2, fanout=2
    )
    values = [1.0, math.nan, None, -math.inf, math.inf, -0.0, 5.0, math.nan, math.nan]
    stream.append({"ts": list(range(len(values))), "x": values})
    stream.flush()
    table = pa.table({"ts": range(len(values)), "x": pa.array(values)})
    wanted = ["count(x)", "min(x)", "max(x)", "sum(x)", "avg(x)"]
    with duckdb.connect() as connection:
        connection.register("t", table)
        for start in range(len(values)):
            for end in range(start, len(values) + 1):
                found = stream.aggregate(start, end, wanted)
                answer = connection.execute(
                    f"SELECT count(x), min(x), max(x), sum(x), avg(x) FROM t WHERE ts >= {start} AND ts < {end}"
                ).fetchone()
                assert answer is not None
                assert all(same(f, e) for f, e in zip(found.values(), answer, strict=True)), (start, end, found, answer)


def test_where_rows_were_overwritten_only_their_events_are_read() -> None:
    """Everything else is still answered from the index, by DuckDB's account too."""
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4, user_aggregates=["last(i32)"])
        events = rows().sort_by("ts")
        stream.append(events)
        stream.flush()
        commit_bulk(writer_of(stream).manifests, [], overwrite=Interval(100, 110))
        commit_bulk(writer_of(stream).manifests, [], overwrite=Interval(300, 301))
        assert stream.snapshot().deletions(None, None)
        calls = ["count(*)", "sum(i32)", "min(f64)", "max(word)", "avg(u16)", "count(dec)", "sum(dec)"]
        living = duckdb.sql("SELECT * FROM events WHERE NOT (ts >= 100 AND ts < 110) AND ts <> 300")  # noqa: F841
        for start, end in [*RANGES, (95, 105), (100, 110), (110, 300)]:
            found = stream.aggregate(start, end, calls)
            low, high = (-(10**9) if start is None else start), (10**9 if end is None else end)
            query = f"SELECT {', '.join(calls)} FROM living WHERE ts >= {low} AND ts < {high}"
            [expected] = duckdb.sql(query).fetchall()
            assert list(found.values()) == pytest.approx(list(expected))
            assert stream.aggregate_all([(start, end)], calls) == [pytest.approx(found)]
            assert stream.aggregate(start, end, "last(i32)") == {"last(i32)": last_of(stream, start, end)}
        told = stream.explain(None, None, ["count(*)"]).splitlines()
        assert told[0] == "count(*): from the index, and events where some were overwritten"
        assert int(told[1].rpartition(", ")[2].split()[0]) < ROWS // 16 // 3, told[1]


def last_of(stream: Stream, start: int | None, end: int | None) -> Any:
    values = stream.scan(start, end, ["i32"]).read_all()["i32"].to_pylist()
    return values[-1] if values else None
