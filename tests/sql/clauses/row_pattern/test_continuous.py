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
    ("ORDER BY ts MEASURES n AS a PATTERN (A) LIMIT 1 ROWS LIMIT 2 ROWS", "a second LIMIT"),
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


def test_longer_matches_than_the_limit_are_an_error() -> None:
    """LIMIT is about the memory, so a match is not cut."""
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES n AS a PATTERN (A+) LIMIT 3 ROWS)"
    assert tidelog.sql(text, tables={"t": pa.table({"n": [1, 2, 3]})}).fetchall() == [(3,)]
    with pytest.raises(tidelog.TidelogError, match="more than 3 rows"):
        tidelog.sql(text, tables={"t": pa.table({"n": [1, 2, 3, 4]})}).fetchall()
