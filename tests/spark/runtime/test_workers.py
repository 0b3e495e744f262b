"""What is done about garbage collections in the workers of Spark."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidelog.spark.runtime import workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture
def as_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name="pyspark.daemon")  # type: ignore[assignment]
    monkeypatch.setattr(workers, "_modules_settled", 0)
    gc.unfreeze()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__main__", main)
        yield
    gc.unfreeze()


def test_an_ordinary_process_is_left_alone() -> None:
    assert not workers.is_worker()
    before = gc.get_freeze_count()
    workers.settle()
    assert gc.get_freeze_count() == before


def test_a_worker_settles_what_it_has_loaded(as_worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    workers.settle()
    first = gc.get_freeze_count()
    assert first > 0
    kept = [[] for _ in range(1000)]  # tracked by collections, but nothing was loaded
    workers.settle()
    assert gc.get_freeze_count() <= first
    monkeypatch.setitem(sys.modules, "loaded_just_now", types.ModuleType("loaded_just_now"))
    workers.settle()
    assert gc.get_freeze_count() >= len(kept)


def test_workers_are_known_for_what_they_are(session: SparkSession) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from tidelog.spark.runtime.workers import is_worker

        for _ in batches:
            yield pa.record_batch({"found": [is_worker()]})

    found = session.range(1, numPartitions=1).mapInArrow(tell, "found boolean").collect()
    assert [row.found for row in found] == [True]
