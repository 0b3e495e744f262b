"""What deletes must work on a full disk, where it is needed most: with space that was set aside for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.media.full_disk import limit_disk, used
from tidelog.model.errors import StorageError
from tidelog.storage.media.reserve import PIECE_BYTES, RESERVE, RESERVE_BYTES

Limit = Callable[[int | None], None]
SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return tmp_path / "disk"


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch, disk: Path) -> Limit:
    return limit_disk(monkeypatch, disk)


def make(disk: Path, streams: int = 1, **options: object) -> None:
    with tidelog.open(disk, maintenance="manual") as store:
        for index in range(streams):
            stream = store.create_stream(f"s{index}", SCHEMA, "t", **options)
            for start in range(0, 8000, 1000):
                stream.append({"t": range(start, start + 1000), "x": range(1000)})
                stream.flush()


def test_a_store_sets_space_aside(disk: Path) -> None:
    make(disk)
    reserve = disk / RESERVE
    assert reserve.stat().st_size == RESERVE_BYTES
    reserve.unlink()
    tidelog.open(disk, read_only=True).close()
    assert not reserve.exists()
    tidelog.open(disk).close()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_all_that_is_left_is_set_aside_and_a_full_disk_is_no_error(disk: Path, limit: Limit) -> None:
    make(disk)
    (disk / RESERVE).unlink()
    limit(used(disk))
    tidelog.open(disk).close()
    assert used(disk / RESERVE) == 0
    limit(None)
    tidelog.open(disk).close()
    assert (disk / RESERVE).stat().st_size == RESERVE_BYTES


def test_streams_can_be_dropped(disk: Path, limit: Limit) -> None:
    """More of them than checkpoints are apart, which are larger than what is given back at a time."""
    make(disk, 20)
    limit(used(disk))
    with tidelog.open(disk, maintenance="manual") as store:
        for index in range(19):
            store.drop_stream(f"s{index}")
        assert store.streams() == ["s19"]
        with pytest.raises(StorageError, match="No space left on device"):
            store.create_stream("another", SCHEMA, "t")
    with tidelog.open(disk, read_only=True) as store:
        assert store.streams() == ["s19"]
        assert store.check() == []


def test_what_is_set_aside_is_used_up_by_nothing_else(disk: Path, limit: Limit) -> None:
    make(disk)
    limit(used(disk))
    with tidelog.open(disk, maintenance="manual") as store:
        for _ in range(3):
            with pytest.raises(StorageError, match="No space left on device"):
                store.rename_stream("s0", "another")
    assert (disk / RESERVE).stat().st_size == RESERVE_BYTES


def test_events_can_be_deleted_and_files_be_removed(disk: Path, limit: Limit) -> None:
    make(disk, split=1000, leaf_rows=100, grace=0)
    with tidelog.open(disk, maintenance="manual") as store:
        size = used(disk)
        limit(size)
        stream = store.stream("s0")
        stream.delete_before(1500)
        assert [row["t"] for row in stream.scan(columns=["t"]).read_all().to_pylist()] == list(range(1500, 8000))
        assert (disk / RESERVE).stat().st_size >= RESERVE_BYTES - 2 * PIECE_BYTES
        assert any(name.endswith(".tide") for name in store.sweep())
        assert used(disk) < size
        assert stream.aggregate(None, None, "count(*)") == {"count(*)": 6500}
    limit(None)
    with tidelog.open(disk) as store:
        assert store.check() == []
        assert store.stream("s0").aggregate(None, None, "count(*)") == {"count(*)": 6500}


def test_retention_goes_on(disk: Path, limit: Limit) -> None:
    make(disk, split=1000, leaf_rows=100, grace=0, retention=999)
    with tidelog.open(disk, maintenance="manual") as store:
        limit(used(disk))
        done = store.maintain()["s0"]
        assert done.deleted_before == 7000
        assert done.splits_dropped >= 2
        assert store.sweep()
        assert store.stream("s0").aggregate(None, None, "count(*)") == {"count(*)": 1000}
