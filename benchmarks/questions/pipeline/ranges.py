"""How fast are aggregates of a thousand time ranges: from the trees, and by Spark SQL over Parquet?"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import data
from harness import Bench, Bound, Case, Comparison, Figures, Outcome, Question, Sample, measure
from questions.contest import split
from questions.spark.year import DAY, DAYS, OURS, STREAM, TIME, readings, schema_of_year

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGES = "range aggregates"
COUNT = 1000
COLUMN = data.Sensor.schema.names[1]
CALLS = {"n": "count(*)", "total": f"sum({COLUMN})", "low": f"min({COLUMN})", "high": f"max({COLUMN})"}
SHORTEST, LONGEST = DAY // 24, 7 * DAY
"""Lengths of ranges, in microseconds; all orders of magnitude between them are as frequent."""
BIN = DAY // 4
"""Bins of the equi-join, in microseconds: with much shorter ones there are more pairs, with longer ones more misses."""
SEPARATE_RANGES, QUICK_SEPARATE_RANGES = 10, 2
"""Ranges that are asked for by queries of their own."""
_FILE_ROWS = 1 << 21
QUICK_JOINED = 20
"""Ranges that a quick run compares with every row."""

SEPARATE, BINNED, JOINED = "separate queries", "binned equi-join", "range join"


@dataclass
class Readings:
    """The readings of a year in our store and in Parquet, and the ranges asked for."""

    spark: SparkSession
    events: int
    root: Path

    @classmethod
    def make(cls, bench: Bench, spark: SparkSession, events: int) -> Readings:
        """Write them, both in order of time: files of Parquet as many jobs leave them, of some million rows each."""
        import tidelog

        made = cls(spark, events, bench.workspace.fresh())
        directory = made.root / "parquet"
        directory.mkdir()
        bench.on_progress("writing the readings of a year")
        with tidelog.open(made.store) as store:
            stream = store.create_stream(STREAM, schema_of_year(), time=TIME)
            file: list[pa.RecordBatch] = []
            for batch in readings(events):
                stream.append(batch)
                file.append(batch)
                if sum(map(len, file)) >= _FILE_ROWS:
                    _write_file(directory, file)
                    file = []
            if file:
                _write_file(directory, file)
        spark.read.parquet(str(made.root / "parquet")).createOrReplaceTempView("readings")
        _show(spark, "asked", made.ranges())
        return made

    @property
    def store(self) -> Path:
        """The directory of our store."""
        return self.root / "store"

    def ranges(self) -> list[tuple[Any, Any]]:
        """The ranges, anywhere in the year: the same ones each time."""
        dice = np.random.default_rng(7)
        lengths = np.exp(dice.uniform(np.log(SHORTEST), np.log(LONGEST), COUNT)).astype(np.int64)
        starts = data.START_MICROS + (dice.random(COUNT) * (DAYS * DAY - lengths)).astype(np.int64)
        return [(_at(start), _at(start + length)) for start, length in zip(starts, lengths, strict=True)]


def _write_file(directory: Path, batches: list[pa.RecordBatch]) -> None:
    """The next file of Parquet, with one row group, as large as those of Spark are: small ones would slow it down."""
    number = len(list(directory.iterdir()))
    parquet.write_table(
        pa.Table.from_batches(batches), directory / f"{number:05d}.parquet", row_group_size=_FILE_ROWS * 2
    )


def _show(spark: SparkSession, name: str, ranges: list[tuple[Any, Any]]) -> None:
    """Ranges as a view."""
    frame = spark.createDataFrame(ranges, "lo timestamp, hi timestamp").coalesce(1)
    frame.cache().createOrReplaceTempView(name)


def _at(micros: int) -> Any:
    from datetime import UTC, datetime

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(micros))


def ask_ranges(bench: Bench, readings: Readings, bound: Bound) -> None:
    """Race aggregates of all ranges, brought to the driver, against the form of Spark SQL that is the fastest.

    The other forms would take most of the time that all of this takes, and decide nothing: each is run once.
    """
    spark, asked = readings.spark, readings.ranges()
    few = asked[:: COUNT // (QUICK_SEPARATE_RANGES if bench.quick else SEPARATE_RANGES)]
    joined = asked[:: COUNT // QUICK_JOINED if bench.quick else 1]
    _show(spark, "joined", joined)
    forms = {
        BINNED: _Form(lambda: _answers(_binned(spark)), COUNT),
        JOINED: _Form(lambda: _answers(_joined(spark)), len(joined)),
        SEPARATE: _Form(lambda: dict(ChainMap(*(_answers(_separate(spark, *each)) for each in few))), len(few)),
    }
    tried: dict[str, Sample] = {}
    expected: _Answers = {}
    for name, form in forms.items():  # the first is asked about all ranges
        bench.on_progress(f"{RANGES}: {name}, once")
        found, tried[name] = measure(form.work)
        expected = expected or found
        _expect(found, {key: expected[key] for key in found} if form.ranges < COUNT else expected)
    fastest = min(forms, key=lambda name: tried[name].wall / forms[name].ranges)
    works = {OURS: lambda: _answers(_ours(readings, asked)), fastest: forms[fastest].work}
    cases = [
        Case(name, lambda _, work=work: work(), check=lambda found: _expect(found, expected))  # type: ignore[misc]
        for name, work in works.items()
    ]
    outcomes = bench.race(RANGES, cases)
    outcomes |= {name: Outcome([sample]) for name, sample in tried.items() if name != fastest}

    def rate(name: str, outcome: Outcome) -> Figures:
        ranges = forms[name].ranges if name in forms else COUNT
        return Figures.of(outcome, lambda sample: ranges / sample.wall)

    ours, peers = split({name: rate(name, outcome) for name, outcome in outcomes.items()})
    parts = [f"{form.ranges} by {name}" for name, form in forms.items() if form.ranges < COUNT]
    note = f"{COUNT:,} ranges of an hour to a week, of which {' and '.join(parts)}; the slower forms are run once"
    comparisons = [Comparison("fastest", (fastest,), bound)]
    bench.answer(Question(RANGES, "ranges/s", readings.events, ours, peers, comparisons, note=note))


_Answers = dict[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class _Form:
    """A way to ask with Spark SQL."""

    work: Callable[[], _Answers]
    ranges: int
    """How many of the ranges it is asked about: of slow forms a part is enough to tell that they are slow."""


def _ours(readings: Readings, asked: list[tuple[Any, Any]]) -> DataFrame:
    from tidelog import spark as tl

    return tl.aggregate(readings.spark, readings.store, STREAM, asked, CALLS, start="lo", end="hi")


def _answers(frame: DataFrame) -> _Answers:
    """By their ranges; those without events are left out, as joins leave them out."""
    return {(row["lo"], row["hi"]): tuple(row[name] for name in CALLS) for row in frame.collect() if row["n"]}


def _expect(found: _Answers, expected: _Answers) -> None:
    """Raise unless two have the same answers, but for the last bits of sums."""
    if found.keys() != expected.keys():
        raise AssertionError(f"found {len(found)} ranges, expected {len(expected)} of the same")
    for key, values in found.items():
        if not all(isclose(*pair, rel_tol=1e-9) for pair in zip(values, expected[key], strict=True)):
            raise AssertionError(f"found {values} for {key}, expected {expected[key]}")


def _calls() -> str:
    return ", ".join(f"{call} AS {name}" for name, call in CALLS.items())


def _separate(spark: SparkSession, low: Any, high: Any) -> DataFrame:
    """One query for a range: files and row groups outside of it are passed over."""
    start, end = (f"timestamp '{each.isoformat()}'" for each in (low, high))
    return spark.sql(
        f"SELECT {start} AS lo, {end} AS hi, {_calls()} FROM readings WHERE {TIME} >= {start} AND {TIME} < {end}"
    )


def _binned(spark: SparkSession) -> DataFrame:
    """Every range in each bin that it touches, joined with the rows of that bin, then what is outside left out."""
    bin_of = f"CAST(floor(unix_micros({{}}) / {BIN}) AS bigint)"
    last = f"CAST(floor((unix_micros(hi) - 1) / {BIN}) AS bigint)"
    return spark.sql(
        f"""
        WITH bins AS (SELECT lo, hi, explode(sequence({bin_of.format("lo")}, {last})) AS bin FROM asked)
        SELECT /*+ BROADCAST(bins) */ lo, hi, {_calls()}
        FROM readings JOIN bins ON {bin_of.format(TIME)} = bin AND {TIME} >= lo AND {TIME} < hi
        GROUP BY lo, hi
        """
    )


def _joined(spark: SparkSession) -> DataFrame:
    """Every row compared with every range."""
    return spark.sql(
        f"""
        SELECT /*+ BROADCAST(joined) */ lo, hi, {_calls()}
        FROM readings JOIN joined ON {TIME} >= lo AND {TIME} < hi
        GROUP BY lo, hi
        """
    )
