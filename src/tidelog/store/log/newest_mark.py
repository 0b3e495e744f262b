"""How far a log of documents has come: a small file beside its documents, by which a lost last one is noticed.

The file ``newest`` has two slots of 32 bytes, at 0 and at 512, written in turn: ``TLNW``, u32 CRC-32 of the slot with
this field zero, u64 number of a document, the 16 bytes of its hash. Document ``n`` is named in slot ``n mod 2``.

A document is named when it is durable. The mark itself is not synced and nobody waits for it: what it says is true, and
it may say less than there is, after a crash or when two commit at the same time. So one that is damaged or missing
proves nothing, and one that names more than there is proves that documents were lost.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.model.errors import ExistsError, NotFoundError, StorageError
from tidelog.storage.media.medium import File, Medium
from tidelog.store.log.file_names import join

MARK: Final = "newest"

_MAGIC: Final = b"TLNW"
_SLOT: Final = struct.Struct("<4sIQ16s")
_CRC_AT: Final = 4
_SLOTS_AT: Final = (0, 512)


class Newest(NamedTuple):
    """A document that was committed."""

    number: int
    digest: str


def write_mark(medium: Medium, directory: str, newest: Newest, *, durably: bool = False) -> None:
    """Name a document that is durable, unless a later one is named; as far as that is possible.

    With ``durably`` it must be possible, and the name of the file is for the caller to sync.
    """
    try:
        with _opened(medium, join(directory, MARK)) as file:
            known = _newest(file)
            if known is None or known.number < newest.number:
                slot = bytearray(_SLOT.pack(_MAGIC, 0, newest.number, bytes.fromhex(newest.digest)))
                struct.pack_into("<I", slot, _CRC_AT, zlib.crc32(slot))
                file.write(_SLOTS_AT[newest.number % 2], bytes(slot))
            if durably:
                file.sync()
    except (StorageError, NotFoundError):
        if durably:
            raise


def read_mark(medium: Medium, directory: str) -> Newest | None:
    """The newest document that is named; None if the mark does not tell."""
    try:
        with medium.open(join(directory, MARK)) as file:
            return _newest(file)
    except NotFoundError:
        return None


def _opened(medium: Medium, name: str) -> File:
    with suppress(NotFoundError):
        return medium.open(name, writable=True)
    try:
        return medium.create(name)
    except ExistsError:  # made by somebody else just now
        return medium.open(name, writable=True)


def _newest(file: File) -> Newest | None:
    found = None
    for index, offset in enumerate(_SLOTS_AT):
        slot = bytearray(file.read(offset, _SLOT.size))
        if len(slot) < _SLOT.size:
            continue
        magic, crc, number, digest = _SLOT.unpack(slot)
        struct.pack_into("<I", slot, _CRC_AT, 0)
        is_whole = magic == _MAGIC and crc == zlib.crc32(slot) and number % 2 == index
        if is_whole and (found is None or number > found.number):
            found = Newest(number, digest.hex())
    return found
