"""The event store's benchmark from end to end, at sizes at which next to nothing is judged."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import data
from formats.base import Band, Format
from formats.duckdb_file import DuckDB
from formats.event_store import EventReader, EventStore
from harness import Bench, Bound, Question, Verdict, Workspace
from questions.store import aggregates, recovery
from questions.store.archive import run_watched
from questions.store.filters import SHARE, choose_band

EVENTS = 12_000


def _benchmark() -> ModuleType:
    """benchmarks/store.py, under a name that no package of tests has."""
    path = Path(__file__).parents[2] / "benchmarks" / "store.py"
    spec = importlib.util.spec_from_file_location("store_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


store = _benchmark()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as workspace:
        yield workspace


def ask(workspace: Workspace, *only: str, events: int = EVENTS) -> dict[str, Question]:
    bench = Bench(workspace, quick=True, events=events, only=only, repetitions=1)
    store.ask(bench)
    assert bench.missing == {}
    assert not any(workspace.root.iterdir())
    return {question.name: question for question in bench.questions}


def verdicts(questions: dict[str, Question]) -> set[Verdict]:
    return {judgement.verdict for question in questions.values() for judgement in question.judgements()}


def test_streams_are_written_scanned_and_filtered_by_everyone(workspace: Workspace) -> None:
    found = ask(workspace, "sensor", "filter")
    stores = {"DuckDB", "Parquet LZ4", "Parquet split LZ4", "ArcticDB"}
    assert {name: set(question.peers) for name, question in found.items()} == {
        "ingest sensor": {*stores, "container", "RocksDB"},
        "size sensor": {*stores, "container", "RocksDB"},
        "scan sensor, all columns": stores,
        "scan sensor, one column": {*stores, "tidelog, all columns"},
        "filter clustered, rows": stores,
        "filter clustered, count": stores,
        "filter crossed often, rows": stores,
        "filter crossed often, count": stores,
    }
    assert verdicts(found) == {Verdict.NOT_JUDGED, Verdict.INFORMATION}


def test_appends_get_answers(workspace: Workspace) -> None:
    found = ask(workspace, "append of 1,000 rows", "append one event", "append and flush", "scan after", events=2_000)
    assert {name: set(question.peers) for name, question in found.items()} == {
        "append of 1,000 rows": {'durability="batch"'},
        "append one event": {"RocksDB put", "RocksDB put, no WAL", "DuckDB"},
        "append and flush one event": {"pwrite + fdatasync", "the same, file grows", "RocksDB put, synced"},
        "scan after appends of 10 rows": {"filled by 100,000s"},
    }
    judged = [found.pop("append and flush one event")]  # whose floor names no size
    assert verdicts(found) == {Verdict.NOT_JUDGED, Verdict.INFORMATION}
    assert judged[0].ours is not None
    assert judged[0].ours.median > 0


def test_the_long_stream_is_aggregated_watched_and_recovered(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_BEHIND", 1 << 20)
    found = ask(workspace, "aggregate", "memory", "recovery", events=300_000)
    assert list(found) == [
        "aggregate 30k",
        "blocks of aggregate 30k",
        "aggregate 300k",
        "blocks of aggregate 300k",
        "memory of an ingest",
        "memory of a scan",
        "recovery",
    ]
    assert set(found["aggregate 300k"].peers) == {"DuckDB", "tidelog, 30k events"}
    for name in ("memory of an ingest", "memory of a scan"):
        memory = found[name].ours
        assert memory is not None
        assert 20 < memory.median < 2_000
    blocks = found["blocks of aggregate 300k"]
    assert blocks.ours is not None
    assert blocks.ours.median > 0
    # 36 leaves of 8,192 rows make a tree of two levels with a fan-out of 64.
    assert blocks.comparisons[0].bound == Bound(4, 4)


def test_a_single_question_can_be_asked(workspace: Workspace) -> None:
    assert list(ask(workspace, "append of 10 rows", events=100)) == ["append of 10 rows"]


def test_nothing_is_judged_below_its_size() -> None:
    assert {size: bound.judged_at for size, bound in store.AGGREGATES.items()} == {10**8: 10**8, 10**7: 10**7}
    assert store.GROWTH.judged_at == 10**8


@pytest.mark.parametrize("column", ["speed", "voltage"])
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_a_band_holds_its_share_of_the_rows_or_one_value(column: str, quantile: float) -> None:
    table = data.table("sensor", 50_000)
    band = choose_band(table, column, quantile)
    values = np.sort(table[column].to_numpy())
    inside = int(np.count_nonzero((values >= band.low) & (values <= band.high)))
    assert inside >= 1
    assert band.low == values[min(int(quantile * len(values)), len(values) - 1)]
    # Rows of the outermost values belong to the band even where it could do without some of them.
    assert np.count_nonzero((values > band.low) & (values < band.high)) < SHARE * len(values)


@pytest.mark.parametrize("format", [EventStore(), DuckDB()], ids=lambda format: format.name)
def test_aggregates_are_those_of_the_rows_in_the_half_open_range(format: Format, tmp_path: Path) -> None:
    table = data.table("sensor", EVENTS)
    format.write(tmp_path, format.prepare(table))
    reader = format.open(tmp_path)
    times, values = table["ts"].to_numpy(), table[aggregates.COLUMN].to_numpy()
    start, end = int(times[777]), int(times[11_000])  # the row at the end is not part of the range
    expected = values[777:11_000]
    found = reader.aggregate(start, end, aggregates.COLUMN)
    assert found[:3] == (len(expected), expected.min(), expected.max())
    assert found[3:] == pytest.approx((expected.sum(), expected.mean()))
    reader.close()


def test_ranges_lie_in_the_stream_and_are_the_same_for_everybody() -> None:
    ranges = aggregates.random_ranges(10_000, 50)
    assert ranges == aggregates.random_ranges(10_000, 50)
    assert len(set(ranges)) == 50
    last = data.START_MICROS + 10_000 * 1000
    assert all(data.START_MICROS <= start <= end <= last for start, end in ranges)


def test_a_wrong_aggregate_is_noticed(tmp_path: Path) -> None:
    class Wrong(EventReader):
        def aggregate(self, start: int, end: int, column: str):
            right = super().aggregate(start, end, column)
            return right._replace(count=right.count + 1)

    EventStore().write(tmp_path, EventStore().prepare(data.table("sensor", EVENTS)))
    right, wrong = EventStore().open(tmp_path), Wrong(tmp_path)
    queries = aggregates.Queries("wrong", EVENTS, wrong, 1, right)
    check = queries.case().check
    assert check is not None
    with pytest.raises(AssertionError, match="wrong, 12k gave"):
        check(None)
    right.close()
    wrong.close()


def test_a_child_that_fails_is_not_a_measurement(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match=r"store_scan\.py ended with status 1"):
        run_watched("store_scan.py", str(tmp_path / "nowhere"))
    assert "NotFoundError" in capfd.readouterr().err


def test_the_condition_of_a_band_is_sql() -> None:
    assert Band("speed", 1.5, 2.0).sql() == '"speed" BETWEEN 1.5 AND 2.0'
