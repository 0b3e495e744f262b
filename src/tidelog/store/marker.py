"""The file by which a directory is known to be a store: ``tidelog.json``, with the version of the layout."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from tidelog.model.errors import CorruptionError, NewerReleaseError, NotFoundError, StorageError
from tidelog.storage.media.medium import Medium
from tidelog.store.log.file_names import born_at, new_file_name

MARKER: Final = "tidelog.json"
INCOMPLETE: Final = "tidelog.incomplete"
"""The file in a directory that a store is being copied to, until the copy is complete."""
VERSION: Final = 1

_FORMAT = "tidelog store"
_TEMPORARY = ".tmp"


def write_marker(medium: Medium, now: float) -> None:
    """Create the marker, atomically and durably; somebody else may have done so before, or do so at the same time."""
    temporary = f"{MARKER}.{new_file_name(now, _TEMPORARY)}"
    try:
        with medium.create(temporary) as file:
            file.write(0, json.dumps({"format": _FORMAT, "version": VERSION}).encode("ascii") + b"\n")
            file.sync()
        medium.link(temporary, MARKER)
    finally:
        with suppress(StorageError, NotFoundError):
            medium.remove(temporary)
    medium.sync_names()
    check_marker(medium)


def begin_copy(medium: Medium) -> None:
    """Mark an empty medium as one that a store is being copied to: it cannot be opened, nor made a store."""
    with medium.create(INCOMPLETE) as file:
        file.sync()
    medium.sync_names()


def end_copy(medium: Medium, now: float) -> None:
    """Make a store of a complete copy, atomically and durably."""
    medium.remove(INCOMPLETE)
    medium.sync_names()  # or it could be back after a crash, beside the marker
    write_marker(medium, now)


def refuse_incomplete(medium: Medium) -> None:
    """Raise :class:`StorageError` if the medium holds a copy of a store that was not completed."""
    if medium.exists(INCOMPLETE):
        raise StorageError(
            f"{medium} holds a backup, or a restored one, that was not completed: found {INCOMPLETE!r}; remove the "
            "directory and make it again"
        )


def check_marker(medium: Medium) -> None:
    """Raise unless the medium holds a store of this version.

    :class:`NotFoundError` if it holds none, :class:`NewerReleaseError` if a newer release made it,
    :class:`StorageError` if it is an incomplete copy, :class:`CorruptionError` if the marker is damaged.
    """
    try:
        with medium.open(MARKER) as file:
            content = file.read(0, file.size())
    except NotFoundError:
        refuse_incomplete(medium)
        raise NotFoundError(
            f"there is no store in {medium}: found no file {MARKER!r}; check the path, or create a store there"
        ) from None
    try:
        values = json.loads(content)
        made_by, version = values["format"], values["version"]
    except (ValueError, TypeError, KeyError):
        made_by = version = None
    if made_by != _FORMAT or not isinstance(version, int):
        raise CorruptionError(
            f"{MARKER} in {medium} is not what tidelog writes: found {content[:80]!r}; "
            f'expected {{"format": "{_FORMAT}", "version": {VERSION}}}'
        )
    if version != VERSION:
        raise NewerReleaseError(
            f"the store in {medium} has version {version}, this release reads version {VERSION}; use a newer release"
        )


def sweep_markers(medium: Medium, limit: float) -> list[str]:
    """Remove what interrupted creations left behind before ``limit``, in seconds since 1970; returns the names."""
    prefix = f"{MARKER}."
    left = []
    for name in medium.names(prefix):
        born = born_at(name[len(prefix) :])
        if born is not None and born <= limit:
            with suppress(NotFoundError):
                medium.remove(name)
            left.append(name)
    return left
