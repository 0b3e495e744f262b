from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.children import run
from support.media.contract import MediumContract
from support.media.crash import RecordingMedium
from support.media.descriptors import open_below
from tidelog.model.errors import ClosedError, ExistsError, NotFoundError, StorageError
from tidelog.storage.media import directories, files
from tidelog.storage.media.file_medium import FileMedium
from tidelog.storage.media.medium import Medium


class TestPlainFiles(MediumContract):
    @pytest.fixture
    def medium(self, tmp_path: Path) -> Medium:
        return FileMedium(tmp_path)

    def failing_syncs(self, medium: Medium, code: int) -> AbstractContextManager[object]:
        return _failing("fdatasync", code)


class TestMappedFiles(TestPlainFiles):
    @pytest.fixture
    def medium(self, tmp_path: Path) -> Medium:
        return FileMedium(tmp_path, mapped=True)


class TestFilesWhereDirectoriesAreEnteredOneByOne(TestPlainFiles):
    """As on systems that cannot do it in one call."""

    @pytest.fixture(autouse=True)
    def without_the_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directories, "_syscall", None)


class TestRecordingMedium(MediumContract):
    @pytest.fixture
    def medium(self) -> Medium:
        return RecordingMedium()

    @contextmanager
    def failing_syncs(self, medium: Medium, code: int) -> Iterator[None]:
        assert isinstance(medium, RecordingMedium)
        fault = medium.inject("sync", errno=code)
        yield
        assert fault.fired == 1


@contextmanager
def _failing(function: str, code: int) -> Iterator[None]:
    def fail(*arguments: object, **named: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, function, fail)
        yield


class TestSystemErrors:
    """How failures of the system look from outside."""

    @pytest.mark.parametrize(
        ("function", "use"),
        [
            ("pread", lambda file: file.read(0, 5)),
            ("preadv", lambda file: file.read_into(0, bytearray(5))),
            ("pwrite", lambda file: file.write(0, b"12345")),
            ("pwritev", lambda file: file.write(0, b"123", b"45")),
            ("ftruncate", lambda file: file.truncate(3)),
            ("lseek", lambda file: file.size()),
        ],
    )
    def test_errors_name_the_file_the_cause_and_the_remedy(self, tmp_path: Path, function, use) -> None:
        with FileMedium(tmp_path).create("f") as file:
            file.write(0, b"abcde")
            with _failing(function, errno.ENOSPC), pytest.raises(StorageError) as failure:
                use(file)
            assert failure.value.errno == errno.ENOSPC
            assert str(tmp_path / "f") in str(failure.value)
            assert "No space left on device; free space" in str(failure.value)
            assert file.read(0, 10) == b"abcde"

    def test_a_failed_write_may_be_tried_again(self, tmp_path: Path) -> None:
        with FileMedium(tmp_path).create("f") as file:
            with _failing("pwritev", errno.ENOSPC), pytest.raises(StorageError, match="cannot write 2 bytes at 0"):
                file.write(0, b"x", b"y")
            file.write(0, b"x")
            file.sync()

    def test_a_failed_write_through_is_final(self, tmp_path: Path) -> None:
        with FileMedium(tmp_path).create("f") as file:
            file.write_through(0, b"abc")
            with (
                _failing("pwritev", errno.EIO),
                pytest.raises(StorageError, match="cannot write and sync 2 bytes"),
            ):
                file.write_through(1, b"xy")
            for use in (lambda: file.write_through(0, b"x"), lambda: file.write(0, b"x"), file.sync):
                with pytest.raises(StorageError, match="a sync failed before"):
                    use()
            assert file.read(0, 9) == b"abc"

    @pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, None])
    def test_systems_that_cannot_write_through_write_and_sync(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
    ) -> None:
        synced: list[int] = []
        monkeypatch.setattr(files.os, "fdatasync", synced.append)
        with FileMedium(tmp_path).create("f") as file:
            if code is None:
                monkeypatch.setattr(files, "_WRITES_THROUGH", False)
                file.write_through(1, b"abc")
            else:
                with _failing("pwritev", code):
                    file.write_through(1, b"abc")
            assert file.read(0, 9) == b"\0abc"
            assert len(synced) == 1

    def test_a_short_write_through_is_completed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[int] = []
        pwritev = os.pwritev
        monkeypatch.setattr(files.os, "fdatasync", synced.append)
        monkeypatch.setattr(
            files.os, "pwritev", lambda fd, views, at, *flags: pwritev(fd, [b"".join(views)[:2]], at, *flags)
        )
        with FileMedium(tmp_path).create("f") as file:
            file.write_through(1, b"abcdef")
            assert file.read(0, 9) == b"\0abcdef"
            assert len(synced) == 1

    def test_short_reads_and_writes_of_the_system_are_continued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwrite, pwritev, pread, preadv = os.pwrite, os.pwritev, os.pread, os.preadv
        monkeypatch.setattr(files.os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
        monkeypatch.setattr(files.os, "pwritev", lambda fd, views, at: pwritev(fd, [b"".join(views)[:7]], at))
        monkeypatch.setattr(files.os, "pread", lambda fd, size, at: pread(fd, min(size, 5), at))
        monkeypatch.setattr(files.os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:3]], at))
        parts = [b"a" * 3, b"b" * 4, b"c", b"d" * 20, b"e" * 7, b"f"]
        with FileMedium(tmp_path).create("f") as file:
            file.write(2, *parts)
            expected = b"\0\0" + b"".join(parts)
            assert file.read(0, 1000) == expected
            target = bytearray(len(expected) + 2)
            assert file.read_into(0, target) == len(expected)
            assert target == expected + b"\0\0"
            file.write(1, b"a single buffer")
            assert file.read(1, 15) == b"a single buffer"

    def test_a_system_that_writes_nothing_is_an_error_not_a_loop(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files.os, "pwrite", lambda *arguments: 0)
        monkeypatch.setattr(files.os, "pwritev", lambda *arguments: 0)
        with FileMedium(tmp_path).create("f") as file:
            for buffers in ([b"x"], [b"x", b"y"]):
                with pytest.raises(StorageError, match="wrote nothing"):
                    file.write(0, *buffers)

    def test_links_without_support_of_the_file_system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        medium = FileMedium(tmp_path)
        medium.create("f").close()
        with _failing("link", errno.EPERM), pytest.raises(StorageError, match="cannot link"):
            medium.link("f", "g")

    def test_a_directory_that_cannot_be_synced_is_reported(self, tmp_path: Path) -> None:
        with _failing("fsync", errno.EIO), pytest.raises(StorageError, match="cannot sync directory"):
            FileMedium(tmp_path).sync_names()


