"""What EXPLAIN says: the way of each stream, why not a faster one, and what it took."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.planning import reduced


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
    assert "r: from the events, put together in groups by s, without DuckDB\n" in plan
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


WAYS = {
    "SELECT first(x), arg_max(s, ts) FROM r": [
        'r: from the index: first("x"), arg_max("s", "ts"), count(*) of 1 ranges of time, with 2 blocks of events'
    ],
    "SELECT max(x), count(DISTINCT s) FROM r WHERE ts < '1970-01-01 01:00'": [
        'r: from the index: max("x"), count(*) of 1 ranges of time; from the events: count(DISTINCT s)',
        "at most 3,600 events in about 36 blocks",
    ],
    "SELECT count(*) FILTER (WHERE ts >= '1970-01-01 01:00') FROM r": [
        "r: from the index: count(*) from 1970-01-01T01:00:00 to the end, count(*) of 1 ranges of time"
    ],
    "SELECT second_largest(x) FROM r WHERE epoch(ts) < 3600": ["r: from the index: second_largest(x), count(*)"],
    "SELECT s FROM r WHERE time_bucket('1 hour', ts) = '1970-01-01 01:00'": [
        "times from 1970-01-01T01:00:00 to 1970-01-01T02:00:00: at most 3,600 events in about 36 blocks"
    ],
    "SELECT a.x FROM r a JOIN r b USING (ts) WHERE a.s LIKE 'b%' AND b.x > 20": [
        "reads only what may satisfy a.s LIKE 'b%'".replace("a.", ""),
        "reads only what may satisfy x > 20",
    ],
    "SELECT count(*) FROM streams('r*')": ["streams('r*'): from the index: count(*) of 1 ranges of time"],
    "SELECT s, last(x) FROM streams('r*') GROUP BY s": [
        "streams('r*'): from the events",
        "at most 10,000 events in about 100 blocks",
        "not from the index, because rows are grouped by s",
    ],
}


@pytest.mark.parametrize("text", WAYS)
def test_every_way_is_told(store: Store, text: str) -> None:
    plan = told(store, f"EXPLAIN {text}")
    for line in WAYS[text]:
        assert line in plan, plan
    assert WAYS[text][0].split(": ")[0] in told(store, f"EXPLAIN ANALYZE {text}") or ":" not in WAYS[text][0]


def test_analyze_tells_of_hints_and_times(store: Store) -> None:
    plan = told(store, "EXPLAIN ANALYZE SELECT s FROM r WHERE s LIKE 'b%' AND year(ts) > 1969 AND x > 2499")
    assert "left out what cannot satisfy s LIKE 'b%'" in plan
    assert "(x > 2499)" in plan
    assert re.search(r"read 3 events of 1 blocks, columns [a-z, ]+, in [\d.]+ ms", plan), plan
    assert re.search(r"planned in [\d.]+ ms", plan)


def test_every_mention_is_told(store: Store) -> None:
    plan = store.sql("SELECT (SELECT count(*) FROM r), a.x FROM r a ORDER BY a.ts LIMIT 1").explain()
    assert plan.count("r: from ") == 2


def test_keys_that_are_nearly_events_are_left_to_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows tell how many groups a batch would be reduced to."""
    monkeypatch.setattr(reduced, "LEAST_ROWS", 0)
    rows = np.arange(20_000)
    table = pa.table({"ts": rows, "own": rows * 7 % 20_011, "few": rows * 7 % 13})
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.create_stream("r", time="ts", data=table, leaf_rows=1000)
        assert "because nearly every event is a group" in told(store, "EXPLAIN SELECT own, sum(ts) FROM r GROUP BY own")
        assert "reduced to groups by few" in told(store, "EXPLAIN SELECT few, sum(ts) FROM r GROUP BY few")
