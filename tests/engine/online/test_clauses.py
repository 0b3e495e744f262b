"""Joins and windows as continuous queries: rows that arrive in pieces, with restarts, give those of history."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.waiting import until
from tidelog.engine.store import Store

QUERIES = {
    "windowed join": (
        "SELECT time, l.x, r.y FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.k = r.k AND l.x > r.y - 4, "
        "LEFT => '8 us' SLIDE '3 us', RIGHT => 5 ROWS)"
    ),
    "nearest": "SELECT l.ts, x, y FROM a l ASOF NEAREST LEFT JOIN b r ON l.k = r.k AND l.ts >= r.ts TOLERANCE '6 us'",
    "before": "SELECT l.ts, x, y, r.ts AS other FROM a l ASOF JOIN b r USING (k, ts)",
    "behind": "SELECT l.ts, x, y FROM a l ASOF LEFT JOIN b r ON l.ts < r.ts",
    "rows of windows": "SELECT ts, x, window_start FROM HOP(TABLE a, DESCRIPTOR(ts), '3 us', '8 us') WHERE x > -2",
    "rows of sessions": "SELECT window_end, ts, x FROM SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), '2 us')",
    "windows": (
        "SELECT window_end, k, count(*) AS n, max(x) AS top FROM TUMBLE(TABLE a, DESCRIPTOR(ts), '7 us', '2 us') "
        "GROUP BY window_start, window_end, k"
    ),
    "lookup": "SELECT ts, x, weight FROM a LEFT JOIN names USING (k) WHERE weight > 0 OR weight IS NULL",
    "nested": (
        "SELECT window_end, count(*) AS n FROM (SELECT l.ts, l.k, x + y AS z FROM a l ASOF JOIN b r USING (k, ts)) q "
        "JOIN names ON q.k = names.k AND z > weight GROUP BY window(ts, '9 us')"
    ),
    "situations": (
        "SELECT match_time, k, n, s FROM a SITUATIONS (PARTITION BY k DEFINE P AS x > 0, Q AS x < 1 "
        "PATTERN P overlaps | during | meets | before Q WITHIN '90 us' RETURN count(P.*) AS n, Q.start_time AS s)"
    ),
    "early situations": (
        "SELECT match_time, m, P_is_open FROM a SITUATIONS (DEFINE P AS x > -1, Q AS x > 1 "
        "PATTERN P contains | overlaps | finished by | before Q WITHIN '90 us' RETURN max(P.x) AS m MODE EARLY)"
    ),
    "situations alone": (
        "SELECT end_time, k, situation, s FROM a "
        "DERIVE (PARTITION BY k DEFINE P AS x > 0, Q AS x < 1 RETURN sum(x) AS s)"
    ),
    "early": "SELECT window_end, revision, sum(x) AS s FROM a GROUP BY window(ts, '20 us', early => '5 us')",
}
NAMES = {"names": pa.table({"k": ["u", "v", "v", None], "weight": [1.5, 0.5, -1.0, 9.0]})}
LATER = datetime.datetime(1970, 1, 1, 0, 0, 1)


def _rows(dice: np.random.Generator, value: str, first: int, count: int) -> pa.Table:
    times = first + np.sort(dice.integers(0, 40, count))
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
            "k": pa.array(dice.choice(["u", "v", "w"], count), pa.string(), mask=dice.random(count) < 0.1),
            value: pa.array(dice.integers(-16, 17, count) / 4, pa.float64(), mask=dice.random(count) < 0.1),
        }
    )


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("case", QUERIES)
def test_what_arrives_in_pieces_is_history_in_the_end(tmp_path: Path, case: str) -> None:
    """After every piece the subscription is ended and begun again by its name."""
    dice = np.random.default_rng(list(QUERIES).index(case))
    text = QUERIES[case]
    tables = NAMES if "names" in text else None
    with tidelog.open(tmp_path / "store", maintenance="manual") as store:
        streams = {name: _created(store, name, value) for name, value in (("a", "x"), ("b", "y"))}
        for first in range(0, 200, 40):
            for name, value in (("a", "x"), ("b", "y")):
                streams[name].append(_rows(dice, value, first, int(dice.integers(0, 25))))
                streams[name].flush()
            with store.subscribe(text, tables=tables, name="kept", into="found"):
                _wait_until_read(store)
        for stream in streams.values():  # what would wait for more rows has them
            stream.append({"ts": [LATER, LATER + datetime.timedelta(seconds=1)], "k": ["u", "u"]})
            stream.flush()
        with store.subscribe(text, tables=tables, name="kept", into="found", follow=False) as running:
            running.wait()
        found = store.sql("FROM found").arrow().to_pylist()
        expected = store.sql(text, tables=tables).arrow().to_pylist()
        past = [row for row in expected if next(iter(row.values())) < LATER]
        assert len(past) > 5
        assert _sorted([row for row in found if next(iter(row.values())) < LATER]) == _sorted(past)
        plain = pa.Table.from_batches(store.subscribe(text, tables=tables, follow=False)).to_pylist()
        assert _sorted(plain) == _sorted(expected)


@pytest.mark.parametrize("option", ["complete_only", "empty"])
def test_at_the_end_nothing_waits_for_windows_that_are_incomplete_or_empty(tmp_path: Path, option: str) -> None:
    inner = f"SELECT window_end AS ts, count(*) AS n FROM a GROUP BY window(ts, '4 us', {option} => true)"
    with tidelog.open(tmp_path / "store", maintenance="manual") as store:
        for name, times in (("a", [1, 4, 6, 9]), ("b", [2, 30])):
            _created(store, name, "x").append({"ts": pa.array(times, pa.timestamp("us"))})
        for text, expected in (
            (f"{inner} UNION ALL SELECT ts, CAST(0 AS BIGINT) FROM b", {2: 0, 8: 2, 30: 0}),
            (f"SELECT window_end AS ts, sum(n) AS n FROM ({inner}) GROUP BY window(ts, '20 us')", {20: 2}),
        ):
            if option == "empty":
                expected = {20: 4} if 20 in expected else {2: 0, 4: 1, 8: 2, 12: 1, 30: 0}
            live = pa.Table.from_batches(store.subscribe(text, follow=False))
            for rows in (store.sql(text).arrow(), live):
                found = zip(rows["ts"].cast(pa.int64()).to_pylist(), rows["n"].to_pylist(), strict=True)
                assert sorted(found) == sorted(expected.items())


def _created(store: Store, name: str, value: str) -> Any:
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), (value, pa.float64())])
    return store.create_stream(name, schema, time="ts")


def _wait_until_read(store: Store) -> None:
    """Until all rows that are there have been read."""
    until(lambda: not any(each.behind for each in store.subscriptions()))
