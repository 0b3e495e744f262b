"""TUMBLE, HOP and SESSION as tables, against DuckDB's own means, and against the same windows in GROUP BY."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.plan import choosing
from tidelog.sql.clauses import windows
from tidelog.sql.errors import SqlError

COUNT = 700


def _events() -> pa.Table:
    draw = np.random.default_rng(12)
    seconds = np.sort(draw.integers(0, 4000, COUNT)) * 7 % 20000
    return pa.table(
        {
            "ts": pa.array(np.sort(seconds) * 1_000_000, pa.int64()).cast(pa.timestamp("us")),
            "k": pa.array(draw.choice(["a", "b", "c"], COUNT), pa.string(), mask=draw.random(COUNT) < 0.1),
            "n": pa.array(draw.integers(-9, 10, COUNT), pa.int64(), mask=draw.random(COUNT) < 0.1),
        }
    )


EVENTS = _events()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("tables"), maintenance="manual") as opened:
        stream = opened.create_stream("events", EVENTS.schema, "ts", leaf_rows=128)
        stream.append(EVENTS)
        plain = pa.schema([("t", pa.int64()), ("v", pa.int64())])
        opened.create_stream("plain", plain, "t").append({"t": [10, 11, 13, 17], "v": [1, 2, 3, 4]})
        yield opened


def _asked(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("events", EVENTS)
        return connection.execute(text).fetchall()


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def test_an_offset_moves_windows_of_instants_in_any_zone(store: Store) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "Asia/Kolkata"))])
    store.create_stream("zoned", schema, "ts").append({"ts": pa.array([0, 1, 2, 9], pa.int64()).cast(schema[0].type)})
    tumble = "FROM TUMBLE(TABLE zoned, DESCRIPTOR(ts), '5 us', '2 us')"
    grouped = f"SELECT epoch_us(window_end), count(*) {tumble} GROUP BY window_start, window_end ORDER BY 1"
    assert store.sql(grouped).fetchall() == [(2, 2), (7, 1), (12, 1)]
    assert store.sql(f"SELECT epoch_us(window_end) {tumble} ORDER BY 1").fetchall() == [(2,), (2,), (7,), (12,)]


@pytest.mark.parametrize("offset", [None, "7 seconds", "-20 minutes"])
@pytest.mark.parametrize(
    ("slide", "size"), [("5 minutes", "5 minutes"), ("4 minutes", "10 minutes"), ("1 hour", "10 s")]
)
def test_each_row_once_for_each_window(store: Store, slide: str, size: str, offset: str | None) -> None:
    more = "" if offset is None else f", INTERVAL '{offset}'"
    if slide == size:
        table = f"TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}'{more})"
    else:
        table = f"HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{slide}', INTERVAL '{size}'{more})"
    starts = f"""
        SELECT unnest(generate_series(time_bucket(INTERVAL '{slide}', min(ts) - INTERVAL '{size}',
            TIMESTAMP '1970-01-01' + INTERVAL '{offset or "0 s"}') - INTERVAL '{slide}', max(ts),
            INTERVAL '{slide}')) AS s
        FROM events
    """
    expected = f"SELECT e.*, s, s + INTERVAL '{size}' AS w FROM events e, ({starts}) WHERE ts >= s AND ts < w"
    assert _sorted(store.sql(f"SELECT * EXCLUDE (window_time) FROM {table}").fetchall()) == _sorted(_asked(expected))
    last = "window_end - INTERVAL 1 MICROSECOND"
    assert store.sql(f"SELECT count(*) FROM {table} WHERE window_time <> {last}").fetchall() == [(0,)]
    for groups in ("window_start, window_end, k", "ALL", "1, 2, w.k"):
        grouped = store.sql(
            f"SELECT window_start, window_end, k, count(*), sum(w.n) FROM {table} AS w WHERE n IS NULL OR n < 8 "
            f"GROUP BY {groups}"
        ).fetchall()
        wanted = _asked(f"SELECT s, w, k, count(*), sum(n) FROM ({expected}) WHERE n IS NULL OR n < 8 GROUP BY s, w, k")
        assert _sorted(grouped) == _sorted(wanted)


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_sessions(store: Store, keys: tuple[str, ...]) -> None:
    part = f" PARTITION BY {', '.join(keys)}" if keys else ""
    over = f"OVER (PARTITION BY {', '.join(keys) or '1'} ORDER BY ts"
    expected = f"""
        SELECT * EXCLUDE (begins, number), min(ts) OVER s, max(ts) OVER s + INTERVAL '40 s' FROM (
            SELECT *, sum(begins) {over} ROWS UNBOUNDED PRECEDING) AS number FROM (
                SELECT *, coalesce(CAST(ts - lag(ts) {over}) > INTERVAL '40 s' AS INTEGER), 1) AS begins FROM events))
        WINDOW s AS (PARTITION BY {", ".join((*keys, "number"))})
    """
    table = f"SESSION(TABLE events{part}, DESCRIPTOR(ts), INTERVAL '40' SECOND)"
    rows = _sorted(store.sql(f"SELECT * EXCLUDE (window_time) FROM {table}").fetchall())
    assert rows == _sorted(_asked(expected))
    also = "".join(f", {key}" for key in keys)
    grouped = store.sql(
        f"SELECT window_start, window_end{also}, count(*), max(n) FROM {table} GROUP BY window_start, window_end{also}"
    ).fetchall()
    same = store.sql(
        f"SELECT window_start, window_end{also}, count(*), max(n) FROM events GROUP BY session_window(ts, '40 s'){also}"
    ).fetchall()
    assert _sorted(grouped) == _sorted(same)
    coarser = f"SELECT window_start, count(*) FROM {table} GROUP BY window_start"
    assert sum(row[1] for row in store.sql(coarser).fetchall()) == COUNT


def _way(store: Store, text: str) -> str:
    return "\n".join(line for (line,) in store.sql(f"EXPLAIN {text}").fetchall())


def test_windows_that_are_grouped_are_those_of_group_by(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
    text = f"SELECT window_start, sum(n) FROM {table} GROUP BY window_start, window_end"
    assert "TUMBLE: replay of the rows in order" in _way(store, text)
    found = store.sql(text).fetchall()
    monkeypatch.setattr(choosing, "LEAST_LEAVES", 0)
    monkeypatch.setattr(windows, "fastest", lambda found: next(each for each in found if each.name == "optimised"))
    assert "TUMBLE: the index" in _way(store, text)
    assert store.sql(text).fetchall() == found
    assert "because the selection is not grouped by window_start and window_end" in _way(store, f"FROM {table}")
    assert "because window_time is selected" in _way(store, text.replace("SELECT", "SELECT max(window_time),"))
    mixed = text.replace("sum(n)", "max(window_end - ts)")
    assert "because there are aggregates of the windows themselves" in _way(store, mixed)
    other = f"SELECT window_start, count(*) FROM {table} WHERE window_end > ts GROUP BY 1"
    assert "because there are conditions or groups" in _way(store, other)


def test_windows_of_anything(store: Store) -> None:
    counts = "SELECT window_start, count(*) FROM {} GROUP BY window_start, window_end ORDER BY 1"
    direct = store.sql(counts.format("TUMBLE(TABLE events, DESCRIPTOR(ts), '10 minutes')")).fetchall()
    texts = [
        counts.format("TUMBLE(TABLE (SELECT * FROM events), DESCRIPTOR(ts), '10 minutes')"),
        counts.format("TABLE(TUMBLE(TABLE events AS e, DESCRIPTOR(e.ts), '10 minutes'))"),
        counts.format("TUMBLE(DATA => TABLE events, SIZE => '10 minutes', TIMECOL => DESCRIPTOR(ts))"),
        "WITH c AS (FROM events) " + counts.format("TUMBLE(TABLE c, DESCRIPTOR(ts), '10 minutes') AS w"),
        "SELECT window_start, count(*) FROM (FROM HOP(TABLE events, DESCRIPTOR(ts), '10 minutes', '10 minutes')) "
        "GROUP BY window_start ORDER BY 1",
    ]
    for text in texts:
        assert store.sql(text).fetchall() == direct, text
    given = tidelog.sql(texts[0], tables={"events": EVENTS}).fetchall()
    assert given == direct


def test_windows_of_four_events(store: Store) -> None:
    """Windows of 4 that begin every 2, the first one with the first event; those that are not full are left out."""
    text = (
        "SELECT window_start, window_end - 1, count(*) FROM plain GROUP BY window(t, 4, 2, 'first event'{}) ORDER BY 1"
    )
    complete = [(10, 13, 3), (12, 15, 1), (14, 17, 1)]
    assert store.sql(text.format(", complete_only => true")).fetchall() == complete
    assert store.sql(text.format("")).fetchall()[-3:] == [*complete[1:], (16, 19, 1)]
    shifted = "SELECT v, window_start FROM HOP(TABLE plain, DESCRIPTOR(t), 2, 4, 10) WHERE t = 13 ORDER BY 2"
    assert store.sql(shifted).fetchall() == [(3, 10), (3, 12)]


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (100, 30)])
def test_slides_that_do_not_divide_sizes(store: Store, size: int, slide: int) -> None:
    times = EVENTS["ts"].cast(pa.int64()).to_numpy() // 1_000_000
    found = store.sql(
        f"SELECT epoch(window_start), count(*) FROM HOP(TABLE events, DESCRIPTOR(ts), INTERVAL {slide} SECONDS, "
        f"INTERVAL {size} SECONDS) GROUP BY window_start, window_end ORDER BY 1"
    ).fetchall()
    starts = range((int(times[0]) - size) // slide * slide, int(times[-1]) + 1, slide)
    counts = [(start, int(((times >= start) & (times < start + size)).sum())) for start in starts]
    assert found == [each for each in counts if each[1]]


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("FROM TUMBLE(TABLE zz, DESCRIPTOR(ts), '1 s')", "no stream or table 'zz'", "zz"),
        ("FROM TUMBLE(events, DESCRIPTOR(ts), '1 s')", "expected TABLE", "events"),
        ("FROM TUMBLE(TABLE events, ts, '1 s')", "expected DESCRIPTOR", "ts"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(zz), '1 s')", "no column 'zz'", "zz"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(k), '1 s')", "'k' of type string as time", "k)"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts + 1), '1 s')", "expected the name of a column", "ts + 1"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(_seq), '1 s')", "no column '_seq'", "_seq"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts))", "without SIZE", ")"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), 'long')", "Could not convert", "'long'"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), n)", "expected a constant", "n)"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), '1 s', '1 s', '1 s')", "more arguments", "'1 s')"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), SLIDE => '1 s')", "found SLIDE", "SLIDE"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), SIZE => '1 s', SIZE => '1 s')", "SIZE twice", "SIZE => '1 s')"),
        ("FROM HOP(TABLE events, DESCRIPTOR(ts), '1 s')", "HOP without SIZE", ")"),
        ("FROM HOP(TABLE events, DESCRIPTOR(ts), '0 s', '1 s')", "expected at least 1", "HOP"),
        ("FROM HOP(TABLE plain, DESCRIPTOR(t), '1 s', '1 s')", "whole number", "'1 s'"),
        ("FROM SESSION(TABLE events PARTITION BY zz, DESCRIPTOR(ts), '1 s')", "no column 'zz'", "zz"),
        ("FROM SESSION(TABLE events PARTITION BY upper(k), DESCRIPTOR(ts), '1 s')", "names of columns", "upper"),
        ("FROM SESSION(TABLE events, DESCRIPTOR(ts), '-1 s')", "below zero", "SESSION"),
        ("FROM TUMBLE(TABLE (SELECT *, 1 AS window_end FROM events), DESCRIPTOR(ts), '1 s')", "another name", "TUMBLE"),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), '1 s') WHERE zz > 1", '"zz" not found', "zz"),
        ("SELECT k FROM TUMBLE(TABLE events, DESCRIPTOR(ts), '1 s') GROUP BY window_start", "neither in GROUP BY", "k"),
        ("FROM TUMBLE(TABLE events AT (VERSION => 1), DESCRIPTOR(ts), '1 s') GROUP BY zz", "zz|GROUP BY", None),
        ("FROM TUMBLE(TABLE events, DESCRIPTOR(ts), '1 s') AT (VERSION => 1)", "only streams have a past", "TUMBLE"),
        ("SELECT TUMBLE(TABLE events, DESCRIPTOR(ts), '1 s')", "syntax error|where no table stands", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(store: Store, text: str, message: str, at: str | None) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        store.sql(text).fetchall()
    assert raised.value.text == text
    if at is not None:
        assert raised.value.position is not None, raised.value
        assert text[raised.value.position :].startswith(at), raised.value
