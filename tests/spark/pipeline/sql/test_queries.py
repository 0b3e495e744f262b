"""Queries that Spark would refuse are refused before it starts, those that it takes are taken; and Spark is asked, too."""

# ruff: noqa: E501  (a query, what is said of it, and where: a line for each)

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import TimeError
from tidelog.spark import pipeline as pl
from tidelog.spark.pipeline.description.formats import FILE_READING, OPTIONS
from tidelog.spark.pipeline.running.explaining import explain
from tidelog.spark.pipeline.sql.intervals import read_interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "at timestamp, id bigint, symbol string, price double, tags array<string>, flag boolean, day date, ntz timestamp_ntz"
NAMES = "symbol string, name string, since timestamp"
HOUR = "GROUP BY window(at, '1 hour')"

WRONG = [
    ("SELECT at, id FROM a UNION ALL SELECT at FROM b", "UNION of 2 and 1 columns; expected the same number", "at FROM b"),
    ("SELECT at FROM a UNION ALL SELECT id FROM b", "column 1 of the UNION, 'at', is timestamp and, behind it, bigint", "id"),
    ("SELECT tags FROM a UNION ALL SELECT symbol FROM b", "is array<string> and, behind it, string", "symbol"),
    ("SELECT flag FROM a UNION ALL SELECT price FROM b", "is boolean and, behind it, double", "price"),
    ("SELECT symbol FROM a UNION ALL SELECT symbol FROM names", "UNION of rows that keep arriving with rows of a table", "symbol FROM n"),
    ("SELECT id, at FROM a INTERSECT SELECT id, at FROM b", "INTERSECT cannot be for rows that keep arriving", "id, at FROM b"),
    ("SELECT symbol FROM names EXCEPT SELECT symbol FROM a", "EXCEPT cannot take away rows that keep", "symbol FROM a"),
    ("SELECT at, id FROM a ORDER BY at", "have no last one, so they cannot be sorted; leave the order out", "ORDER"),
    ("SELECT at, id FROM a SORT BY at", "cannot be sorted", "SORT"),
    ("SELECT * FROM (SELECT at FROM a ORDER BY at)", "cannot be sorted", "ORDER"),
    ("SELECT at FROM a LIMIT 5 OFFSET 2", "OFFSET cannot be", "at"),
    ("SELECT at, row_number() OVER (PARTITION BY id ORDER BY at) AS n FROM a", "expected GROUP BY window", "row_n"),
    (f"SELECT count(DISTINCT id) AS n FROM a {HOUR}", "expected approx_count_distinct", "count"),
    ("SELECT at, id FROM a TABLESAMPLE (10 PERCENT)", "cannot be sampled", "a TABLE"),
    ("SELECT at FROM a WHERE id IN (SELECT id FROM b)", "a query within an expression cannot read rows", "id FROM b"),
    ("SELECT a.at FROM names n LEFT JOIN a USING (symbol)", "LEFT JOIN: rows of the table on the left may", "a USING"),
    ("SELECT a.at FROM a RIGHT JOIN names n USING (symbol)", "RIGHT JOIN: rows of the table on the right may", "names n"),
    ("SELECT a.at FROM a FULL JOIN names n USING (symbol)", "FULL JOIN: a table and rows that keep arriving", "names n"),
    ("SELECT a.at FROM a LEFT JOIN b ON a.id = b.id", "expected a condition on the times of both", "b ON"),
    ("SELECT a.at FROM a LEFT ANTI JOIN b ON a.id = b.id", "what is not there yet may still arrive", "b ON"),
    ("SELECT name FROM names n LEFT SEMI JOIN a ON a.symbol = n.symbol", "swap the two", "a ON"),
    ("SELECT symbol, count(*) AS n FROM a GROUP BY symbol", "GROUP BY makes groups that rows are added to for ever", "symbol"),
    ("SELECT DISTINCT symbol FROM a", "DISTINCT makes groups that rows are added to for ever", "symbol"),
    ("SELECT count(*) AS n FROM a", "an aggregate makes groups that rows are added to for ever", "count"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '1 huor')", "no unit 'huor'; did you mean 'hour'?", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '1h')", "found '1h', which is no interval", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '1 month')", "months and years differ in length", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '0 days')", "expected more than nothing", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '1 hour', '2 hours')", "is longer than its length", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, '2 hours', '1 hour', '1 hour')", "not shorter than their", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(at, INTERVAL 1 HOUR)", "expected it as text", "window"),
    ("SELECT count(*) AS n FROM a GROUP BY window(id, '1 hour')", "column 'id' is bigint; expected a timestamp", "window"),
    ("SELECT at + INTERVAL 5 foo AS x FROM a", "there is no unit 'FOO'", "at"),
    ("SELECT at + INTERVAL '5 min' AS x FROM a", "there is no unit 'MIN'", "at"),
    ("SELECT at + INTERVAL 'x' HOUR AS x FROM a", "found INTERVAL 'x' HOUR; expected a number", "'x'"),
    ("SELECT at + INTERVAL 5.5 HOUR AS x FROM a", "only seconds have fractions", "at"),
    ("SELECT at, id, count(*) AS n FROM a GROUP BY at", "column 'id' has many values for one row", "id"),
    ("SELECT at, count(*) AS n FROM a", "column 'at' has many values for one row", "at"),
    ("SELECT at FROM a HAVING id > 1", "column 'at' has many values for one row", "at"),
    ("SELECT at FROM a WHERE count(*) > 1", "use HAVING behind GROUP BY", None),
    ("SELECT at FROM a WHERE id", "is bigint; expected a condition", "id"),
    ("SELECT at FROM a WHERE at > 5", "compares timestamp with int", "at > 5"),
    ("SELECT at FROM a WHERE flag = 1", "compares boolean with int", "flag"),
    ("SELECT at + 1 AS x FROM a", "do not add up; add an INTERVAL", "at"),
    ("SELECT coalesce(at, id) AS x FROM a", "is of timestamp and bigint; make them one type", "coalesce"),
    ("SELECT at FROM a WHERE day = DATE '2026-02-30'", "there is no day 2026-02-30", "day"),
    ("SELECT at, id, FROM a", "near ',': nothing comes behind it", ", FROM"),
]  # fmt: skip

