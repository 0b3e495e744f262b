from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.media.crash import RecordingMedium, distinct, kills, power_losses, random_power_losses
from support.profiles import scaled
from support.streams.manifests import SCHEMA, WIDER, Hand, put_file
from tidelog.model.errors import (
    ConflictError,
    CorruptionError,
    ExistsError,
    InputError,
    LockedError,
    NewerReleaseError,
    NotFoundError,
    StorageError,
)
from tidelog.storage.media.file_medium import FileMedium
from tidelog.store.catalogue import Catalogue, StreamEntry
from tidelog.store.manifest.manifest import Change
from tidelog.store.manifest.options import GRACE_SECONDS, StreamOptions
from tidelog.store.split.removal import ORPHAN_AGE


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


@pytest.fixture
def catalogue(medium: RecordingMedium, clock: Hand) -> Catalogue:
    return Catalogue.create(medium, clock=clock)


def names(catalogue: Catalogue) -> list[str]:
    return [entry.name for entry in catalogue.streams()]


class TestTheStore:
    def test_creating_is_idempotent(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        catalogue.create_stream("a", SCHEMA)
        before = len(medium.log)
        again = Catalogue.create(medium)
        assert names(again) == ["a"]
        assert len(medium.log) == before

    def test_opening_writes_nothing(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        before = len(medium.log)
        assert names(Catalogue.open(medium)) == []
        assert len(medium.log) == before

    def test_no_store(self, medium: RecordingMedium, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match=r"there is no store in .*: found no file 'tidelog.json'"):
            Catalogue.open(medium)
        with pytest.raises(NotFoundError, match=r"there is no store in /.*/nowhere: "):
            Catalogue.open(FileMedium(tmp_path / "nowhere"))
        assert not (tmp_path / "nowhere").exists()

    @pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "other", "version": 1}', b"\xff"])
    def test_a_marker_that_is_none(self, medium: RecordingMedium, content: bytes) -> None:
        with medium.create("tidelog.json") as file:
            file.write(0, content)
        for enter in (Catalogue.open, Catalogue.create):
            with pytest.raises(CorruptionError, match="not what tidelog writes"):
                enter(medium)

    def test_a_newer_store(self, medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.store.marker.VERSION", 2)
            Catalogue.create(medium)
        for enter in (Catalogue.open, Catalogue.create):
            with pytest.raises(NewerReleaseError, match="has version 2, this release reads version 1") as caught:
                enter(medium)
            assert not isinstance(caught.value, CorruptionError)

    @pytest.mark.parametrize("moment", range(40))
    def test_created_by_two_at_once(self, moment: int, clock: Hand) -> None:
        # The second is created whole in the middle of the first, at each of its operations.
        medium = RecordingMedium()
        second: list[Catalogue] = []
        count = [0]

        def before(kind: str, path: str) -> None:
            count[0] += 1
            if count[0] == moment and not second:
                second.append(Catalogue.create(medium, clock=clock))
                second[0].create_stream("a", SCHEMA)

        medium.before = before
        first = Catalogue.create(medium, clock=clock)
        if second:
            assert names(first) == names(second[0]) == ["a"]
        assert first.check() == []


class TestStreams:
    def test_created_found_listed(self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand) -> None:
        made = [catalogue.create_stream(name, SCHEMA) for name in ("b", "B", "Ü/..", "a")]
        assert catalogue.streams() == sorted(made, key=lambda entry: entry.name)
        assert catalogue.find("B") == made[1]
        assert catalogue.exists("B")
        assert not catalogue.exists("c")
        assert len({entry.directory.lower() for entry in made}) == 4
        other = Catalogue.open(medium, clock=clock)
        assert other.streams() == catalogue.streams()
        assert other.manifests(made[2]).load().schema == SCHEMA
        assert catalogue.check() == []

    def test_options_are_those_given(self, catalogue: Catalogue) -> None:
        entry = catalogue.create_stream("a", SCHEMA, StreamOptions(leaf_rows=5))
        assert catalogue.manifests(entry).load().options.leaf_rows == 5

    def test_unknown_names_are_refused_with_a_hint(self, catalogue: Catalogue) -> None:
        catalogue.create_stream("trades", SCHEMA)
        for act in (catalogue.find, catalogue.drop_stream, lambda name: catalogue.rename_stream(name, "x")):
            with pytest.raises(NotFoundError, match="there is no stream 'trade'; did you mean 'trades'"):
                act("trade")

    def test_a_taken_name_is_refused(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        catalogue.create_stream("a", SCHEMA)
        before = medium.names()
        with pytest.raises(ExistsError, match="there is a stream 'a' already"):
            catalogue.create_stream("a", WIDER)
        assert medium.names() == before
        assert catalogue.manifests(catalogue.find("a")).load().schema == SCHEMA

    def test_names_and_options_that_cannot_be_leave_nothing(
        self, medium: RecordingMedium, catalogue: Catalogue
    ) -> None:
        before = medium.names()
        with pytest.raises(InputError):
            catalogue.create_stream("", SCHEMA)
        with pytest.raises(InputError):
            catalogue.create_stream("a", SCHEMA, StreamOptions(aggregates=["nope"]))
        assert medium.names() == before

    def test_the_same_name_created_twice_at_once(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        other = Catalogue.open(medium)
        theirs: list[StreamEntry] = []

        def before(kind: str, path: str) -> None:
            if kind == "link" and path.startswith("catalogue/") and not theirs:
                theirs.append(StreamEntry("", "", 0))
                theirs[0] = other.create_stream("a", WIDER)

        medium.before = before
        with pytest.raises(ExistsError):
            catalogue.create_stream("a", SCHEMA)
        assert catalogue.streams() == theirs
        assert catalogue.manifests(theirs[0]).load().schema == WIDER
        assert catalogue.orphans() == []  # the loser cleans up behind itself

    def test_renamed(self, catalogue: Catalogue) -> None:
        a, b = catalogue.create_stream("a", SCHEMA), catalogue.create_stream("b", SCHEMA)
        log = catalogue.manifests(a)
        assert catalogue.rename_stream("a", "c") == StreamEntry("c", a.id, a.created_at)
        assert names(catalogue) == ["b", "c"]
        assert log.commit(lambda manifest: Change(next_seq=7)).next_seq == 7
        assert catalogue.manifests(catalogue.find("c")).load().next_seq == 7
        with pytest.raises(ExistsError):
            catalogue.rename_stream("c", "b")
        with pytest.raises(InputError):
            catalogue.rename_stream("c", "")
        assert catalogue.rename_stream("b", "b") == b
        assert catalogue.find("b") == b

    def test_swapped_by_renaming(self, catalogue: Catalogue) -> None:
        a, b = catalogue.create_stream("a", SCHEMA), catalogue.create_stream("b", SCHEMA)
        for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
            catalogue.rename_stream(old, new)
        assert (catalogue.find("a").id, catalogue.find("b").id) == (b.id, a.id)

    def test_threads_and_many_names(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        made: list[str] = []

        def work() -> None:
            own = Catalogue.open(medium)
            for i in range(8):
                try:
                    own.create_stream(f"s{i}", SCHEMA)
                    made.append(f"s{i}")
                except ExistsError:
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == names(catalogue) == [f"s{i}" for i in range(8)]
        assert catalogue.check() == []


class TestManyAtOnce:
    MANY = tuple(f"device/{i}" for i in range(5))

    def test_one_commit_makes_all(self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand) -> None:
        catalogue.create_stream("other", WIDER)
        before = catalogue.load().number
        made = catalogue.create_streams(self.MANY, SCHEMA, StreamOptions(leaf_rows=5))
        assert [entry.name for entry in made] == list(self.MANY)
        assert catalogue.load().number == before + 1
        other = Catalogue.open(medium, clock=clock)
        assert names(other) == sorted([*self.MANY, "other"])
        for entry in made:
            manifest = other.manifests(other.find(entry.name)).load()
            assert (manifest.schema, manifest.options.leaf_rows) == (SCHEMA, 5)
        assert catalogue.check() == catalogue.orphans() == []

    def test_a_taken_name_refuses_all_of_them(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        taken = catalogue.create_stream(self.MANY[2], WIDER)
        before = medium.names()
        with pytest.raises(ExistsError, match="there is a stream 'device/2' already"):
            catalogue.create_streams(self.MANY, SCHEMA)
        assert medium.names() == before
        made = catalogue.create_streams([*self.MANY, "device/0"], SCHEMA, exist_ok=True)
        assert [entry.name for entry in made] == ["device/0", "device/1", "device/3", "device/4"]
        assert catalogue.find(self.MANY[2]) == taken

    def test_nothing_to_create_commits_nothing(self, medium: RecordingMedium, catalogue: Catalogue) -> None:
        catalogue.create_streams(self.MANY, SCHEMA)
        before = len(medium.log)
        assert catalogue.create_streams([], SCHEMA) == catalogue.create_streams(self.MANY, SCHEMA, exist_ok=True) == []
        assert len(medium.log) == before

    @pytest.mark.parametrize("exist_ok", [False, True])
    def test_some_names_are_taken_meanwhile(
        self, medium: RecordingMedium, catalogue: Catalogue, exist_ok: bool
    ) -> None:
        other = Catalogue.open(medium)
        theirs: list[StreamEntry] = []

        def before(kind: str, path: str) -> None:
            if kind == "link" and path.startswith("catalogue/"):
                medium.before = None
                theirs.extend(other.create_streams(self.MANY[1:3], WIDER))

        medium.before = before
        if exist_ok:
            made = catalogue.create_streams(self.MANY, SCHEMA, exist_ok=True)
            assert [entry.name for entry in made] == [self.MANY[0], *self.MANY[3:]]
            assert names(catalogue) == list(self.MANY)
        else:
            with pytest.raises(ExistsError, match="'device/1'"):
                catalogue.create_streams(self.MANY, SCHEMA)
            assert catalogue.streams() == theirs
        assert all(catalogue.manifests(entry).load().schema == WIDER for entry in theirs)
        assert catalogue.orphans() == catalogue.check() == []  # the loser cleans up behind itself

    @pytest.mark.parametrize("kind", ["create", "write", "sync", "link", "sync_names"])
    @pytest.mark.parametrize("nth", [1, 4])
    def test_a_failure_before_the_commit_leaves_nothing(
        self, medium: RecordingMedium, catalogue: Catalogue, kind: str, nth: int
    ) -> None:
        fault = medium.inject(kind, nth)
        with pytest.raises(StorageError):
            catalogue.create_streams(self.MANY, SCHEMA)
        assert fault.fired == 1
        assert names(catalogue) == catalogue.orphans() == []
        assert [entry.name for entry in catalogue.create_streams(self.MANY, SCHEMA)] == list(self.MANY)
        assert catalogue.check() == []

    def test_after_a_crash_all_are_there_or_none_and_the_rest_is_swept(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        catalogue.create_stream("before", WIDER)
        begin = len(medium.log)
        catalogue.create_streams(self.MANY[:3], SCHEMA)
        medium.mark("created")
        positions = range(begin, len(medium.log) + 1)
        outcomes = set()
        for crash in [
            *distinct([*power_losses(medium, positions, singles=2), *random_power_losses(medium, 3, 5, positions)]),
            *kills(medium, positions),
        ]:
            later = Hand(clock.now)
            survivor = Catalogue.open(crash.medium(), clock=later)
            found = set(names(survivor))
            assert found in ({"before"}, {"before", *self.MANY[:3]}), crash
            assert "created" not in crash.marks or len(found) > 1, crash
            assert survivor.check() == [], crash
            for name in found:
                expected = WIDER if name == "before" else SCHEMA
                assert survivor.manifests(survivor.find(name)).load().schema == expected, crash
            left = bool(survivor.orphans())
            outcomes.add((len(found) > 1, left))
            if left:
                for age in (ORPHAN_AGE, GRACE_SECONDS):
                    later.now += age
                    survivor.sweep(later.now)
                assert survivor.orphans() == [], crash
                assert set(names(survivor)) == found, crash
                assert survivor.check() == [], crash
        assert outcomes == {(False, False), (False, True), (True, False)}


class TestDropping:
    def test_files_stay_for_the_grace_period_of_the_stream(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        entry = catalogue.create_stream("a", SCHEMA, StreamOptions(grace=50))
        kept = catalogue.create_stream("b", SCHEMA)
        assert catalogue.drop_stream("a") == entry
        assert names(catalogue) == ["b"]
        assert catalogue.manifests(entry).load().schema == SCHEMA  # for those who are reading it
        assert catalogue.sweep(clock.now + 49) == []
        assert catalogue.sweep(clock.now + 50) == [
            f"{entry.directory}/manifest/00000000000000000001.json",
            f"{entry.directory}/tail/lock",  # of the drop, which nobody could begin to write under
        ]
        assert catalogue.load().dropped == {}
        assert medium.names("streams/") == [f"{kept.directory}/manifest/00000000000000000001.json"]
        with pytest.raises(NotFoundError):
            catalogue.manifests(entry).load()
        assert catalogue.check() == []

    def test_the_name_is_free_at_once(self, catalogue: Catalogue, clock: Hand) -> None:
        old = catalogue.create_stream("a", SCHEMA)
        catalogue.drop_stream("a")
        new = catalogue.create_stream("a", WIDER)
        assert old.id != new.id
        catalogue.drop_stream("a")
        newest = catalogue.create_stream("a", SCHEMA)
        assert len(catalogue.load().dropped) == 2
        catalogue.sweep(clock.now + GRACE_SECONDS)
        assert catalogue.manifests(newest).load().schema == SCHEMA
        assert catalogue.load().dropped == {}

    def test_a_damaged_stream_can_be_dropped(self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand) -> None:
        entry = catalogue.create_stream("a", SCHEMA)
        with medium.open(f"{entry.directory}/manifest/00000000000000000001.json", writable=True) as file:
            file.truncate(5)
        assert len(catalogue.check()) == 1
        catalogue.drop_stream("a")
        assert catalogue.check() == []
        assert len(catalogue.sweep(clock.now + GRACE_SECONDS)) == 2  # and the lock

    def test_a_stream_with_a_writer_stays_on_disk(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        entry = catalogue.create_stream("a", SCHEMA)
        catalogue.drop_stream("a")
        with medium.lock(f"{entry.directory}/tail/lock"):
            assert catalogue.sweep(clock.now + GRACE_SECONDS) == []
            assert list(catalogue.load().dropped) == [entry.id]
        assert len(catalogue.sweep(clock.now + GRACE_SECONDS)) == 2
        assert catalogue.load().dropped == {}

    def test_a_writer_that_comes_while_it_is_swept(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        entry = catalogue.create_stream("a", SCHEMA)
        put_file(medium, f"{entry.directory}/tail.lock")
        catalogue.drop_stream("a")

        def before(kind: str, path: str) -> None:
            if kind == "remove" and path.endswith("tail.lock"):
                raise LockedError("just taken")

        medium.before = before
        catalogue.sweep(clock.now + GRACE_SECONDS)
        assert list(catalogue.load().dropped) == [entry.id]
        medium.before = None
        catalogue.sweep(clock.now + GRACE_SECONDS)
        assert catalogue.load().dropped == {}
        assert medium.names("streams/") == []


class TestInterruptedCreations:
    def half_made(self, medium: RecordingMedium, catalogue: Catalogue) -> str:
        """The directory of a stream whose creation ended before its name was committed."""
        fault = medium.inject("link", 2)
        with pytest.raises(StorageError):
            catalogue.create_stream("a", SCHEMA)
        assert fault.fired == 1
        (directory,) = catalogue.orphans()
        return directory

    def test_they_are_no_streams_and_swept_up(self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand) -> None:
        directory = self.half_made(medium, catalogue)
        assert names(catalogue) == []
        assert catalogue.check() == []
        made = catalogue.create_stream("a", SCHEMA)
        assert catalogue.sweep(clock.now + ORPHAN_AGE - 1) == []
        assert catalogue.orphans() == [directory]
        clock.now += ORPHAN_AGE
        assert catalogue.sweep(clock.now) == []
        assert list(catalogue.load().dropped) == [directory.removeprefix("streams/")]
        assert catalogue.sweep(clock.now + GRACE_SECONDS) == [f"{directory}/manifest/00000000000000000001.json"]
        assert catalogue.orphans() == []
        assert catalogue.streams() == [made]
        assert catalogue.check() == []

    def test_directories_of_others_are_left_alone(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        medium.make_directory("streams/mine")
        put_file(medium, "streams/mine/notes.txt")
        put_file(medium, "streams/readme")
        for _ in range(3):
            clock.now += 10 * ORPHAN_AGE
            assert catalogue.sweep(clock.now) == []
        assert catalogue.orphans() == ["streams/mine"]

    @pytest.mark.parametrize("sweeps", [1, 2])
    def test_a_creation_slower_than_the_sweep_is_refused_not_lost(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand, sweeps: int
    ) -> None:
        other = Catalogue.open(medium, clock=clock)
        other.load()
        done: list[bool] = []

        def before(kind: str, path: str) -> None:
            if kind == "link" and path.startswith("catalogue/") and not done:
                done.append(True)
                for _ in range(sweeps):
                    clock.now += ORPHAN_AGE
                    other.sweep(clock.now)

        medium.before = before
        with pytest.raises(ConflictError, match="took so long that it was given up; try again"):
            catalogue.create_stream("a", SCHEMA)
        assert done
        assert names(catalogue) == []
        assert catalogue.create_stream("a", SCHEMA).name == "a"
        assert catalogue.check() == []

    def test_a_creation_that_ends_while_it_is_given_up_wins(
        self, medium: RecordingMedium, catalogue: Catalogue, clock: Hand
    ) -> None:
        # The sweep has seen the directory without a name; before it can give it up, the name is committed.
        other = Catalogue.open(medium, clock=clock)
        sweeping: list[bool] = []
        names_of_links: list[str] = []

        def before(kind: str, path: str) -> None:
            if kind != "link" or not path.startswith("catalogue/"):
                return
            names_of_links.append(path)
            if len(names_of_links) == 1:  # of the creation: the sweep begins
                clock.now += ORPHAN_AGE
                sweeper.start()
                at_commit.wait()
            elif len(names_of_links) == 2:  # of the sweep: the creation goes on first
                at_commit.set()
                created.wait()

        at_commit, created = threading.Event(), threading.Event()
        sweeper = threading.Thread(target=lambda: sweeping.append(other.sweep(clock.now) == []))
        medium.before = before
        entry = catalogue.create_stream("a", SCHEMA)
        created.set()
        sweeper.join()
        assert sweeping == [True]
        assert catalogue.load().dropped == {}
        assert catalogue.streams() == [entry]
        assert catalogue.check() == []

    def test_leftovers_of_the_marker(self, medium: RecordingMedium, clock: Hand) -> None:
        medium.inject("remove", 2)
        catalogue = Catalogue.create(medium, clock=clock)
        (left,) = medium.names("tidelog.json.")
        assert catalogue.sweep(clock.now + GRACE_SECONDS - 1) == []
        assert catalogue.sweep(clock.now + GRACE_SECONDS) == [left]
        assert medium.names("tidelog.json") == ["tidelog.json"]


class Catalogues(RuleBasedStateMachine):
    """Two processes create, drop and rename; the model is a dict. Schemas tell streams apart."""

    keys = st.sampled_from("abAB")

    def __init__(self) -> None:
        super().__init__()
        self.medium = RecordingMedium()
        self.clock = Hand()
        self.two = [Catalogue.create(self.medium, clock=self.clock) for _ in range(2)]
        self.model: dict[str, int] = {}
        self.next = 1

    @rule(who=st.integers(0, 1), name=keys)
    def create(self, who: int, name: str) -> None:
        if name in self.model:
            with pytest.raises(ExistsError):
                self.two[who].create_stream(name, SCHEMA)
        else:
            self.two[who].create_stream(name, SCHEMA, StreamOptions(leaf_rows=self.next))
            self.model[name] = self.next
            self.next += 1

    @rule(who=st.integers(0, 1), name=keys)
    def drop(self, who: int, name: str) -> None:
        if name in self.model:
            self.two[who].drop_stream(name)
            del self.model[name]
        else:
            with pytest.raises(NotFoundError):
                self.two[who].drop_stream(name)

    @rule(who=st.integers(0, 1), old=keys, new=keys)
    def rename(self, who: int, old: str, new: str) -> None:
        if old not in self.model:
            with pytest.raises(NotFoundError):
                self.two[who].rename_stream(old, new)
        elif new != old and new in self.model:
            with pytest.raises(ExistsError):
                self.two[who].rename_stream(old, new)
        else:
            self.two[who].rename_stream(old, new)
            self.model[new] = self.model.pop(old)

    @rule(who=st.integers(0, 1), seconds=st.sampled_from([1.0, GRACE_SECONDS, ORPHAN_AGE]))
    def sweep(self, who: int, seconds: float) -> None:
        self.clock.now += seconds
        self.two[who].sweep(self.clock.now)

    @invariant()
    def all_see_the_model(self) -> None:
        for catalogue in (*self.two, Catalogue.open(self.medium, clock=self.clock)):
            found = {entry.name: catalogue.manifests(entry).load().options.leaf_rows for entry in catalogue.streams()}
            assert found == self.model

    def teardown(self) -> None:
        assert self.two[0].check() == []
        # What was dropped leaves the disk in the end, and nothing else.
        self.two[0].sweep(self.clock.now + 2 * GRACE_SECONDS)
        on_disk = {name.split("/")[1] for name in self.medium.names("streams/")}
        assert on_disk == {entry.id for entry in self.two[0].streams()}


TestCatalogues = Catalogues.TestCase
TestCatalogues.settings = settings(max_examples=scaled(15), stateful_step_count=40)
