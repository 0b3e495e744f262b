"""Salvaging: what is whole comes along, with its numbers, and what does not is told."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import tidelog
from support.damage.damaged_stores import (
    OPTIONS,
    REDUCED,
    Files,
    Sample,
    contents,
    damages,
    explained,
    family,
    medium_of,
    sample,
)
from support.media.memory import MemoryMedium
from support.streams.history import NAME, PRODUCER, History
from tidelog.engine.store import Store
from tidelog.model.errors import ExistsError, InputError, NotFoundError
from tidelog.storage import FileMedium
from tidelog.store.salvage import SalvageReport, salvage

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])


def facts(store: Store, name: str, start: int | None = None) -> list[dict[str, Any]]:
    return store.stream(name).scan(start=start, seq=True).read_all().to_pylist()


@pytest.fixture(scope="module")
def whole() -> Sample:
    return sample()


@pytest.mark.parametrize("seed", range(6))
def test_all_of_a_whole_store_comes_along(seed: int) -> None:
    history = History(MemoryMedium(), seed, jobs=2)
    dice = random.Random(seed)
    for _ in range(25):
        dice.choice([history.append, history.one_row, history.late, history.flush, history.load])()
    if seed % 2:
        history.delete_before()
    history.flush()
    target = MemoryMedium()
    report = salvage(history.medium, target)
    assert report.is_complete, report
    with Store(target) as copy:
        assert facts(copy, NAME) == facts(history.store, NAME)
        assert copy.check() == []
        before = facts(copy, NAME)
        for append in history.appends:
            if append.number is not None:
                copy.stream(NAME).append(append.table(), producer=PRODUCER, number=append.number)
        assert facts(copy, NAME) == before, "what was sent again is there twice"
        copy.stream(NAME).append({"ts": [10**6], "id": [10**6], "text": ["new"]})
        copy.flush()
        numbers = [row["_seq"] for row in facts(copy, NAME)]
        assert len(set(numbers)) == len(numbers)


def test_the_sample_comes_along(whole: Sample) -> None:
    judge(whole, whole.files, MemoryMedium(), is_whole=True)


_DATA_START: Final = 16_384
"""Where data begins in a file of a split: the preface and the slots are before that."""


def judge(whole: Sample, files: Files, target: MemoryMedium, *, is_whole: bool = False) -> tuple[SalvageReport, int]:
    """Salvage a copy, whatever is damaged in it, and hold the new store to what it may be; returns rows lost."""
    medium = medium_of(files)
    report = salvage(medium, target)
    assert contents(medium) == files, "the damaged store was changed"
    lost = 0
    with Store(medium_of(whole.files), read_only=True) as sound, Store(target) as store:
        assert store.check() == []
        by_name = {stream.name: stream for stream in report.streams}
        for name in whole.rows:
            start = REDUCED if name == "s" else None
            if name not in store:
                original = next((each for each in store.streams() if each in ("old", "old.2")), None)
                assert not report.is_complete
                if original is None or name != "t":
                    lost += len(whole.rows[name])
                    continue
                name_there = original
            else:
                name_there = name
            expected = {row["_seq"]: row for row in facts(sound, name, start)}
            try:
                found = facts(store, name_there, start)
            except tidelog.GrainError:
                found = facts(store, name_there, 5000)
            numbers = [row["_seq"] for row in found]
            assert len(set(numbers)) == len(numbers)
            wrong = [row for row in found if not same(expected.get(row["_seq"]), row)]
            # Deletions may be lost with a manifest; then what they deleted is there again.
            wrong = [row for row in wrong if not (name == "t" and row["ts"] < 100)]
            if not any("manifest" in loss.file for loss in by_name[name_there].losses):
                assert wrong == [], f"{name} has {wrong[:3]}"
            missing = len(expected.keys() - set(numbers))
            lost += missing
            if missing:
                assert by_name[name_there].losses, f"{missing} rows of {name} are missing, and nothing is told"
        assert not is_whole or (report.is_complete and lost == 0), report
    return report, lost


def same(expected: dict[str, Any] | None, row: dict[str, Any]) -> bool:
    return expected is not None and all(expected.get(name) == value for name, value in row.items() if value is not None)


def campaign(whole: Sample, count: int, seed: int) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for index, damage in enumerate(islice(damages(whole, seed), count)):
        try:
            _, lost = judge(whole, damage.files, MemoryMedium())
        except Exception:
            pytest.fail(f"damage {index} of seed {seed}: {explained(damage)}")
        found[family(damage.file), "nothing lost" if not lost else "rows lost"] += 1
        if damage.kind == "flip" and family(damage.file) in ("split", "journal"):
            # Without its preface, which says what the columns are, nothing of a split can be read.
            is_preface = family(damage.file) == "split" and int(damage.detail.split()[0]) < _DATA_START
            assert lost <= OPTIONS["leaf_rows"] + 64 or is_preface, f"{damage}: {lost} rows are lost"
    return found


def test_what_is_whole_is_salvaged_from_stores_damaged_in_every_way(whole: Sample) -> None:
    found = campaign(whole, 40, 21)
    assert {kind for _, kind in found} == {"nothing lost", "rows lost"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_what_is_whole_is_salvaged_for_long(whole: Sample, seed: int) -> None:
    campaign(whole, 500, 300 + seed)


class TestDirectories:
    def filled(self, path: Path) -> None:
        with tidelog.open(path, maintenance="manual") as store:
            stream = store.create_stream("s", SCHEMA, time="ts", leaf_rows=1000, split=10_000)
            stream.append({"ts": list(range(14_500)), "n": list(range(14_500))}, producer="p", number=1)
            stream.flush()
            for index in range(20):
                stream.append({"ts": 14_500 + index, "n": 14_500 + index})
                stream.flush()

    def test_the_records_around_a_damaged_one(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "a")
        (journal,) = (tmp_path / "a").rglob("journal-*")
        content = bytearray(journal.read_bytes())
        content[len(content.rstrip(b"\0")) - 3000] ^= 1
        journal.write_bytes(content)
        report = tidelog.salvage(tmp_path / "a", tmp_path / "b")
        (stream,) = report.streams
        assert (stream.rows, report.is_complete) == (14_519, False)
        assert [loss.what for loss in stream.losses] == ["1 of 25 records are lost"]
        with tidelog.open(tmp_path / "b") as store:
            store.stream("s").append({"ts": [1], "n": [1]}, producer="p", number=1)
            assert len(store.stream("s")) == 14_519

    def test_a_split_and_the_catalogue_and_the_marker(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "a")
        for path in (tmp_path / "a" / "catalogue").iterdir():
            path.unlink()
        (tmp_path / "a" / "tidelog.json").write_text("?")
        with tidelog.open(tmp_path / "c"):
            pass
        split = min((tmp_path / "a").rglob("*.tide"))
        content = bytearray(split.read_bytes())
        content[16384 + 1500] ^= 1  # in a leaf
        content[16384 + 60] ^= 1  # in the head of the macro block that all leaves are in
        split.write_bytes(content)
        report = tidelog.salvage(tmp_path / "a", tmp_path / "b")
        (stream,) = report.streams
        (loss,) = (loss for loss in stream.losses if loss.rows)
        assert loss.rows == 1000
        assert loss.times == (0, 9999)
        assert stream.rows == 13_520
        with tidelog.open(tmp_path / "b") as store:
            assert len(store.stream("s")) == 13_520

    def test_places_that_do_not_do(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "a")
        with pytest.raises(NotFoundError):
            tidelog.salvage(tmp_path / "nowhere", tmp_path / "b")
        (tmp_path / "empty").mkdir()
        with pytest.raises(NotFoundError):
            tidelog.salvage(tmp_path / "empty", tmp_path / "b")
        with pytest.raises(InputError, match="inside"):
            tidelog.salvage(tmp_path / "a", tmp_path / "a" / "b")
        with pytest.raises(ExistsError):
            tidelog.salvage(tmp_path / "empty", tmp_path / "a")
        with tidelog.open(tmp_path / "a") as store:
            before = contents(FileMedium(tmp_path / "a"))
            assert store.salvage(tmp_path / "b").is_complete
            assert contents(FileMedium(tmp_path / "a")) == before
