"""Parquet through PyArrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from formats.base import SCAN_ROWS, THREADS, Band, Format, QueryStore

ROW_GROUP_ROWS = 1 << 20
"""PyArrow's default; large row groups are what its documentation advises for scans."""


class Parquet(Format):
    """A Parquet data set of one file per thread.

    PyArrow's writer has one thread; several files side by side are how it uses several CPUs. ``split`` replaces
    dictionaries by the encodings made for numbers that hardly repeat: byte-stream split for floats, delta for
    integers and for long texts.
    """

    def __init__(self, compression: str, *, split: bool = False, row_group_rows: int = ROW_GROUP_ROWS) -> None:
        label = {"lz4": "LZ4", "zstd": "Zstd"}[compression]
        self.name = f"Parquet {'split ' if split else ''}{label}"
        self._compression = compression
        self._split = split
        self._row_group_rows = row_group_rows

    def unavailable(self) -> str | None:
        """Never: PyArrow is here anyway."""
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The table cut into one part per thread, at a row group's boundary."""
        groups = -(-table.num_rows // self._row_group_rows)
        part = -(-groups // THREADS) * self._row_group_rows
        if groups < THREADS:  # small runs: let each thread have its share all the same
            part = -(-table.num_rows // THREADS)
        return [table.slice(start, part) for start in range(0, table.num_rows, part)]

    def write(self, directory: Path, prepared: Any) -> None:
        """One file per part, side by side."""
        options: dict[str, Any] = {"compression": self._compression, "row_group_size": self._row_group_rows}
        if self._split:
            options |= _split_encodings(prepared[0])
        with ThreadPoolExecutor(THREADS) as pool:
            jobs = [
                pool.submit(pq.write_table, part, directory / f"{number}.parquet", **options)
                for number, part in enumerate(prepared)
            ]
            for job in jobs:
                job.result()

    def open(self, directory: Path) -> QueryStore:
        """Open the files, in order."""
        return _ParquetStore(sorted(directory.glob("*.parquet")))


class _ParquetStore(QueryStore):
    def __init__(self, paths: Sequence[Path]) -> None:
        self._dataset = ds.dataset([str(path) for path in paths], format="parquet")
        self._files = [pq.ParquetFile(path, memory_map=True, pre_buffer=False) for path in paths]
        self._groups = [
            (file, group, file.metadata.row_group(group).num_rows)
            for file in self._files
            for group in range(file.metadata.num_row_groups)
        ]

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The data set's own scanner: threads and read-ahead over row groups and files, order kept."""
        names = list(columns) if columns is not None else None
        return self._dataset.to_batches(columns=names, batch_size=SCAN_ROWS, use_threads=True)

    def rows(self, first: int, count: int) -> pa.Table:
        """The row groups that hold the rows, cut."""
        parts = []
        start = 0
        for file, group, length in self._groups:
            if start < first + count and first < start + length:
                # Two threads cannot share a few thousand rows with profit.
                part = file.read_row_group(group, use_threads=length > SCAN_ROWS)
                lowest = max(first - start, 0)
                parts.append(part.slice(lowest, min(first + count - start, length) - lowest))
            start += length
        return pa.concat_tables(parts)

    def filter(self, band: Band) -> pa.Table:
        """The data set's own filter, which passes over row groups by their statistics."""
        return self._dataset.to_table(filter=_condition(band), batch_size=SCAN_ROWS)

    def count(self, band: Band) -> int:
        """The data set's own count."""
        return self._dataset.count_rows(filter=_condition(band), batch_size=SCAN_ROWS)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def _condition(band: Band) -> Any:
    return (ds.field(band.column) >= band.low) & (ds.field(band.column) <= band.high)


def _split_encodings(table: pa.Table) -> dict[str, Any]:
    """Writer options: for each column the encoding that suits its type and values."""
    encodings = {}
    dictionary = []
    for field in table.schema:
        if pa.types.is_floating(field.type):
            encodings[field.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_string(field.type):
            first = table.column(field.name).chunk(0)
            if pc.count_distinct(first).as_py() < len(first) // 10:
                dictionary.append(field.name)
            else:
                encodings[field.name] = "DELTA_LENGTH_BYTE_ARRAY"
        else:
            encodings[field.name] = "DELTA_BINARY_PACKED"
    return {"use_dictionary": dictionary, "column_encoding": encodings}
