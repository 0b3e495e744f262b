"""Many splits: found by time, and aggregated from what the manifest says of them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.store.read.parts import split_trees
from tidelog.store.read.parts.part_index import PartIndex
from tidelog.store.split.open_files import OpenFiles

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
WANTED = ["count(*)", "count(n)", "sum(n)", "min(n)", "max(n)", "min(text)", "max(ts)"]
SPLITS, WIDTH = 300, 10


@pytest.fixture(scope="module")
def filled() -> tuple[Stream, list[tuple[int, int | None, str]]]:
    """Some hundred splits of ten instants each, some that overlap them, an open one, and rows in memory."""
    dice = random.Random(5)
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", split=WIDTH, leaf_rows=8, fanout=3, late_rows=40)
    rows = [(at, dice.choice([None, dice.randrange(-99, 99)]), dice.choice("abc")) for at in range(SPLITS * WIDTH)]
    for first in range(0, len(rows), 500):
        stream.append(columns(rows[first : first + 500]))
        stream.flush()
    late = [(dice.randrange(SPLITS * WIDTH), dice.randrange(9), "late") for _ in range(150)]
    for first in range(0, len(late), 50):
        stream.append(columns(late[first : first + 50]))
        stream.flush()
    return stream, rows + late


def columns(rows: list[tuple[int, int | None, str]]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA)


def expected(rows: list[tuple[int, int | None, str]], start: int | None, end: int | None) -> list[Any]:
    some = [row for row in rows if (start is None or row[0] >= start) and (end is None or row[0] < end)]
    numbers = [n for _, n, _ in some if n is not None]
    return [
        len(some),
        len(numbers),
        sum(numbers) if numbers else None,
        min(numbers, default=None),
        max(numbers, default=None),
        min((text for _, _, text in some), default=None),
        max((at for at, _, _ in some), default=None),
    ]


BOUNDS = st.none() | st.integers(-5, SPLITS * WIDTH + 5) | st.integers(0, SPLITS).map(lambda split: split * WIDTH)


@given(BOUNDS, BOUNDS)
def test_aggregates_over_many_splits(filled: Any, start: int | None, end: int | None) -> None:
    stream, rows = filled
    assert list(stream.aggregate(start, end, WANTED).values()) == expected(rows, start, end)


@given(BOUNDS, BOUNDS)
def test_parts_that_reach_into_a_range(filled: Any, start: int | None, end: int | None) -> None:
    stream, _ = filled
    parts = stream.snapshot().parts
    found = PartIndex(stream.snapshot().layout, parts).reaching(start, end)
    wanted = [part for part in parts if (end is None or part.first < end) and (start is None or part.last >= start)]
    assert sorted(map(id, found)) == sorted(map(id, wanted))
    assert [part.first for part in found] == sorted(part.first for part in found)


def test_whole_splits_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", split=WIDTH, leaf_rows=4)
        stream.append(columns([(at, at, "x") for at in range(1000)]))
    opened: list[str] = []
    real = split_trees.closed_tree

    def watched(context: Any, info: Any) -> Any:
        opened.append(info.name)
        return real(context, info)

    monkeypatch.setattr(split_trees, "closed_tree", watched)
    with Store(medium, read_only=True) as store:
        stream = store.stream("s")
        assert stream.aggregate(3, 877, ["sum(n)"]) == {"sum(n)": sum(range(3, 877))}
        assert len(opened) == 2  # those at the ends
        expected = [{"sum(n)": sum(range(3, 877))}, {"sum(n)": sum(range(5, 876))}, {"sum(n)": None}]
        assert stream.aggregate_all([(3, 877), (5, 876), (400, 300)], ["sum(n)"]) == expected
        assert len(opened) == 2  # which are still open
        assert stream.stats()["rows"] == 1000
        assert stream.rank(505) == 505


def test_more_splits_than_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_trees, "FILES", OpenFiles(lambda: 3))
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", split=WIDTH, leaf_rows=4)
        stream.append(columns([(at, at, "x") for at in range(300)]))
        stream.flush()
        for _ in range(2):
            assert stream.scan(columns=["ts"]).read_all()["ts"].to_pylist() == list(range(300))
            assert stream.scan(columns=["ts"], where="n % 50 = 7").read_all().num_rows == 6
