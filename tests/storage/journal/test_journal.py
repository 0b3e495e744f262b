from __future__ import annotations

import errno
import mmap
import random
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.media.crash import RecordingMedium, kills, power_losses, random_power_losses
from support.media.operations import Sync
from support.profiles import scaled
from tidelog.model.errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    InputError,
    NewerReleaseError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from tidelog.storage.journal import format
from tidelog.storage.journal.journal import LARGEST_RECORD, Journal, read_journal
from tidelog.storage.media.file_medium import FileMedium
from tidelog.storage.media.medium import Medium

HEAD = 32
"""Bytes of a record before its payload."""


def layout(salt: bytes, payloads: list[bytes], *, synced: bool = False, kept: int = 0) -> bytes:
    """The bytes of a journal, written from the description of the format alone.

    If ``synced``, each record was durable when the next one was written; else the first ones were that were ``kept``
    when the journal was opened again.
    """
    header = bytearray(b"TLJOURNL" + (1).to_bytes(4, "little") + bytes(4) + salt)
    header[12:16] = zlib.crc32(header).to_bytes(4, "little")
    out = bytes(header) * 2
    checksum = zlib.crc32(salt)
    durable = len(out)
    for number, payload in enumerate(payloads, 1):
        if synced or number - 1 == kept:
            durable = len(out)
        head = struct.pack("<IIQQI", len(payload), zlib.crc32(payload), number, durable, checksum)
        checksum = zlib.crc32(salt + head)
        out += head + checksum.to_bytes(4, "little") + payload
        out += bytes(-len(out) % 8)
    return out


def head_of(number: int, size: int, payload: bytes = b"", chain: int = 0) -> bytes:
    """The head of a record of the journal with a salt of zeros, and its checksum."""
    head = struct.pack("<IIQQI", size, zlib.crc32(payload), number, 64, chain)
    return head + zlib.crc32(bytes(16) + head).to_bytes(4, "little")


CHAIN = int.from_bytes(layout(bytes(16), [b"one", b"two"])[-12:-8], "little")
"""The checksum of the second of two records."""


def salt_of(medium: Medium, name: str = "j") -> bytes:
    return content(medium, name)[16:32]


def content(medium: Medium, name: str = "j") -> bytes:
    with medium.open(name) as file:
        return file.read(0, file.size())


def put(medium: Medium, data: bytes, name: str = "j") -> None:
    with medium.create(name) as file:
        file.write(0, data)


def payloads_of(journal: object) -> list[bytes]:
    records = list(journal.records())  # type: ignore[attr-defined]
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    return [record.payload for record in records]


def reread(medium: Medium) -> list[bytes]:
    with read_journal(medium, "j") as reader:
        return payloads_of(reader)


@pytest.fixture(params=["memory", "files", "mapped files"])
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Medium:
    if request.param == "memory":
        return RecordingMedium()
    return FileMedium(tmp_path, mapped=request.param == "mapped files")


