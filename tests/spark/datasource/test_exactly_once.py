"""Every row once, whatever fails: an exception at each step of a read, a write, a commit and an abort.

Faults are thrown into the processes that Spark runs the steps in, see :mod:`support.spark.faulty_source`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidelog
from support.spark.faulty_source import NAME, Faults, FaultySource
from tidelog.engine.stream import writer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
ROWS = 200
TASK_STEPS = ["task begins", "task writes", "task ends"]
READ_STEPS = ["read begins", "read goes on", "read ends"]
DRIVER_STEPS = ["commit begins", "commit ends"]


@pytest.fixture(scope="module")
def faulty(session: SparkSession) -> SparkSession:
    session.dataSource.register(FaultySource)
    return session


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path / "0").next()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a stream of rows to copy, of several leaves, and one to copy them to."""
    path = tmp_path / "store"
    with tidelog.open(path) as opened:
        opened.create_stream("in", schema=SCHEMA, time="ts", leaf_rows=16).append(rows(0, ROWS))
        opened.create_stream("out", schema=SCHEMA, time="ts")
    return path


def rows(first: int, last: int) -> dict[str, list[int]]:
    return {"ts": list(range(first, last)), "v": list(range(first, last))}


def values(path: Path) -> list[int]:
    with tidelog.open(path, read_only=True) as store:
        return sorted(store.stream("out").scan(columns=["v"]).read_all()["v"].to_pylist())


def check_files(path: Path, *, all_told: bool) -> None:
    """Check what is on disk: nothing is damaged, and what belongs to nobody can be told and removed.

    ``all_told`` says that each task could tell the driver what it had written: then nothing may be left at all.
    """
    before = values(path)
    with tidelog.open(path) as store:
        assert store.check() == []
        orphans = store.orphans()
        assert all("/splits/" in each for each in orphans)
        if all_told:
            assert orphans == []
        assert sorted(store.remove_orphans(0)) == sorted(orphans)
        stream = store.stream("out")
        folder = path / writer_of(stream).manifests.directory / "splits"
        on_disk = {each.name for each in folder.iterdir() if "lock" not in each.name}
        assert on_disk == set(writer_of(stream).manifests.load().splits)
        assert store.check() == []
    assert values(path) == before


# -- batch jobs -------------------------------------------------------------------------------------------------------


def frame_of(session: SparkSession) -> DataFrame:
    return session.range(0, ROWS, 1, 2).selectExpr("id AS ts", "id AS v")


def write(frame: DataFrame, store: Path, faults: Faults, mode: str, **options: Any) -> None:
    writer = frame.write.format(NAME).mode(mode).options(stream="out", faults=faults.folder, **options)
    writer.save(str(store))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("steps", [["writer", *DRIVER_STEPS], TASK_STEPS], ids=["driver", "tasks"])
def test_a_job_that_failed_is_run_again(
    faulty: SparkSession, store: Path, faults: Faults, mode: str, steps: list[str]
) -> None:
    with tidelog.open(store) as opened:
        opened.stream("out").append(rows(1000, 1010))
    old = list(range(1000, 1010))
    new = [*range(ROWS), *(old if mode == "append" else [])]
    number = {"transaction": "load", "transaction_number": 1}
    for step in steps:
        faults = faults.next(step)
        with pytest.raises(Exception, match=f"Fault: at step '{step}'"):
            write(frame_of(faulty), store, faults, mode, **number)
        assert faults.left() == []
        assert values(store) == (new if step == "commit ends" else old)  # all or nothing, whatever Spark was told
    write(frame_of(faulty), store, faults, mode, **number)
    assert values(store) == new
    check_files(store, all_told=steps is not TASK_STEPS)


