"""The benchmark of SQL from end to end, at a size at which only small queries are judged; all results are compared."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from harness import Bench, Verdict, Workspace
from questions.sql import devops, iot
from questions.sql.contestants import CONTESTANTS, PARQUET, POLARS, TABLE, write_parquet
from questions.sql.query import Kind, Query, Span, expect_same

EVENTS = 20_000


def _benchmark() -> ModuleType:
    """benchmarks/sql.py, under a name that no package of tests has."""
    path = Path(__file__).parents[2] / "benchmarks" / "sql.py"
    spec = importlib.util.spec_from_file_location("sql_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sql = _benchmark()


def test_questions_are_asked_and_only_small_ones_judged(tmp_path: Path) -> None:
    only = ("single-groupby-1", "by hour", "newest rows of", "avg-load", "small: one")
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, events=EVENTS, only=only, repetitions=1)
        sql.ask(bench)
        assert bench.missing == {}
        assert not any(workspace.root.iterdir())
    found = {question.name: question for question in bench.questions}
    assert {name: set(question.peers) for name, question in found.items()} == {
        "devops single-groupby-1-1-1": {TABLE, PARQUET, POLARS},
        "devops by hour, without a key": {TABLE, PARQUET, POLARS},
        "devops newest rows of a host": {TABLE, PARQUET},
        "iot avg-load": {TABLE, PARQUET},
        "small: one aggregate": set(),
    }
    small = found.pop("small: one aggregate")
    assert [judgement.comparison.bound for judgement in small.judgements()] == [sql.SMALL_LIMIT]
    verdicts = {judgement.verdict for question in found.values() for judgement in question.judgements()}
    assert verdicts == {Verdict.NOT_JUDGED, Verdict.INFORMATION}


@pytest.mark.parametrize("family", ["devops", "iot"])
def test_every_query_is_answered_alike_by_everyone(family: str, tmp_path: Path) -> None:
    kinds = {"cpu": "devops"} if family == "devops" else {name: name for name in (iot.READINGS, iot.DIAGNOSTICS)}
    queries = devops.queries(EVENTS) if family == "devops" else iot.queries(EVENTS)
    assert len(queries) >= 10
    write_parquet(tmp_path, {name: (kind, EVENTS) for name, kind in kinds.items()})
    contestants = [kind(tmp_path, list(kinds), devops.tables()) for kind in CONTESTANTS]
    for query in queries:
        first, *others = (each for each in contestants if each.can(query))
        expected = first.ask(query)
        for other in others:
            expect_same(query, other.name, other.ask(query), expected)
    for each in contestants:
        each.close()


def test_every_kind_of_query_has_a_floor() -> None:
    assert set(sql.AGAINST_TABLE) == set(Kind)
    assert {query.kind for query in devops.queries(EVENTS)} == set(Kind)


def test_other_rows_are_noticed() -> None:
    query = Query("q", "SELECT 1")
    rows = pa.table({"name": ["a", "b"], "x": [1.0, 2.0]})
    expect_same(query, "them", pa.table({"name": ["b", "a"], "x": [2.0 + 1e-12, 1.0]}), rows)
    with pytest.raises(AssertionError, match="q: them gave 1 rows of 2 columns, expected 2 of 2"):
        expect_same(query, "them", rows.slice(1), rows)
    with pytest.raises(AssertionError, match=r"q: them gave .*1\.5.* in column 1"):
        expect_same(query, "them", pa.table({"name": ["a", "b"], "x": [1.5, 2.0]}), rows)
    with pytest.raises(AssertionError, match="in column 0"):
        expect_same(query, "them", pa.table({"name": ["a", "c"], "x": [1.0, 2.0]}), rows)


def test_a_part_of_a_span_is_inside_of_it_and_begins_at_a_tick() -> None:
    span = Span.of(60_000, 1000)
    assert (span.end - span.start).total_seconds() == 600
    for at in (0.0, 0.33, 1.0):
        part = span.part((span.end - span.start) * 0.25, at)
        assert span.start <= part.start < part.end <= span.end
        assert (part.start - span.start).total_seconds() % 10 == 0
    assert span.part((span.end - span.start) * 2) == span
