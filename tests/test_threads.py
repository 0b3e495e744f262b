"""Threads do what they are given, in order, whatever is raised and whenever."""

from __future__ import annotations

import _thread
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

import pytest

from support.alarms import Interrupted, an_interrupt
from support.interrupts import Boundaries
from support.waiting import until
from tidelog import threads
from tidelog.threads import Flag, Task, Threads, at_once, in_order, start, submit, taken, together


class _Numbers(list[int]):
    """What can be referred to weakly."""


def failing() -> int:
    raise KeyError("this one")


def test_results_come_in_the_order_of_jobs() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.02 if number == 0 else 0)
        return number

    assert list(in_order((partial(slow_first, n) for n in range(50)), ahead=3)) == list(range(50))
    assert together([partial(slow_first, n) for n in range(5)]) == list(range(5))
    assert at_once(slow_first, range(40)) == list(range(40))


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one(count: int) -> None:
    jobs = [_thread.get_ident] * count
    here = [_thread.get_ident()] * count
    assert list(in_order(jobs, ahead=2)) == together(jobs) == at_once(lambda job: job(), jobs) == here


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    task = submit(failing)
    task.wait()
    assert task.is_done
    for _ in range(2):
        with pytest.raises(KeyError, match="this one"):
            task.result()
    with pytest.raises(KeyError):
        list(in_order([failing, failing, failing], ahead=1))
    with pytest.raises(KeyError):
        together([failing, lambda: 1])


def test_the_first_error_is_raised_when_nothing_is_under_way_any_more() -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.005)
        ended.append(number)
        if number in (2, 5):
            raise ValueError(number)

    with pytest.raises(ValueError, match="2"):
        at_once(work, range(100))
    seen = list(ended)
    time.sleep(0.03)
    assert ended == seen
    assert {0, 1, 2} <= set(seen)


def test_results_are_not_kept() -> None:
    task = submit(lambda: _Numbers([1, 2]))
    gone = weakref.ref(task.result())
    assert gone() is not None
    del task
    until(lambda: gone() is None)  # the thread that did it lets go of it before it begins another


class _Known(Exception):
    """What can be referred to weakly."""


def test_an_error_makes_no_cycle() -> None:
    def fail() -> None:
        raise _Known

    task = submit(fail)
    task.wait()
    gone = weakref.ref(task._error)  # type: ignore[arg-type]
    gc.collect()
    gc.disable()
    try:
        try:
            task.result()
        except _Known:
            del task
        until(lambda: gone() is None)
    finally:
        gc.enable()


def test_what_is_cancelled_is_not_begun() -> None:
    one = Threads(1)
    go = threading.Lock()
    go.acquire()
    held = one.submit(go.acquire)
    done: list[int] = []
    tasks = [one.submit(partial(done.append, n)) for n in range(3)]
    tasks[1].cancel()
    go.release()
    one.end()
    assert held.is_done
    assert done == [0, 2]


def test_there_are_never_more_threads_than_wanted() -> None:
    few = Threads(2)
    own = {task.result() for task in [few.submit(_thread.get_ident) for _ in range(100)]}
    assert len(own) <= 2
    few.end()
    assert few.submit(_thread.get_ident).result() == _thread.get_ident()
    until(lambda: not own & sys._current_frames().keys())


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    none = Threads(4)
    assert none.submit(_thread.get_ident).result() == _thread.get_ident()
    with pytest.raises(RuntimeError):
        start(int)


def test_a_flag_wakes_who_waits_for_it() -> None:
    flag = Flag()
    assert not flag.wait(0.001)
    waiting = start(lambda: flag.wait(60))
    assert not waiting.is_done
    flag.set()
    assert waiting.result()
    assert flag.wait(60)
    assert flag.is_set


def test_waiting_may_end_before_a_task_does() -> None:
    go = threading.Lock()
    go.acquire()
    task = start(go.acquire)
    assert not task.wait(0.001)
    go.release()
    assert task.wait(60)
    assert task.wait(0)


def test_a_task_knows_its_thread() -> None:
    seen: list[Task[None]] = []
    known = threading.Lock()
    known.acquire()

    def look() -> bool:
        with known:
            return seen[0].is_mine

    task = start(look)
    seen.append(task)  # type: ignore[arg-type]
    known.release()
    assert task.result()
    assert not task.is_mine


def test_a_forked_child_waits_for_nobody() -> None:
    go = threading.Lock()
    go.acquire()
    task = start(go.acquire)
    for _ in range(threads.THREADS):
        submit(int).result()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task.wait()
            try:
                task.result()
            except RuntimeError:
                code = 0 if submit(lambda: 7).result() == 7 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    go.release()
    task.wait()


def test_python_ends_when_what_was_submitted_is_done() -> None:
    text = (
        "import time; from tidelog.threads import submit; submit(lambda: (time.sleep(0.2), print('done', flush=True)))"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=240, check=True)
    assert (ended.stdout, ended.stderr) == ("done\n", "")


OPERATIONS: dict[str, Callable[[], object]] = {
    "submit": lambda: submit(int).result(),
    "in order": lambda: list(in_order([int] * 5, ahead=1)),
    "together": lambda: together([int] * 3),
    "at once": lambda: at_once(lambda number: number, range(5)),
    "a flag": lambda: Flag().set(),
    "a thread": lambda: start(int).result(),
    "a few": lambda: few_threads(),
}


def few_threads() -> None:
    few = Threads(2)
    few.submit(int).result()
    few.end()


def test_ctrl_c_ends_a_wait_beside_a_library_that_handles_signals() -> None:
    """Polars does, from its import on: a plain lock is waited for without end then."""
    text = """
import _thread, os, signal, sys
import polars
from tidelog.threads import start

never = _thread.allocate_lock()
never.acquire()
task = start(never.acquire)
start(lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    task.wait()
except KeyboardInterrupt:
    print("noticed", flush=True)
    os._exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=240, check=True)
    assert ended.stdout == "noticed\n"


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_interrupt_makes_anybody_wait_for_ever(name: str) -> None:
    """Whatever is held when an exception comes, at any boundary, others do their work afterwards, and all ends."""
    operation = OPERATIONS[name]
    with Boundaries.noted() as passed:
        operation()
    places = passed.distinct()
    assert len(places) > 3
    for at in places:
        with suppress(KeyboardInterrupt), Boundaries(KeyboardInterrupt(), at):  # threads that run already spare some
            operation()
        assert sum(submit(partial(int, "7")).result() for _ in range(20)) == 140


def test_threads_end_after_an_interrupt_while_they_are_started() -> None:
    for at in range(1, 40):
        few = Threads(2)
        try:
            with Boundaries(KeyboardInterrupt(), at):
                few.submit(int)
        except KeyboardInterrupt:
            pass
        else:
            assert at > 5
            break
        few.submit(int).result()
        ended = start(few.end)
        until(lambda ended=ended: ended.is_done)  # type: ignore[misc]


@pytest.mark.parametrize("wait", [Task(int).wait, lambda: Task(int).wait(100), lambda: taken(SimpleQueue())])
def test_an_interrupt_is_noticed_by_who_waits(wait: Callable[[], object]) -> None:
    with pytest.raises(Interrupted), an_interrupt():
        wait()
