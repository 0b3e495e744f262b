"""Putting rows into another order: as whole columns, into memory that was used before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import integers
from tidelog.storage.codec.buffers import allocate
from tidelog.store import kernels

Ints = npt.NDArray[np.int64]

_threads = threading.local()

_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def order_of(at: Ints) -> Ints | None:
    """The order in which values never fall, equal ones as they came; None if they are in it.

    Values mostly rise. Those that do not are sorted and put between the others, which takes a fraction of the time that
    sorting everything does.
    """
    if not len(at):
        return None
    rising, late, order = _scratch(len(at))
    count = int(kernels.part_late(at, rising, late))
    if count == len(at):
        return None
    late = late[: len(at) - count]
    late = late[np.argsort(at[late], kind="stable")]
    # Of equal ones the rising came first: they came before the greater one that makes a value late.
    kernels.weave(at, rising[:count], late, order)
    return order


def _scratch(size: int) -> tuple[Ints, Ints, Ints]:
    """Memory for two arrays of so many numbers that the thread's next call uses again, and for one that is kept."""
    kept = _words(2 * size, np.int64)
    return kept[:size], kept[size:], np.empty(size, np.int64)


def _words(count: int, word: Any) -> npt.NDArray[Any]:
    """Memory for so many words, which the thread's next call uses again."""
    size = count * np.dtype(word).itemsize
    kept: npt.NDArray[np.uint64] | None = getattr(_threads, "kept", None)
    if kept is None or kept.nbytes < size:
        kept = _threads.kept = np.empty(-(-size // 8), np.uint64)
    found: npt.NDArray[Any] = kept.view(word)[:count]
    return found


def joined_times(batches: Sequence[pa.RecordBatch], index: int) -> Ints:
    """One column of 64-bit values of all batches."""
    parts = [integers(batch.column(index)) for batch in batches]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def gathered(batches: Sequence[pa.RecordBatch], order: Ints) -> pa.RecordBatch:
    """The rows of all batches, of which there is at least one, in an order."""
    schema = batches[0].schema
    columns = [
        _gathered([batch.column(index) for batch in batches], field.type, order) for index, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _gathered(parts: list[pa.Array], type: pa.DataType, order: Ints) -> pa.Array:
    word = None if pa.types.is_boolean(type) else _width(type)
    if word is None or not len(order) or any(part.null_count for part in parts):
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return whole.take(pa.array(order))
    parts = [part for part in parts if len(part)]
    values = [np.frombuffer(part.buffers()[1], word, len(part), part.offset * word().itemsize) for part in parts]
    memory, owner = allocate(len(order) * word().itemsize)
    # Copied even if there is only one part: that loads them into the cache one after the other, much faster than the
    # jumps of the order do. Another mode would check each index, and write to memory of its own first.
    whole = np.concatenate(values, out=_words(sum(map(len, values)), word))
    np.take(whole, order, out=memory.view(word), mode="clip")
    return pa.Array.from_buffers(type, len(order), [None, owner], 0)


def _width(type: pa.DataType) -> Any:
    """The machine word of values of a type; None if they are not such words."""
    is_word = pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_temporal(type)
    return _WORDS.get(type.bit_width) if is_word else None
