"""Coarse splits: what they tell is exact, and what they cannot tell is refused with the reason."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, kills, random_power_losses
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.index.entries import without_states
from tidelog.model.errors import CorruptionError, GrainError, InputError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import ALWAYS, Intervals
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.log.file_names import new_file_name
from tidelog.store.manifest.manifest import Change, Manifest
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.pieces import plan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.split.coarse import CoarseEntries, read_coarse, write_coarse
from tidelog.store.upkeep.coarsening import coarsen

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64()), ("x", pa.float64())])
AGGREGATES = ["count(*)", "count(n)", "sum(n)", "min(n)", "max(n)", "avg(n)", "min(ts)", "max(ts)"]
ROWS = 600
TIMES = [3 * index for index in range(ROWS)]
"""Rows come in leaves of 16: entries of the lowest level begin at every multiple of 48."""


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


def batch(times: list[int]) -> pa.RecordBatch:
    values = [None if time % 5 == 0 else time % 101 for time in times]
    return pa.record_batch([times, values, np.array(times) / 8], schema=SCHEMA)


def load(stream: Stream, times: list[int], overwrite: Interval | None = None) -> None:
    writer = BulkWriter(writer_of(stream).context)
    writer.append(batch(times))
    commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite)


def create(medium: RecordingMedium, **options: Any) -> Stream:
    stream = Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4, **options)
    load(stream, TIMES)
    return stream


def coarse_of(stream: Stream) -> list[CoarseEntries]:
    infos = [info for info in writer_of(stream).manifests.load().splits.values() if info.kind == "coarse"]
    return [read_coarse(writer_of(stream).context.medium, writer_of(stream).context.path(info.name)) for info in infos]


def entries_of(stream: Stream) -> list[tuple[int, int]]:
    found = [each for coarse in coarse_of(stream) for each in zip(coarse.lows, coarse.highs, strict=True)]
    return sorted((int(low), int(high)) for low, high in found)


def expected(times: list[int], start: int | None, end: int | None) -> dict[str, Any]:
    """What a plain look at the events says."""
    inside = [time for time in times if (start is None or time >= start) and (end is None or time < end)]
    values = [time % 101 for time in inside if time % 5]
    return {
        "count(*)": len(inside),
        "count(n)": len(values),
        "sum(n)": sum(values) if values else None,
        "min(n)": min(values, default=None),
        "max(n)": max(values, default=None),
        "avg(n)": sum(values) / len(values) if values else None,
        "min(ts)": min(inside, default=None),
        "max(ts)": max(inside, default=None),
    }


class TestAnswers:
    def test_every_range_is_exact_or_refused(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        done = stream.coarsen(10_000)
        assert (done.splits, done.rows) == (1, ROWS)
        assert done.bytes_after < done.bytes_before
        entries = entries_of(stream)
        assert len(entries) == -(-ROWS // 16)
        load(stream, [5000, 5003])
        times = [*TIMES, 5000, 5003]
        refused = answered = 0
        bounds: list[int | None] = [None, *range(-10, 500, 7), *range(0, 2000, 48), 4999, 5001, 6000]
        for start in bounds:
            for end in bounds:
                if start is not None and end is not None and end <= start:
                    continue
                cut = any(low < bound <= high for bound in (start, end) if bound is not None for low, high in entries)
                if cut:
                    with pytest.raises(GrainError):
                        stream.aggregate(start, end, AGGREGATES)
                    refused += 1
                else:
                    found = stream.aggregate(start, end, AGGREGATES)
                    assert found == pytest.approx(expected(times, start, end))
                    assert stream.aggregate_all([(start, end)], AGGREGATES)[0] == pytest.approx(found)
                    answered += 1
        assert refused > 100
        assert answered > 100
        assert stream.check() == []

    def test_the_refusal_names_the_grain(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        with pytest.raises(
            GrainError, match=r"bound at 50, inside of an entry .* from 48 to 93; expected .* 94"
        ) as told:
            stream.aggregate(50, None, "count(*)")
        assert told.value.grain == (48, 93)
        again = pickle.loads(pickle.dumps(told.value))
        assert (str(again), again.grain) == (str(told.value), (48, 93))

    def test_a_coarser_grain_keeps_fewer_entries(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000, grain=4 * 48)
        assert [high - low for low, high in entries_of(stream)][:9] == [4 * 48 - 3] * 9
        assert stream.aggregate(192, 384, "count(*)") == {"count(*)": 64}
        assert coarse_of(stream)[0].level == 2

    def test_rows_are_refused(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        load(stream, [5000, 5003])
        for ask in (
            lambda: stream.scan(),
            lambda: stream.scan(48, 96),
            lambda: stream.aggregate(48, 96, "stddev(n)"),
            lambda: stream.aggregate(48, 96, "count(*)", where="n > 3"),
            lambda: stream.aggregate(48, 96, "count(*)", as_of=7),
            lambda: stream.nth(5),
            lambda: plan(writer_of(stream).published(), ALWAYS),
        ):
            with pytest.raises(GrainError):
                ask()  # type: ignore[no-untyped-call]
        assert stream.scan(2000).read_all()["ts"].to_pylist() == [5000, 5003]
        assert stream.scan(as_of=SeqSet([(ROWS, ROWS + 2)])).read_all().num_rows == 2
        assert len(plan(writer_of(stream).published(), Intervals.of(4000, None))) == 1
        assert stream.nth(-1, ["ts"]) == {"ts": 5003}
        assert stream.nth(ROWS, ["ts"]) == {"ts": 5000}
        assert stream.rank(96) == 32
        with pytest.raises(GrainError):
            stream.rank(97)

    def test_late_rows_count_besides(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        stream.append(batch([50, 51]))
        stream.flush()
        assert stream.aggregate(48, 96, "count(*)") == {"count(*)": 18}
        stream.compact()
        assert stream.aggregate(48, 96, "count(*)") == {"count(*)": 18}
        assert len(coarse_of(stream)) == 1

    def test_columns_added_later_are_null_in_reduced_events(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        stream.evolve(SCHEMA.append(pa.field("extra", pa.int64())))
        stream.append({"ts": [5000], "n": [1], "x": [0.5], "extra": [7]})
        stream.flush()
        found = stream.aggregate(None, None, ["count(*)", "sum(n)", "count(extra)", "sum(extra)"])
        known = expected(TIMES, None, None)
        assert found == {"count(*)": ROWS + 1, "sum(n)": known["sum(n)"] + 1, "count(extra)": 1, "sum(extra)": 7}
        assert stream.nth(-1, ["ts"]) == stream.nth(ROWS, ["ts"]) == {"ts": 5000}
        assert stream.scan(2000).read_all()["extra"].to_pylist() == [7]
        with pytest.raises(GrainError):
            stream.scan()
        assert stream.check() == []


class TestLyingOverOthers:
    """Rows that came late, or were loaded later, lie over splits with finer entries: these say what can be asked."""

    LATE = (7, 46, 47, 48, 500, 501, 501, 502, 1111, 1500, 1700)

    def check_all(self, stream: Stream, edges: list[int]) -> None:
        times = sorted([*TIMES, *self.LATE])
        for start, end in [*pairwise(edges), *zip(edges, edges[7:], strict=False), (edges[0], None), (None, edges[-1])]:
            assert stream.aggregate(start, end, AGGREGATES) == pytest.approx(expected(times, start, end)), (start, end)
            assert stream.aggregate_all([(start, end)], ["count(*)"]) == [
                {"count(*)": expected(times, start, end)["count(*)"]}
            ]
        assert stream.check() == []

    @pytest.mark.parametrize("is_later", [False, True])
    @pytest.mark.parametrize("options", [{}, {"split": 480}])
    def test_every_range_between_entries_of_the_denser_is_exact(
        self, medium: RecordingMedium, is_later: bool, options: dict[str, Any]
    ) -> None:
        stream = create(medium, **options)
        if is_later:
            stream.coarsen(10_000)
        load(stream, list(self.LATE))
        done = stream.coarsen(10_000)
        assert done.rows == len(self.LATE) + (0 if is_later else ROWS)
        assert all(info.kind == "coarse" for info in writer_of(stream).manifests.load().splits.values())
        self.check_all(stream, list(range(0, 1801, 48)))

    def test_a_coarser_grain_stays_coarse(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000, 200)
        before = entries_of(stream)
        load(stream, list(self.LATE))
        stream.coarsen(10_000, 200)
        self.check_all(stream, [low for low, _ in before])
        # One for each entry below it at the most, and for the gaps between them.
        assert len(before) < len(entries_of(stream)) <= len(before) + len(self.LATE)

    def test_user_defined_aggregates_are_kept(self, medium: RecordingMedium) -> None:
        stream = create(medium, user_aggregates=["second_largest(n)", "last(n)"])
        stream.coarsen(10_000)
        load(stream, list(self.LATE))
        stream.coarsen(10_000)
        for start in range(0, 1800, 48):
            inside = sorted(time for time in [*TIMES, *self.LATE] if start <= time < start + 48)
            values = sorted(time % 101 for time in inside if time % 5)
            last = inside[-1] % 101 if inside[-1] % 5 else None
            found = stream.aggregate(start, start + 48, ["second_largest(n)", "last(n)"])
            assert list(found.values()) == [values[-2], last], start

    @pytest.mark.parametrize("seed", range(12))
    def test_whatever_the_times(self, medium: RecordingMedium, seed: int) -> None:
        """Many of them equal, before 1970, in splits that overlap as they like."""
        dice = np.random.default_rng(seed)
        options = {"split": int(dice.integers(20, 400))} if seed % 2 else {}
        stream = Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3, **options)
        loads = [np.sort(dice.integers(-300, 500, count)).tolist() for count in dice.choice([1, 5, 40, 300], 4)]
        densest = max(loads, key=lambda times: len(times) / (times[-1] - times[0] + 1))
        grain = [None, 50][seed % 2]
        alone = Store(RecordingMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3, **options)
        load(alone, densest)
        alone.coarsen(10_000, grain)
        for times in loads:
            load(stream, times)
            if seed % 3 == 0 and times is densest:  # what is loaded behind it comes when it is coarsened
                stream.coarsen(10_000, grain)
        stream.coarsen(10_000, grain)
        everything = sorted(time for times in loads for time in times)
        entries = entries_of(alone)
        edges = [low for low, _ in entries] + [high + 1 for _, high in entries]
        free = sorted({edge for edge in edges if not any(low < edge <= high for low, high in entries)})
        for start, end in zip([None, *free], [*free, None], strict=True):
            found = stream.aggregate(start, end, AGGREGATES)
            assert found == pytest.approx(expected(everything, start, end)), (start, end)
        for start, end in dice.integers(-320, 520, (60, 2)).tolist():
            try:
                found = stream.aggregate(start, end, AGGREGATES)
            except GrainError:
                continue
            assert found == pytest.approx(expected(everything, start, end)), (start, end)
        assert stream.check() == []

    def test_they_wait_for_the_denser(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        load(stream, [5, 900])
        assert stream.coarsen(1000).splits == 0
        assert stream.coarsen(10_000).splits == 2

    def test_they_wait_for_what_the_tail_writes(self, medium: RecordingMedium) -> None:
        stream = Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4)
        stream.append(batch(TIMES))
        stream.flush()
        load(stream, [5, 900])
        assert stream.coarsen(1000).splits == 0
        load(stream, [-9, -3])  # over nothing
        assert stream.coarsen(1000).splits == 1


class TestUserAggregates:
    CALLS = ("second_largest(n)", "last(n)", "var_pop(x)")

    def of_events(self, start: int | None, end: int | None) -> list[Any]:
        inside = [time for time in TIMES if (start is None or time >= start) and (end is None or time < end)]
        values = sorted(time % 101 for time in inside if time % 5)
        last = None if not inside or inside[-1] % 5 == 0 else inside[-1] % 101
        second = values[-2] if len(values) > 1 else None
        return [second, last, float(np.var([time / 8 for time in inside])) if inside else None]

    @pytest.mark.parametrize("grain", [None, 200])
    def test_those_that_were_kept_are_exact_or_refused(self, medium: RecordingMedium, grain: int | None) -> None:
        stream = create(medium, user_aggregates=list(self.CALLS))
        stream.coarsen(10_000, grain)
        entries = entries_of(stream)
        answered = 0
        for start, end in [(None, None), (None, 96), (0, 384), (768, 1536), (1000, 1200), (48, None), (5000, 6000)]:
            cut = any(low < bound <= high for bound in (start, end) if bound is not None for low, high in entries)
            if cut:
                with pytest.raises(GrainError):
                    stream.aggregate(start, end, self.CALLS)
                continue
            answered += 1
            found = stream.aggregate(start, end, self.CALLS)
            assert list(found.values()) == pytest.approx(self.of_events(start, end))
        assert answered > 3
        assert stream.check() == []

    def test_others_are_refused_but_for_whole_splits_with_states(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        stream.attach("last(n)")
        with pytest.raises(GrainError, match="that were kept"):
            stream.aggregate(None, None, "last(n)")
        load(stream, [5001])
        assert stream.aggregate(5000, None, "last(n)") == {"last(n)": 5001 % 101}

    def test_they_survive_changes_of_other_columns(self, medium: RecordingMedium) -> None:
        stream = create(medium, user_aggregates=["last(n)", "var_pop(x)"])
        stream.coarsen(10_000)
        stream.evolve(add={"more": pa.int8()}, rename={"n": "number"})
        assert stream.aggregate(48, 96, ["last(number)"]) == {"last(number)": self.of_events(48, 96)[1]}
        stream.evolve(rename={"x": "n"})
        assert stream.aggregate(48, 96, ["var_pop(n)"])["var_pop(n)"] == pytest.approx(self.of_events(48, 96)[2])

    def test_files_without_states_are_read(self, medium: RecordingMedium) -> None:
        stream = create(medium, user_aggregates=["last(n)"])
        stream.coarsen(10_000)
        [info] = writer_of(stream).manifests.load().splits.values()
        [coarse] = coarse_of(stream)
        name = new_file_name(0, ".coarse")
        bare = replace(coarse, entries=without_states(coarse.layout, coarse.entries))
        write_coarse(medium, writer_of(stream).context.path(name), bare)
        writer_of(stream).manifests.commit(lambda _: Change(remove=(info.name,), add=(replace(info, name=name),)))
        assert stream.aggregate(48, 96, AGGREGATES) == pytest.approx(expected(TIMES, 48, 96))
        with pytest.raises(GrainError):
            stream.aggregate(48, 96, "last(n)")
        assert stream.check() == []


class TestWhichSplits:
    def test_a_time_between_two_ticks_is_a_bound_like_others(self, medium: RecordingMedium) -> None:
        schema = pa.schema([("ts", pa.timestamp("s")), ("n", pa.int64())])
        stream = Store(medium).create_stream("s", schema, "ts", leaf_rows=4, split=10)
        stream.append({"ts": list(range(30)), "n": list(range(30))})
        stream.flush()
        assert stream.coarsen("1970-01-01T00:00:09").splits == 0
        assert stream.coarsen("1970-01-01T00:00:09.5").splits == 1
        with pytest.raises(InputError, match="needs a time"):
            stream.coarsen(None)

    def test_only_whole_splits_before_the_time(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        load(stream, list(range(3000, 3100)))
        assert stream.coarsen(TIMES[-1]).splits == 0
        assert stream.coarsen(TIMES[-1] + 1).splits == 1
        assert stream.scan(3000).read_all().num_rows == 100

    def test_what_was_deleted_is_left_out(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        load(stream, [301], Interval(300, 400))
        stream.delete_before(100)
        left = [time for time in TIMES if time >= 100 and not 300 <= time < 400]
        stream.coarsen(10_000)
        assert stream.aggregate(None, None, AGGREGATES) == pytest.approx(expected([*left, 301], None, None))
        assert stream.check() == []

    def test_splits_of_which_the_journal_may_have_rows_wait(self, medium: RecordingMedium) -> None:
        stream = Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4, split=100)
        stream.append(batch(list(range(340))))
        stream.flush()
        assert stream.coarsen(200).splits == 2
        with Store(medium, read_only=True) as other:
            assert other.stream("s").aggregate(None, None, "count(*)") == {"count(*)": 340}
            assert other.check() == []

    def test_maintenance_does_it_in_time(self, medium: RecordingMedium) -> None:
        stream = Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, coarse_after=500, coarse_grain=50)
        load(stream, list(range(100)))
        assert stream.maintain().coarsened.splits == 0
        load(stream, [700])
        assert stream.maintain().coarsened.splits == 1
        assert stream.aggregate(None, None, "count(*)") == {"count(*)": 101}

    def test_a_mark_made_meanwhile_is_not_passed_over(
        self, medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = create(medium)
        real = CoarseEntries.to_bytes

        def overwritten(self: CoarseEntries) -> bytes:
            monkeypatch.undo()
            load(stream, [301], Interval(300, 400))
            return real(self)

        monkeypatch.setattr(CoarseEntries, "to_bytes", overwritten)
        assert stream.coarsen(10_000).splits == 0
        assert stream.scan(300, 400).read_all()["ts"].to_pylist() == [301]
        assert stream.coarsen(10_000).splits == 2


def test_the_journal_is_asked_after_the_manifest(medium: RecordingMedium) -> None:
    """A split that is closed in between has rows that the journal may have too: it must be left alone."""
    stream = create(medium)
    loads: list[str] = []
    known = writer_of(stream).manifests.load

    def load_manifest() -> Manifest:
        loads.append("manifest")
        return known()

    snapshot = replace(writer_of(stream).published(), journaled=((0, 10),))

    def look() -> Snapshot:
        loads.append("journal")
        return snapshot

    writer_of(stream).manifests.load = load_manifest  # type: ignore[method-assign]
    assert coarsen(writer_of(stream).context, writer_of(stream).manifests, 10_000, None, look).splits == 0
    assert loads == ["manifest", "journal"]


class TestDeleting:
    def test_between_entries_it_is_exact_and_inside_it_is_refused(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        with pytest.raises(GrainError, match=r"from 48 to 93, .* delete what is before 48, or .* after 93") as error:
            stream.delete_before(50)
        assert error.value.grain == (48, 93)
        stream.delete_before(96)
        stream.delete_before(50)  # is deleted already
        assert stream.aggregate(None, None, AGGREGATES) == pytest.approx(expected(TIMES, 96, None))
        stream.delete_before(10_000)
        assert len(stream) == 0
        assert coarse_of(stream) == []

    def test_retention_takes_whole_entries(self, medium: RecordingMedium) -> None:
        stream = create(medium, retention=1000)
        stream.coarsen(10_000)
        load(stream, [2090])
        assert stream.maintain().deleted_before == 1090 // 48 * 48
        assert stream.aggregate(None, None, "min(ts)") == {"min(ts)": 1056}

    def test_retention_inside_of_an_entry_makes_no_commits(self, medium: RecordingMedium) -> None:
        stream = create(medium, retention=700)
        stream.coarsen(10_000, 1_000_000)
        assert len(entries_of(stream)) < 4
        load(stream, [2200])
        assert stream.maintain().deleted_before == 768
        before = writer_of(stream).manifests.load()
        for _ in range(3):
            assert stream.maintain().deleted_before is None
        assert writer_of(stream).manifests.load().number == before.number

    def test_an_overwrite_that_was_interrupted_hides_what_it_overwrites(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        began = len(medium.log)
        load(stream, [100], Interval(0, 2000))
        seen = set()
        for crash in kills(medium, range(began, len(medium.log) + 1)):
            with Store(crash.medium(), read_only=True) as store:
                seen.add(store.stream("s").aggregate(None, None, "count(*)")["count(*)"])
        assert seen == {ROWS, 1}

    def test_what_is_overwritten_elsewhere_does_not_matter(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        load(stream, list(range(5000, 5400)))
        load(stream, [5100], Interval(5050, 5200))
        assert stream.snapshot().deletions(None, None)
        times = [*TIMES, *range(5000, 5050), 5100, *range(5200, 5400)]
        for start, end in [(None, None), (48, None), (None, 5100), (5060, 5210), (5300, 5301)]:
            wanted = pytest.approx(expected(times, start, end))
            assert stream.aggregate(start, end, AGGREGATES) == wanted
            assert stream.aggregate_all([(start, end)], AGGREGATES) == [wanted]
        for time in (48, 5000, 5100, 5101, 5250, 6000):
            assert stream.rank(time) == sum(each < time for each in times)
        for place in (ROWS, ROWS + 49, ROWS + 50, ROWS + 51, len(times) - 1, -1, -201):
            assert stream.nth(place, ["ts"]) == {"ts": times[place]}
        with pytest.raises(GrainError):
            stream.nth(ROWS - 1)

    def test_a_part_is_not_overwritten(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        with pytest.raises(GrainError, match="cannot overwrite a part"):
            load(stream, [100], Interval(0, 200))
        load(stream, [100], Interval(0, 2000))
        assert stream.scan().read_all()["ts"].to_pylist() == [100]


class TestFiles:
    def test_damage_is_found(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        [coarse] = coarse_of(stream)
        content = coarse.to_bytes()
        assert (CoarseEntries.from_bytes("f", content).entries == coarse.entries).all()
        dice = np.random.default_rng(1)
        for place in dice.integers(0, len(content), 60).tolist():
            broken = bytearray(content)
            broken[place] ^= 1 << int(dice.integers(0, 8))
            with pytest.raises(CorruptionError):
                CoarseEntries.from_bytes("f", bytes(broken))
        for length in (0, 10, len(content) - 1):
            with pytest.raises(CorruptionError):
                CoarseEntries.from_bytes("f", content[:length])

    def test_the_manifest_is_held_against_the_file(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        stream.coarsen(10_000)
        [info] = writer_of(stream).manifests.load().splits.values()
        [coarse] = coarse_of(stream)
        name = new_file_name(0, ".coarse")
        write_coarse(medium, writer_of(stream).context.path(name), coarse)
        wrong = replace(info, name=name, rows=info.rows - 1)
        writer_of(stream).manifests.commit(lambda _: Change(remove=(info.name,), add=(wrong,)))
        [finding] = stream.check()
        assert f"stands for {ROWS} rows" in str(finding)

    def test_any_crash_leaves_the_one_or_the_other(self) -> None:
        medium = RecordingMedium()
        stream = create(medium)
        load(stream, list(range(4000, 4050)))
        began = len(medium.log)
        stream.coarsen(3000)
        whole = expected(TIMES, None, 2000)
        kinds = set()
        positions = range(began, len(medium.log) + 1)
        for crash in (*kills(medium), *random_power_losses(medium, 2, 1, positions)):
            if crash.position < began:
                continue
            with Store(crash.medium(), read_only=True) as store:
                found = store.stream("s")
                assert store.check() == []
                assert found.aggregate(None, 2000, AGGREGATES) == pytest.approx(whole)
                kinds |= {info.kind for info in writer_of(found).manifests.load().splits.values()}
        assert kinds == {"loaded", "coarse"}


def test_entries_of_a_level_are_those_of_its_subtrees(medium: RecordingMedium) -> None:
    stream = create(medium)
    [part] = stream.snapshot().parts
    tree = part._tree  # type: ignore[union-attr]
    rows = [tree.level_entries(level)["rows"].tolist() for level in (1, 2, 3, 4, 9)]
    assert all(sum(each) == ROWS for each in rows)
    assert rows[0] == [16] * 37 + [8]
    assert rows[1][:9] == [64] * 9
    assert rows[2][:2] == [256] * 2
    assert all(len(fewer) <= len(more) for more, fewer in pairwise(rows))
