"""Streams that are hard to read, and the same rows kept beside as plain tables."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidelog
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk

SMALL: Mapping[str, Any] = {"leaf_rows": 16, "fanout": 3}
BEGIN = datetime.datetime(2026, 3, 27)
"""Two days before clocks go forward in Berlin."""
DAYS = 5
WORDS = ("", "a", "ab", "abc", "b", "it's", "Ab%", "é", "zz_top", "10", "2026-03-28")
SITES = pa.table(
    {
        "s": pa.array(["a", "ab", "é", None, "zz_top", "a"]),
        "k": pa.array([0, 1, 2, 3, 50, 4], pa.int16()),
        "city": pa.array(["Kiel", "Ulm", "Jena", "Bonn", "Hof", "Köln"]).dictionary_encode(),
        "factor": [0.5, 2.0, None, math.nan, 4.0, 1.0],
    }
)


def some_text(dice: random.Random) -> str | None:
    return dice.choice([*WORDS, None])


def some_float(dice: random.Random) -> float | None:
    """Dyadic, so that sums do not depend on the order, or none of the finite ones."""
    return dice.choice(
        [None, math.nan, math.inf, -math.inf, -0.0, 0.0, *(dice.randrange(-99, 99) / 4 for _ in "12345678")]
    )


def some_integer(bits: int, *, signed: bool = True) -> Callable[[random.Random], int | None]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda dice: dice.choice([None, low, high, *(dice.randrange(max(low, -9), 20) for _ in "12345678")])


def some_decimal(digits: int, scale: int) -> Callable[[random.Random], Decimal | None]:
    most = 10**digits - 1
    return lambda dice: dice.choice(
        [
            None,
            *(Decimal(f"{each}E-{scale}") for each in (most, -most, 0, *(dice.randrange(-999, 999) for _ in "12345"))),
        ]
    )


def some_time(unit: str) -> Callable[[random.Random], int | None]:
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    begin = int(BEGIN.replace(tzinfo=datetime.UTC).timestamp())

    def some(dice: random.Random) -> int | None:
        second = (begin + dice.choice([0, 86_400, dice.randrange(DAYS * 86_400)])) * ticks
        return dice.choice([None, 0, -86_400 * 365 * 30 * ticks, second, second, second + dice.randrange(ticks)])

    return some


MAKERS: Mapping[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int8(): some_integer(8),
    pa.int16(): some_integer(16),
    pa.int32(): some_integer(32),
    pa.int64(): some_integer(64),
    pa.uint8(): some_integer(8, signed=False),
    pa.uint16(): some_integer(16, signed=False),
    pa.uint32(): some_integer(32, signed=False),
    pa.uint64(): some_integer(64, signed=False),
    pa.float32(): some_float,
    pa.float64(): some_float,
    pa.string(): some_text,
    pa.large_string(): some_text,
    pa.bool_(): lambda dice: dice.choice([None, True, False]),
    pa.binary(): lambda dice: dice.choice([None, b"", b"\x00", b"\xff\x00a", b"abc"]),
    pa.date32(): lambda dice: dice.choice(
        [None, datetime.date(1969, 12, 31), datetime.date(2026, 3, 27) + datetime.timedelta(dice.randrange(DAYS))]
    ),
    pa.decimal128(9, 2): some_decimal(9, 2),
    pa.decimal128(18, 3): some_decimal(18, 3),
    pa.decimal128(38, 4): some_decimal(38, 4),
    **{
        pa.timestamp(unit, zone): some_time(unit)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "America/New_York")
    },
}
"""How values of a type are made."""

COMMON = (("id", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("x", pa.float64()))
"""Columns that every stream has besides its time: a number of the row, two keys, and a finite dyadic number."""


def common(id: int, dice: random.Random) -> dict[str, Any]:
    value = None if dice.random() < 0.1 else dice.randrange(-400, 400) / 8
    return {"id": id, "k": dice.choice([None, *range(10)]), "s": some_text(dice), "x": value}


@dataclass
class Plain:
    """A stream as rows of Python: what should be there."""

    name: str
    schema: pa.Schema
    rows: list[dict[str, Any]] = field(default_factory=list)
    unique_times: bool = False
    reduced: bool = False
    """Its older rows are gone but for aggregates."""

    @property
    def time(self) -> pa.DataType:
        return self.schema.field("ts").type

    def table(self, numbers: Mapping[int, int]) -> pa.Table:
        """The rows with the sequence numbers that they have by their ids."""
        arrays = [pa.array([row.get(one.name) for row in self.rows], one.type) for one in self.schema]
        seq = pa.array([numbers[row["id"]] for row in self.rows], pa.int64())
        return pa.table([*arrays, seq], schema=self.schema.append(pa.field("_seq", pa.int64(), nullable=False)))


class Builder:
    """Writes a stream and keeps its rows."""

    def __init__(
        self,
        store: Store,
        dice: random.Random,
        name: str,
        time: pa.DataType,
        *more: tuple[str, pa.DataType],
        **options: Any,
    ) -> None:
        self._dice = dice
        schema = pa.schema([pa.field("ts", time, nullable=False), *COMMON, *more])
        self.plain = Plain(name, schema)
        self.stream: Stream = store.create_stream(name, schema, "ts", **{**SMALL, **options})
        self._next = 0
        self._deleted_before = -(1 << 63)
        """Rows before it that still arrive are deleted as well."""
        self.ticks = 1 if time == pa.int64() else {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[time.unit]
        self.begin = 0 if time == pa.int64() else int(BEGIN.replace(tzinfo=datetime.UTC).timestamp()) * self.ticks

    def at(self, second: float) -> int:
        """A time, in ticks, by seconds from the beginning."""
        return self.begin + int(second * self.ticks)

    def _made(self, times: list[int]) -> list[dict[str, Any]]:
        dice, rows = self._dice, []
        for time in times:
            row = {"ts": time, **common(self._next, dice)}
            self._next += 1
            for one in self.plain.schema:
                if one.name not in row:
                    row[one.name] = MAKERS[one.type](dice)
            rows.append(row)
        self.plain.rows += [row for row in rows if row["ts"] >= self._deleted_before]
        return rows

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        schema = self.plain.schema
        return pa.table([pa.array([row[one.name] for row in rows], one.type) for one in schema], schema=schema)

    def append(self, times: list[int]) -> None:
        self.stream.append(self._table(self._made(times)))

    def overwrite(self, start: int, end: int, times: list[int]) -> None:
        """Put rows in the place of those of a time."""
        self.stream.flush()
        self.plain.rows = [row for row in self.plain.rows if not start <= row["ts"] < end]
        with BulkWriter(writer_of(self.stream).context) as writer:
            for batch in self._table(self._made(times)).to_batches():
                writer.append(batch)
            infos = writer.finish()
        assert commit_bulk(writer_of(self.stream).manifests, infos, overwrite=Interval(start, end))

    def delete_before(self, time: int) -> None:
        self.stream.delete_before(time if self.plain.time == pa.int64() else pa.scalar(time, self.plain.time))
        self.plain.rows = [row for row in self.plain.rows if row["ts"] >= time]
        self._deleted_before = time

    def evolve(self, **changes: Any) -> None:
        """Change the schema, and the names of what is kept beside."""
        names = changes.get("rename", {})
        self.stream.evolve(**changes)
        self.plain.schema = self.stream.schema.arrow
        self.plain.rows = [{names.get(name, name): value for name, value in row.items()} for row in self.plain.rows]

    def usual(self, rows: int, *, tail: bool = True) -> None:
        """Times with gaps and duplicates, rows that come late, a range that is overwritten, one that is deleted."""
        dice, length = self._dice, DAYS * 86_400
        seconds = sorted(dice.randrange(length) for _ in range(rows))
        seconds = [each if dice.random() < 0.8 else each // 3600 * 3600 for each in seconds]
        for first in range(0, rows, 50):
            part = seconds[first : first + 50]
            dice.shuffle(part) if dice.random() < 0.3 else None
            self.append([self.at(each) for each in part])
            if dice.random() < 0.5:
                self.append([self.at(dice.randrange(part[0] + 1)) for _ in range(dice.choice([1, 4, 12]))])
        self.overwrite(
            self.at(length / 3), self.at(length / 3 + 20_000), [self.at(length / 3 + each * 900) for each in range(9)]
        )
        self.delete_before(self.at(3 * 3600))
        if tail:
            self.append([self.at(length + each // 2) for each in range(7)])
            self.append([self.at(length * dice.random()) for _ in range(5)])


@dataclass
class World:
    """A store with its streams, and what should be in them."""

    store: Store
    plain: dict[str, Plain]
    tables: dict[str, pa.Table]


EVERY_TYPE = (
    ("i8", pa.int8()),
    ("i16", pa.int16()),
    ("i32", pa.int32()),
    ("big", pa.int64()),
    ("u8", pa.uint8()),
    ("u16", pa.uint16()),
    ("u32", pa.uint32()),
    ("u64", pa.uint64()),
    ("f32", pa.float32()),
    ("f", pa.float64()),
    ("ls", pa.large_string()),
    ("b", pa.bool_()),
    ("raw", pa.binary()),
    ("d", pa.date32()),
    ("dec", pa.decimal128(9, 2)),
    ("dec18", pa.decimal128(18, 3)),
    ("dec38", pa.decimal128(38, 4)),
    ("t_s", pa.timestamp("s")),
    ("t_ms", pa.timestamp("ms")),
    ("t_us", pa.timestamp("us")),
    ("t_ns", pa.timestamp("ns")),
    ("z_s", pa.timestamp("s", "America/New_York")),
    ("z_us", pa.timestamp("us", "UTC")),
    ("z_ns", pa.timestamp("ns", "UTC")),
    ('a "b" c', pa.int32()),
    ("select", pa.float64()),
)


def build(directory: Path, seed: int) -> World:
    """A store of hard streams."""
    dice = random.Random(seed)
    store = tidelog.open(directory, maintenance="manual")
    built: list[Builder] = []

    def stream(name: str, time: pa.DataType, *more: tuple[str, pa.DataType], **options: Any) -> Builder:
        built.append(Builder(store, dice, name, time, *more, **options))
        return built[-1]

    stream("wide", pa.timestamp("us"), *EVERY_TYPE, split="1d").usual(150)
    floats = (("f", pa.float64()), ("f32", pa.float32()))
    stream("zoned", pa.timestamp("us", "UTC"), *floats, split="1d", late_rows=20, leaf_rows=4).usual(100)
    stream(
        "berlin", pa.timestamp("ms", "Europe/Berlin"), split="1d", late_merge="never", late_rows=10, leaf_rows=3
    ).usual(100)
    stream("sensors/secs", pa.timestamp("s"), ("b", pa.bool_())).usual(100)
    stream("nanos", pa.timestamp("ns"), ("dec", pa.decimal128(18, 3)), split="1d", leaf_rows=4).usual(100)
    stream("Nanoz", pa.timestamp("ns", "UTC")).usual(80)
    stream("secz", pa.timestamp("s", "America/New_York")).usual(80)
    stream("ticks", pa.int64(), ("u64", pa.uint64()), ("big", pa.int64()), split=100_000).usual(120)
    stream("memory", pa.timestamp("us"), ("u8", pa.uint8())).append([built[0].at(7200 * each) for each in range(40)])
    stream("nothing", pa.timestamp("us"), ("f", pa.float64()))

    calm = stream("calm", pa.timestamp("us"), ("f", pa.float64()), split="1d", leaf_rows=4)
    calm.append([calm.at(3600 * each) for each in range(DAYS * 24)])
    calm.plain.unique_times = True

    evolved = stream("evolved", pa.timestamp("us"), ("n", pa.int8()), ("old", pa.float32()), split="1d")
    evolved.append([evolved.at(600 * each) for each in range(60)])
    evolved.evolve(add={"late": pa.string(), "u": pa.uint8()}, rename={"old": "new"})
    evolved.append([evolved.at(600 * each + 20_000) for each in range(60)])
    evolved.evolve(widen={"n": pa.int32(), "new": pa.float64()}, add={"old": pa.int64()})
    evolved.append([evolved.at(600 * each + 40_000) for each in range(60)])
    evolved.evolve(rename={"n": "u", "u": "n"})
    evolved.append([evolved.at(600 * each + 50_000) for each in range(20)])

    reduced = stream("reduced", pa.timestamp("us"), ("i32", pa.int32()), split="6h", leaf_rows=4)
    reduced.append([reduced.at(1800 * each) for each in range(DAYS * 48)])
    reduced.plain.unique_times = reduced.plain.reduced = True
    reduced.stream.coarsen(pa.scalar(reduced.at(DAYS * 43_200), reduced.plain.time))
    return World(store, {each.plain.name: each.plain for each in built}, {"sites": SITES})
