"""Making a file that a crash has left fit for its next writer."""

from __future__ import annotations

from dataclasses import replace

from tidelog.storage.format.commit import Commit, clear_slot, publish
from tidelog.storage.media.medium import File
from tidelog.storage.read.recovery import Recovery

_REWRITTEN = 1 << 20
"""Bytes written again at a time."""


def repair(file: File, recovery: Recovery) -> None:
    """Cut off what no commit covers and publish the commit found.

    Everything is synced before, since after a kill without power loss it may be readable but not yet durable. What no
    slot vouches for is written again: if it was a failed sync that ended the writer before, the system may take its
    bytes for written, and another sync alone would do nothing.
    """
    if recovery.dropped_bytes:
        file.truncate(recovery.commit.end)
    for offset in range(recovery.published_end, recovery.commit.end, _REWRITTEN):
        file.write(offset, file.read(offset, min(_REWRITTEN, recovery.commit.end - offset)))
    for slot in recovery.damaged_slots:
        clear_slot(file, slot)
    file.sync()
    if recovery.commit.number:
        publish(file, recovery.commit)


def cut_back(file: File, recovery: Recovery, commit: Commit) -> Recovery:
    """Make an earlier commit the newest one.

    The slots forget the later ones before these are cut off: a crash in between leaves whole commits that no slot
    names, and then the caller cuts back once more. The earlier one has its slot first, so that whoever reads meanwhile
    finds it, or a later one.
    """
    if commit.number:
        publish(file, commit)
        clear_slot(file, (commit.number + 1) % 2)
    else:
        clear_slot(file, 0)
        clear_slot(file, 1)
    file.sync()
    dropped = recovery.dropped_bytes + recovery.commit.end - commit.end
    return replace(recovery, commit=commit, published=-1, dropped_bytes=dropped, damaged_slots=())
