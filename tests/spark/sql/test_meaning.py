"""Expressions mean on Spark what they mean in DuckDB: value by value, and error by error."""

from __future__ import annotations

import datetime
import itertools
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from support.queries.plain import rows
from support.spark.results import plain
from tidelog import spark as tl
from tidelog.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REALS = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.5,
    -2.5,
    2.5,
    0.145,
    1e15,
    1e16,
    1e-5,
    123456.789,
    -7.0,
    1e300,
]
PAIRS = list(itertools.product(REALS, REALS))
NUMBERS = pa.table(
    {
        "a": pa.array([one for one, _ in PAIRS], pa.float64()),
        "b": pa.array([other for _, other in PAIRS], pa.float64()),
        "f": pa.array([None if one is None or abs(one) > 1e30 else one for one, _ in PAIRS], pa.float32()),
        "i": pa.array([None if n % 11 == 0 else n * 7919 % 4001 - 2000 for n in range(len(PAIRS))], pa.int32()),
        "j": pa.array([None if n % 13 == 0 else n % 9 + 1 for n in range(len(PAIRS))], pa.int32()),
        "t": pa.array([n % 256 - 128 for n in range(len(PAIRS))], pa.int8()),
        "u": pa.array([n % 256 for n in range(len(PAIRS))], pa.uint8()),
        "big": pa.array([(n - 100) * (1 << 55) for n in range(len(PAIRS))], pa.int64()),
        "huge": pa.array([n * ((1 << 64) // 300) for n in range(len(PAIRS))], pa.uint64()),
        "dec": pa.array(
            [None if n % 5 == 0 else Decimal(n * 37 - 4000).scaleb(-2) for n in range(len(PAIRS))], pa.decimal128(9, 2)
        ),
        "truth": pa.array([(True, False, None)[n % 3] for n in range(len(PAIRS))]),
    }
)


def expressions(text: str) -> list[str]:
    return [each.strip() for each in text.replace("\n", ";").split(";") if each.strip()]


OF_NUMBERS = """
a + b; a - b; a * b; a / b; -a; abs(a); a = b; a < b; a <= b; a <> b; a IS DISTINCT FROM b; greatest(a, b)
least(a, b); a % b; f / j; f + f; f * 2; i / j; i // j; -i // j; i % j; -i % j; i + j * 3 - 1; i * 1.5; i / 0; i / 2.0
dec + 1; dec * dec; dec - 0.125; dec / 3; dec * 2; -dec; abs(dec); dec::DECIMAL(9, 1); dec::INTEGER; dec::DOUBLE
dec > 1.005; round(a); round(a, 1); round(a, 2); round(dec); round(dec, 1); floor(a); ceil(a); floor(dec); sign(a)
sign(i); CASE WHEN abs(a) < 1e6 THEN a::INTEGER END; CASE WHEN abs(a) < 1e6 THEN a::DECIMAL(18, 3) END
TRY_CAST(a AS INTEGER); TRY_CAST(a AS TINYINT); TRY_CAST(i AS TINYINT); TRY_CAST(i AS UTINYINT)
TRY_CAST(dec AS UTINYINT); TRY_CAST(big AS INTEGER); a::VARCHAR; f::VARCHAR; i::VARCHAR; dec::VARCHAR; huge::VARCHAR
truth::VARCHAR; big::VARCHAR; (i / 1024)::VARCHAR; i::BOOLEAN; a::BOOLEAN; truth::INTEGER; u + 0; u::INTEGER - 300
huge + 1; huge // 7; big::HUGEINT * 5; i::HUGEINT + 4; huge::DOUBLE; TRY_CAST(a AS FLOAT); i::DOUBLE; isnan(a)
isinf(a); isfinite(a); a IN (1.5, 'nan'::DOUBLE, NULL); i IN (1, 2, 3); i NOT IN (1, 2); i BETWEEN -5 AND 500
NOT i > 3; coalesce(a, b, 1); nullif(i, 9); ifnull(i, 0); if(truth, i, j); truth AND i > 0; truth OR i > 0
CASE i WHEN 5 THEN 'five' WHEN 9 THEN NULL ELSE 'other' END; truth IS NOT TRUE; i::SMALLINT + t; t::INTEGER * t
sqrt(i); round(ln(i / 7), 9); log10(a) > 3; power(j, 2); -0.0 * i
round(exp(j / 7), 6); round(sin(i), 9); round(cos(i), 9); round(tan(j), 6); round(atan(a), 9); round(atan2(a, 3.0), 9)
round(log2(abs(i) + 1), 9)
"""
WORDS = [
    None, "", "a", "ab", "abc", "Ab%", "a_c", "é", "it's", "zz\\top", "10", " 12 ", "-3", "line\none", "a,b,,c",
    "  pad ", "{x}", "2026-03-28", "xyz", "aXbXc", "日本語", "A\tB",
]  # fmt: skip
TEXTS = pa.table(
    {
        "s": pa.array([one for one, _ in itertools.product(WORDS, WORDS)]),
        "o": pa.array([other for _, other in itertools.product(WORDS, WORDS)]),
    }
)
OF_TEXTS = """
s || o; concat(s, o, 'x'); concat_ws('-', s, o); s = o; s < o; s >= o; length(s); strlen(s); upper(s); lower(s)
contains(s, o); starts_with(s, o); ends_with(s, o); suffix(s, o); strpos(s, o); instr(s, 'b'); position('b' IN s)
replace(s, o, '*'); trim(s); ltrim(s); rtrim(s); trim(s, 'a '); s[1:2]; s[2:3]; s[1:1]; substring(s, 1, 2)
substring(s, 2); left(s, 2); right(s, 2); lpad(s, 4, 'xy'); rpad(s, 4, '.'); repeat(s, 3); split_part(s, ',', 2)
split_part(s, ',', 9); split_part(s, ',', -1); s LIKE 'a%'; s LIKE '%b%'; s LIKE '_b%'; s NOT LIKE 'a_'; s LIKE ''
s LIKE '%\\%'; s LIKE 'a!_c' ESCAPE '!'; s ILIKE 'AB%'; s LIKE '%{x}%'; regexp_matches(s, '^[ab]')
regexp_matches(s, 'c$'); regexp_matches(s, 'e$'); regexp_matches(s, 'a.c'); regexp_full_match(s, 'a.*')
regexp_matches(s, '[0-9]+'); regexp_matches(s, '\\d{2}|b'); regexp_extract(s, '([a-z])([a-z])', 2)
regexp_replace(s, '[aX]', '_', 'g'); regexp_replace(s, '(a)(b)', '\\2\\1', 'g'); regexp_matches(s, 'AB', 'i')
s IN ('a', 'é'); s > 'a'; s IS NULL; coalesce(s, o); nullif(s, 'a'); TRY_CAST(s AS INTEGER); TRY_CAST(s AS BIGINT)
TRY_CAST(s AS UTINYINT); TRY_CAST(s AS DOUBLE); s = 'it''s'; s || 'é\\n' || '"`{}'
"""
MOMENTS = [
    None,
    datetime.datetime(2026, 3, 29, 0, 59, 59, 999_999),
    datetime.datetime(2026, 3, 29, 1, 0),
    datetime.datetime(2026, 3, 29, 2, 30),
    datetime.datetime(2026, 10, 25, 0, 30),
    datetime.datetime(2026, 10, 25, 1, 30, 0, 123_450),
    datetime.datetime(2026, 10, 25, 2, 30),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2000, 1, 3),
    datetime.datetime(2024, 2, 29, 12),
    datetime.datetime(2026, 1, 1),
    datetime.datetime(2027, 1, 1, 23, 5),
    datetime.datetime(2026, 12, 31, 5, 6, 7, 8),
    datetime.datetime(1900, 3, 1, 4, 5, 6),
]
TIMES = pa.table(
    {
        "p": pa.array(MOMENTS, pa.timestamp("us")),
        "z": pa.array(MOMENTS, pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
        "d": pa.array([None if each is None else each.date() for each in MOMENTS]),
        "n": pa.array([None if each is None else n * 333 for n, each in enumerate(MOMENTS)], pa.int64()).cast(
            pa.timestamp("ns")
        ),
        "ms": pa.array(
            [None if each is None else each.replace(microsecond=5000) for each in MOMENTS], pa.timestamp("ms")
        ),
    }
)
OF_MOMENTS = """
p + INTERVAL 1 HOUR; p + INTERVAL '1 month'; p - INTERVAL '1 day 2 hours'; z + INTERVAL '1 day'
z - INTERVAL '1 month'; d + INTERVAL '1 month'; d + 3; d - 3; d - DATE '2026-01-01'; p - TIMESTAMP '2026-01-01'
p::VARCHAR; z::VARCHAR; d::VARCHAR; n::VARCHAR; p::DATE; z::DATE; z::TIMESTAMP
p::TIMESTAMPTZ; d::TIMESTAMP; d::TIMESTAMPTZ; n::TIMESTAMP; n::DATE; n::TIMESTAMP_MS; p::TIMESTAMP_S; p::TIMESTAMP_MS
ms::TIMESTAMP; n > TIMESTAMP '1970-01-01'; epoch(p); epoch(z); epoch_us(p); epoch_us(z); epoch_ms(p); epoch_ns(p)
epoch(d); strftime(p, '%Y-%m-%d %H:%M:%S.%f %j'); strftime(z, '%d %H:%M'); strftime(d, '%a %b %B %A %y %I %p%%')
p AT TIME ZONE 'America/New_York'; z AT TIME ZONE 'Europe/Berlin'; p = z; p > DATE '2026-03-29'
z > '2026-03-29 02:00'; p BETWEEN '2026-01-01' AND '2026-06-01'; p IN (TIMESTAMP '2026-01-01', NULL)
greatest(p, TIMESTAMP '2026-01-01'); coalesce(z, TIMESTAMPTZ '2026-01-01 00:00+00'); d < '2026-06-01'
z + INTERVAL '1 day' + INTERVAL '1 day' + INTERVAL '1 day' - INTERVAL '2 days'
"""
PARTS = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "quarter",
    "dayofweek",
    "isodow",
    "dayofyear",
    "week",
    "isoyear",
    "yearweek",
    "millisecond",
    "microsecond",
]
UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
OF_TIMES = [
    *(f"{part}({column})" for part in PARTS for column in "pzd"),
    *(f"date_trunc('{unit}', {column})" for unit in UNITS for column in "pzd"),
    *(
        f"time_bucket(INTERVAL '{width}', {column}{more})"
        for width in ("15 minutes", "6 hours", "1 day", "7 days", "1 month", "3 months", "1 year", "90 seconds")
        for column, more in [
            ("p", ""),
            ("z", ""),
            ("p", ", INTERVAL '30 minutes'"),
            ("z", ", INTERVAL '-1 hour'"),
            ("p", ", TIMESTAMP '2026-03-29 01:30:00'"),
            ("z", ", TIMESTAMPTZ '1999-12-31 23:00:00+00'"),
            ("z", ", 'Europe/Berlin'"),
            ("z AT TIME ZONE 'Asia/Kolkata'", ""),
        ]
    ),
    *expressions(OF_MOMENTS),
]
_ENDS = [(one, other) for one in MOMENTS for other in MOMENTS]
DIFFERENCES = pa.table(
    {
        "p": pa.array([one for one, _ in _ENDS], pa.timestamp("us")),
        "q": pa.array([other for _, other in _ENDS], pa.timestamp("us")),
        "z": pa.array([one for one, _ in _ENDS], pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
        "y": pa.array([one for _, one in _ENDS], pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
)
OF_DIFFERENCES = [
    *("z - y", "p - q", "epoch(z - y)", "epoch(p - q)", "epoch_us(p - q)", "z - p", "p::DATE - q::DATE"),
    *(f"date_diff('{unit}', p, q)" for unit in (*UNITS, "us", "weeks")),
    *(f"date_diff('{unit}', z, y)" for unit in ("day", "week", "month", "quarter", "year", "second")),
    *(f"date_diff('{unit}', p::DATE, q::DATE)" for unit in ("day", "week", "month")),
]
AGGREGATES = """
count(*); count(i); count(DISTINCT i); sum(i); sum(u); sum(huge); sum(big); sum(dec); sum(DISTINCT i); sum(i::FLOAT)
avg(i); avg(u); avg(big); min(a); max(a); min(dec); max(truth); min(f); bool_or(truth); bool_and(truth); count_if(truth)
count_if(NULL::BOOLEAN); bit_xor(i); arg_min(i, t); arg_max(i, big); median(i); sum(i) FILTER (WHERE i > 0)
count(*) FILTER (WHERE truth); list(j ORDER BY big DESC); first(i ORDER BY big); last(i ORDER BY big)
first(i ORDER BY j DESC NULLS LAST, big); string_agg(i::VARCHAR, '+' ORDER BY big)
product(CASE WHEN j > 5 THEN 2 ELSE 1 END); sum(truth::INTEGER); min(i) + max(i); any_value(7)
avg(i) FILTER (WHERE i > 10000); list(i ORDER BY big) FILTER (WHERE false)
sum(a) FILTER (WHERE abs(a) < 100 AND a > 1); max(i) - min(j)
"""


LISTED = pa.table(
    {
        "k": pa.array([None if n % 7 == 0 else n % 9 - 4 for n in range(100)], pa.int32()),
        "b": pa.array([n % 5 for n in range(100)], pa.int64()),
        "s": pa.array([("a", "b", None, "é")[n % 4] for n in range(100)]),
    }
)
LISTS = """(
    SELECT *, numbers[1 + place // 10] AS l, numbers[1 + place % 10] AS m, reals[1 + place % 5] AS dd,
        words[1 + place % 5] AS ss, nested[1 + place % 4] AS ll, decimals[1 + place % 4] AS dec,
        truths[1 + place % 5] AS bb
    FROM v, (
        SELECT
            [NULL, [], [1], [1, 2, 3], [3, NULL, 1, 3], [NULL], [NULL, NULL], [5, 4, 3, 2, 1], [-1, 0, 1], [2, 2, 2]
            ]::INTEGER[][] AS numbers,
            [NULL, [], [1.5, 'nan'::DOUBLE, NULL, -2.5], ['inf'::DOUBLE, 0.5], [2.0, 1.0]]::DOUBLE[][] AS reals,
            [NULL, [], ['a', 'b'], ['b', NULL, 'ab'], ['é', '']]::VARCHAR[][] AS words,
            [NULL, [], [[1], NULL, [2, NULL]], [[], [3, 4]]]::INTEGER[][][] AS nested,
            [NULL, [], [1, 2], [NULL, 3]]::DECIMAL(9, 2)[][] AS decimals,
            [NULL, [], [true, NULL], [false, true], [true]]::BOOLEAN[][] AS truths
    )
)"""
OF_LISTS = """
list_contains(l, k); l.list_contains(2); list_has(ss, s); k IN l; list_contains(dd, 1.5::DOUBLE)
list_contains(dd, 'nan'::DOUBLE); array_contains(l, b); list_contains(l, NULL); list_position(l, k)
list_indexof(l, 3); list_position(ss, s); list_position(l, NULL::INTEGER); list_sort(l); list_sort(l, 'DESC')
list_sort(l, 'DESC', 'NULLS FIRST'); list_sort(l, 'ASC', 'NULLS FIRST'); list_reverse_sort(l); list_sort(dd)
list_sort(ss); list_sort(dd, 'DESC'); list_reverse(l); list_reverse_sort(ss); list_unique(l); list_unique(ss)
list_concat(l, m); l || m; list_concat(l, m, [9]); list_append(l, k); list_prepend(k, l); list_min(l); list_max(l)
list_min(dd); list_max(dd); list_min(ss); list_sum(l); list_sum(dec); list_avg(l); list_count(l)
list_aggregate(l, 'max'); list_any_value(l); list_first(l); list_last(l); list_bool_or(bb); list_bool_and(bb)
list_sum([1.5::DOUBLE, 2.25]); len(l); length(ss); array_length(l); list_extract(l, k); l[k]; l[1]; l[-1]; l[0]; l[9]
l[b]; l[1:2]; l[2:]; l[:-2]; l[0:1]; l[-2:]; l[-9:2]; l[3:1]; list_slice(l, 1, k); l[k:]; l[:k]; l[k:b]; ss[2:3]
flatten(ll); flatten([l, m]); list_has_any(l, m); list_has_all(l, m); l && m; l @> m; l <@ m; list_has_any(ss, ['a'])
l::BIGINT[]; l::VARCHAR[]; list_filter(l, lambda x: x > k); list_transform(l, lambda x: x + k)
list_transform(l, lambda x: x * 2 + 1); [x * 2 for x in l if x > 1]; list_filter(l, lambda x, i: i > 1)
list_transform(l, lambda x, i: x + i); list_transform(l, lambda x: list_transform(m, lambda y: x + y + k))
list_filter(l, lambda x: list_contains(m, x)); list_transform(ss, lambda x: upper(x) || s)
list_transform(dd, lambda x: x / 2); list_transform(l, lambda x: [x, k])
list_transform(l, lambda x: {'a': x, 'b': k}); list_reduce([1, 2, 3], lambda a, x: a + x)
list_reduce(l, lambda a, x: a + x, 100); list_reduce(l, lambda a, x: a * 2 + x, k)
list_reduce(list_append(l, 1), lambda a, x: greatest(a, x) + k)
list_transform(list_filter(l, lambda x: x IS NOT NULL), lambda x: CASE WHEN x > 2 THEN 'big' ELSE 'small' END)
apply(l, lambda x: x = k); array_filter(ss, lambda x: x LIKE 'a%'); list_sum(list_transform(l, lambda x: abs(x)))
list_transform(string_split('a,b,c', ','), lambda x: x || s); list_transform(l, lambda x: x::VARCHAR)
len(list_filter(l, lambda x: x > 1)) > 1; list_transform(l, lambda x: x > 1 AND k > 0)
list_filter(dec, lambda x: x > 1.5); list_transform(dec, lambda x: x * 2)
list_max(list_transform(l, lambda x: x + 1))
"""


def compare(
    session: SparkSession,
    table: pa.Table,
    texts: list[str],
    timezone: str = "UTC",
    rest: str = "",
    source: str = "v",
) -> None:
    ask = f"SELECT {', '.join(texts)} FROM {source} {rest}"
    numbered = table.append_column("place", pa.array(range(table.num_rows), pa.int32()))
    order = "" if rest else "ORDER BY place"
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{timezone}'")
        connection.register("v", numbered)
        expected = plain(connection.sql(f"{ask} {order}").to_arrow_table())
    found = plain(tl.sql(session, f"{ask} {order}", tables={"v": numbered}, timezone=timezone).toArrow())
    wrong = []
    for place, text in enumerate(texts):
        one, other = (rows(each.select([place])) for each in (found, expected))
        differing = [
            (at, ours, theirs) for at, (ours, theirs) in enumerate(zip(one, other, strict=True)) if ours != theirs
        ]
        if differing:
            at, ours, theirs = differing[0]
            wrong.append(f"{text}: {ours}, expected {theirs}, of {table.slice(at, 1).to_pylist() if not rest else ''}")
    assert not wrong, "\n".join(wrong)


def test_numbers(session: SparkSession) -> None:
    compare(session, NUMBERS, expressions(OF_NUMBERS))


def test_texts(session: SparkSession) -> None:
    compare(session, TEXTS, expressions(OF_TEXTS))
    kelvin = "SELECT regexp_matches(s, 'k', 'i') FROM v"  # true for DuckDB, and not for Java
    with pytest.raises(PySparkException, match="takes for k or s"):
        tl.sql(session, kelvin, tables={"v": pa.table({"s": ["\u212a"]})}).collect()


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_times(session: SparkSession, timezone: str) -> None:
    compare(session, TIMES, OF_TIMES, timezone)


@pytest.mark.parametrize("timezone", ["Europe/Berlin", "America/New_York"])
def test_differences(session: SparkSession, timezone: str) -> None:
    compare(session, DIFFERENCES, OF_DIFFERENCES, timezone)


def test_lists(session: SparkSession) -> None:
    compare(session, LISTED, expressions(OF_LISTS), source=LISTS)


def test_aggregates(session: SparkSession) -> None:
    compare(session, NUMBERS, expressions(AGGREGATES), rest="WHERE true")
    compare(session, NUMBERS, ["t % 4", *expressions(AGGREGATES)], rest="GROUP BY ALL ORDER BY 1")


STATEMENTS = """
SELECT '${system:user.home}', '{x} FROM _r0_', '{{}}', 'a$b', '\\', '`', '--', '/*'
SELECT '${env:HOME}' AS "${env:HOME}", s, '{y}' AS "a`b.c" FROM v WHERE s = '12'
SELECT TRY_CAST(s AS TIMESTAMP) FROM v WHERE s LIKE '2026%' OR s = 'x'
SELECT TRY_CAST(s AS DECIMAL(9, 2)), TRY_CAST(s AS DOUBLE), TRY_CAST(s AS FLOAT) FROM v WHERE s NOT LIKE '2026%'
SELECT lag(k) OVER (ORDER BY d NULLS LAST), sum(k) OVER (ORDER BY d), ntile(2) OVER (ORDER BY k), avg(k) OVER () FROM w
SELECT k, last_value(k) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM w
SELECT count(*) FILTER (WHERE k > 1) OVER (ORDER BY k), min(k) FILTER (WHERE k > 2) OVER (PARTITION BY k % 2) FROM w
SELECT lead(k, 2, 9) OVER (ORDER BY k DESC), rank() OVER (ORDER BY k // 2), dense_rank() OVER (ORDER BY k // 2) FROM w
SELECT k, grouping(k), grouping(k, d), count(*) FROM w GROUP BY CUBE (k, d)
SELECT count(*), max(k) FROM w WHERE k > 99 GROUP BY GROUPING SETS ((k), ())
SELECT w.k, e.k FROM w FULL JOIN w e ON w.k = e.k + 3
SELECT w.k, e.k FROM w LEFT JOIN w e ON w.k > e.k OR e.k = 5
SELECT k IN (SELECT NULL UNION ALL SELECT 3), k NOT IN (SELECT k FROM w WHERE k > 3) FROM w
SELECT (SELECT max(e.k) FROM w e WHERE e.k < w.k), EXISTS (FROM w e WHERE e.k > w.k) FROM w
SELECT k, (SELECT count(*) FROM w e WHERE e.k < w.k) + 1 AS n FROM w QUALIFY row_number() OVER (ORDER BY k DESC) < 3
SELECT x.a FROM (VALUES (1), (2)) x(a) UNION SELECT k FROM w
SELECT k FROM w EXCEPT ALL SELECT k FROM w WHERE k > 2
SELECT DISTINCT ON (k % 2) k, d FROM w ORDER BY k % 2, k
SELECT k, unnest([k, k * 2]) FROM w
SELECT k + 1 AS a, a * 2 AS b FROM w WHERE a > 3
PIVOT (SELECT k, k % 2 AS p FROM w) ON p IN (0, 1) USING sum(k)
FROM w SELECT COLUMNS('k') ORDER BY ALL DESC LIMIT 2 OFFSET 1
SELECT * EXCLUDE (d) REPLACE (k * 2 AS k) FROM w
SELECT w.k, r.i FROM w ASOF LEFT JOIN range(0, 5, 2) r(i) ON w.k >= r.i
SELECT w.k, l.v FROM w, LATERAL (SELECT w.k * 2 AS v) l
SELECT first(v.s ORDER BY w.k DESC) FROM w JOIN v ON length(v.s) = w.k
"""


def test_statements(session: SparkSession) -> None:
    texts = [None, "2026-03-28", "2026-02-30", "x", "2026-03-28 10:00", "2026-03-28T10:00:05.123", "1.005", "12", "-.5"]
    days = pa.array([None, 18000, 20000, -5, 11000], pa.int32()).cast(pa.date32())
    tables = {"v": pa.table({"s": texts}), "w": pa.table({"d": days, "k": [1, 2, 3, 4, 5]})}
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for text in STATEMENTS.strip().splitlines():
            expected = connection.sql(text).to_arrow_table()
            found = tl.sql(session, text, tables=tables).toArrow()
            assert found.schema.names == expected.schema.names, text
            assert sorted(rows(plain(found))) == sorted(rows(plain(expected))), text


@pytest.mark.parametrize(
    "text",
    [
        "i // 0", "i % 0", "(i + 2147483647)::INTEGER", "big * 1000", "(u - 300::UTINYINT)", "a::INTEGER", "s::INTEGER",
        "i::TINYINT", "i::UTINYINT", "(SELECT i FROM v)",
    ],
)  # fmt: skip
def test_what_fails_in_duckdb_fails(session: SparkSession, text: str) -> None:
    table = NUMBERS.slice(20, 5).append_column("s", pa.array(["x"] * 5))
    with duckdb.connect() as connection:
        connection.register("v", table)
        with pytest.raises(duckdb.Error):
            connection.sql(f"SELECT {text} FROM v").fetchall()
    with pytest.raises((SqlError, PySparkException)):
        tl.sql(session, f"SELECT {text} FROM v", tables={"v": table}).collect()
