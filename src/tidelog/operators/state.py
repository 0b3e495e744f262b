"""What is kept of an operator: a small core that is written every time, and chunks that are written once.

A chunk has a name, which stands for its bytes for good: an operator never uses a name again for others. So whoever
keeps states writes those chunks that were not there last time, and drops those that are not there any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

_WORD: Final = 8
_CODEC: Final = "lz4_raw"

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
    """Rows as bytes, without their schema; only where there are dictionaries these are told with it."""
    if not _has_dictionaries(batch.schema):
        return batch.serialize()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def unpacked(content: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that :func:`packed` made bytes of."""
    if not _has_dictionaries(schema):
        return pa.ipc.read_record_batch(content, schema)
    with pa.ipc.open_stream(content) as reader:
        return reader.read_next_batch()


def bundled(parts: Sequence[pa.Buffer]) -> pa.Buffer:
    """Several buffers of words as one, compressed: words next to each other are alike, byte by byte."""
    sizes, contents = [len(parts)], []
    for part in parts:
        raw = np.frombuffer(part, np.uint8)
        if not len(raw) % _WORD:
            raw = np.ascontiguousarray(raw.reshape(-1, _WORD).T)
        contents.append(pa.compress(raw, codec=_CODEC))
        sizes += [len(part), len(contents[-1])]
    return pa.py_buffer(b"".join([np.array(sizes, np.int64).tobytes(), *contents]))


def unbundled(content: pa.Buffer) -> list[pa.Buffer]:
    """The buffers that :func:`bundled` made one of."""
    (count,) = np.frombuffer(content, np.int64, 1)
    sizes = np.frombuffer(content, np.int64, 1 + 2 * int(count))[1:].tolist()
    at = (1 + len(sizes)) * _WORD
    found = []
    for raw, size in zip(sizes[::2], sizes[1::2], strict=True):
        words = pa.decompress(content.slice(at, size), raw, codec=_CODEC)
        if not raw % _WORD:
            words = pa.py_buffer(np.frombuffer(words, np.uint8).reshape(_WORD, -1).T.tobytes())
        found.append(words)
        at += size
    return found


def _has_dictionaries(schema: pa.Schema) -> bool:
    return any(map(_is_dictionary, schema.types))


def _is_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return True
    return any(_is_dictionary(type_.field(place).type) for place in range(type_.num_fields))
