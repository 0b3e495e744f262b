"""What checking a stream notices."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tidelog

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
