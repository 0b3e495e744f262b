"""A stream for each device, or one stream of all with a column that names the device?

Neither is judged: the figures say when the one is to be preferred, and when the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Bench, Case, Comparison, Figures, Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY = "many streams"
STREAMS, KEYED = "a stream each", "one stream, with a key"
ROWS = 2_000
"""Rows of a device."""
SECONDS = "s"
TIME, KEY, VALUE = "ts", "device", "x"
FOLDER, ALL = "devices", "all"
AGGREGATES = ["count(*)", f"sum({VALUE})"]


@dataclass(frozen=True)
class Devices:
    """The same rows in both ways; every device has as many of them, at all times."""

    spark: SparkSession
    count: int
    """How many devices there are."""
    root: Path

    @property
    def events(self) -> int:
        """Rows of all devices."""
        return self.count * ROWS

    def rows(self) -> DataFrame:
        """All rows, in order of time."""
        return self.spark.range(0, self.events, 1, 4).selectExpr(
            f"timestamp_micros(id * 1000) AS {TIME}",
            f"concat('{FOLDER}/', lpad(id % {self.count}, 6, '0')) AS {KEY}",
            f"cast(id % 977 AS double) / 8 AS {VALUE}",
            "cast(id % 97 AS double) AS y",
        )

    @property
    def device(self) -> str:
        """The one that is asked for alone."""
        return f"{FOLDER}/{self.count // 2:06d}"

    @property
    def condition(self) -> str:
        """How its rows are told from others."""
        return f"{KEY} = '{self.device}'"

    def write(self, way: str, to: Path) -> None:
        """Write all rows into a store that is not there yet."""
        from tidelog import spark as tl

        if way == STREAMS:
            tl.write(self.rows(), to / way, stream_column=KEY, time=TIME)
        else:
            tl.write(self.rows(), to / way, ALL, time=TIME)

    def read(self, way: str, is_one: bool) -> tuple[int, float]:
        """Rows and the sum of their values, of one device or of all, read through Spark."""
        from tidelog import spark as tl

        if way == STREAMS:
            frame = tl.read(self.spark, self.root / way, self.device if is_one else f"{FOLDER}/*", columns=[VALUE])
        else:
            frame = tl.read(self.spark, self.root / way, ALL, where=self.condition if is_one else None, columns=[VALUE])
        [(rows, total)] = frame.selectExpr("count(*)", f"sum({VALUE})").collect()
        return rows, total

    def aggregate(self, way: str) -> tuple[int, float]:
        """The same of one device, without Spark, from a store that is opened for it."""
        import tidelog

        with tidelog.open(self.root / way, read_only=True) as store:
            if way == STREAMS:
                found = store.stream(self.device).aggregate(None, None, AGGREGATES)
            else:
                found = store.stream(ALL).aggregate(None, None, AGGREGATES, where=self.condition)
        rows, total = (found[text] for text in AGGREGATES)
        return rows, total

    def list(self, way: str) -> int:
        """How many streams there are in a store that is opened for it."""
        import tidelog

        with tidelog.open(self.root / way, read_only=True) as store:
            return len(store.streams())


def ask_many(bench: Bench, spark: SparkSession, events: int) -> None:
    """Race both ways: writing through Spark, reading everything, reading and aggregating one device, and listing."""
    devices = Devices(spark, max(1, events // ROWS), bench.workspace.fresh())
    outcomes = bench.race(
        f"{MANY}: write",
        [Case(way, lambda to, way=way: devices.write(way, to)) for way in (STREAMS, KEYED)],  # type: ignore[misc]
        writes=True,
        keep_last=True,
    )
    _answer(bench, devices, "write", {way: Figures.of(found, lambda run: run.wall) for way, found in outcomes.items()})
    for way, outcome in outcomes.items():
        assert outcome.directory is not None
        (outcome.directory / way).rename(devices.root / way)
        bench.workspace.remove(outcome.directory)
    everything, one = devices.read(KEYED, is_one=False), devices.read(KEYED, is_one=True)
    if (everything[0], one[0]) != (devices.events, ROWS):
        raise AssertionError(
            f"{everything[0]} rows are there, {one[0]} of one device; expected {devices.events}, {ROWS}"
        )

    def expect(wanted: tuple[int, float]) -> Callable[[Any], None]:
        def check(found: tuple[int, float]) -> None:
            if found[0] != wanted[0] or not isclose(found[1], wanted[1], rel_tol=1e-12):
                raise AssertionError(f"found {found}, expected {wanted}")

        return check

    questions: dict[str, tuple[Callable[[str], Any], Callable[[Any], None] | None]] = {
        "read all": (lambda way: devices.read(way, is_one=False), expect(everything)),
        "read one": (lambda way: devices.read(way, is_one=True), expect(one)),
        "open, aggregate one": (devices.aggregate, expect(one)),
        "open, list": (devices.list, None),
    }
    for name, (work, check) in questions.items():
        cases = [
            Case(way, lambda _, way=way, work=work: work(way), check=check)  # type: ignore[misc]
            for way in (STREAMS, KEYED)
        ]
        found = bench.race(f"{MANY}: {name}", cases, rehearsed=False)
        _answer(bench, devices, name, {way: Figures.of(each, lambda run: run.wall) for way, each in found.items()})
    bench.workspace.remove(devices.root)


def _answer(bench: Bench, devices: Devices, what: str, figures: dict[str, Figures]) -> None:
    note = f"{devices.count:,} devices of {ROWS:,} rows"
    peers = {KEYED: figures[KEYED]}
    comparisons = [Comparison(KEYED, (KEYED,))]
    name = f"{MANY}: {what}"
    bench.answer(
        Question(name, SECONDS, devices.events, figures[STREAMS], peers, comparisons, higher_is_better=False, note=note)
    )
