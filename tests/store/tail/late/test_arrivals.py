"""Late rows that are copied later, by another thread, against a plain list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model import Schema
from tidelog.storage.rows.numbered import NumberedRows
from tidelog.store.tail.late.arrivals import LateArrivals

SEQ = pa.field("_seq", pa.int64(), nullable=False)
FIXED = Schema(pa.schema([("ts", pa.int64()), ("x", pa.float32())]), "ts")
TEXTS = Schema(pa.schema([("ts", pa.int64()), ("x", pa.string())]), "ts")


@settings(max_examples=scaled(40))
@given(
    schema=st.sampled_from([FIXED, TEXTS]),
    steps=st.lists(
        st.one_of(st.lists(st.booleans(), min_size=1, max_size=9), st.sampled_from(["since", "take"])), max_size=30
    ),
    most_pinned=st.sampled_from([0, 200, 1 << 20]),
)
def test_rows_are_those_that_came(schema: Schema, steps: list[list[bool] | str], most_pinned: int) -> None:
    stored = pa.schema([*schema.arrow, SEQ])
    arrivals = LateArrivals(schema, stored, most_pinned)
    model: list[tuple[int, int]] = []
    seq = 0
    for step in steps:
        if isinstance(step, list):
            times = np.arange(len(step))[::-1] + seq % 3
            values = pa.array([str(time) for time in times]) if schema is TEXTS else pa.array(times, pa.float32())
            batch = pa.RecordBatch.from_arrays([pa.array(times), values], schema=schema.arrow)
            places = np.flatnonzero(step)
            size = arrivals.add(NumberedRows(batch, seq), places)
            assert size == 20 * len(places) or schema is TEXTS
            model += [(int(times[place]), seq + int(place)) for place in places]
            seq += len(step)
        elif step == "since":
            found = pa.Table.from_batches(arrivals.copied().since(seq // 2), stored)
            assert sorted(found["_seq"].to_pylist()) == sorted(number for _, number in model if number >= seq // 2)
        else:
            taken = arrivals.copied().take(3)
            model.sort()
            assert taken["_seq"].to_pylist() == [number for _, number in model[:3]]
            del model[:3]
        assert arrivals.rows == len(model)
        assert arrivals.bytes == 20 * len(model) or schema is TEXTS
    whole = arrivals.copied().sorted()
    model.sort()
    assert whole.schema.equals(stored)
    assert [whole[name].to_pylist() for name in ("ts", "_seq")] == [[row[i] for row in model] for i in (0, 1)]
    assert [float(value) for value in whole["x"].to_pylist()] == [time for time, _ in model]