class TestDescriptors:
    def test_closing_gives_the_descriptor_back(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path, mapped=True)
        for i in range(50):
            with medium.create(f"f{i}") as file:
                file.write(0, b"abc")
                assert bytes(file.view(0, 3)) == b"abc"
        assert open_below(tmp_path) == []

    def test_closing_waits_for_operations_under_way(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        medium = FileMedium(tmp_path)
        first = medium.create("first")
        pwritev = os.pwritev

        def close_and_open_another(descriptor: int, views: list[memoryview], offset: int) -> int:
            first.close()
            opened.append(medium.create("second"))  # would get the number of a descriptor just closed
            return pwritev(descriptor, views, offset)

        opened = []
        monkeypatch.setattr(files.os, "pwritev", close_and_open_another)
        first.write(0, b"for the ", b"first")
        assert opened[0].size() == 0
        assert (tmp_path / "first").read_bytes() == b"for the first"
        with pytest.raises(ClosedError):
            first.size()
        opened[0].close()


class TestMaps:
    def test_views_of_a_mapped_medium_are_not_copies(self, tmp_path: Path) -> None:
        with FileMedium(tmp_path, mapped=True).create("f") as file:
            file.write(0, b"abc")
            view = file.view(0, 3)
            file.write(0, b"xyz")
            assert bytes(view) == b"xyz"

    def test_a_file_cut_by_another_process_does_not_kill_the_reader(self, tmp_path: Path) -> None:
        # In a process of its own: if the check of the length were missing, it would die of SIGBUS.
        script = """
import os
medium = FileMedium(sys.argv[1], mapped=True)
file = medium.create("f")
file.write(0, b"x" * 100_000)
assert len(file.view(0, 100_000)) == 100_000
os.truncate(sys.argv[1] + "/f", 5_000)
assert bytes(file.view(0, 100_000)) == b"x" * 5_000
assert bytes(file.view(50_000, 10)) == b""
os.truncate(sys.argv[1] + "/f", 0)
assert bytes(file.view(0, 100_000)) == b""
file.write(0, b"y" * 200_000)
assert bytes(file.view(0, 200_000)) == b"y" * 200_000
"""
        run(script, tmp_path)

    def test_a_file_emptied_between_asking_and_mapping(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with FileMedium(tmp_path, mapped=True).create("f") as file:
            file.write(0, b"abc")
            lseek = os.lseek

            def then_empty(*arguments: int) -> int:
                end = lseek(*arguments)
                os.truncate(tmp_path / "f", 0)
                return end

            monkeypatch.setattr(files.os, "lseek", then_empty)
            assert bytes(file.view(0, 3)) == b""


class TestDirectories:
    def test_the_root_is_made_on_demand_with_all_above_it(self, tmp_path: Path) -> None:
        medium = FileMedium(tmp_path / "a" / "b")
        assert medium.names() == []
        assert not medium.exists("f")
        with pytest.raises(NotFoundError, match="make_directory"):
            medium.create("f")
        medium.make_directory("")
        medium.create("f").close()
        assert (tmp_path / "a" / "b" / "f").exists()

    def test_new_directories_are_durable_in_their_parents(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = []
        fsync = os.fsync

        def note(descriptor: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", note)
        FileMedium(tmp_path / "root").make_directory("x/y")
        assert synced == [str(tmp_path), str(tmp_path / "root"), str(tmp_path / "root" / "x")]

    def test_a_relative_root_keeps_its_meaning(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        medium = FileMedium("store")
        medium.make_directory("")
        monkeypatch.chdir("/")
        medium.create("f").close()
        assert (tmp_path / "store" / "f").exists()

    def test_a_file_in_place_of_a_directory_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("")
        with pytest.raises(ExistsError, match="a file of that name"):
            FileMedium(tmp_path / "taken").make_directory("")
        with pytest.raises(StorageError):
            FileMedium(tmp_path / "taken").make_directory("below")
