"""Streaming queries over files, one for each micro-batch, run until all that is there has been read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def put(folder: Path, tables: list[pa.Table]) -> None:
    """Add files, each for one micro-batch."""
    folder.mkdir(exist_ok=True)
    before = len(list(folder.iterdir()))
    for number, table in enumerate(tables, before):
        path = folder / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def run(frame: DataFrame, folder: Path, checkpoint: str = "checkpoint") -> Any:
    """Run a query, which adds to files, for all that is there."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query
