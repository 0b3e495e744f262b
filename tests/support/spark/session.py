"""A local Spark session for tests: starts fast, listens on the loopback interface only, leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.spark.runtime.session import session

SETTINGS = {
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": 2,
}


@contextmanager
def local_session(scratch: Path) -> Iterator[SparkSession]:
    """A session on the Java that tidelog finds; Spark's own files go below ``scratch``."""
    places = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Workers can import what tests define for them.
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    started = session(master="local[2]", app_name="tidelog tests", config=SETTINGS | places)
    try:
        yield started
    finally:
        started.stop()


def path_without_java(folder: Path) -> str:
    """A value for PATH that has what Spark's launch scripts call, and no Java."""
    folder.mkdir()
    for command in ("bash", "sh", "env", "dirname", "basename", "ps", "uname"):
        for place in os.defpath.split(os.pathsep):
            if Path(place, command).exists():
                (folder / command).symlink_to(Path(place, command))
                break
    return str(folder)