RIGHT = [
    "SELECT at, id FROM a WHERE at > '2026-01-01' AND day >= '2026-01-01' AND id = '5' AND flag = 'true' AND day < at",
    "SELECT day + 1 AS t, day - INTERVAL 1 DAY AS y, at - INTERVAL 1 MONTH AS x, at + INTERVAL '1 day 2 hours' AS z FROM a",
    "SELECT at, unix_timestamp(at) - 5 AS x, price * id AS z, size(tags) + 1 AS n, symbol || id AS d, id DIV 2 AS q FROM a",
    "SELECT CASE WHEN flag THEN symbol ELSE NULL END AS x, coalesce(price, id, 0) AS y, coalesce(day, at) AS d FROM a",
    f"SELECT window.start AS at, window.end AS until, count(*) AS n, max(at) AS last FROM a {HOUR}",
    "SELECT window(at, '10 minutes', '5 minutes').start AS at, avg(price) AS p FROM a "
    "GROUP BY window(at, '10 minutes', '5 minutes')",
    f"SELECT window(at, '1 hour').end AS at, count(*) AS n FROM a {HOUR} HAVING count(*) > 5 AND max(price) < 9",
    "SELECT at, upper(symbol) AS s, count(*) AS n FROM a GROUP BY at, s",
    "SELECT at, upper(symbol) AS s, count(*) AS n FROM a GROUP BY 1, 2",
    "SELECT at, symbol, count(*) AS n FROM a GROUP BY ALL",
    "SELECT at, lower(upper(symbol)) AS s, 1 AS one, current_date() AS d, count(*) + 1 AS n FROM a GROUP BY at, upper(symbol)",
    "SELECT at, any_value(symbol) AS s, first(price) AS f, collect_list(id)[0] AS c, max_by(symbol, price) AS b, "
    "count_if(flag) AS k, any(flag) AS o, min(struct(price, id)).id AS st, approx_count_distinct(id) AS u FROM a GROUP BY at",
    "SELECT at, percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS p, sum(id) FILTER (WHERE flag) AS q FROM a GROUP BY at",
    "SELECT session_window.start AS at, symbol, count(*) AS n FROM a GROUP BY session_window(at, '5 minutes'), symbol",
    "SELECT DISTINCT at, symbol FROM a",
    "SELECT at, NULL AS x FROM a UNION ALL SELECT at, id FROM b UNION ALL SELECT ntz, price FROM b",
    "(SELECT * FROM a) UNION ALL (SELECT * FROM b)",
    "SELECT a.*, n.name FROM a LEFT JOIN names n ON a.symbol = n.symbol AND a.at >= n.since",
    "SELECT a.at FROM a JOIN b ON a.id = b.id AND a.at BETWEEN b.at - INTERVAL 5 MINUTES AND b.at",
    "SELECT a.at FROM a LEFT JOIN b ON a.id = b.id AND b.at >= a.at AND b.at <= a.at + INTERVAL 1 HOUR",
    "SELECT at, id FROM a LEFT SEMI JOIN names ON a.symbol = names.symbol",
    "SELECT at, (SELECT count(*) FROM names) AS n FROM a WHERE symbol IN (SELECT symbol FROM names ORDER BY since LIMIT 9)",
    "SELECT a.at FROM a JOIN (SELECT symbol, row_number() OVER (PARTITION BY symbol ORDER BY since) AS r FROM names) n "
    "USING (symbol) WHERE n.r = 1",
    "WITH a AS (SELECT at, id FROM a), c AS (SELECT * FROM a WHERE id > 1) SELECT at, id FROM c",
    "SELECT at, tag FROM a LATERAL VIEW OUTER explode(tags) t AS tag WHERE tag = 'x'",
    "SELECT at, filter(tags, x -> x != 'a')[0] AS f, exists(tags, x -> x = 'b') AS e FROM a",
    "SELECT at, from_json(symbol, 'a int, b string').b AS b, to_json(struct(id, price)) AS j FROM a",
    "SELECT at, stack(2, 'a', price, 'b', CAST(id AS double)) AS (k, v) FROM a",
    "SELECT at, max_price FROM (SELECT at, max(price) AS max_price FROM a GROUP BY at) WHERE max_price > 1",
    "SELECT at, 'window (x)' AS w, 'INTERVAL 5 foo' AS i FROM a LIMIT 100",
    "SELECT since AS at, symbol, count(DISTINCT name) AS n FROM names GROUP BY since, symbol ORDER BY n DESC",
    "SELECT since AS at, sum(1) OVER (ORDER BY since) AS s FROM names",
]  # fmt: skip


