"""The first and the last rows of a range: which they are, in which order, and that no more than that end is read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.manifest import Change, Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read import windows

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])

Row = tuple[int, int]
"""Time and number."""


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_FIRST_ROWS", 3)
    monkeypatch.setattr(windows, "_MOST_ROWS", 20)


def found(stream: Stream, *args: Any, **options: Any) -> list[Row]:
    table = stream.scan(*args, seq=True, **options).read_all()
    return list(zip(table["ts"].to_pylist(), table["_seq"].to_pylist(), strict=True))


bounds = st.one_of(st.none(), st.integers(-5, 60))
marks = st.lists(
    st.tuples(st.integers(-5, 60), st.integers(-5, 60), st.tuples(st.integers(0, 90), st.integers(0, 90))), max_size=2
)


@settings(max_examples=scaled(60))
@given(
    st.lists(st.lists(st.integers(0, 50), max_size=40), max_size=5),
    marks,
    st.one_of(st.none(), st.integers(0, 20)),
    bounds,
    bounds,
    st.one_of(st.none(), st.integers(0, 130)),
    st.one_of(st.none(), st.integers(0, 120)),
    st.booleans(),
    st.sampled_from([{}, {"split": 20}, {"late_merge": "never", "late_rows": 5}, {"split": 7, "late_rows": 9}]),
)
def test_rows_are_those_of_the_whole_scan(
    appends: list[list[int]],
    deletions: list[tuple[int, int, tuple[int, int]]],
    deleted_before: int | None,
    start: int | None,
    end: int | None,
    limit: int | None,
    as_of: int | None,
    newest_first: bool,
    options: dict[str, Any],
) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=2, **options)
        times: list[int] = []
        for place, part in enumerate(appends):
            stream.append({"ts": part, "n": list(range(len(times), len(times) + len(part)))})
            times += part
            if place != 3:
                stream.flush()
        rows = [(time, n) for n, time in enumerate(times)]
        for low, high, numbers in deletions:
            if low < high and numbers[0] < numbers[1]:
                mark = Deletion(Interval(low, high), SeqSet([numbers]))
                writer_of(stream).manifests.commit(lambda manifest, mark=mark: Change(delete=(mark,)))
                rows = [row for row in rows if not (low <= row[0] < high and row[1] in mark.numbers)]
        if deleted_before is not None:
            stream.delete_before(deleted_before)
            rows = [row for row in rows if row[0] >= deleted_before]
        rows = [
            row
            for row in rows
            if (start is None or row[0] >= start)
            and (end is None or row[0] < end)
            and (as_of is None or row[1] < as_of)
        ]
        for where, kept in ((None, rows), ("n % 3 = 0", [row for row in rows if row[1] % 3 == 0])):
            expected = sorted(kept, reverse=newest_first)[:limit]
            given_options = {"limit": limit, "newest_first": newest_first, "as_of": as_of}
            assert found(stream, start, end, where=where, **given_options) == expected
            bare = stream.scan(start, end, [], where, **given_options).read_all()
            assert bare.num_rows == len(expected)


def test_columns_schema_and_snapshots() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=2)
        stream.append({"ts": list(range(100)), "n": list(range(100))})
        before = stream.snapshot()
        stream.evolve(add=[("word", pa.string())], rename={"n": "m"})
        stream.append({"ts": [50, 99, 7], "m": [100, 101, 102], "word": ["a", "b", "c"]})
        newest = stream.scan(columns=["word", "m"], limit=3, newest_first=True).read_all()
        assert newest.to_pylist() == [{"word": "b", "m": 101}, {"word": None, "m": 99}, {"word": None, "m": 98}]
        assert stream.scan(limit=0).read_all().num_rows == 0
        assert stream.scan(limit=2, as_of=before, newest_first=True).read_all().to_pylist() == [
            {"ts": 99, "n": 99},
            {"ts": 98, "n": 98},
        ]
        assert stream.scan(limit=1, where="word IS NOT NULL", columns=["word"]).read_all()["word"].to_pylist() == ["c"]
        wrong: dict[str, Any]
        for wrong in ({"limit": -1}, {"limit": "5"}, {"limit": True}, {"newest_first": 1}):
            with pytest.raises(tidelog.InputError, match=r"found .* for (limit|newest_first); expected"):
                stream.scan(**wrong)


def test_extreme_times() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=2, fanout=2)
        times = [-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1, 2**63 - 1]
        stream.append({"ts": times, "n": list(range(6))})
        for flushed in (False, True):
            if flushed:
                stream.flush()
            for limit in range(8):
                assert [time for time, _ in found(stream, limit=limit)] == times[:limit]
                assert [n for _, n in found(stream, limit=limit, newest_first=True)] == [5, 4, 3, 2, 1, 0][:limit]


def read(stream: Stream, **options: Any) -> tuple[int, int]:
    """Blocks and bytes that a scan has read."""
    before = stream.stats()
    assert stream.scan(**options).read_all().num_rows
    after = stream.stats()
    return after["blocks_read"] - before["blocks_read"], after["bytes_read"] - before["bytes_read"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_only_that_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest_first: bool) -> None:
    monkeypatch.undo()  # windows as they are
    day = datetime.timedelta(days=1)
    first = datetime.datetime(2026, 1, 1)
    schema = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())])
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", schema, "ts", split="1d", leaf_rows=1000)
        step = day / 10_000
        for each in range(8):
            times = [first + each * day + row * step for row in range(10_000)]
            stream.append({"ts": times, "n": list(range(each * 10_000, each * 10_000 + 10_000))})
        stream.append({"ts": [first + day, first + 3 * day], "n": [-1, -2]})  # late
        stream.flush()
    with tidelog.open(tmp_path, read_only=True) as store:
        stream = store.stream("s")
        whole_blocks, whole_bytes = read(stream)
        assert whole_blocks >= 80
        for options, most in (
            ({"limit": 10}, 2),
            ({"limit": 2500}, 5),
            ({"limit": 10, "where": "n % 2 = 0"}, 20),
            ({"limit": 10, "where": "n BETWEEN 40000 AND 40100"}, 4),
        ):
            blocks, size = read(stream, newest_first=newest_first, **options)
            assert blocks <= most, (options, blocks)
            assert size <= whole_bytes * most / whole_blocks * 2
        reader = stream.scan(newest_first=newest_first, limit=70_000)
        before = stream.stats()["blocks_read"]
        batch = reader.read_next_batch()
        assert batch["n"][0].as_py() == (79_999 if newest_first else 0)
        assert stream.stats()["blocks_read"] - before <= 80 * 3 // 4  # lazily, though some are decoded ahead
