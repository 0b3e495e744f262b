"""The files of a delta log: JSON that says what it is, and a hash that says whether it still is.

A document is one JSON object on one line. Its last member, in every version of the format, is ``hash``: BLAKE2b with 16
bytes over all bytes of the file before the comma in front of that member. The members before it:

==========  ================================================================================================
format      the version of the format, 2
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

The first document of a log has number 1, or, in a copy of a log, the number of the state that was copied. Documents of
format 1 are read too: they have no ``place``, and no ``checkpoint``, because every 16th of them has a state, from the
first on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model.errors import NONSENSE, CorruptionError, NewerReleaseError

FORMAT: Final = 2

_FIXED_STEP: Final = 16
"""From one document with a state to the next, in format 1."""

_NULL: Final = type(None)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "at": (int, float),
    "writer": (str,),
    "previous": (str, _NULL),
    "checkpoint": (int, _NULL),
    "delta": (dict,),
    "state": (dict, _NULL),
}

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
    state: dict[str, Any] | None
    """Everything, after the change; None unless it is a checkpoint."""

    @property
    def begins_at(self) -> int | None:
        """The number of the document with the state that reading begins with; None if there is none."""
        return self.checkpoint if self.state is None else self.number


def encode(kind: str, place: str, document: Document) -> tuple[bytes, str]:
    """The bytes of the file of a document of the log in the directory ``place``, and its hash."""
    members: dict[str, Any] = {
        "format": FORMAT,
        "kind": kind,
        "place": place,
        "number": document.number,
        "at": document.at,
        "writer": document.writer,
        "previous": document.previous,
        "checkpoint": document.checkpoint,
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
    version = members["format"]
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"found {version!r} for its format")
    if version > FORMAT:
        raise NewerReleaseError(
            f"{name} has format version {version}, this release reads versions 1 and {FORMAT}: the store was written "
            "by a newer release; use that one, or a newer one"
        )
    place = name.rpartition("/")[0]
    found, expected = (members["kind"], members["number"]), (kind, number)
    if found != expected or (version > 1 and members["place"] != place):
        raise CorruptionError(
            f"{name} is number {members['number']} of a {members['kind']!r} in {members.get('place', place)!r}; "
            f"expected number {number} of a {kind!r} in {place!r}: put back the file that belongs there"
        )
    checkpoint = members["checkpoint"] if version > 1 else _fixed_checkpoint(number)
    document = Document(
        number=number,
        at=members["at"],
        writer=members["writer"],
        previous=members["previous"],
        checkpoint=checkpoint,
        delta=members["delta"],
        state=members.get("state"),
    )
    _check_types(document)
    return document


def _check_types(document: Document) -> None:
    """Raise :class:`TypeError` for members that no release has written."""
    for name, kinds in _TYPES.items():
        value = getattr(document, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"found {value!r:.80} for {name!r}")
    if document.checkpoint is not None and not 1 <= document.checkpoint < document.number:
        raise ValueError(f"found {document.checkpoint} for the last checkpoint before {document.number}")


def refuse_unknown(what: str, values: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise :class:`NewerReleaseError` if something stored has members that this release does not know.

    The message is a clause, to be completed by whoever knows the name of the file.
    """
    unknown = [name for name in values if name not in known]
    if unknown:
        raise NewerReleaseError(f"{what} with {', '.join(map(repr, unknown))}, which this release does not know")


def _fixed_checkpoint(number: int) -> int | None:
    """The last document before ``number`` that has a state, in format 1."""
    return None if number == 1 else number - 1 - (number - 2) % _FIXED_STEP


def _hash(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
