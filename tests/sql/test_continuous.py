"""What a continuous query may contain, what it may not, and that its plan gives the rows of SQL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.sql.continuous import Continuous, read_continuous
from tidelog.sql.database import Database
from tidelog.sql.errors import SqlError

_SEQ = pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False)
_A = Shape(
    pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False), ("k", pa.string()), ("x", pa.float64()), _SEQ]), "ts"
)
_B = Shape(
    pa.schema(
        [
            pa.field("born", pa.timestamp("us"), nullable=False),
            ("name", pa.string()),
            pa.field("y", pa.float64(), nullable=False),
            _SEQ,
        ]
    ),
    "born",
)
_PLAIN = Shape(pa.schema([pa.field("t", pa.int64(), nullable=False), _SEQ]), "t")
_SHAPES = {"a": _A, "B": _B, "plain": _PLAIN}

_NAMES = pa.table({"k": ["u", "v", "v", None], "weight": [1.5, 0.5, -1.0, 9.0]})


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    opened = Database()
    yield opened
    opened.close()


def _read(database: Database, text: str, params: object = None) -> Continuous:
    return read_continuous(text, params, database, list(_SHAPES), _SHAPES.__getitem__, {"names": _NAMES})


def _rows(shape: Shape, dice: np.random.Generator, count: int) -> pa.RecordBatch:
    times = np.sort(dice.integers(0, 60, count)).astype(np.int64)
    texts = pa.array(dice.choice(["u", "v", "w"], count), mask=dice.random(count) < 0.2, type=pa.string())
    values = dice.integers(-4, 5, count) / 2
    x = pa.array(values, mask=(dice.random(count) < 0.2) & shape.schema.field(2).nullable, type=pa.float64())
    return pa.record_batch([pa.array(times).cast(shape.time_type), texts, x, pa.array(range(count))], shape.schema)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("SELECT * FROM a", None),
        ("FROM a", None),
        ("select Ts, X * 2 AS z, upper(t.k) from A t where t.x > ? and k in ('u', 'v')", [-1]),
        ("SELECT * EXCLUDE (k) FROM a WHERE k IS NULL OR $low < x", {"low": 0.5}),
        ("SELECT x, ts AS born, x + 1 FROM a WHERE NOT (x > 0)", None),
        ("SELECT ts, CASE WHEN x > 0 THEN k ELSE 'no' END c FROM a", None),
        ("SELECT _seq, ts, _seq AS n FROM a", None),
        ("SELECT ts, k, x FROM a UNION ALL SELECT * FROM b WHERE y > 0 UNION ALL SELECT born, 'c', 1e0 FROM b", None),
        ("(SELECT ts, x FROM a) UNION ALL (SELECT born, y FROM b UNION ALL SELECT ts, x FROM a WHERE x = 1)", None),
        (
            "SELECT k, window_start, window_end, count(*) AS n, sum(x) + 1 FROM a WHERE x > -1 "
            "GROUP BY k, window(ts, INTERVAL 20 MICROSECONDS, INTERVAL 5 MICROSECONDS) HAVING count(*) > $least",
            {"least": 1},
        ),
        ("SELECT window_end AS t, upper(k) u, max(x) FROM a GROUP BY upper(k), session_window(ts, '2 us')", None),
        (
            "SELECT window_end, upper(k) AS u, count(*) AS n FROM a GROUP BY window(ts, '9 us'), u "
            "HAVING n > 1 AND u = 'U'",
            None,
        ),
        ("SELECT min(x), window_end, window_start w FROM a GROUP BY count_window(7, 3, ts)", None),
        (
            "SELECT window_end, count(*) FROM a GROUP BY window(ts, '9 us') UNION ALL "
            "SELECT window_end, count(y) FROM b GROUP BY window(born, '9 us')",
            None,
        ),
        ("SELECT t, z FROM (SELECT ts AS t, x * 2 AS z, k FROM a WHERE x > ?) q WHERE q.k <> 'u'", [0]),
        (
            "SELECT window_end, max(n) FROM (SELECT window_end, count(*) AS n FROM a GROUP BY window(ts, '3 us')) "
            "GROUP BY window(window_end, '10 us')",
            None,
        ),
        ("SELECT ts, x, n.k AS l, weight FROM a JOIN names n USING (k) WHERE weight > 0", None),
        ("SELECT ts, a.k, n.* EXCLUDE k FROM a LEFT JOIN names n ON n.k = a.k", None),
        ("SELECT ts, weight FROM a JOIN names n ON n.k = a.k AND x > weight", None),
        (
            "SELECT window_end, n.k AS o, sum(x * weight) FROM a JOIN names n ON a.k = n.k "
            "GROUP BY n.k, window(ts, '7 us')",
            None,
        ),
        ("SELECT ts, k, x, window_start, window_end, window_time FROM TUMBLE(TABLE a, DESCRIPTOR(ts), '7 us')", None),
        (
            "SELECT t.ts, x, window_start FROM HOP(TABLE a, DESCRIPTOR(ts), '3 us', ?::INTERVAL, '-1 us') t "
            "WHERE t.x > $2",
            ["8 us", -1],
        ),
        ("SELECT window_end, x, k, ts FROM SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), '2 us')", None),
        (
            "SELECT window_start, window_end, k, count(*), max(x) FROM SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), "
            "'2 us') WHERE x < 2 GROUP BY window_start, window_end, k HAVING count(*) > 1",
            None,
        ),
        (
            "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE (SELECT ts, x FROM a UNION ALL SELECT born, y FROM b), "
            "DESCRIPTOR(ts), '7 us', '2 us') GROUP BY window_start, window_end",
            None,
        ),
        (
            "SELECT l.ts, l.x, r.ts AS other, time AS t FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, "
            "ON => l.k = r.name AND l.x + 1 > r.y, LEFT => '6 us' SLIDE '2 us', RIGHT => 7 ROWS SLIDE 2) w "
            "WHERE w.x > $low".replace("r.ts", "r.born"),
            {"low": -1.5},
        ),
        (
            "SELECT later, l.x, r.y FROM WINDOW_JOIN((SELECT ts, x FROM a WHERE x > 0) l, TABLE b r, LEFT => 3 ROWS, "
            "RIGHT => '4 us', TIME => later, COMPLETE_ONLY => true)",
            None,
        ),
        (
            "SELECT window_end, count(*) AS n FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.k = r.name, "
            "LEFT => '6 us', RIGHT => '6 us') GROUP BY window(time, '10 us')",
            None,
        ),
        ("SELECT ts, x, y, born FROM a ASOF JOIN b ON k = name AND ts >= born NEAREST TOLERANCE '3 us'", None),
        ("SELECT ts, x, y FROM a l ASOF NEAREST LEFT JOIN b r ON l.k = r.name AND ts > born WHERE x > 0", None),
        ("SELECT ts, x, y FROM a ASOF LEFT JOIN b ON ts <= born TOLERANCE INTERVAL 3 MICROSECONDS", None),
        (
            "SELECT l.ts, l.k, r.x FROM a l ASOF JOIN (SELECT ts, k, x FROM a WHERE x > 0) r USING (k, ts) "
            "TOLERANCE ?::INTERVAL",
            ["20 us"],
        ),
        (
            "SELECT l.ts, one.y, two.x FROM a l ASOF LEFT JOIN b one ON l.k = one.name AND l.ts > one.born "
            "TOLERANCE '1 day' ASOF LEFT JOIN a two ON l.k = two.k AND l.ts < two.ts TOLERANCE '1 day'",
            None,
        ),
    ],
)  # fmt: skip
def test_rows_are_those_of_sql(database: Database, text: str, params: object) -> None:
    dice = np.random.default_rng(5)
    query = _read(database, text, params)
    tables = {"a": _rows(_A, dice, 40), "B": _rows(_B, dice, 30)}
    inputs = query.make().inputs
    pushed = [
        tables[name].select(shape.schema.names).cast(shape.schema)
        for name, shape in zip(query.streams, inputs, strict=True)
    ]
    found = OperatorConformance(query.make).check(pushed, dice)
    # Times are integers, so that they compare.
    names = query.make().output.schema.names
    places = [names.index(each) for each in query.columns]
    given = {key: pa.Table.from_batches([each]) for key, each in tables.items()} | {"names": _NAMES}
    expected = tidelog.sql(_starless(text), params, tables=given)
    table = expected.arrow()
    assert list(query.columns) == [each for each in table.schema.names if each != SEQUENCE_COLUMN or "_seq" in text]
    columns = [
        (
            table.column(each).cast(pa.int64())
            if pa.types.is_timestamp(table.schema.field(each).type)
            else table.column(each)
        )
        for each in query.columns
    ]
    rows = list(zip(*(each.to_pylist() for each in columns), strict=True))
    assert sorted((tuple(row[each] for each in places) for row in found), key=repr) == sorted(rows, key=repr)


def _starless(text: str) -> str:
    """A text for tables, where ``_seq`` is a column like any other."""
    return (
        text.replace("SELECT * FROM a", "SELECT ts, k, x FROM a")
        .replace("FROM a", "SELECT ts, k, x FROM a", 1 if text == "FROM a" else 0)
        .replace("SELECT * FROM b", "SELECT born, name, y FROM b")
        .replace("EXCLUDE (k)", "EXCLUDE (k, _seq)")
    )


def test_only_columns_that_are_needed_are_read(database: Database) -> None:
    query = _read(database, "SELECT ts FROM a WHERE x > 1")
    assert query.make().inputs[0].schema.names == ["ts", "x", "_seq"]
    assert query.presented(query.make().output.empty()).schema.names == ["ts"]


def test_texts_that_say_the_same_are_equal(database: Database) -> None:
    one = _read(database, "select ts,x from a where x>?", [3])
    other = _read(database, "SELECT ts, x\nFROM a -- all of it\nWHERE (x > 3)")
    assert one.meaning == other.meaning != _read(database, "SELECT ts, x FROM a WHERE x > 4").meaning


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("SELECT ts, count(*) FROM a GROUP BY ts", "found GROUP BY", "ts\n"),
        ("SELECT ts, sum(x) FROM a", "found the aggregate sum", "sum"),
        ("SELECT ts FROM a GROUP BY ALL", "found GROUP BY", "a GROUP"),
        ("SELECT ts, lag(x) OVER () FROM a", "found OVER", "lag"),
        ("SELECT ts FROM a ORDER BY ts", "found ORDER BY", "ts\n"),
        ("SELECT ts FROM a LIMIT 3", "found LIMIT", "3"),
        ("SELECT DISTINCT ts FROM a", "found DISTINCT", None),
        ("WITH c AS (SELECT 1) SELECT ts FROM a", "found WITH", "1"),
        ("SELECT ts FROM a JOIN b ON true", "found a join of streams", "JOIN"),
        ("SELECT ts FROM a, b", "found a join of streams", None),
        ("SELECT ts FROM (SELECT ts FROM a ORDER BY ts)", "found ORDER BY", "ts)"),
        ("SELECT q.nope FROM (SELECT ts FROM a) q", "there is no column 'nope'|no column", "q.nope"),
        ("SELECT ts FROM names", "found a table alone", "names"),
        ("SELECT ts FROM a FULL JOIN names USING (k)", "of the kind FULL", "FULL"),
        ("SELECT ts FROM a ANTI JOIN names USING (k)", "of the kind ANTI", "ANTI"),
        ("SELECT ts FROM a LEFT JOIN names n ON a.k = n.k AND x > 1", "by more than equal columns", "LEFT"),
        ("SELECT ts FROM a JOIN names n ON a.x > n.weight", "by other than equal columns", "JOIN"),
        ("SELECT ts FROM a JOIN names n ON a.x = n.k", "by other than equal columns", "JOIN"),
        ("SELECT ts FROM a JOIN names n USING (x)", "there is no column 'x'", "JOIN"),
        ("SELECT ts, k FROM a JOIN names n ON a.k = n.k", "column 'k' is of several", "k FROM"),
        ("SELECT ts FROM a x JOIN names x ON true", "two sides called 'x'", "JOIN"),
        ("SELECT ts FROM a ASOF JOIN b ON a.x >= b.y", "expected that of the rows, 'ts'", "a.x"),
        ("SELECT ts FROM a ASOF JOIN b ON a.k = b.name", "without a comparison of times", "ASOF"),
        ("SELECT ts FROM a ASOF JOIN b ON ts >= born AND x > y", "another condition", "x > y"),
        ("SELECT ts FROM a ASOF RIGHT JOIN b ON ts >= born", "expected ASOF JOIN or ASOF LEFT", "ASOF"),
        ("SELECT ts FROM a ASOF JOIN b ON ts >= born TOLERANCE 'long'", "Could not convert", "'long'"),
        ("SELECT ts FROM a ASOF JOIN b ON ts >= born TOLERANCE '-1 s'", "below zero", "'-1 s'"),
        ("SELECT ts FROM a ASOF JOIN b ON ts >= born TOLERANCE getenv('HOME')", "the function getenv", "getenv"),
        ("SELECT ts FROM a ASOF JOIN a ON true", "two sides called 'a'", "ASOF"),
        ("SELECT ts FROM a ASOF JOIN plain ON ts >= t", "different units", "ASOF"),
        ("SELECT ts FROM a ASOF JOIN b USING (ts)", "no column 'ts'", "ASOF"),
        (
            "SELECT time FROM WINDOW_JOIN(TABLE a AS l, TABLE c AS r, LEFT => '1 s', RIGHT => '1 s')",
            "no stream 'c'",
            "c",
        ),
        ("SELECT time FROM WINDOW_JOIN(TABLE a, TABLE a, LEFT => '1 s', RIGHT => '1 s')", "two sides", "WINDOW_JOIN"),
        (
            "SELECT time FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.q = r.y, LEFT => '1 s', RIGHT => '1 s')",
            "no column of one side",
            "l.q",
        ),
        ("SELECT x FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 2 ROWS, RIGHT => '1 s')", "rows, 'time'", "x"),
        ("SELECT ts FROM TUMBLE(TABLE a, DESCRIPTOR(x), '1 s')", "another time than that of the rows", "x)"),
        ("SELECT ts FROM TUMBLE(TABLE a, DESCRIPTOR(nope), '1 s')", "no column 'nope'", "nope"),
        ("SELECT ts FROM HOP(TABLE a, DESCRIPTOR(ts), '1 s', 'x')", "Could not convert", "'x'"),
        ("SELECT ts FROM SESSION(TABLE a PARTITION BY nope, DESCRIPTOR(ts), '1 s')", "no column 'nope'", "nope"),
        (
            "SELECT window_end, max(window_end) FROM TUMBLE(TABLE a, DESCRIPTOR(ts), '1 s') GROUP BY 1",
            "GROUP BY of rows, since there are aggregates of the windows themselves",
            None,
        ),
        (
            "SELECT window_end, k FROM SESSION(TABLE a, DESCRIPTOR(ts), '1 s') GROUP BY window_start, window_end, k",
            "GROUP BY of rows, since sessions are partitioned by other columns than those of GROUP BY",
            "window_start",
        ),
        ("SELECT ts FROM range(3)", "found a table function", "range"),
        ("SELECT ts, (SELECT 1) FROM a", "found a query in an expression", "(SELECT"),
        ("SELECT ts, now() FROM a", r"found now\(\), which tells another time", "now"),
        ("SELECT ts, random() FROM a", "there is no function 'random'", "random"),
        ("SELECT ts FROM a UNION SELECT born FROM b", "found UNION;", "ts"),
        ("SELECT ts FROM a EXCEPT ALL SELECT born FROM b", "found EXCEPT ALL", "ts"),
        ("SELECT ts, k FROM a UNION ALL SELECT born FROM b", "found 1 columns", "born"),
        ("SELECT ts, k FROM a UNION ALL SELECT born, y FROM b", "type double, and string", "born, y"),
        ("SELECT ts, ts t FROM a UNION ALL SELECT name::timestamp, born FROM b", "column 2 here", "name"),
        ("SELECT ts FROM a UNION ALL SELECT t FROM plain", "type int64, and timestamp", "t FROM plain"),
        ("SELECT _seq, ts FROM a UNION ALL SELECT _seq, born FROM b", "united have no _seq", "_seq"),
        ("SELECT ts FROM a TABLESAMPLE 10%", "found SAMPLE", "a TABLE"),
        ("SELECT ts FROM a AT (VERSION => 3)", "found AT", "a AT"),
        ("SELECT ts FROM aa", "there is no stream 'aa'; did you mean 'a'", "aa"),
        ("SELECT ts FROM main.a", "there are no schemas", "main"),
        ("SELECT x FROM a", "no column that is the time of the rows, 'ts'", "x"),
        ("SELECT ts + INTERVAL 1 SECOND AS ts FROM a", "no column that is the time", "ts +"),
        ("SELECT ts, nope FROM a", "there is no column 'nope'", "nope"),
        ("SELECT ts FROM a WHERE x > 'many'", "cannot be read as DOUBLE", "x >"),
        ("SELECT ts, x, x FROM a", "found two columns 'x'", "x FROM"),
        ("SELECT * REPLACE (1 AS x) FROM a", r"\* with REPLACE", "*"),
        ("SELECT b.* FROM a", r"b\.\*, which is no name", "b.*"),
        ("SELECT 1", "found no FROM", None),
        (
            "SELECT window_start, count(*) FROM a GROUP BY window(ts, '1 s')",
            "the time of the rows, 'window_end'",
            "window_",
        ),
        ("SELECT window_end, k FROM a GROUP BY window(ts, '1 s')", "neither in GROUP BY", "k FROM"),
        ("SELECT window_end, sum(nope) FROM a GROUP BY window(ts, '1 s')", "there is no column 'nope'", "sum"),
        ("SELECT window_end, median(x) FROM a GROUP BY window(ts, '1 s')", "aggregate function 'median'", "median"),
        ("SELECT window_end FROM a GROUP BY window(x, '1 s')", "another time than that of the rows", "x,"),
        ("SELECT window_end FROM a GROUP BY window(ts, 'long')", "Could not convert", "'long'"),
        ("SELECT window_end FROM a GROUP BY window(ts, getenv('HOME'))", "the function getenv", "getenv"),
        ("SELECT window_end FROM a GROUP BY window(ts, '0 s')", "size of 0", "window"),
        ("SELECT window_end, window(ts, '1 s') FROM a GROUP BY window(ts, '1 s')", "found a window among", "window"),
        ("SELECT window(ts, '1 s') FROM a", "outside of a selection that is grouped", "window"),
        ("SELECT window_end, nope(count(*)) FROM a GROUP BY window(ts, '1 s')", "no function 'nope'", "nope"),
        ("VALUES (1)", "found VALUES", "1"),
        ("DELETE FROM a", "found a statement", None),
        ("SELECT ts FROM a; SELECT ts FROM a", "found 2 statements", None),
    ],
)
def test_anything_else_is_named_at_its_place(database: Database, text: str, message: str, at: str | None) -> None:
    with pytest.raises(SqlError, match=message) as told:
        _read(database, text)
    if at is not None:
        assert told.value.position is not None
        assert (text + "\n")[told.value.position :].startswith(at), told.value
