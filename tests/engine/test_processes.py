"""Streams used by several processes: readers while one writes, writers that are killed, locks, forks."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.streams import stream_process
from support.streams.stream_process import NAME, OPTIONS, PRODUCER, SCHEMA, append, look, table, times_of
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", stream_process.__file__, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def said(reader: subprocess.Popen[str]) -> str:
    assert reader.stdout is not None
    return reader.stdout.readline().strip()


def ask(reader: subprocess.Popen[str]) -> None:
    assert reader.stdin is not None
    reader.stdin.write("?\n")
    reader.stdin.flush()


def create(directory: Path) -> None:
    with Store.open(directory) as store:
        store.create_stream(NAME, SCHEMA, "ts", **OPTIONS)


def test_readers_see_whole_batches_and_never_less(tmp_path: Path) -> None:
    create(tmp_path)
    with ExitStack() as stack:
        readers = [stack.enter_context(process("read", tmp_path)) for _ in range(2)]
        assert [said(reader) for reader in readers] == ["ready", "ready"]
        batches = 100
        with Store.open(tmp_path) as store:
            stream = store.stream(NAME)
            for batch in range(batches):
                append(stream, batch)
                stream.flush()
                if batch % 40 == 39:
                    stream.delete_before(batch * 30 - 1500)
                if batch % 15 == 14:
                    stream.compact()
                if batch % 50 == 49:  # another writer, and for a moment none
                    store.close()
                    store = Store.open(tmp_path)
                    stream = store.stream(NAME)
                if batch % 15 == 0:  # looks end here that began at the earliest 15 batches ago, and others begin
                    for reader in readers:
                        assert batch == 0 or batch - 14 <= int(said(reader)) <= batch + 1
                        ask(reader)
            store.close()
        for reader in readers:
            said(reader)
            assert reader.stdin is not None
            reader.stdin.close()
            assert int(said(reader)) == batches
            assert reader.wait() == 0


def kill_once(directory: Path, seed: int) -> None:
    """Let a process go on writing, kill it at a random moment, and hold what it left to the promises."""
    dice = random.Random(seed)
    with Store.open(directory, read_only=True) as store:
        first = look(store.stream(NAME))
    acknowledged = first - 1
    with process("write", directory, first, seed) as writer:
        assert writer.stdout is not None
        wanted = dice.randrange(1, 25)
        for lines, line in enumerate(writer.stdout, start=1):
            acknowledged = int(line)
            if lines == wanted:
                threading.Timer(dice.uniform(0, 0.05), writer.kill).start()
    assert writer.returncode == -9
    with Store.open(directory, read_only=True) as store:
        verify(store.stream(NAME), acknowledged)
    with Store.open(directory) as store:
        stream = store.stream(NAME)
        last = verify(stream, acknowledged)
        if acknowledged > 0:  # sent again, it is passed over
            number = acknowledged - 1 + acknowledged % 2
            stream.append(table(number), producer=PRODUCER, number=number)
        assert verify(stream, acknowledged) == last
        complete(stream, acknowledged + 1)
        look(stream)
        assert store.check() == []


def verify(stream: Stream, acknowledged: int) -> int:
    """Whole batches up to the acknowledged one, and of the next one, which has no number if it is even, anything."""
    snapshot = stream.snapshot()
    found = stream.scan(as_of=snapshot).read_all().to_pylist()
    deleted = snapshot.manifest.deleted_before
    there = [(row["batch"], row["row"]) for row in found]
    assert len(set(there)) == len(there)
    for batch in range(acknowledged + 2):
        rows = {row for each, row in there if each == batch}
        expected = {row for row, time in enumerate(times_of(batch)) if deleted is None or time >= deleted}
        if batch <= acknowledged:
            assert rows == expected
        elif batch % 2:
            assert rows in (set(), expected)
        else:
            assert rows <= expected
    assert max((batch for batch, _ in there), default=-1) <= acknowledged + 1
    return len(there)


def complete(stream: Stream, batch: int) -> None:
    """Append what is missing of a batch."""
    if batch % 2:
        append(stream, batch)
    else:
        there = {row["row"] for row in stream.scan(where=f"batch = {batch}").read_all().to_pylist()}
        whole = table(batch)
        stream.append(whole.filter([row not in there for row in range(whole.num_rows)]))
    stream.flush()


def test_killed_again_and_again(tmp_path: Path) -> None:
    create(tmp_path)
    for seed in range(2):
        kill_once(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_soak_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    create(tmp_path)
    for each in range(10):
        kill_once(tmp_path, 100 * seed + each)


SECOND_WRITER = """
import pyarrow as pa
import tidelog
with tidelog.open(sys.argv[1]) as store:
    stream = store.stream("s")
    assert len(stream) == 1
    try:
        stream.append({"ts": 2, "batch": 0, "row": 0})
    except LockedError as error:
        assert "held by process" in str(error)
    else:
        raise AssertionError("a second writer was let in")
    stream.delete_before(-5)  # takes no lock
    assert len(stream) == 1
"""


def test_a_second_writer_is_refused_while_readers_go_on(tmp_path: Path) -> None:
    create(tmp_path)
    with Store.open(tmp_path) as store:
        stream = store.stream(NAME)
        stream.append({"ts": 1, "batch": 0, "row": 0})
        stream.flush()
        run_whole(SECOND_WRITER, tmp_path)
        stream.append({"ts": 2, "batch": 0, "row": 1})
        assert len(stream) == 2


FORK = """
import os
import tidelog
from tidelog.model.errors import ClosedError
store = tidelog.open(sys.argv[1])
stream = store.stream("s")
stream.append({"ts": 1, "batch": 0, "row": 0})
stream.flush()
stream.append({"ts": 2, "batch": 0, "row": 1})
child = os.fork()
if not child:
    status = 1
    try:
        try:
            stream.append({"ts": 3, "batch": 0, "row": 2})
            stream.flush()
        except ClosedError as error:
            assert "fork" in str(error)
            with tidelog.open(sys.argv[1], read_only=True) as other:
                assert len(other.stream("s")) == 1
            store.close()
            status = 0
    finally:
        os._exit(status)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stream.append({"ts": 4, "batch": 0, "row": 3})
stream.flush()
assert [row["ts"] for row in stream.scan().read_all().to_pylist()] == [1, 2, 4]
store.close()
with tidelog.open(sys.argv[1]) as store:
    assert len(store.stream("s")) == 3 and store.check() == []
"""


def test_a_forked_child_owns_nothing(tmp_path: Path) -> None:
    create(tmp_path)
    run_whole(FORK, tmp_path, warnings=False)


def run_whole(script: str, *arguments: object, warnings: bool = True) -> None:
    """Run a script with all of tidelog; any error in it fails the test."""
    flags = ["-W", "error"] if warnings else []
    command = [sys.executable, *flags, "-c", "import sys\nfrom tidelog.model.errors import LockedError\n" + script]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
