"""Streams that never sync, after a loss of power: rows may be gone, or all of them, but nothing is invented."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, kills, random_power_losses
from tidelog.engine.store import Store
from tidelog.model.errors import TidelogError
from tidelog.storage.media.medium import File, Lock, Medium

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
NAME = "s"


class _Unsynced(Medium):
    """The files of another medium, with syncs that do nothing."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium

    def create(self, name: str) -> File:
        return _without_sync(self._medium.create(name))

    def open(self, name: str, writable: bool = False) -> File:
        return _without_sync(self._medium.open(name, writable))

    def sync_names(self, directory: str = "") -> None:
        """Nothing."""

    def exists(self, name: str) -> bool:
        return self._medium.exists(name)

    def names(self, prefix: str = "") -> list[str]:
        return self._medium.names(prefix)

    def remove(self, name: str) -> None:
        self._medium.remove(name)

    def link(self, source: str, target: str) -> bool:
        return self._medium.link(source, target)

    def make_directory(self, *names: str) -> None:
        self._medium.make_directory(*names)

    def lock(self, name: str) -> Lock:
        return self._medium.lock(name)

    def is_locked(self, name: str) -> bool:
        return self._medium.is_locked(name)


def _without_sync(file: File) -> File:
    file.sync = lambda: None  # type: ignore[method-assign]
    return file


class _Careless(RecordingMedium):
    def unsynced(self) -> Medium:
        return _Unsynced(self)


def history() -> tuple[_Careless, set[tuple[int, int]]]:
    medium = _Careless()
    appended: set[tuple[int, int]] = set()
    with Store(medium) as store:
        stream = store.create_stream(
            NAME, SCHEMA, "ts", durability="none", leaf_rows=8, split_bytes=3000, late_rows=20, journal_bytes=1500
        )
        for turn in range(12):
            first = 40 * turn
            rows = [(at - (300 if at % 7 == 0 else 0), at) for at in range(first, first + 40)]
            appended.update(rows)
            stream.append(pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA))
            stream.flush()
    return medium, appended


def rows_left(medium: Any) -> list[tuple[int, int]]:
    with Store(medium) as store:
        stream = store.stream(NAME)
        stream.append({"ts": 10_000, "v": -1})
        stream.flush()
        table = stream.scan().read_all()
    return [row for row in zip(*(column.to_pylist() for column in table.columns), strict=True) if row[1] != -1]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_left_after_a_loss_of_power_is_true(seed: int) -> None:
    medium, appended = history()
    outcomes = {"whole": 0, "refused": 0, "part": 0}
    for crash in random_power_losses(medium, 1, seed):
        try:
            found = rows_left(crash.medium())
        except TidelogError:
            outcomes["refused"] += 1
            continue
        assert len(set(found)) == len(found), crash
        assert set(found) <= appended, crash
        assert found == sorted(found, key=lambda row: row[0]), crash
        outcomes["whole" if len(found) == len(appended) else "part"] += 1
    assert outcomes["part"] > 20, outcomes
    assert outcomes["whole"] > 0 or outcomes["refused"] > 0, outcomes


def test_nothing_is_lost_when_only_the_process_is_killed() -> None:
    medium, appended = history()
    *_, last = kills(medium)
    assert set(rows_left(last.medium())) == appended
