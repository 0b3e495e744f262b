from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.media.crash import RecordingMedium
from support.streams.manifests import SCHEMA, Hand, put_file, put_split
from tidelog.model import Interval, Schema
from tidelog.model.errors import ConflictError, NotFoundError
from tidelog.model.times.clock import INT64_MIN
from tidelog.storage.media.file_medium import FileMedium
from tidelog.storage.media.medium import Medium
from tidelog.store.log.file_names import new_file_name, new_stem
from tidelog.store.manifest.deletions import drop_deleted, is_deleted, is_spent, retention_bound
from tidelog.store.manifest.manifest import Change, Deletion, Manifest, ManifestLog, SplitInfo, split_path
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.split.removal import ORPHAN_AGE, Orphan, Swept, give_up, orphans, remove_orphans, sweep

HERE = "s"
GRACE = 600.0


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


@pytest.fixture
def log(medium: RecordingMedium, clock: Hand) -> ManifestLog:
    log = ManifestLog(medium, HERE, clock=clock)
    log.create(SCHEMA, StreamOptions(grace=GRACE))
    return log


def path_of(split: SplitInfo) -> str:
    return split_path(HERE, split.name)


class TestMarks:
    def split(self, time_min: int, time_max: int, seq_min: int = 0, seq_max: int = 9) -> SplitInfo:
        return SplitInfo(
            name=new_file_name(0),
            rows=1,
            bytes=1,
            time_min=time_min,
            time_max=time_max,
            seq_min=seq_min,
            seq_max=seq_max,
            kind="regular",
            created_at=0,
        )

    bounds = st.none() | st.integers(0, 12)
    numbers = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=3).map(SeqSet).filter(bool)
    marks = st.lists(
        st.builds(lambda start, end, numbers: (Interval(start, end), numbers), bounds, bounds, numbers).filter(
            lambda mark: not mark[0].is_empty
        ),
        max_size=4,
    )

    @given(marks, bounds, st.integers(0, 12), st.integers(0, 12), st.integers(0, 4), st.integers(0, 4))
    def test_a_split_is_deleted_when_each_of_its_possible_events_is(
        self, marks: list[tuple[Interval, SeqSet]], bound: int | None, a: int, b: int, c: int, d: int
    ) -> None:
        split = self.split(min(a, b), max(a, b), min(c, d), max(c, d))
        deletions = tuple(Deletion(*mark) for mark in marks)
        manifest = Manifest(deleted_before=bound, deletions=deletions)

        def event_is_deleted(time: int, seq: int) -> bool:
            by_mark = any(mark.interval.contains(time) and seq in mark.numbers for mark in deletions)
            return by_mark or (bound is not None and time < bound)

        events = [
            event_is_deleted(time, seq)
            for time in range(split.time_min, split.time_max + 1)
            for seq in range(split.seq_min, split.seq_max + 1)
        ]
        assert is_deleted(manifest, split) == all(events)

    def test_spent_marks(self) -> None:
        mark = Deletion(Interval(10, 20), SeqSet.below(5))
        newer_ones, nothing, everything = SeqSet([(100, 200)]), SeqSet(), SeqSet.below(200)
        inside, beside, newer = self.split(0, 10), self.split(20, 30), self.split(10, 19, 5, 9)
        assert not is_spent(Manifest(splits={"a": inside}), mark, newer_ones)
        assert is_spent(Manifest(splits={"a": beside, "b": newer}), mark, newer_ones)
        assert is_spent(Manifest(), mark, nothing)
        assert not is_spent(Manifest(), mark, SeqSet([(4, 9)]))  # the tail may hold events that it applies to
        assert is_spent(Manifest(splits={"a": inside}, deleted_before=20), mark, everything)
        assert not is_spent(Manifest(splits={"a": inside}, deleted_before=19), mark, everything)

    def test_splits_go_whole_and_marks_with_them(self, log: ManifestLog) -> None:
        old = put_split(log.medium, HERE, time_min=0, time_max=9)
        half = put_split(log.medium, HERE, time_min=5, time_max=10, seq_min=10, seq_max=19)
        overwritten = put_split(log.medium, HERE, time_min=50, time_max=59, seq_min=20, seq_max=29)
        log.commit(lambda manifest: Change(add=(old, half, overwritten)))
        log.commit(lambda manifest: Change(deleted_before=10, delete=(Deletion(Interval(50, 60), SeqSet.below(30)),)))
        manifest = drop_deleted(log, SeqSet([(29, 40)]))
        assert list(manifest.splits) == [half.name]
        assert set(manifest.removed) == {old.name, overwritten.name}
        assert len(manifest.deletions) == 1
        assert len(drop_deleted(log).deletions) == 1
        assert drop_deleted(log, SeqSet([(30, 40)])).deletions == ()
        number = log.load().number
        assert drop_deleted(log, SeqSet()).number == number

    def test_the_bound_of_retention(self) -> None:
        manifest = Manifest(schemas=(SCHEMA,), options=StreamOptions(retention="1s"))
        assert retention_bound(manifest, 5_000_000) == 4_000_000
        assert retention_bound(manifest, INT64_MIN + 5) == INT64_MIN
        assert retention_bound(Manifest(schemas=(SCHEMA,)), 5) is None
        ticks = Schema(pa.schema([("t", pa.int64())]), "t")
        assert retention_bound(Manifest(schemas=(ticks,), options=StreamOptions(retention=7)), 10) == 3


