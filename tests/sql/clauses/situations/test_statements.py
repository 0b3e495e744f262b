"""Situations in statements: beside other parts of SQL, stored, with values of all kinds, at the extremes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog import aggregates

START = datetime.datetime(2026, 1, 1)
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        ("room", pa.string()),
        ("warm", pa.float64()),
        ("lit", pa.bool_()),
    ]
)


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def table(rows: list[tuple[float, str, float | None, bool | None]]) -> pa.Table:
    return pa.table([list(each) for each in zip(*((at(t), *rest) for t, *rest in rows), strict=True)], schema=SCHEMA)


ROWS = table(
    [
        (0, "hall", 18.0, False),
        (1, "hall", 22.0, False),
        (2, "bath", 25.0, True),
        (3, "hall", 23.0, True),
        (4, "hall", 19.0, True),
        (5, "bath", 20.0, True),
        (6, "hall", 18.0, False),
        (7, "bath", 25.0, False),
        (8, "bath", 19.0, False),
    ]
)
CLAUSE = (
    "SITUATIONS (PARTITION BY room DEFINE A AS warm > 20, B AS lit PATTERN A overlaps | starts B WITHIN 1m "
    "RETURN avg(A.warm) AS warm, B.end_time AS until)"
)
MATCHES = [("hall", 22.5, at(6), at(6)), ("bath", 25.0, at(7), at(7))]


def asked(text: str, *params: Any, rows: pa.Table = ROWS) -> list[tuple[Any, ...]]:
    return tidelog.sql(text, list(params) or None, tables={"t": rows}).fetchall()


COMPUTED = "upper(room), warm IS NULL"
KEYED = (
    "DEFINE A AS warm > 20, B AS lit PATTERN A overlaps | starts B WITHIN 1m RETURN avg(A.warm) AS v, B.end_time AS u"
)


@pytest.mark.parametrize("source", ["t", "(SELECT * FROM t WHERE lit IS NOT NULL) AS t"])
def test_what_is_partitioned_by_may_be_computed(tmp_path: Path, source: str) -> None:
    """As if a query had computed it as columns; of tables and of streams, whose rows of one time keep their order."""
    by_hand = "(SELECT *, upper(room) AS x, warm IS NULL AS y FROM t)"
    expected = asked(f"SELECT * FROM {by_hand} SITUATIONS (PARTITION BY x, y {KEYED})")
    assert [each[0] for each in expected] == ["HALL", "BATH"]
    text = f"SELECT * FROM {source} SITUATIONS (PARTITION BY upper(t.room), warm IS NULL {KEYED})"
    found = tidelog.sql(text, tables={"t": ROWS})
    assert found.columns[:2] == ["upper(t.room)", "(warm IS NULL)"]
    assert found.fetchall() == expected
    with tidelog.open(tmp_path) as store:
        store.create_stream("t", SCHEMA, "ts").append(ROWS)
        assert store.sql(text).fetchall() == expected
        assert "because what they are partitioned by is computed" in str(store.sql(text).explain()) or source != "t"


def test_aggregates_that_are_others() -> None:
    """Against DuckDB, of the rows of the situation: hall is warm from 1 to 4, bath at 2 and 7."""
    names = ["bool_and({0}warm > 22)", "bool_or({0}warm > 22)", "count_if({0}warm > 22)", "any_value({0}lit)"]
    filtered = [f"{each} FILTER (WHERE {{0}}lit)" for each in names]
    kept = ["median({0}warm)", "count(DISTINCT {0}lit)", "list({0}warm ORDER BY {0}warm DESC)", "mode({0}room)"]
    kept.append("percentile_cont(0.3) WITHIN GROUP (ORDER BY {0}warm) FILTER (WHERE {0}warm > 21)")
    for given in (names, filtered, kept):
        returned = ", ".join(f"{each.format('A.')} AS v{number}" for number, each in enumerate(given))
        found = asked(
            f"SELECT * EXCLUDE (room, match_time) FROM t SITUATIONS (PARTITION BY room DEFINE A AS warm > 20, B AS lit "
            f"PATTERN A overlaps | starts B WITHIN 1m RETURN {returned})"
        )
        values = ", ".join(each.format("") for each in given)
        rows = "SELECT {} FROM t WHERE room = '{}' AND warm > 20 AND ts < TIMESTAMP '2026-01-01 00:00:05'"
        assert found == [asked(rows.format(values, room))[0] for room in ("hall", "bath")]


def test_aggregates_of_which_rows_are_kept_are_told(tmp_path: Path) -> None:
    """By EXPLAIN, also of a stream, of which their rows are read; and they are over situations that go on."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("t", SCHEMA, "ts").append(ROWS)
        text = (
            "SELECT room, {} FROM t SITUATIONS (PARTITION BY room DEFINE A AS warm > 20, B AS lit PATTERN A overlaps | "
            "contains | finished by | starts | equals | started by B WITHIN 1m RETURN list(A.warm) AS kept, "
            "count(A.*) AS rows, first(A.warm) AS f, last(A.warm) AS l MODE EARLY)"
        )
        kept = store.sql(text.format("len(kept) AS rows, kept[1] AS f, kept[-1] AS l"))
        assert kept.fetchall() == store.sql(text.format("rows, f, l")).fetchall() != []
        assert "list(warm) of A is computed by DuckDB of all its rows, which are kept" in kept.explain()


