"""The benchmark of row patterns from end to end, at a size at which nothing is judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from harness import Bench, Verdict, Workspace
from questions.patterns import engines, partitions, sequences, stored, strategies

EVENTS = 20_000


def _benchmark() -> ModuleType:
    """benchmarks/patterns.py, under a name that nothing else has."""
    path = Path(__file__).parents[2] / "benchmarks" / "patterns.py"
    spec = importlib.util.spec_from_file_location("patterns_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_questions_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in engines.PLACES.values():
        monkeypatch.delenv(name, raising=False)
    benchmark = _benchmark()
    skipping = {strategies.title(strategy, strategies.SIZES[0]) for strategy in ("next", "any")}
    # That of Spark is in test_spark.py.
    titles = {*sequences.QUESTIONS, *skipping, *engines.TITLES.values(), partitions.TITLE, stored.TITLE}
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, events=EVENTS, repetitions=1, only=sorted(titles))
        benchmark.ask(bench)
        assert bench.missing == {}
        assert not any(workspace.root.iterdir())
    found = {question.name: question for question in bench.questions}
    assert set(found) == titles
    judged = {judgement.verdict for question in found.values() for judgement in question.judgements()}
    assert judged == {Verdict.NOT_JUDGED}
    assert all("is missing" in found[title].note for title in engines.TITLES.values())
