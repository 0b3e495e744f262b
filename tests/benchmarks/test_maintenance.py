"""The benchmark of compaction from end to end, at a size at which nothing is judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from harness import Bench, Verdict, Workspace

EVENTS = 20_000


def _benchmark() -> ModuleType:
    """benchmarks/maintenance.py, under a name that no package of tests has."""
    path = Path(__file__).parents[2] / "benchmarks" / "maintenance.py"
    spec = importlib.util.spec_from_file_location("maintenance_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_questions_are_answered(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, events=EVENTS, repetitions=1)
        _benchmark().ask(bench)
        assert bench.missing == {}
        assert not any(workspace.root.iterdir())
    found = {question.name: question for question in bench.questions}
    assert set(found) == {"compaction", "scan after compaction", "range aggregates after compaction"}
    assert "20 commits" in str(found["compaction"].note)
    judged = {judgement.verdict for question in found.values() for judgement in question.judgements()}
    assert judged <= {Verdict.NOT_JUDGED, Verdict.INFORMATION}
