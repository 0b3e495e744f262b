"""Statements over one sequence give in ranges of time what they give as one search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog import threads
from tidelog.operators.rowpattern.ranges import parallel

ROWS = 2_000


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    dice = np.random.default_rng(17)
    times = np.sort(dice.integers(0, ROWS, ROWS)) * 1_000_000
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us")),
            "kind": dice.integers(0, 6, ROWS),
            "v": pa.array(dice.integers(0, 80, ROWS) / 8, mask=dice.random(ROWS) < 0.1),
        }
    )


@pytest.fixture(scope="module")
def store(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidelog.Store]:
    with tidelog.open(tmp_path_factory.mktemp("parallel") / "events") as opened:
        stream = opened.create_stream("s", schema=rows.schema, time="ts")
        stream.append(rows)
        yield opened


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_ROWS", 100)
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    monkeypatch.setattr(threads, "THREADS", 2)


MEASURES = "MEASURES match_number() AS number, classifier() AS c, first(ts) AS a, last(ts) AS b, count(*) AS n"
CLAUSES = [
    f"{MEASURES} PATTERN (A A) WITHIN INTERVAL '90 seconds'",
    f"{MEASURES}, PREV(A.v, 2) AS p AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) WITHIN INTERVAL '9 seconds' "
    "DEFINE B AS v < PREV(v), C AS NEXT(v, 2) > v",
    f"{MEASURES} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A X*? B) WITHIN INTERVAL '20 seconds' "
    "DEFINE A AS kind = 1, B AS kind = 2 AND v > A.v",
    f"{MEASURES} AFTER MATCH SKIP TO NEXT ROW PATTERN (^ A | B C) WITHIN INTERVAL '5 seconds' "
    "SKIP TILL NEXT DEFINE C AS v > B.v",
    "MEASURES first(ts) AS a, last(ts) AS b ALL MATCHES PATTERN (A B C) WITHIN INTERVAL '4 seconds' SKIP TILL ANY "
    "DEFINE A AS kind = 0, B AS kind = 1, C AS v > B.v",
]


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("source", ["s", "given"])
def test_the_same_rows(store: tidelog.Store, rows: pa.Table, clause: str, source: str) -> None:
    """A sequence in ranges gives what a single partition gives, which is searched as a whole."""
    table = rows.append_column("one", pa.nulls(ROWS, pa.int64()).fill_null(1))
    text = f"SELECT * FROM {source} MATCH_RECOGNIZE (ORDER BY ts {clause})"
    whole = f"SELECT * EXCLUDE (one) FROM given MATCH_RECOGNIZE (PARTITION BY one ORDER BY ts {clause})"
    found = store.sql(text, tables={"given": rows})
    expected = store.sql(whole, tables={"given": table}).arrow()
    assert expected.num_rows > 10
    assert found.arrow().equals(expected)


def test_explain(store: tidelog.Store) -> None:
    text = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY {} MEASURES first(ts) AS a PATTERN ({}) {} {})"
    within = "WITHIN INTERVAL '9 seconds'"
    cases = [
        ("ts", "A B", within, "DEFINE B AS v > A.v", "by threads, in ranges of time"),
        ("ts", "A B", "", "DEFINE B AS v > A.v", "by one thread, because it has no WITHIN"),
        ("ts", "A B $", within, "", "because the anchor $"),
        ("ts DESC", "A B", within, "", "because its order is not that of rising time"),
        ("ts", "A B", within, "DEFINE B AS match_number() < 3", "because conditions depend on MATCH_NUMBER()"),
    ]
    for *parts, told in cases:
        assert told in store.sql(text.format(*parts)).explain(), parts
