"""The container's benchmark from end to end, at a size at which nothing is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import container
from harness import Bench, Verdict, Workspace
from questions import recovery

EVENTS = 9_000


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as workspace:
        yield workspace


def test_every_question_about_a_stream_gets_an_answer_from_everyone(workspace: Workspace) -> None:
    bench = Bench(workspace, quick=True, events=EVENTS, only=["stock_strings"], repetitions=1)
    container.ask(bench)
    assert bench.missing == {}
    found = {question.name: question for question in bench.questions}
    assert list(found) == [
        "ingest stock_strings",
        "size stock_strings",
        "scan stock_strings, all columns",
        "scan stock_strings, one column",
        "random block stock_strings",
    ]
    stores = {"Parquet LZ4", "Parquet Zstd", "Parquet split LZ4", "Parquet split Zstd", "DuckDB", "ArcticDB"}
    assert set(found["ingest stock_strings"].peers) == stores | {"raw", "LZ4 blocks"}
    assert set(found["size stock_strings"].peers) == stores | {"LZ4 blocks"}
    assert set(found["scan stock_strings, all columns"].peers) == stores
    assert set(found["scan stock_strings, one column"].peers) == stores | {"tidelog, all columns"}
    assert set(found["random block stock_strings"].peers) == {"Parquet LZ4", "DuckDB", "ArcticDB"}
    verdicts = {judgement.verdict for question in bench.questions for judgement in question.judgements()}
    assert verdicts == {Verdict.NOT_JUDGED, Verdict.INFORMATION}
    assert bench.failures() == []
    assert not any(workspace.root.iterdir())


def test_a_killed_writer_leaves_a_log_that_opens(workspace: Workspace) -> None:
    bench = Bench(workspace, quick=True, repetitions=1)
    recovery.ask(bench, [EVENTS], limit_milliseconds=50)
    (question,) = bench.questions
    assert question.events == EVENTS
    assert question.ours is not None
    assert question.ours.median > 0
    behind = re.fullmatch(r"killed (\d+) MiB behind its last flush", question.note)
    assert behind
    assert int(behind[1]) >= 24
    assert not any(workspace.root.iterdir())
