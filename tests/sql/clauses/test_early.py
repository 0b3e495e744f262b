"""Windows that are told early, against sums of each step; gaps of what clauses give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

TIMES = np.sort(np.random.default_rng(3).integers(0, 500, 90))
KEYS = np.random.default_rng(4).choice(["a", "b"], 90)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("early"), maintenance="manual") as opened:
        stream = opened.create_stream(
            "t", pa.schema([("ts", pa.int64()), ("k", pa.string()), ("revision", pa.int64())]), "ts"
        )
        stream.append(pa.table({"ts": TIMES, "k": KEYS, "revision": TIMES}))
        yield opened


@pytest.mark.parametrize(("size", "step", "origin"), [(50, 10, 0), (60, 60, 7), (40, 1, -3)])
def test_each_step_is_told(store: Store, size: int, step: int, origin: int) -> None:
    text = (
        "SELECT window_start, window_end, revision, count(*) AS n FROM t "
        f"GROUP BY window(ts, {size}, {size}, {origin}, early => {step})"
    )
    expected = []
    for start in range(origin - size, 600, size):
        for revision in range(size // step):
            end = start + (revision + 1) * step
            count = int(((start <= TIMES) & (end > TIMES)).sum())
            if count:
                expected.append((start, end, revision, count))
    assert sorted(store.sql(text).fetchall()) == sorted(expected)
    told = pa.Table.from_batches(store.subscribe(text, follow=False))
    assert [tuple(row.values()) for row in told.to_pylist()] == sorted(expected, key=lambda row: row[1])
    assert "because a slide has about" in str(store.sql(f"EXPLAIN {text}").fetchall())


def test_the_last_revision_is_the_window(store: Store) -> None:
    whole = store.sql("SELECT k, window_start, count(*), max(ts) FROM t GROUP BY k, window(ts, 50) ORDER BY ALL")
    last = store.sql(
        "SELECT k, window_start, count(*), max(ts) FROM t GROUP BY k, window(ts, 50, early => 10) HAVING revision = 4 "
        "ORDER BY ALL"
    )
    assert whole.fetchall() == last.fetchall()


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("window(ts, 50, early => 7)", "do not fit in exactly"),
        ("window(ts, 50, 10, early => 10)", "told early, and overlap"),
        ("window(ts, 50, origin => 'first event', early => 10)", "told early, and overlap"),
        ("window(ts, 50, early => 0)", "at least 1"),
        ("window(ts, 50, erly => 10)", "did you mean 'early'"),
    ],
)
def test_what_cannot_be(store: Store, window: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        store.sql(f"SELECT window_end, count(*) FROM t GROUP BY {window}").fetchall()
    assert raised.value.position is not None


def test_without_early_windows_a_revision_is_a_column(store: Store) -> None:
    found = store.sql("SELECT window_end, sum(revision) FROM t GROUP BY window(ts, 500)").fetchall()
    assert found == [(500, int(TIMES.sum()))]


def test_gaps_of_joins_and_windows() -> None:
    minutes = pa.array([0, 1, 9], pa.int64())
    rows = pa.table(
        {"ts": pa.array([each * 60_000_000 for each in minutes.to_pylist()]).cast(pa.timestamp("us")), "x": [1, 2, 3]}
    )
    joined = tidelog.sql(
        "SELECT time_bucket_gapfill('3 minutes', a.ts) AS bucket, count(*) AS n, locf(max(b.x)) "
        "FROM t a ASOF JOIN t b ON a.ts > b.ts TOLERANCE '1 hour' GROUP BY bucket ORDER BY bucket",
        tables={"t": rows},
    ).fetchall()
    assert [each[1:] for each in joined] == [(1, 1), (None, 1), (None, 1), (1, 2)]
    windows = tidelog.sql(
        "SELECT time_bucket_gapfill('3 minutes', window_start) AS bucket, sum(x), interpolate(sum(x)) "
        "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), '1 minute') WHERE ts < '1970-01-01 00:12' GROUP BY 1 ORDER BY 1",
        tables={"t": rows},
    ).fetchall()
    assert [each[1:] for each in windows] == [(3, 3.0), (None, 3.0), (None, 3.0), (3, 3.0)]
