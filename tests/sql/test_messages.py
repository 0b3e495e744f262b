"""What is wrong with a statement is told at its place, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import InputError
from tidelog.sql.errors import SqlError

ROWS = 5000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    first = datetime(2026, 1, 1)
    rows = {
        "ts": pa.array([first + timedelta(seconds=k) for k in range(ROWS)], pa.timestamp("us")),
        "site": ["a" if k % 2 else "b" for k in range(ROWS)],
        "price": [k / 4 for k in range(ROWS)],
        "size": pa.array(range(ROWS), pa.int32()),
        "note": ["x" if k == ROWS - 1 else str(k) for k in range(ROWS)],
        "flag": [k % 2 == 0 for k in range(ROWS)],
    }
    with tidelog.open(tmp_path_factory.mktemp("messages") / "store", maintenance="manual") as opened:
        opened.create_stream("trades", time="ts", data=pa.table(rows))
        yield opened


WRONG = [
    # names
    ("SELECT * FROM ^trade", "no stream or table 'trade'; did you mean 'trades'?"),
    ("SELECT * FROM trades t JOIN ^quotes q USING (ts)", "no stream or table 'quotes'; known are 'trades'"),
    ("SELECT * FROM ^main.trades", "there are no schemas"),
    ("WITH a AS (SELECT 1) SELECT * FROM ^b", "no stream or table 'b'"),
    ("DESCRIBE ^trade", "did you mean 'trades'?"),
    ("SHOW OPTIONS FROM ^trade", "did you mean 'trades'?"),
    ("SELECT ^prise FROM trades", 'column "prise" not found .*"price"'),
    ("SELECT ^t.prise FROM trades t", 'table "t" does not have a column named "prise"; did you mean \'price\'?'),
    ("SELECT ^x.price FROM trades t", 'table "x" not found.*"t"'),
    ("SELECT count(*) FROM trades WHERE ^pirce > 3", '"pirce" not found .*"price"'),
    ("SELECT site, avg(price) FROM trades GROUP BY ^sit", '"sit" not found .*"site"'),
    ("SELECT price FROM trades ORDER BY ^prcie", '"prcie" not found .*"price"'),
    ("SELECT sum(price) OVER (ORDER BY ^tss) FROM trades", '"tss" not found .*"ts"'),
    ("SELECT ^* EXCLUDE (prise) FROM trades", '"prise" in EXCLUDE list not found .*"price"'),
    ("SELECT ^ts FROM trades t JOIN trades u ON t.ts = u.ts", "Ambiguous reference .*'t.ts' or 'u.ts'"),
    ("SELECT * FROM trades JOIN ^trades ON TRUE", "duplicate alias"),
    ("SELECT ^sqroot(price) FROM trades", "there is no function sqroot; did you mean 'sqrt'?"),
    ("SELECT ^time_bukcet(INTERVAL '1 hour', ts) FROM trades", "did you mean 'time_bucket'?"),
    ("SELECT ^frobnicated(price) FROM trades", "there is no function frobnicated, neither of DuckDB nor of tidelog"),
    ("SELECT ^getenv('HOME')", "function getenv is not allowed, because it tells of the process"),
    ("SELECT * FROM ^strems('t*')", "did you mean 'streams'?"),
    ("SELECT * FROM ^read_csv('x.csv')", "table function read_csv is not allowed; known are"),
    ("SELECT * FROM ^streams('quotes/*')", "no stream matches 'quotes/*'"),
    ("SELECT * FROM ^streams(5)", "expected streams('pattern')"),
    ("SELECT * FROM ^trades AT (VERSION => 'x')", "expected AT (VERSION => n)"),
    ("SELECT ^{'a': 1}.b FROM trades", 'key "b" in struct.*"a"'),
    # types
    ("SELECT site ^+ 1 FROM trades", "argument types '+(VARCHAR, INTEGER_LITERAL)'.*others"),
    ("SELECT ^sum(site) FROM trades", "argument types 'sum(VARCHAR)'"),
    ("SELECT ^lower(size) FROM trades", "argument types 'lower(INTEGER)'.*lower(string VARCHAR)"),
    ("SELECT ^time_bucket('1 hour', price) FROM trades", "argument types 'time_bucket(STRING_LITERAL, DOUBLE)'"),
    ("SELECT * FROM trades WHERE ^flag > INTERVAL '1 day'", "Cannot compare values of type BOOLEAN and type INTERVAL"),
    ("SELECT * FROM trades WHERE price > ^'abc'", "Could not convert string 'abc' to DOUBLE"),
    ("SELECT * FROM trades WHERE ts > ^'yesterday'", "invalid timestamp"),
    ("SELECT * FROM trades WHERE ts > ^'2026-13-01'", "out of range"),
    ("SELECT ^DATE '2026-02-30'", "date field value out of range"),
    ("SELECT INTERVAL ^'three days'", "to INTERVAL"),
    ("SELECT date_trunc(^'fortnight', ts) FROM trades", "not recognized"),
    ("SELECT ts AT TIME ZONE ^'Europe/Berlon' FROM trades", "Europe/Berlin"),
    ("SELECT * FROM trades LIMIT ^'x'", "Could not convert string 'x'"),
    # syntax
    ("^SELEC * FROM trades", "did you mean 'SELECT'?"),
    ("SELECT * FORM ^trades", "syntax error"),
    ("SELECT ^FROM trades", "without selection list"),
    ("SELECT * FROM trades WHERE price > ^AND size > 3", 'syntax error at or near "AND"'),
    ("SELECT * FROM trades WHERE (price > ^3", "found 1 ( more than )"),
    ("SELECT * FROM trades WHERE price > 3^)", "found 1 ) more than ("),
    ("SELECT * FROM trades WHERE site = ^'a", "found ' that is not closed"),
    ('SELECT ^"price FROM trades', 'found " that is not closed'),
    ("SELECT 1 ^/* a comment", "a comment that is not closed"),
    ("SELECT count(^DISTINCT) FROM trades", "DISTINCT requires"),
    ("SELECT size FROM trades WHERE size ^= 3 = 3", "Chained comparisons"),
    ("SELECT price FROM trades LIMIT 5 ^WHERE price > 3", 'near "WHERE"'),
    ("SELECT price WHERE price > 3 ^FROM trades", 'near "FROM"'),
    ("SELECT price ^FILTER (WHERE flag) FROM trades", 'near "FILTER"'),
    ("SELECT price FROM trades ^TABLESAMPLE 200%", "between 0 and 100"),
    # clauses where they cannot be
    ("SELECT site, ^price FROM trades GROUP BY site", "must appear in the GROUP BY clause"),
    ("SELECT ^* FROM trades GROUP BY site", "must appear in the GROUP BY clause"),
    ("SELECT * FROM trades HAVING ^price > 3", "must appear in the GROUP BY clause"),
    ("SELECT count(*) FROM trades WHERE ^count(*) > 3", "cannot contain aggregates"),
    ("SELECT * FROM trades WHERE ^row_number() OVER () = 1", "cannot contain window functions"),
    ("SELECT avg(^sum(price)) FROM trades", "cannot be nested"),
    ("SELECT * FROM trades ORDER BY ^9", "between 1 and 6"),
    ("SELECT price FROM trades GROUP BY ^7", "between 1 and 1"),
    ("SELECT * FROM trades LIMIT ^-5", "cannot be negative"),
    ("SELECT * FROM trades UNION ALL SELECT ^1", "same number of result columns"),
    ("SELECT ^window(ts, INTERVAL '1 hour') FROM trades", "expected GROUP BY window"),
    ("SELECT ^time_bucket_gapfill(INTERVAL '1 hour', ts) FROM trades", "expected GROUP BY time_bucket_gapfill"),
    # what only rows tell
    ("SELECT ^CAST(note AS INTEGER) FROM trades", "Could not convert string 'x'"),
    ("SELECT price,\n  sum(note^::INTEGER) OVER ()\nFROM trades", "Could not convert string 'x'"),
    ("SELECT (size * 1000000)^::SMALLINT FROM trades", "out of range for the destination type INT16"),
    ("SELECT ^size * 2000000000 FROM trades", "Overflow in multiplication"),
    ("SELECT 12345.678^::DECIMAL(4, 2)", "out of range"),
    ("SELECT price, ^(SELECT price FROM trades) FROM trades", "More than one row returned by a subquery"),
    ("SELECT * FROM trades WHERE ^error('own') IS NULL", "own"),
    ("SELECT ^time_bucket(INTERVAL '-1 hour', ts) FROM trades", "greater than 0"),
    ("SELECT ts ^+ INTERVAL '300000 years' FROM trades", "timestamp range"),
    ("SELECT ^factorial(size) FROM trades", "out of range"),
    ("SELECT ^regexp_matches(site, '[') FROM trades", "missing ]"),
    ("SELECT ^chr(-1)", "Codepoint"),
    ("SELECT length(^repeat(site, size * 1000000)) FROM trades", "give it more with sql_memory"),
    # parameters
    ("SELECT * FROM trades WHERE price > ^?", "expected those of the statement, number 1"),
    ("SELECT * FROM trades WHERE price > ^$limit", "expected those of the statement, $limit"),
    # statements that change something
    ("^UPDATE trades SET price = 3", "events do not change"),
    ("^COPY trades TO 'x'", "does not run"),
    ("^CREATE TABLE t (a INTEGER)", "expected CREATE STREAM"),
    ("^CREATE OR REPLACE STREAM t (a INTEGER)", "DROP STREAM IF EXISTS s; CREATE STREAM s"),
    ("WITH a AS (SELECT 'insert') ^INSERT INTO trades SELECT now()", "INSERT INTO s WITH c AS"),
    ("CREATE STREAM x (ts TIMESTAMP, p ^DOUBEL) WITH (time = 'ts')", "there is no type DOUBEL; did you mean 'DOUBLE'?"),
    ("CREATE STREAM x (ts TIMESTAMP, ^ts DOUBLE) WITH (time = 'ts')", "twice"),
    ("CREATE STREAM x (ts TIMESTAMP) WITH (^tim = 'ts')", "there is no option 'tim'"),
    ("CREATE STREAM x (ts TIMESTAMP) WITH (^time = 'tz')", "there is no column 'tz'"),
    ("CREATE STREAM x (ts TIMESTAMP) WITH (time = 'ts', ^leaf_rows = 'many')", "expected an int"),
    ("CREATE STREAM x (ts VARCHAR) WITH (^time = 'ts')", "expected int64, or a timestamp"),
    ("CREATE STREAM x AS ^SELECT price FROM trades", "found no column for the time of events"),
    ("INSERT INTO ^trade VALUES (1)", "did you mean 'trades'?"),
    ("INSERT INTO trades ^VALUES (1)", "has 6 columns but 1 values"),
    ("INSERT INTO trades (ts, ^prise) VALUES ('2026-01-01', 3)", "did you mean 'price'?"),
    ("INSERT INTO trades (ts, price) VALUES ('2026-01-01', ^'abc')", "Could not convert string 'abc'"),
    ("INSERT INTO trades (ts, size) VALUES ('2026-01-01', ^99999999999)", "out of range"),
    ("DELETE FROM trades^", "expected WHERE ts <"),
    ("DELETE FROM trades WHERE ^price > 3", "events are deleted from the oldest one on"),
    ("DELETE FROM trades WHERE ts < ^'soon'", "invalid timestamp"),
    ("ALTER STREAM trades ADD COLUMN ^price DOUBLE", "has a column 'price' already"),
    ("ALTER STREAM trades RENAME ^prise TO p", "did you mean 'price'?"),
    ("ALTER STREAM trades ^DROP COLUMN price", "columns are not dropped"),
    ("ALTER STREAM trades ^DROPP COLUMN price", "expected ADD COLUMN"),
    ("ALTER STREAM trades ADD COLUMN x INT ^NOT NULL", "is null in all events so far"),
    ("ALTER STREAM trades ADD COLUMN x INT ^DEFAULT 5", "is null in all events so far"),
    ("ALTER STREAM trades ALTER size ^SET NOT NULL", "expected TYPE or DROP NOT NULL"),
    ("EXPLAIN ^ANALYSE SELECT 1", "did you mean 'ANALYZE'?"),
    ("ALTER STREAM trades SET (^retentoin = '5 days')", "did you mean 'retention'?"),
    ("DROP STREAM ^trade", "did you mean 'trades'?"),
    ("DROP STREAM trades ^CASCADE", "expected the end of the statement"),
    ("EXPLAIN ^DELETE FROM trades", "EXPLAIN tells of statements that select"),
    # what to do instead
    ('SELECT * FROM trades WHERE site = ^"a"', "in single quotes, 'a'"),
    ("SELECT date_trunc(^hour, ts) FROM trades", "a unit of time is a text, 'hour'"),
    ("SELECT * FROM trades WHERE ^ts > 1767225600", "a time is written '2026-01-01 08:00'"),
    ("SELECT * FROM trades t JOIN trades u ON t.ts = ^u.size", "to_timestamp(n)"),
    ("SELECT ^time_bucket(INTERVAL 1 HOUR, size) FROM trades", "t // width * width"),
    ("SELECT ^time_bucket(INTERVAL 1 DAY, ts, 'Europe/Berlin') FROM trades", "ts AT TIME ZONE 'UTC'"),
    ("SELECT ^time_bucket(INTERVAL '1 month 1 day', ts) FROM trades", "Month intervals"),
    ("SELECT ts ^- 5 FROM trades", "'-(TIMESTAMP, INTEGER_LITERAL)'; a length of time"),
    ("SELECT * FROM trades WHERE ts > ^now() - '1 day'", "INTERVAL '1 day'"),
    ("SELECT * FROM trades WHERE ts > ^current_timestamp()", "without parentheses"),
    ("SELECT ^last(price, ts) FROM trades", "arg_max(x, ts)"),
    ("SELECT ^percentile(price, 95) FROM trades", "write quantile_cont(x, 0.95)"),
    ("SELECT ^size // 0 FROM trades", "Use TRY(...) to return NULL for this expression"),
    ("SELECT * FORM ^trades", "did you mean 'FROM'?"),
    ("SELECT * FROM trades LIMT ^5", "did you mean 'LIMIT'?"),
    ("SELECT * FROM trades ORDER BY price ^DSC", "did you mean 'DESC'?"),
    ("SELECT TOP ^5 * FROM trades", "LIMIT n, at the end"),
    ("SELECT * FROM trades WHERE ts > ^:start", "a parameter is written ?, or $name"),
    ("SELECT * FROM trades AT ^VERSION 5", "AT (VERSION => n)"),
    ("SELECT * FROM trades AT (VERSION => 5) ^t JOIN trades u USING (ts)", "FROM s AS a AT (VERSION => 5)"),
    ("SELECT * FROM trades AT (^VERSON => 5)", "the past of a stream is AT (VERSION => n)"),
    ("SELECT * FROM (FROM trades) ^AT (VERSION => 5)", "the past of a stream is AT (VERSION => n)"),
    ("WITH c AS (FROM trades) SELECT * FROM ^c AT (VERSION => 5)", "found AT for query 'c'; only streams have a past"),
    ("SELECT * FROM trades WHERE ts > now() - 1^h", "INTERVAL '1 hour'"),
    ("SELECT date_trunc(^'hor', ts) FROM trades", "did you mean 'hour'?"),
    ("SELECT ^lag(price) FROM trades", "lag(x) OVER (ORDER BY ts)"),
    ("SELECT ^date_format(ts, '%Y') FROM trades", "write strftime("),
    ("SELECT * FROM trades JOIN trades u USING (^tss)", "did you mean 'ts'?"),
    ("SELECT ^t.* FROM trades", '"t" not found'),
    ("SELECT * FROM trades ^ASOF JOIN trades u ON trades.site = u.site", "a.ts >= b.ts"),
    ("SELECT ts^::TIMESTAMPZ FROM trades", "did you mean 'TIMESTAMPTZ'?"),
    ("SELECT ^time_bucket('1 day', ts, 'Europe/Berlin') FROM trades", "ts AT TIME ZONE 'UTC'"),
    ("SELECT * FROM ^trades AT (VERSION => -1)", "expected a sequence number, 0 or more"),
    ("SELECT * FROM ^'trades.parquet'", "files are not read"),
    ("INSERT INTO trades ^SELECT 1, 2", "the stream has 6 columns but 2 values"),
    ("INSERT INTO trades BY NAME ^SELECT 1 AS tss", 'the stream does not have a column with name "tss"'),
    ("ALTER STREAM trades ADD AGGREGATE ^'sum(price)'", "the option aggregates names"),
    ("ALTER STREAM trades ADD AGGREGATE ^price", "in single quotes"),
    ("^SHOW OPTIONS trades", "SHOW OPTIONS FROM"),
    ("^SET timezone = 'UTC'", "timezone='Europe/Berlin'"),
    ("^BEGIN", "by itself"),
    # what is written elsewhere, or by mistake
    ("SELECT site FROM trades WHERE ^avg(price) > 3", "said by HAVING"),
    ("SELECT site FROM trades WHERE ^row_number() OVER () > 3", "said by QUALIFY"),
    ("SELECT 'price' ^+ 1 FROM trades", "without quotes, or in double quotes"),
    ("SELECT ^time_bucket(3600, ts) FROM trades", "time_bucket(INTERVAL '1 hour', ts)"),
    ("SELECT ^time_bucket(ts, '1 hour') FROM trades", "the width comes first"),
    ("SELECT time_bucket(^'1 hor', ts) AS b, count(*) FROM trades GROUP BY b", "did you mean 'hour'?"),
    ("SELECT ^date_trunc(ts, 'hour') FROM trades", "date_trunc('hour', ts)"),
    ("SELECT ^datediff(ts, ts) FROM trades", "datediff('hour', ts, now())"),
    ("SELECT ^count(DISTINCT site, price) FROM trades", "count(DISTINCT (a, b))"),
    ("SELECT ^difference(price) FROM trades", "write x - lag(x) OVER (ORDER BY ts)"),
    ("SELECT ^moving_average(price, 5) FROM trades", "ROWS BETWEEN 9 PRECEDING"),
    ("SELECT ^create_hypertable('trades', 'ts')", "write CREATE STREAM"),
    ("SELECT count(*) FROM trades GROUP BY ^TUMBLE(ts, INTERVAL 1 HOUR)", "write GROUP BY window(ts, size)"),
    ("SELECT ^group_concat(site) WITHIN GROUP (ORDER BY ts) FROM trades", "string_agg(x, ',' ORDER BY ts)"),
    ("SELECT ^ifnull(price) FROM trades", "Wrong number of arguments to IFNULL"),
    ("SELECT mean(price) FROM trades FILL(^null)", "time_bucket_gapfill"),
    ("SELECT count(*) FROM trades GROUP BY site ^FILL(0)", "locf and interpolate"),
    ("SELECT * FROM trades LIMIT 10 ^ORDER BY ts", "ORDER BY stands before LIMIT"),
    ("SELECT count(*) FROM trades GROUP BY site ^WHERE price > 3", "WHERE stands before GROUP BY"),
    ("SELECT * FROM trades WHERE size > (SELECT 1) ^WHERE price > 3", "there is one WHERE"),
    ("SELECT price WHERE price > 3 ^FROM trades", "FROM stands before WHERE"),
    ("SELECT * FROM trades ^WHERE", "something is missing behind it"),
    ("SELECT * FROM trades WHERE size == 3 && price ^> 3", "by AND, not by &&"),
    ("SELECT * FROM trades WHERE site LIKE a^%", "a text is written in single quotes, 'a%'"),
    ("SELECT * FROM trades WHERE site =~ ^/a.*/", "regexp_matches(x, '^h.*')"),
    ("SELECT * FROM trades WHERE price = ^NaN", "it is written 'NaN'::DOUBLE"),
    ("SELECT * FROM sensors^/1", 'in double quotes, "sensors/1"'),
    ("SELECT * FROM my^-stream", 'in double quotes, "my-stream"'),
    ("SELECT * FROM trades a JOIN trades ^b", "ON a.x = b.x or USING (x)"),
    ("SELECT * FROM trades a JOIN trades b ^WHERE a.price > 3", "ON a.x = b.x or USING (x)"),
    ("SELECT ^_stream FROM trades", "streams('pattern')"),
    ("SELECT DISTINCT ON ^site * FROM trades", "DISTINCT ON (a, b)"),
    ("SELECT * FROM trades AT (VERSION ^= 5)", "AT (VERSION => n)"),
    ("SELECT * FROM trades VERSION ^AS OF 5", "AT (VERSION => n)"),
    ("SELECT * FROM trades ^FOR SYSTEM_TIME AS OF '2026-01-01'", "AT (VERSION => n)"),
    ("SELECT * FROM ^AT (VERSION => 5) trades", "AT (VERSION => n)"),
    ("SELECT AT (VERSION => 5) * ^FROM trades", "AT (VERSION => n)"),
    ("SELECT price^::INTT FROM trades", "did you mean 'INT'?"),
    ("DESCRIBE STREAM ^trades", "the name follows DESCRIBE"),
    ("INSERT INTO trades VALUES (1) ^RETURNING ts", "the number of rows, and nothing else"),
    ("INSERT INTO trades VALUES (1) ^ON CONFLICT DO NOTHING", "without conflicts"),
    ("CREATE STREAM x (ts TIMESTAMP) WITH (^tme = 'ts')", "did you mean 'time'?"),
    ("^CREATE VIEW v AS SELECT 1", "WITH v AS"),
    ("^CREATE MATERIALIZED VIEW v AS SELECT 1", "store.subscribe"),
    ("^CREATE INDEX i ON trades (ts)", "has an index"),
    ("^PRAGMA table_info('trades')", "DESCRIBE tells the columns"),
]


@pytest.mark.parametrize(("marked", "says"), WRONG, ids=[marked.replace("^", "", 1) for marked, _ in WRONG])
def test_it_is_told_what_is_wrong_and_where(store: Store, marked: str, says: str) -> None:
    text = marked.replace("^", "", 1)
    with pytest.raises(SqlError) as caught:
        store.sql(text).arrow()
    message = str(caught.value)
    pattern = ".*".join(map(re.escape, says.split(".*")))
    assert re.search(pattern, message, re.DOTALL), message
    assert caught.value.position == marked.index("^"), message
    line = text[: marked.index("^")].count("\n")
    shown = text.split("\n")[line]
    column = marked.index("^") - sum(len(each) + 1 for each in text.split("\n")[:line])
    assert message.endswith(f"\n  {shown}\n  {' ' * column}^")
    assert ("\n" not in text) or f"\nline {line + 1}, column {column + 1}:\n" in message
    assert store.sql("SELECT count(*) FROM trades").fetchall() == [(ROWS,)]


def test_carets_stand_under_their_places_behind_tabs_and_wide_letters(store: Store) -> None:
    wide = "SELECT '日本', 'e\u0301', "  # two letters of two columns, and one of none
    for before, room in (("SELECT\t'a',\t", "      \t    \t"), (wide, " " * (len(wide) + 2 - 1))):
        with pytest.raises(SqlError) as caught:
            store.sql(f"{before}prise FROM trades").arrow()
        assert str(caught.value).endswith(f"\n  {before}prise FROM trades\n  {room}^")


def test_both_kinds_of_parameters_are_not_mixed(store: Store) -> None:
    with pytest.raises(SqlError, match=r"found both \? and \$name"):
        store.sql("SELECT ?, $a", {"a": 1})


def test_what_is_missing_in_rows_is_told_by_its_column(store: Store) -> None:
    with pytest.raises(InputError, match="column 'ts', row 0: found a null"):
        store.sql("INSERT INTO trades (price) VALUES (3)")


def test_errors_of_several_statements_are_those_of_the_one(store: Store) -> None:
    with pytest.raises(SqlError, match="did you mean 'SELECT'") as caught:
        store.sql("SELECT 1;\nSELCT 2")
    assert str(caught.value).endswith("\n  SELCT 2\n  ^")


def test_without_a_store_nothing_is_changed(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="use the sql method of a store") as caught:
        tidelog.sql("DROP STREAM s")
    assert caught.value.text == "DROP STREAM s"
