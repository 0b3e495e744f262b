"""``LOGICAL_MERGE`` in SQL: against DuckDB's union and counts, on streams, tables and what arrives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidelog
from operators.merge.copies import KINDS, copy, events
from tidelog.engine.store import Store
from tidelog.operators.merge.codes import NEVER, STABLE
from tidelog.operators.merge.elements import KINDS as NAMES
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.table import table_of
from tidelog.sql.errors import SqlError


def _copy(seed: int) -> pa.Table:
    """Most of some events, a few of them twice, in any order."""
    dice = random.Random(seed)
    whole = [(10 * (number // 3), "uvw"[number % 3], number // 2) for number in range(90)]
    rows = [each for each in whole if dice.random() < 0.9]
    rows += [each for each in rows if dice.random() < 0.1]
    dice.shuffle(rows)
    ts, k, x = zip(*rows, strict=True)
    return pa.table({"ts": pa.array(ts, pa.int64()).cast(pa.timestamp("us")), "k": k, "x": x})


TABLES = {name: _copy(seed) for seed, name in enumerate(("a", "b", "c"))}


def _element_table(elements: list[Element]) -> pa.Table:
    fields: list[Any] = [("kind", pa.string())]
    fields += [(name, pa.int64()) for name in ("valid_from", "valid_to", "old_valid_to", "p")]
    rows = []
    for each in elements:
        if each.kind == STABLE:
            rows.append({"kind": "stable", "valid_from": each.end})
        else:
            old = each.old if each.kind == 1 and each.old != NEVER else None
            end = None if each.end == NEVER else each.end
            row = {"kind": NAMES[each.kind], "valid_from": each.start, "valid_to": end, "old_valid_to": old}
            rows.append(row | {"p": each.payload})
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("merges"), maintenance="manual") as opened:
        for name, table in TABLES.items():
            opened.create_stream(name, table.schema, "ts").append(table)
        opened.create_stream("other", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string())]), "ts")
        wide = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("x", pa.float64())])
        opened.create_stream("floats", wide, "ts")
        yield opened


def _asked(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        return sorted(connection.sql(text).fetchall())


UNION = "SELECT ts, k, x FROM a UNION SELECT ts, k, x FROM b UNION SELECT ts, k, x FROM c"
MOST = (
    "SELECT ts, k, x FROM (SELECT ts, k, x, max(n) AS n FROM (SELECT ts, k, x, 'a' AS i, count(*) AS n FROM a GROUP BY "
    "ALL UNION ALL SELECT ts, k, x, 'b', count(*) FROM b GROUP BY ALL UNION ALL SELECT ts, k, x, 'c', count(*) FROM c "
    "GROUP BY ALL) GROUP BY ts, k, x) JOIN (SELECT unnest([1, 2, 3]) AS m) ON m <= n"
)
MERGES = {
    "with a key": ("LOGICAL_MERGE(TABLE a, TABLE b, TABLE c, KEY => *)", UNION),
    "with columns": ("LOGICAL_MERGE(TABLE a, TABLE b, TABLE c, KEY => (x, k), ALGORITHM => 'R2d')", UNION),
    "counted": ("LOGICAL_MERGE(TABLE a, TABLE b, TABLE c)", MOST),
    "queries": (
        "LOGICAL_MERGE((SELECT * FROM a WHERE x > 10), "
        "TABLE (SELECT x, k, ts AS t FROM b WHERE x > 10) DESCRIPTOR(t), KEY => *)",
        "SELECT ts, k, x FROM a WHERE x > 10 UNION SELECT ts, k, x FROM b WHERE x > 10",
    ),
}


@pytest.mark.parametrize("case", MERGES)
@pytest.mark.parametrize("stored", [True, False])
def test_whatever_one_copy_has_comes_out(store: Store, case: str, stored: bool) -> None:
    merge, expected = MERGES[case]
    text = f"SELECT ts, k, x FROM {merge} m"
    found = store.sql(text) if stored else tidelog.sql(text, tables=TABLES)
    assert sorted(found.fetchall()) == _asked(expected)


def test_instants_of_a_query_are_merged_with_those_of_a_stream_in_any_zone(store: Store) -> None:
    """DuckDB gives them in the zone of the statement; the same text is asked of history and of what arrives."""
    schema = pa.schema([("ts", pa.timestamp("us", "Asia/Tokyo")), ("seen", pa.timestamp("us", "America/Lima"))])
    times = [0, 5, 7]
    table = pa.table([pa.array(times, pa.int64()).cast(each.type) for each in schema], schema=schema)
    store.create_stream("zoned", schema, "ts").append(table)
    query = "(SELECT ts, seen FROM HOP(TABLE zoned, DESCRIPTOR(ts), '1 us', '2 us')) DESCRIPTOR(ts)"
    for sides in (f"TABLE zoned, {query}", f"{query}, TABLE zoned"):
        text = f"SELECT ts, seen FROM LOGICAL_MERGE({sides})"
        live = pa.Table.from_batches(store.subscribe(text, follow=False))
        for rows in (store.sql(text).arrow(), live):
            ts, seen = (column.cast(pa.int64()).to_pylist() for column in rows.columns)
            assert sorted(zip(ts, seen, strict=True)) == [(0, 0), (0, 0), (5, 5), (5, 5), (7, 7), (7, 7)]


def test_it_stands_among_other_things(store: Store) -> None:
    merge = "LOGICAL_MERGE(TABLE a, TABLE b, KEY => *)"
    union = "(SELECT ts, k, x FROM a UNION SELECT ts, k, x FROM b)"
    for text in (
        "SELECT m.k, count(*), max(m.x) FROM {} m WHERE x % 2 = 0 GROUP BY ALL ORDER BY 1",
        "SELECT c.x, count(*) FROM {} m JOIN c ON c.x = m.x AND c.k = m.k GROUP BY ALL ORDER BY 1",
    ):
        assert store.sql(text.format(merge)).fetchall() == _asked(text.format(union))
    text = "SELECT window_start, count(*) FROM {} GROUP BY window_start, window_end ORDER BY 1"
    found = store.sql(text.format(f"TUMBLE(TABLE {merge}, DESCRIPTOR(ts), '100 us')")).fetchall()
    assert found == _asked(
        f"SELECT time_bucket(INTERVAL '100 us', ts) AS w, count(*) FROM {union} GROUP BY w ORDER BY w"
    )
    assert "LOGICAL_MERGE" in str(store.sql(f"EXPLAIN SELECT * FROM {merge}").fetchall())


def test_revisions_are_merged(store: Store) -> None:
    dice = random.Random(3)
    kind = KINDS["R3"]
    for _ in range(20):
        whole = events(dice, kind, count=20, span=40)
        tables = {name: _element_table(copy(dice, kind, whole)) for name in ("a", "b", "c")}
        sides = ", ".join(f"TABLE {name} DESCRIPTOR(valid_from)" for name in tables)
        rows = tidelog.sql(f"SELECT * FROM LOGICAL_MERGE({sides}, KEY => p)", tables=tables).arrow().to_pylist()
        out = [
            Element(
                NAMES.index(each["kind"]),
                each["p"],
                each["valid_from"],
                NEVER if each["valid_to"] is None else each["valid_to"],
                NEVER if each["old_valid_to"] is None else each["old_valid_to"],
            )
            for each in rows
            if each["kind"] != "stable"
        ]
        assert table_of(out).events == Counter(whole)


def test_what_arrives_is_merged_as_history_is(store: Store) -> None:
    merge = "LOGICAL_MERGE(TABLE a, TABLE b, TABLE c, KEY => *, DELAY => INTERVAL '1 second')"
    for text in (
        f"SELECT ts, k, x * 2 AS y FROM {merge} AS m WHERE m.x > 4",
        f"SELECT window_end, count(*) AS n, max(x) AS top FROM {merge} GROUP BY window(ts, '70 us')",
        f"SELECT * FROM {merge}",
    ):
        found = pa.Table.from_batches(store.subscribe(text, lateness="1s", follow=False))
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, store.sql(text).arrow().to_pylist()))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("SELECT * FROM LOGICAL_MERGE(TABLE zz, TABLE a)", "zz", "zz"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, b)", "expected TABLE", "b"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE other)", "no column 'x'", "other"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE other, TABLE a)", "found a column 'x'", "a)"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE floats)", "type double; expected int64", "floats"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, KEYS => k)", "found KEYS", "KEYS"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, KEY => k, KEY => x)", "KEY twice", "KEY => x"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, KEY => k, TABLE b)", "tables first", "TABLE b"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b, KEY => (k, y))", "no column 'y'", "(k, y)"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b, ALGORITHM => 'R9')", "no algorithm 'R9'", "'R9'"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b, POLICY => 'eager')", "no policy 'eager'", "'eager'"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b, OUTPUT => 'rows')", "expected one of 'events'", "'rows'"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b, DELAY => x)", "expected a constant", "x)"),
        ("SELECT * FROM LOGICAL_MERGE(TABLE a, TABLE b", "not closed", "LOGICAL_MERGE"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(store: Store, text: str, message: str, at: str, continuous: bool) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        store.subscribe(text).close() if continuous else store.sql(text).fetchall()
    assert raised.value.text == text
    assert raised.value.position is not None, raised.value
    assert text[raised.value.position :].startswith(at), raised.value
