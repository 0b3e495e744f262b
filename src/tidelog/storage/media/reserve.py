"""Space that is set aside, so that what frees space can be written on a full disk.

To delete something takes a commit, and a commit takes a file. So a store keeps a small file of no meaning, and cuts a
piece off it when a commit that gives space back finds the disk full. It is filled up again when the store is next
opened for writing. All of this is as far as possible: somebody else may be faster to take what was given back.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

from tidelog.model.errors import ExistsError, NotFoundError, StorageError
from tidelog.storage.media.medium import File, Medium

RESERVE: Final = "reserve"
"""The name of the file, at the root of a store."""
RESERVE_BYTES: Final = 256 << 10
PIECE_BYTES: Final = 16 << 10
"""What is given back at a time: a document, the block of its directory, and some more."""

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or a quota, that has no room."""


def fill(medium: Medium) -> None:
    """Set space aside up to the full amount, or as much as there is. Raises nothing because of a failing medium."""
    with suppress(StorageError, NotFoundError, ExistsError), _opened(medium) as file:
        size = file.size()
        if size < RESERVE_BYTES:
            # Bytes that no file system can compress. Not synced: what a crash takes is filled up again.
            file.write(size, os.urandom(RESERVE_BYTES - size))


def give_back(medium: Medium) -> bool:
    """Give a piece back to the disk; False if there is none, or none can be given."""
    try:
        with medium.open(RESERVE, writable=True) as file:
            size = file.size()
            if not size:
                return False
            file.truncate(max(size - PIECE_BYTES, 0))
            file.sync()
    except (StorageError, NotFoundError):
        return False
    return True


def _opened(medium: Medium) -> File:
    return medium.open(RESERVE, writable=True) if medium.exists(RESERVE) else medium.create(RESERVE)
