"""Buckets without events, against a model in Python that knows nothing of SQL."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

Event = tuple[datetime.datetime, str | None, int | None]

HOUR = datetime.timedelta(hours=1)
START = datetime.datetime(2026, 3, 1)


def events(seed: int, count: int, hours: int) -> Sequence[Event]:
    draw = random.Random(seed)
    times = sorted(START + HOUR * draw.uniform(0, hours) for _ in range(count))
    return [(each, draw.choice(["a", "b", None]), draw.choice([None, *range(64)])) for each in times]


def table(rows: Sequence[Event], kind: pa.DataType | None = None) -> pa.Table:
    times, sites, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")).cast(kind or pa.timestamp("us")),
            "site": pa.array(sites, pa.string()),
            "x": pa.array(values, pa.int64()),
        }
    )


def filled(rows: Sequence[Event], first: datetime.datetime, hours: int, keyed: bool) -> list[tuple[Any, ...]]:
    """Sums of each hour, carried on, carried on for two hours at most, and interpolated."""
    keys = {site if keyed else None for _, site, _ in rows} if keyed else {None}
    result: list[tuple[Any, ...]] = []
    for key in keys:
        sums: list[int | None] = []
        for at in range(hours):
            low = first + at * HOUR
            own = [x for ts, site, x in rows if low <= ts < low + HOUR and (not keyed or site == key) and x is not None]
            sums.append(sum(own) if own else None)
        known = [at for at, each in enumerate(sums) if each is not None]
        for at in range(hours):
            before = max((each for each in known if each <= at), default=None)
            after = min((each for each in known if each >= at), default=None)
            last = None if before is None else sums[before]
            short = last if before is not None and at - before <= 2 else None
            between: float | None = None
            if before is not None and after is not None:
                low_value, high_value = sums[before], sums[after]
                assert low_value is not None
                assert high_value is not None
                share = 0.0 if after == before else (at - before) / (after - before)
                between = low_value + (high_value - low_value) * share
            result.append((key, first + at * HOUR, sums[at], last, short, between))
    return result


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return str(row[0]), row[1]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_gaps_of_random_events(seed: int, keyed: bool) -> None:
    hours = random.Random(seed).randrange(1, 40)
    rows = events(seed, random.Random(seed).randrange(0, 30), hours)
    key = "site" if keyed else "NULL"
    found = tidelog.sql(
        f"""SELECT {key} AS k, time_bucket_gapfill('1 hour', ts) AS hour, sum(x) AS total, locf(sum(x)),
                   locf(sum(x), '2 hours'), interpolate(sum(x))
            FROM t WHERE ts >= $low AND ts < $high GROUP BY ALL""",
        {"low": START, "high": START + hours * HOUR},
        tables={"t": table(rows)},
    ).fetchall()
    expected = filled(rows, START, hours, keyed)
    assert len(found) == len(expected)
    for one, other in zip(sorted(found, key=order), sorted(expected, key=order), strict=True):
        assert one[:5] == other[:5]
        assert (one[5] is None) == (other[5] is None)
        assert one[5] is None or one[5] == pytest.approx(other[5], rel=1e-12)


BOUNDS = [
    "ts >= '2026-03-01' AND ts < '2026-03-01 05:00'",
    "ts >= DATE '2026-03-01' AND ts < TIMESTAMP '2026-03-01 05:00:00'",
    "ts BETWEEN '2026-03-01 00:30' AND '2026-03-01 04:30'",
    "'2026-03-01' <= ts AND TIMESTAMP '2026-03-01 04:59:59.999999' >= ts",
    "t.ts > '2026-03-01' AND ts <= '2026-03-01 04:00' AND ts < '2030-01-01' AND ts > DATE '2026-02-27'",
    "ts >= (SELECT TIMESTAMP '2026-03-01') AND ts < (SELECT min(TIMESTAMP '2026-03-01 05:00')) AND x > -1",
    "ts > TIMESTAMP '2026-02-28 23:59:59.999999' AND ts < '2026-03-01 05:00'",
]


@pytest.mark.parametrize("where", BOUNDS)
@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", tz="UTC")]
)
def test_bounds_come_from_the_condition_however_it_is_written(where: str, kind: pa.DataType) -> None:
    rows = [(START + 2 * HOUR, "a", 7)]
    found = tidelog.sql(
        "SELECT time_bucket_gapfill('1 hour', ts) AS h, count(*), coalesce(sum(x), 0) "
        f"FROM t WHERE {where} GROUP BY 1 ORDER BY 1",
        tables={"t": table(rows, kind)},
    ).fetchall()
    assert [each[0].replace(tzinfo=None) for each in found] == [START + at * HOUR for at in range(5)]
    assert [each[1:] for each in found] == [(None, 0), (None, 0), (1, 7), (None, 0), (None, 0)]


@pytest.mark.parametrize("time", ["ts::TIMESTAMPTZ", "CAST(t.ts AS TIMESTAMP)"])
def test_bounds_of_a_column_are_those_of_its_casts(time: str) -> None:
    for kind, where in ((pa.timestamp("us"), BOUNDS[0]), (pa.timestamp("ns"), BOUNDS[2])):
        found = tidelog.sql(
            f"SELECT time_bucket_gapfill('1 hour', {time}) AS h, count(*) FROM t WHERE {where} GROUP BY 1 ORDER BY 1",
            tables={"t": table([(START + 2 * HOUR, "a", 7)], kind)},
        ).fetchall()
        assert [each[0].replace(tzinfo=None) for each in found] == [START + at * HOUR for at in range(5)]
        assert [each[1] for each in found] == [None, None, 1, None, None]


def test_one_moment_is_a_range_and_no_event_is_left_out() -> None:
    """A text is in the order of texts, so what bounds it is no range of time; events count all the same."""
    rows = [(START + 2 * HOUR, "a", 7)]
    one = "SELECT time_bucket_gapfill('1 hour', ts) AS h, count(*) FROM t WHERE '2026-03-01 01:30' = ts GROUP BY 1"
    assert tidelog.sql(one, tables={"t": table(rows)}).fetchall() == [(START + HOUR, None)]
    texts = "(SELECT ts::VARCHAR AS born FROM t)"
    for bound in ("born < 'later'", "born < '2026-03-01 02:00:00.0'"):
        text = f"SELECT time_bucket_gapfill('1 day', born::TIMESTAMP), count(*) FROM {texts} WHERE {bound} GROUP BY 1"
        assert tidelog.sql(text, tables={"t": table(rows)}).fetchall() == [(START, 1)]


def test_without_bounds_gaps_between_events_are_filled() -> None:
    rows = [(START + HOUR, "a", 1), (START + 4 * HOUR, "b", 2)]
    found = tidelog.sql(
        "SELECT site, time_bucket_gapfill(INTERVAL 1 HOUR, ts), max(x) FROM t GROUP BY ALL ORDER BY ALL",
        tables={"t": table(rows)},
    ).fetchall()
    hours = [START + at * HOUR for at in range(1, 5)]
    assert found == [
        *(("a", hour, 1 if hour == hours[0] else None) for hour in hours),
        *(("b", hour, 2 if hour == hours[-1] else None) for hour in hours),
    ]


def test_no_events() -> None:
    text = "SELECT {} time_bucket_gapfill('1 hour', ts) AS h, count(*) FROM t {} GROUP BY ALL ORDER BY h"
    empty = {"t": table([])}
    assert tidelog.sql(text.format("", ""), tables=empty).fetchall() == []
    where = "WHERE ts >= '2026-03-01' AND ts < '2026-03-01 02:00'"
    assert tidelog.sql(text.format("", where), tables=empty).fetchall() == [(START, None), (START + HOUR, None)]
    assert tidelog.sql(text.format("site,", where), tables=empty).fetchall() == []
    nothing = "WHERE ts >= '2026-03-02' AND ts < '2026-03-01'"
    assert tidelog.sql(text.format("", nothing), tables=empty).fetchall() == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_days_of_a_zone_are_as_long_as_clocks_say(zone: str) -> None:
    """Over a whole year, in which clocks change twice."""
    own = ZoneInfo(zone)
    first = datetime.datetime(2026, 1, 1, tzinfo=own)
    days = [
        datetime.datetime.combine(first.date() + datetime.timedelta(days=at), datetime.time(), own) for at in range(365)
    ]
    rows = [(day.astimezone(datetime.UTC).replace(tzinfo=None), "a", 1) for day in days[::30]]
    found = tidelog.sql(
        "SELECT time_bucket_gapfill('1 day', ts, $zone) AS day, count(*) AS n FROM t "
        "WHERE ts >= $low AND ts < $high GROUP BY day ORDER BY day",
        {"zone": zone, "low": days[0], "high": days[-1] + datetime.timedelta(days=1)},
        tables={"t": table(rows, pa.timestamp("us", tz="UTC"))},
    ).fetchall()
    assert [each[0] for each in found] == [day.astimezone(datetime.UTC) for day in days]
    assert [at for at, each in enumerate(found) if each[1] is not None] == list(range(0, 365, 30))


def test_months_and_origins() -> None:
    rows = [(datetime.datetime(2026, 1, 15), "a", 1), (datetime.datetime(2026, 5, 2), "a", 2)]
    months = tidelog.sql(
        "SELECT time_bucket_gapfill('1 month', ts) AS m, locf(sum(x)) FROM t GROUP BY 1 ORDER BY 1",
        tables={"t": table(rows)},
    ).fetchall()
    assert months == [(datetime.datetime(2026, month, 1), 2 if month == 5 else 1) for month in range(1, 6)]
    weeks = tidelog.sql(
        "SELECT time_bucket_gapfill('7 days', ts, TIMESTAMP '2026-01-01') AS w FROM t GROUP BY 1 ORDER BY 1",
        tables={"t": table(rows)},
    ).fetchall()
    assert weeks == [(datetime.datetime(2026, 1, 15) + datetime.timedelta(days=7 * at),) for at in range(16)]


def test_what_is_around_stays() -> None:
    """Conditions on groups, order, limits, windows, expressions, joins, CTEs and what is selected from the result."""
    rows = [(START, "a", 4), (START, "b", 1), (START + 2 * HOUR, "a", 8), (START + 2 * HOUR, "b", 1)]
    names = pa.table({"site": ["a", "b"], "city": ["Ulm", "Hof"]})
    found = tidelog.sql(
        """WITH hours AS (
               SELECT city, time_bucket_gapfill('1 hour', e.ts) AS h, interpolate(sum(x)) + 1 AS y,
                      row_number() OVER (PARTITION BY city ORDER BY time_bucket_gapfill('1 hour', e.ts)) AS n
               FROM t e JOIN names USING (site) GROUP BY city, h HAVING sum(x) > 1 ORDER BY h DESC LIMIT 2)
           SELECT *, y * 2 FROM hours ORDER BY h""",
        tables={"t": table(rows), "names": names},
    ).fetchall()
    assert found == [("Ulm", START + HOUR, 7.0, 2, 14.0), ("Ulm", START + 2 * HOUR, 9.0, 3, 18.0)]


WRONG = {
    "SELECT locf(x) FROM t": "outside of a selection that is grouped by",
    "SELECT time_bucket_gapfill('1 hour', ts) FROM t": "outside of a selection that is grouped by",
    "SELECT 1 FROM t WHERE time_bucket_gapfill('1 hour', ts) IS NULL": "outside of a selection",
    "SELECT time_bucket_gapfill('1 hour', ts), x FROM t GROUP BY 1": "column 'x', which is neither",
    "SELECT time_bucket_gapfill('1 hour', ts), * FROM t GROUP BY 1": "name the columns",
    "SELECT time_bucket_gapfill('1 hour') FROM t GROUP BY 1": "with 1 arguments",
    "SELECT time_bucket_gapfill('1 hour', ts), locf() FROM t GROUP BY 1": "locf with 0 arguments",
    "SELECT time_bucket_gapfill('1 hour', ts) FROM t GROUP BY 1 HAVING locf(sum(x)) > 1": "in HAVING",
    "SELECT time_bucket_gapfill('1 hour', ts) FROM t GROUP BY 3": "GROUP BY 3; there are 1",
    "SELECT time_bucket_gapfill('1 hour', ts), time_bucket_gapfill('2 hours', ts) FROM t GROUP BY 1, 2": "by one",
    "SELECT time_bucket_gapfill('1 hour', ts) AS h, site FROM t GROUP BY ROLLUP (1, site)": "several sets of groups",
    "SELECT time_bucket_gapfill('1 us', ts) FROM t WHERE ts > '2020-01-01' GROUP BY 1": "buckets to fill",
    "SELECT time_bucket_gapfill('1 hour', ts), interpolate(max(site)) FROM t GROUP BY 1": "Could not convert",
    "SELECT time_bucket_gapfill('1 hour', site) FROM t GROUP BY 1": "time_bucket",
    "SELECT time_bucket_gapfill('-1 hour', ts) FROM t GROUP BY 1": "[Bb]ucket",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_is_told(text: str) -> None:
    with pytest.raises(SqlError, match=WRONG[text]):
        tidelog.sql(text, tables={"t": table([(START, "a", 1), (START + HOUR, "b", 2)])}).fetchall()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("gaps"), maintenance="manual") as opened:
        rows = pa.table(
            {
                "ts": pa.array([3_600_000_000 * (at // 200) * 3 + at for at in range(2000)], pa.timestamp("us")),
                "x": pa.array(range(2000), pa.float64()),
            }
        )
        opened.create_stream("sensor", rows.schema, "ts", leaf_rows=64, data=rows)
        yield opened


def test_buckets_with_events_come_from_the_index(store: Store) -> None:
    text = (
        "SELECT time_bucket_gapfill('1 hour', ts) AS h, count(*), max(x), locf(max(x)) FROM sensor "
        "WHERE ts >= TIMESTAMP '1970-01-01 00:00' AND ts < TIMESTAMP '1970-01-02 00:00' GROUP BY h ORDER BY h"
    )
    found = store.sql(text).fetchall()
    first = datetime.datetime(1970, 1, 1)
    assert found == [
        (
            first + at * HOUR,
            *((200, float(at // 3 * 200 + 199)) if at % 3 == 0 else (None, None)),
            float(at // 3 * 200 + 199),
        )
        for at in range(24)
    ]
    assert "the index" in str(store.sql(text).explain())
    reader = store.sql(text)
    assert reader.schema.names == ["h", "count_star()", "max(x)", "locf(max(x))"]
