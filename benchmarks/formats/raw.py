"""The yardsticks: the table's buffers as they are, and cut into LZ4 blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import THREADS, WriteOnly

LZ4_BLOCK = 256 << 10
"""Bytes of a block; the ratio hardly grows beyond LZ4's window of 64 KiB, calls from Python get fewer."""

_BLOCKS_AT_ONCE = 256


class Raw(WriteOnly):
    """The raw bytes of all columns in one file: what the disk and the system can do."""

    name = "raw"

    def unavailable(self) -> str | None:
        """Never: it needs nothing."""
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The buffers, without what a slice does not use of them."""
        return list(buffers(table))

    def write(self, directory: Path, prepared: Any) -> None:
        """One write per buffer, one sync."""
        with open(directory / "raw", "wb", buffering=0) as file:
            for buffer in prepared:
                _write_all(file.fileno(), buffer)
            os.fsync(file.fileno())


class LZ4Blocks(WriteOnly):
    """The raw bytes cut into blocks, each compressed with LZ4 on its own."""

    name = "LZ4 blocks"

    def unavailable(self) -> str | None:
        """Why lz4 cannot be used."""
        try:
            import lz4.block  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The blocks to compress, as views."""
        return [
            view[start : start + LZ4_BLOCK]
            for view in map(memoryview, buffers(table))
            for start in range(0, len(view), LZ4_BLOCK)
        ]

    def write(self, directory: Path, prepared: Any) -> None:
        """Compress on all threads, write in order, sync once."""
        import lz4.block

        with ThreadPoolExecutor(THREADS) as pool, open(directory / "lz4", "wb", buffering=0) as file:
            for start in range(0, len(prepared), _BLOCKS_AT_ONCE):
                some = prepared[start : start + _BLOCKS_AT_ONCE]
                _write_all(file.fileno(), b"".join(pool.map(lz4.block.compress, some)))
            os.fsync(file.fileno())


def buffers(table: pa.Table) -> Iterator[pa.Buffer]:
    """The buffers of all columns, batch by batch, cut to what the batches use of them."""
    for batch in table.to_batches():
        for column in batch.columns:
            if column.null_count:
                raise ValueError("columns with nulls are not supported: their validity bits would be left out")
            if pa.types.is_string(column.type):
                _, offsets, text = column.buffers()
                width = 4
                used = offsets.slice(column.offset * width, (len(column) + 1) * width)
                first, last = memoryview(used).cast("i")[0], memoryview(used).cast("i")[len(column)]
                yield used
                yield text.slice(first, last - first)
            else:
                _, values = column.buffers()
                width = column.type.bit_width // 8
                yield values.slice(column.offset * width, len(column) * width)


def _write_all(descriptor: int, content: Any) -> None:
    view = memoryview(content).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]
