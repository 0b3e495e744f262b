"""The benchmark of logical merge from end to end, at a size at which nothing is judged, and what it merges."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

from harness import Bench, Workspace
from questions.merge import contestants, copies
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.table import table_of

EVENTS = 400


def _benchmark() -> ModuleType:
    """benchmarks/merge.py, under a name that nothing else has."""
    path = Path(__file__).parents[2] / "benchmarks" / "merge.py"
    spec = importlib.util.spec_from_file_location("merge_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _elements(rows: np.ndarray) -> list[Element]:  # type: ignore[type-arg]
    return [Element(*each) for each in rows[:5].T.tolist()]


def test_all_questions_are_answered(tmp_path: Path) -> None:
    benchmark = _benchmark()
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, repetitions=1, plots=tmp_path / "plots")
        bench.events = EVENTS
        benchmark.ask(bench)
        assert bench.missing == {}
    found = {question.name for question in bench.questions}
    assert {"R0 of 3 inputs", "R3 with 0.1% stables", "10 inputs, arrays", "10 inputs, elements"} <= found
    assert {"memory with 10 inputs", "latency", "adjusts by disorder", "lag of 8 batches"} <= found
    assert "payloads hashed" in found
    assert {"R4, 1.00% stables", "bursts smoothed", "congestion masked"} <= found
    assert all(question.ours is not None for question in bench.questions)
    plots = {path.name: path.read_bytes()[:4] for path in (tmp_path / "plots").iterdir()}
    assert plots == {"merge-bursts.png": b"\x89PNG", "merge-congestion.png": b"\x89PNG"}


def test_copies_are_of_one_stream() -> None:
    of = copies.Copies(600, 3, stables=0.02, delay=40)
    for made in (copies.ordered(of), copies.ordered(of, 4), copies.revised(of), copies.counted(of)):
        tables = [table_of(_elements(each)).events for each in made]
        assert tables[0] == tables[1] == tables[2]
        assert any((made[0].shape != other.shape) or (made[0] != other).any() for other in made[1:])


def test_all_contestants_find_the_stream() -> None:
    of = copies.Copies(3_000, 4, stables=0.01, delay=60)
    made, texts = copies.revised(of), copies.payloads(of.events)
    whole = table_of(_elements(made[0])).events
    outs = {}
    for name, make in contestants.CONTESTANTS.items():
        out = np.concatenate(contestants.merged(make(4, texts, of.events), copies.batches(made)), axis=1)
        outs[name] = out[:5].T.tolist()
        assert table_of(_elements(out)).events == whole, name
        push = contestants.scalar(name, 4)
        scalar = [
            given
            for number, rows in copies.batches(made)
            for element in contestants.elements_of(rows, texts)
            for given in push(number, element)
        ]
        assert [(each.kind, each.start, each.end, each.old) for each in scalar] == [
            (kind, start, end, old) for kind, _, start, end, old in outs[name]
        ]
    assert outs[contestants.R3_SHARED] == outs[contestants.R3_SEPARATE]
