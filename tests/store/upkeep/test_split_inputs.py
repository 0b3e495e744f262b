"""Small splits that are read together have the rows that they have apart, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import RecordingMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model import Schema
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.storage.read.images import Images, Wanted
from tidelog.storage.write import leaf_rules
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Change
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.split.context import StreamContext
from tidelog.store.upkeep import split_inputs
from tidelog.store.upkeep.split_inputs import SmallSplits, SplitInput, inputs_of

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64()), ("word", pa.string())])
WIDER = SCHEMA.append(pa.field("extra", pa.float64()))

shapes = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=40), min_size=1, max_size=12)
"""The times of each commit."""


def create(**options: Any) -> Stream:
    return Store(RecordingMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=8, fanout=3, **options)


def load(stream: Stream, times: list[int], number: int, schema: pa.Schema = SCHEMA) -> None:
    """Commit rows that say which they are: the number of the commit, and their place in it."""
    count = len(times)
    arrays = [times, [number] * count, [f"{number}.{place}" for place in range(count)], [number / 2] * count]
    with BulkWriter(StreamContext.of(writer_of(stream).manifests)) as writer:
        writer.append(pa.record_batch(arrays[: len(schema)], schema=schema))
        commit_bulk(writer_of(stream).manifests, writer.finish())


def read(stream: Stream, start: int | None = None, end: int | None = None) -> list[dict[str, Any]]:
    """The rows of all splits of a stream, read as those that are to be written anew."""
    manifest = writer_of(stream).manifests.load()
    context = StreamContext.of(writer_of(stream).manifests)
    parts = tuple(inputs_of(context, list(manifest.splits.values())))
    snapshot = Snapshot(manifest, context.layout, parts, manifest.next_seq)
    batches = list(scan(snapshot, Intervals.of(start, end), context.layout.stored.names))
    return pa.Table.from_batches(batches, context.layout.stored).to_pylist()


def expected(
    commits: list[list[int]], start: int | None = None, end: int | None = None, wider_from: int | None = None
) -> list[dict[str, Any]]:
    """What a stream has after commits: rows in the order of time and arrival."""
    found = []
    sequence = 0
    for number, times in enumerate(commits):
        for place, time in enumerate(times):
            row = {"ts": time, "n": number, "word": f"{number}.{place}", "_seq": sequence + place}
            if wider_from is not None:
                row["extra"] = number / 2 if number >= wider_from else None
            found.append(row)
        sequence += len(times)
    kept = [row for row in found if (start is None or row["ts"] >= start) and (end is None or row["ts"] < end)]
    return sorted(kept, key=lambda row: (row["ts"], row["_seq"]))


def sized(monkeypatch: pytest.MonkeyPatch, together: int = 32 << 20, most: int = 128 << 20, first: int = 8) -> None:
    monkeypatch.setattr(split_inputs, "_TOGETHER_BYTES", together)
    monkeypatch.setattr(split_inputs, "_MOST_BYTES", most)
    monkeypatch.setattr(split_inputs, "_FIRST_FILES", first)


@settings(max_examples=scaled(30))
@given(
    commits=shapes,
    bounds=st.tuples(st.none() | st.integers(0, 60), st.none() | st.integers(0, 60)),
    together=st.sampled_from([1, 4 << 20, 32 << 20]),
    most=st.sampled_from([1, 2000, 128 << 20]),
    first=st.sampled_from([1, 2, 100]),
)
def test_rows_of_commits_of_any_times(
    commits: list[list[int]], bounds: tuple[int | None, int | None], together: int, most: int, first: int
) -> None:
    """Read together, in groups, or one by one, because they have more text than was expected."""
    stream = create()
    for number, times in enumerate(commits):
        load(stream, sorted(times), number)
    in_order = [sorted(times) for times in commits]
    with pytest.MonkeyPatch.context() as patch:
        sized(patch, together, most, first)
        assert read(stream, *bounds) == expected(in_order, *bounds)


def test_small_neighbours_are_one_part_and_larger_ones_part_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create()
    for number in range(4):
        load(stream, list(range(number * 10, number * 10 + 5)), number)
    load(stream, list(range(100, 2000)), 4)
    for number in range(5, 8):
        load(stream, list(range(number * 1000, number * 1000 + 5)), number)
    infos = list(writer_of(stream).manifests.load().splits.values())
    small = max(info.bytes for info in infos if info.rows == 5)
    sized(monkeypatch, together=8 * 4 * small)
    parts = inputs_of(StreamContext.of(writer_of(stream).manifests), infos)
    assert [(type(part), part.rows) for part in parts] == [(SmallSplits, 20), (SplitInput, 1900), (SmallSplits, 15)]
    assert [part.numbers for part in parts] == [(0, 19), (20, 1919), (1920, 1934)]


def test_the_more_overlap_the_fewer_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create()
    for number in range(32):
        load(stream, [0, 100], number)
    infos = list(writer_of(stream).manifests.load().splits.values())
    monkeypatch.setattr(split_inputs, "READING_BYTES", 32 * 8 * 4 * max(info.bytes for info in infos))
    assert {part.rows for part in inputs_of(StreamContext.of(writer_of(stream).manifests), infos)} == {8 * 2}
    assert read(stream) == expected([[0, 100]] * 32)


def test_long_rows_that_compress_well_are_not_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files are small, but there are as many leaves as it takes to hold them."""
    monkeypatch.setattr(leaf_rules, "_LEAF_BYTES", 1 << 14)
    stream = Store(RecordingMedium()).create_stream("s", SCHEMA, "ts")
    commits = [list(range(number * 50, number * 50 + 50)) for number in range(4)]
    for number, times in enumerate(commits):
        with BulkWriter(writer_of(stream).context) as writer:
            rows = [times, [number] * 50, ["x" * (1 << 12 if number in (1, 2) else 4)] * 50]
            writer.append(pa.record_batch(rows, schema=SCHEMA))
            commit_bulk(writer_of(stream).manifests, writer.finish())
    infos = list(writer_of(stream).manifests.load().splits.values())
    assert max(info.bytes for info in infos) < 1 << 17
    parts = inputs_of(writer_of(stream).context, [infos[0], *infos])
    assert [(type(part), part.rows) for part in parts] == [
        (SmallSplits, 100),
        (SplitInput, 50),
        (SplitInput, 50),
        (SplitInput, 50),
    ]


