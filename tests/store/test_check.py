"""What checking a stream notices."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.stream import writer_of
from tidelog.storage.read.check import Finding
from tidelog.store import check
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Change
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.rows.stored import Ints
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import OpenSplit, closed_tree

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64())])


def filled(path: Path) -> None:
    with tidelog.open(path) as store:
        stream = store.create_stream("s", SCHEMA, time="ts", leaf_rows=100, fanout=3, split=1000)
        stream.append({"ts": list(range(2550)), "value": [0.5] * 2550})
        stream.flush()
        stream.append({"ts": [5, 2551], "value": [1.0, 2.0]})


def complaints(path: Path) -> list[str]:
    with tidelog.open(path, read_only=True) as store:
        return [f"{finding.file}: {finding.message}" for finding in store.check()]


def damage(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


def test_a_sound_stream_has_no_findings(tmp_path: Path) -> None:
    filled(tmp_path)
    assert complaints(tmp_path) == []


def test_a_damaged_journal_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    (journal,) = tmp_path.rglob("journal-*")
    damage(journal, len(journal.read_bytes().rstrip(b"\0")) - 20)  # in the last record; behind it is room
    (found,) = complaints(tmp_path)
    assert "whole records" in found
    assert journal.name in found


def test_a_missing_journal_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    (journal,) = tmp_path.rglob("journal-*")
    journal.unlink()
    (found,) = complaints(tmp_path)
    assert "is missing" in found
    assert journal.name in found


def test_a_journal_that_was_replaced_is_not_missed(tmp_path: Path) -> None:
    """What was published may name the one before: a process may have died, or be about to publish."""
    filled(tmp_path)
    (journal,) = tmp_path.rglob("journal-*")
    (published,) = tmp_path.rglob("published")
    before = published.read_bytes()
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.stream("s").last_number("anybody")  # opens the tail
    assert not journal.exists()
    published.write_bytes(before)
    assert complaints(tmp_path) == []


def test_a_damaged_split_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    split = min(tmp_path.rglob("*.tide"))
    damage(split, split.stat().st_size // 2)
    assert any(split.name in found for found in complaints(tmp_path))


def test_a_missing_split_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    split = min(tmp_path.rglob("*.tide"))
    split.unlink()
    assert any(split.name in found for found in complaints(tmp_path))


@pytest.mark.parametrize("at_once", [1 << 22, 700, 64])
def test_a_row_that_is_there_twice_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """However many numbers are looked at together."""
    monkeypatch.setattr("tidelog.store.check._NUMBERS_AT_ONCE", at_once)
    filled(tmp_path)
    assert complaints(tmp_path) == []
    with tidelog.open(tmp_path) as store:
        stream = store.stream("s")
        info = list(writer_of(stream).manifests.load().splits.values())[1]
        tree, reader = closed_tree(writer_of(stream).context, info)
        split = OpenSplit.create(writer_of(stream).context, None)
        for batch in tree.scan():
            split.extend(batch)
        reader.close()
        copy = split.close()
        writer_of(stream).manifests.commit(lambda _: Change(add=(copy,)))
    (found,) = complaints(tmp_path)
    assert f"sequence number {info.seq_min} is stored more than once" in found


def test_numbers_that_no_row_has_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writer that comes after somebody else's commit begins another block of numbers, of which it uses few."""
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.create_stream("s", SCHEMA, time="ts", leaf_rows=10, fanout=3)
    for round in range(3):
        with tidelog.open(tmp_path, maintenance="manual") as store:
            stream = store.stream("s")
            stream.append({"ts": [3 * index + round for index in range(300)], "value": [0.5] * 300})
            stream.close()
        with tidelog.open(tmp_path, maintenance="manual") as store:
            stream = store.stream("s")
            with BulkWriter(writer_of(stream).context) as writer:
                writer.append(pa.record_batch([[round], [1.0]], schema=stream.schema.arrow))
                commit_bulk(writer_of(stream).manifests, writer.finish())
            stream.compact()
    looks: list[set[int]] = []
    numbers = check._Window.numbers

    def noted(window: check._Window) -> Ints:
        found = numbers(window)
        looks.append(set(found.tolist()))
        return found

    monkeypatch.setattr(check._Window, "numbers", noted)
    with tidelog.open(tmp_path, read_only=True) as store:
        stream = store.stream("s")
        there = stream.scan(columns=["_seq"]).read_all()["_seq"].to_pylist()
        assert max(there) > 2 << 32, "blocks have become smaller, so this tests nothing"
        assert store.check() == []
    assert set().union(*looks) == set(there)
    assert len(looks) < 40, "of three or four parts each"


def test_a_split_that_leaves_meanwhile_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    with tidelog.open(tmp_path) as store:
        stream = store.stream("s")
        first = next(iter(writer_of(stream).manifests.load().splits.values()))
        checked = check.check_split

        def check_late(context: StreamContext, info: SplitInfo) -> list[Finding]:
            if info.name == first.name:  # it is deleted, and its file removed, while others are looked at
                writer_of(stream).manifests.commit(lambda _: Change(remove=(first.name,)))
                (tmp_path / context.path(first.name)).unlink()
            return checked(context, info)

        monkeypatch.setattr(check, "check_split", check_late)
        assert store.check() == []
