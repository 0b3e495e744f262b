"""A driver of Spark that copies and writes until it is killed: ``python driver_process.py STORE FOLDER ROWS JOBS``.

One query copies the stream ``in`` to ``out``, ``ROWS`` rows a batch. Meanwhile numbered jobs write into ``jobs``, one
after the other, ``JOBS`` of them in all; each is noted in ``FOLDER/done`` when it has returned. The process prints
``ready`` when it has done a job, and ends when nothing is left to do. Started again, it goes on where the notes and the
checkpoint end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from support.spark.session import local_session
from tidelog import spark as ts

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
JOB_ROWS = 100


def rows_of(job: int) -> range:
    """The rows that a job writes."""
    return range(job * JOB_ROWS, (job + 1) * JOB_ROWS)


def work(session: SparkSession, store: str, folder: Path, rows: int, jobs: int) -> None:
    """Go on where the notes and the checkpoint end, up to the end."""
    notes = folder / "done"
    notes.touch()
    query = (
        session.readStream.format("tidelog")
        .options(stream="in", maxRowsPerBatch=rows, partition_size=256)
        .load(store)
        .writeStream.format("tidelog")
        .options(stream="out", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(store)
    )
    for job in range(len(notes.read_text().splitlines()), jobs):
        own = rows_of(job)
        frame = session.range(own.start, own.stop, 1, 2).selectExpr("id AS ts", "id AS v")
        ts.write(frame, store, "jobs", sort=False, transaction=("jobs", job))
        with notes.open("a") as file:
            file.write(f"{job}\n")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    query.awaitTermination()


def main() -> None:
    store, folder, rows, jobs = sys.argv[1:]
    with local_session(Path(folder) / "scratch") as session:
        work(session, store, Path(folder), int(rows), int(jobs))


if __name__ == "__main__":
    main()