def made(folder: Path, query: str, **sink: object) -> pl.Pipeline:
    for name in ("a", "b", "names"):
        (folder / name).mkdir(exist_ok=True)
    mark = pl.Watermark(column="at", delay="10m")
    return pl.Pipeline(
        name="p",
        checkpoint="state",
        base=str(folder),
        sources=[
            pl.Source(name="a", format="json", path="a", schema=COLUMNS, watermark=mark),
            pl.Source(name="b", format="json", path="b", schema=COLUMNS, watermark=mark),
            pl.Source(name="names", format="json", path="names", schema=NAMES, streaming=False),
        ],
        steps=[pl.Sql(name="step", sql=query)],
        sinks=[pl.Sink(name="s", input="step", **{"format": "noop", **sink})],
    )


def problems(pipeline: pl.Pipeline) -> list[pl.Problem]:
    with pytest.raises(pl.PipelineError) as caught:
        pl.check(pipeline)
    return list(caught.value.problems)


@pytest.mark.parametrize(("query", "message", "place"), WRONG)
def test_what_spark_would_refuse(tmp_path: Path, query: str, message: str, place: str | None) -> None:
    found = problems(made(tmp_path, query))
    assert message in found[0].message, found
    if place is not None:
        assert found[0].offset is not None
        assert query[found[0].offset :].startswith(place), query[found[0].offset :]


@pytest.mark.parametrize("query", RIGHT)
def test_what_spark_takes(tmp_path: Path, query: str) -> None:
    pl.check(made(tmp_path, query))


