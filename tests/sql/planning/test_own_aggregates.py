"""Aggregates that DuckDB does not know, called by their names: whole or by buckets of time, kept or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog import aggregates
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

ROWS = 20_000
LEAF = 100


@aggregates.register
class Span(aggregates.Incremental):
    """The distance between the least and the greatest value, beside it how often there was one."""

    name = "test_span"
    state = np.dtype([("low", "<f8"), ("high", "<f8"), ("rows", "<i8")])

    def init(self, columns: Sequence[Any], cuts: Any) -> Any:
        values = columns[0].astype(np.float64)
        found = np.empty(len(cuts) - 1, self.state)
        found["low"] = np.minimum.reduceat(values, cuts[:-1])
        found["high"] = np.maximum.reduceat(values, cuts[:-1])
        found["rows"] = np.diff(cuts)
        return found

    def merge(self, states: Any, cuts: Any) -> Any:
        found = np.empty(len(cuts) - 1, self.state)
        found["low"] = np.minimum.reduceat(states["low"], cuts[:-1])
        found["high"] = np.maximum.reduceat(states["high"], cuts[:-1])
        found["rows"] = np.add.reduceat(states["rows"], cuts[:-1])
        return found

    def eval(self, state: Any) -> Any:
        return {"span": float(state["high"] - state["low"]), "rows": int(state["rows"])}


def table() -> pa.Table:
    random = np.random.default_rng(11)
    return pa.table(
        {
            "ts": pa.array(np.arange(ROWS) * 60_000_000, pa.timestamp("us")),
            "x": pa.array(random.integers(-500, 500, ROWS) / 8, mask=random.random(ROWS) < 0.2),
            "n": random.integers(0, 10_000, ROWS),
            "s": pa.array(random.choice(["a", "b"], ROWS)),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    kept = ["second_largest(n)", "test_span(x)"]
    with tidelog.open(tmp_path_factory.mktemp("own"), maintenance="manual") as opened:
        opened.create_stream("t", time="ts", data=table(), leaf_rows=LEAF, user_aggregates=kept).flush()
        opened.create_stream("bare", time="ts", data=table(), leaf_rows=LEAF).flush()
        yield opened


def second(values: pa.ChunkedArray) -> int:
    return int(sorted(values.to_pylist())[-2])


def span(values: pa.ChunkedArray) -> dict[str, float]:
    valid = values.drop_null().to_numpy()
    return {"span": float(valid.max() - valid.min()), "rows": len(valid)}


def blocks_of(way: str) -> int:
    return int(way.rpartition("with ")[2].split(" ")[0]) if "with " in way else 0


@pytest.mark.parametrize("name", ["t", "bare"])
def test_whole_and_of_a_range(store: Store, name: str) -> None:
    rows = table()
    result = store.sql(f"SELECT second_largest(n) + 1 AS v, test_span(x), count(*) FROM {name}")
    assert result.fetchall() == [(second(rows["n"]) + 1, span(rows["x"]), ROWS)]
    assert result.columns == ["v", "test_span(x)", "count_star()"]
    part = rows.slice(1440, 2880)
    where = "ts BETWEEN '1970-01-02' AND '1970-01-03 23:59'"
    result = store.sql(f"SELECT test_span(b.x).span AS v, second_largest(n) FROM {name} b WHERE {where}")
    assert result.fetchall() == [(span(part["x"])["span"], second(part["n"]))]
    (relation,) = result._query.relations.values()
    assert blocks_of(relation.way) <= (4 if name == "t" else 34), relation.way


@pytest.mark.parametrize("name", ["t", "bare"])
def test_buckets(store: Store, name: str) -> None:
    rows = table()
    text = f"SELECT date_trunc('day', ts) AS d, second_largest(n), test_span(x).rows FROM {name} GROUP BY d ORDER BY d"
    found = store.sql(text).fetchall()
    parts = [rows.slice(start, 1440) for start in range(0, ROWS, 1440)]
    assert [row[1:] for row in found] == [(second(part["n"]), span(part["x"])["rows"]) for part in parts]


def test_rows_that_satisfy_a_condition(store: Store) -> None:
    rows = table().filter(pa.compute.equal(table()["s"], "a"))
    result = store.sql(
        "SELECT second_largest(n), count(*), median(x), last(n), second_largest(n) FILTER (WHERE n < 5000) AS low "
        "FROM t WHERE s = 'a'"
    )
    values = rows["n"].to_numpy()
    assert result.fetchall() == [
        (
            second(rows["n"]),
            len(rows),
            float(np.median(rows["x"].drop_null().to_numpy())),
            int(values[-1]),
            int(np.sort(values[values < 5000])[-2]),
        )
    ]
    (relation,) = result._query.relations.values()
    assert "from the events: median(x)" in relation.way
    assert [list(reading.columns) for reading in relation.readings] == [["x"]]


def test_groups_of_any_keys(store: Store) -> None:
    """Columns, expressions and buckets of time, of some of the events, of stored columns and of computed ones."""
    every = table().to_pylist()

    def grouped(rows: list[dict[str, Any]], key: Any, value: Any) -> dict[Any, tuple[Any, int]]:
        groups: dict[Any, list[Any]] = {}
        for row in rows:
            groups.setdefault(key(row), []).append(value(row))
        known = {each: sorted(x for x in own if x is not None) for each, own in groups.items()}
        return {each: (own[-2] if len(own) > 1 else None, len(groups[each])) for each, own in known.items()}

    def asked(text: str) -> dict[Any, tuple[Any, int]]:
        rows = store.sql(text).fetchall()
        found = {row[:-2] if len(row) > 3 else row[0]: row[-2:] for row in rows}
        assert len(found) == len(rows)
        return found

    by_site = grouped(every, lambda row: row["s"], lambda row: row["n"])
    for group in ("s", "1", "ALL", "q.s ORDER BY s DESC"):
        assert asked(f"SELECT s, second_largest(n), count(*) FROM t AS q GROUP BY {group}") == by_site
    low = [row for row in every if row["x"] is not None and row["x"] < -10]
    assert asked(
        "SELECT upper(s) AS u, n % 3, second_largest(n + x), count(*) FROM bare WHERE x < -10 GROUP BY u, n % 3"
    ) == grouped(low, lambda row: (row["s"].upper(), row["n"] % 3), lambda row: row["n"] + row["x"])
    assert asked("SELECT s, date_trunc('day', ts) AS d, second_largest(x), count(*) FROM t GROUP BY ALL") == grouped(
        every, lambda row: (row["s"], row["ts"].replace(hour=0, minute=0)), lambda row: row["x"]
    )
    past = grouped(every[:7], lambda row: row["s"], lambda row: row["n"])
    assert asked("SELECT s, second_largest(n), count(*) FROM t AT (VERSION => 7) GROUP BY s") == past
    many = "SELECT _stream, s, second_largest(n), count(*) FROM streams('*') GROUP BY _stream, s"
    assert asked(many) == {(name, site): own for name in ("t", "bare") for site, own in by_site.items()}
    around = "SELECT s FROM t GROUP BY s HAVING second_largest(n) > 0 ORDER BY second_largest(n), s LIMIT 1"
    least = min(by_site, key=lambda site: (by_site[site][0], site))
    assert store.sql(around).fetchall() == [(least,)]
    assert store.sql("SELECT s, second_largest(n) FROM t WHERE n < 0 GROUP BY s").fetchall() == []


def test_a_past_version(store: Store) -> None:
    result = store.sql("SELECT second_largest(n), count(*) FROM t AT (VERSION => 300)")
    assert result.fetchall() == [(second(table()["n"].slice(0, 300)), 300)]


def test_no_rows(store: Store) -> None:
    text = "SELECT second_largest(n), test_span(x), count(*) FROM t WHERE ts < '1960-01-01'"
    assert store.sql(text).fetchall() == [(None, None, 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT s, second_largest(n) FROM t GROUP BY ROLLUP (s)", "several sets of groups"),
        ("SELECT s, second_largest(n), median(x) FROM t GROUP BY s", "found median, which DuckDB alone computes"),
        ("SELECT s, n, second_largest(n) FROM t GROUP BY s", "found column 'n', which is neither in GROUP BY"),
        ("SELECT s, second_largest(nope) FROM t GROUP BY s", "nope"),
        ("SELECT second_largest(a.n) FROM t a JOIN t b USING (ts) GROUP BY a.s", "in no selection of one stream"),
        ("SELECT second_largest(a.n) FROM t a JOIN t b USING (ts)", "it stands in no selection of one stream"),
        ("SELECT second_largest(n + 1) FROM t", "expected names of columns"),
        ("SELECT second_largest(s) FROM t", "takes columns of numbers"),
        ("SELECT second_largest(nope) FROM t", "nope"),
        ("SELECT second_largest(DISTINCT n) FROM t", "neither DISTINCT nor an order"),
        ("SELECT second_largest(n) FROM t WHERE random() < 2", "computed by DuckDB"),
        ("SELECT second_largest(n), (SELECT 1) FROM t", "subquery"),
        ("SELECT second_larges(n) FROM t", "did you mean 'second_largest'"),
        ("SELECT second_largest(n) OVER () FROM t", "window"),
        ("SELECT second_largest(1)", "it stands in no selection of one stream"),
    ],
)
def test_what_cannot_be(store: Store, text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        store.sql(text)
    assert "second_larg" in str(caught.value)
    assert "^" in str(caught.value)


def test_code_that_is_not_here(tmp_path_factory: pytest.TempPathFactory) -> None:
    with tidelog.open(tmp_path_factory.mktemp("absent"), maintenance="manual") as other:
        stream = other.create_stream("t", time="ts", data=table().slice(0, 100), user_aggregates=["test_span(x)"])
        stream.flush()
        aggregates.unregister(Span)
        try:
            with pytest.raises(tidelog.TidelogError, match=r"code of the aggregate .*test_span is not here"):
                other.sql("SELECT test_span(x) FROM t")
        finally:
            aggregates.register(Span)


def test_aggregates_the_index_knows_beside_others(store: Store) -> None:
    """Only the columns of the others are read."""
    result = store.sql(
        "SELECT date_trunc('day', ts) AS d, max(n), median(x), avg(n) FROM bare WHERE ts >= '1970-01-02 01:00' "
        "GROUP BY d HAVING max(n) > 100 ORDER BY d LIMIT 3"
    )
    rows = table().slice(1500)
    first = rows.slice(0, 1380)
    found = result.fetchall()
    assert len(found) == 3
    values = first["n"].to_numpy()
    assert found[0][1:] == (
        int(values.max()),
        float(np.median(first["x"].drop_null().to_numpy())),
        values.sum() / len(values),
    )
    (relation,) = result._query.relations.values()
    assert [set(reading.columns) for reading in relation.readings] == [{"ts", "x"}]
    assert relation.way.startswith('the index: max("n"), avg("n"), count(*) of 13 ranges of time')
    whole = store.sql("SELECT median(n), count(*), max(n) FROM bare")  # nothing would be saved
    assert whole.fetchall() == [(float(np.median(table()["n"].to_numpy())), ROWS, int(table()["n"].to_numpy().max()))]
    (relation,) = whole._query.relations.values()
    assert relation.way.startswith("the events")
    assert "median(n) takes the events" in relation.reasons[0]
