"""A year of sensor readings, kept by every contestant, and the session that all of them are asked through."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import data
from formats.base import THREADS
from harness import Bench
from harness.measuring import with_servants
from questions.spark.readymade import SUFFIX, ReadyMade

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, PARQUET, CEILING = "tidelog", "Spark's Parquet", "ceiling"
STREAM, TIME = "readings", "ts"

DAY = 86_400 * 1_000_000
"""In microseconds."""
DAYS = 365
MIDDLE_DAY = 200
"""The day that is asked for alone; the first of the year is day 0."""
FILTERED = "voltage"
SHARE = 0.1
"""The part of a day's rows that the filter leaves, about."""

_FILE_ROWS = 1 << 21
_LEAST_FILES = 4
_SCHEMA = data.Sensor.schema.set(0, pa.field(TIME, pa.timestamp("us", tz="UTC")))


@contextmanager
def session(scratch: Path) -> Iterator[SparkSession]:
    """A session of as many threads as everybody may use; Spark's own files go below ``scratch``."""
    from tidelog import spark

    # Workers look there for modules too.
    here = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = here if not before else os.pathsep.join([here, before])
    settings = {
        "spark.driver.memory": "6g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.log.level": "ERROR",
    }
    try:
        started = spark.session(master=f"local[{THREADS}]", app_name="tidelog benchmark", config=settings)
        try:
            started.dataSource.register(ReadyMade)
            with with_servants():
                yield started
        finally:
            started.stop()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@dataclass
class Year:
    """The readings as everybody keeps them, in order of time."""

    spark: SparkSession
    events: int
    root: Path
    limit: float
    """The filter is ``voltage <= limit``."""

    @classmethod
    def make(cls, bench: Bench, spark: SparkSession, events: int) -> Year:
        """Write the readings for the ceiling and for us; Parquet is then written by Spark."""
        import tidelog

        root = bench.workspace.fresh()
        year = cls(spark, events, root, math.inf)
        year.ready.mkdir()
        day: list[pa.RecordBatch] = []
        rows_of_file = math.ceil(min(_FILE_ROWS, events / _LEAST_FILES))
        bench.on_progress("writing the readings of a year")
        with tidelog.open(year.store) as store:
            stream = store.create_stream(STREAM, _SCHEMA, time=TIME)
            number, room, sink = 0, 0, None
            for batch in readings(events):
                stream.append(batch)
                day.append(_within(batch, *year.day))
                while batch.num_rows:
                    if sink is None:
                        sink = pa.ipc.new_file(year.ready / f"{number:06d}{SUFFIX}", _SCHEMA)
                        number, room = number + 1, rows_of_file
                    sink.write_batch(batch.slice(0, room))
                    room, batch = room - min(room, batch.num_rows), batch.slice(room)
                    if not room:
                        sink.close()
                        sink = None
            if sink is not None:
                sink.close()
        rows = pa.Table.from_batches(day, _SCHEMA)
        year.limit = float(pc.quantile(rows[FILTERED], SHARE, interpolation="lower")[0].as_py())
        year.ready_day.mkdir()
        chosen = rows.filter(pc.less_equal(rows[FILTERED], year.limit)).combine_chunks()
        with pa.ipc.new_file(year.ready_day / f"day{SUFFIX}", _SCHEMA) as sink:
            sink.write_table(chosen)
        bench.on_progress("writing Parquet")
        year.read_ready(year.ready).write.parquet(str(year.parquet))
        return year

    @property
    def store(self) -> Path:
        """The directory of our store."""
        return self.root / "store"

    @property
    def parquet(self) -> Path:
        """The directory of Parquet files."""
        return self.root / "parquet"

    @property
    def ready(self) -> Path:
        """The directory with all readings ready-made."""
        return self.root / "ready"

    @property
    def ready_day(self) -> Path:
        """The directory with just the readings of the middle day that the filter leaves, ready-made."""
        return self.root / "ready-day"

    @property
    def day(self) -> tuple[int, int]:
        """The middle day, half-open, in microseconds."""
        start = data.START_MICROS + MIDDLE_DAY * DAY
        return start, start + DAY

    def read_ready(self, directory: Path) -> DataFrame:
        """What the ceiling hands over."""
        return self.spark.read.format(ReadyMade.name()).load(str(directory))

    def read_parquet(self) -> DataFrame:
        """What is in Parquet. Its schema is given: to look for it would be one more job."""
        return self.spark.read.schema(self.schema).parquet(str(self.parquet))

    @property
    def schema(self) -> str:
        """The columns, as Spark writes them."""
        return ", ".join([f"{TIME} timestamp", *(f"{name} double" for name in _SCHEMA.names[1:])])

    def remove(self, bench: Bench) -> None:
        """Remove everything from the disk."""
        bench.workspace.remove(self.root)


def schema_of_year() -> pa.Schema:
    """The columns of the readings."""
    return _SCHEMA


def readings(events: int) -> Iterator[pa.RecordBatch]:
    """The stream *sensor*, stretched to a year."""
    stretch = DAYS * DAY / (events * 1000)
    for batch in data.batches("sensor", events):
        times = data.START_MICROS + ((batch.column(0).to_numpy() - data.START_MICROS) * stretch).astype("int64")
        yield batch.set_column(0, _SCHEMA.field(0), pa.array(times, pa.int64()).cast(_SCHEMA.field(0).type))


def _within(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    first, last = batch.column(0).cast(pa.int64()).to_numpy().searchsorted([start, end])
    return batch.slice(first, last - first)


def consume(frame: DataFrame) -> None:
    """Have every row and column of a frame brought to Spark, and nothing done with them."""
    frame.write.format("noop").mode("overwrite").save()


def fingerprint(frame: DataFrame) -> tuple[int, ...]:
    """What two frames with the same rows have in common, whatever the order: their number, and sums of hashes."""
    rows = frame.selectExpr(f"xxhash64({', '.join(_SCHEMA.names)}) AS hash")
    row = rows.selectExpr("count(*)", "coalesce(bit_xor(hash), 0)", "coalesce(sum(hash & 1048575), 0)").first()
    assert row is not None
    return tuple(row)
