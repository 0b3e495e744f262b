"""Several streams as one sequence, against sorting everything."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.model.errors import InputError, NotFoundError

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])

times = st.lists(st.integers(-5, 30), max_size=40)


@settings(max_examples=scaled(30))
@given(st.lists(times, min_size=1, max_size=3), st.one_of(st.none(), st.integers(-5, 20)), st.integers(0, 40))
def test_events_come_in_order_of_time_then_of_streams(each: list[list[int]], start: int | None, end: int) -> None:
    with Store(MemoryMedium()) as store:
        expected = []
        for order, numbers in enumerate(each):
            stream = store.create_stream(f"s{order}", SCHEMA, "ts", leaf_rows=4, fanout=2, split=10)
            stream.append({"ts": numbers, "n": list(range(len(numbers)))})
            if order % 2:
                stream.flush()
            expected += [(time, order, n) for n, time in enumerate(numbers) if (start is None or time >= start)]
        found = []
        names = [f"s{order}" for order in range(len(each))]
        for name, batch in store.replay(names, start, end):
            assert batch.num_rows
            assert batch.schema.equals(SCHEMA) or batch.schema.names == SCHEMA.names
            found += [(row["ts"], names.index(name), row["n"]) for row in batch.to_pylist()]
        assert found == sorted(row for row in expected if row[0] < end)


def test_conditions_and_other_columns() -> None:
    with Store(MemoryMedium()) as store:
        store.create_stream("a", SCHEMA, "ts").append({"ts": [1, 2, 3], "n": [1, 2, 3]})
        other = pa.schema([("word", pa.string()), ("when", pa.int64()), ("n", pa.int64())])
        store.create_stream("b", other, "when").append({"when": [2, 0], "word": ["x", "y"], "n": [5, 0]})
        found = [(name, batch.to_pylist()) for name, batch in store.replay(["a", "b"], where="n > 1")]
        assert found == [
            ("a", [{"ts": 2, "n": 2}]),
            ("b", [{"word": "x", "when": 2, "n": 5}]),
            ("a", [{"ts": 3, "n": 3}]),
        ]


def test_snapshots_are_taken_at_once() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("a", SCHEMA, "ts")
        stream.append({"ts": [1], "n": [1]})
        replayed = store.replay(["a"])
        stream.append({"ts": [2], "n": [2]})
        assert sum(batch.num_rows for _, batch in replayed) == 1


def test_what_cannot_be_replayed() -> None:
    with Store(MemoryMedium()) as store:
        store.create_stream("a", SCHEMA, "ts")
        store.create_stream("b", pa.schema([("ts", pa.timestamp("us"))]), "ts")
        with pytest.raises(InputError, match="different units"):
            store.replay(["a", "b"])
        with pytest.raises(NotFoundError):
            store.replay(["a", "c"])
        assert list(store.replay([])) == []
        assert list(store.replay(["a"])) == []
