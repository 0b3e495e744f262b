from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import data
from formats.arctic import ArcticDB
from formats.base import Format
from formats.duckdb_file import DuckDB
from formats.event_store import BareContainer, EventStore
from formats.ours import Tidelog
from formats.parquet import Parquet
from formats.raw import LZ4_BLOCK, LZ4Blocks, Raw
from formats.rocks import RocksDB
from questions.contest import expect_equal

CONTESTANTS = [
    Tidelog(),
    BareContainer(),
    EventStore(),
    Parquet("lz4", row_group_rows=1000),
    Parquet("zstd"),
    Parquet("lz4", split=True, row_group_rows=1000),
    Parquet("zstd", split=True),
    DuckDB(),
    ArcticDB(),
    RocksDB(),
]
ROWS = 6_500


@pytest.mark.parametrize("stream", ["sensor", "stock_strings", "log"])
@pytest.mark.parametrize("format", CONTESTANTS, ids=lambda format: format.name)
def test_everyone_gives_back_what_they_were_given(format: Format, stream: str, tmp_path: Path) -> None:
    reason = format.unavailable()
    if reason is not None:
        pytest.skip(reason)
    # Not from the start: slices of larger tables must be written as what they are.
    table = data.table(stream, ROWS + 10).slice(10)
    format.write(tmp_path, format.prepare(table))
    store = format.open(tmp_path)
    try:
        expect_equal(format.name, pa.Table.from_batches(store.scan(None)), table)
        expect_equal(format.name, pa.Table.from_batches(store.scan(["ts"])), table.select(["ts"]))
        expect_equal(format.name, store.rows(990, 3000), table.slice(990, 3000))
    finally:
        store.close()


@pytest.mark.parametrize("stream", ["sensor", "log"])
def test_raw_writes_all_bytes_of_the_columns(stream: str, tmp_path: Path) -> None:
    table = data.table(stream, ROWS + 10).slice(10)
    raw = Raw()
    raw.write(tmp_path, raw.prepare(table))
    expected = 0
    for field in table.schema:
        if pa.types.is_string(field.type):
            expected += 4 * (ROWS + 1) + sum(len(text.encode()) for text in table[field.name].to_pylist())
        else:
            expected += ROWS * field.type.bit_width // 8
    assert (tmp_path / "raw").stat().st_size == expected
    column = table["ts"].combine_chunks()
    first = (tmp_path / "raw").read_bytes()[: 8 * ROWS]
    assert pa.Array.from_buffers(column.type, ROWS, [None, pa.py_buffer(first)]).equals(column)


def test_lz4_blocks_decompress_to_the_raw_bytes(tmp_path: Path) -> None:
    lz4_block = pytest.importorskip("lz4.block")
    table = data.table("log", 30_000)
    blocks = LZ4Blocks().prepare(table)
    assert max(map(len, blocks)) == LZ4_BLOCK
    LZ4Blocks().write(tmp_path, blocks)
    Raw().write(tmp_path, Raw().prepare(table))
    raw = (tmp_path / "raw").read_bytes()
    assert b"".join(map(bytes, blocks)) == raw
    packed = [lz4_block.compress(block) for block in blocks]
    assert (tmp_path / "lz4").read_bytes() == b"".join(packed)
    assert b"".join(map(lz4_block.decompress, packed)) == raw


def test_a_wrong_answer_is_noticed() -> None:
    table = data.table("sensor", 100)
    with pytest.raises(AssertionError, match="peer gave 99 rows, expected 100"):
        expect_equal("peer", table.slice(1), table)
    shuffled = table.take(pa.array([1, 0, *range(2, 100)]))
    with pytest.raises(AssertionError, match="peer gave other values in the column ts"):
        expect_equal("peer", shuffled, table)