def test_an_abort_that_fails_leaves_files_that_are_found(faulty: SparkSession, store: Path, faults: Faults) -> None:
    number = {"transaction": "load", "transaction_number": 1}
    for step in ("task writes", *DRIVER_STEPS):
        faults = faults.next(step, "abort")
        with pytest.raises(Exception, match=r"Fault|Writing job failed"):
            write(frame_of(faulty), store, faults, "append", **number)
        assert faults.left() == []
        assert values(store) == (list(range(ROWS)) if step == "commit ends" else [])
    write(frame_of(faulty), store, faults, "append", **number)
    assert values(store) == list(range(ROWS))
    with tidelog.open(store) as opened:
        assert len(opened.orphans()) >= 2  # of the job whose tasks were all done
    check_files(store, all_told=False)


def test_jobs_with_numbers_of_their_own(faulty: SparkSession, store: Path, faults: Faults) -> None:
    few = faulty.range(3).selectExpr("id AS ts", "id AS v")
    for name, number in [("a", 0), ("a", 0), ("b", 0), ("a", 5), ("a", 4)]:
        write(few, store, faults, "append", transaction=name, transaction_number=number)
    assert values(store) == sorted(3 * [0, 1, 2])
    check_files(store, all_told=True)


def test_a_read_that_fails_writes_nothing(faulty: SparkSession, store: Path, faults: Faults) -> None:
    def copy() -> None:
        reader = faulty.read.format(NAME).options(stream="in", faults=faults.folder, partition_size=64)
        write(reader.load(str(store)), store, faults, "append")

    for step in ("reader", "partitions", *READ_STEPS):
        faults = faults.next(step)
        with pytest.raises(Exception, match=f"Fault: at step '{step}'"):
            copy()
        assert values(store) == []
    copy()
    assert values(store) == list(range(ROWS))
    check_files(store, all_told=False)


# -- streaming queries ------------------------------------------------------------------------------------------------


def run_query(session: SparkSession, store: Path, faults: Faults) -> None:
    """Copy everything there is, in batches that two tasks read; raises what the query ended with."""
    query = (
        session.readStream.format(NAME)
        .options(stream="in", faults=faults.folder, partition_size=64, maxRowsPerBatch=120)
        .load(str(store))
        .writeStream.format(NAME)
        .options(stream="out", faults=faults.folder, checkpointLocation=str(store.parent / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(store))
    )
    assert query.awaitTermination(600)


def test_a_query_whose_driver_fails(faulty: SparkSession, store: Path, faults: Faults) -> None:
    """Each run fails at another step of the plan or of the commit, which Spark repeats."""
    first = list(range(120))  # the first batch, by the order of arrival
    plan = ["streamReader", "initialOffset", "available now", "latestOffset", "partitions", "streamWriter"]
    for step in (*plan, "commit begins", "commit ends", "commit ends", "source commit"):
        faults = faults.next(step)
        with pytest.raises(Exception, match=f"Fault: at step '{step}'"):
            run_query(faulty, store, faults)
        assert faults.left() == []
        assert values(store) == (first if step in ("commit ends", "source commit") else [])
    run_query(faulty, store, faults)
    assert values(store) == list(range(ROWS))
    check_files(store, all_told=True)


def test_a_query_whose_tasks_fail(faulty: SparkSession, store: Path, faults: Faults) -> None:
    for step in (*READ_STEPS, *TASK_STEPS):
        faults = faults.next(step)
        with pytest.raises(Exception, match=f"Fault: at step '{step}'"):
            run_query(faulty, store, faults)
        assert faults.left() == []
        assert values(store) == []
    run_query(faulty, store, faults)
    assert values(store) == list(range(ROWS))
    check_files(store, all_told=False)


def test_a_query_whose_aborts_fail(faulty: SparkSession, store: Path, faults: Faults) -> None:
    for step in ("task ends", *DRIVER_STEPS):
        faults = faults.next(step, "abort")
        with pytest.raises(Exception, match="STREAM_FAILED"):
            run_query(faulty, store, faults)
        assert faults.left() == []
        assert values(store) == (list(range(120)) if step == "commit ends" else [])
    run_query(faulty, store, faults)
    assert values(store) == list(range(ROWS))
    check_files(store, all_told=False)
