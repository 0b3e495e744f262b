"""Subscriptions: the rows of SQL, those that are there and those that come, each once, in every form of taking them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
import tidelog.engine.online.subscription as subscription_module
from support.interrupts import assert_interrupted
from support.waiting import PATIENCE, until
from tidelog.engine.online.flow import Flow
from tidelog.engine.online.inputs import Input, stream_shape
from tidelog.engine.online.subscription import Subscription
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.engine.writer import StreamWriter
from tidelog.model.errors import (
    ClosedError,
    GrainError,
    InputError,
    LockedError,
    NotFoundError,
    ReadOnlyError,
    SchemaError,
)
from tidelog.operators.window import assigning
from tidelog.store.subscriptions import SubscriptionLog
from tidelog.threads import Task, start

_SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store", maintenance="manual") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch, store: Store) -> Iterator[None]:
    begun: list[Task[Any]] = []

    def starting(job: Callable[[], Any]) -> Task[Any]:
        begun.append(start(job))
        return begun[-1]

    monkeypatch.setattr(subscription_module, "start", starting)
    yield
    store.close()
    assert all(task.is_done for task in begun)


def _stream(store: Store, name: str = "a", **options: Any) -> Stream:
    return store.create_stream(name, _SCHEMA, "ts", **options)


def _rows(times: Any, x: int = 0) -> pa.RecordBatch:
    at = np.asarray(times, np.int64)
    keys = pa.array(np.where(at % 3 == 0, "u", "v"), pa.string())
    return pa.record_batch([pa.array(at), keys, pa.array(x + np.arange(len(at)))], _SCHEMA)


def _taken(subscription: Subscription, count: int) -> list[dict[str, Any]]:
    """The next rows, exactly so many."""
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE
    while len(rows) < count:
        batch = subscription.next(0.1)
        rows += [] if batch is None else batch.to_pylist()
        assert time.monotonic() < deadline, f"{len(rows)} of {count} rows came: {subscription.stats()}"
    assert len(rows) == count
    return rows


# -- what comes out -----------------------------------------------------------------------------------------------


def test_history_and_what_comes(store: Store) -> None:
    a = _stream(store)
    a.append(_rows(range(10)))
    with store.subscribe("SELECT ts, x * 2 AS y FROM a WHERE x >= 3") as subscription:
        assert subscription.schema.names == ["ts", "y"]
        assert [row["y"] for row in _taken(subscription, 7)] == [6, 8, 10, 12, 14, 16, 18]
        a.append({"ts": 100, "k": "single", "x": 50})  # one event waits for others, and is seen all the same
        a.append(_rows([99, 98], 60))
        assert [row["y"] for row in _taken(subscription, 3)] == [100, 120, 122]
        assert subscription.next(0.05) is None
        counts = {"rows": 13, "behind": 0, "late": 0, "dropped": 0}
        assert subscription.stats() == {**counts, "given": 10, "running": True}
    assert list(subscription) == []


@pytest.mark.parametrize(("start", "expected"), [(None, 6), ("earliest", 6), ("latest", 2), (3, 3)])
def test_where_it_starts(store: Store, start: object, expected: int) -> None:
    a = _stream(store)
    a.append(_rows(range(4)))
    with store.subscribe("SELECT * FROM a", start=start) as subscription:
        _taken(subscription, expected - 2)
        a.append(_rows([0, 1]))  # that come later all count
        assert [row["ts"] for row in _taken(subscription, 2)] == [0, 1]


def test_a_union_waits_for_all_inputs_and_gives_their_rows_in_the_order_of_time(store: Store) -> None:
    a, b = _stream(store, "a"), _stream(store, "b")
    with store.subscribe("SELECT ts, x FROM a UNION ALL SELECT ts, x FROM b") as subscription:
        a.append(_rows([1, 3, 5]))
        assert subscription.next(0.1) is None
        b.append(_rows([2, 3, 4], 10))
        assert [(row["ts"], row["x"]) for row in _taken(subscription, 4)] == [(1, 0), (2, 10), (3, 1), (3, 11)]
        a.append(_rows([1, 7], 20))
        b.append(_rows([8]))
        assert [row["ts"] for row in _taken(subscription, 2)] == [4, 5]
        until(lambda: subscription.stats()["late"] == 1)


def test_windows_come_when_the_watermark_has_passed_their_ends(store: Store) -> None:
    a = _stream(store, lateness=3)
    text = "SELECT window_end AS t, k, count(*) AS n, sum(x) AS total FROM a GROUP BY k, window(ts, 10, 5)"
    dice = np.random.default_rng(3)
    times = np.arange(400) - np.where(dice.random(400) < 0.3, dice.integers(0, 7, 400), 0)
    is_late = np.maximum.accumulate(times) - times > 3
    assert is_late.any()
    with store.subscribe(text) as subscription:
        for first in range(0, 400, 40):  # by a subscription that is begun anew each time, and by one that is not
            a.append(_rows(times[first : first + 40], first))
            a.flush()
            store.subscribe(text, into="w", follow=False).wait(PATIENCE)
        kept = _stream(store, "kept")
        for at, x in zip(times[~is_late].tolist(), np.flatnonzero(~is_late).tolist(), strict=True):
            kept.append(_rows([at], x))
        expected = store.sql(
            f"SELECT * FROM ({text.replace('FROM a', 'FROM kept')}) WHERE t <= {times.max() - 3} ORDER BY t, k"
        ).arrow()
        found = _taken(subscription, expected.num_rows)
        assert sorted(found, key=lambda row: (row["t"], row["k"])) == expected.to_pylist()
        assert store.sql("SELECT * FROM w ORDER BY t, k").arrow().to_pylist() == expected.to_pylist()
        assert subscription.stats()["late"] == is_late.sum() == store.subscriptions()[0].late
        assert subscription.next(0.05) is None


def test_silent_inputs_hold_the_others_back_until_a_timeout(store: Store) -> None:
    a, _ = _stream(store, "a"), _stream(store, "b")
    with store.subscribe("SELECT ts FROM a UNION ALL SELECT ts FROM b", idle_timeout=0.2) as subscription:
        a.append(_rows([1, 2]))
        assert [row["ts"] for row in _taken(subscription, 1)] == [1]


def test_what_was_there_and_an_end(store: Store) -> None:
    a, b = _stream(store, "a"), _stream(store, "b")
    a.append(_rows([3, 1, 5]))
    b.append(_rows([2, 9]))
    text = "SELECT ts FROM a UNION ALL SELECT ts FROM b"
    found = pa.Table.from_batches(store.subscribe(text, follow=False, lateness=10))
    assert found["ts"].to_pylist() == [1, 2, 3, 5, 9]


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_the_query_of_history_whatever_appends_meanwhile(store: Store, seed: int) -> None:
    """Random batches by several threads, single events, late ones, flushes: what SQL says of all of it in the end."""
    dice = np.random.default_rng(seed)
    streams = [_stream(store, name) for name in "ab"]
    text = "SELECT ts, k, x FROM a WHERE x % 7 <> 3 UNION ALL SELECT ts, upper(k), x + 1 FROM b WHERE k = 'u'"
    plain = "SELECT ts, x % 5 AS m, k FROM a WHERE k = 'v'"
    streams[0].append(_rows(np.arange(300)))
    both = store.subscribe(text, lateness=10_000)
    one = store.subscribe(plain)
    counts = dice.integers(1, 400, (4, 12))
    seeds = dice.integers(0, 1 << 30, 4)

    def appends(which: int) -> None:
        own = np.random.default_rng(seeds[which])
        stream = streams[which % 2]
        for count in counts[which]:
            if own.random() < 0.2:
                stream.append({"ts": int(own.integers(0, 5000)), "k": "u", "x": int(count)})
            else:
                stream.append(_rows(own.integers(0, 5000, count), int(own.integers(0, 100))))
            if own.random() < 0.3:
                stream.flush()

    tasks = [start(lambda which=which: appends(which)) for which in range(4)]  # type: ignore[misc]
    for task in tasks:
        task.result()
    for stream in streams:
        stream.append(_rows([20_000]))  # so that the watermark passes all the others
    expected = store.sql(plain).arrow()
    found = _taken(one, expected.num_rows)
    assert sorted(map(repr, found)) == sorted(map(repr, expected.to_pylist()))
    history = store.sql(f"SELECT * FROM ({text}) WHERE ts < 10000 ORDER BY ts").arrow()
    united = _taken(both, history.num_rows)
    assert sorted(map(repr, united)) == sorted(map(repr, history.to_pylist()))
    assert [row["ts"] for row in united] == history["ts"].to_pylist()
    assert both.stats()["late"] == 0
    both.close()
    one.close()


def test_rows_of_another_process_come_when_they_are_flushed(store: Store, tmp_path: Path) -> None:
    a = _stream(store)
    with (
        tidelog.open(tmp_path / "store", read_only=True) as other,
        other.subscribe("SELECT ts, x FROM a") as subscription,
    ):
        for step in range(5):
            a.append(_rows(range(10), step * 10))
            a.flush()
            assert [row["x"] for row in _taken(subscription, 10)] == list(range(step * 10, step * 10 + 10))
        a.append(_rows(range(10)))
        assert subscription.next(0.2) is None
        with pytest.raises(ReadOnlyError):
            other.subscribe("SELECT ts FROM a", name="s")


# -- forms --------------------------------------------------------------------------------------------------------


def test_a_callback_is_called_in_another_thread(store: Store) -> None:
    a = _stream(store)
    found: list[int] = []
    threads = set()

    def take(batch: pa.RecordBatch) -> None:
        threads.add(threading.get_ident())
        found.extend(batch["x"].to_pylist())

    with store.subscribe("SELECT * FROM a", callback=take) as subscription:
        a.append(_rows(range(5)))
        until(lambda: len(found) == 5)
        with pytest.raises(InputError, match="go to a stream, or to a callback"):
            next(subscription)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_functions_that_nobody_would_wait_for_are_refused(store: Store) -> None:
    _stream(store)

    async def take(*given: object) -> None: ...

    class Taking:
        async def __call__(self, *given: object) -> None: ...

    for wrong in (take, Taking()):
        with pytest.raises(InputError, match="for callback; expected a plain function, which a thread calls"):
            store.subscribe("SELECT ts FROM a", callback=wrong)
        with pytest.raises(InputError, match="for on_late; expected a plain function"):
            store.subscribe("SELECT ts FROM a", on_late=wrong)  # type: ignore[arg-type]
    with store.subscribe("SELECT ts FROM a") as subscription, pytest.raises(InputError, match=r"'x' .* for seconds"):
        subscription.next("x")  # type: ignore[arg-type]


def test_one_task_waits_for_rows_at_a_time(store: Store) -> None:
    _stream(store)

    async def waiting() -> None:
        with store.subscribe("SELECT ts FROM a") as subscription:
            first = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(0)
            with pytest.raises(InputError, match="another task waits"):
                await asyncio.wait_for(anext(subscription), 1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await asyncio.to_thread(store.stream("a").append, _rows(range(2)))
            assert (await asyncio.wait_for(anext(subscription), PATIENCE)).num_rows == 2

    asyncio.run(waiting())


def test_what_a_callback_raises_ends_the_subscription_and_is_told(store: Store) -> None:
    a = _stream(store)

    def take(batch: pa.RecordBatch) -> None:
        raise LookupError("no")

    subscription = store.subscribe("SELECT * FROM a", callback=take)
    a.append(_rows(range(5)))
    with pytest.raises(LookupError, match="no"):
        subscription.wait(PATIENCE)
    assert not subscription.is_running
    subscription.close()  # told already


def test_async_iteration(store: Store) -> None:
    a = _stream(store)
    a.append(_rows(range(5)))

    async def run() -> list[int]:
        found: list[int] = []
        with store.subscribe("SELECT * FROM a") as subscription:
            async for batch in subscription:
                found += batch["x"].to_pylist()
                if len(found) == 5:
                    a.append(_rows([7], 5))
                    with pytest.raises(TimeoutError):  # nothing that is cancelled is lost
                        await asyncio.wait_for(_nothing(subscription, found), 0.3)
                    a.append(_rows([7], 6))
                if len(found) == 7:
                    store.close()
        return found

    async def _nothing(subscription: Subscription, found: list[int]) -> None:
        async for batch in subscription:
            found += batch["x"].to_pylist()

    assert asyncio.run(run()) == [0, 1, 2, 3, 4, 5, 6]


def test_closing_the_store_ends_its_subscriptions(store: Store) -> None:
    _stream(store)
    subscriptions = [store.subscribe("SELECT * FROM a") for _ in range(3)]
    waiting = start(lambda: list(subscriptions[0]))
    store.close()
    assert waiting.result() == []
    assert not any(each.is_running for each in subscriptions)
    with pytest.raises(StopIteration):
        next(subscriptions[1])
    with pytest.raises(ClosedError):
        store.subscribe("SELECT * FROM a")


def test_an_interrupt_while_rows_are_waited_for_harms_nothing(store: Store) -> None:
    a = _stream(store)
    with store.subscribe("SELECT ts, x FROM a", name="s") as subscription:
        for step in range(5):
            assert_interrupted(lambda: next(subscription), after=0.05)
            a.append(_rows(range(3), step * 3))
            a.flush()
            assert [row["x"] for row in _taken(subscription, 3)] == [step * 3, step * 3 + 1, step * 3 + 2]
        subscription.commit()
    assert store.subscriptions()[0].behind == 0


def test_wrong_arguments(store: Store) -> None:
    _stream(store)
    text = "SELECT * FROM a"
    for wrong in (
        {"when_behind": "never"},
        {"most_behind": -1},
        {"callback": 3},
        {"on_late": "x"},
        {"idle_timeout": "1s"},
        {"into": "b", "callback": print},
        {"name": ""},
        {"name": "x" * 300},
        {"follow": 1},
        {"start": "yesterday at tea"},
        {"lateness": "long"},
    ):
        with pytest.raises((InputError, tidelog.TimeError)):
            store.subscribe(text, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        store.subscribe(3)  # type: ignore[arg-type]
    assert store.subscriptions() == []


# -- who is too slow, and what is late ----------------------------------------------------------------------------


def test_rows_that_nobody_takes_wait_in_the_stream(store: Store) -> None:
    a = _stream(store)
    with store.subscribe("SELECT x, ts FROM a") as subscription:
        for step in range(60):
            a.append(_rows(range(2000), step * 2000))
        a.flush()
        until(lambda: subscription.stats()["rows"] >= 2000)
        until(lambda: (told := subscription.stats())["rows"] + told["behind"] == 120_000)
        assert [row["x"] for row in _taken(subscription, 120_000)] == list(range(120_000))


def test_few_rows_are_taken_at_once_where_many_more_come_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "_MOST", 100)
    _stream(store).append(_rows(range(200)))
    text = "SELECT ts, window_start FROM HOP(TABLE a, DESCRIPTOR(ts), 1, 10)"
    batches = list(store.subscribe(text, follow=False))
    found = [(row["ts"], row["window_start"]) for batch in batches for row in batch.to_pylist()]
    assert found == [(ts, start) for ts in range(200) for start in range(ts - 9, ts + 1)]
    assert {batch.num_rows for batch in batches} == {100}


def test_appends_wait_for_a_slow_subscription_that_blocks(store: Store) -> None:
    a = _stream(store)
    a.append(_rows([0], -1))
    may_take = threading.Event()
    taken: list[int] = []

    def take(batch: pa.RecordBatch) -> None:
        may_take.wait(PATIENCE)
        taken.extend(batch["x"].to_pylist())

    with store.subscribe("SELECT * FROM a", callback=take, when_behind="block", most_behind=2500):
        appended = []

        def append() -> None:
            for step in range(8):
                a.append(_rows(range(1000), step * 1000))
                appended.append(step)

        task = start(append)
        assert not task.wait(0.5)
        assert len(appended) < 8
        may_take.set()
        task.result()
        until(lambda: len(taken) == 8001)
        assert taken == list(range(-1, 8000))
        a.append(_rows([0]))  # whoever takes the rows himself is not held up
    with store.subscribe("SELECT * FROM a", start="latest", when_behind="block", most_behind=0) as own:
        assert own.next(0.05) is None
        a.append(_rows(range(5000)))
        assert len(_taken(own, 5000)) == 5000


def test_one_that_waits_for_another_one_holds_up_nobody_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the first go to a stream that the second one reads, of which nobody takes anything."""
    monkeypatch.setattr(subscription_module, "_MOST_WAITING", 1)
    a, _ = _stream(store), _stream(store, "b")
    second = store.subscribe("SELECT * FROM b", when_behind="block", most_behind=0)
    first = store.subscribe("SELECT ts, k, x FROM a", into="b")
    for step in range(3):  # the last one is held up
        a.append(_rows([step]))
        a.flush()
        until(lambda step=step: first.stats()["given"] > step)  # type: ignore[misc]
    try:
        assert first.keeping_mutex.acquire(timeout=PATIENCE / 4)  # as a backup does
        first.keeping_mutex.release()
        assert start(store.close).wait(PATIENCE / 4)
    finally:
        second.stop()


