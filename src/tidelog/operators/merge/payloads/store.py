"""Payloads that are kept, each once, for as long as somebody may still speak of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import batch_of, integer_column
from tidelog.model.errors import InputError
from tidelog.operators.base import Ints
from tidelog.operators.merge.payloads import kernels
from tidelog.operators.merge.payloads.hashing import Words, hash_rows, numbers_of
from tidelog.operators.state import State, packed, unpacked

_FEW: Final = 1024
"""Payloads that are kept though nobody needs them, rather than looking for those that are."""
_MOST_PARTS: Final = 64


class Payloads:
    """Rows of some columns by their numbers, which are made of the values of ``key``, a part of the columns.

    Rows that agree in their keys are one payload: the first that comes is kept.
    """

    def __init__(self, schema: pa.Schema, key: tuple[str, ...]) -> None:
        self.schema = schema
        self.key = key
        self._parts: list[tuple[int, pa.RecordBatch]] = []
        self._packed: dict[int, pa.Buffer] = {}
        self._next = 0
        self._count = 0
        self._kept = 0
        self._numbers = np.zeros(_FEW, np.int64)
        self._seconds = np.zeros(_FEW, np.uint64)
        self._slots = np.zeros(2 * _FEW, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def memory(self) -> int:
        """The bytes of what is kept."""
        own = self._numbers.nbytes + self._seconds.nbytes + self._slots.nbytes
        return own + sum(int(part.get_total_buffer_size()) for _, part in self._parts)

    @property
    def has_part(self) -> bool:
        """Whether a key is only a part of the columns, so that payloads of one key differ from start to start."""
        return len(self.key) < len(self.schema.names)

    def hashes(self, batch: pa.RecordBatch, starts: Ints) -> Words:
        """What rows are known by; their numbers are :func:`~.hashing.numbers_of` these.

        If the key is a part of the columns, the starts of events belong to it.
        """
        columns = [batch.column(name) for name in self.key]
        return hash_rows([*columns, integer_column(starts)] if self.has_part else columns, batch.num_rows)

    def whole_numbers(self, batch: pa.RecordBatch) -> Ints:
        """Numbers of rows by all their columns."""
        return numbers_of(hash_rows([batch.column(name) for name in self.schema.names], batch.num_rows))

    def add(self, batch: pa.RecordBatch, hashes: Words, numbers: Ints, rows: Ints) -> None:
        """Keep the payloads of some rows of a batch."""
        self._make_room(len(rows))
        firsts = np.empty(len(self._numbers), np.int64)
        before = self._count
        count = kernels.add_payloads(
            numbers, np.ascontiguousarray(hashes[1]), rows, before, self._numbers, self._seconds, self._slots, firsts
        )
        if count < 0:
            raise InputError(
                "two payloads have the same hash of 63 bits; give a key of other columns", row=int(-1 - count)
            )
        self._count = int(count)
        if self._count > before and self.schema.names:
            self._put(batch.select(self.schema.names).take(integer_column(firsts[before : self._count])))

    def _make_room(self, rows: int) -> None:
        need = self._count + rows
        if need <= len(self._numbers):
            return
        capacity = max(2 * len(self._numbers), need)
        self._numbers = np.concatenate([self._numbers, np.zeros(capacity - len(self._numbers), np.int64)])
        self._seconds = np.concatenate([self._seconds, np.zeros(capacity - len(self._seconds), np.uint64)])
        self._index()

    def _index(self) -> None:
        self._slots = np.zeros(1 << (2 * len(self._numbers) - 1).bit_length(), np.int64)
        kernels.index_payloads(self._numbers, self._count, self._slots)

    def _put(self, rows: pa.RecordBatch) -> None:
        self._parts.append((self._next, rows))
        self._next += 1
        if len(self._parts) > _MOST_PARTS:
            sizes = [part.num_rows for _, part in self._parts]
            at = min(range(len(sizes) - 1), key=lambda place: sizes[place] + sizes[place + 1])
            both = pa.concat_batches([self._parts.pop(at)[1], self._parts.pop(at)[1]])
            self._parts.insert(at, (self._next, both))
            self._next += 1

    def take(self, numbers: Ints) -> pa.RecordBatch:
        """The rows of payloads that are kept."""
        places = np.empty(len(numbers), np.int64)
        kernels.find_payloads(numbers, self._numbers, self._slots, places)
        return self._rows(places)

    def _rows(self, places: Ints) -> pa.RecordBatch:
        if not self.schema.names:
            return batch_of([], self.schema, len(places))
        table = pa.Table.from_batches([part for _, part in self._parts], self.schema)
        taken = table.take(integer_column(places)).combine_chunks()
        columns = [column.combine_chunks() for column in taken.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def are_many(self) -> bool:
        """Whether there are so many more than were kept last time that it is time to forget some."""
        return self._count > 2 * self._kept + _FEW

    def keep(self, used: Ints) -> None:
        """Forget all payloads but some."""
        places = np.empty(len(used), np.int64)
        kernels.find_payloads(used, self._numbers, self._slots, places)
        is_used = np.zeros(self._count, np.bool_)
        is_used[places[places >= 0]] = True
        places = np.flatnonzero(is_used)
        self._kept = len(places)
        if 2 * len(places) > self._count:
            return
        rows = self._rows(places) if len(places) else None
        capacity = max(_FEW, 2 * len(places))
        numbers, seconds = self._numbers[places], self._seconds[places]
        self._numbers, self._seconds = np.zeros(capacity, np.int64), np.zeros(capacity, np.uint64)
        self._numbers[: len(places)], self._seconds[: len(places)] = numbers, seconds
        self._count = len(places)
        self._index()
        self._parts = []
        if rows is not None:
            self._put(rows)

    def snapshot(self) -> State:
        """What is kept."""
        self._packed = {name: self._packed.get(name) or packed(part) for name, part in self._parts}
        own, self._next = self._next, self._next + 1
        core = {"next": self._next, "kept": self._kept, "parts": [name for name, _ in self._parts], "hashes": own}
        hashes = np.concatenate([self._numbers[: self._count], self._seconds[: self._count].view(np.int64)])
        chunks = {str(name): content for name, content in self._packed.items()}
        return State(core, chunks | {str(own): pa.py_buffer(hashes.tobytes())})

    def restore(self, state: State) -> None:
        """Keep the same."""
        self._next, self._kept = state.core["next"], state.core["kept"]
        for name in state.core["parts"]:
            rows = unpacked(state.chunks[str(name)], self.schema)
            self._packed[name] = state.chunks[str(name)]
            self._parts.append((name, rows))
        hashes = np.frombuffer(state.chunks[str(state.core["hashes"])], np.int64)
        count = len(hashes) // 2
        self._make_room(count)
        self._numbers[:count], self._seconds[:count] = hashes[:count], hashes[count:].view(np.uint64)
        self._count = count
        self._index()
