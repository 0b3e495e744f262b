"""A checked pipeline in Spark: sources and steps as views, sinks as queries."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import tidelog
from tidelog.model.errors import ExistsError, TidelogError
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.checks.checking import located
from tidelog.spark.pipeline.checks.checkpoint import checkpoint_of
from tidelog.spark.pipeline.checks.sinks import sink_texts
from tidelog.spark.pipeline.checks.sources import build_source
from tidelog.spark.pipeline.description.objects import ONCE, TIDELOG, Pipeline, Sink
from tidelog.spark.pipeline.description.plans import Plan, SinkPlan
from tidelog.spark.pipeline.file.positions import KeyPath
from tidelog.spark.pipeline.file.problems import PipelineError, Problem
from tidelog.spark.runtime.errors import own_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_BEHIND: Final = re.compile(r"\n\nJVM stacktrace|\n=== Streaming Query ===|\nDriver stacktrace|;\n'")
"""What comes behind the message of an error of Spark."""


def build(session: SparkSession, plan: Plan) -> Mapping[str, DataFrame]:
    """Sources and steps by their names, each also a temporary view of the session.

    Raises :class:`PipelineError` for what Spark refuses, at the source or step it is about.
    """
    from pyspark.errors import PySparkException

    pipeline = plan.pipeline
    frames: dict[str, DataFrame] = {}
    path: KeyPath = ()
    try:
        for source in pipeline.sources:
            path = ("sources", source.name)
            with _without_stacks(), own_errors():
                frame = build_source(session, pipeline, source, plan.relations[source.name].columns)
                frame.createOrReplaceTempView(source.name)
            frames[source.name] = frame
        for index, step in enumerate(pipeline.steps):
            path = ("steps", index)
            by_name = {name.lower(): frame for name, frame in frames.items()}
            inputs = {each.name: by_name[each.name.lower()] for each in step.references()}
            with _without_stacks(), own_errors():
                frame = step.build(session, inputs)
                frame.createOrReplaceTempView(step.name)
            frames[step.name] = frame
    except (PySparkException, TidelogError) as error:
        raise PipelineError(located(pipeline, [Problem(path, f"Spark refuses this: {first_lines(error)}")])) from error
    return frames


def create_streams(plan: Plan, frames: Mapping[str, DataFrame]) -> None:
    """Create the streams of sinks that are not there yet, with the options that the pipeline says."""
    from tidelog.spark.datasource.types import stored_schema

    for each in plan.sinks:
        sink = each.sink
        if sink.format != TIDELOG or sink.time is None:
            continue
        with tidelog.open(plan.pipeline.place(str(sink.path)), maintenance="manual") as store:
            if str(sink.stream) in store:
                continue
            schema = stored_schema(frame_of(frames, sink).schema, sink.time)
            options: dict[str, Any] = dict(sink.stream_options)
            try:
                store.create_stream(str(sink.stream), schema, **options)
            except ExistsError:
                continue  # another pipeline was quicker


def start(plan: Plan, each: SinkPlan, frames: Mapping[str, DataFrame], *, once: bool) -> StreamingQuery:
    """The query that writes a sink of rows that keep arriving."""
    pipeline, sink = plan.pipeline, each.sink
    writer = (
        frame_of(frames, sink)
        .writeStream.format(sink.format)
        .queryName(f"{pipeline.name}/{sink.name}")
        .outputMode(sink.mode or "append")
        .options(**sink_texts(pipeline, sink))
        .option("checkpointLocation", checkpoint_of(pipeline, sink))
    )
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    trigger = sink.trigger or pipeline.trigger
    if once or trigger == ONCE:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=_interval(trigger))
    with own_errors():
        return writer.start()


def frame_of(frames: Mapping[str, DataFrame], sink: Sink) -> DataFrame:
    """What a sink writes."""
    return next(frame for name, frame in frames.items() if name.lower() == sink.input.lower())


def drop_views(session: SparkSession, pipeline: Pipeline) -> None:
    """Take the views of a pipeline out of a session that others use."""
    names = [*(source.name for source in pipeline.sources), *(step.name for step in pipeline.steps)]
    for name in names:
        session.catalog.dropTempView(name)


def _interval(trigger: str) -> str:
    return f"{int(read_duration(trigger) * 1000)} milliseconds"


def first_lines(error: BaseException) -> str:
    """The message without the plans and stacks that Spark prints behind it."""
    text = _BEHIND.split(str(error), maxsplit=1)[0]
    return " ".join(line.strip() for line in text.strip().splitlines()[:5] if line.strip())


@contextmanager
def _without_stacks() -> Iterator[None]:
    """Have PySpark not print errors that are told anyway: it writes them to standard error, with their stacks."""
    from pyspark.logger import PySparkLogger

    # Of PySpark's own class: whoever asks first decides on it, and errors are written by what only that has.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
