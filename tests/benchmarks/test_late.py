"""The benchmark of late events: what arrives, and that all of it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import data
import late
from harness import main
from questions.late import arrivals


@pytest.mark.parametrize("shape", arrivals.SHAPES)
def test_a_share_of_the_events_comes_late(shape: str) -> None:
    table = data.table("sensor", 300_000).combine_chunks()
    arranged = arrivals.arrange(table, shape, 0.10)
    assert arranged.sort_by("ts").equals(table.sort_by("ts"))
    newest, behind = -1, 0
    for time in arranged["ts"].to_pylist():
        behind += time < newest
        newest = max(newest, time)
    assert 0.04 < behind / len(table) < 0.16


def test_bulks_hold_the_same_events() -> None:
    table = data.table("sensor", 20_000).combine_chunks()
    arranged = arrivals.arrange_in_bulks(table, 0.10)
    assert not arranged.equals(table)
    assert arranged.sort_by("ts").equals(table.sort_by("ts"))
    assert isinstance(arranged, pa.Table)


def test_all_questions_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--quick",
        "--events",
        "20000",
        "--dir",
        str(tmp_path),
        "--only",
        "10% late uniform",
        "--only",
        "merging",
    ]
    assert main("late", late.ask, arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    for question in (
        "ingest 10% late uniform",
        "scan after 10%",
        "aggregates after 10%",
        "merging dense regions first",
    ):
        assert question in told
