"""Directories and files that a pipeline names: are they there, and may we?"""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_GLOB = frozenset("*?[{")


def is_address(path: str) -> bool:
    """Whether a path is none of this machine's, so that nothing can be said about it."""
    return "://" in path


def unreadable(path: str) -> str | None:
    """Why files cannot be read from a path, which may be a pattern; None if they can."""
    if is_address(path):
        return None
    if _GLOB & set(path):
        start = _before_pattern(path)
        return None if os.path.isdir(start) else f"there is no directory {start}, where the pattern {path} begins"
    if not os.path.exists(path):
        return f"there is no {path}{_nearby(path)}; create it, or correct the path"
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        return f"no permission to read {path}; let this user read it, or choose another path"
    return None


def unwritable(path: str) -> str | None:
    """Why nothing can be written below a path, which need not exist yet; None if it can."""
    if is_address(path):
        return None
    place = Path(path)
    if place.exists() and not place.is_dir():
        return f"{path} is a file; expected a directory"
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return f"{place} is a file, so that {path} cannot be created below it"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"no permission to write into {place}; let this user write there, or choose another path"
    return None


def files_below(path: str, most: int = 1) -> Sequence[str]:
    """Some files that a source of a path would read; those that Spark passes over, ``_x`` and ``.x``, are left out."""
    return [] if is_address(path) else _first(_files(path), most)


def header_of(file: str, separator: str) -> list[str] | None:
    """The names in the first line of a CSV file; None if there are none that can be told."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            return next(csv.reader(text, delimiter=separator), None)
    except (OSError, UnicodeDecodeError, csv.Error, TypeError):
        return None


def _files(path: str) -> Iterator[str]:
    for start in sorted(glob.glob(path)) if _GLOB & set(path) else [path]:
        if os.path.isfile(start):
            yield start
            continue
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if name[0] not in "._")
            yield from (os.path.join(folder, name) for name in sorted(names) if name[0] not in "._")


def _first(files: Iterator[str], most: int) -> list[str]:
    return [file for file, _ in zip(files, range(most), strict=False)]


def _before_pattern(path: str) -> str:
    parts = Path(path).parts
    fixed = next((at for at, part in enumerate(parts) if _GLOB & set(part)), len(parts))
    return str(Path(*parts[:fixed])) if fixed else "."


def _nearby(path: str) -> str:
    """What there is instead, for people who have mistyped a path."""
    from difflib import get_close_matches

    parent, name = os.path.split(path)
    if not os.path.isdir(parent) or not os.access(parent, os.R_OK):
        return ""
    close = get_close_matches(name, os.listdir(parent), n=1)
    return f" (did you mean {os.path.join(parent, close[0])}?)" if close else ""
