"""Rows with numbers that are not in memory are stored as if they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from tidelog.model.errors import InputError
from tidelog.storage import Container
from tidelog.storage.rows.numbered import NumberedRows

SCHEMA = pa.schema([("ts", pa.int64()), ("text", pa.string()), pa.field("_seq", pa.int64(), nullable=False)])


def plain(rows: int) -> pa.RecordBatch:
    columns = [pa.array(np.arange(rows) * 7), pa.array([f"row {n}" for n in range(rows)])]
    return pa.RecordBatch.from_arrays(columns, names=["ts", "text"])


def numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    numbers = pa.array(np.arange(first, first + batch.num_rows))
    return pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=SCHEMA)


@pytest.mark.parametrize("rows", [1, 8192, 20_000])
def test_leaves_are_the_same(rows: int) -> None:
    batch = plain(rows)
    files = []
    for given in (NumberedRows(batch, 12_345), numbered(batch, 12_345)):
        with Container.create(MemoryMedium(), "c", SCHEMA) as container:
            assert len(container.extend(given)) == -(-rows // 8192)
            container.flush()
            reader = container.snapshot()
            files.append((pa.Table.from_batches(reader.scan()), reader.summaries()[2].tobytes()))
    assert files[0] == files[1]
    assert files[0][0].equals(pa.Table.from_batches([numbered(batch, 12_345)]))


def test_slices_keep_their_numbers() -> None:
    rows = NumberedRows(plain(100), 50)
    for part, first, count in ((rows.slice(10), 60, 90), (rows.slice(10, 5), 60, 5), (rows.slice(200), 150, 0)):
        assert (part.first, part.num_rows) == (first, count)
    assert rows.slice(30, 2).batch.column(0).to_pylist() == [210, 217]


def test_other_columns_are_refused() -> None:
    with Container.create(MemoryMedium(), "c", SCHEMA) as container:
        with pytest.raises(InputError, match="expected ts: int64, text: string"):
            container.extend(NumberedRows(plain(3).select(["ts"]), 0))
        with pytest.raises(InputError, match="was given"):
            container.extend(NumberedRows(numbered(plain(3), 0), 0))
    without = pa.schema([("ts", pa.int64()), ("text", pa.string())])
    with Container.create(MemoryMedium(), "d", without) as container, pytest.raises(InputError, match="was given"):
        container.extend(NumberedRows(plain(3).select(["ts"]), 0))  # its last column is no number
