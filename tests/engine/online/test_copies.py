"""What is kept of subscriptions: in backups, in salvaged stores, checked, and damaged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from support.waiting import PATIENCE, until
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import CorruptionError, LockedError
from tidelog.store import backup
from tidelog.store.subscriptions import Kept, SubscriptionLog, read_subscription, subscription_names
from tidelog.threads import Flag, start

_SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
_QUERY = "SELECT ts, x FROM a WHERE x % 2 = 0"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store", maintenance="manual") as opened:
        opened.create_stream("a", _SCHEMA, "ts")
        yield opened


def _append(stream: Stream, first: int, rows: int) -> None:
    stream.append({"ts": np.arange(first, first + rows), "x": np.arange(first, first + rows)})
    stream.flush()


def _finished(store: Store) -> list[int]:
    """What the subscription has written into its stream when it has read everything."""
    assert store.subscribe(_QUERY, into="b", follow=False).wait(PATIENCE)
    found: list[int] = store.stream("b").scan().read_all()["x"].to_pylist()
    return found


def test_a_backup_goes_on_like_the_store_whenever_it_is_made(store: Store, tmp_path: Path) -> None:
    a = store.stream("a")
    running = store.subscribe(_QUERY, into="b")
    over = Flag()

    def append() -> None:
        for step in count():
            _append(a, step * 10, 10)
            if over.wait(0.001):
                return

    appending = start(append)
    copies = [tmp_path / f"copy {number}" for number in range(4)]
    for path in copies:
        store.backup(path, verify=False)
        rows = len(a)
        until(lambda rows=rows: len(a) > rows)  # type: ignore[misc]
    over.set()
    appending.result()
    running.close()
    for path in copies:
        with tidelog.open(path, maintenance="manual") as copy:
            there = len(copy.stream("a"))
            assert _finished(copy) == list(range(0, there, 2))
            _append(copy.stream("a"), there, 10)
            assert _finished(copy) == list(range(0, there + 10, 2))
            assert copy.check() == []
    store.backup(tmp_path / "alone", streams=["a"])
    with tidelog.open(tmp_path / "alone") as alone:
        assert alone.subscriptions() == []  # where would its rows go?


def test_one_that_begins_while_a_backup_is_made_is_in_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(store.stream("a"), 0, 10)
    store.create_stream("b", _SCHEMA, "ts")
    pin = backup._pin

    def pinning(*given: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(backup, "_pin", pin)
            with tidelog.open(tmp_path / "store", maintenance="manual") as other:
                _finished(other)
        pin(*given)

    monkeypatch.setattr(backup, "_pin", pinning)
    store.backup(tmp_path / "copy")
    with tidelog.open(tmp_path / "copy") as copy:
        assert _finished(copy) == list(range(0, 10, 2))


def test_what_is_whole_is_salvaged(store: Store, tmp_path: Path) -> None:
    _append(store.stream("a"), 0, 10)
    _finished(store)
    store.close()
    assert tidelog.salvage(tmp_path / "store", tmp_path / "saved").is_complete
    with tidelog.open(tmp_path / "saved") as saved:
        _append(saved.stream("a"), 10, 10)
        assert _finished(saved) == list(range(0, 20, 2))


def test_damage_is_found(store: Store, tmp_path: Path) -> None:
    for step in range(3):
        _append(store.stream("a"), step * 10, 10)
        _finished(store)
    (path,) = (tmp_path / "store" / "subscriptions" / "b").glob("*.journal")
    content = bytearray(path.read_bytes())
    content[120] ^= 1
    path.write_bytes(content)
    (finding,) = store.check()
    assert "subscriptions/b" in str(finding)
    with pytest.raises(CorruptionError):
        store.subscribe(_QUERY, into="b")
    with pytest.raises(CorruptionError):
        store.subscriptions()
    store.close()
    report = tidelog.salvage(tmp_path / "store", tmp_path / "saved")
    assert [loss.what.partition(":")[0] for loss in report.losses] == ["subscription 'b' cannot be read"]
    with tidelog.open(tmp_path / "store") as opened:
        opened.drop_subscription("b")
        assert opened.check() == []


def test_damage_at_the_end_of_what_is_kept_is_found_by_the_stream_that_took_it(store: Store, tmp_path: Path) -> None:
    """It looks like a step that a crash has torn, whose rows the stream cannot have."""
    for step in range(2):
        _append(store.stream("a"), step * 10, 10)
        _finished(store)
    (path,) = (tmp_path / "store" / "subscriptions" / "b").glob("*.journal")
    content = bytearray(path.read_bytes())
    content[len(content.rstrip(b"\0")) - 20] ^= 1
    path.write_bytes(content)
    _append(store.stream("a"), 20, 10)
    with pytest.raises(CorruptionError, match="ends with step 1, but stream 'b' has rows of step 2"):
        store.subscribe(_QUERY, into="b")
    assert len(store.stream("b")) == 10


def test_a_stream_that_somebody_else_writes_is_refused_at_once(store: Store, tmp_path: Path) -> None:
    store.create_stream("b", _SCHEMA, "ts").append({"ts": 1, "x": 1})
    with tidelog.open(tmp_path / "store") as other:
        with pytest.raises(LockedError):
            other.subscribe(_QUERY, into="b")
        assert other.subscriptions() == []


def test_what_is_kept_is_the_last_step_and_the_journal_stays_short() -> None:
    medium = MemoryMedium()
    dice = np.random.default_rng(1)
    chunks: dict[str, bytes] = {}
    with SubscriptionLog.open(medium, "n") as log:
        assert log.kept is None
        for step in range(400):
            for name in [each for each in chunks if dice.random() < 0.3]:
                del chunks[name]
            chunks[f"{step}"] = dice.bytes(int(dice.integers(0, 20_000)))
            log.commit(Kept({"step": step}, dict(chunks), dice.bytes(10)))
            if step % 50 == 0:
                found = read_subscription(medium, "n")
                assert (found.values, found.chunks) == ({"step": step}, chunks)
        with pytest.raises(LockedError):
            SubscriptionLog.open(medium, "n")
    names = [name for name in medium.names("subscriptions/") if name.endswith(".journal")]
    assert len(names) == 1
    with medium.open(names[0]) as file:
        assert file.size() < 2 << 20  # of about four million bytes that were written
    with SubscriptionLog.open(medium, "n") as log:
        assert log.kept is not None
        assert (log.kept.values, log.kept.chunks, len(bytes(log.kept.output))) == ({"step": 399}, chunks, 10)  # type: ignore[arg-type]
    assert subscription_names(medium) == ["n"]
