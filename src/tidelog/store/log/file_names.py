"""Names of files that tell their age.

A medium knows no times of modification, so whoever sweeps up must read the age of a file from its name:
``<milliseconds since 1970, 13 digits or more>-<16 random hex digits><suffix>``, e.g.
``1790000000000-9f86d081884c7d65.tide``. The *stem*, all before the first dot, is unique; files that share a stem (a
container and its lock) belong together, and live and go together.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, TypeAlias

from tidelog.model.errors import InputError

_PLAIN = re.compile("[^./\0\ud800-\udfff][^/\0\ud800-\udfff]*")
"""Without surrogates, which no file system could be given."""
_STEM = re.compile(r"([0-9]{13,16})-([0-9a-f]{16})")


def new_stem(now: float) -> str:
    """A stem that no other file has; ``now`` is in seconds since 1970."""
    return f"{max(0, int(now * 1000)):013d}-{secrets.token_hex(8)}"


def new_file_name(now: float, suffix: str = ".tide") -> str:
    """A file name that no other file has, without a directory."""
    return new_stem(now) + suffix


def stem_of(name: str) -> str:
    """All before the first dot of the last component of ``name``."""
    return name.rpartition("/")[2].partition(".")[0]


def born_at(name: str) -> float | None:
    """When a file was named, in seconds since 1970; None for names that were not made by :func:`new_file_name`."""
    match = _STEM.fullmatch(stem_of(name))
    return None if match is None else int(match[1]) / 1000


def check_plain_name(name: str) -> str:
    """Return ``name`` if it is a file name without a directory, else raise :class:`InputError`.

    Names that documents have are checked when these are read: whatever they say, it is inside of the store.
    """
    if not isinstance(name, str) or _PLAIN.fullmatch(name) is None:
        raise InputError(f"found the file name {name!r}; expected one without directory, such as '7.tide'")
    return name


FileName: TypeAlias = Annotated[str, check_plain_name]
"""The type of a name in a document."""


def join(directory: str, name: str) -> str:
    """``name`` below ``directory``, which is ``""`` for the root of a medium."""
    return f"{directory}/{name}" if directory else name