# -- beside other parts of SQL ----------------------------------------------------------------------------------------


def test_matches_are_rows_like_others() -> None:
    """They are filtered, grouped, joined, and named by what the clause is called."""
    assert asked(f"SELECT * FROM t {CLAUSE}") == MATCHES
    assert asked(f"SELECT m.room FROM t {CLAUSE} AS m WHERE m.warm > 23") == [("bath",)]
    assert asked(f"SELECT count(*), max(warm) FROM t {CLAUSE}") == [(2, 25.0)]
    joined = f"SELECT r.size FROM t {CLAUSE} m JOIN (VALUES ('hall', 7), ('bath', 5)) r(room, size) USING (room)"
    assert sorted(asked(joined)) == [(5,), (7,)]
    assert asked(f"WITH m AS (SELECT * FROM t {CLAUSE}) SELECT a.room FROM m a, m b WHERE a.until < b.until") == [
        ("hall",)
    ]


def test_inputs_are_relations_of_all_kinds() -> None:
    """Queries, CTEs, other clauses."""
    clause = (
        "SITUATIONS (DEFINE A AS warm > 20, B AS lit PATTERN A overlaps | starts B WITHIN 1m RETURN count(A.*) AS n)"
    )
    assert asked(f"SELECT n FROM (SELECT * FROM t WHERE room = 'hall') {clause}") == [(2,)]
    assert asked(f"WITH h AS (SELECT * FROM t WHERE room = 'hall') SELECT n FROM h {clause}") == [(2,)]
    assert asked(f"SELECT n FROM (t JOIN (SELECT 'bath' AS room) USING (room)) {clause}") == [(1,)]
    nested = (
        "SELECT situation, start_time, end_time FROM t DERIVE (PARTITION BY room DEFINE warm AS warm > 20) "
        "DERIVE (ORDER BY end_time DEFINE any_room AS situation = 'warm' RETURN count(*) AS n)"
    )
    assert asked(nested) == []  # nothing ends it


def test_parameters_stand_anywhere() -> None:
    text = (
        "SELECT n FROM t SITUATIONS (PARTITION BY room DEFINE A AS warm > ?, B AS lit AT LEAST ? "
        "PATTERN A overlaps | starts B WITHIN ? RETURN count(A.*) + ? AS n)"
    )
    assert asked(text, 20, "3 seconds", datetime.timedelta(minutes=1), 100) == [(102,), (101,)]
    named = text.replace("?", "$a", 1).replace("?", "$b", 1).replace("?", "$c", 1).replace("?", "$d", 1)
    given = {"a": 20, "b": "3 seconds", "c": "60 s", "d": 100}
    assert tidelog.sql(named, given, tables={"t": ROWS}).fetchall() == [(102,), (101,)]


def test_what_is_returned_is_computed() -> None:
    text = (
        "SELECT * FROM t SITUATIONS (PARTITION BY room DEFINE A AS warm > 20, B AS lit PATTERN A overlaps | starts B "
        "WITHIN 1m RETURN A.duration AS d, epoch(B.end_time) - epoch(A.start_time) AS s, A.duration < B.duration AS l, "
        "first(A.warm) AS f, last(A.warm) AS l2, round(max(A.warm) / min(B.warm), 2) AS q, sum(A.warm) AS t, "
        "CASE WHEN count(B.*) > 2 THEN 'long' ELSE 'short' END AS c) ORDER BY room"
    )
    second = datetime.timedelta(seconds=1)
    assert asked(text) == [
        ("bath", 3 * second, 5.0, True, 25.0, 25.0, 1.25, 25.0, "short", at(7)),
        ("hall", 3 * second, 5.0, False, 22.0, 23.0, 1.21, 45.0, "short", at(6)),
    ]


