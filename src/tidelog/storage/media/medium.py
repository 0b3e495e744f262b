"""Named files: the seam between the store and whatever keeps its bytes.

:class:`Medium` and :class:`File` are the contract, :class:`~tidelog.storage.media.file_medium.FileMedium` keeps it in a
directory of a local file system. Durability follows POSIX at its strictest: bytes and length of a file are durable
after its ``sync``, its *name* only after ``sync_names`` of its directory.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache

from tidelog.model.errors import InputError, StorageError
from tidelog.storage.media.files import Content, File, Readable, Writable
from tidelog.storage.media.lock import Lock

__all__ = ["Content", "File", "Lock", "Medium", "Readable", "Writable", "check_name"]

_KNOWN_NAMES = 1024
"""Names that are not looked at again: the same few are asked for over and over."""
_UNFIT = re.compile(r"[\0\ud800-\udfff]|(?:^|/)\.{0,2}(?:/|\Z)")
"""What no name has: a null or half a character, or a part between slashes that is empty, ``.`` or ``..``."""


class Medium(ABC):
    """A set of named files. Names are relative paths such as ``"splits/7.tide"``, see :func:`check_name`."""

    @abstractmethod
    def create(self, name: str) -> File:
        """Create an empty file, open for writing; :class:`ExistsError` when the name is taken."""

    @abstractmethod
    def open(self, name: str, writable: bool = False) -> File:
        """Open an existing file; :class:`NotFoundError` when there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file of that name; :class:`CorruptionError` if there is a directory."""

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """The sorted names of all files, in all directories, that start with ``prefix``."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a name; open files stay usable. :class:`NotFoundError` when there is none."""

    @abstractmethod
    def link(self, source: str, target: str) -> bool:
        """Give a file a second name, atomically; False, and no change, when ``target`` exists."""

    def link_from(self, other: Medium, source: str, target: str) -> None:
        """Give a file of another medium a name here too; both then share its bytes, now and after any change.

        Raises :class:`StorageError` if the two cannot share files, :class:`NotFoundError` if there is no such file,
        :class:`ExistsError` if ``target`` exists.
        """
        raise StorageError(f"{other} and {self} cannot share files; copy them instead")

    @abstractmethod
    def sync_names(self, directory: str = "") -> None:
        """Make creations, links and removals made before this call directly in ``directory`` durable."""

    @abstractmethod
    def make_directory(self, *names: str) -> None:
        """Create directories and those above them, durably; they may exist. ``""`` is the root itself."""

    @abstractmethod
    def lock(self, name: str) -> Lock:
        """Take the lock called ``name`` or raise :class:`LockedError` at once (:mod:`tidelog.storage.media.lock`).

        The lock is a file of its own that must not be opened, linked or removed.
        """

    @abstractmethod
    def is_locked(self, name: str) -> bool:
        """Whether someone, this process included, holds the lock called ``name``; takes and creates nothing."""

    def set_aside(self) -> None:
        """Set a little space aside for :meth:`give_back`, if the medium can be full; raises nothing if it is."""
        return

    def give_back(self) -> bool:
        """Give a piece of what was set aside back, because there is no space left; False if nothing was given."""
        return False

    def unsynced(self) -> Medium:
        """The same files for somebody who does not need them to survive a crash of the machine.

        Syncing them need not wait for anything; a medium may do it all the same.
        """
        return self


@lru_cache(_KNOWN_NAMES)
def check_name(name: str) -> str:
    """Return ``name`` if it is a valid file name of a medium, else raise :class:`InputError`.

    Components are separated by single slashes; none is empty, ``.`` or ``..``.
    """
    if _UNFIT.search(name):
        raise InputError(
            f"{name!r} is not a file name of a medium: expected a relative path such as 'splits/7.tide' "
            "without empty, '.' or '..' parts"
        )
    return name
