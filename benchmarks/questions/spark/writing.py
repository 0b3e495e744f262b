"""How fast do rows that Spark has become durable: in one job, in the batches of a streaming query, in a pipeline?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import split
from questions.spark.readymade import ReadyMade
from questions.spark.year import CEILING, OURS, PARQUET, STREAM, TIME, Year, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITE, STREAMING, PIPELINE = "write, sorted by time", "streaming sink", "pipeline, end to end"

BATCHES, QUICK_BATCHES = 8, 1
"""Micro-batches of a streaming query."""


@dataclass(frozen=True)
class WriteBounds:
    """Floors and targets; None: for information only."""

    against_parquet: Bound
    against_ceiling: Bound | None = None


def ask_write(bench: Bench, year: Year, bounds: WriteBounds) -> None:
    """Race writing a frame after the same repartitioning and sort by time: what :func:`tidelog.spark.write` does."""
    from tidelog import spark

    def in_order() -> DataFrame:
        return year.read_parquet().repartitionByRange(TIME).sortWithinPartitions(TIME)

    works: dict[str, Callable[[Path], Any]] = {
        OURS: lambda to: spark.write(year.read_parquet(), to, STREAM, time=TIME),
        CEILING: lambda to: in_order().write.format(ReadyMade.name()).mode("append").save(str(to)),
        PARQUET: lambda to: in_order().write.mode("append").parquet(str(to)),
    }
    _ask(bench, year, WRITE, works, bounds, "rows come from Parquet")


def ask_streaming(bench: Bench, year: Year, bounds: WriteBounds) -> None:
    """Race the sinks of a streaming query over the same files, a few in each micro-batch."""
    files = len(list(year.parquet.glob("*.parquet")))
    step = -(-files // (QUICK_BATCHES if bench.quick else BATCHES))

    def run(format: str, **options: str) -> Callable[[Path], Any]:
        def work(to: Path) -> None:
            source = year.spark.readStream.schema(year.schema).option("maxFilesPerTrigger", step)
            rows = source.parquet(str(year.parquet))
            started = (
                rows.writeStream.format(format)
                .options(**options, path=str(to / "data"), checkpointLocation=str(to / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            started.awaitTermination()

        return work

    works = {OURS: run("tidelog", stream=STREAM, time=TIME), PARQUET: run("parquet")}
    _ask(bench, year, STREAMING, works, bounds, f"{-(-files // step)} micro-batches")


def ask_pipeline(bench: Bench, year: Year, bounds: WriteBounds) -> None:
    """Race a pipeline over files that are there, through a query, against the same written by hand, into Parquet.

    What is timed is everything from the call that checks the pipeline to the end of its last batch.
    """
    from tidelog.spark import pipeline

    files = len(list(year.parquet.glob("*.parquet")))
    step = -(-files // (QUICK_BATCHES if bench.quick else BATCHES))
    query = "SELECT * FROM readings WHERE ts IS NOT NULL"

    def ours(to: Path) -> None:
        options = {"maxFilesPerTrigger": step, "pathGlobFilter": "*.parquet"}
        made = pipeline.Pipeline(
            name="readings",
            checkpoint=str(to / "checkpoint"),
            sources=[
                pipeline.Source(
                    name="readings", format="parquet", path=str(year.parquet), schema=year.schema, options=options
                )
            ],
            steps=[pipeline.Sql(name="valid", sql=query)],
            sinks=[pipeline.Sink(name="readings", input="valid", path=str(to / "data"), stream=STREAM, time=TIME)],
        )
        pipeline.run(made, session=year.spark, once=True)

    def by_hand(to: Path) -> None:
        source = year.spark.readStream.schema(year.schema).option("maxFilesPerTrigger", step)
        source.parquet(str(year.parquet)).createOrReplaceTempView("readings")
        started = (
            year.spark.sql(query)
            .writeStream.format("parquet")
            .options(path=str(to / "data"), checkpointLocation=str(to / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()

    _ask(bench, year, PIPELINE, {OURS: ours, PARQUET: by_hand}, bounds, f"{-(-files // step)} micro-batches, one query")


def _ask(
    bench: Bench, year: Year, name: str, works: dict[str, Callable[[Path], Any]], bounds: WriteBounds, note: str
) -> None:
    cases = [Case(contestant, work) for contestant, work in works.items()]
    outcomes = bench.race(name, cases, writes=True, keep_last=True)
    _check(year, name, {contestant: outcome.directory for contestant, outcome in outcomes.items()})
    for outcome in outcomes.values():
        assert outcome.directory is not None
        bench.workspace.remove(outcome.directory)
    ours, peers = split(
        {
            contestant: Figures.of(found, lambda sample: year.events / sample.wall / 1e6)
            for contestant, found in outcomes.items()
        }
    )
    comparisons = [Comparison(PARQUET, (PARQUET,), bounds.against_parquet)]
    if CEILING in works:
        comparisons.insert(0, Comparison(CEILING, (CEILING,), bounds.against_ceiling))
    bench.answer(Question(name, "M rows/s, durable", year.events, ours, peers, comparisons, note=note))


def _check(year: Year, name: str, directories: dict[str, Path | None]) -> None:
    """Raise unless what was written last is what was there to be written."""
    from tidelog import spark

    expected = fingerprint(year.read_parquet())
    kept = directories[PARQUET]
    assert kept is not None
    is_streamed = name in (STREAMING, PIPELINE)
    where = kept / "data" if is_streamed else kept
    ours = directories[OURS]
    assert ours is not None
    found = {
        PARQUET: fingerprint(year.spark.read.schema(year.schema).parquet(str(where))),
        OURS: fingerprint(spark.read(year.spark, ours / "data" if is_streamed else ours, STREAM)),
    }
    for contestant, hashes in found.items():
        if hashes != expected:
            raise AssertionError(f"{contestant} has rows with the number and hashes {hashes}, expected {expected}")
