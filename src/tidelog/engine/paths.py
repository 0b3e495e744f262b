"""Where stores are: directories of a local file system, and what users write for them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tidelog.model.arguments import found
from tidelog.model.errors import ExistsError, InputError
from tidelog.model.times.instants import shown
from tidelog.storage.media.os_errors import storage_error

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_COLLAPSED: Final = re.compile(r"(?:abfss?|az|file|ftp|gc?s|hdfs|https?|memory|s3[an]?|wasbs?):/")
"""Addresses that went through :class:`pathlib.Path`, which takes two slashes for one."""


def directory(what: str, path: object) -> Path:
    """The directory that a user names for a store or a copy of one, ``~`` expanded.

    Raises :class:`InputError` for what is no path of a local file system.
    """
    if not isinstance(path, str | os.PathLike):
        raise found(what, path, "the path of a directory, as text or pathlib.Path")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise found(what, path, "a path of text, not of bytes")
    if not text:
        raise InputError(f"found an empty text for {what}; expected the path of a directory, '.' for the current one")
    if text == ":memory:":
        raise InputError(
            f"found ':memory:' for {what}: stores are directories, none is kept in memory alone; use "
            "tempfile.TemporaryDirectory for one that need not stay"
        )
    if _ADDRESS.match(text) or _COLLAPSED.match(text):
        raise InputError(
            f"found the address {shown(text)} for {what}: stores are directories of a local file system; give the path "
            "of one, for remote storage that of a mounted file system"
        )
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InputError(f"found {shown(text)} for {what}, which no file can be called: {error.reason}") from None
    if "\0" in text:
        raise InputError(f"found {shown(text)} for {what}, which no file can be called: it has a null character")
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        raise InputError(
            f"found {shown(text)} for {what}, but there is no such user; a directory of that name is './{text}'"
        )
    return Path(expanded)


def empty_directory(what: str, path: object, store: Path | None, deed: str) -> Path:
    """The directory for what is made of the store in another one, which must not be inside of that.

    Raises :class:`ExistsError`, with what was to be done there, if there is something other than an empty directory.
    """
    place = directory(what, path)
    # Links on the way are followed: what is inside the store would be taken for a part of it.
    if store is not None and place.resolve().is_relative_to(store.resolve()):
        raise InputError(f"found {_printable(place)} for {what}, which is inside the store; choose another directory")
    try:
        has_content = place.exists() and (not place.is_dir() or any(place.iterdir()))
    except OSError as error:
        raise storage_error(f"look at {place}", error) from error
    if has_content:
        raise ExistsError(f"cannot {deed} {_printable(place)}: there is something; choose an empty or a new directory")
    return place


def _printable(place: Path) -> str:
    """A path for a message, as it is unless that would do something to a terminal."""
    text = str(place)
    return text if text.isprintable() else shown(text)
