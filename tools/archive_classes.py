"""Archives the classes that Spark loads: a virtual machine that has the archive needs half the work to start.

Tests start some twenty of them (``tests/support/spark/drivers.py``). The archive stands in ``.venv``, for one Java and
one Spark; a virtual machine passes over one that is not its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
STAMP = ARCHIVE.with_suffix(".txt")
"""What the archive was made of."""

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Classes that cannot be archived, and archives that do not fit, are nobody's concern."""

SECONDS = 600


def main() -> int:
    """Make the archive, unless it is there."""
    from tidelog.spark.runtime.home import light_home
    from tidelog.spark.runtime.java import cache_directory, find_java

    java = find_java()
    key = f"{java.home} {java.version} {light_home(cache_directory(os.environ, 'spark'))}\n"
    if ARCHIVE.exists() and STAMP.exists() and STAMP.read_text() == key:
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        draft = Path(folder) / ARCHIVE.name
        options = f"-XX:ArchiveClassesAtExit={draft} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {QUIET}"
        environ = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(options)}
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, env=environ, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
        if done.returncode or not draft.exists():
            print("the classes of Spark could not be archived; tests do without")
            return 0
        draft.replace(ARCHIVE)
    STAMP.write_text(key)
    print(f"classes of Spark archived in {time.monotonic() - began:.1f} s")
    return 0


def submit_arguments(options: str) -> str:
    """A value for PYSPARK_SUBMIT_ARGS, by which drivers are started with some options of Java."""
    return f"--conf 'spark.driver.defaultJavaOptions={options}' pyspark-shell"


def work(folder: str) -> int:
    """Have Spark load what most of its work needs, and wait for its virtual machine to end."""
    from tidelog import spark as ts

    place = f"{folder}/store"
    config = {"spark.sql.shuffle.partitions": 2, "spark.log.level": "OFF", "spark.local.dir": f"{folder}/local"}
    session = ts.session(master="local[2]", config=config)
    gateway = session.sparkContext._gateway
    assert gateway is not None
    frame = session.range(100).selectExpr("timestamp_micros(id) AS t", "id AS v", "cast(id AS string) AS s")
    ts.write(frame, place, "a", time="t")
    ts.read(session, place, "a").where("v > 3 AND s < '7'").groupBy("s").agg({"v": "sum"}).orderBy("s").collect()
    frame.join(frame, "v").selectExpr("count(*)").toArrow()
    rows = session.readStream.format("tidelog").option("stream", "a").load(place).writeStream.format("tidelog")
    rows = rows.options(stream="b", time="t", checkpointLocation=f"{folder}/state").trigger(availableNow=True)
    rows.start(place).awaitTermination(SECONDS)
    frame.write.parquet(f"{folder}/parquet")
    session.read.parquet(f"{folder}/parquet").count()
    session.stop()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait(SECONDS))


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else work(sys.argv[1]))