class TestRemovedSplits:
    def test_they_go_when_the_grace_period_is_over(
        self, medium: RecordingMedium, clock: Hand, log: ManifestLog
    ) -> None:
        gone, stays = put_split(medium, HERE, clock.now), put_split(medium, HERE, clock.now)
        put_file(medium, path_of(gone) + ".lock")
        log.commit(lambda manifest: Change(add=(gone, stays)))
        clock.now += 10 * ORPHAN_AGE
        log.commit(lambda manifest: Change(remove=(gone.name,)))
        assert sweep(medium, log, clock.now + GRACE - 1, keep=()) == Swept()
        assert medium.exists(path_of(gone))
        swept = sweep(medium, log, clock.now + GRACE, keep=())
        assert swept.deleted == (path_of(gone), path_of(gone) + ".lock")
        assert medium.names("s/splits/") == [path_of(stays)]
        assert log.load().removed == {}
        assert list(log.load().splits) == [stays.name]
        assert sweep(medium, log, clock.now + 10 * GRACE, keep=()) == Swept()

    def test_a_file_that_is_gone_already_is_forgotten(
        self, medium: RecordingMedium, clock: Hand, log: ManifestLog
    ) -> None:
        split = put_split(medium, HERE, clock.now)
        log.commit(lambda manifest: Change(add=(split,)))
        log.commit(lambda manifest: Change(remove=(split.name,)))
        medium.remove(path_of(split))
        assert sweep(medium, log, clock.now + GRACE, keep=()).deleted == ()
        assert log.load().removed == {}

    def test_a_locked_one_stays(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        split = put_split(medium, HERE, clock.now)
        log.commit(lambda manifest: Change(add=(split,)))
        log.commit(lambda manifest: Change(remove=(split.name,)))
        with medium.lock(path_of(split) + ".lock"):
            swept = sweep(medium, log, clock.now + GRACE, keep=())
            assert swept.deleted == ()
            assert set(swept.held) == {path_of(split), path_of(split) + ".lock"}
            assert list(log.load().removed) == [split.name]
        assert len(sweep(medium, log, clock.now + GRACE, keep=()).deleted) == 2

    def test_old_manifests_are_pruned(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        for number in range(40):
            log.commit(lambda manifest, number=number: Change(next_seq=number + 1))
        swept = sweep(medium, log, clock.now + GRACE, keep=())
        assert len(swept.pruned) == 16
        assert log.check() == []


class TestOrphans:
    def test_they_are_given_up_first_and_removed_later(
        self, medium: RecordingMedium, clock: Hand, log: ManifestLog
    ) -> None:
        orphan = put_split(medium, HERE, clock.now)
        assert orphans(medium, log) == [Orphan(path_of(orphan), clock.now)]
        assert sweep(medium, log, clock.now + ORPHAN_AGE - 1, keep=()) == Swept()
        clock.now += ORPHAN_AGE
        assert sweep(medium, log, clock.now, keep=()) == Swept(condemned=(path_of(orphan),))
        assert orphans(medium, log) == []
        with pytest.raises(ConflictError, match="given up"):
            log.commit(lambda manifest: Change(add=(orphan,)))
        assert sweep(medium, log, clock.now + GRACE - 1, keep=()) == Swept()
        assert medium.exists(path_of(orphan))
        assert sweep(medium, log, clock.now + GRACE, keep=()) == Swept(deleted=(path_of(orphan),))
        assert not medium.exists(path_of(orphan))
        assert log.load().removed == {}

    def test_what_the_tail_uses_is_spared(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        open_split = put_split(medium, HERE, clock.now)
        assert orphans(medium, log, keep=[open_split.name]) == []
        assert sweep(medium, log, clock.now + 10 * ORPHAN_AGE, keep=[open_split.name]) == Swept()
        log.commit(lambda manifest: Change(add=(open_split,)))

    def test_what_somebody_is_writing_is_spared(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        loading = put_split(medium, HERE, clock.now)
        with medium.lock(path_of(loading) + ".lock"):
            assert sweep(medium, log, clock.now + 10 * ORPHAN_AGE, keep=()) == Swept()
        assert len(sweep(medium, log, clock.now + 10 * ORPHAN_AGE, keep=()).condemned) == 1

    def test_the_age_may_be_chosen(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        put_split(medium, HERE, clock.now)
        assert len(sweep(medium, log, clock.now + 5, keep=(), orphan_age=5).condemned) == 1

    def test_foreign_files_are_listed_but_never_removed(
        self, medium: RecordingMedium, clock: Hand, log: ManifestLog
    ) -> None:
        put_file(medium, "s/splits/notes.txt")
        assert orphans(medium, log) == [Orphan("s/splits/notes.txt", None)]
        for _ in range(3):
            clock.now += 10 * ORPHAN_AGE
            assert sweep(medium, log, clock.now, keep=()) == Swept()
        assert medium.exists("s/splits/notes.txt")

    def test_a_commit_that_comes_between_wins(self, medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
        # The sweep has seen the orphan; before it can give it up, it is added after all.
        slow = put_split(medium, HERE, clock.now)
        other = ManifestLog(medium, HERE, clock=clock)
        clock.now += ORPHAN_AGE
        done: list[bool] = []

        def before(kind: str, path: str) -> None:
            if kind == "link" and not done:
                done.append(True)
                other.commit(lambda manifest: Change(add=(slow,)))

        medium.before = before
        assert sweep(medium, log, clock.now, keep=()) == Swept()
        assert done
        medium.before = None
        assert sweep(medium, log, clock.now + 10 * ORPHAN_AGE, keep=()) == Swept()
        assert log.check() == []
        assert list(log.load().splits) == [slow.name]

    def test_a_commit_that_comes_after_all_is_over_is_refused(
        self, medium: RecordingMedium, clock: Hand, log: ManifestLog
    ) -> None:
        slow = put_split(medium, HERE, clock.now)
        clock.now += ORPHAN_AGE
        sweep(medium, log, clock.now, keep=())
        clock.now += GRACE
        sweep(medium, log, clock.now, keep=())
        assert log.load().removed == {}
        with pytest.raises(NotFoundError, match="write and sync it first"):
            log.commit(lambda manifest: Change(add=(slow,)))


def test_two_sweeps_at_once(medium: RecordingMedium, clock: Hand, log: ManifestLog) -> None:
    gone, orphan = put_split(medium, HERE, clock.now), put_split(medium, HERE, clock.now)
    log.commit(lambda manifest: Change(add=(gone,)))
    log.commit(lambda manifest: Change(remove=(gone.name,)))
    clock.now += ORPHAN_AGE
    done: list[Swept] = []

    def before(kind: str, path: str) -> None:
        if kind == "remove" and not done:
            done.append(Swept())
            done.append(sweep(medium, ManifestLog(medium, HERE, clock=clock), clock.now, keep=()))

    medium.before = before
    sweep(medium, log, clock.now, keep=())
    assert done[1].condemned == (path_of(orphan),)
    assert log.load().removed == {orphan.name: clock.now}
    assert medium.names("s/splits/") == [path_of(orphan)]
    assert log.check() == []


def test_on_real_files_with_real_locks(tmp_path: Path, clock: Hand) -> None:
    medium: Medium = FileMedium(tmp_path)
    log = ManifestLog(medium, HERE, clock=clock)
    log.create(SCHEMA, StreamOptions(grace=GRACE))
    writing, lost = (f"s/splits/{new_stem(clock.now)}.tide" for _ in range(2))
    put_file(medium, writing)
    put_file(medium, lost)
    with medium.lock(writing + ".lock"):
        assert sweep(medium, log, clock.now + ORPHAN_AGE, keep=()).condemned == (lost,)
        clock.now += ORPHAN_AGE
        assert sweep(medium, log, clock.now + GRACE, keep=()).deleted == (lost,)
        assert medium.names("s/splits/") == [writing, writing + ".lock"]


class TestRemovingOrphans:
    def test_old_ones_go_at_once_and_others_stay(self, medium: RecordingMedium, log: ManifestLog, clock: Hand) -> None:
        def put(age: float) -> str:
            name = new_file_name(clock.now - age)
            put_file(medium, split_path(HERE, name))
            return name

        old, young, kept, held, strange = put(100), put(5), put(200), put(300), "notes.txt"
        put_file(medium, split_path(HERE, strange))
        put_file(medium, split_path(HERE, old) + ".lock")
        listed = put_split(medium, HERE, clock.now - 400)
        removed = put_split(medium, HERE, clock.now - 500)
        log.commit(lambda manifest: Change(add=(listed, removed)))
        log.commit(lambda manifest: Change(remove=(removed.name,)))
        with medium.lock(split_path(HERE, held) + ".lock"):
            gone = remove_orphans(medium, log, clock.now, keep=[kept], older_than=50)
        assert sorted(gone) == [split_path(HERE, old), split_path(HERE, old) + ".lock"]
        for name in (young, kept, held, strange, listed.name, removed.name):
            assert medium.exists(split_path(HERE, name))
        assert set(log.load().removed) == {removed.name}
        assert remove_orphans(medium, log, clock.now, keep=[kept, held], older_than=50) == []
        assert len(remove_orphans(medium, log, clock.now, keep=[], older_than=0)) == 4

    def test_what_was_given_up_cannot_be_committed(self, medium: RecordingMedium, log: ManifestLog) -> None:
        split = put_split(medium, HERE)
        assert give_up(log, [split.name, "1790000000000-ffffffffffffffff.tide"]) == [
            split.name,
            "1790000000000-ffffffffffffffff.tide",
        ]
        with pytest.raises(NotFoundError):
            log.commit(lambda manifest: Change(add=(split,)))

    def test_a_file_that_is_held_stays_given_up(self, medium: RecordingMedium, log: ManifestLog) -> None:
        split = put_split(medium, HERE)
        with medium.lock(path_of(split) + ".lock"):
            assert give_up(log, [split.name]) == []
        assert set(log.load().removed) == {split.name}
        with pytest.raises(ConflictError, match="given up"):
            log.commit(lambda manifest: Change(add=(split,)))