def test_versions_of_the_schema_are_read_apart() -> None:
    stream = create()
    commits = [[3 * number, 3 * number + 7] for number in range(10)]
    for number, times in enumerate(commits[:6]):
        load(stream, times, number)
    writer_of(stream).manifests.commit(lambda _: Change(schema=Schema(WIDER, "ts")))
    for number, times in enumerate(commits[6:], 6):
        load(stream, times, number, WIDER)
    assert read(stream) == expected(commits, wider_from=6)


def test_files_that_are_not_plain_are_read_by_themselves() -> None:
    """Late rows that were merged into the tail's split have replaced leaves of it."""
    stream = create(late_rows=4, split=100)
    stream.append(pa.record_batch([list(range(0, 90, 2)), [0] * 45, [f"0.{i}" for i in range(45)]], schema=SCHEMA))
    stream.flush()
    late = [5, 7, 9, 11, 13]
    stream.append(pa.record_batch([late, [1] * 5, [f"1.{i}" for i in range(5)]], schema=SCHEMA))
    stream.flush()
    newer = list(range(100, 400))  # close the split before
    stream.append(pa.record_batch([newer, [2] * 300, ["later"] * 300], schema=SCHEMA))
    stream.flush()
    load(stream, [40, 300], 3)
    infos = list(writer_of(stream).manifests.load().splits.values())
    wanted = [Wanted(writer_of(stream).context.path(info.name), info.bytes, info.root) for info in infos]
    images = Images(writer_of(stream).context.medium, wanted)
    assert {images.is_plain(index) for index in range(len(infos))} == {True, False}
    found = read(stream)
    assert [row for row in found if row["n"] < 2] == expected([list(range(0, 90, 2)), late])
    assert [row["ts"] for row in found if row["n"] == 3] == [40, 300]


def test_only_files_in_the_range_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create()
    for number in range(8):
        load(stream, [number * 10, number * 10 + 5], number)
    asked: list[int] = []

    class Counting(Images):  # type: ignore[misc]
        def __init__(self, medium: Any, wanted: Any) -> None:
            asked.append(len(wanted))
            super().__init__(medium, wanted)

    monkeypatch.setattr(split_inputs, "Images", Counting)
    assert [row["ts"] for row in read(stream, 15, 40)] == [15, 20, 25, 30, 35]
    assert asked == [3]
    assert read(stream, 36, 39) == []
    assert asked == [3]


def test_what_is_wrong_with_a_file_is_told() -> None:
    stream = create()
    for number in range(3):
        load(stream, [number * 10, number * 10 + 5], number)
    context, infos = (
        StreamContext.of(writer_of(stream).manifests),
        list(writer_of(stream).manifests.load().splits.values()),
    )
    part = SmallSplits(context, infos)
    path = context.path(infos[1].name)
    with context.medium.open(path, writable=True) as file:
        at = next(at for at in range(16384, file.size(), 4096) if file.read(at, 4) == b"TLMB") + 300
        file.write(at, bytes(byte ^ 255 for byte in file.read(at, 8)))
    arguments = (None, None, context.layout.stored.names, None, ReadCounters())
    with pytest.raises(CorruptionError, match=infos[1].name):
        list(part.scan(*arguments))
    context.medium.remove(path)
    with pytest.raises(NotFoundError):
        list(part.scan(*arguments))


def test_overwritten_rows_are_left_out() -> None:
    stream = create()
    for number in range(6):
        load(stream, [number, 10 + number, 20 + number], number)
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(pa.record_batch([[12], [9], ["9.0"]], schema=SCHEMA))
        commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=Interval(12, 21))
    kept = [row for row in expected([[n, 10 + n, 20 + n] for n in range(6)]) if not 12 <= row["ts"] < 21]
    mine = {"ts": 12, "n": 9, "word": "9.0", "_seq": 18}
    assert read(stream) == sorted([*kept, mine], key=lambda row: (row["ts"], row["_seq"]))
