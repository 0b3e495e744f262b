"""The benchmark of joins from end to end, at a size at which nothing is judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from harness import Bench, Verdict, Workspace

EVENTS = 400


def _benchmark() -> ModuleType:
    """benchmarks/joins.py, under a name that nothing else has."""
    path = Path(__file__).parents[2] / "benchmarks" / "joins.py"
    spec = importlib.util.spec_from_file_location("joins_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_questions_are_answered(tmp_path: Path) -> None:
    benchmark = _benchmark()
    benchmark.ARRIVALS = {1 << 7: 1 << 8, 1 << 9: 1 << 8}
    benchmark.ARRIVALS_QUICK = {1 << 7: 1 << 6, 1 << 9: 0}
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, repetitions=1)
        bench.events = EVENTS
        benchmark.ask(bench)
        assert bench.missing == {}
        assert not any(workspace.root.iterdir())
    found = {question.name: question for question in bench.questions}
    assert set(found) == {"as-of join by symbol", "as-of join", "band join", "distance join 2^7", "distance join 2^9"}
    assert all(question.ours is not None and question.peers for question in found.values())
    asof = [name for name in found if name.startswith("as-of")]
    judged = {judgement.verdict for name in asof for judgement in found[name].judgements()}
    assert judged == {Verdict.NOT_JUDGED}
