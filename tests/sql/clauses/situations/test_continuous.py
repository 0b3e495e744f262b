"""Situations that are asked of what arrives: the same as of what is stored, and what is refused."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

START = datetime.datetime(2026, 1, 1)
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        ("car", pa.string()),
        ("speed", pa.float64()),
        ("rain", pa.bool_()),
    ]
)


def readings(seed: int, count: int) -> pa.Table:
    """Readings of three cars, with equal times and nulls."""
    draw = random.Random(seed)
    at = 0
    speed = dict.fromkeys("xyz", 50.0)
    rain = False
    rows = []
    for _ in range(count):
        at += draw.choice([0, 1, 1, 2])
        car = draw.choice("xyz")
        speed[car] = max(0.0, min(120.0, speed[car] + draw.choice([-25.0, -10.0, 10.0, 25.0])))
        rain = rain if draw.random() < 0.9 else not rain
        shown = None if draw.random() < 0.05 else speed[car]
        rows.append((START + datetime.timedelta(seconds=at), car, shown, rain))
    return pa.table([list(each) for each in zip(*rows, strict=True)], schema=SCHEMA)


CLAUSES = [
    "SITUATIONS (PARTITION BY car DEFINE A AS speed > 60, B AS rain PATTERN A overlaps | during | starts | contains B "
    "WITHIN 2 minutes RETURN avg(A.speed) AS a, count(B.*) AS b, A.duration AS d, B.start_time AS s)",
    "SITUATIONS (PARTITION BY car DEFINE A AS speed > 60 AT LEAST 3s, B AS rain PATTERN A overlaps | overlapped by B "
    "WITHIN '2 minutes' RETURN max(A.speed) AS a, A.start_time AS s MODE EARLY)",
    "SITUATIONS (DEFINE A AS speed > 60, B AS speed < 40, C AS rain PATTERN A before B AND B during | overlaps C "
    "WITHIN INTERVAL 1 MINUTE)",
    "DERIVE (PARTITION BY upper(readings.car), speed IS NULL DEFINE A AS speed > 60 BETWEEN 2s AND 30s, B AS rain "
    "RETURN max(speed) AS m)",
]


def taken(subscription: Any) -> list[tuple[Any, ...]]:
    """All rows of a subscription that ends."""
    subscription.finish()
    return [tuple(row.values()) for batch in subscription for row in batch.to_pylist()]


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("size", [37, 400])
def test_what_arrives_gives_what_is_stored(tmp_path: Path, clause: str, size: int) -> None:
    """Appended in pieces of several sizes, and asked at once of the store and of a table."""
    table = readings(3, 400)
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("readings", SCHEMA, "ts")
        with store.subscribe(f"SELECT * FROM readings {clause}") as subscription:
            for first in range(0, table.num_rows, size):
                stream.append(table.slice(first, size))
            store.flush()
            found = taken(subscription)
        expected = store.sql(f"SELECT * FROM readings {clause}").fetchall()
    of_table = tidelog.sql(f"SELECT * FROM readings {clause}", tables={"readings": table}).fetchall()
    assert len(expected) > 3
    assert expected == of_table
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_rows_that_are_late_within_the_lateness_are_sorted_in(tmp_path: Path) -> None:
    """As if they had come in order."""
    table = readings(5, 200)
    swapped = pa.concat_tables([table.slice(0, 60), table.slice(80, 20), table.slice(60, 20), table.slice(100)])
    text = f"SELECT * FROM readings {CLAUSES[0]}"
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("readings", SCHEMA, "ts")
        with store.subscribe(text, lateness="1h") as subscription:
            for first in range(0, swapped.num_rows, 20):
                stream.append(swapped.slice(first, 20))
            store.flush()
            found = taken(subscription)
            assert subscription.stats()["late"] == 0
    expected = tidelog.sql(text, tables={"readings": table}).fetchall()
    assert len(expected) > 3
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_filter_and_a_query_around_situations(tmp_path: Path) -> None:
    """Rows of a query in parentheses are taken; matches are selected like rows of a stream."""
    table = readings(7, 300)
    text = (
        "SELECT m.car, m.a + 1 AS more, match_time FROM (SELECT ts, car, speed * 2 AS speed, rain FROM readings "
        "WHERE speed IS NOT NULL) SITUATIONS (PARTITION BY car DEFINE A AS speed > 120, B AS rain "
        "PATTERN A overlaps | during B WITHIN 2 minutes RETURN count(A.*) AS a) AS m WHERE m.a > 1"
    )
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("readings", SCHEMA, "ts")
        with store.subscribe(text) as subscription:
            stream.append(table)
            store.flush()
            found = taken(subscription)
        expected = store.sql(text).fetchall()
    assert len(expected) > 1
    assert sorted(found) == sorted(expected)


def test_the_language_itself_can_be_subscribed_to(tmp_path: Path) -> None:
    text = "FROM readings PARTITION BY car DEFINE A AS speed > 60, B AS rain PATTERN A during | overlaps B WITHIN 1h"
    table = readings(9, 200)
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("readings", SCHEMA, "ts")
        with store.subscribe(text) as subscription:
            stream.append(table)
            store.flush()
            found = taken(subscription)
        expected = store.situations(text).fetchall()
    assert len(expected) > 1
    assert sorted(found) == sorted(expected)


MATCHES = (
    "readings SITUATIONS (PARTITION BY car DEFINE A AS speed > 60, B AS rain PATTERN A overlaps | during | starts B "
    "WITHIN 2 minutes RETURN count(A.*) AS n)"
)
ALONE = "readings DERIVE (PARTITION BY car DEFINE A AS speed > 60, B AS speed < 30 RETURN count(*) AS n)"
AROUND = [
    f"SELECT window_end, count(*) AS c FROM {MATCHES} GROUP BY window(match_time, '1 minute')",
    f"SELECT window_end, car, max(n) AS c FROM TUMBLE(TABLE (SELECT * FROM {MATCHES}), DESCRIPTOR(match_time), "
    "'1 minute') GROUP BY window_start, window_end, car",
    f"SELECT * FROM (SELECT end_time, car, situation, n FROM {ALONE}) MATCH_RECOGNIZE (PARTITION BY car "
    "ORDER BY end_time MEASURES A.n AS a, B.n AS b PATTERN (A B) WITHIN '1 hour' "
    "DEFINE A AS situation = 'A', B AS situation = 'B')",
    f"SELECT m.match_time, m.n, r.speed FROM {MATCHES} m ASOF JOIN readings r "
    "ON m.car = r.car AND m.match_time >= r.ts",
    f"SELECT * FROM {MATCHES} UNION ALL SELECT * FROM {MATCHES}",
    f"SELECT x.car, match_time FROM (SELECT * FROM {ALONE}) x SITUATIONS (PARTITION BY car ORDER BY end_time DEFINE "
    "P AS situation = 'A', Q AS n > 1 PATTERN P overlaps | during | equals | starts Q WITHIN '1 hour')",
]


@pytest.mark.parametrize("text", AROUND)
def test_other_clauses_take_what_situations_give(tmp_path: Path, text: str) -> None:
    """Windows, row patterns, joins, unions and situations of situations: of history and of what arrives."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("readings", SCHEMA, "ts").append(readings(3, 400))
        store.flush()
        expected = store.sql(text).arrow()
        found = pa.Table.from_batches(store.subscribe(text, follow=False)).select(expected.column_names)
    assert expected.num_rows > 1
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


