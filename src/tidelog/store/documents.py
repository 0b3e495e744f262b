"""The files of a delta log: JSON that says what it is, and a hash that says whether it still is.

A document is one JSON object on one line. Its last member, in every version of the format, is ``hash``: BLAKE2b with 16
bytes over all bytes of the file before the comma in front of that member. The members before it:

==========  ================================================================================================
format      the version of the format, 1
kind        what the log is about, e.g. ``"tidelog stream manifest"``
number      the number of the document, from 1, which its name says too
at          when it was committed, in seconds since 1970
writer      a random text by which its writer knows it again
previous    the hash of the document before; null in number 1
delta       what changed, as the kind of log defines it
state       in checkpoints only: everything, after the change
==========  ================================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model.errors import CorruptionError, StorageError

FORMAT: Final = 1

_TAIL = re.compile(rb',"hash":"([0-9a-f]{32})"\}\n')
_TAIL_LENGTH = len(b',"hash":"') + 32 + len(b'"}\n')


@dataclass(frozen=True, slots=True)
class Document:
    """One commit of a delta log, as its file says it."""

    number: int
    at: float
    writer: str
    previous: str | None
    delta: dict[str, Any]
    state: dict[str, Any] | None
    """Everything, after the change; None unless it is a checkpoint."""


def encode(kind: str, document: Document) -> tuple[bytes, str]:
    """The bytes of a document's file, and its hash."""
    members: dict[str, Any] = {
        "format": FORMAT,
        "kind": kind,
        "number": document.number,
        "at": document.at,
        "writer": document.writer,
        "previous": document.previous,
        "delta": document.delta,
    }
    if document.state is not None:
        members["state"] = document.state
    text = json.dumps(members, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = text[:-1].encode("ascii")
    digest = _hash(body)
    return body + b',"hash":"' + digest.encode("ascii") + b'"}\n', digest


def decode(kind: str, name: str, number: int, content: bytes) -> tuple[Document, str]:
    """The document in a file called ``name``, which should have that kind and number, and its hash.

    Raises :class:`CorruptionError` when the content is not what was written, :class:`StorageError` when it was written
    by a newer release.
    """
    body, tail = content[:-_TAIL_LENGTH], content[-_TAIL_LENGTH:]
    match = _TAIL.fullmatch(tail)
    if match is None or _hash(body) != match[1].decode("ascii"):
        raise CorruptionError(
            f"{name} is damaged: its {len(content)} bytes are not the ones that were written; restore it from a backup"
        )
    members = json.loads(body + b"}")
    version = members["format"]
    if version != FORMAT:
        raise StorageError(
            f"{name} has format version {version}, this release reads version {FORMAT}; use a newer release"
        )
    if (members["kind"], members["number"]) != (kind, number):
        raise CorruptionError(
            f"{name} is number {members['number']} of a {members['kind']!r}; expected number {number} of a {kind!r}: "
            "put back the file that belongs there"
        )
    document = Document(
        number=number,
        at=members["at"],
        writer=members["writer"],
        previous=members["previous"],
        delta=members["delta"],
        state=members.get("state"),
    )
    return document, match[1].decode("ascii")


def _hash(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
