"""What one thread hands over to another arrives once, whatever interrupts the one who takes it."""

from __future__ import annotations

import asyncio
from queue import Empty

import pytest
from tests.support.interrupts import Boundaries

from support.alarms import Interrupted, an_interrupt
from tidelog.engine.online.handover import Bell, Outbox
from tidelog.threads import start


def _taken(outbox: Outbox[int], boundaries: Boundaries) -> list[int]:
    """All items, by one who goes on after an interrupt; they are their own numbers."""
    found: list[int] = []
    with boundaries:
        while True:
            try:
                outbox.release(len(found))
                item = outbox.get(0)
            except KeyboardInterrupt:
                continue
            if item is None:
                return found
            found.append(item)


def _filled() -> Outbox[int]:
    outbox: Outbox[int] = Outbox(3)
    for number in range(1, 4):
        assert outbox.put(number)
    outbox.end()
    return outbox


def test_an_interrupt_at_any_moment_loses_nothing_and_repeats_nothing() -> None:
    counting = Boundaries()
    assert _taken(_filled(), counting) == [1, 2, 3]
    assert counting.passed > 10
    for at in range(1, counting.passed):
        interrupted = Boundaries(KeyboardInterrupt(), at)
        outbox = _filled()
        assert _taken(outbox, interrupted) == [1, 2, 3], interrupted.where
        assert outbox.get() is None


def test_there_is_room_when_items_have_arrived_and_not_before() -> None:
    outbox: Outbox[int] = Outbox(2)
    assert outbox.put(1)
    assert outbox.put(2)
    waiting = start(lambda: outbox.put(3) and outbox.put(4))
    assert [outbox.get(), outbox.get()] == [1, 1]
    assert not waiting.wait(0)
    assert not outbox.wait_for(1, 0)
    outbox.release(1)
    outbox.release(1)
    assert outbox.get() == 2
    outbox.release(3)
    assert waiting.result()
    assert outbox.get() == 4
    outbox.release(4)
    with pytest.raises(Empty):
        outbox.get(0)
    outbox.close()
    assert not outbox.put(5)
    assert outbox.get() is None


def test_a_task_that_is_cancelled_takes_nothing() -> None:
    async def cancelled() -> int | None:
        outbox: Outbox[int] = Outbox(2)
        task = asyncio.create_task(outbox.get_async())
        await asyncio.sleep(0)
        outbox.put(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await outbox.get_async()

    assert asyncio.run(cancelled()) == 1


def test_a_bell_that_was_not_heard_is_heard_the_next_time() -> None:
    bell = Bell()
    bell._is_rung = True  # somebody was interrupted before it sounded
    bell.ring()
    assert not bell.wait(0)
    bell.ring()
    assert bell.wait(0)


@pytest.mark.parametrize("seconds", [None, 100.0])
def test_an_interrupt_is_noticed_by_who_waits(seconds: float | None) -> None:
    with pytest.raises(Interrupted), an_interrupt():
        Outbox[int](1).get(seconds)