REFUSED = [
    ("DEFINE A AS ts < now(), B AS rain PATTERN A before B WITHIN 1h", "tells another time", "now()"),
    ("ORDER BY speed DEFINE A AS rain, B AS rain PATTERN A before B WITHIN 1h", "another order", "speed"),
    ("ORDER BY tss DEFINE A AS rain, B AS rain PATTERN A before B WITHIN 1h", "no column 'tss'", "tss"),
    ("ORDER BY -ts DEFINE A AS rain, B AS rain PATTERN A before B WITHIN 1h", "another order", "-ts"),
    ("PARTITION BY ts < now() DEFINE A AS rain, B AS rain PATTERN A before B WITHIN 1h", "tells another time", "now()"),
    ("DEFINE A AS getenv('HOME') = 'x', B AS rain PATTERN A before B WITHIN 1h", "getenv", "getenv"),
    ("DEFINE A AS speeds > 1, B AS rain PATTERN A before B WITHIN 1h", "no column 'speeds'", "speeds"),
    ("DEFINE A AS rain, B AS rain PATTERN A before B WITHIN 0s", "WITHIN of no length", "WITHIN"),
]


@pytest.mark.parametrize(("clause", "message", "place"), REFUSED)
def test_what_no_stream_can_answer_is_refused(tmp_path: Path, clause: str, message: str, place: str) -> None:
    """Before anything is read, at its place."""
    text = f"SELECT * FROM readings SITUATIONS ({clause})"
    with tidelog.open(tmp_path) as store:
        store.create_stream("readings", SCHEMA, "ts")
        with pytest.raises(SqlError) as caught:
            store.subscribe(text)
    assert message in caught.value.message
    assert caught.value.position == text.index(place)
