"""Sinks of rows that do not keep arriving: one job of Spark for each run, and every run once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.pipeline.checks.checkpoint import write_durably
from tidelog.spark.pipeline.checks.sinks import sink_texts
from tidelog.spark.pipeline.description.objects import TIDELOG, Pipeline, Sink
from tidelog.spark.pipeline.description.places import is_address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_job(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> None:
    """Write a frame. A job that was interrupted is run again under its number, so that a stream has its rows once."""
    from tidelog.spark.datasource.sink import write_with

    if sink.format != TIDELOG:
        writer = frame.write.format(sink.format).mode(sink.mode or "append").options(**sink_texts(pipeline, sink))
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        writer.save()
        return
    told = sink_texts(pipeline, sink)
    with _Numbers(pipeline, sink) as number:
        if number is not None:
            told |= {"transaction": f"{pipeline.name}/{sink.name}", "transaction_number": str(number)}
        write_with(frame, told.pop("path"), told, overwrite=sink.mode == "overwrite")


class _Numbers:
    """The number of a job, noted before it starts and after it has ended."""

    def __init__(self, pipeline: Pipeline, sink: Sink) -> None:
        place = pipeline.place(pipeline.checkpoint)
        self._file = None if is_address(place) else Path(place) / "jobs" / f"{sink.name}.json"
        self._number = 0

    def __enter__(self) -> int | None:
        if self._file is None:
            return None
        self._file.parent.mkdir(exist_ok=True)
        noted = json.loads(self._file.read_text()) if self._file.exists() else {"started": 0, "done": 0}
        self._number = noted["started"] if noted["started"] > noted["done"] else noted["done"] + 1
        write_durably(self._file, json.dumps({"started": self._number, "done": self._number - 1}))
        return self._number

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None and kind is None:
            write_durably(self._file, json.dumps({"started": self._number, "done": self._number}))
