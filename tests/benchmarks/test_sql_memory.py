"""The benchmark of the memory of SQL: that all of it runs, counts rows and finds nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sql_memory
from harness import main


def test_all_questions_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    arguments = [
        "--events",
        "30000",
        "--dir",
        str(tmp_path),
        "--json",
        str(figures),
        "--only",
        "ten",
        "--only",
        "order",
    ]
    assert main("sql_memory", sql_memory.ask, arguments) == 0
    told = json.loads(figures.read_text())["questions"]
    assert [question["question"] for question in told] == ["ten million keys", "order"]
    assert all(50 < question["ours"]["values"][0] < 1000 for question in told)