def test_whatever_fails_at_its_end_it_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _stream(store).append(_rows(range(10)))
    store.flush()
    close = SubscriptionLog.close

    def closing(log: SubscriptionLog) -> None:
        close(log)
        raise MemoryError

    monkeypatch.setattr(SubscriptionLog, "close", closing)
    found = store.subscribe("SELECT * FROM a", name="s", follow=False)
    assert len(_taken(found, 10)) == 10
    with pytest.raises(StopIteration):
        found.next(PATIENCE / 4)
    assert not store.subscriptions()[0].is_running


def test_a_subscription_may_drop_rows_and_counts_them(store: Store) -> None:
    a = _stream(store)
    may_take = threading.Event()
    is_waiting = threading.Event()
    taken: list[int] = []

    def take(batch: pa.RecordBatch) -> None:
        is_waiting.set()
        may_take.wait(PATIENCE)
        taken.extend(batch["x"].to_pylist())

    with store.subscribe("SELECT * FROM a", callback=take, when_behind="drop", most_behind=300) as subscription:
        a.append(_rows([0], 0))
        assert is_waiting.wait(PATIENCE)
        for step in range(10):
            a.append(_rows(range(100), 1 + step * 100))
        may_take.set()
        until(lambda: len(taken) + subscription.stats()["dropped"] == 1001)
        assert taken == [0, *range(701, 1001)]
        assert subscription.stats()["dropped"] == 700


