"""The log of deltas by itself, with the simplest state there is: a list of words."""

from __future__ import annotations

import errno
import itertools
import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from support.media.crash import RecordingMedium
from support.streams.manifests import Hand
from tidelog.model.errors import (
    ConflictError,
    CorruptionError,
    ExistsError,
    NewerReleaseError,
    NotFoundError,
    StorageError,
)
from tidelog.storage.read.check import Finding
from tidelog.store.log.delta_log import CHECKPOINT_AFTER, DeltaLog, Ledger

GRACE = 100.0
MARK = "log/newest"


@dataclass(frozen=True)
class Words:
    number: int = 0
    words: tuple[str, ...] = ()


class WordLedger(Ledger[Words, str]):
    kind = "words"

    def empty(self) -> Words:
        return Words()

    def apply(self, state: Words, change: str, number: int, at: float) -> Words:
        if change in state.words:
            raise ConflictError(f"{change} is there")
        return Words(number, (*state.words, change))

    def change_to_dict(self, change: str) -> dict[str, Any]:
        return {"word": change}

    def change_from_dict(self, values: dict[str, Any]) -> str:
        return str(values["word"])

    def state_to_dict(self, state: Words) -> dict[str, Any]:
        return {"words": list(state.words)}

    def state_from_dict(self, values: dict[str, Any], number: int) -> Words:
        return Words(number, tuple(values["words"]))


@pytest.fixture
def medium() -> RecordingMedium:
    medium = RecordingMedium()
    medium.make_directory("log")
    return medium


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def log(medium: RecordingMedium, clock: Hand) -> DeltaLog[Words, str]:
    log = another(medium, clock)
    log.create("w1")
    return log


def another(medium: RecordingMedium, clock: Hand) -> DeltaLog[Words, str]:
    """The same log as another process would see it, with nothing remembered."""
    return DeltaLog(medium, "log", WordLedger(), clock=clock)


def words(count: int) -> tuple[str, ...]:
    return tuple(f"w{i}" for i in range(1, count + 1))


def fill(log: DeltaLog[Words, str], upto: int) -> None:
    while log.load().number < upto:
        log.commit(lambda state: f"w{state.number + 1}")


def name(number: int) -> str:
    return f"log/{number:020d}.json"


def content_of(medium: RecordingMedium, path: str) -> bytes:
    with medium.open(path) as file:
        return file.read(0, file.size())


def overwrite(medium: RecordingMedium, path: str, content: bytes) -> None:
    with medium.open(path, writable=True) as file:
        file.truncate(0)
        file.write(0, content)


def checkpoints(medium: RecordingMedium, upto: int) -> list[int]:
    return [i for i in range(1, upto + 1) if "state" in json.loads(content_of(medium, name(i)))]


