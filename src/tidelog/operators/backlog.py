"""Rows of one input in order, kept until nobody needs them any more."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidelog.operators.base import Shape
from tidelog.operators.state import State, packed, unpacked


@dataclass(slots=True)
class _Part:
    rows: pa.RecordBatch
    number: int
    gone: int = 0
    content: pa.Buffer | None = None


class Backlog:
    """Rows go in behind and out in front. Each is written once for all snapshots."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._parts: list[_Part] = []
        self._next = 0
        self._whole: pa.RecordBatch | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Put rows behind the others."""
        if batch.num_rows:
            self._parts.append(_Part(batch, self._next))
            self._next += 1
            self._whole = None

    @property
    def rows(self) -> pa.RecordBatch:
        """All rows."""
        if self._whole is None:
            parts = [part.rows.slice(part.gone) for part in self._parts]
            self._whole = pa.concat_batches(parts) if len(parts) > 1 else parts[0] if parts else self._shape.empty()
        return self._whole

    def drop(self, count: int) -> None:
        """Forget so many of the first rows."""
        if not count:
            return
        whole = self._whole
        left = count
        while left:
            part = self._parts[0]
            here = min(left, part.rows.num_rows - part.gone)
            part.gone += here
            left -= here
            if part.gone == part.rows.num_rows:
                self._parts.pop(0)
        self._whole = None if whole is None else whole.slice(count)

    def replace(self, count: int, batch: pa.RecordBatch) -> None:
        """Have some rows instead of so many of the first ones."""
        self.drop(count)
        self._parts.insert(0, _Part(batch, self._next))
        self._next += 1
        self._whole = None

    def snapshot(self) -> State:
        """All rows."""
        chunks = {}
        for part in self._parts:
            if part.content is None:
                part.content = packed(part.rows)
            chunks[str(part.number)] = part.content
        return State({"next": self._next, "parts": [[part.number, part.gone] for part in self._parts]}, chunks)

    def restore(self, state: State) -> None:
        """Have the same rows."""
        self._next = state.core["next"]
        for number, gone in state.core["parts"]:
            content = state.chunks[str(number)]
            self._parts.append(_Part(unpacked(content, self._shape.schema), number, gone, content))
