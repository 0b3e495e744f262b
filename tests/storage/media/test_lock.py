from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.children import child, run
from support.interrupts import Boundaries
from support.media.descriptors import open_below
from tidelog.model.errors import LockedError, StorageError
from tidelog.storage.media import lock as locks
from tidelog.storage.media.file_medium import FileMedium

HOLDER = """
lock = FileMedium(sys.argv[1]).lock("writer")
print("held", flush=True)
sys.stdin.read()
"""

LOOK = "assert FileMedium(sys.argv[1]).is_locked('writer')"


@contextmanager
def holder(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock ``writer``."""
    with child(HOLDER, root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


class TestBetweenProcesses:
    def test_another_process_is_refused_and_told_who_holds_the_lock(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path)
        with holder(tmp_path) as process:
            host = os.uname().nodename
            with pytest.raises(LockedError, match=f"held by process {process.pid} on {host}; close"):
                medium.lock("writer")
            assert medium.is_locked("writer")
            assert (tmp_path / "writer").read_text() == f"{process.pid} {host}\n"

    def test_the_kernel_names_the_holder_even_if_the_lock_file_does_not(self, tmp_path: Path) -> None:
        with holder(tmp_path) as process:
            (tmp_path / "writer").write_text("")
            with pytest.raises(LockedError, match=f"held by process {process.pid}; close"):
                FileMedium(tmp_path).lock("writer")

    def test_a_killed_holder_leaves_no_lock(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path)
        with holder(tmp_path) as process:
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert not medium.is_locked("writer")
            with medium.lock("writer") as lock:
                assert lock.held
                assert (tmp_path / "writer").read_text().split()[0] == str(os.getpid())

    def test_a_process_that_ends_leaves_no_lock(self, tmp_path: Path) -> None:
        with holder(tmp_path) as process:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait() == 0
            FileMedium(tmp_path).lock("writer").release()

    def test_a_shorter_signature_replaces_a_longer_one(self, tmp_path: Path) -> None:
        (tmp_path / "writer").write_text("9" * 300)
        with FileMedium(tmp_path).lock("writer"):
            assert (tmp_path / "writer").read_text() == f"{os.getpid()} {os.uname().nodename}\n"

    def test_a_child_process_started_by_exec_does_not_hold_the_lock(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path)
        with medium.lock("writer"), child("input()") as process:
            inherited = os.listdir(f"/proc/{process.pid}/fd")
            targets = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in inherited]
            assert str(tmp_path / "writer") not in targets

    def test_what_other_descriptors_do_cannot_free_the_lock(self, tmp_path: Path) -> None:
        # Everything this medium lets one do with the held file, then a look from another process.
        medium = FileMedium(tmp_path)
        with medium.lock("writer"):
            for use in (medium.lock, medium.open, medium.remove):
                with pytest.raises(LockedError):
                    use("writer")
            assert medium.is_locked("writer")
            assert medium.exists("writer")
            assert medium.names() == ["writer"]
            run(LOOK, tmp_path)


class TestForkedChildren:
    """Each scenario runs in a fresh single-threaded process, because forking a test runner is asking for trouble."""

    PRELUDE = """
import os
medium = FileMedium(sys.argv[1])

def refused():
    try:
        medium.lock("writer")
    except LockedError as error:
        return str(error)
    return None

def in_child(check):
    process = os.fork()
    if process == 0:
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(process, 0)[1] == 0
"""

    def test_a_forked_child_neither_holds_nor_frees_the_lock(self, tmp_path: Path) -> None:
        run(
            self.PRELUDE
            + """
lock = medium.lock("writer")

def check():
    assert not lock.held
    assert f"process {os.getppid()}" in refused()
    lock.release()
    lock._held.close()
    assert f"process {os.getppid()}" in refused()

in_child(check)
assert lock.held
in_child(lambda: None if refused() else sys.exit(1))   # still locked for others
lock.release()
in_child(medium.lock("writer").release)
""",
            tmp_path,
        )

    def test_a_fork_that_python_does_not_see_is_noticed_too(self, tmp_path: Path) -> None:
        run(
            self.PRELUDE
            + """
import ctypes
os.fork = ctypes.PyDLL(None).fork        # runs no hooks
lock = medium.lock("writer")

def check():
    assert not lock.held
    lock.release()
    assert refused()

in_child(check)
assert lock.held
lock.release()
assert refused() is None
""",
            tmp_path,
        )

    def test_a_child_may_take_the_lock_after_its_parent_let_go(self, tmp_path: Path) -> None:
        run(
            self.PRELUDE
            + """
lock = medium.lock("writer")
to_child, from_parent = os.pipe()
to_parent, from_child = os.pipe()
process = os.fork()
if process == 0:
    status = 1
    try:
        os.read(to_child, 1)
        own = medium.lock("writer")
        lock.release()                   # the parent's object: must not free the child's lock
        os.write(from_child, b"x")
        os.read(to_child, 1)
        assert own.held
        own.release()
        status = 0
    finally:
        os._exit(status)
lock.release()
os.write(from_parent, b"x")
os.read(to_parent, 1)
assert f"process {process}" in refused()
os.write(from_parent, b"x")
assert os.waitpid(process, 0)[1] == 0
assert refused() is None
""",
            tmp_path,
        )

    def test_the_lock_ends_with_the_parent_although_children_live(self, tmp_path: Path) -> None:
        script = (
            self.PRELUDE
            + """
lock = medium.lock("writer")
if os.fork() == 0:
    os.read(0, 1)                        # lives until the test ends
    os._exit(0)
print("held", flush=True)
os.kill(os.getpid(), 9)
"""
        )
        with child(script, tmp_path) as process:
            assert process.wait() == -signal.SIGKILL
            FileMedium(tmp_path).lock("writer").release()

    def test_a_fork_in_the_middle_of_locking_leaves_the_child_able_to_lock(self, tmp_path: Path) -> None:
        run(
            self.PRELUDE
            + """
from tidelog.storage.media import lock as locks
with locks._registry.mutex:              # as if another thread were locking
    in_child(lambda: medium.lock("writer").release())
""",
            tmp_path,
        )


class TestGarbage:
    """An interrupt may come before whoever takes a lock knows it."""

    def test_a_lock_that_nobody_knows_any_more_can_be_taken(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path)
        medium.lock("writer")
        held: list[object] = [medium.lock("writer")]
        with pytest.raises(LockedError):
            medium.lock("writer")
        held.append(held)  # found by the collector alone
        del held
        medium.lock("writer").release()

    def test_a_release_goes_on_where_it_was_interrupted(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path)
        lock = medium.lock("writer")
        with Boundaries() as passed:
            lock.release()
        for at in range(1, passed.passed + 1):
            lock = medium.lock("writer")
            with suppress(KeyboardInterrupt), Boundaries(KeyboardInterrupt(), at):
                lock.release()
            lock.release()
            with medium.lock("writer") as taken:
                lock.release()
                assert taken.held
                assert medium.is_locked("writer")


class TestIdentity:
    def test_a_symbolic_link_to_the_root_leads_to_the_same_locks(self, tmp_path: Path) -> None:
        (tmp_path / "store").mkdir()
        (tmp_path / "alias").symlink_to("store")
        real, alias = FileMedium(tmp_path / "store"), FileMedium(tmp_path / "alias")
        with real.lock("writer"):
            with pytest.raises(LockedError, match="this process"):
                alias.lock("writer")
            with pytest.raises(LockedError):
                alias.open("writer")
            assert alias.is_locked("writer")

    def test_two_media_with_locks_of_one_name_are_independent(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        with FileMedium(tmp_path / "a").lock("writer"), FileMedium(tmp_path / "b").lock("writer"):
            pass

    def test_a_lock_file_deleted_while_it_is_taken_is_not_trusted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Someone deletes the file between our opening and locking it: a lock on a file without a name excludes nobody.
        path = tmp_path / "writer"
        lockf = fcntl.lockf
        deletions = 3

        def delete_first(*arguments: int) -> None:
            nonlocal deletions
            if deletions:
                deletions -= 1
                path.unlink()
            lockf(*arguments)

        monkeypatch.setattr(locks.fcntl, "lockf", delete_first)
        with FileMedium(tmp_path).lock("writer"):
            assert deletions == 0
            run(LOOK, tmp_path)

    def test_a_lock_file_deleted_for_ever_ends_in_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks.fcntl, "lockf", lambda *arguments: (tmp_path / "writer").unlink())
        with pytest.raises(StorageError, match="deleted again and again"):
            FileMedium(tmp_path).lock("writer")
        assert open_below(tmp_path) == []

    def test_a_path_redirected_to_a_lock_of_ours_keeps_that_lock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Between looking and opening, "other" becomes a link to the lock file we hold: closing it would free the lock.
        medium = FileMedium(tmp_path)
        lock = medium.lock("writer")
        system_open = os.open

        def redirect_first(path: str, *rest: int, **where: int) -> int:
            if path == "other":
                os.link(tmp_path / "writer", tmp_path / "other")
            return system_open(path, *rest, **where)

        with monkeypatch.context() as patch:
            patch.setattr(locks.os, "open", redirect_first)
            with pytest.raises(LockedError, match="as writer"):
                medium.lock("other")
        run(LOOK, tmp_path)
        lock.release()
        assert not medium.is_locked("writer")
        assert open_below(tmp_path) == []


class TestFailures:
    def test_a_file_system_without_locks_is_named_as_the_cause(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: object) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(locks.fcntl, "lockf", fail)
        with pytest.raises(StorageError, match="does not support locks") as failure:
            FileMedium(tmp_path).lock("writer")
        assert not isinstance(failure.value, LockedError)

    def test_a_missing_directory_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="cannot open lock file"):
            FileMedium(tmp_path).lock("no/writer")
        assert not FileMedium(tmp_path).is_locked("no/writer")

    def test_a_full_disk_does_not_prevent_locking(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*arguments: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(locks.os, "pwrite", fail)
        with FileMedium(tmp_path).lock("writer") as lock:
            assert lock.held
