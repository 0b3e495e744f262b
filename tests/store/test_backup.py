"""Backups: the same rows with the same numbers, whatever happens meanwhile, and everybody goes on from them."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.media.crash import RecordingMedium, kills, power_losses, random_power_losses
from support.media.memory import MemoryMedium
from support.streams import stream_process
from support.streams.history import NAME, PRODUCER, SMALL, History, load, rows_of, table
from support.streams.stream_process import OPTIONS, look
from support.streams.stream_process import append as append_batch
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.model.errors import (
    CorruptionError,
    ExistsError,
    InputError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    TidelogError,
)
from tidelog.storage import FileMedium
from tidelog.store.marker import INCOMPLETE, MARKER


def facts(store: Store) -> list[dict[str, Any]]:
    """All rows of a stream with their numbers, as plain values."""
    return store.stream(NAME).scan(seq=True).read_all().to_pylist()


@pytest.mark.parametrize("seed", range(12))
def test_a_backup_is_the_stream_and_goes_on_like_it(seed: int) -> None:
    history = History(MemoryMedium(), seed, jobs=2)
    dice = random.Random(seed)
    for _ in range(25):
        dice.choice([history.append, history.one_row, history.late, history.flush, history.load])()
    if seed % 3 == 0:
        history.delete_before()
    target = MemoryMedium()
    report = history.store._back_up(target)
    published = writer_of(history.stream).published()
    with Store(target) as copy:
        stream = copy.stream(NAME)
        assert facts(copy) == facts(history.store)
        assert copy.check() == []
        assert writer_of(stream).published().visible == published.visible
        assert writer_of(stream).published().manifest.transactions == published.manifest.transactions
        assert writer_of(stream).published().manifest.schemas == published.manifest.schemas
        assert writer_of(stream).published().late == published.late
        assert report.streams[0].next_seq == writer_of(stream).published().next_seq
        assert report.rows == sum(part.rows for part in published.parts)
        # What was sent before is passed over, what is new is not.
        before = rows_of(stream)
        for append in history.appends:
            if append.number is not None:
                stream.append(append.table(), producer=PRODUCER, number=append.number)
            elif append.job is not None:
                assert not load(stream, append)
        assert rows_of(stream) == before
        # Both give the same rows the same numbers from here on, as the writer does that comes next.
        history.reopen()
        more = table([(5000 + i, 1_000_000 + i) for i in range(30)] + [(900, 2_000_000)])
        for each in (stream, history.stream):
            each.append(more)
            each.append(table([(6000, 3_000_000)]), producer=PRODUCER, number=10**6)
        assert facts(copy) == facts(history.store)
        assert copy.check() == []
    with Store(target) as copy:
        assert facts(copy) == facts(history.store)


def test_of_a_stream_that_nobody_ever_wrote_to(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "a") as store:
        store.create_stream(NAME, table([]).schema, "ts")
        store.create_stream("other", table([]).schema, "ts").append(table([(1, 2)]))
        store.backup(tmp_path / "b")
        store.backup(tmp_path / "c", streams=["other"])
    with tidelog.open(tmp_path / "b") as copy:
        assert copy.streams() == ["other", NAME]
        assert len(copy.stream(NAME)) == 0
        copy.stream(NAME).append(table([(1, 1)]))
        assert facts(copy)[0]["_seq"] == 0
    with tidelog.open(tmp_path / "c", read_only=True) as copy:
        assert copy.streams() == ["other"]
        assert len(copy.stream("other")) == 1


def test_while_another_process_writes(tmp_path: Path) -> None:
    with Store.open(tmp_path / "events") as store:
        store.create_stream(NAME, stream_process.SCHEMA, "ts", **OPTIONS)
        append_batch(store.stream(NAME), 0)
    command = [sys.executable, "-W", "error", stream_process.__file__, "write", str(tmp_path / "events"), "1", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            with Store.open(tmp_path / "events", read_only=True) as store:
                for number in range(5):
                    acknowledged = int(writer.stdout.readline())
                    store.backup(tmp_path / f"backup{number}")
                    with Store.open(tmp_path / f"backup{number}") as copy:
                        stream = copy.stream(NAME)
                        batches = look(stream)
                        assert batches > acknowledged
                        append_batch(stream, batches - 1 - batches % 2)  # of those with a number, the last one
                        assert look(stream) == batches
                        append_batch(stream, batches)
                        assert look(stream) == batches + 1
                        assert copy.check() == []
        finally:
            writer.kill()


@pytest.fixture
def swept_meanwhile() -> Iterator[Any]:
    """A stream of many splits without a grace period, and what deletes and sweeps some of them at every step."""
    store = Store(MemoryMedium())
    stream = store.create_stream(NAME, table([]).schema, "ts", **{**SMALL, "grace": 0})
    stream.append(table([(i, i) for i in range(2000)]))
    stream.flush()
    bound = 0

    def progress(name: str, done: int, total: int) -> None:
        nonlocal bound
        assert (name, done <= total) == (NAME, True)
        bound += 600  # further than the copy has come
        if bound <= 1200:
            stream.append(table([(2000 + bound, 2000 + bound)]))
            stream.delete_before(bound)
            store.sweep()

    yield store, progress
    store.close()


def test_files_that_leave_while_they_are_copied(swept_meanwhile: Any) -> None:
    store, progress = swept_meanwhile
    target = MemoryMedium()
    store._back_up(target, progress=progress)
    with Store(target) as copy:
        found = rows_of(copy.stream(NAME))
        times = [row.time for row in found]
        assert times[0] in (600, 1200), "nothing was swept while it was copied"
        assert times == [*range(times[0], 2000), *range(2600, 2001 + times[0], 600)]
        assert copy.check() == []
        assert copy.orphans() == []


def test_a_file_that_is_lost_is_not_waited_for() -> None:
    store = Store(MemoryMedium())
    store.create_stream(NAME, table([]).schema, "ts", **SMALL).append(table([(i, i) for i in range(500)]))
    store.flush()
    medium = store._medium
    medium.remove(next(name for name in medium.names() if name.endswith(".tide")))
    with pytest.raises(CorruptionError, match="is missing"):
        store._back_up(MemoryMedium())


def test_a_crash_leaves_no_backup_or_a_whole_one() -> None:
    history = History(MemoryMedium(), 3)
    for _ in range(12):
        history.append()
    history.late()
    history.flush()
    expected = facts(history.store)
    target = RecordingMedium()
    history.store._back_up(target)
    target.mark("done")
    found = {True: 0, False: 0}
    crashes = [*power_losses(target, singles=2), *random_power_losses(target, 1, 5), *kills(target)]
    for index, crash in enumerate(crashes):
        if index % 8 and not crash.marks:
            continue
        medium = crash.medium()
        is_complete = medium.exists(MARKER)
        assert is_complete or not crash.marks, crash
        found[is_complete] += 1
        if is_complete:
            with Store(medium) as copy:
                assert facts(copy) == expected, crash
                assert copy.check() == [], crash
            continue
        with pytest.raises((NotFoundError, StorageError), match=f"{MARKER}|{INCOMPLETE}"):
            Store(medium, read_only=True)
        if medium.names():
            if medium.exists(INCOMPLETE):
                with pytest.raises(StorageError, match=INCOMPLETE):
                    Store(medium)
            else:
                with Store(medium) as copy:  # everything is there, only the marker is not
                    assert facts(copy) == expected, crash
    assert found[True]
    assert found[False] > 50


def test_what_is_refused(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "events")
    store.create_stream(NAME, table([]).schema, "ts").append(table([(1, 1)]))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ExistsError, match="full"):
        store.backup(tmp_path / "full")
    with pytest.raises(ExistsError, match="cannot copy the store to"):
        store.backup(tmp_path / "full" / "x")
    (tmp_path / "link").symlink_to(tmp_path / "events")
    for inside in ("events", "events/backup", "link/backup"):
        with pytest.raises(InputError, match="inside the store"):
            store.backup(tmp_path / inside)
    assert not (tmp_path / "events" / "backup").exists()
    with pytest.raises(NotFoundError, match="no stream 'y'"):
        store.backup(tmp_path / "new", streams=["y"])
    with pytest.raises(InputError, match="list of names"):
        store.backup(tmp_path / "new", streams=NAME)
    with pytest.raises(InputError, match="list of names"):
        store.backup(tmp_path / "new", streams=5)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    store.backup(tmp_path / "empty")
    with pytest.raises(ExistsError):
        tidelog.restore(tmp_path / "empty", tmp_path / "full")
    with pytest.raises(ExistsError, match="files"):
        store._back_up(store._medium)
    store.close()


def sums(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.rglob("*.tide")}


def test_linked_files_never_change(tmp_path: Path) -> None:
    history = History(FileMedium(tmp_path / "events"), 4)
    for _ in range(12):
        history.append()
        history.load()
    history.flush()
    expected = facts(history.store)
    closed = {path.name for path in (tmp_path / "events").rglob("*.tide") if path.stat().st_nlink == 1}
    history.store.backup(tmp_path / "backup", link=True)
    shared = [path for path in (tmp_path / "events").rglob("*.tide") if path.stat().st_nlink == 2]
    assert {path.name for path in shared} == set(writer_of(history.stream).published().manifest.splits) & closed
    assert len(shared) > 3
    before = sums(tmp_path / "backup")
    history.run(30)
    with Store.open(tmp_path / "events") as store:
        store.stream(NAME).delete_before(10**6)
        store.check()
        store.sweep()
    assert sums(tmp_path / "backup") == before
    tidelog.restore(tmp_path / "backup", tmp_path / "again")
    with Store.open(tmp_path / "backup") as copy, Store.open(tmp_path / "again") as again:
        assert facts(copy) == facts(again) == expected
        copy.stream(NAME).append(table([(1, 10**6)]))
        copy.stream(NAME).delete_before(10**6)
    assert {name: digest for name, digest in sums(tmp_path / "backup").items() if name in before} == before


def test_damage_is_found_when_copying_and_before_restoring(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream(NAME, table([]).schema, "ts", **SMALL)
        stream.append(table([(i, i) for i in range(3000)]))
        stream.flush()
        store.backup(tmp_path / "backup")
        for directory in ("events", "backup"):
            path = max((tmp_path / directory).rglob("*.tide"), key=lambda path: path.stat().st_size)
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.chmod(0o644)
            path.write_bytes(content)
        with pytest.raises(CorruptionError, match="check the store"):
            store.backup(tmp_path / "second")
    with pytest.raises(StorageError, match="not completed"):
        tidelog.open(tmp_path / "second", read_only=True)
    with pytest.raises(CorruptionError, match="restore another backup"):
        tidelog.restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def damaged_journal(backup: Path) -> None:
    (journal,) = backup.rglob("journal-*")
    content = bytearray(journal.read_bytes())
    content[content.index(b"producers")] ^= 1
    journal.write_bytes(content)


def missing_journal(backup: Path) -> None:
    (journal,) = backup.rglob("journal-*")
    journal.unlink()


def missing_manifest(backup: Path) -> None:
    max(backup.glob("streams/*/manifest/*.json")).unlink()


@pytest.mark.parametrize("harm", [damaged_journal, missing_journal, missing_manifest])
def test_what_only_the_tail_knew_is_not_lost_unnoticed(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Of a backup without it, appends that are sent again would be there twice, or rows would be missing."""
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream(NAME, table([]).schema, "ts")
        stream.append(table([(i, i) for i in range(10)]), producer=PRODUCER, number=7)
        store.backup(tmp_path / "backup")
    tidelog.restore(tmp_path / "backup", tmp_path / "whole")
    with tidelog.open(tmp_path / "whole") as store:
        assert (store.stream(NAME).last_number(PRODUCER), len(store.stream(NAME))) == (7, 10)
    harm(tmp_path / "backup")
    with pytest.raises(TidelogError):
        tidelog.restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_reader_can_back_up_and_a_closed_store_cannot(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        store.create_stream(NAME, table([]).schema, "ts").append(table([(1, 1)]))
    with tidelog.open(tmp_path / "events", read_only=True) as store:
        report = store.backup(tmp_path / "b", verify=False)
        assert (report.rows, len(report.streams), report.linked) == (1, 1, False)
        with pytest.raises(ReadOnlyError):
            store.stream(NAME).append(table([(1, 1)]))
    with pytest.raises(tidelog.ClosedError):
        store.backup(tmp_path / "c")


def test_media_that_cannot_share_files() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream(NAME, pa.schema([("ts", pa.int64())]), "ts", **SMALL)
        stream.append({"ts": list(range(1000))})
        with pytest.raises(StorageError, match="cannot share files"):
            store._back_up(MemoryMedium(), link=True)
