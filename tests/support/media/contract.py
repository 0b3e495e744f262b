"""What every medium must do; subclass :class:`MediumContract` and say how to make one."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa
import pytest

from tidelog.model.errors import (
    ClosedError,
    ExistsError,
    InputError,
    LockedError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from tidelog.storage.media.medium import File, Lock, Medium


class MediumContract(ABC):
    """Tests of the contract. A subclass gives the fixture ``medium`` and a way to let syncs fail."""

    @pytest.fixture
    @abstractmethod
    def medium(self) -> Medium:
        """An empty medium whose root exists."""

    @abstractmethod
    def failing_syncs(self, medium: Medium, code: int) -> AbstractContextManager[object]:
        """Inside this context every sync of a file of the medium fails with errno ``code``."""

    # Files ----------------------------------------------------------------------------------------

    def test_a_created_file_is_empty_and_writable(self, medium: Medium) -> None:
        with medium.create("f") as file:
            assert file.name == "f"
            assert file.size() == 0
            file.write(0, b"abc")
        with medium.open("f") as file:
            assert file.read(0, 10) == b"abc"

    def test_what_is_written_is_read(self, medium: Medium) -> None:
        # The oracle is a plain byte array; sizes around the page size, overlaps and gaps.
        random = np.random.default_rng(7)
        model = bytearray()
        with medium.create("f") as file:
            for _ in range(60):
                offset, size = int(random.integers(0, 20_000)), int(random.integers(0, 9_000))
                data = random.bytes(size)
                file.write(offset, data)
                if size:
                    model.extend(bytes(max(0, offset + size - len(model))))
                    model[offset : offset + size] = data
                start, length = int(random.integers(0, 30_000)), int(random.integers(0, 30_000))
                expected = bytes(model[start : start + length])
                assert file.size() == len(model)
                assert file.read(start, length) == expected
                assert bytes(file.view(start, length)) == expected
                target = bytearray(b"\xaa" * length)
                assert file.read_into(start, target) == len(expected)
                assert target == expected + b"\xaa" * (length - len(expected))

    def test_reads_end_where_the_file_ends(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write(0, b"abcdef")
            assert file.read(4, 10) == b"ef"
            assert file.read(6, 10) == b""
            assert file.read(1_000_000, 10) == b""
            assert file.read(0, 1 << 45) == b"abcdef"
            assert bytes(file.view(4, 10)) == b"ef"
            assert bytes(file.view(9, 10)) == b""
            assert file.read(2, 0) == b""

    def test_views_are_read_only(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write(0, b"abcdef")
            assert file.view(0, 6).readonly

    def test_writes_take_any_contiguous_buffers(self, medium: Medium) -> None:
        numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
        parts = [
            b"bytes",
            bytearray(b"array"),
            memoryview(b"a view")[1:4],
            numbers,
            np.zeros((0, 4)),
            pa.py_buffer(b"arrow"),
            b"",
        ]
        expected = b"bytes" + b"array" + b" vi" + numbers.tobytes() + b"arrow"
        with medium.create("f") as file:
            file.write(3, *parts)
            assert file.read(0, 100) == b"\0\0\0" + expected
            file.write(50)
            assert file.size() == 3 + len(expected)
            floats = np.zeros(2)
            file.write(0, np.array([1.5, -2.5]))
            assert file.read_into(0, floats) == 16
            assert floats.tolist() == [1.5, -2.5]
            file.write(0, np.array([7.0]))

    def test_more_buffers_than_one_system_call_takes(self, medium: Medium) -> None:
        parts = [bytes([i % 251]) * (i % 5) for i in range(5_000)]
        with medium.create("f") as file:
            file.write(11, *parts)
            assert file.read(11, 1 << 20) == b"".join(parts)

    def test_truncate_cuts_and_extends_with_zeros(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write(0, b"x" * 10_000)
            file.truncate(5_000)
            assert file.size() == 5_000
            assert bytes(file.view(0, 20_000)) == b"x" * 5_000
            file.truncate(9_000)
            assert file.read(4_990, 20_000) == b"x" * 10 + bytes(4_000)
            assert bytes(file.view(4_990, 20_000)) == b"x" * 10 + bytes(4_000)
            file.truncate(0)
            assert file.size() == 0
            assert bytes(file.view(0, 10)) == b""

    def test_views_outlive_growth_and_closing(self, medium: Medium) -> None:
        file = medium.create("f")
        views = []
        for step in range(20):
            file.write(step * 5_000, bytes([step + 1]) * 5_000)
            views.append(file.view(step * 5_000, 5_000))
        file.close()
        for step, view in enumerate(views):
            assert view == bytes([step + 1]) * 5_000

    def test_several_open_files_of_one_name_see_each_other(self, medium: Medium) -> None:
        with medium.create("f") as writer, medium.open("f") as reader:
            writer.write(0, b"one")
            assert bytes(reader.view(0, 10)) == b"one"
            writer.write(3, b"two")
            assert bytes(reader.view(0, 10)) == b"onetwo"
            assert reader.size() == 6

    def test_a_shared_file_outlives_the_one_it_was_made_of(self, medium: Medium) -> None:
        file = medium.create("f")
        file.write(0, b"abc")
        other = file.shared()
        file.write(3, b"def")
        file.close()
        medium.remove("f")
        assert (other.name, other.size(), other.read(0, 9), bytes(other.view(2, 9))) == ("f", 6, b"abcdef", b"cdef")
        with pytest.raises(ReadOnlyError):
            other.write(0, b"x")
        with pytest.raises(ClosedError):
            file.shared()
        third = other.shared()
        other.close()
        assert third.read(0, 1) == b"a"
        third.close()
        with pytest.raises(ClosedError):
            third.size()

    def test_a_closed_file_refuses_everything(self, medium: Medium) -> None:
        file = medium.create("f")
        file.close()
        file.close()
        for use in (
            lambda: file.read(0, 1),
            lambda: file.read_into(0, bytearray(1)),
            lambda: file.view(0, 1),
            lambda: file.write(0, b"x"),
            file.sync,
            file.size,
            lambda: file.truncate(0),
        ):
            with pytest.raises(ClosedError, match="f was closed"):
                use()

    def test_a_file_opened_for_reading_refuses_changes(self, medium: Medium) -> None:
        medium.create("f").close()
        with medium.open("f") as file:
            for use in (lambda: file.write(0, b"x"), lambda: file.truncate(0), file.sync):
                with pytest.raises(ReadOnlyError, match="opened for reading"):
                    use()

    def test_negative_ranges_are_refused(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write(0, b"abc")
            for use in (
                lambda: file.read(-1, 2),
                lambda: file.read(0, -2),
                lambda: file.view(-1, 2),
                lambda: file.read_into(-1, bytearray(1)),
                lambda: file.write(-1, b"x"),
                lambda: file.truncate(-1),
            ):
                with pytest.raises(InputError, match="negative"):
                    use()
            assert file.read(0, 9) == b"abc"

    def test_after_a_failed_sync_a_file_takes_no_more_writes(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write(0, b"abc")
            file.sync()
            with (
                self.failing_syncs(medium, errno.EIO),
                pytest.raises(StorageError, match="cannot sync") as failure,
            ):
                file.sync()
            assert failure.value.errno == errno.EIO
            for use in (file.sync, lambda: file.write(0, b"x"), lambda: file.truncate(0)):
                with pytest.raises(StorageError, match="a sync failed before"):
                    use()
            assert file.read(0, 10) == b"abc"
        with medium.open("f", writable=True) as file:
            file.write(3, b"d")
            file.sync()

    def test_what_is_written_through_is_read(self, medium: Medium) -> None:
        with medium.create("f") as file:
            file.write_through(2, b"abc")
            file.write_through(4, b"")
            file.write_through(4, b"def")
            assert file.read(0, 10) == b"\0\0abdef"
            with pytest.raises(InputError, match="negative"):
                file.write_through(-1, b"x")
            assert file.read(0, 10) == b"\0\0abdef"
        with pytest.raises(ClosedError, match="f was closed"):
            file.write_through(0, b"x")
        with medium.open("f") as file, pytest.raises(ReadOnlyError, match="opened for reading"):
            file.write_through(0, b"x")

    def test_threads_share_a_file(self, medium: Medium) -> None:
        with medium.create("f") as file, ThreadPoolExecutor(4) as pool:

            def work(part: int) -> bool:
                own = bytes([part]) * 997
                for step in range(30):
                    file.write((step * 16 + part) * 997, own)
                return all(file.read((step * 16 + part) * 997, 997) == own for step in range(30))

            assert all(pool.map(work, range(16)))

    # Names ----------------------------------------------------------------------------------------

    def test_create_is_exclusive(self, medium: Medium) -> None:
        _write(medium, "f", b"precious")
        with pytest.raises(ExistsError, match="f: it exists"):
            medium.create("f")
        with pytest.raises(FileExistsError):
            medium.create("f")
        assert _read(medium, "f") == b"precious"

    def test_missing_files_are_not_found(self, medium: Medium) -> None:
        for use in (
            lambda: medium.open("f"),
            lambda: medium.open("f", writable=True),
            lambda: medium.open("no/such"),
            lambda: medium.remove("f"),
            lambda: medium.link("f", "g"),
        ):
            with pytest.raises(NotFoundError, match="there is no such file"):
                use()
        assert not medium.exists("f")
        assert medium.names() == []

    def test_files_need_a_directory(self, medium: Medium) -> None:
        _write(medium, "f", b"")
        for use in (lambda: medium.create("d/f"), lambda: medium.link("f", "d/f")):
            with pytest.raises(NotFoundError, match="directory"):
                use()
        with pytest.raises(NotFoundError, match="does not exist"):
            medium.sync_names("d")
        medium.make_directory("d")
        medium.make_directory("d")
        _write(medium, "d/f", b"1")
        medium.sync_names("d")
        assert medium.link("d/f", "d/g")
        assert _read(medium, "d/g") == b"1"

    def test_directories_are_not_files(self, medium: Medium) -> None:
        medium.make_directory("a/b")
        assert medium.names() == []
        for use in (
            lambda: medium.exists("a"),
            lambda: medium.open("a"),
            lambda: medium.open("a", writable=True),
            lambda: medium.remove("a"),
        ):
            with pytest.raises(StorageError):
                use()
        with pytest.raises(ExistsError):
            medium.create("a")
        _write(medium, "f", b"")
        assert not medium.link("f", "a")
        with pytest.raises(StorageError, match="f is a file"):
            medium.make_directory("f")
        with pytest.raises(StorageError, match="f is a file"):
            medium.make_directory("f/below")

    def test_names_are_listed_by_prefix_and_sorted(self, medium: Medium) -> None:
        medium.make_directory("splits/old")
        every = ["a", "splits/7", "splits/70", "splits/8", "splits/old/1", "splits.log", "z"]
        for name in reversed(every):
            _write(medium, name, b"")
        for prefix in ("", "a", "splits", "splits/", "splits/7", "splits/o", "splits/old/", "none", "none/x"):
            assert medium.names(prefix) == sorted(n for n in every if n.startswith(prefix)), prefix
        assert all(medium.exists(name) for name in every)

    @pytest.mark.parametrize("name", ["", "/f", "f/", "a//b", ".", "..", "a/../b", "./f", "nul\0byte"])
    def test_names_that_leave_the_medium_are_refused(self, medium: Medium, name: str) -> None:
        _write(medium, "f", b"")
        for use in (
            lambda: medium.create(name),
            lambda: medium.open(name),
            lambda: medium.exists(name),
            lambda: medium.remove(name),
            lambda: medium.link("f", name),
            lambda: medium.link(name, "g"),
            lambda: medium.lock(name),
            lambda: medium.is_locked(name),
        ):
            with pytest.raises(InputError, match="not a file name"):
                use()

    def test_a_removed_file_stays_readable_where_it_is_open(self, medium: Medium) -> None:
        _write(medium, "f", b"abc")
        with medium.open("f") as file:
            medium.remove("f")
            assert not medium.exists("f")
            assert file.read(0, 10) == b"abc"
            _write(medium, "f", b"another")
            assert file.read(0, 10) == b"abc"
        assert _read(medium, "f") == b"another"

    def test_link_is_a_second_name_and_never_replaces(self, medium: Medium) -> None:
        _write(medium, "f", b"one")
        _write(medium, "g", b"two")
        assert not medium.link("f", "g")
        assert _read(medium, "g") == b"two"
        assert medium.link("f", "h")
        medium.remove("f")
        assert _read(medium, "h") == b"one"
        assert medium.names() == ["g", "h"]

    def test_one_of_many_linkers_wins(self, medium: Medium) -> None:
        for i in range(16):
            _write(medium, f"candidate{i}", str(i).encode())
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda i: medium.link(f"candidate{i}", "target"), range(16)))
        assert won.count(True) == 1
        assert _read(medium, "target") == str(won.index(True)).encode()

    def test_syncing_names_is_possible_at_any_time(self, medium: Medium) -> None:
        medium.sync_names()
        _write(medium, "f", b"")
        medium.sync_names()
        medium.remove("f")
        medium.sync_names("")

    # Locks ----------------------------------------------------------------------------------------

    def test_a_lock_excludes_until_it_is_released(self, medium: Medium) -> None:
        lock = medium.lock("writer")
        assert lock.held
        assert lock.name == "writer"
        with pytest.raises(LockedError, match="held by this process"):
            medium.lock("writer")
        with medium.lock("other"):
            pass
        lock.release()
        assert not lock.held
        lock.release()
        with medium.lock("writer") as again:
            assert again.held
            lock.release()  # of the earlier holder: must not free the lock of the present one
            with pytest.raises(LockedError):
                medium.lock("writer")
        assert not again.held

    def test_looking_at_a_lock_neither_takes_nor_frees_it(self, medium: Medium) -> None:
        assert not medium.is_locked("writer")
        assert not medium.exists("writer")
        with medium.lock("writer"):
            assert medium.is_locked("writer")
            assert medium.is_locked("writer")
            with pytest.raises(LockedError):
                medium.lock("writer")
        assert medium.exists("writer")
        assert not medium.is_locked("writer")
        medium.lock("writer").release()

    def test_a_held_lock_file_is_not_touched(self, medium: Medium) -> None:
        with medium.lock("writer"):
            for use in (
                lambda: medium.open("writer"),
                lambda: medium.open("writer", writable=True),
                lambda: medium.remove("writer"),
            ):
                with pytest.raises(LockedError):
                    use()
            assert medium.names() == ["writer"]

    def test_a_lock_under_a_second_name_is_the_same_lock(self, medium: Medium) -> None:
        medium.lock("writer").release()
        assert medium.link("writer", "alias")
        with medium.lock("writer"), pytest.raises(LockedError):
            medium.lock("alias")
        with medium.lock("alias"), pytest.raises(LockedError):
            medium.lock("writer")

    def test_one_of_many_threads_gets_the_lock(self, medium: Medium) -> None:
        def attempt(_: int) -> Lock | None:
            try:
                return medium.lock("writer")
            except LockedError:
                return None

        with ThreadPoolExecutor(8) as pool:  # one attempt each: those that come later only wait
            locks = [lock for lock in pool.map(attempt, range(8)) if lock is not None]
        assert len(locks) == 1


def _write(medium: Medium, name: str, content: bytes) -> None:
    with medium.create(name) as file:
        file.write(0, content)


def _read(medium: Medium, name: str) -> bytes:
    with medium.open(name) as file:
        return _all(file)


def _all(file: File) -> bytes:
    return file.read(0, file.size())
