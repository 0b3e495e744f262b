"""Row patterns that are asked of what arrives: the same matches as of what is stored, and what is refused."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

START = datetime.datetime(2026, 1, 1)
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        ("user", pa.string()),
        ("kind", pa.string()),
        ("n", pa.int64()),
    ]
)


def events(seed: int, count: int) -> pa.Table:
    """Events of three users, with equal times."""
    draw = random.Random(seed)
    at = 0
    rows = []
    for number in range(count):
        at += draw.choice([0, 1, 1, 2, 5])
        user = draw.choice("xyz")
        rows.append((START + datetime.timedelta(seconds=at), user, draw.choice(["fail", "fail", "ok", "out"]), number))
    return pa.table([list(each) for each in zip(*rows, strict=True)], schema=SCHEMA)


CLAUSES = [
    "PARTITION BY user ORDER BY ts MEASURES FIRST(n) AS a, LAST(n) AS b, count(F.*) AS fails "
    "PATTERN (F{2,} K) WITHIN INTERVAL 20 SECONDS DEFINE F AS kind = 'fail', K AS kind = 'ok'",
    "PARTITION BY user ORDER BY ts MEASURES MATCH_NUMBER() AS a, n AS b ALL ROWS PER MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (F K?) DEFINE F AS kind = 'fail', K AS kind = 'ok'",
    "ORDER BY ts MEASURES F.n AS a, K.n AS b ALL MATCHES PATTERN (F K) SKIP TILL NEXT WITHIN '3 seconds' "
    "DEFINE F AS kind = 'fail', K AS kind = 'ok' AND user = F.user",
    "PARTITION BY user ORDER BY ts MEASURES FIRST(n) AS a, CASE WHEN K.n IS NULL THEN -1 ELSE K.n END AS b "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (F F K) SKIP TILL NEXT WITHIN '9 seconds' EMIT TIMEOUTS "
    "DEFINE F AS kind = 'fail', K AS kind = 'ok'",
    "ORDER BY ts MEASURES FIRST(n) AS a, LAST(n) AS b PATTERN (F+) LIMIT 100 ROWS DEFINE F AS kind = 'fail'",
]


@pytest.mark.parametrize("clause", CLAUSES)
def test_matches_of_what_arrives_are_those_of_what_is_stored(tmp_path: Path, clause: str) -> None:
    """Appended in pieces, and all at once."""
    table = events(3, 400)
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("logins", SCHEMA, "ts")
        text = f"FROM logins MATCH_RECOGNIZE ({clause}) AS m"
        found: list[tuple[int, int]] = []
        with store.subscribe(f"SELECT m.a, m.b, match_time {text}") as subscription:
            for first in range(0, table.num_rows, 90):
                stream.append(table.slice(first, 90))
            store.flush()
            subscription.finish()
            for batch in subscription:
                found += zip(batch["a"].to_pylist(), batch["b"].to_pylist(), strict=True)
        expected = store.sql(f"SELECT m.a, m.b {text}").fetchall()
    assert len(expected) > 5
    assert sorted(found) == sorted(expected)


def test_a_star_stands_for_the_time_of_matches_by_its_name(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_stream("logins", SCHEMA, "ts")
        pattern = "SELECT * FROM logins MATCH_RECOGNIZE (ORDER BY ts MEASURES n AS a PATTERN (A))"
        for text in (pattern, f"SELECT * FROM ({pattern}) AS m"):
            with store.subscribe(text) as subscription:
                assert subscription.schema.names == ["a", "match_time"]


REFUSED = [
    ("ORDER BY ts MEASURES n AS a PATTERN (A $)", "anchor $"),
    ("ORDER BY n MEASURES n AS a PATTERN (A)", "not led by its time"),
    ("ORDER BY ts DESC MEASURES n AS a PATTERN (A)", "not led by its time"),
    ("MEASURES n AS a PATTERN (A)", "not led by its time"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A+)", "any number of rows"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A B) SKIP TILL NEXT", "wait for them for ever"),
    ("PARTITION BY upper(user) ORDER BY ts MEASURES n AS a PATTERN (A)", "an expression as a key"),
    ("PARTITION BY missing ORDER BY ts MEASURES n AS a PATTERN (A)", "no column 'missing'"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A) DEFINE A AS ts < now()", "tells another time"),
    ("ORDER BY ts MEASURES getenv('HOME') AS a PATTERN (A)", "the function getenv"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A) DEFINE A AS kinds = 'x'", "no column 'kinds'"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A) LIMIT 0 ROWS", "at least 1"),
    ("ORDER BY ts MEASURES n AS a PATTERN (A) LIMIT 1 ROWS LIMIT 2 ROWS", "a second LIMIT of rows"),
]


@pytest.mark.parametrize(("clause", "message"), REFUSED)
def test_what_no_stream_can_answer_is_refused(tmp_path: Path, clause: str, message: str) -> None:
    """Before anything is read, at its place."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("logins", SCHEMA, "ts")
        with pytest.raises(SqlError) as caught:
            store.subscribe(f"SELECT * FROM logins MATCH_RECOGNIZE ({clause})")
    assert message in caught.value.message
    assert caught.value.position is not None


