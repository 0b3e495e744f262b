"""Files that were damaged, lost, swapped or put back: nothing wrong is said, and what is damaged stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.damage.damaged_stores import Sample, contents, damages, explained, family, outcome, sample
from tidelog.engine.store import manifests_of
from tidelog.model.errors import CorruptionError, TidelogError
from tidelog.storage import FileMedium

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])


def fill(path: Path, name: str = "s", rows: int = 100) -> None:
    """A stream with a closed split, an open one with sealed leaves, and so many single rows in its journal."""
    with tidelog.open(path, maintenance="manual") as store:
        stream = store.create_stream(name, SCHEMA, time="ts", leaf_rows=1000, split=10_000)
        stream.append({"ts": list(range(14_500)), "n": list(range(14_500))})
        stream.flush()
        for index in range(rows):
            stream.append({"ts": 14_500 + index, "n": 14_500 + index})
            stream.flush()


def refused(path: Path, match: str, name: str = "s") -> None:
    """Reading and writing are refused, check tells why, and nothing was changed."""
    before = contents(FileMedium(path))
    with tidelog.open(path, read_only=True) as store:
        with pytest.raises(CorruptionError, match=match):
            store.stream(name).scan().read_all()
        with pytest.raises(CorruptionError, match=match):
            store.stream(name).aggregate(None, None, ["count(*)"])
        assert any(finding.message for finding in store.check())
    with tidelog.open(path, maintenance="manual") as store, pytest.raises(CorruptionError, match=match):
        store.stream(name).append({"ts": 20_000, "n": 0})
    assert contents(FileMedium(path)) == before


def one(path: Path, pattern: str) -> Path:
    return sorted(path.rglob(pattern))[-1]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


class TestJournals:
    @pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 0.9])
    def test_a_flipped_byte_does_not_drop_what_follows(self, tmp_path: Path, part: float) -> None:
        fill(tmp_path)
        journal = one(tmp_path, "journal-*")
        flip(journal, 64 + int(part * (len(journal.read_bytes().rstrip(b"\0")) - 64)))
        refused(tmp_path, r"journal .* is damaged: .*salvage the store")

    def test_a_flipped_byte_in_the_last_record(self, tmp_path: Path) -> None:
        fill(tmp_path)
        journal = one(tmp_path, "journal-*")
        flip(journal, len(journal.read_bytes().rstrip(b"\0")) - 10)
        refused(tmp_path, r"whole records, \d+ were flushed")

    def test_a_lost_journal(self, tmp_path: Path) -> None:
        fill(tmp_path)
        one(tmp_path, "journal-*").unlink()
        refused(tmp_path, r"journal-\d+ is missing")

    def test_a_lost_journal_and_what_was_published(self, tmp_path: Path) -> None:
        fill(tmp_path)
        one(tmp_path, "journal-*").unlink()
        one(tmp_path, "published").unlink()
        refused(tmp_path, "there is no journal in")

    def test_a_journal_of_another_stream(self, tmp_path: Path) -> None:
        fill(tmp_path, "a")
        fill(tmp_path, "s")
        mine, other = (next(tmp_path.glob(f"streams/{name}~*/tail/journal-*")) for name in ("s", "a"))
        mine.write_bytes(other.read_bytes())
        refused(tmp_path, "is another file than the one that was written")


class TestSplits:
    def open_split(self, path: Path) -> Path:
        with tidelog.open(path, read_only=True) as store:
            known = set(manifests_of(store, "s").load().splits)
        (found,) = (each for each in path.rglob("*.tide") if each.name not in known)
        return found

    def test_the_file_of_the_open_split_is_missing(self, tmp_path: Path) -> None:
        fill(tmp_path)
        self.open_split(tmp_path).unlink()
        refused(tmp_path, r"\.tide is missing, although the journal names it")

    def test_the_file_of_the_open_split_was_swapped(self, tmp_path: Path) -> None:
        fill(tmp_path)
        split = self.open_split(tmp_path)
        other = next(each for each in tmp_path.rglob("*.tide") if each != split)
        split.write_bytes(other.read_bytes())
        refused(tmp_path, "is another file than the one that was written")

    def test_the_file_of_the_open_split_is_an_older_one(self, tmp_path: Path) -> None:
        with tidelog.open(tmp_path, maintenance="manual") as store:
            stream = store.create_stream("s", SCHEMA, time="ts", leaf_rows=1000, split=10_000)
            stream.append({"ts": list(range(1500)), "n": list(range(1500))})
            stream.flush()
            (split,) = tmp_path.rglob("*.tide")
            older = split.read_bytes()
            stream.append({"ts": list(range(1500, 4500)), "n": list(range(3000))})
            stream.flush()
        split.write_bytes(older)
        refused(tmp_path, "it is an older file than the one that was written")

    def test_the_file_of_a_closed_split_is_missing(self, tmp_path: Path) -> None:
        fill(tmp_path)
        split = self.open_split(tmp_path)
        next(each for each in tmp_path.rglob("*.tide") if each != split).unlink()
        with tidelog.open(tmp_path, read_only=True) as store, pytest.raises(CorruptionError, match="is missing"):
            store.stream("s").scan().read_all()
        with tidelog.open(tmp_path, maintenance="manual") as store, pytest.raises(CorruptionError, match="is missing"):
            store.stream("s").append({"ts": 20_000, "n": 0})

    def test_a_split_that_was_closed_and_deleted_is_not_missed(self, tmp_path: Path) -> None:
        """Not even when its file is gone and the manifest would forget it."""
        with tidelog.open(tmp_path, maintenance="manual") as store:
            stream = store.create_stream("s", SCHEMA, time="ts", leaf_rows=100, split=1000, grace=0)
            stream.append({"ts": list(range(950)), "n": list(range(950))})
            stream.flush()
            stream.append({"ts": list(range(950, 2500)), "n": list(range(1550))})
            stream.flush()
            stream.delete_before(2400)
            for _ in range(3):
                store.sweep()
                with tidelog.open(tmp_path, read_only=True) as other:
                    assert len(other.stream("s")) == 100
                    assert other.check() == []
        for _ in range(3):
            with tidelog.open(tmp_path, maintenance="manual") as store:
                store.sweep()
                assert len(store.stream("s")) == 100
                store.stream("s").append({"ts": [], "n": []})
                assert store.check() == []


class TestCatalogues:
    def test_a_lost_last_file_does_not_hide_a_stream(self, tmp_path: Path) -> None:
        with tidelog.open(tmp_path) as store:
            for name in ("a", "b", "c"):
                store.create_stream(name, SCHEMA, time="ts")
        one(tmp_path, "catalogue/*.json").unlink()
        before = contents(FileMedium(tmp_path))
        uses: list[Callable[[tidelog.Store], object]] = [
            lambda store: store.streams(),
            lambda store: store.stream("a"),
            lambda store: store.create_stream("d", SCHEMA, time="ts"),
            lambda store: store.drop_stream("a"),
            lambda store: store.sweep(),
            lambda store: store.maintain(),
        ]
        for use in uses:
            with tidelog.open(tmp_path, maintenance="manual") as store, pytest.raises(CorruptionError, match="missing"):
                use(store)
        assert contents(FileMedium(tmp_path)) == before

    def test_a_lost_last_manifest_does_not_hide_a_split(self, tmp_path: Path) -> None:
        fill(tmp_path)
        one(tmp_path, "manifest/*.json").unlink()
        refused(tmp_path, r"\.json is missing: commit \d+ was made")

    def test_manifests_of_two_streams_that_were_swapped(self, tmp_path: Path) -> None:
        with tidelog.open(tmp_path) as store:
            store.create_stream("a", SCHEMA, time="ts")
            store.create_stream("s", SCHEMA, time="n")
        mine, other = (next(tmp_path.glob(f"streams/{name}~*/manifest/*.json")) for name in ("s", "a"))
        mine.write_bytes(other.read_bytes())
        with tidelog.open(tmp_path) as store, pytest.raises(CorruptionError, match="expected number 1"):
            store.stream("s")


class TestBackups:
    @pytest.mark.parametrize("lost", ["tail", "journal-*", "*.tide", "newest"])
    def test_one_that_is_not_complete_is_not_restored(self, tmp_path: Path, lost: str) -> None:
        with tidelog.open(tmp_path / "store") as store:
            store.create_stream("s", SCHEMA, time="ts").append({"ts": 1, "n": 1})
            store.stream("s").append({"ts": [2], "n": [2]}, producer="p", number=7)
            store.backup(tmp_path / "backup")
        for path in sorted((tmp_path / "backup").rglob(lost)):
            for each in sorted(path.iterdir()) if path.is_dir() else [path]:
                each.unlink()
        if lost == "newest":  # which has nothing that is not elsewhere
            tidelog.restore(tmp_path / "backup", tmp_path / "restored")
            return
        with pytest.raises(TidelogError, match="is damaged, for example"):
            tidelog.restore(tmp_path / "backup", tmp_path / "restored")
        assert not (tmp_path / "restored").exists()

    def test_what_was_published_is_not_needed(self, tmp_path: Path) -> None:
        with tidelog.open(tmp_path / "store") as store:
            store.create_stream("s", SCHEMA, time="ts").append({"ts": [2], "n": [2]}, producer="p", number=7)
            store.backup(tmp_path / "backup")
        one(tmp_path / "backup", "published").unlink()
        tidelog.restore(tmp_path / "backup", tmp_path / "restored")
        with tidelog.open(tmp_path / "restored") as store:
            store.stream("s").append({"ts": [2], "n": [2]}, producer="p", number=7)
            assert len(store.stream("s")) == 1


@pytest.fixture(scope="module")
def whole() -> Sample:
    return sample()


def campaign(whole: Sample, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Damages of all kinds; how many of each kind of file came to what."""
    found: Counter[tuple[str, str]] = Counter()
    for index, damage in enumerate(islice(damages(whole, seed), count)):
        try:
            found[family(damage.file), outcome(whole, damage.files, thorough=index % 5 == 0)] += 1
        except Exception:
            pytest.fail(f"damage {index} of seed {seed}: {explained(damage)}")
    return found


def test_the_sample_is_whole(whole: Sample) -> None:
    assert outcome(whole, whole.files) == "right"


def test_damage_of_all_kinds_is_harmless_or_told(whole: Sample) -> None:
    found = campaign(whole, 150, 11)
    assert {kind for _, kind in found} >= {"right", "some refused", "all refused"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_damage_of_all_kinds_is_harmless_or_told_for_long(whole: Sample, seed: int) -> None:
    assert sum(campaign(whole, 1000, 100 + seed).values()) == 1000
