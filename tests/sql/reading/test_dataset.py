"""A relation of a statement, and what it remembers of a reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.reading.dataset import Relation

BATCH = pa.record_batch({"ts": pa.array([1], pa.timestamp("us"))})


@pytest.fixture
def relation(tmp_path: Path) -> Iterator[Relation]:
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.create_stream("numbers", BATCH.schema, "ts")
        (found,) = store.sql("SELECT * FROM numbers")._query.relations.values()
        yield found


def test_a_reading_that_nobody_wants_to_the_end_is_no_failure(relation: Relation) -> None:
    """The statement has ended, and if it has failed, then by an error of its own."""
    reading = relation.watched(iter([BATCH, BATCH]))
    assert next(reading) == BATCH
    reading.close()
    assert relation.failure is None


def test_what_reading_raises_is_kept(relation: Relation) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise OSError("gone")

    reading = relation.watched(broken())
    next(reading)
    with pytest.raises(OSError, match="gone") as error:
        next(reading)
    assert relation.failure is error.value