@pytest.mark.parametrize("name", [None, "kept"])
def test_late_rows_are_counted_and_set_aside(store: Store, name: str | None) -> None:
    a = _stream(store, lateness=5)
    dice = np.random.default_rng(9)
    late: list[tuple[str, list[int]]] = []

    def aside(stream: str, rows: pa.RecordBatch) -> None:
        late.append((stream, rows["x"].to_pylist()))

    times = np.arange(2000) + dice.integers(-9, 9, 2000)
    with store.subscribe("SELECT ts, x FROM a", on_late=aside, name=name) as subscription:
        for first in range(0, 2000, 83):
            a.append(_rows(times[first : first + 83], first))
        a.flush()
        is_late = np.maximum.accumulate(times) - times > 5
        assert is_late.any()
        found = [row["x"] for row in _taken(subscription, int((~is_late).sum()))]
        assert found == np.flatnonzero(~is_late).tolist()
        until(lambda: subscription.stats()["rows"] == 2000)
        assert {stream for stream, _ in late} == {"a"}
        assert [each for _, rows in late for each in rows] == np.flatnonzero(is_late).tolist()
        assert subscription.stats()["late"] == is_late.sum()


# -- names --------------------------------------------------------------------------------------------------------


def test_a_name_goes_on_where_it_was(store: Store, tmp_path: Path) -> None:
    a = _stream(store)
    text = "SELECT ts, x FROM a"
    with store.subscribe(text, name="Röhre 7") as subscription:
        a.append(_rows(range(5)))
        assert subscription.next(0.2) is None  # not durable yet
        a.flush()
        _taken(subscription, 5)
        with pytest.raises(LockedError, match="Röhre 7"):
            store.subscribe(text, name="Röhre 7")
        with pytest.raises(LockedError):
            store.drop_subscription("Röhre 7")
        subscription.commit()
        a.append(_rows(range(5), 5))
        a.flush()
        assert [row["x"] for row in _taken(subscription, 5)] == [5, 6, 7, 8, 9]
    with store.subscribe(text, name="Röhre 7", start="latest") as subscription:
        assert [row["x"] for row in _taken(subscription, 5)] == [5, 6, 7, 8, 9]  # were not said to be done with
        assert subscription.next(0.05) is None  # and now they were
        assert subscription.name == "Röhre 7"
    (info,) = store.subscriptions()
    assert (info.name, info.query, info.streams, info.into) == ("Röhre 7", text, ("a",), None)
    assert (info.is_running, info.behind, info.rows) == (False, 0, 10)
    a.append(_rows(range(3)))
    a.flush()
    assert store.stats()["a"]["subscriptions"] == {"Röhre 7": {"behind": 3, "running": False}}
    assert store.check() == []
    with pytest.raises(InputError, match="has the query 'SELECT ts, x FROM a'; found 'SELECT ts FROM a'"):
        store.subscribe("SELECT ts FROM a", name="Röhre 7")
    with pytest.raises(InputError, match="has the into None"):
        store.subscribe(text, name="Röhre 7", into="b")
    store.drop_subscription("Röhre 7")
    assert store.subscriptions() == []
    with pytest.raises(NotFoundError, match="no subscription"):
        store.drop_subscription("Röhre 7")
    with store.subscribe("SELECT ts FROM a", name="Röhre 7") as subscription:
        assert len(_taken(subscription, 13)) == 13


