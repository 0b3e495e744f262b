"""The benchmark of starting: that all of it runs, and counts the CPU seconds of the processes it starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import startup
from harness import main


def test_all_questions_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["--quick", "--events", "3000", "--dir", str(tmp_path), "--json", str(figures)]
    arguments += ["--only", "tidelog aggregate"]
    assert main("startup", startup.ask, arguments, quick_repetitions=1) == 0
    assert "tidelog aggregate" in " ".join(capsys.readouterr().out.split())
    [question] = json.loads(figures.read_text())["questions"]
    assert question["unit"] == "CPU seconds"
    assert len(question["ours"]["values"]) == 1
    assert {judgement["against"] for judgement in question["judgements"]} == {
        "limit",
        startup.DUCKDB,
        startup.IMPORTS,
    }


def test_the_seconds_are_those_of_the_child(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(7)"
    assert 0.3 <= startup._cpu_seconds(["-c", busy], environment, 7) < 5
    with pytest.raises(RuntimeError, match="said"):
        startup._cpu_seconds(["-c", "print(8)"], environment, 7)
