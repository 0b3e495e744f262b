"""The files of a store in a directory of a local file system."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidelog.model.errors import ExistsError, NotFoundError, StorageError
from tidelog.storage.media import reserve
from tidelog.storage.media.directories import SAFELY, Directory, enter, open_without_links, refusal
from tidelog.storage.media.files import DiskFile, File
from tidelog.storage.media.lock import Lock, is_lock_held, is_lock_of_this_process, lock_file, refuse_held_file
from tidelog.storage.media.medium import Medium, check_name
from tidelog.storage.media.os_errors import storage_error

_READ = os.O_RDONLY | SAFELY
_WRITE = os.O_RDWR | SAFELY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFELY


class FileMedium(Medium):
    """The files below the directory ``root``; with ``mapped``, views of files are memory maps.

    Maps save a copy of everything read, which is a third of the time of a scan. Turn them off where files may be cut
    off by others, or where the device or network may fail to deliver: such a failure is an error of a read, but kills
    a process that touches a map (see :meth:`File.view`). ``root`` need not exist until something is written:
    ``make_directory("")`` creates it. It may be a link to a directory; whatever is a link below it, a pipe or a device
    is refused with :class:`CorruptionError` (:mod:`tidelog.storage.media.directories`).
    """

    def __init__(self, root: Path | str, *, mapped: bool = True, synced: bool = True) -> None:
        self.root = Path(os.path.abspath(root))  # names keep their meaning when the process changes directory
        self._root = os.path.realpath(root)  # the one that it is now, whatever a link to it will lead to
        self._inner = os.path.join(self._root, "")
        self._prefix = os.path.join(self.root, "")
        self.mapped = mapped
        self.synced = synced

    def unsynced(self) -> FileMedium:
        """The same files, with syncs that do nothing."""
        return FileMedium(self.root, mapped=self.mapped, synced=False)

    def __repr__(self) -> str:
        return f"FileMedium({str(self.root)!r}, mapped={self.mapped})"

    def __str__(self) -> str:
        return str(self.root)

    def create(self, name: str) -> File:
        """Create an empty file, open for writing; :class:`ExistsError` when the name is taken."""
        path = self._path(name)
        directory, _, leaf = name.rpartition("/")
        try:
            descriptor = open_without_links(self._inner + name, _CREATE, 0o666)
            if descriptor is None:
                with Directory(self._root, directory) as inside:
                    descriptor = os.open(leaf, _CREATE, 0o666, dir_fd=inside)
        except StorageError:
            raise
        except FileExistsError as error:
            raise ExistsError(f"cannot create {path}: it exists; open it, or choose another name") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_directory("create", path) from error
        except OSError as error:
            raise storage_error(f"create {path}", error) from error
        return DiskFile(name, path, descriptor, writable=True, mapped=self.mapped, synced=self.synced)

    def open(self, name: str, writable: bool = False) -> File:
        """Open an existing file; :class:`NotFoundError` when there is none."""
        path = self._path(name)
        refuse_held_file(self._inner + name)
        flags = _WRITE if writable else _READ
        descriptor = open_without_links(self._inner + name, flags)
        if descriptor is None:
            descriptor = self._opened(name, flags)
        file = DiskFile(name, path, descriptor, writable=writable, mapped=self.mapped, synced=self.synced)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            file.close()
            raise refusal(path, mode)
        return file

    def _opened(self, name: str, flags: int) -> int:
        """A descriptor of a file, by way of all directories that it is in."""
        path = self._path(name)
        directory, _, leaf = name.rpartition("/")
        try:
            with Directory(self._root, directory) as inside:
                mode = os.stat(leaf, dir_fd=inside, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    raise refusal(path, mode)
                return os.open(leaf, flags, dir_fd=inside)
        except StorageError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_file("open", path) from error
        except OSError as error:
            raise storage_error(f"open {path}", error) from error

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name; :class:`CorruptionError` if there is something else."""
        path = self._path(name)
        try:
            mode = os.lstat(self._inner + name).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(f"look for {path}", error) from error
        if not stat.S_ISREG(mode):
            raise refusal(path, mode)
        return True

    def names(self, prefix: str = "") -> list[str]:
        """The sorted names of all files, in all directories, that start with ``prefix``.

        Links and the like are among them, for whoever opens one to be told; what is behind a link is not.
        """
        directory = os.path.dirname(prefix)
        if directory:
            check_name(directory)
        found: list[str] = []
        waiting = [directory]
        while waiting:
            directory = waiting.pop()
            try:
                with Directory(self._root, directory, listed=True) as inside, os.scandir(inside) as entries:
                    for entry in entries:
                        name = f"{directory}/{entry.name}" if directory else entry.name
                        if not name.startswith(prefix):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(name)
                        else:
                            found.append(name)
            except StorageError:
                raise
            except (FileNotFoundError, NotADirectoryError):
                continue  # never made, or removed while we were looking
            except OSError as error:
                raise storage_error(f"list {self._prefix}{directory}", error) from error
        return sorted(found)

    def remove(self, name: str) -> None:
        """Remove a name; open files stay usable. :class:`NotFoundError` when there is none."""
        path = self._path(name)
        directory, _, leaf = name.rpartition("/")
        refuse_held_file(self._inner + name)
        try:
            with Directory(self._root, directory) as inside:
                os.unlink(leaf, dir_fd=inside)  # of a link itself, not of what it leads to
        except StorageError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_file("remove", path) from error
        except OSError as error:
            raise storage_error(f"remove {path}", error) from error

    def link(self, source: str, target: str) -> bool:
        """Give a file a second name, atomically; False, and no change, when ``target`` exists."""
        return self._link(self, source, target)

    def link_from(self, other: Medium, source: str, target: str) -> None:
        """Give a file of another directory, of the same file system, a name here too."""
        if not isinstance(other, FileMedium):
            super().link_from(other, source, target)
        elif not self._link(other, source, target):
            raise ExistsError(f"cannot link {other._path(source)} as {self._path(target)}: it exists")

    def _link(self, other: FileMedium, source: str, target: str) -> bool:
        source_path, target_path = other._path(source), self._path(target)
        source_directory, _, source_leaf = source.rpartition("/")
        target_directory, _, target_leaf = target.rpartition("/")
        found = False
        try:
            with Directory(other._root, source_directory) as there:
                mode = os.stat(source_leaf, dir_fd=there, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    raise refusal(source_path, mode)
                found = True
                with Directory(self._root, target_directory) as here:
                    os.link(source_leaf, target_leaf, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
        except StorageError:
            raise
        except FileExistsError:
            return False
        except (FileNotFoundError, NotADirectoryError) as error:
            if found and os.path.lexists(source_path):  # or it was removed meanwhile
                raise _no_directory("create", target_path) from error
            raise _no_file("link", source_path) from error
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise StorageError(
                    f"{self.root} is not on the file system of {other.root}, so they cannot share files; copy them "
                    "instead"
                ) from error
            raise storage_error(f"link {source_path} as {target_path}", error) from error
        return True

    def sync_names(self, directory: str = "") -> None:
        """Make creations, links and removals made before this call directly in ``directory`` durable."""
        if self.synced:
            _sync_directory(self._root, check_name(directory) if directory else "")

    def make_directory(self, *names: str) -> None:
        """Create directories and those above them, durably; they may exist. ``""`` is the root itself."""
        grown: dict[tuple[str, str], None] = dict.fromkeys((path, "") for path in _make_root(self._root))
        for name in names:
            if name:
                grown |= dict.fromkeys((self._root, above) for above in self._make(check_name(name)))
        for root, above in grown:
            _sync_directory(root, above)

    def _make(self, name: str) -> Iterator[str]:
        """Create a directory and those above it; gives the names of the directories that have got new ones."""
        parts = name.split("/")
        for depth, part in enumerate(parts, 1):
            above = "/".join(parts[: depth - 1])
            try:
                with Directory(self._root, above) as inside:
                    try:
                        os.close(enter(inside, part, self._path("/".join(parts[:depth]))))
                    except FileNotFoundError:
                        with suppress(FileExistsError):  # made by somebody else at this very moment, or no directory
                            os.mkdir(part, dir_fd=inside)
                        os.close(enter(inside, part, self._path("/".join(parts[:depth]))))
                        yield above
            except StorageError:
                raise
            except OSError as error:
                raise storage_error(f"make directory {self._path(name)}", error) from error

    def set_aside(self) -> None:
        """Set a little space of the disk aside, in a file of its own."""
        reserve.fill(self)

    def give_back(self) -> bool:
        """Give a piece of that file back to the disk."""
        return reserve.give_back(self)

    def lock(self, name: str) -> Lock:
        """Take the lock called ``name`` or raise :class:`LockedError` at once."""
        path = self._path(name)
        directory, _, leaf = name.rpartition("/")
        try:
            with Directory(self._root, directory) as inside:
                return lock_file(inside, leaf, path, name)
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(f"open lock file {path}", error) from error

    def is_locked(self, name: str) -> bool:
        """Whether someone, this process included, holds the lock called ``name``; takes and creates nothing."""
        path = self._path(name)
        if is_lock_of_this_process(self._inner + name):
            return True
        directory, _, leaf = name.rpartition("/")
        try:
            with Directory(self._root, directory) as inside:
                return is_lock_held(inside, leaf, path)
        except StorageError:
            raise
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(f"look at lock file {path}", error) from error

    def _path(self, name: str) -> str:
        return self._prefix + check_name(name)


def _make_root(path: str) -> list[str]:
    """Create the directory that a store is in, and those above it; returns the directories that have got new ones."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError as error:
            if not os.path.isdir(path):
                raise ExistsError(f"cannot make directory {path}: a file of that name exists") from error
        except OSError as error:
            raise storage_error(f"make directory {path}", error) from error
    return [os.path.dirname(path) for path in reversed(missing)]


def _sync_directory(root: str, name: str) -> None:
    path = os.path.join(root, name) if name else root
    try:
        directory = Directory(root, name, listed=True)
    except StorageError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"cannot sync directory {path}: it does not exist") from error
    except OSError as error:
        raise storage_error(f"open directory {path}", error) from error
    with directory as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise storage_error(f"sync directory {path}", error) from error


def _no_file(action: str, path: str) -> NotFoundError:
    return NotFoundError(f"cannot {action} {path}: there is no such file")


def _no_directory(action: str, path: str) -> NotFoundError:
    return NotFoundError(
        f"cannot {action} {path}: directory {os.path.dirname(path)} does not exist; make it with make_directory"
    )