def test_rows_go_into_a_stream_once(store: Store) -> None:
    a, _ = _stream(store, "a"), _stream(store, "b")
    text = "SELECT ts, x + 1 AS y FROM a WHERE x % 2 = 0 UNION ALL SELECT ts, x FROM b"
    for step in range(4):
        with store.subscribe(text, into="c", lateness=2) as subscription:
            a.append(_rows(range(step * 10, step * 10 + 10), step * 10))
            store.stream("b").append(_rows(range(step * 10, step * 10 + 10), 1000))
            store.flush()
            until(lambda: sum(info.behind or 0 for info in store.subscriptions()) == 0)
            with pytest.raises(InputError, match="go to a stream"):
                subscription.commit()
    expected = store.sql(f"SELECT * FROM ({text}) WHERE ts < 37 ORDER BY ts, y").arrow()
    assert store.sql("SELECT * FROM c ORDER BY ts, y").arrow().to_pylist() == expected.to_pylist()
    with pytest.raises(SchemaError, match="stream 'c' has the columns"):
        store.subscribe("SELECT ts FROM a", into="c", name="other")
    with pytest.raises(InputError, match="into 'a' itself"):
        store.subscribe("SELECT * FROM a", into="a")
    assert [info.name for info in store.subscriptions()] == ["c"]