class Spread(aggregates.Incremental):
    """The largest value less the smallest one."""

    name = "spread"
    state = np.dtype([("least", "<f8"), ("most", "<f8")])

    def init(self, columns: Any, cuts: Any) -> Any:
        (values,) = columns
        return self._states(values, values, cuts)

    def merge(self, states: Any, cuts: Any) -> Any:
        return self._states(states["least"], states["most"], cuts)

    def eval(self, state: Any) -> float:
        return float(state["most"] - state["least"])

    def result_type(self) -> pa.DataType:
        return pa.float64()

    def _states(self, least: Any, most: Any, cuts: Any) -> Any:
        found = np.empty(len(cuts) - 1, self.state)
        found["least"], found["most"] = np.minimum.reduceat(least, cuts[:-1]), np.maximum.reduceat(most, cuts[:-1])
        return found


@pytest.fixture
def spread() -> Iterator[None]:
    aggregates.register(Spread)
    yield
    aggregates.unregister(Spread)


@pytest.mark.usefixtures("spread")
def test_aggregates_of_users_are_over_the_rows_of_situations() -> None:
    text = "SELECT room, d FROM t DERIVE (PARTITION BY room DEFINE A AS warm > 20 RETURN spread(warm) AS d)"
    assert asked(text) == [("hall", 1.0), ("bath", 0.0), ("bath", 0.0)]
    of_matches = CLAUSE.replace("avg(A.warm)", "spread(A.warm) + 1")
    assert asked(f"SELECT room, warm FROM t {of_matches}") == [("hall", 2.0), ("bath", 1.0)]


# -- stored -----------------------------------------------------------------------------------------------------------


