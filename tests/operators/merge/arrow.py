"""Elements as batches of Arrow, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidelog.operators.base import Shape
from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, NEVER, STABLE
from tidelog.operators.merge.columns import element_shape
from tidelog.operators.merge.elements import KINDS, Element

SHAPE = element_shape(pa.int64(), [pa.field("p", pa.string()), pa.field("size", pa.int64())])


def payload(value: Any) -> dict[str, Any]:
    return {"p": f"payload {value}", "size": value}


def batch_of(elements: Sequence[Element], shape: Shape = SHAPE) -> pa.RecordBatch:
    rows = []
    for kind, value, start, end, old in elements:
        row: dict[str, Any] = {"kind": KINDS[kind], "valid_from": end if kind == STABLE else start}
        row["valid_to"] = None if kind == STABLE or end == NEVER else end
        row["old_valid_to"] = old if kind == ADJUST and old != NEVER else None
        rows.append(row | (payload(value) if kind != STABLE else {"p": None, "size": None}))
    return pa.RecordBatch.from_pylist(rows, schema=shape.schema)


def elements_of(batches: Iterable[pa.RecordBatch]) -> list[Element]:
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            kind = KINDS.index(row["kind"])
            end = NEVER if row["valid_to"] is None else row["valid_to"]
            if kind == STABLE:
                assert row["p"] is None
                found.append(Element(STABLE, None, BEFORE, row["valid_from"]))
                continue
            assert row["p"] == f"payload {row['size']}"
            old = BEFORE if kind == INSERT else NEVER if row["old_valid_to"] is None else row["old_valid_to"]
            found.append(Element(kind, row["size"], row["valid_from"], end, old))
    return found