def test_a_name_that_was_dropped_counts_its_steps_on(store: Store) -> None:
    """The stream has had steps of these numbers, and passes over what it has had."""
    a = _stream(store)
    text, counted = "SELECT ts, x FROM a", "SELECT count(*), count(DISTINCT x) FROM b"
    for step in range(3):
        a.append(_rows(range(5), step * 5))
        a.flush()
        store.subscribe(text, into="b", follow=False).wait(PATIENCE)
    store.drop_subscription("b")
    store.subscribe(text, into="b", follow=False).wait(PATIENCE)
    assert store.sql(counted).fetchone() == (30, 15)
    a.append(_rows(range(5), 15))
    a.flush()
    store.subscribe(text, into="b", follow=False).wait(PATIENCE)
    assert store.sql(counted).fetchone() == (35, 20)


def test_a_stream_that_takes_rows_and_was_made_again_is_another_one(store: Store) -> None:
    a = _stream(store)
    a.append(_rows(range(5)))
    a.flush()
    text = "SELECT ts, x FROM a"
    store.subscribe(text, into="b", follow=False).wait(PATIENCE)
    store.drop_stream("b")
    with pytest.raises(NotFoundError, match="'b' has given its rows, was dropped or renamed, and there is none"):
        store.subscribe(text, into="b")
    assert "b" not in store
    store.create_stream("b", pa.schema([("ts", pa.int64()), ("x", pa.int64())]), "ts")
    with pytest.raises(NotFoundError, match="there is another one of its name; drop the subscription"):
        store.subscribe(text, into="b")
    store.drop_subscription("b")
    store.subscribe(text, into="b", follow=False).wait(PATIENCE)
    assert store.sql("SELECT count(*) FROM b").fetchone() == (5,)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_step_that_was_kept_is_given_once_wherever_it_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It ends before the rows of a step are appended, or just after, without anything being said of it."""
    a = _stream(store)
    text = "SELECT ts, x FROM a WHERE x % 2 = 0"
    append = StreamWriter.append

    def failing(writer: StreamWriter, *given: Any) -> None:
        if when == "after":
            append(writer, *given)
            writer.flush()
        raise KeyboardInterrupt

    for step in range(4):
        a.append(_rows(range(10), step * 10))
        a.flush()
        with monkeypatch.context() as patched:
            patched.setattr(StreamWriter, "append", failing)
            with pytest.raises(KeyboardInterrupt):
                store.subscribe(text, into="b").wait(PATIENCE)
        if step % 2:  # else it ends again, when it gives once more what it has kept
            store.subscribe(text, into="b", follow=False).wait(PATIENCE)
            expected = sorted(range(0, step * 10 + 10, 2), key=lambda x: (x % 10, x))
            assert store.stream("b").scan().read_all()["x"].to_pylist() == expected


def test_rows_that_go_before_they_are_read_are_an_error(store: Store) -> None:
    a = _stream(store)
    text = "SELECT ts, x FROM a"
    a.append(_rows(range(10)))
    a.flush()
    with store.subscribe(text, name="s") as subscription:
        _taken(subscription, 10)
        subscription.commit()
    a.append(_rows(range(10, 20)))
    a.delete_before(5)  # which were read
    with store.subscribe(text, name="s") as subscription:
        _taken(subscription, 10)
    a.delete_before(15)
    subscription = store.subscribe(text, name="s")
    with pytest.raises(NotFoundError, match="rows of stream 'a' were deleted before"):
        next(subscription)
    subscription.close()
    with store.subscribe(text) as subscription:  # who begins anew has all that is left
        assert [row["ts"] for row in _taken(subscription, 5)] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize(("bound", "is_lost"), [(40, False), (45, False), (46, True), (60, True)])
def test_rows_that_go_are_no_error_where_they_are_before_the_start(store: Store, bound: int, is_lost: bool) -> None:
    a = _stream(store)
    a.append(_rows(range(100)))
    a.flush()
    own = Input(a, stream_shape(a), durable=True)
    own.begin(50)
    a.append(_rows([45, 70], 1000))  # they come later, so both count
    a.flush()
    a.delete_before(bound)
    if is_lost:
        with pytest.raises(NotFoundError, match="were deleted before this subscription read them"):
            own.take(1000)
    else:
        rows = own.take(1000)
        assert rows is not None
        assert rows["x"].to_pylist() == [*range(50, 100), 1000, 1001]
    own.close()


def test_rows_that_are_coarsened_before_they_are_read_are_an_error(store: Store) -> None:
    a = _stream(store, split=100, leaf_rows=16)
    for first in range(0, 500, 50):
        a.append(_rows(range(first, first + 50)))
    a.flush()
    assert a.coarsen(200).splits
    subscription = store.subscribe("SELECT ts, x FROM a", name="s")
    with pytest.raises(GrainError, match="were coarsened before"):
        next(subscription)
    subscription.close()
    with store.subscribe("SELECT ts FROM a", start=200) as from_there:
        assert _taken(from_there, 300)[0]["ts"] == 200


def test_a_stream_that_was_made_again_is_another_one(store: Store) -> None:
    a = _stream(store)
    a.append(_rows(range(3)))
    a.flush()
    with store.subscribe("SELECT ts FROM a", name="s") as subscription:
        _taken(subscription, 3)
        subscription.commit()
    store.drop_stream("a")
    assert store.subscriptions()[0].behind is None
    _stream(store).append(_rows(range(3)))
    with pytest.raises(NotFoundError, match="another one than this subscription has read"):
        store.subscribe("SELECT ts FROM a", name="s")
    store.drop_subscription("s")


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_that_is_dropped_ends_it(store: Store, again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_module, "_LOOK_EVERY", 0.0)
    a = _stream(store)
    a.append(_rows(range(3)))
    a.flush()
    with store.subscribe("SELECT ts FROM a", name="s") as subscription:
        _taken(subscription, 3)
        store.drop_stream("a")
        if again:
            _stream(store).append(_rows(range(3)))
        with pytest.raises(NotFoundError, match="stream 'a' was dropped while a subscription was reading it"):
            next(subscription)


def test_a_stream_that_is_dropped_while_it_is_given_rows_is_told(store: Store) -> None:
    a = _stream(store)
    with store.subscribe("SELECT ts, x FROM a", into="b") as subscription:
        store.drop_stream("b")
        a.append(_rows(range(3)))
        a.flush()
        with pytest.raises(NotFoundError, match="stream 'b' was dropped while a subscription was giving it rows"):
            subscription.wait(PATIENCE)


def test_a_stream_that_gets_another_name_is_told_of(store: Store) -> None:
    a = _stream(store)
    a.append(_rows(range(3)))
    a.flush()
    with store.subscribe("SELECT ts FROM a", name="s", follow=False) as subscription:
        _taken(subscription, 3)
        subscription.commit()
    store.rename_stream("a", "b")
    _stream(store, "a")
    store.stream("b").append(_rows(range(2)))
    store.flush()
    assert [(each.streams, each.behind) for each in store.subscriptions()] == [(("b",), 2)]
    stats = store.stats()
    assert (stats["a"]["subscriptions"], stats["b"]["subscriptions"]["s"]["behind"]) == ({}, 2)


def test_a_column_that_changes_ends_it(store: Store) -> None:
    a = _stream(store)
    with store.subscribe("SELECT ts, x FROM a") as subscription:
        a.evolve(add={"z": pa.int64()})
        a.append({"ts": [1], "k": ["u"], "x": [2], "z": [3]})
        assert _taken(subscription, 1) == [{"ts": 1, "x": 2}]
        a.evolve(rename={"x": "y"})
        a.append({"ts": [1], "k": ["u"], "y": [2], "z": [3]})
        with pytest.raises(SchemaError, match="column 'x' of stream 'a' was renamed"):
            next(subscription)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_column_that_takes_the_name_of_another_ends_it(store: Store, is_closed: bool) -> None:
    """It has the same name and type, and is another column, whether that happens while it runs or between."""
    a = _stream(store)
    a.evolve(add={"z": pa.int64()})
    a.append({"ts": [1], "k": ["u"], "x": [2], "z": [3]})
    a.flush()
    text = "SELECT ts, x FROM a"
    with store.subscribe(text, name="s") as subscription:
        assert _taken(subscription, 1) == [{"ts": 1, "x": 2}]
        if not is_closed:
            _change_places(a)
            with pytest.raises(SchemaError, match="column 'x' of stream 'a' was renamed"):
                next(subscription)
    if is_closed:
        _change_places(a)
    renamed = pytest.raises(SchemaError, match="column 'x' of stream 'a' was renamed")
    with store.subscribe(text, name="s") as subscription, renamed:
        next(subscription)
    store.drop_subscription("s")
    with store.subscribe(text, name="s") as subscription:
        assert _taken(subscription, 2) == [{"ts": 1, "x": 3}, {"ts": 2, "x": 5}]


def _change_places(stream: Stream) -> None:
    stream.evolve(rename={"x": "w"})
    stream.evolve(rename={"z": "x"})
    stream.append({"ts": [2], "k": ["u"], "w": [4], "x": [5]})
    stream.flush()


def test_rows_that_come_just_before_it_is_told_to_finish(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look that finds nothing and the next question whether to go on."""
    a = _stream(store)
    ready = threading.Event()
    subscriptions: list[Subscription] = []
    look = Flow.step

    def step(self: Flow) -> Any:
        found = look(self)
        if found is None and ready.wait(PATIENCE) and subscriptions:
            a.append(_rows(range(5)))
            subscriptions.pop().finish()
        return found

    monkeypatch.setattr(Flow, "step", step)
    subscription = store.subscribe("SELECT * FROM a")
    subscriptions.append(subscription)
    ready.set()
    assert sum(batch.num_rows for batch in subscription) == 5
