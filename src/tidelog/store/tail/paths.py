"""Where the files of a tail are: names that those need too who never look into one."""

from __future__ import annotations

from tidelog.store.log.file_names import join
from tidelog.store.manifest.manifest import TAIL


def tail_path(directory: str, name: str = "") -> str:
    """The name on the medium of the tail's directory, or of a file in it."""
    return join(directory, f"{TAIL}/{name}" if name else TAIL)


def lock_path(directory: str) -> str:
    """The name of the lock that the writer of a tail holds."""
    return tail_path(directory, "lock")


def live_path(directory: str) -> str:
    """The name of the lock that says that what is published is to be believed: its writer is at work."""
    return tail_path(directory, "live")


def published_path(directory: str) -> str:
    """The name of the file with the tail record."""
    return tail_path(directory, "published")
