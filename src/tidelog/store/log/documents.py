"""The files of a delta log: JSON that says what it is, and a hash that says whether it still is.

A document is one JSON object on one line. Its last member, in every version of the format, is ``hash``: BLAKE2b with 16
bytes over all bytes of the file before the comma in front of that member. The members before it:

==========  ================================================================================================
format      the version of the format, 3
kind        what the log is about, e.g. ``"tidelog stream manifest"``
place       the directory of the log, as seen from that of the store
number      the number of the document, from 1, which its name says too
at          when it was committed, in seconds since 1970
writer      a random text by which its writer knows it again
previous    the hash of the document before; null in the first one of a log
checkpoint  the number of the last document before this one that has a state; null in the first one of a log
delta       what changed, as the kind of log defines it
state       in checkpoints only: everything, after the change
==========  ================================================================================================

The first document of a log has number 1, or, in a copy of a log, the number of the state that was copied.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model.errors import NONSENSE, CorruptionError, NewerReleaseError
from tidelog.store.log.members import Record

FORMAT: Final = 3

_TAIL = re.compile(rb',"hash":"([0-9a-f]{32})"\}\n')
_TAIL_LENGTH = len(b',"hash":"') + 32 + len(b'"}\n')


@dataclass(frozen=True, slots=True)
class Document:
    """One commit of a delta log, as its file says it."""

    number: int
    at: float
    writer: str
    previous: str | None
    checkpoint: int | None
    """The number of the last document before this one that has a state; None in the first one of a log."""
    delta: dict[str, Any]
    state: dict[str, Any] | None = None
    """Everything, after the change; None unless it is a checkpoint."""

    @property
    def begins_at(self) -> int | None:
        """The number of the document with the state that reading begins with; None if there is none."""
        return self.checkpoint if self.state is None else self.number


_MEMBERS: Final = Record(Document, "a document", sparse=True)


def encode(kind: str, place: str, document: Document) -> tuple[bytes, str]:
    """The bytes of the file of a document of the log in the directory ``place``, and its hash."""
    members = {"format": FORMAT, "kind": kind, "place": place, **_MEMBERS.to_dict(document)}
    text = json.dumps(members, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = text[:-1].encode("ascii")
    digest = _hash(body)
    return body + b',"hash":"' + digest.encode("ascii") + b'"}\n', digest


def decode(kind: str, name: str, number: int, content: bytes) -> tuple[Document, str]:
    """The document in a file called ``name``, which should have that kind and number, and its hash.

    Raises :class:`CorruptionError` when the content is not what was written, :class:`NewerReleaseError` when it was
    written by a newer release.
    """
    body, tail = content[:-_TAIL_LENGTH], content[-_TAIL_LENGTH:]
    match = _TAIL.fullmatch(tail)
    if match is None or _hash(body) != match[1].decode("ascii"):
        raise CorruptionError(
            f"{name} is damaged: its {len(content)} bytes are not the ones that were written; restore it from a backup"
        )
    try:
        return _document(kind, name, number, json.loads(body.decode("ascii") + "}")), match[1].decode("ascii")
    except NONSENSE as error:
        raise CorruptionError(f"{name} makes no sense: {error!r}; restore it from a backup") from error


def _document(kind: str, name: str, number: int, members: dict[str, Any]) -> Document:
    version = members.pop("format")
    if not isinstance(version, int) or version < FORMAT:
        raise ValueError(f"found {version!r} for its format")
    if version > FORMAT:
        raise NewerReleaseError(
            f"{name} has format version {version}, this release reads version {FORMAT}: the store was written by a "
            "newer release; use that one, or a newer one"
        )
    found, expected = (
        (members.pop("kind"), members["number"], members.pop("place")),
        (kind, number, name.rpartition("/")[0]),
    )
    if found != expected:
        raise CorruptionError(
            f"{name} is number {found[1]} of a {found[0]!r} in {found[2]!r}; expected number {number} of a {kind!r} in "
            f"{expected[2]!r}: put back the file that belongs there"
        )
    document = _MEMBERS.from_dict(members)
    if document.checkpoint is not None and not 1 <= document.checkpoint < document.number:
        raise ValueError(f"found {document.checkpoint} for the last checkpoint before {document.number}")
    return document


def _hash(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
