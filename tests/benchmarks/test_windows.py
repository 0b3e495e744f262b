"""The benchmark of windows from end to end, at a size at which nothing is judged; all windows are compared."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import data
from harness import Bench, Verdict, Workspace
from questions.windows import flink, slides
from questions.windows.slides import name_of


def _benchmark() -> ModuleType:
    """benchmarks/windows.py, under a name that no package of tests has."""
    path = Path(__file__).parents[2] / "benchmarks" / "windows.py"
    spec = importlib.util.spec_from_file_location("windows_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


windows = _benchmark()


def test_questions_are_asked_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "KINDS", {"16 B events": "ticks"})
    monkeypatch.setattr(slides, "SAMPLED_QUICK", 200)
    monkeypatch.delenv(flink.PLACE, raising=False)
    only = (
        "sliding by 1 s",
        "sliding by 1 h",
        "replay of windows, a minute",
        "online, batches of 1,000: a filter",
        "Flink",
    )
    with Workspace(tmp_path) as workspace:
        bench = Bench(workspace, quick=True, events=2_000_000, only=only, repetitions=1)
        windows.ask(bench)
    found = {question.name: question for question in bench.questions}
    second, hour = (name_of("16 B events", slide) for slide in (1_000, slides.HOUR))
    assert set(found[second].peers) == {"replay", "naive", "optimised"}
    assert "on 200 of them, and scaled" in found[second].note
    assert set(found[hour].peers) == {"replay", "naive", "optimised", "DuckDB"}
    assert "1 windows" not in found[hour].note
    online = next(question for name, question in found.items() if name.startswith("online"))
    assert "latency at half of this load" in online.note
    beside = next(question for name, question in found.items() if name.endswith(flink.TITLE))
    assert "PyFlink is missing" in beside.note
    verdicts = {judgement.verdict for question in found.values() for judgement in question.judgements()}
    assert verdicts <= {Verdict.NOT_JUDGED, Verdict.INFORMATION}


def test_readings_are_sixteenths_a_hundred_times_a_second() -> None:
    table = data.table("wide_ticks", 1000)
    assert (np.diff(table["ts"].to_numpy()) == 10).all()
    assert table.num_columns == 10
    values = np.array([column.to_numpy() for column in table.columns[1:]]) * 16
    assert (values == np.rint(values)).all()
