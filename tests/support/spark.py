"""A local Spark session for tests: starts fast, listens on the loopback interface only, leaves nothing behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.spark.java import find_java

SETTINGS = {
    # Only the quick compiler and the simplest collector: tests end before the others would pay off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def local_session(scratch: Path) -> Iterator[SparkSession]:
    """A session on the Java that tidelog finds; Spark's own files go below ``scratch``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(find_java().home))
        # Workers would run whatever python3 is on the PATH.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_DIRS", str(scratch / "local"))
        builder = SparkSession.builder.master("local[2]").appName("tidelog tests")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        session = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse")).getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def path_without_java(folder: Path) -> str:
    """A value for PATH that has what Spark's launch scripts call, and no Java."""
    folder.mkdir()
    for command in ("bash", "sh", "env", "dirname", "basename", "ps", "uname"):
        for place in os.defpath.split(os.pathsep):
            if Path(place, command).exists():
                (folder / command).symlink_to(Path(place, command))
                break
    return str(folder)
