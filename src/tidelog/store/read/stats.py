"""What a stream consists of, as plain values: for ``stats`` and for people."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.index.entries import empty
from tidelog.index.node import HEAD_SIZE
from tidelog.model.times.clock import Clock
from tidelog.store.read.parts.part import Part
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.tail_status import TailFiles
from tidelog.store.split.context import StreamContext


def describe(
    name: str, snapshot: Snapshot, context: StreamContext, late: dict[str, Any], tail: TailFiles
) -> dict[str, Any]:
    """Rows, bytes, bounds and the shape of every tree of a snapshot.

    ``late`` is what is known of late rows, ``tail`` what the tail has on disk.
    """
    clock = snapshot.layout.schema.clock
    splits = [
        {
            "name": info.name,
            "kind": info.kind,
            "rows": info.rows,
            "bytes": info.bytes,
            "first": clock.format(info.time_min),
            "last": clock.format(info.time_max),
        }
        for info in snapshot.manifest.splits.values()
    ]
    trees = [shape for part in snapshot.parts if (shape := part.shape()) is not None]
    memory = sum(part.rows for part in snapshot.parts if part.in_memory)
    bounds = [(part.first, part.last) for part in snapshot.parts]
    closed = sum(info.bytes for info in snapshot.manifest.splits.values())
    return {
        "stream": name,
        "rows": sum(part.rows for part in snapshot.parts),
        "rows_in_memory": memory,
        "bytes": closed + tail.open + tail.journal,
        "files": {
            "closed": closed,
            "open": tail.open,
            "journal": tail.journal,
            "dead": tail.dead + sum(info.dead_bytes for info in snapshot.manifest.splits.values()),
        },
        "first": clock.format(min(first for first, _ in bounds)) if bounds else None,
        "last": clock.format(max(last for _, last in bounds)) if bounds else None,
        "next_seq": snapshot.next_seq,
        "manifest": snapshot.manifest.number,
        "fanout": snapshot.layout.fanout,
        "node_bytes": HEAD_SIZE + snapshot.layout.fanout * empty(snapshot.layout, 0).dtype.itemsize,
        "user_aggregates": [binding.name for binding in context.options.user_aggregates],
        "splits": splits,
        "trees": trees,
        "late": late,
        "statistics": [each for part in snapshot.parts for each in _statistics(part.original)],
        "nodes_cached": len(context.nodes),
        "blocks_read": context.meter.blocks,
        "bytes_read": context.meter.bytes,
    }


def _statistics(part: Part) -> list[dict[str, Any]]:
    """What the manifest knows of each column of a closed split, under the names that columns have now."""
    info = part.info
    if info is None:
        return []
    whole = part.known_aggregate()
    found = []
    for index, name in enumerate(part.layout.schema.names):
        values: dict[str, Any] = {"split": info.name, "column": name}
        if whole is not None:
            known = whole.at(index)
            low, high = (known.minimum(), known.maximum()) if known.knows_bounds else (None, None)
            values |= {"nulls": known.nulls, "min": _plain(low, known.type), "max": _plain(high, known.type)}
        values |= {"correlation": info.correlation[index], "sampled": info.sampled}
        found.append(values)
    return found


def _plain(value: Any, type: pa.DataType) -> Any:
    """A bound of a column as a plain value; points in time, which entries count in ticks, as text."""
    if value is not None and pa.types.is_timestamp(type):
        return Clock(type).format(value)
    if value is not None and pa.types.is_date(type):
        ticks = pa.scalar(value, pa.int32() if type.bit_width == 32 else pa.int64())
        return str(ticks.cast(type).cast(pa.string()).as_py())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