def test_situations_are_stored_with_start_and_end(tmp_path: Path) -> None:
    """As a stream of their own, in the order of their ends, which can be asked like any."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("rooms", SCHEMA, "ts").append(ROWS)
        store.sql(
            "CREATE STREAM warm WITH (time = 'end_time') AS SELECT * FROM rooms DERIVE ("
            "PARTITION BY room DEFINE A AS warm > 20 RETURN max(warm) AS top)"
        )
        expected = [
            ("hall", "A", at(1), at(4), 23.0),
            ("bath", "A", at(2), at(5), 25.0),
            ("bath", "A", at(7), at(8), 25.0),
        ]
        assert store.sql("FROM warm").fetchall() == expected
        assert store.sql("SELECT max(end_time - start_time) FROM warm").fetchall() == [(datetime.timedelta(seconds=3),)]
        store.sql(f"CREATE STREAM found WITH (time = 'match_time') AS SELECT * FROM rooms {CLAUSE}")
        assert store.sql("FROM found").fetchall() == MATCHES


def test_only_what_may_matter_is_read_of_a_stream(tmp_path: Path) -> None:
    """EXPLAIN says so, and when matches become known."""
    count = 200_000
    warm = [30.0 if 100_000 <= each < 100_050 else 10.0 for each in range(count)]
    rows = pa.table(
        {
            "ts": pa.array(range(count), pa.int64()).cast(pa.timestamp("us")),
            "room": pa.array(["x"] * count),
            "warm": warm,
            "lit": pa.array([100_020 <= each < 100_100 for each in range(count)]),
        },
        schema=SCHEMA,
    )
    text = "SELECT * FROM rooms SITUATIONS (DEFINE A AS warm > 20, B AS lit PATTERN A overlaps B WITHIN 200 ticks)"
    with tidelog.open(tmp_path) as store:
        store.create_stream("rooms", SCHEMA, "ts").append(rows)
        store.flush()
        result = store.sql(text)
        assert result.fetchall() == tidelog.sql(text, tables={"rooms": rows}).fetchall() != []
        plan = result.explain()
    assert "stretches of time" in plan
    assert "matches become known when" in plan


@pytest.mark.parametrize(
    ("where", "is_pushed"),
    [
        ("room = 'bath'", True),
        ("m.room > 'c' AND m.warm > 1", True),
        ("room IN ('hall') OR room IS NULL", True),
        ("warm > 23 AND until IS NOT NULL", False),
        ("upper(room) = 'HALL'", False),
        ("room || warm = 'x'", False),
    ],
)
def test_partitions_that_nobody_asks_for_are_not_searched(tmp_path: Path, where: str, is_pushed: bool) -> None:
    """The result is that of a filter behind everything; of tables, of queries and of streams."""
    everything = tidelog.sql(f"SELECT * FROM t {CLAUSE}", tables={"t": ROWS}).arrow()
    expected = tidelog.sql(f"SELECT * FROM e AS m WHERE {where}", tables={"e": everything}).fetchall()
    with tidelog.open(tmp_path) as store:
        store.create_stream("s", SCHEMA, "ts").append(ROWS)
        store.create_stream("busy", SCHEMA, "ts").append(ROWS)
        never = [(0, "attic", 30.0, True), (8, "attic", 30.0, True)]  # so that no time is without situations
        store.stream("busy").append(table(never))
        for source in ("t", "s", "busy", "(SELECT *, 1 AS one FROM s)", "(SELECT * FROM s WHERE warm > 0)"):
            result = store.sql(f"SELECT * FROM {source} {CLAUSE} AS m WHERE {where}", tables={"t": ROWS})
            assert result.fetchall() == expected, source
            plan = result.explain()
            reads_in_order = "stretches of time" in plan or source.endswith("warm > 0)")
            assert ("only partitions with" in plan) == (is_pushed and not reads_in_order), source


def test_explain_analyze_tells_the_orders_that_were_chosen_in_the_end() -> None:
    """Where one is rare, searches begin to go by way of it."""
    dice = np.random.default_rng(1)
    count = 60_000
    rows = pa.table(
        {
            "t": pa.array(range(count)),
            "a": dice.random(count) < 0.5,
            "b": dice.random(count) < 0.0005,
            "c": dice.random(count) < 0.5,
        }
    )
    text = (
        "SELECT count(*) FROM t SITUATIONS (ORDER BY t DEFINE A AS a, B AS b, C AS c "
        "PATTERN A before C AND B before C AND A before B WITHIN 300)"
    )
    result = tidelog.sql(text, tables={"t": rows})
    assert "orders by what is expected" in result.explain()
    assert "searches have measured" in result.explain(analyze=True)


# -- corners ----------------------------------------------------------------------------------------------------------


def test_null_conditions_do_not_hold() -> None:
    """A condition that is NULL ends a situation, as a false one does; rows without a time are left out."""
    rows = table(
        [(0, "x", 25.0, None), (1, "x", None, True), (2, "x", 25.0, None), (3, "x", 25.0, True), (4, "x", 1, None)]
    )
    text = "SELECT situation, start_time, end_time FROM t DERIVE (DEFINE A AS warm > 20, B AS lit)"
    assert asked(text, rows=rows) == [
        ("A", at(0), at(1)),
        ("B", at(1), at(2)),
        ("A", at(2), at(4)),
        ("B", at(3), at(4)),
    ]
    nameless = pa.concat_tables(
        [rows, rows.set_column(0, "ts", pa.nulls(5, pa.timestamp("us")))], promote_options="default"
    )
    assert asked(text, rows=nameless) == asked(text, rows=rows)


def test_partitions_of_null_are_one() -> None:
    rows = table([(0, "x", 25.0, None), (1, "x", 1.0, True)])
    rows = rows.set_column(1, "room", pa.nulls(2, pa.string()))
    text = "SELECT room, start_time FROM t DERIVE (PARTITION BY room DEFINE A AS warm > 20)"
    assert asked(text, rows=rows) == [(None, at(0))]


def test_rows_of_one_time_are_applied_in_their_order() -> None:
    """What would start and end at one time is none; the last of them says how it goes on."""
    text = "SELECT start_time, end_time FROM t DERIVE (DEFINE A AS warm > 20)"
    assert asked(text, rows=table([(0, "x", 25, None), (0, "x", 1, None), (1, "x", 1, None)])) == []
    rows = table([(0, "x", 1, None), (0, "x", 25, None), (1, "x", 25, None), (1, "x", 1, None), (2, "x", 25, None)])
    assert asked(text, rows=rows) == [(at(0), at(1))]


BLINKS = table([(each, "x", 25.0 if each % 4 == 1 else 1.0, each % 4 in (2, 3)) for each in range(20)])


def test_a_condition_that_holds_at_one_event_lasts_until_the_next() -> None:
    text = "SELECT start_time, end_time, n FROM t DERIVE (DEFINE A AS warm > 20 RETURN count(*) AS n)"
    assert asked(text, rows=BLINKS) == [(at(each), at(each + 1), 1) for each in range(1, 20, 4)]


@pytest.mark.parametrize("mode", ["COMPLETED", "EARLY"])
def test_windows_that_are_shorter_than_any_situation_have_no_match(mode: str) -> None:
    """The window is inclusive: from the first start to the last end."""
    text = f"SELECT * FROM t SITUATIONS (DEFINE A AS warm > 20, B AS lit PATTERN A meets B WITHIN {{}} MODE {mode})"
    assert asked(text.format("999 ms"), rows=BLINKS) == []
    of_three = asked(text.format("3 s"), rows=BLINKS)
    assert len(of_three) == (4 if mode == "COMPLETED" else 5)
    assert len(asked(text.format("2999 ms"), rows=BLINKS)) == (0 if mode == "COMPLETED" else 5)


def test_what_always_holds_never_ends() -> None:
    """So it is in no match that needs its end; early ones may have it."""
    text = (
        "SELECT * FROM t SITUATIONS (DEFINE A AS true, B AS lit PATTERN A contains | overlaps | finished by B WITHIN 1h"
    )
    assert asked(f"{text})", rows=BLINKS) == []
    early = tidelog.sql(f"{text} MODE EARLY)", tables={"t": BLINKS}).arrow().to_pylist()
    assert [row["match_time"] for row in early] == [at(each) for each in range(2, 20, 4)]
    assert {row["A_is_open"] for row in early} == {True}
    assert asked("SELECT * FROM t DERIVE (DEFINE A AS true, B AS false)") == []


def test_bounds_of_lengths_are_inclusive() -> None:
    text = "SELECT count(*) FROM t DERIVE (DEFINE B AS lit {})"
    for bound, count in (
        ("AT LEAST 2s", 4),
        ("AT LEAST 2001 ms", 0),
        ("AT MOST 2s", 4),
        ("AT MOST 1999 ms", 0),
        ("BETWEEN 2s AND '2 s'", 4),
        ("BETWEEN INTERVAL 1 SECOND AND INTERVAL 1 SECOND", 0),
        ("AND warm BETWEEN 0 AND 5 BETWEEN 1s AND 2s", 4),
    ):
        assert asked(text.format(bound), rows=BLINKS) == [(count,)], bound


def test_finishes_is_what_allen_says_unless_the_thesis_is_asked_for() -> None:
    rows = table([(0, "x", 1, False), (1, "x", 25, False), (2, "x", 25, True), (3, "x", 1, False)])
    text = "SELECT count(*) FROM t SITUATIONS (DEFINE A AS warm > 20, B AS lit PATTERN A {} B WITHIN 1h {})"
    assert asked(text.format("finishes", ""), rows=rows) == [(0,)]
    assert asked(text.format("finished by", "RELATIONS ALLEN"), rows=rows) == [(1,)]
    assert asked(text.format("finishes", "RELATIONS THESIS"), rows=rows) == [(1,)]
    assert asked(text.format("finished by", "RELATIONS THESIS"), rows=rows) == [(0,)]


def test_times_at_the_ends_of_what_there_is() -> None:
    """Differences that no integer of 64 bits holds are longer than any window."""
    most = (1 << 63) - 1
    times = [-most - 1, -most, -5, 0, 7, most - 9, most - 3, most - 1, most]
    first, second = [1, 0, 1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 1, 1, 0]
    rows = pa.table(
        {"t": pa.array(times, pa.int64()), "a": [each == 1 for each in first], "b": [each == 1 for each in second]}
    )
    text = (
        "SELECT * FROM t SITUATIONS (ORDER BY t DEFINE A AS a, B AS b PATTERN A overlaps | before | meets B WITHIN {})"
    )
    assert asked(text.format(10), rows=rows) == [(most - 9, most - 3, most - 3, most, most)]
    assert asked(text.format(most), rows=rows) == [
        (-5, 7, 0, most - 9, most - 9),
        (most - 9, most - 3, most - 3, most, most),
    ]
    alone = f"SELECT * FROM t DERIVE (ORDER BY t DEFINE A AS a AT LEAST {most} ticks, B AS b AT MOST {most})"
    assert asked(alone, rows=rows) == [("B", 0, most - 9), ("B", most - 3, most)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_clocks_of_all_units(unit: str) -> None:
    rows = BLINKS.set_column(0, "ts", BLINKS["ts"].cast(pa.timestamp(unit)))
    text = "SELECT * FROM t SITUATIONS (DEFINE A AS warm > 20, B AS lit AT LEAST 1s PATTERN A meets B WITHIN 3s)"
    assert len(asked(text, rows=rows)) == 4
    zoned = BLINKS.set_column(0, "ts", BLINKS["ts"].cast(pa.timestamp(unit, "UTC")))
    found = tidelog.sql(text, tables={"t": zoned}).arrow()
    assert found.schema.field("match_time").type.tz is not None
    assert found.num_rows == 4