class TestReadingAndCommitting:
    def test_nothing_is_there_before_the_first_commit(self, medium: RecordingMedium, clock: Hand) -> None:
        log = another(medium, clock)
        assert not log.exists()
        with pytest.raises(NotFoundError, match="there is no words in log"):
            log.load()
        with pytest.raises(NotFoundError):
            log.commit(lambda state: "w1")
        assert log.check() == [Finding("log", "there is no words")]

    def test_creating_twice_is_refused(self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]) -> None:
        with pytest.raises(ExistsError, match="already"):
            another(medium, clock).create("other")
        assert log.load().words == ("w1",)

    @pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18, 32, 33, 50])
    def test_all_commits_are_read_back(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], count: int
    ) -> None:
        watcher = another(medium, clock)
        watcher.load()
        fill(log, count)
        for each in (log, watcher, another(medium, clock)):
            assert each.load() == Words(count, words(count))
            assert each.check() == []

    def test_small_states_have_a_checkpoint_every_sixteenth_time(
        self, medium: RecordingMedium, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 40)
        assert checkpoints(medium, 40) == [1, 17, 33]
        named = [json.loads(content_of(medium, name(i)))["checkpoint"] for i in (1, 2, 16, 17, 18, 33, 34)]
        assert named == [None, 1, 1, 1, 17, 17, 33]

    def test_checkpoints_of_large_states_are_as_long_as_the_deltas_between_them(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        for i in range(2, 301):
            log.commit(lambda state, i=i: f"w{i}" + "x" * 4000)
        found = checkpoints(medium, 300)
        sizes = {i: len(content_of(medium, name(i))) for i in range(1, 301)}
        for before, after in itertools.pairwise(found[1:]):
            deltas = [sizes[i] + 8192 for i in range(before + 1, after)]
            assert sum(deltas) >= sizes[before] > sum(deltas[:-1]) or after - before == CHECKPOINT_AFTER
        assert max(after - before for before, after in itertools.pairwise(found)) > 2 * CHECKPOINT_AFTER
        # Whoever comes later goes on where the others would.
        late = another(medium, clock)
        for i in range(301, 401):
            (late if i % 2 else log).commit(lambda state, i=i: f"w{i}" + "x" * 4000)
        assert len(checkpoints(medium, 400)) > len(found)
        assert log.check() == []
        assert another(medium, clock).load() == log.load()

    def test_a_reader_reads_one_checkpoint_and_what_follows(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(log, 40)
        opened: list[str] = []
        original = medium.open
        monkeypatch.setattr(
            medium, "open", lambda path, writable=False: opened.append(path) or original(path, writable)
        )
        assert another(medium, clock).load().number == 40
        assert opened == [name(40), *(name(i) for i in range(33, 40)), MARK]

    def test_nothing_to_change(self, medium: RecordingMedium, log: DeltaLog[Words, str]) -> None:
        before = len(medium.log)
        assert log.commit(lambda state: None) == Words(1, ("w1",))
        assert len(medium.log) == before

    def test_a_change_may_refuse(self, medium: RecordingMedium, log: DeltaLog[Words, str]) -> None:
        def refuse(state: Words) -> str:
            raise KeyError("no")

        before = len(medium.log)
        with pytest.raises(KeyError):
            log.commit(refuse)
        with pytest.raises(ConflictError):
            log.commit(lambda state: "w1")
        assert len(medium.log) == before

    def test_whoever_comes_second_decides_again(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        seen: list[int] = []
        other = another(medium, clock)

        def change(state: Words) -> str:
            seen.append(state.number)
            if len(seen) < 4:
                other.commit(lambda theirs: f"theirs{theirs.number}")
            return f"ours{state.number}"

        assert log.commit(change).words == ("w1", "theirs1", "theirs2", "theirs3", "ours4")
        assert seen == [1, 2, 3, 4]
        assert log.check() == []
        assert not [each for each in medium.names("log/") if each.endswith(".tmp")]

    def test_a_change_may_commit_to_its_own_log(self, log: DeltaLog[Words, str]) -> None:
        def change(state: Words) -> str:
            if "inner" not in state.words:
                log.commit(lambda inner: "inner")
            return "outer"

        assert log.commit(change).words == ("w1", "inner", "outer")

    def test_a_link_that_is_reported_as_a_collision_is_recognised(
        self, medium: RecordingMedium, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = medium.link
        monkeypatch.setattr(medium, "link", lambda source, target: original(source, target) and False)
        calls: list[int] = []
        assert log.commit(lambda state: calls.append(state.number) or "once").words == ("w1", "once")
        assert calls == [1]

    def test_threads_that_share_a_log(self, log: DeltaLog[Words, str]) -> None:
        def work(thread: int) -> None:
            for i in range(10):
                log.commit(lambda state, word=f"{thread}.{i}": word)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(log.load().words[1:]) == sorted(f"{thread}.{i}" for thread in range(4) for i in range(10))

    def test_threads_with_a_log_each(self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]) -> None:
        def work(thread: int) -> None:
            own = another(medium, clock)
            for i in range(10):
                made = own.commit(lambda state, word=f"{thread}.{i}": word)
                assert made.words[-1] == f"{thread}.{i}"

        threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(log.load().words[1:]) == sorted(f"{thread}.{i}" for thread in range(4) for i in range(10))
        assert log.check() == []


class TestErrorsOfTheMedium:
    @pytest.mark.parametrize("kind", ["create", "write", "sync", "link"])
    def test_before_the_link_nothing_is_committed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], kind: str
    ) -> None:
        fault = medium.inject(kind, errno=errno.ENOSPC)
        with pytest.raises(StorageError) as caught:
            log.commit(lambda state: "w2")
        assert fault.fired == 1
        assert caught.value.errno == errno.ENOSPC
        for each in (log, another(medium, clock)):
            assert each.load().words == ("w1",)
        assert medium.names("log/") == [name(1)]
        assert log.commit(lambda state: "w2").words == words(2)

    def test_names_that_cannot_be_synced_leave_the_outcome_open_and_say_so(
        self, medium: RecordingMedium, log: DeltaLog[Words, str]
    ) -> None:
        medium.inject("sync_names")
        with pytest.raises(
            StorageError, match=r"committed for all who read it now, but a crash .* may undo it"
        ) as caught:
            log.commit(lambda state: "w2")
        assert caught.value.errno == errno.EIO
        assert log.load().words == words(2)

    def test_a_temporary_file_that_stays_does_no_harm(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        medium.inject("remove")
        assert log.commit(lambda state: "w2").words == words(2)
        assert len(medium.names("log/")) == 4
        assert log.check() == []
        clock.now += GRACE - 1
        assert log.prune(GRACE) == []
        clock.now += 1
        assert len(log.prune(GRACE)) == 1
        assert medium.names("log/") == [name(1), name(2), MARK]
        assert another(medium, clock).load().words == words(2)

    def test_a_temporary_file_swept_under_a_slow_commit_is_written_again(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        swept: list[str] = []

        def before(kind: str, path: str) -> None:
            if kind == "link" and not swept:
                clock.now += GRACE
                swept.extend(another(medium, clock).prune(GRACE))

        medium.before = before
        assert log.commit(lambda state: "w2").words == words(2)
        assert len(swept) == 1


class TestDamage:
    def test_each_damaged_byte_is_noticed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 2)
        content = content_of(medium, name(2))
        damaged = [content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in range(len(content))]
        for version in (*damaged, b"", content[:-1], content + b" "):
            overwrite(medium, name(2), version)
            with pytest.raises(CorruptionError, match=name(2)):
                another(medium, clock).load()
            assert [finding.file for finding in log.check()] == [name(2)]

    def test_a_newer_format_is_not_called_damage(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.store.log.documents.FORMAT", 4)
            log.commit(lambda state: "w2")
        with pytest.raises(NewerReleaseError, match="has format version 4, this release reads version 3: the"):
            another(medium, clock).load()

    @pytest.mark.parametrize("number", [17, 20])
    def test_a_missing_file_is_named(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], number: int
    ) -> None:
        fill(log, 24)
        medium.remove(name(number))
        with pytest.raises(CorruptionError, match=f"{name(number)}.*although {name(24)} builds on it"):
            another(medium, clock).load()
        assert name(number) in [finding.file for finding in log.check()]

    def test_a_file_of_another_log_is_noticed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        medium.make_directory("other")
        other = DeltaLog(medium, "other", WordLedger(), clock=clock)
        other.create("foreign")
        fill(log, 2)
        fill(other, 2)
        overwrite(medium, name(2), content_of(medium, "other/00000000000000000002.json"))
        with pytest.raises(CorruptionError, match="in 'other'; expected number 2 of a 'words' in 'log'"):
            another(medium, clock).load()
        overwrite(medium, name(2), content_of(medium, name(1)))
        with pytest.raises(CorruptionError, match="is number 1 of a 'words' in 'log'; expected number 2"):
            another(medium, clock).load()

    def test_a_file_of_the_same_log_in_another_store_is_noticed(self, clock: Hand) -> None:
        logs = []
        for first in ("w1", "v1"):
            medium = RecordingMedium()
            medium.make_directory("log")
            log = another(medium, clock)
            log.create(first)
            logs.append((medium, log))
        (mine, log), (theirs, other) = logs
        for number in range(2, 20):
            for each in (log, other):
                each.commit(lambda state, number=number: f"w{number}")
            own = content_of(mine, name(number))
            overwrite(mine, name(number), content_of(theirs, name(number)))
            with pytest.raises(CorruptionError, match=r"another file|was not written behind"):
                another(mine, clock).load()
            assert another(mine, clock).check() != []
            overwrite(mine, name(number), own)

    @pytest.mark.parametrize("upto", [2, 3, 16, 17, 18, 40])
    def test_a_lost_last_file_is_noticed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], upto: int
    ) -> None:
        fill(log, upto)
        medium.remove(name(upto))
        for each in (another(medium, clock), log):
            with pytest.raises(CorruptionError, match=f"{name(upto)} is missing"):
                each.load()
            with pytest.raises(CorruptionError, match=f"{name(upto)} is missing"):
                each.commit(lambda state: "x")
        assert any("is missing" in finding.message for finding in log.check())
        assert not medium.exists(name(upto))

    def test_that_all_files_are_lost_is_noticed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 3)
        for number in (1, 2, 3):
            medium.remove(name(number))
        with pytest.raises(CorruptionError, match="all files of the words in log are missing"):
            another(medium, clock).load()
        with pytest.raises(CorruptionError, match="all files"):
            another(medium, clock).create("w1")

    def test_a_mark_that_is_lost_damaged_or_old_does_no_harm(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 3)
        old = content_of(medium, MARK)
        fill(log, 6)
        new = content_of(medium, MARK)
        flipped = [new[:at] + bytes([new[at] ^ 1]) + new[at + 1 :] for at in range(len(new)) if new[at]]
        for content in (b"", old, bytes(len(new)), new[:40], *flipped):
            overwrite(medium, MARK, content)
            assert another(medium, clock).load().words == words(6)
            assert log.check() == []
        medium.remove(MARK)
        assert another(medium, clock).load().words == words(6)
        another(medium, clock).commit(lambda state: "w7")
        medium.remove(name(7))
        with pytest.raises(CorruptionError, match="is missing"):
            another(medium, clock).load()

    def test_that_a_mark_cannot_be_written_does_no_harm(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 3)
        fault = medium.inject("write", name=MARK, errno=errno.ENOSPC, lasting=True)
        fill(log, 5)
        assert fault.fired == 2
        assert another(medium, clock).load().words == words(5)

    def test_values_that_make_no_sense(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(WordLedger, "change_to_dict", lambda self, change: {"wrod": change})
            log.commit(lambda state: "w2")
        with pytest.raises(CorruptionError, match=f"{name(2)} makes no sense"):
            another(medium, clock).load()

    def test_a_checkpoint_that_differs_from_its_deltas_is_found(
        self, medium: RecordingMedium, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(log, 16)
        with monkeypatch.context() as patch:
            patch.setattr(WordLedger, "state_to_dict", lambda self, state: {"words": list(state.words[:-1])})
            log.commit(lambda state: "w17")
        assert [finding.file for finding in log.check()] == [name(17)]

    def test_foreign_files_are_reported_and_left_alone(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        medium.create("log/notes.txt").close()
        assert [finding.file for finding in log.check()] == ["log/notes.txt"]
        clock.now += 10 * GRACE
        log.prune(GRACE)
        assert medium.exists("log/notes.txt")


class TestPlanting:
    def test_a_copy_begins_with_a_state_of_another_log(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 20)
        medium.make_directory("copy")
        copy = DeltaLog(medium, "copy", WordLedger(), clock=clock)
        copy.plant(log.load(), clock.now)
        for each in (copy, DeltaLog(medium, "copy", WordLedger(), clock=clock)):
            assert each.load() == Words(20, words(20))
            assert each.check() == []
        fill(copy, 60)
        assert DeltaLog(medium, "copy", WordLedger(), clock=clock).load() == Words(60, words(60))
        assert copy.check() == []
        with pytest.raises(ExistsError):
            copy.plant(log.load(), clock.now)
        clock.now += GRACE
        copy.prune(GRACE)
        assert medium.names("copy/")[0] == "copy/00000000000000000036.json"
        assert copy.check() == []

    def test_a_copy_of_the_first_state(self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]) -> None:
        medium.make_directory("copy")
        copy = DeltaLog(medium, "copy", WordLedger(), clock=clock)
        copy.plant(log.load(), clock.now)
        fill(copy, 3)
        assert DeltaLog(medium, "copy", WordLedger(), clock=clock).load() == Words(3, words(3))
        assert copy.check() == []

    def test_a_missing_beginning_is_noticed(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 20)
        medium.remove(name(1))
        assert [finding.file for finding in log.check()] == [name(1)]


class TestPruning:
    def test_files_before_the_last_two_checkpoints_go_after_the_grace_period(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        start = clock.now
        for number in range(2, 60):
            clock.now = start + number
            log.commit(lambda state: f"w{state.number + 1}")
        assert log.prune(GRACE) == []
        # Checkpoint 17 stands in for what is before it, and was committed 17 seconds after the start.
        assert log.prune(GRACE, start + 17 + GRACE - 0.5) == []
        assert log.prune(GRACE, start + 17 + GRACE) == [name(i) for i in range(1, 17)]
        assert log.prune(GRACE, start + 1000 * GRACE) == [name(i) for i in range(17, 33)]  # 33 and 49 are the last two
        assert log.prune(GRACE, start + 1000 * GRACE) == []
        for each in (log, another(medium, clock)):
            assert each.load() == Words(59, words(59))
            assert each.check() == []

    def test_a_reader_that_slept_through_pruning(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        sleeper = another(medium, clock)
        assert sleeper.load().number == 1
        fill(log, 60)
        clock.now += GRACE
        assert log.prune(GRACE)
        assert sleeper.load() == Words(60, words(60))

    def test_a_reader_overtaken_between_listing_and_reading(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(log, 5)
        listed = medium.names("log/")
        fill(log, 60)
        clock.now += GRACE
        log.prune(GRACE)
        answers = [listed]
        original = medium.names
        monkeypatch.setattr(medium, "names", lambda prefix="": answers.pop() if answers else original(prefix))
        assert another(medium, clock).load() == Words(60, words(60))
        assert not answers

    def test_a_commit_so_late_that_its_number_was_pruned_is_made_behind_the_others(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        # The name it wants is free again, so linking succeeds, into a place where no reader will ever look.
        sleeper = another(medium, clock)
        reader = another(medium, clock)
        assert reader.load().number == 1
        seen: list[int] = []

        def change(state: Words) -> str:
            seen.append(state.number)
            if len(seen) == 1:
                fill(log, 60)
                clock.now += GRACE
                assert name(2) in log.prune(GRACE)
            return "late"

        assert sleeper.commit(change).words == (*words(60), "late")
        assert seen == [1, 60]
        for each in (log, reader, sleeper, another(medium, clock)):
            assert each.load().words == (*words(60), "late")
        assert not medium.exists(name(2))
        assert log.check() == []

    def test_a_reader_that_meets_such_a_straggler_does_not_believe_it(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        reader = another(medium, clock)
        reader.load()
        fill(log, 2)
        straggler = content_of(medium, name(2))  # builds on what the reader knows
        fill(log, 60)
        clock.now += GRACE
        log.prune(GRACE)
        with medium.create(name(2)) as file:
            file.write(0, straggler)
        assert reader.load() == Words(60, words(60))
        assert log.check() == []
        assert log.prune(GRACE) == [name(2)]

    def test_a_commit_whose_outcome_cannot_be_known_says_so(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        sleeper = another(medium, clock)
        sleeper.load()
        done: list[bool] = []

        def before(kind: str, path: str) -> None:
            # Between the link of number 2 and the removal of its temporary file, a long time passes.
            if kind == "remove" and path.endswith(".tmp") and not done:
                done.append(True)
                fill(log, 60)
                clock.now += GRACE
                log.prune(GRACE)

        medium.before = before
        with pytest.raises(StorageError, match="outcome is unknown"):
            sleeper.commit(lambda state: "w2")

    def test_an_interrupted_pruning_is_finished_by_the_next(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 60)
        clock.now += GRACE
        for number in (3, 17, 20):  # power was lost, and some names came back
            medium.remove(name(number))
        assert log.check() == []
        log.prune(GRACE)
        log.prune(GRACE)
        assert medium.names("log/") == [*(name(i) for i in range(33, 61)), MARK]
        assert another(medium, clock).load().number == 60

    def test_an_interrupted_pruning_is_finished_though_its_checkpoint_came_not_back(
        self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]
    ) -> None:
        fill(log, 70)
        for number in range(4, 33):  # checkpoint 17 among them; 1 to 3 came back
            medium.remove(name(number))
        # By the clock nothing may go yet, but that 17 is gone says that all before it might.
        assert log.prune(GRACE) == [name(1), name(2), name(3)]
        assert log.check() == []

    def test_two_that_prune_at_once(self, medium: RecordingMedium, clock: Hand, log: DeltaLog[Words, str]) -> None:
        fill(log, 2 * CHECKPOINT_AFTER + 2)
        clock.now += GRACE
        done: list[bool] = []

        def before(kind: str, path: str) -> None:
            if kind == "remove" and path == name(3) and not done:
                done.append(True)
                another(medium, clock).prune(GRACE)

        medium.before = before
        log.prune(GRACE)
        assert done
        assert medium.names("log/")[0] == name(17)
