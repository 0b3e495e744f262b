"""Rows in the order of a query's partitions and keys, put there in memory.

Partitions are numbered in the order of their values and rows sorted by these numbers, sixteen bits at a time, which
takes a few passes and compares nothing. Rows that come in the order of the keys need no more than that. Only numbers of
rows are sorted; columns are gathered a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.syntax import OrderKey, RowPattern

BYTES_PER_ROW: Final = 12
"""What sorting takes of memory besides the rows, about."""
_BATCH: Final = 1 << 16
_DIGIT: Final = 16
_LARGEST: Final = 1 << 62


def can_sort(query: RowPattern) -> bool:
    """Whether the keys of a query are of types that are sorted here: as DuckDB sorts them."""
    keys = [query.schema.field(name).type for name in query.partition]
    order = [query.schema.field(each.column).type for each in query.order]
    return all(_is_integer(each) or _is_text(each) for each in keys) and all(map(_is_integer, order))


def sorted_batches(query: RowPattern, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table with the query's columns, by partition and in their order; equal ones as they come. Lazy."""
    rows = rows.combine_chunks()
    places = _places(query, rows)
    if places is None:
        yield from rows.to_batches(max_chunksize=_BATCH)
        return
    columns = [each.chunk(0) for each in rows.columns]
    for first in range(0, len(places), _BATCH):
        chosen = integer_column(places[first : first + _BATCH])
        yield pa.RecordBatch.from_arrays([each.take(chosen) for each in columns], schema=rows.schema)


def _places(query: RowPattern, rows: pa.Table) -> Ints | None:
    """The rows in order; None if they are."""
    if not rows.num_rows:
        return None
    places = _by_order(query.order, rows)
    if not query.partition:
        return places
    codes = _numbered(rows, query.partition)
    if places is not None:
        codes = codes[places]
    found = _by_codes(codes)
    if found is None:
        return places
    return found if places is None else places[found]


def _by_order(order: tuple[OrderKey, ...], rows: pa.Table) -> Ints | None:
    """The rows in the order of keys; None if they are."""
    keys: list[Any] = []
    for each in order:
        column = _array(rows, each.column)
        if column.null_count:
            missing = np.asarray(column.is_null())
            keys.append(~missing if each.nulls_first else missing)
        values = _integers(column)
        keys.append(~values if each.is_descending else values)
    if not keys or (len(keys) == 1 and bool((keys[0][1:] >= keys[0][:-1]).all())):
        return None
    return np.lexsort(keys[::-1])


def _numbered(rows: pa.Table, names: tuple[str, ...]) -> npt.NDArray[np.uint64]:
    """Numbers of partitions that are ordered as their values are, nulls behind all others."""
    whole: Any = np.zeros(rows.num_rows, np.uint64)
    total = 1
    for name in names:
        codes, count = _codes(_array(rows, name))
        if total * count >= _LARGEST:
            whole, total = _fewer(whole)
            codes, count = _fewer(codes)
        whole = codes if total == 1 else whole * np.uint64(count) + codes
        total *= count
    return np.asarray(whole, np.uint64)


def _fewer(codes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], int]:
    """The same order with numbers that are all used."""
    distinct, places = np.unique(codes, return_inverse=True)
    return places.astype(np.uint64), len(distinct)


def _codes(column: pa.Array) -> tuple[npt.NDArray[np.uint64], int]:
    """The values of a column as numbers in their order, and how many there may be."""
    if _is_text(column.type):
        coded = column.dictionary_encode()
        ranks = np.empty(len(coded.dictionary) + 1, np.uint64)
        ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(coded.dictionary))
        ranks[-1] = len(coded.dictionary)
        places = np.asarray(coded.indices.fill_null(len(coded.dictionary)))
        return ranks[places], len(ranks)
    values = _integers(column)
    missing = np.asarray(column.is_null()) if column.null_count else np.zeros(0, np.bool_)
    known = values[~missing] if len(missing) else values
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if high - low < _LARGEST:
        codes, last = values.astype(np.uint64) - np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF), high - low + 1
    else:
        distinct, places = np.unique(values, return_inverse=True)
        codes, last = places.astype(np.uint64), len(distinct)
    if len(missing):
        codes[missing] = last
    return codes, last + 1


def _by_codes(codes: npt.NDArray[np.uint64]) -> Ints | None:
    """The rows in the order of numbers, equal ones as they are; None if they are in it."""
    if bool((codes[1:] >= codes[:-1]).all()):
        return None
    places: Any = None
    for shift in range(0, max(int(codes.max()).bit_length(), 1), _DIGIT):
        digits = (codes >> np.uint64(shift)).astype(np.uint16)
        found = np.argsort(digits if places is None else digits[places], kind="stable")
        places = found if places is None else places[found]
    return np.asarray(places, np.int64)


def _is_integer(kind: pa.DataType) -> bool:
    is_known = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    return is_known or pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _array(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).chunk(0)


def _integers(column: pa.Array) -> Ints:
    """Values as integers; any for nulls."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    column = column.cast(pa.int64())
    return np.asarray(column.fill_null(0) if column.null_count else column)
