"""What EXPLAIN says: the way of each stream, why not a faster one, and what it took."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    rows = pa.table(
        {
            "ts": pa.array(np.arange(10_000) * 1_000_000, pa.timestamp("us")),
            "x": np.arange(10_000) / 4,
            "s": pa.array(["a", "b"] * 5_000),
        }
    )
    with tidelog.open(tmp_path_factory.mktemp("explain"), maintenance="manual") as opened:
        opened.create_stream("r", time="ts", data=rows, leaf_rows=100)
        yield opened


def told(store: Store, text: str) -> str:
    return "\n".join(line for (line,) in store.sql(text).fetchall())


def test_the_index(store: Store) -> None:
    plan = told(store, "EXPLAIN SELECT count(*), max(x) FROM r WHERE ts < '1970-01-01 01:00'")
    assert plan.startswith('r: from the index: count(*), max("x") of 1 ranges of time')


def test_events_and_why(store: Store) -> None:
    plan = told(store, "EXPLAIN SELECT s, count(*) FROM r WHERE ts >= '1970-01-01 01:00' AND x > 2000 GROUP BY s")
    assert "r: from the events\n" in plan
    assert "from 1970-01-01T01:00:00 to the end" in plan
    assert "at most 6,400 events in about 64 blocks" in plan
    assert "not from the index, because rows are grouped by s" in plan
    assert "reads only what may satisfy" in plan


def test_one_end(store: Store) -> None:
    assert "r: from the last 5 events" in store.sql("SELECT * FROM r ORDER BY ts DESC LIMIT 5").explain()


def test_analyze_tells_what_was_read(store: Store) -> None:
    plan = told(store, "EXPLAIN ANALYZE SELECT sum(length(s)) FROM r WHERE ts >= '1970-01-01 02:45'")
    assert "read 100 events of 1 blocks, columns s" in plan
    assert "1 rows in " in plan


def test_every_mention_is_told(store: Store) -> None:
    plan = store.sql("SELECT (SELECT count(*) FROM r), a.x FROM r a ORDER BY a.ts LIMIT 1").explain()
    assert plan.count("r: from ") == 2
