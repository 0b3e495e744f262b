"""Of a stream that is joined with a small table only events that may have a partner are read; results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.planning.conditions import join_keys

ROWS = 6000
EVENTS = pa.table(
    {
        "ts": pa.array(np.arange(ROWS) * 1000).cast(pa.timestamp("us")),
        "s": pa.array([None if n % 11 == 0 else f"it's {n % 40}" for n in range(ROWS)]),
        "i": pa.array([None if n % 13 == 0 else n % 50 - 10 for n in range(ROWS)], pa.int16()),
        "x": [n / 4 for n in range(ROWS)],
    }
)
SITES = pa.table(
    {
        "s": pa.array(["it's 3", None, "it's 7", "it's 7", "elsewhere"]).dictionary_encode(),
        "i": pa.array([-10, 3, 3, None, 1 << 40]),
        "Name": ["it's 3", "it's 4", "it's 5", "it's 6", "it's 7"],
        "x": [0.25, 0.5, 0.75, 1.0, 1.25],
        "u": pa.array([1, 2, 3, 4, 5], pa.uint64()),
    }
)
TABLES = {
    "sites": SITES,
    "none": SITES.slice(0, 0),
    "all_of_them": pa.table({"s": [f"it's {n}" for n in range(40)], "i": [n - 10 for n in range(40)]}),
    "strange": pa.table({"s": ["a\x00b", "it's 3"], "twice": [1, 2]}),
}
FEWER = [
    "SELECT e.ts, sites.i FROM e JOIN sites USING (s)",
    "SELECT e.ts, sites.i FROM sites JOIN e USING (s)",
    "SELECT e.ts, t.s FROM e JOIN sites t ON t.s = e.s AND t.i > 0",
    "SELECT e.ts, t.s FROM e JOIN sites t ON e.s = t.name",
    "SELECT e.ts, t.s FROM e, e AS f JOIN sites t ON t.name = f.s WHERE e.ts = f.ts",
    "SELECT e.ts, t.s FROM e JOIN sites t ON e.i = t.i",
    "SELECT e.ts, t.s FROM e JOIN sites t ON e.i = t.i AND e.s = t.name",
    "SELECT e.ts FROM e JOIN none USING (s)",
    "SELECT e.ts, t.s FROM e RIGHT JOIN sites t USING (s)",
    "SELECT e.ts FROM e SEMI JOIN sites USING (s)",
    "SELECT t.s, e.ts FROM sites t LEFT JOIN e ON e.i = t.i",
    "SELECT t.s, t.i FROM sites t ANTI JOIN e ON e.i = t.i",
    "SELECT t.name, count(*) FROM (SELECT ts, s AS of FROM e WHERE x > 10) f JOIN sites t ON f.of = t.name GROUP BY 1",
    "WITH f AS (SELECT * FROM e) SELECT f.ts, sites.i FROM f JOIN sites USING (s)",
]
ALL = [
    "SELECT e.ts, t.i FROM e LEFT JOIN sites t USING (s)",
    "SELECT e.ts, t.i FROM e FULL JOIN sites t USING (s)",
    "SELECT e.ts FROM e ANTI JOIN sites USING (s)",
    "SELECT e.ts, t.i FROM e JOIN sites t ON e.s IS NOT DISTINCT FROM t.s",
    "SELECT e.ts, t.i FROM e JOIN sites t ON e.s = t.s OR e.i = t.i",
    "SELECT e.ts, t.i FROM e JOIN sites t ON e.s > t.s",
    "SELECT e.ts, t.i FROM e JOIN sites t ON e.x = t.x",
    "SELECT e.ts, t.i FROM e JOIN sites t ON e.i = t.u",
    "SELECT e.ts FROM e JOIN all_of_them t ON e.s = t.s",
    "SELECT e.ts FROM e JOIN strange USING (s)",
    "WITH sites AS (SELECT 'it''s 9' AS s) SELECT e.ts FROM e JOIN sites USING (s)",
    "SELECT f.s, f.n FROM (SELECT s, count(*) AS n FROM e GROUP BY s) f JOIN sites t ON f.s = t.name",
    "SELECT f.s FROM (SELECT s, row_number() OVER (ORDER BY ts) AS n FROM e) f JOIN sites t ON f.s = t.name AND n < 99",
    "SELECT e.ts FROM e ASOF JOIN sites t ON e.s = t.name AND e.i >= t.i",
    "SELECT f.of FROM (SELECT upper(s) AS of FROM e) f JOIN sites t ON f.of = t.name",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("join keys"), maintenance="manual") as opened:
        late = np.random.default_rng(5).permutation(ROWS)
        stream = opened.create_stream("e", EVENTS.schema, time="ts", leaf_rows=100)
        for part in np.array_split(late, 4):
            stream.append(EVENTS.take(pa.array(part)))
        stream.flush()
        yield opened


@pytest.fixture(autouse=True)
def of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "_LEAST_ROWS", 1000)


@pytest.mark.parametrize(("text", "fewer"), [*((each, True) for each in FEWER), *((each, False) for each in ALL)])
def test_joins(store: Store, text: str, fewer: bool) -> None:
    connection = duckdb.connect()
    for name, table in {"e": EVENTS, **TABLES}.items():
        connection.register(name, table)
    result = store.sql(text, tables=TABLES)
    assert sorted(map(repr, result.fetchall())) == sorted(map(repr, connection.sql(text).fetchall()))
    relations = result._query.relations.values()
    assert any(relation.where is not None for relation in relations) == fewer
    if fewer and "x > 10" not in text:
        taken = min(reading.rows for relation in relations for reading in relation.readings)
        assert taken < ROWS / 4


def test_late_rows_deletions_and_other_types(tmp_path: Path) -> None:
    """A key column that was widened, was not there at first, and events that were deleted."""
    first = EVENTS.slice(0, 3000).drop_columns(["s"])
    with tidelog.open(tmp_path, maintenance="manual") as opened:
        stream = opened.create_stream("e", first.schema, time="ts", leaf_rows=100)
        stream.append(first)
        stream.flush()
        opened.sql("ALTER STREAM e ADD COLUMN s VARCHAR; ALTER STREAM e ALTER COLUMN i TYPE BIGINT")
        stream.append(EVENTS.slice(3000).select(["ts", "i", "x", "s"]).cast(stream.schema.arrow))
        stream.append(first.slice(100, 50).append_column("s", pa.array(["it's 3"] * 50)).cast(stream.schema.arrow))
        stream.delete_before(500_000)
        rows = pa.Table.from_batches(stream.scan())
        connection = duckdb.connect()
        connection.register("e", rows)
        connection.register("sites", SITES)
        for text in FEWER[:7]:
            text = text.replace("none", "sites")
            result = opened.sql(text, tables={"sites": SITES})
            assert any(relation.where is not None for relation in result._query.relations.values())
            assert sorted(map(repr, result.fetchall())) == sorted(map(repr, connection.sql(text).fetchall()))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["b", None, "a", "b"]), ["b", "a"]),
        (pa.array(["b", None, "a", "b"], pa.large_string()), ["b", "a"]),
        (pa.array([3, None, 3], pa.uint32()), [3]),
        (pa.array([], pa.string()), []),
        (pa.array([1.5]), None),
        (pa.array([1], pa.uint64()), None),
        (pa.array([b"a"]), None),
        (pa.array([str(n) for n in range(1001)]), None),
    ],
)
def test_keys(column: pa.Array, expected: list[object] | None) -> None:
    found = join_keys.keys_of(pa.table({"Key": column}), "kEY")
    assert (None if found is None else found.to_pylist()) == expected


def test_no_keys() -> None:
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["k", "K"])
    assert join_keys.keys_of(twice, "k") is None
    assert join_keys.keys_of(twice, "other") is None
    assert join_keys.keys_of(None, "k") is None
