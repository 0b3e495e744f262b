"""The benchmark of situations from end to end, at a size at which nothing is judged; everybody finds the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

from harness import Bench, Verdict, Workspace
from questions.situations import latency, matching, orders, parallel, queries, rows, sequences

EVENTS = 20_000


def _benchmark() -> ModuleType:
    """benchmarks/situations.py, under a name that nothing else has."""
    path = Path(__file__).parents[2] / "benchmarks" / "situations.py"
    spec = importlib.util.spec_from_file_location("situations_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_questions_are_answered(tmp_path: Path) -> None:
    benchmark = _benchmark()
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, events=EVENTS, repetitions=1)
        benchmark.ask(bench)
        assert bench.missing == {}
        assert not any(workspace.root.iterdir())
    found = {question.name: question for question in bench.questions}
    windows = [matching.window_title(within) for within in matching.WINDOWS]
    assert set(found) == {
        matching.DRIVERS,
        f"{matching.DRIVERS}, early",
        *windows,
        *(f"{title}, early" for title in windows),
        *map(matching.streams_title, matching.SHAPES),
        *map(sequences.title, sequences.PATTERNS),
        sequences.DETECTION,
        *map(latency.title, latency.EXPECTED),
        *map(orders.title, queries.THREE),
        orders.ADAPTIVE,
        orders.LOST,
        parallel.PARTITIONED,
        *map(parallel.title, parallel.WINDOWS),
        parallel.MEMORY,
    }
    judged = {judgement.verdict for question in found.values() for judgement in question.judgements()}
    assert judged == {Verdict.NOT_JUDGED, Verdict.INFORMATION}


def test_attributes_last_as_long_as_they_are_said_to() -> None:
    holds = rows.attribute(np.random.default_rng(1), 200_000)
    assert not holds[0]
    borders = np.flatnonzero(np.diff(holds.astype(int)))
    lengths = np.diff(borders)[:-1]
    durations, gaps = lengths[0::2], lengths[1::2]
    assert (durations.min(), durations.max(), gaps.min(), gaps.max()) == (10, 100, 10, 50)
    assert abs(durations.mean() - 55) < 2
    assert abs(gaps.mean() - 30) < 1


def test_the_share_of_the_latency_is_that_of_the_table() -> None:
    """A tenth of the rows of the quick run; the table is met within twice its bound."""
    table = rows.attributes(200_000, "AB")
    for relation, expected in zip(latency.RELATIONS, latency.EXPECTED["1:1"][1], strict=True):
        assert abs(latency._share(table, relation) - expected) < 0.1, relation
