"""Names of streams, and the directories that are called after them.

A stream may have any name of 1 to 255 Unicode characters. Not so a directory: some file systems ignore case, some
change how accents are composed, most refuse some characters. So a name is *escaped*: ASCII letters in lower case,
digits, ``-`` and ``_`` stand for themselves; every other character is written as the bytes of its UTF-8 form, each as
``%`` and two hexadecimal digits in lower case. ``"Röhre 7"`` becomes ``%52%c3%b6hre%207``. No two names have the same
escaped form, not even where case is ignored, and :func:`unescape_name` reads it back.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.model.errors import InputError
from tidelog.store.log.file_names import born_at, new_stem

LONGEST_NAME: Final = 255

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_ESCAPED = re.compile(r"(?:[a-z0-9_-]|%[0-9a-f]{2})*")
_LONGEST_HINT = 180
"""A directory's name has room for 255 bytes on most file systems, of which the stem takes up to 34."""


def check_stream_name(name: str) -> str:
    """Return ``name`` if a stream can have it, else raise :class:`InputError`."""
    if not isinstance(name, str):
        raise InputError(f"found {name!r} ({type(name).__name__}) for the name of a stream; expected a str")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InputError(f"found a stream name of {len(name)} characters; expected 1 to {LONGEST_NAME}")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"found the stream name {name!r}, which is not Unicode text: {error.reason}") from None
    return name


def escape_name(name: str) -> str:
    """``name`` in characters that every file system keeps apart; see the head of this module."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name.encode("utf-8"))


def unescape_name(escaped: str) -> str:
    """The name that :func:`escape_name` made ``escaped`` of; raises :class:`InputError` if there is none."""
    if _ESCAPED.fullmatch(escaped):
        content = re.sub(rb"%(..)", lambda match: bytes([int(match[1], 16)]), escaped.encode("ascii"))
        try:
            name = content.decode("utf-8")
        except UnicodeDecodeError:
            name = ""
        if escape_name(name) == escaped:
            return name
    raise InputError(f"found {escaped!r}, which is no escaped name; expected one such as '%52%c3%b6hre'")


def new_stream_id(name: str, now: float) -> str:
    """The name of a directory for a new stream: ``<escaped name>~<time and random digits>``.

    Unique, and the same for ever: the name in it is what the stream was called first, for people who look into the
    store, and cut off where it is very long. ``now`` is in seconds since 1970.
    """
    hint = re.sub(r"%.?$", "", escape_name(name)[:_LONGEST_HINT])
    return f"{hint}~{new_stem(now)}"


def stream_born_at(stream_id: str) -> float | None:
    """When a stream's directory was named, in seconds since 1970; None if it is none."""
    hint, separator, stem = stream_id.rpartition("~")
    return born_at(stem) if separator and _ESCAPED.fullmatch(hint) else None