class TestFormat:
    PAYLOADS = [b"", b"1", b"seven..", b"eight...", b"nine.....", bytes(1000), b"x" * 100_001]  # noqa: RUF012

    def test_the_bytes_are_as_described(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            for payload in self.PAYLOADS:
                journal.append(payload)
            assert journal.counters.bytes == len(content(medium))
        assert content(medium) == layout(salt_of(medium), self.PAYLOADS)

    def test_bytes_as_described_are_read(self, medium: Medium) -> None:
        put(medium, layout(b"sixteen bytes...", self.PAYLOADS))
        assert reread(medium) == self.PAYLOADS
        with Journal.open(medium, "j") as journal:
            assert payloads_of(journal) == self.PAYLOADS
            journal.append(b"more")
        assert content(medium) == layout(b"sixteen bytes...", [*self.PAYLOADS, b"more"], kept=len(self.PAYLOADS))

    def test_every_journal_has_its_own_salt(self, medium: Medium) -> None:
        for name in ("a", "b"):
            Journal.create(medium, name).close()
        assert salt_of(medium, "a") != salt_of(medium, "b")

    def test_a_newer_version_is_refused_and_left_alone(self, medium: Medium) -> None:
        header = bytearray(b"TLJOURNL" + (2).to_bytes(4, "little") + bytes(4) + bytes(16))
        header[12:16] = zlib.crc32(header).to_bytes(4, "little")
        put(medium, bytes(header) * 2 + b"what later versions write")
        before = content(medium)
        for use in (Journal.open, read_journal):
            with pytest.raises(NewerReleaseError, match="version 2, this release reads version 1; use a newer"):
                use(medium, "j")
        assert content(medium) == before


class TestWriting:
    def test_records_come_back_in_order_with_their_numbers(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            assert [journal.append(bytes([i]) * i) for i in range(50)] == list(range(1, 51))
            assert journal.last == 50
            assert payloads_of(journal) == [bytes([i]) * i for i in range(50)]
        assert reread(medium) == [bytes([i]) * i for i in range(50)]

    def test_records_before_the_call_are_iterated_while_others_are_appended(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            journal.append(b"a")
            journal.append(b"b")
            records = journal.records()
            journal.append(b"c")
            assert next(records).payload == b"a"
            journal.append(b"d")
            assert [record.payload for record in records] == [b"b"]

    def test_any_buffer_is_a_payload_and_may_be_reused(self, medium: Medium) -> None:
        numbers = np.arange(5, dtype=np.int32)
        with Journal.create(medium, "j") as journal:
            for payload in (
                bytearray(b"one"),
                memoryview(b"a view")[2:],
                numbers,
                np.zeros((2, 0)),
                pa.py_buffer(b"3"),
            ):
                journal.append(payload)
            numbers[:] = 0
            assert payloads_of(journal) == [b"one", b"view", np.arange(5, dtype=np.int32).tobytes(), b"", b"3"]

    def test_records_larger_than_any_buffer(self, medium: Medium) -> None:
        big = random.Random(3).randbytes(3 << 20)
        payloads = [b"small", big, b"", big[: 1 << 20], big[: (1 << 20) - 16], big[: (1 << 19) + 1], b"end"]
        with Journal.create(medium, "j") as journal:
            for payload in payloads:
                journal.append(payload)
            assert payloads_of(journal) == payloads
        with Journal.open(medium, "j") as journal:
            assert journal.last == len(payloads)
        assert reread(medium) == payloads

    def test_oversized_records_are_refused_and_change_nothing(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            journal.append(b"before")
            with (
                mmap.mmap(-1, LARGEST_RECORD + 1) as oversized,  # never touched: costs no memory
                pytest.raises(InputError, match="at most 2147483648 bytes"),
            ):
                journal.append(oversized)
            journal.append(b"after")
            assert payloads_of(journal) == [b"before", b"after"]

    def test_create_is_exclusive(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            journal.append(b"x")
        with pytest.raises(ExistsError):
            Journal.create(medium, "j")
        assert reread(medium) == [b"x"]

    def test_a_missing_journal_is_not_found(self, medium: Medium) -> None:
        for use in (Journal.open, read_journal):
            with pytest.raises(NotFoundError):
                use(medium, "j")

    def test_journals_in_directories(self, medium: Medium) -> None:
        medium.make_directory("late/tail")
        with Journal.create(medium, "late/tail/j") as journal:
            journal.append(b"x")
        with Journal.open(medium, "late/tail/j") as journal:
            assert payloads_of(journal) == [b"x"]

    def test_a_closed_journal_refuses_records(self, medium: Medium) -> None:
        journal = Journal.create(medium, "j")
        journal.append(b"x")
        journal.close()
        journal.close()
        with pytest.raises(ClosedError, match="was closed"):
            journal.append(b"y")
        with pytest.raises(ClosedError):
            list(journal.records())
        assert reread(medium) == [b"x"]

    def test_opening_for_reading_changes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "j"
        path.write_bytes(layout(bytes(16), [b"good"]) + b"torn")
        path.chmod(0o444)
        before = path.read_bytes(), path.stat().st_mtime_ns
        with read_journal(FileMedium(tmp_path), "j") as reader:
            assert payloads_of(reader) == [b"good"]
            assert reader.recovery.dropped_bytes == 4
            with pytest.raises(ReadOnlyError):
                reader._file.truncate(0)
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before


class TestDurability:
    def test_sync_covers_all_before_it_and_costs_nothing_twice(self) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j")
        created = medium.counts["sync"]
        assert created == 1
        for i in range(5):
            journal.append(bytes([i]))
        assert journal.durable == 0
        journal.sync(3)
        assert journal.durable == 5
        journal.sync()
        journal.sync(5)
        journal.sync(0)
        assert medium.counts["sync"] == created + 1
        assert (journal.counters.records, journal.counters.syncs) == (5, 1)
        journal.append(b"x")
        journal.close()
        assert medium.counts["sync"] == created + 2

    @pytest.mark.parametrize("room", [0, 200, 1 << 16])
    def test_durable_appends_survive_whatever_happens(self, room: int) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j", room=room)
        acknowledged: list[bytes] = []
        for i, size in enumerate([10, 0, 90, 9000, 3, 8192, 8193, 100, 1]):
            if i in (2, 7):
                acknowledged.append(b"waits for the next one")
                journal.append(acknowledged[-1])
            acknowledged.append(bytes([i + 1]) * size)
            assert journal.append_durably(acknowledged[-1]) == len(acknowledged)
            assert journal.durable == len(acknowledged)
            medium.mark(len(acknowledged))
        for crash in power_losses(medium):
            if crash.marks:
                found = payloads_of(Journal.open(crash.medium(), "j"))
                assert len(found) >= crash.marks[-1], crash
                assert found == acknowledged[: len(found)], crash

    def test_short_durable_appends_into_room_are_written_through(self) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j", room=1 << 16)
        journal.append_durably(b"makes room")
        for _ in range(3):
            journal.append_durably(b"x")
        journal.append(b"is behind")
        journal.append_durably(b"x")
        syncs = [operation for operation in medium.log if isinstance(operation, Sync)]
        assert [sync.since > 0 for sync in syncs] == [False, False, True, True, True, False]

    def test_a_record_that_does_not_exist_cannot_be_waited_for(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            journal.append(b"x")
            with pytest.raises(InputError, match="has no record 2: its last one is 1"):
                journal.sync(2)

    def test_create_makes_file_and_name_durable(self) -> None:
        medium = RecordingMedium()
        medium.make_directory("d")
        Journal.create(medium, "d/j")
        for crash in random_power_losses(medium, 50, seed=1, positions=[len(medium.log)]):
            assert Journal.open(crash.medium(), "d/j").recovery.reason is None


class TestGroupCommit:
    THREADS = 8

    def test_followers_share_the_next_sync(self) -> None:
        medium, journal, gate = self.gated_journal()
        threads = [self.start(lambda: journal.sync(journal.append(b"leader")))]
        gate.reached.acquire()  # the leader is inside its sync
        threads += [
            self.start(lambda i=i: journal.sync(journal.append(b"%d" % i)))  # type: ignore[misc]
            for i in range(self.THREADS - 1)
        ]
        for _ in range(self.THREADS - 1):
            gate.waiting.acquire()
        assert journal.last == self.THREADS
        assert journal.durable == 0
        gate.open.set()
        self.join(*threads)
        assert journal.durable == self.THREADS
        assert journal.counters.syncs == 2  # the leader's, and one for all followers
        assert medium.counts["sync"] == 3  # with that of the creation

    def test_a_sync_under_way_does_not_cover_later_records(self) -> None:
        medium, journal, gate = self.gated_journal()
        first = self.start(lambda: (journal.append(b"first"), journal.sync(1), done.append(journal.durable)))
        done: list[int] = []
        gate.reached.acquire()
        journal.append(b"second")
        gate.open.set()
        self.join(first)
        assert done == [1]
        assert journal.durable == 1
        for crash in random_power_losses(medium, 200, seed=5, positions=[len(medium.log)]):
            assert Journal.open(crash.medium(), "j").last >= 1

    def test_a_failed_sync_fails_leader_and_followers(self) -> None:
        medium, journal, gate = self.gated_journal()
        fault = medium.inject("sync", errno=errno.EIO)
        errors: list[StorageError] = []

        def work() -> None:
            try:
                journal.sync(journal.append(b"x"))
            except StorageError as error:
                errors.append(error)

        threads = [self.start(work)]
        gate.reached.acquire()
        threads += [self.start(work) for _ in range(3)]
        for _ in range(3):
            gate.waiting.acquire()
        gate.open.set()
        self.join(*threads)
        assert fault.fired == 1
        assert len(errors) == 4
        assert all(error.errno == errno.EIO for error in errors)
        assert journal.durable == 0

    def test_an_interrupted_leader_leaves_the_lead_to_a_follower(self) -> None:
        _, journal, gate = self.gated_journal()
        gate.interrupt_first = True
        interrupted: list[BaseException] = []

        def lead() -> None:
            try:
                journal.sync(journal.append(b"leader"))
            except KeyboardInterrupt as interrupt:
                interrupted.append(interrupt)

        leader = self.start(lead)
        gate.reached.acquire()
        follower = self.start(lambda: journal.sync(journal.append(b"follower")))
        gate.waiting.acquire()
        gate.open.set()
        self.join(leader, follower)
        assert len(interrupted) == 1
        assert journal.durable == 2
        journal.sync(journal.append(b"goes on"))
        assert journal.durable == 3

    def test_many_threads_lose_nothing(self, tmp_path: Path) -> None:
        with Journal.create(FileMedium(tmp_path), "j") as journal:
            acknowledged: list[tuple[int, bytes]] = []

            def work(thread: int) -> None:
                for i in range(10):
                    payload = b"%d/%d" % (thread, i) * (thread + 1)
                    number = journal.append(payload)
                    journal.sync(number)
                    assert journal.durable >= number
                    acknowledged.append((number, payload))

            threads = [self.start(lambda t=t: work(t)) for t in range(self.THREADS)]  # type: ignore[misc]
            self.join(*threads)
            assert journal.counters.syncs <= journal.last
        assert dict(acknowledged) == dict(enumerate(reread(FileMedium(tmp_path)), 1))
        assert len(acknowledged) == 10 * self.THREADS

    @staticmethod
    def start(work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    @staticmethod
    def join(*threads: threading.Thread) -> None:
        for thread in threads:
            thread.join(240)
            assert not thread.is_alive(), "a thread waits for a sync that nobody makes"

    @staticmethod
    def gated_journal() -> tuple[RecordingMedium, Journal, Gate]:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j")
        gate = Gate()
        medium.before = gate.before
        journal._syncing = gate  # observes each thread that is about to wait for the sync under way
        return medium, journal, gate


class Gate:
    """Stops the first sync until ``open``; ``reached`` and ``waiting`` tell who has arrived where."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Semaphore(0)
        self.waiting = threading.Semaphore(0)
        self.interrupt_first = False
        self._first = True
        self._syncing = threading.Lock()

    def before(self, kind: str, name: str) -> None:
        if kind == "sync" and self._first:
            self._first = False
            self.reached.release()
            assert self.open.wait(240)
            if self.interrupt_first:
                raise KeyboardInterrupt

    def __enter__(self) -> None:
        if not self._syncing.acquire(blocking=False):
            self.waiting.release()
            self._syncing.acquire()

    def __exit__(self, *_: object) -> None:
        self._syncing.release()


class TestFailures:
    def test_a_failed_write_stops_the_journal_and_keeps_what_was_acknowledged(self) -> None:
        for keep in (0, 5, 16, 30, 40):
            medium = RecordingMedium()
            journal = Journal.create(medium, "j")
            journal.sync(journal.append(b"safe"))
            fault = medium.inject("write", errno=errno.ENOSPC, keep=keep)
            with pytest.raises(StorageError, match="cannot write") as failure:
                journal.append(b"a record that does not fit")
            assert fault.fired == 1
            assert failure.value.errno == errno.ENOSPC
            for _ in range(2):
                with pytest.raises(
                    StorageError, match=r"takes no more records after a failure .*free space"
                ) as refusal:
                    journal.append(b"x")
                assert refusal.value.errno == errno.ENOSPC
            journal.sync(1)  # is durable already
            assert journal.last == 1
            journal.close()
            with Journal.open(medium, "j") as again:
                assert payloads_of(again) == [b"safe"]
                assert again.recovery.dropped_bytes == keep
                again.append(b"next")
            assert reread(medium) == [b"safe", b"next"]

    def test_a_failed_write_leaves_earlier_records_unacknowledged(self) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j")
        journal.append(b"written")
        medium.inject("write")
        with pytest.raises(StorageError):
            journal.append(b"not")
        with pytest.raises(StorageError, match="after a failure"):
            journal.sync(1)

    @pytest.mark.parametrize("kind", ["write", "sync"])
    def test_a_failed_durable_append_stops_the_journal(self, kind: str) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j", room=1 << 16)
        journal.append_durably(b"safe")
        fault = medium.inject(kind)
        with pytest.raises(StorageError, match="cannot"):
            journal.append_durably(b"unsafe")
        assert fault.fired == 1
        for use in (lambda: journal.append_durably(b"x"), lambda: journal.append(b"x")):
            with pytest.raises(StorageError, match="after a failure"):
                use()
        assert journal.durable == 1
        journal.close()
        assert reread(medium)[0] == b"safe"

    def test_a_failed_sync_is_never_followed_by_an_acknowledgement(self) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j")
        journal.sync(journal.append(b"safe"))
        journal.append(b"unsafe")
        medium.inject("sync", errno=errno.EIO)
        with pytest.raises(StorageError, match="cannot sync"):
            journal.sync()
        for use in (journal.sync, lambda: journal.sync(2), lambda: journal.append(b"x")):
            with pytest.raises(StorageError, match=r"after a failure .*cannot sync"):
                use()
        journal.sync(1)
        assert journal.durable == 1
        journal.close()
        for crash in random_power_losses(medium, 100, seed=2, positions=[len(medium.log)]):
            assert payloads_of(Journal.open(crash.medium(), "j")) in ([b"safe"], [b"safe", b"unsafe"])

    def test_closing_reports_a_sync_that_fails_and_closes_all_the_same(self) -> None:
        medium = RecordingMedium()
        journal = Journal.create(medium, "j")
        journal.append(b"x")
        medium.inject("sync")
        with pytest.raises(StorageError, match="cannot sync"):
            journal.close()
        with pytest.raises(ClosedError):
            journal._file.size()

    @pytest.mark.parametrize("kind", ["write", "sync", "sync_names"])
    @pytest.mark.parametrize("keep", [0, 7, 40])
    def test_a_failed_creation_leaves_an_empty_journal(self, kind: str, keep: int) -> None:
        medium = RecordingMedium()
        medium.inject(kind, keep=keep)
        with pytest.raises(StorageError):
            Journal.create(medium, "j")
        with Journal.open(medium, "j") as journal:
            assert journal.last == 0
            journal.append(b"x")
        assert reread(medium) == [b"x"]

    @pytest.mark.parametrize("kind", ["truncate", "sync", "sync_names"])
    def test_a_failed_recovery_may_be_tried_again(self, kind: str) -> None:
        medium = RecordingMedium()
        put(medium, layout(bytes(16), [b"good"]) + b"torn tail")
        medium.inject(kind)
        with pytest.raises(StorageError):
            Journal.open(medium, "j")
        with Journal.open(medium, "j") as journal:
            assert payloads_of(journal) == [b"good"]


class TestRecovery:
    def test_a_clean_journal_is_reported_clean(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            assert journal.recovery.reason is None
            journal.append(b"12345678")
        with Journal.open(medium, "j") as journal:
            found = journal.recovery
        assert (found.records, found.kept_bytes, found.dropped_bytes) == (1, 64 + HEAD + 8, 0)
        assert found.reason is None
        assert not found.header_damaged

    @pytest.mark.parametrize(
        ("tail", "reason"),
        [
            (b"short", "the file ends inside the head of record 3"),
            (bytes(4096) + b"\1", "found zeros where record 3 should stand"),
            (b"\1" * 64, "found no head of a record where record 3 should stand"),
            (head_of(9, 0), "found record 9 where record 3 should stand"),
            (head_of(3, 0, chain=7), "found record 3 where record 3 should stand"),
            (head_of(3, 100, chain=CHAIN) + b"abc", "should have 100 bytes, but the file ends after 3"),
            (head_of(3, 3, b"abd", CHAIN) + b"abc", "record 3 does not match its checksum"),
            (layout(bytes(15) + b"\1", [b"a", b"b", b"c"])[-40:], "found no head of a record"),
        ],
    )
    def test_what_is_no_record_is_cut_off_and_named(self, medium: Medium, tail: bytes, reason: str) -> None:
        good = layout(bytes(16), [b"one", b"two"])
        put(medium, good + tail)
        with read_journal(medium, "j") as reader:
            assert payloads_of(reader) == [b"one", b"two"]
            assert reason in str(reader.recovery.reason)
            assert f"byte {len(good)} of {len(good + tail)}" in str(reader.recovery.reason)
        assert content(medium) == good + tail
        with Journal.open(medium, "j") as journal:
            found = journal.recovery
            assert (found.records, found.kept_bytes, found.dropped_bytes) == (2, len(good), len(tail))
            assert reason in str(found.reason)
        assert content(medium) == good
        with Journal.open(medium, "j") as journal:
            assert journal.recovery.reason is None

    def test_zeros_behind_the_last_record_are_room_for_more(self, medium: Medium) -> None:
        good = layout(bytes(16), [b"one", b"two"])
        for room in (1, 8, 16, 4096, 3 << 20):
            put(medium, good + bytes(room))
            with read_journal(medium, "j") as reader:
                assert payloads_of(reader) == [b"one", b"two"]
                assert reader.recovery.reason is None
            with Journal.open(medium, "j") as journal:
                assert journal.recovery.dropped_bytes == 0
                journal.append(b"three")
            assert reread(medium) == [b"one", b"two", b"three"]
            medium.remove("j")

    @given(sizes=st.lists(st.integers(0, 300), max_size=30), room=st.sampled_from([1, 64, 500]))
    def test_a_journal_that_makes_room_is_the_same_journal(self, sizes: list[int], room: int) -> None:
        medium = RecordingMedium()
        payloads = [bytes([i]) * size for i, size in enumerate(sizes)]
        with Journal.create(medium, "j", room=room) as journal:
            for payload in payloads:
                journal.append(payload)
                assert len(content(medium)) >= journal.counters.bytes
            salt = salt_of(medium)
        assert content(medium).startswith(layout(salt, payloads))
        assert reread(medium) == payloads
        with Journal.open(medium, "j") as journal:
            assert journal.recovery.dropped_bytes == 0
            journal.append(b"more")
        assert reread(medium) == [*payloads, b"more"]

    @pytest.mark.parametrize("size", range(65))
    def test_a_torn_creation_is_an_empty_journal(self, size: int) -> None:
        whole = layout(b"sixteen bytes...", [])
        for torn in (whole[:size], whole[:size].ljust(64, b"\0")):
            medium = RecordingMedium()
            put(medium, torn)
            assert reread(medium) == []
            assert content(medium) == torn
            with Journal.open(medium, "j") as journal:
                assert journal.last == 0
                if size < 32:
                    assert "creation of the journal was interrupted" in str(journal.recovery.reason)
                journal.append(b"x")
            assert reread(medium) == [b"x"]
            assert content(medium) == layout(salt_of(medium), [b"x"])

    @pytest.mark.parametrize("foreign", [b"hello", b"1234 host\n", b"SQLite format 3\0" + bytes(100), b"\x01" * 64])
    def test_a_file_that_is_no_journal_is_refused_and_left_alone(self, medium: Medium, foreign: bytes) -> None:
        put(medium, foreign)
        for use in (Journal.open, read_journal):
            with pytest.raises(CorruptionError, match="is not a journal, or both copies of its header are damaged"):
                use(medium, "j")
        assert content(medium) == foreign

    @pytest.mark.parametrize("damaged", [0, 9, 20, 32, 45, 63])
    def test_one_damaged_copy_of_the_header_is_repaired(self, medium: Medium, damaged: int) -> None:
        whole = layout(b"sixteen bytes...", [b"x", b"y"])
        data = bytearray(whole)
        data[damaged] ^= 0x10
        put(medium, bytes(data))
        with read_journal(medium, "j") as reader:
            assert reader.recovery.header_damaged
            assert payloads_of(reader) == [b"x", b"y"]
        with Journal.open(medium, "j") as journal:
            assert journal.recovery.header_damaged
            assert journal.recovery.reason is None
        assert content(medium) == whole

    def test_a_last_record_without_its_padding_is_whole(self, medium: Medium) -> None:
        whole = layout(bytes(16), [b"1234567812345"])
        put(medium, whole.rstrip(b"\0"))
        with Journal.open(medium, "j") as journal:
            assert journal.recovery.reason is None
            journal.append(b"next")
        assert content(medium) == layout(bytes(16), [b"1234567812345", b"next"], kept=1)

    def test_records_of_an_earlier_life_are_not_continued(self, medium: Medium) -> None:
        # Record 2 is lost, record 3 is not; a new record 2 of the same length then stands before the old record 3.
        old = layout(bytes(16), [b"one", b"two", b"three"])
        new = layout(bytes(16), [b"one", b"TWO"])
        put(medium, new + old[len(new) :])
        assert reread(medium) == [b"one", b"TWO"]
        with Journal.open(medium, "j") as journal:
            assert "found record 3 where record 3 should stand" in str(journal.recovery.reason)

    def test_records_that_vanish_while_they_are_read_are_an_error(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            for i in range(3):
                journal.append(bytes([i]) * 8)
            with medium.open("j", writable=True) as file:
                file.write(64 + HEAD + 8 + HEAD, b"damage")
            records: Iterator[object] = journal.records()
            next(records)
            with pytest.raises(CorruptionError, match="had 3 records when it was opened, now it ends after 1"):
                next(records)

    def test_a_journal_is_read_while_it_is_written(self, medium: Medium) -> None:
        with Journal.create(medium, "j") as journal:
            journal.append(b"a")
            with read_journal(medium, "j") as reader:
                journal.append(b"b")
                assert payloads_of(reader) == [b"a"]
            assert reread(medium) == [b"a", b"b"]


class TestDamage:
    """Whatever happens to the bytes, what is read is a prefix of what was written, cut at the first damage."""

    @settings(max_examples=scaled(200))
    @given(st.data())
    def test_flipped_bytes(self, data: st.DataObject) -> None:
        payloads = data.draw(st.lists(st.binary(max_size=40), max_size=12))
        whole = layout(b"sixteen bytes...", payloads)
        flips = data.draw(st.dictionaries(st.integers(0, len(whole) - 1), st.integers(1, 255), min_size=1, max_size=4))
        damaged = bytearray(whole)
        for offset, mask in flips.items():
            damaged[offset] ^= mask
        expected = self.intact(payloads, whole, bytes(damaged))
        medium = RecordingMedium()
        put(medium, bytes(damaged))
        if any(offset < 32 for offset in flips) and any(32 <= offset < 64 for offset in flips):
            if len(whole) > 64 or not self.looks_torn(damaged):
                with pytest.raises(CorruptionError):
                    Journal.open(medium, "j")
                assert content(medium) == damaged
            return
        assert reread(medium) == payloads[:expected]
        with Journal.open(medium, "j") as journal:
            assert payloads_of(journal) == payloads[:expected]
            assert (journal.recovery.reason is None) == (expected == len(payloads))
            assert (journal.recovery.dropped_bytes > 0) == (expected < len(payloads))
            journal.append(b"goes on")
        assert reread(medium) == [*payloads[:expected], b"goes on"]

    @settings(max_examples=scaled(200))
    @given(st.data())
    def test_flipped_bytes_of_what_was_durable(self, data: st.DataObject) -> None:
        payloads = data.draw(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
        whole = layout(b"sixteen bytes...", payloads, synced=True)
        flips = data.draw(st.dictionaries(st.integers(64, len(whole) - 1), st.integers(1, 255), min_size=1, max_size=3))
        damaged = bytearray(whole)
        for offset, mask in flips.items():
            damaged[offset] ^= mask
        expected = self.intact(payloads, whole, bytes(damaged))
        # Which heads are whole behind the first damage; the last of them tells how much was durable.
        starts = [64]
        for payload in payloads:
            starts.append(starts[-1] + HEAD + (len(payload) + 7) // 8 * 8)
        tells = [
            number
            for number, start in enumerate(starts[:-1])
            if number > expected and damaged[start : start + HEAD] == whole[start : start + HEAD]
        ]
        medium = RecordingMedium()
        put(medium, bytes(damaged))
        if tells:
            for use in (Journal.open, read_journal):
                with pytest.raises(CorruptionError, match=r"is damaged: .*salvage"):
                    use(medium, "j")
            assert content(medium) == damaged
        else:
            assert reread(medium) == payloads[:expected]
        with medium.open("j") as file:
            found = list(format.whole_records(file, b"sixteen bytes..."))
        sound = [
            (number + 1, payload)
            for number, (start, payload) in enumerate(zip(starts, payloads, strict=False))
            if damaged[start : start + HEAD + len(payload)] == whole[start : start + HEAD + len(payload)]
        ]
        assert [(record.number, record.payload) for record in found] == sound

    def test_long_journals_are_searched_to_the_end(self) -> None:
        payloads = [bytes([number]) * 70_000 for number in range(40)]
        whole = layout(b"sixteen bytes...", payloads, synced=True)
        for at in (64 + 40, len(whole) // 2):
            medium = RecordingMedium()
            put(medium, whole[:at] + bytes(len(whole) - at - 70_100) + whole[-70_100:])
            with pytest.raises(CorruptionError, match="is damaged"):
                read_journal(medium, "j")

    def test_records_written_while_it_is_read_are_no_damage(self) -> None:
        medium = RecordingMedium()
        with Journal.create(medium, "j", room=1000) as journal:
            journal.append_durably(b"one")
            with medium.open("j") as file:
                scan = format.RecordScan(file, salt_of(medium))
                records = iter(scan)
                assert next(records) == b"one"
                journal.append_durably(b"two")
                journal.append_durably(b"three")
                assert list(records) == [b"two", b"three"], "read before they were there"

    @settings(max_examples=scaled(100))
    @given(st.lists(st.binary(max_size=40), max_size=12), st.data())
    def test_lost_ends(self, payloads: list[bytes], data: st.DataObject) -> None:
        whole = layout(b"sixteen bytes...", payloads)
        cut = data.draw(st.integers(64, len(whole)))
        garbage = data.draw(st.binary(max_size=60) | st.integers(0, 60).map(bytes))
        damaged = whole[:cut] + garbage
        expected = self.intact(payloads, whole, damaged)
        medium = RecordingMedium()
        put(medium, damaged)
        assert reread(medium) == payloads[:expected]
        with Journal.open(medium, "j") as journal:
            assert payloads_of(journal) == payloads[:expected]
            found = journal.recovery
            # What is neither kept nor dropped is room.
            assert not any(damaged[found.kept_bytes + found.dropped_bytes :])

    @staticmethod
    def intact(payloads: list[bytes], whole: bytes, damaged: bytes) -> int:
        """How many records stand before the first difference in a head or payload."""
        position = 64
        for count, payload in enumerate(payloads):
            stop = position + HEAD + len(payload)
            if damaged[position:stop] != whole[position:stop]:
                return count
            position = stop + -len(payload) % 8
        return len(payloads)

    @staticmethod
    def looks_torn(data: bytearray) -> bool:
        return b"TLJOURNL".startswith(bytes(data[:8]).rstrip(b"\0"))


class JournalMachine(RuleBasedStateMachine):
    """A journal with kills and power losses against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.medium = RecordingMedium()
        self.model: list[bytes] = []
        self.acknowledged = 0

    @initialize(room=st.sampled_from([0, 500, 1 << 14]), payloads=st.lists(st.binary(max_size=30), max_size=3))
    def begin(self, room: int, payloads: list[bytes]) -> None:
        self.journal = Journal.create(self.medium, "j", room=room)
        for payload in payloads:
            self.append(payload)

    @rule(payload=st.binary(max_size=100) | st.integers(0, 9000).map(lambda size: b"\xc3" * size))
    def append_durably(self, payload: bytes) -> None:
        self.model.append(payload)
        assert self.journal.append_durably(payload) == len(self.model)
        self.acknowledged = len(self.model)

    @rule(payload=st.binary(max_size=100) | st.integers(0, 9000).map(lambda size: b"\xc3" * size))
    def append(self, payload: bytes) -> None:
        self.model.append(payload)
        assert self.journal.append(payload) == len(self.model)

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        number = data.draw(st.none() | st.integers(0, len(self.model)))
        self.journal.sync(number)
        self.acknowledged = max(self.acknowledged, len(self.model) if number is None else number)

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.journal = Journal.open(self.medium, "j")
        self.acknowledged = len(self.model)
        assert self.journal.recovery.dropped_bytes == 0

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        crash = data.draw(st.sampled_from(list(kills(self.medium, [len(self.medium.log)]))))
        self.medium = crash.medium()
        self.recover(at_least=len(self.model) - 1 if crash.torn else len(self.model))

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.medium = next(random_power_losses(self.medium, 1, seed, [len(self.medium.log)])).medium()
        self.recover(at_least=0)

    def recover(self, at_least: int) -> None:
        self.journal = Journal.open(self.medium, "j")
        kept = self.journal.last
        assert max(self.acknowledged, at_least) <= kept <= len(self.model)
        self.model = self.model[:kept]
        self.acknowledged = kept

    @invariant()
    def holds_the_model(self) -> None:
        assert payloads_of(self.journal) == self.model
        assert reread(self.medium) == self.model
        assert self.journal.durable >= self.acknowledged


JournalMachine.TestCase.settings = settings(max_examples=scaled(30), stateful_step_count=25)
TestJournalMachine = JournalMachine.TestCase


def test_the_window_of_the_scan_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(9)
    payloads = [dice.randbytes(dice.choice([0, 1, 7, 8, 30, 100])) for _ in range(200)]
    medium = RecordingMedium()
    put(medium, layout(bytes(16), payloads))
    for window in (32, 33, 40, 64, 100, 333, 1 << 20):
        monkeypatch.setattr(format, "_WINDOW", window)
        assert reread(medium) == payloads
