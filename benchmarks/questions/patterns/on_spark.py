"""How long does a pattern take on Spark, against the same shuffle and sort into an Arrow function that does nothing?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from formats import ours
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.patterns import clauses
from questions.spark.year import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TITLE: Final = "Spark, a thousand keys"
NOTHING: Final = "shuffle, sort, no search"
_FILES: Final = 8
_CLAUSE: Final = """PARTITION BY k ORDER BY t
    MEASURES first(t) AS "first", last(t) AS "last", last(price) AS price
    PATTERN (S D+ U+) DEFINE D AS price < PREV(price), U AS price > PREV(price)"""


def ask(bench: Bench, events: int, bound: Bound) -> None:
    """Race a pattern over files of Parquet against rows that come to tasks in the same way and are passed over."""
    scratch = bench.workspace.fresh()
    bench.on_progress("starting Spark")
    with session(scratch) as spark:
        ask_in(bench, spark, events, bound)
    bench.workspace.remove(scratch)


def ask_in(bench: Bench, spark: SparkSession, events: int, bound: Bound) -> None:
    """The same, in a session that is there."""
    from tidelog import spark as tl
    from tidelog.spark.operators.inputs import column_of, hash_of

    files = bench.workspace.fresh()
    table = clauses.rows(events)
    share = -(-events // _FILES)
    for number in range(_FILES):
        pq.write_table(table.slice(number * share, share), files / f"{number}.parquet")
    del table
    rows = spark.read.parquet(str(files))

    def consumed(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def found(_: Path) -> None:
        consumed(tl.row_pattern(rows, _CLAUSE))

    def passed(_: Path) -> None:
        used = rows.select("k", "t", "price")
        moved = used.repartition(hash_of(used.schema, ("k",)))
        ordered = moved.sortWithinPartitions(column_of("k").asc(), column_of("t").asc_nulls_last())
        consumed(ordered.mapInArrow(_nothing, used.schema))

    outcomes = bench.race(TITLE, [Case(ours.NAME, found), Case(NOTHING, passed)], rehearsed=False)
    bench.workspace.remove(files)
    rate = events / 1e6
    figures = {name: Figures.of(outcome, lambda sample: rate / sample.wall) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(Question(TITLE, "M rows/s", events, mine, figures, [Comparison(NOTHING, (NOTHING,), bound)]))


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does that does nothing."""
    for batch in batches:
        yield batch.slice(0, 0)
