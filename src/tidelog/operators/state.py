"""What is kept of an operator: a small core that is written every time, and chunks that are written once.

A chunk has a name, which stands for its bytes for good: an operator never uses a name again for others. So whoever
keeps states writes those chunks that were not there last time, and drops those that are not there any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

Core: TypeAlias = dict[str, Any]
"""JSON values."""


@dataclass(frozen=True)
class State:
    """A snapshot of an operator."""

    core: Core = field(default_factory=dict)
    chunks: Mapping[str, pa.Buffer] = field(default_factory=dict)

    def part(self, name: str) -> State:
        """The state that was put in under a name by :func:`together`."""
        prefix = f"{name}/"
        return State(
            self.core[name],
            {key.removeprefix(prefix): value for key, value in self.chunks.items() if key.startswith(prefix)},
        )


def together(parts: Mapping[str, State], core: Core | None = None) -> State:
    """Several states as one, each under its name, beside what ``core`` says."""
    return State(
        {**(core or {}), **{name: part.core for name, part in parts.items()}},
        {f"{name}/{key}": value for name, part in parts.items() for key, value in part.chunks.items()},
    )


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """Rows as bytes, without their schema."""
    return batch.serialize()


def unpacked(content: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that :func:`packed` made bytes of."""
    return pa.ipc.read_record_batch(content, schema)
