"""Memory that is handed out again: never two owners at once, never more idle than allowed, never stuck in one size."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tidelog.storage.codec.buffers import Recycler, allocate

MEGABYTE = 1 << 20


def test_memory_is_handed_out_again() -> None:
    recycler = Recycler(4 * MEGABYTE)
    memory = recycler.take(MEGABYTE)
    recycler.give(memory)
    assert recycler.take(MEGABYTE) is memory
    assert recycler.take(MEGABYTE) is not memory


def test_memory_of_twice_the_size_is_kept_for_others() -> None:
    recycler = Recycler(4 * MEGABYTE)
    recycler.give(recycler.take(2 * MEGABYTE))
    assert len(recycler.take(MEGABYTE)) == MEGABYTE
    assert recycler.kept_bytes == 2 * MEGABYTE


def test_the_smallest_memory_that_is_large_enough_is_handed_out() -> None:
    recycler = Recycler(8 * MEGABYTE)
    small, middle, large = (recycler.take(size * MEGABYTE // 4) for size in (4, 5, 7))
    for memory in (large, small, middle):
        recycler.give(memory)
    assert recycler.take(MEGABYTE + 1) is middle
    assert recycler.take(MEGABYTE + 1) is large
    assert recycler.kept_bytes == MEGABYTE


@pytest.mark.parametrize("size", [65_536, 65_537, 100_000, 131_071, 131_073, 3 * MEGABYTE, 5 * MEGABYTE + 1])
def test_fresh_memory_is_at_most_a_quarter_larger_than_asked_for(size: int) -> None:
    assert size <= len(Recycler(0).take(size)) <= 1.25 * size


def test_sizes_that_nobody_asks_for_make_room() -> None:
    recycler = Recycler(4 * MEGABYTE)
    for memory in [recycler.take(MEGABYTE) for _ in range(4)]:
        recycler.give(memory)
    large = recycler.take(2 * MEGABYTE)
    recycler.give(large)
    assert recycler.kept_bytes == 4 * MEGABYTE
    assert recycler.take(2 * MEGABYTE) is large


def test_the_size_asked_for_last_stays() -> None:
    recycler = Recycler(4 * MEGABYTE)
    old, new = recycler.take(MEGABYTE), recycler.take(2 * MEGABYTE)
    recycler.give(new)
    recycler.give(old)
    recycler.give(np.empty(2 * MEGABYTE, np.uint8))
    assert recycler.kept_bytes == 4 * MEGABYTE, "the smaller one, which was asked for before, has gone"
    kept = [recycler.take(2 * MEGABYTE) for _ in range(2)]
    assert any(memory is new for memory in kept)
    assert recycler.kept_bytes == 0


def test_more_than_is_ever_kept_is_given_up() -> None:
    recycler = Recycler(MEGABYTE)
    recycler.give(np.empty(MEGABYTE, np.uint8))
    recycler.give(np.empty(2 * MEGABYTE, np.uint8))
    assert recycler.kept_bytes == MEGABYTE


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    script = """
import os, threading
from tidelog.storage.codec import buffers
holding, forked = threading.Event(), threading.Event()
def hold():
    with buffers._recycler._lock:
        holding.set()
        forked.wait()
thread = threading.Thread(target=hold)
thread.start()
holding.wait()
child = os.fork()
if not child:
    buffers.allocate(1 << 20)
    os._exit(7)
forked.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == "7"


@pytest.mark.parametrize("size", [0, 1, 100, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 3 * MEGABYTE])
def test_buffers_have_the_size_asked_for_and_are_written_through_the_array(size: int) -> None:
    memory, buffer = allocate(size)
    memory[:] = 7
    assert len(memory) == buffer.size == size
    assert bytes(buffer) == b"\7" * size


def test_memory_is_not_handed_out_while_a_slice_of_an_array_uses_it() -> None:
    memory, buffer = allocate(MEGABYTE)
    memory.view(np.int64)[:] = np.arange(MEGABYTE // 8)
    part = pa.Array.from_buffers(pa.int64(), MEGABYTE // 8, [None, buffer]).slice(1000, 3)
    del memory, buffer
    others = [allocate(MEGABYTE) for _ in range(3)]
    for other, _ in others:
        other[:] = 0
    assert part.to_pylist() == [1000, 1001, 1002]
