"""Steps that are continuous queries: checked before Spark starts, and run by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.spark import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
[pipeline]
name = "volumes"
checkpoint = "checkpoint"

[spark]
config."spark.sql.shuffle.partitions" = 2

[sources.trades]
format = "json"
path = "in"
schema = "ts timestamp, symbol string, volume bigint"
watermark = {{ column = "ts", delay = "1m" }}
options = {{ maxFilesPerTrigger = 1 }}

[[steps]]
name = "hourly"
kind = "continuous"
query = '''
{query}
'''

[sinks.hourly]
input = "hourly"
path = "events"
stream = "hourly"
time = "{time}"
"""
QUERY = "SELECT symbol, window_end, sum(volume) AS volume FROM trades GROUP BY symbol, window(ts, '1 hour')"


PATTERN = """
SELECT symbol, least, timed_out, match_time FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES min(volume) AS least
    PATTERN (A DOWN UP) SKIP TILL NEXT WITHIN '1 hour' EMIT TIMEOUTS
    DEFINE A AS volume > 5, DOWN AS volume < A.volume, UP AS volume > A.volume)
"""


SITUATIONS = """
SELECT symbol, rows, match_time FROM trades SITUATIONS (
    PARTITION BY symbol DEFINE HIGH AS volume > 5, LOW AS volume < 4
    PATTERN HIGH before | meets LOW WITHIN 3 hours RETURN count(HIGH.*) AS rows)
"""


def written(folder: Path, query: str, time: str = "window_end") -> Path:
    (folder / "in").mkdir()
    file = folder / "pipeline.toml"
    file.write_text(FILE.format(query=query, time=time))
    return file


def test_columns_are_known_before_spark_starts(tmp_path: Path) -> None:
    plan = pipeline.check(pipeline.load(written(tmp_path, QUERY)))
    (sink,) = plan.sinks
    assert sink.relation.columns is not None
    assert {name: str(kind).lower() for name, kind in sink.relation.columns.items()}.keys() == {
        "symbol",
        "window_end",
        "volume",
    }
    assert sink.states == (f"continuous {QUERY}\n",)
    assert sink.inputs == ("trades",)


@pytest.mark.parametrize(
    ("query", "line", "message"),
    [
        ("SELECT window_end, nope FROM trades\nGROUP BY window(ts, '1 hour')", 20, "nope"),
        ("SELECT ts, symbol FROM\ntrade", 21, "there is no source and no earlier step 'trade'; did you mean 'trades'"),
        ("SELECT ts FROM trades\nORDER BY ts", 21, "found ORDER BY; a continuous query is"),
        ("SELECT ts FRM trades", 20, "syntax error"),
    ],
)
def test_mistakes_are_told_with_their_lines(tmp_path: Path, query: str, line: int, message: str) -> None:
    with pytest.raises(pipeline.PipelineError) as raised:
        pipeline.check(pipeline.load(written(tmp_path, query)))
    (problem,) = raised.value.problems
    assert message in problem.message
    assert problem.line == line


def test_a_step_runs_and_late_rows_are_counted(tmp_path: Path, session: SparkSession) -> None:
    file = written(tmp_path, QUERY)
    hours = [("09:10", "a", 1), ("09:50", "b", 2), ("11:30", "a", 3), ("09:59", "a", 100), ("13:00", "b", 4)]
    rows = [json.dumps({"ts": f"2026-01-01T{at}:00Z", "symbol": key, "volume": count}) for at, key, count in hours]
    (tmp_path / "in" / "1.json").write_text("\n".join(rows))
    done = pipeline.run(pipeline.load(file), session=session, once=True)
    assert (done.sinks[0].rows_read, done.sinks[0].dropped) == (5, 1)
    with tidelog.open(tmp_path / "events", read_only=True) as store:
        found = store.sql("SELECT symbol, hour(window_end) AS h, volume FROM hourly ORDER BY 2, 1").fetchall()
    assert found == [("a", 10, 1), ("b", 10, 2), ("a", 12, 3)]


def test_a_step_may_be_a_row_pattern(tmp_path: Path, session: SparkSession) -> None:
    """Its columns are known before Spark starts, its mistakes are told with their lines, and its matches are stored."""
    file = written(tmp_path, PATTERN, "match_time")
    (sink,) = pipeline.check(pipeline.load(file)).sinks
    assert sink.relation.columns is not None
    assert list(sink.relation.columns) == ["symbol", "least", "timed_out", "match_time"]
    minutes = [(0, "a", 9), (5, "b", 8), (10, "a", 3), (20, "b", 4), (30, "a", 10), (90, "b", 20), (300, "c", 1)]
    rows = [
        json.dumps({"ts": f"2026-01-01T{at // 60:02}:{at % 60:02}:00Z", "symbol": key, "volume": count})
        for at, key, count in minutes
    ]
    (tmp_path / "in" / "1.json").write_text("\n".join(rows))
    done = pipeline.run(pipeline.load(file), session=session, once=True)
    assert (done.sinks[0].rows_read, done.sinks[0].dropped) == (7, 0)
    with tidelog.open(tmp_path / "events", read_only=True) as store:
        minute = "hour(match_time) * 60 + minute(match_time)"
        found = store.sql(f"SELECT symbol, least, timed_out, {minute} FROM hourly ORDER BY match_time").fetchall()
    assert found == [("a", 3, False, 30), ("b", 4, True, 65), ("b", 20, True, 150)]
    wrong = PATTERN.replace("A.volume, UP", "A.volumes, UP")
    (tmp_path / "wrong").mkdir()
    with pytest.raises(pipeline.PipelineError) as raised:
        pipeline.check(pipeline.load(written(tmp_path / "wrong", wrong, "match_time")))
    (problem,) = raised.value.problems
    assert "volumes" in problem.message
    assert problem.line == 24


def test_a_step_may_be_about_situations(tmp_path: Path, session: SparkSession) -> None:
    """Its columns are known before Spark starts, its mistakes are told, and its matches are stored."""
    file = written(tmp_path, SITUATIONS, "match_time")
    (sink,) = pipeline.check(pipeline.load(file)).sinks
    assert sink.relation.columns is not None
    assert list(sink.relation.columns) == ["symbol", "rows", "match_time"]
    minutes = [(0, "a", 9), (5, "b", 8), (10, "a", 8), (20, "a", 3), (30, "b", 5), (40, "a", 5), (50, "b", 2)]
    minutes += [(60, "b", 9), (300, "c", 1)]
    rows = [
        json.dumps({"ts": f"2026-01-01T{at // 60:02}:{at % 60:02}:00Z", "symbol": key, "volume": count})
        for at, key, count in minutes
    ]
    (tmp_path / "in" / "1.json").write_text("\n".join(rows))
    done = pipeline.run(pipeline.load(file), session=session, once=True)
    assert (done.sinks[0].rows_read, done.sinks[0].dropped) == (9, 0)
    with tidelog.open(tmp_path / "events", read_only=True) as store:
        minute = "hour(match_time) * 60 + minute(match_time)"
        found = store.sql(f"SELECT symbol, rows, {minute} FROM hourly ORDER BY match_time").fetchall()
    assert found == [("a", 2, 40), ("b", 1, 60)]
    (tmp_path / "wrong").mkdir()
    with pytest.raises(pipeline.PipelineError, match="LOWER in PATTERN, which is not defined"):
        pipeline.check(pipeline.load(written(tmp_path / "wrong", SITUATIONS.replace("meets LOW", "meets LOWER"))))
