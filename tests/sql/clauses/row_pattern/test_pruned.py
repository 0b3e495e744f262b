"""Statements whose patterns are looked for only where the index leaves room for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidelog

ROWS = 200_000
CLUSTERS = (20_000, 111_111, 170_000)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    dice = np.random.default_rng(7)
    kind = dice.integers(0, 50, ROWS)
    for start in CLUSTERS:
        kind[start : start + 40 : 2] = dice.integers(100, 103, 20)
    return pa.table(
        {
            "ts": pa.array(np.arange(ROWS) * 1_000_000).cast(pa.timestamp("us")),
            "kind": kind,
            "site": pa.array(dice.choice(["north", "south"], ROWS)),
            "v": dice.integers(0, 1000, ROWS) / 8,
        }
    )


@pytest.fixture(scope="module")
def store(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidelog.Store]:
    with tidelog.open(tmp_path_factory.mktemp("pruned") / "events") as opened:
        stream = opened.create_stream("s", schema=rows.schema, time="ts")
        stream.append(rows)
        stream.flush()
        yield opened


CLAUSE = """MATCH_RECOGNIZE ({partition} ORDER BY ts
    MEASURES {number} first(A.ts) AS a, last(B.ts) AS b, count(*) AS n, B.v AS v
    AFTER MATCH SKIP {skip}
    PATTERN (A X*? B) WITHIN INTERVAL '30 seconds'
    DEFINE A AS kind = 100, B AS B.kind = 101 AND {more})"""
TEXTS = [
    CLAUSE.format(
        partition=partition, number="match_number() AS number," if not partition else "", skip=skip, more=more
    )
    for partition, skip, more in [
        ("", "PAST LAST ROW", "B.v > 20"),
        ("", "TO NEXT ROW", "B.v > A.v"),
        ("", "PAST LAST ROW", "B.v > PREV(B.v)"),
        ("", "TO LAST B", "NEXT(B.v, 2) < 90"),
        ("PARTITION BY site", "PAST LAST ROW", "true"),
    ]
]


@pytest.mark.parametrize("text", TEXTS)
def test_few_blocks_are_read_and_all_matches_found(store: tidelog.Store, rows: pa.Table, text: str) -> None:
    found = store.sql(f"SELECT * FROM s {text}").fetchall()
    expected = tidelog.sql(f"SELECT * FROM t {text}", tables={"t": rows}).fetchall()
    assert sorted(found) == sorted(expected)
    assert len(found) > 3
    told = store.sql(f"SELECT * FROM s {text}").explain(analyze=True)
    blocks = sum(int(each.replace(",", "")) for each in re.findall(r"of ([\d,]+) blocks", told))
    every = store.sql("SELECT count(v) FROM s WHERE v >= 0 OR kind > 5").explain(analyze=True)
    (whole,) = (int(each.replace(",", "")) for each in re.findall(r"of ([\d,]+) blocks", every))
    assert 0 < 3 * blocks < whole, told


def test_conditions_about_lists_confine_nothing(store: tidelog.Store, rows: pa.Table) -> None:
    """Where one of two variables has such a condition, the other tells where matches may be."""
    text = TEXTS[0].replace("A X*? B", "A Y B").replace("B.v > 20", "list_contains(list(A.kind), B.kind - 1)")
    found = store.sql(f"SELECT * FROM s {text}")
    assert "stretches of time" in found.explain()
    assert found.fetchall() == tidelog.sql(f"SELECT * FROM t {text}", tables={"t": rows}).fetchall() != []


def test_why_everything_is_read_is_told(store: tidelog.Store) -> None:
    text = TEXTS[0].replace("WITHIN INTERVAL '30 seconds'", "")
    assert "all rows are read, because it has no WITHIN" in store.sql(f"SELECT * FROM s {text}").explain()
    assert "3 stretches of time" in store.sql(f"SELECT * FROM s {TEXTS[0]}").explain()