def test_spark_says_the_same(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    from tidelog.spark.pipeline.running.building import _without_stacks, build, start

    own = session.newSession()
    plan = pl.check(made(tmp_path, "SELECT at FROM a"))
    build(own, plan)

    def refusal(query: str) -> str | None:
        try:
            with _without_stacks():
                frame = own.sql(query)
                if frame.isStreaming:
                    start(plan, plan.sinks[0], {"step": frame}, once=True).stop()
        except PySparkException as error:
            return str(error)
        return None

    # Each start takes a checkpoint; those that are refused make none.
    for number, query in enumerate(RIGHT):
        state = f"state{number}-{time.monotonic_ns()}"
        monkeypatch.setattr(
            "tidelog.spark.pipeline.running.building.checkpoint_of", lambda *_, at=state: str(tmp_path / at)
        )
        assert refusal(query) is None, query
    assert [query for query, _, _ in WRONG if refusal(query) is None] == []


@pytest.mark.parametrize(
    ("query", "type_"),
    [
        ("SELECT at, tags FROM a", "array<string>"),
        ("SELECT at, split(symbol, ',') AS tags FROM a", "array<string>"),
        ("SELECT at, map('a', id) AS tags FROM a", "map<string, bigint>"),
        ("SELECT at, named_struct('a', id) AS tags FROM a", "struct<"),
        ("SELECT at, INTERVAL '5' HOUR AS tags FROM a", "interval"),
    ],
)
def test_columns_that_no_stream_can_hold(tmp_path: Path, query: str, type_: str) -> None:
    found = problems(made(tmp_path, query, format="tidelog", path="events", stream="s", time="at"))
    assert [each.path for each in found] == [("sinks", "s", "input")]
    assert found[0].message.startswith(f"column 'tags' of 'step' is {type_}")
    assert "which no stream can hold; " in found[0].message


def test_names_that_are_given_twice(tmp_path: Path) -> None:
    assert "two columns are called 'x'" in problems(made(tmp_path, "SELECT at, id AS x, price AS X FROM a"))[0].message


def test_mode_complete_needs_groups(tmp_path: Path) -> None:
    found = problems(made(tmp_path, "SELECT at FROM a", format="memory", mode="complete"))
    assert [each.path for each in found] == [("sinks", "s", "mode")]
    pl.check(
        made(
            tmp_path, "SELECT symbol, count(*) AS n FROM a GROUP BY symbol ORDER BY n", format="memory", mode="complete"
        )
    )


@pytest.mark.parametrize(
    ("names", "queries"),
    [
        (["a"], ["SELECT at FROM a"]),  # a source has the name
        (["x", "y", "x"], ["SELECT at FROM a", "SELECT at FROM x", "SELECT at FROM y"]),
        (["X", "x"], ["SELECT at FROM a", "SELECT at FROM x"]),
    ],
)
def test_a_name_that_is_taken_makes_no_circle(tmp_path: Path, names: list[str], queries: list[str]) -> None:
    steps = [pl.Sql(name=name, sql=sql) for name, sql in zip(names, queries, strict=True)]
    base = made(tmp_path, "SELECT at FROM a")
    found = problems(
        pl.Pipeline(**{**vars(base), "steps": steps, "sinks": [pl.Sink(name="s", input=names[-1], format="noop")]})
    )
    assert [each.message for each in found] == [
        f"there are two sources or steps called {names[-1]!r}; give each a name of its own"
    ]


@pytest.mark.parametrize(
    ("queries", "messages"),
    [
        (["SELECT at FROM x0"], ["no earlier step 'x0'; the step itself is called so, and cannot read what it makes"]),
        (["SELECT at FROM x1", "SELECT at FROM x0"], ["no earlier step 'x1'; that step comes later"]),
        (["WITH x0 AS (SELECT at FROM x0) SELECT at FROM x0"], ["no earlier step 'x0'; the step itself is called so"]),
    ],
)
def test_steps_that_read_in_circles(tmp_path: Path, queries: list[str], messages: list[str]) -> None:
    steps = [pl.Sql(name=f"x{number}", sql=sql) for number, sql in enumerate(queries)]
    sink = pl.Sink(name="s", input=steps[-1].name, format="noop")
    found = problems(pl.Pipeline(**{**vars(made(tmp_path, "SELECT at FROM a")), "steps": steps, "sinks": [sink]}))
    assert len(found) == len(messages)
    assert all(message in each.message for each, message in zip(found, messages, strict=True)), found
    assert all(each.offset is not None for each in found)


def test_queries_that_are_too_deep_to_be_looked_at(tmp_path: Path) -> None:
    deep = "SELECT at FROM a WHERE " + "(" * 20_000 + "flag" + ")" * 20_000
    assert "nested too deeply" in problems(made(tmp_path, deep))[0].message
    nested = "SELECT at FROM a"
    for _ in range(2_000):
        nested = f"SELECT at FROM ({nested})"
    assert "nested too deeply" in problems(made(tmp_path, nested))[0].message


def test_plans_show_what_was_written(tmp_path: Path) -> None:
    told = explain(pl.check(made(tmp_path, f"SELECT 'wind0w (x)' AS w, count(*) AS n FROM a {HOUR}")))
    assert "keeps state: SELECT 'wind0w (x)' AS w, COUNT(*) AS n FROM a GROUP BY WINDOW(at, '1 hour')" in told


@pytest.mark.parametrize(
    "text",
    ["1 hour", " 1  HOURS ", "interval 1 hour 2 minutes", "1.5 seconds", ".5 seconds", "5. seconds", "1\thour", "+1 day",
     "- 1 hour", "1 second 1 second", "12 months -12 months 1 day", "3 weeks", "7 microseconds", "2 years", "1hour", "1",
     "hour", "", "interval", "1 ms", "1 nanosecond", "1.5 hours", "1e3 seconds", "1 hour,", "1 hour ago", "1 hour1 minute"],
)  # fmt: skip
def test_intervals_are_read_as_spark_reads_them(session: SparkSession, text: str) -> None:
    try:
        months, micros = read_interval(text)
        ours: tuple[int, int] | None = (months, int(micros))
    except TimeError:
        ours = None
    virtual = session._jvm
    assert virtual is not None
    string = virtual.org.apache.spark.unsafe.types.UTF8String.fromString(text)
    theirs = virtual.org.apache.spark.sql.catalyst.util.IntervalUtils.safeStringToInterval(string)
    if theirs is None:
        assert ours is None
        return
    period, rest = theirs.extractAsPeriod(), theirs.extractAsDuration()
    assert ours == (period.toTotalMonths(), period.getDays() * 86_400_000_000 + rest.toNanos() // 1000)


def test_options_are_those_that_spark_has(session: SparkSession) -> None:
    places = {
        "csv": "catalyst.csv.CSVOptions",
        "json": "catalyst.json.JSONOptions",
        "xml": "catalyst.xml.XmlOptions",
        "parquet": "execution.datasources.parquet.ParquetOptions",
        "orc": "execution.datasources.orc.OrcOptions",
        "text": "execution.datasources.text.TextOptions",
        "": "execution.datasources.FileIndexOptions",
    }
    virtual = session._jvm
    assert virtual is not None
    for name, place in places.items():
        found = virtual.org.apache.spark.sql
        for part in place.split("."):
            found = getattr(found, part)
        every = found.getAllOptions().mkString(" ").split()
        plain = {each.lower() for each in every if "." not in each}
        ours = {each.lower() for each in (OPTIONS[name] if name else FILE_READING)}
        assert plain == ours if name else plain <= ours, name


@pytest.mark.parametrize(
    ("source", "sink", "path", "message"),
    [
        ({"maxFilesPerTriger": 1}, {}, ("sources", "a", "options", "maxFilesPerTriger"), "did you mean 'maxFilesPerTrigger'?"),
        ({"multiline": True, "fs.s3a.x": 1}, {"header": True}, ("sinks", "s", "options", "header"), "writing parquet has no"),
        ({"path": "x"}, {}, ("sources", "a", "options", "path"), "the key 'path' says it"),
        ({}, {"checkpointLocation": "x"}, ("sinks", "s", "options", "checkpointLocation"), "the key 'checkpoint'"),
    ],
)  # fmt: skip
def test_options_that_spark_would_pass_over(
    tmp_path: Path, source: dict[str, str], sink: dict[str, str], path: tuple[str, ...], message: str
) -> None:
    base = made(tmp_path, "SELECT at FROM a", format="parquet", path="out", options=sink)
    first = pl.Source(**{**vars(base.sources[0]), "options": source})
    found = problems(pl.Pipeline(**{**vars(base), "sources": [first, *base.sources[1:]]}))
    assert [each.path for each in found] == [path]
    assert message in found[0].message


@pytest.mark.parametrize(
    ("second", "more", "message"),
    [
        ("SELECT at, id, price FROM b", {}, "with the columns at, id, and 'other' has 'price'; select the same"),
        ("SELECT at, symbol AS id FROM b", {}, "a column 'id' of type bigint, and in 'other' it is string"),
        ("SELECT ntz, id FROM b", {"time": "ntz"}, "with the time column 'at'; say the same"),
        ("SELECT at, id FROM b", {"stream_options": {"split": "1d"}}, "with other options; say the same"),
    ],
)
def test_sinks_that_do_not_agree_on_a_stream(
    tmp_path: Path, second: str, more: dict[str, object], message: str
) -> None:
    to = {"format": "tidelog", "path": "events", "stream": "s", "time": "at"}
    base = made(tmp_path, "SELECT at, id FROM a", **to)
    steps = [*base.steps, pl.Sql(name="other", sql=second)]
    sinks = [*base.sinks, pl.Sink(name="t", input="other", **{**to, **more})]  # type: ignore[arg-type]
    found = problems(pl.Pipeline(**{**vars(base), "steps": steps, "sinks": sinks}))
    assert any(message in each.message for each in found), found
    agreed = [*base.steps, pl.Sql(name="other", sql="SELECT id, at FROM b")]
    pl.check(
        pl.Pipeline(**{**vars(base), "steps": agreed, "sinks": [base.sinks[0], pl.Sink(name="t", input="other", **to)]})
    )  # type: ignore[arg-type]