def test_rows_of_one_time_are_ordered_as_in_history(tmp_path: Path) -> None:
    """By further keys in any direction, with nulls on either side and NaN above all numbers."""
    value = "CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE ELSE n % 3 END AS v"
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("logins", SCHEMA, "ts")
        orders = [f"v {way} NULLS {nulls}" for way in ("ASC", "DESC") for nulls in ("FIRST", "LAST")]
        texts = [
            f"FROM (SELECT ts, n, {value} FROM logins) MATCH_RECOGNIZE (ORDER BY ts, {order} MEASURES n AS a, "
            "PREV(n) AS b PATTERN (A) WITHIN INTERVAL 0 SECONDS) AS m"
            for order in orders
        ]
        subscriptions = [store.subscribe(f"SELECT m.a, m.b, match_time {text}") for text in texts]
        stream.append(events(5, 60))
        store.flush()
        results = []
        for text, subscription in zip(texts, subscriptions, strict=True):
            subscription.finish()
            found = [(row["a"], row["b"]) for batch in subscription for row in batch.to_pylist()]
            subscription.close()
            assert sorted(found) == sorted(store.sql(f"SELECT m.a, m.b {text}").fetchall())
            results.append(sorted(found))
    assert len({str(each) for each in results}) == 4


def test_time_of_a_match_is_asked_for_by_its_name(tmp_path: Path) -> None:
    """What comes out has a time, which is the end of the calendar where only the end of the rows decides."""
    text = "FROM logins MATCH_RECOGNIZE (ORDER BY ts MEASURES F.n AS a, NEXT(F.n) AS b PATTERN (F)) AS m"
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("logins", SCHEMA, "ts")
        with pytest.raises(SqlError, match="time of the rows, 'match_time'"):
            store.subscribe(f"SELECT m.a {text}")
        with store.subscribe(f"SELECT m.a, m.b, m.match_time {text}") as subscription:
            stream.append(events(3, 2))
            store.flush()
            subscription.finish()
            found = [row for batch in subscription for row in batch.to_pylist()]
    assert [(row["a"], row["b"]) for row in found] == [(0, 1), (1, None)]
    assert found[1]["match_time"] == datetime.datetime.max


def test_the_limit_of_rows_bounds_what_a_stream_waits_for(tmp_path: Path) -> None:
    """Rows that are skipped count: they are kept until a match is found."""
    text = (
        "SELECT match_time FROM logins MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES 1 AS one "
        "PATTERN (F K) SKIP TILL NEXT LIMIT 5 ROWS DEFINE F AS kind = 'fail', K AS kind = 'ok')"
    )
    kinds = ["fail", "out", "out", "out", "ok", "fail", "out", "out", "out", "out"]

    def rows(*kinds: str, first: int = 0) -> pa.Table:
        times = [START + datetime.timedelta(seconds=first + at) for at in range(len(kinds))]
        return pa.table([times, ["x"] * len(kinds), list(kinds), range(len(kinds))], schema=SCHEMA)

    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("logins", SCHEMA, "ts")
        stream.append(rows(*kinds))
        with store.subscribe(text, follow=False) as found:
            assert sum(batch.num_rows for batch in found) == 1
        stream.append(rows("ok", first=20))
        with (
            store.subscribe(text, follow=False) as found,
            pytest.raises(tidelog.TidelogError, match="more than 5 rows"),
        ):
            list(found)


def test_states_have_a_limit_that_can_be_set() -> None:
    """A pattern with too many ways ends in an error, with few allowed in one at once."""
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS c PATTERN ((A+)+ B) {} "
        "DEFINE A AS count(*) > 0, B AS n < 0)"
    )
    table = pa.table({"n": range(24)})
    with pytest.raises(tidelog.TidelogError, match="after 100 states"):
        tidelog.sql(text.format("LIMIT 100 STATES"), tables={"t": table}).fetchall()
    assert tidelog.sql(text.format("LIMIT 100 STATES"), tables={"t": table.slice(0, 6)}).fetchall() == []


@pytest.mark.parametrize("name", [None, "kept"])
def test_late_rows_are_set_aside(tmp_path: Path, name: str | None) -> None:
    """They are in no match, are counted, and given to who asks for them; others are matched as if they were not."""
    table = events(5, 300)
    seconds = [int((each - START).total_seconds()) for each in table["ts"].to_pylist()]
    draw = random.Random(6)
    order = sorted(range(300), key=lambda at: seconds[at] + draw.choice([0, 0, 0, 3, 12]))
    newest, late = -1, []
    for at in order:
        newest = max(newest, seconds[at])
        if newest - seconds[at] > 4:
            late.append(at)
    clause = f"FROM logins MATCH_RECOGNIZE ({CLAUSES[0]}) AS m"
    aside: list[int] = []
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("logins", SCHEMA, "ts")
        others = store.create_stream("others", SCHEMA, "ts")
        found = []
        with store.subscribe(
            f"SELECT m.a, m.b, m.fails, match_time {clause}",
            name=name,
            lateness="4s",
            on_late=lambda _, rows: aside.extend(rows["n"].to_pylist()),
        ) as subscription:
            for first in range(0, 300, 37):
                stream.append(table.take(order[first : first + 37]))
                stream.flush()
            subscription.finish()
            for batch in subscription:
                found += [tuple(row.values())[:3] for row in batch.to_pylist()]
            assert subscription.stats()["late"] == len(late)
        others.append(table.take([at for at in order if at not in late]))
        expected = store.sql(f"SELECT m.a, m.b, m.fails {clause.replace('logins', 'others')}").fetchall()
    assert len(late) > 10
    assert sorted(aside) == sorted(late)
    assert sorted(found) == sorted(expected) != []


def test_longer_matches_than_the_limit_are_an_error() -> None:
    """LIMIT is about the memory, so a match is not cut."""
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES n AS a PATTERN (A+) LIMIT 3 ROWS)"
    assert tidelog.sql(text, tables={"t": pa.table({"n": [1, 2, 3]})}).fetchall() == [(3,)]
    with pytest.raises(tidelog.TidelogError, match="more than 3 rows"):
        tidelog.sql(text, tables={"t": pa.table({"n": [1, 2, 3, 4]})}).fetchall()
