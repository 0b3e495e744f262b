"""The error hierarchy.

Every error derives from :class:`TidelogError` and from the built-in exception it resembles, so callers
may catch either. A message says what was found, what was expected, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Final

_MOST_LISTED: Final = 12
"""Names that a message lists."""

_LONGEST_SHOWN: Final = 100
"""Characters of a name that a message shows."""


class TidelogError(Exception):
    """Base of every error raised on purpose by tidelog."""


class SchemaError(TidelogError, ValueError):
    """A schema is not one tidelog can store, or two schemas do not fit together."""


class InputError(TidelogError, ValueError):
    """Data offered for writing does not fit its schema; nothing of it was written.

    ``column`` and ``row`` (counted from 0 over the whole input) say where, when the fault has a place.
    """

    def __init__(self, message: str, *, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row


class GrainError(TidelogError, ValueError):
    """Something was asked of events that are kept in coarse form, which only finer ones could tell.

    ``grain`` is the first and the last time, in ticks, of an entry that stands in the way: nothing inside of it can be
    told apart any more.
    """

    def __init__(self, message: str, *, grain: tuple[int, int]) -> None:
        super().__init__(message)
        self.grain = grain

    def __reduce__(self) -> tuple[Any, ...]:
        return _grain_error, (str(self), self.grain)


def _grain_error(message: str, grain: tuple[int, int]) -> GrainError:
    return GrainError(message, grain=grain)


class TimeError(TidelogError, ValueError):
    """A point in time, a duration or an interval cannot be understood."""


class NotFoundError(TidelogError, KeyError):
    """Something was asked for by a name or an id that does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class ClosedError(TidelogError, ValueError):
    """An object was used after it had been closed."""


class ReadOnlyError(TidelogError, ValueError):
    """A write was attempted through something opened for reading."""


class StorageError(TidelogError, OSError):
    """A file could not be read or written."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ExistsError(StorageError, FileExistsError):
    """Something was to be created under a name that is taken."""


class CorruptionError(StorageError):
    """Bytes on disk are not what was written there."""


class NewerReleaseError(StorageError):
    """Something on disk is whole, but was written by a release that knows more than this one; nothing is damaged."""


class LockedError(StorageError):
    """Another writer holds the lock."""


class NotStoredError(StorageError):
    """A stream was closed, and rows that its appends had accepted are not known to be stored; ``rows`` of them.

    ``__cause__`` is the failure, or the interrupt, that led to it. What was flushed is there.
    """

    def __init__(self, message: str, *, rows: int) -> None:
        super().__init__(message)
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_stored_error, (str(self), self.rows)


def _not_stored_error(message: str, rows: int) -> NotStoredError:
    return NotStoredError(message, rows=rows)


class ConflictError(StorageError):
    """A commit was refused, because what it builds on was changed by someone else; nothing was committed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause for the end of a message about an unknown name: the closest known one, or some of them, and how many."""
    names = list(known)
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if close:
        return f"did you mean {_shown(by_lower[close[0]])}?"
    if not names:
        return "there are none"
    similar = [each for each in names if name and name.lower() in each.lower()]
    return f"known are {listed(similar or names, len(names))}"


def listed(names: Sequence[str], count: int | None = None) -> str:
    """Names for a message: as many as can be taken in, and how many there are besides, of ``count`` in all."""
    shown = names[:_MOST_LISTED]
    others = (len(names) if count is None else count) - len(shown)
    return ", ".join(map(_shown, shown)) + (f" and {others:,} others" if others else "")


def _shown(name: str) -> str:
    text = repr(name)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}... ({len(name):,} characters)"


NONSENSE: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What may be raised over stored values that no writer has written, by code that takes them for what they should be.

Who reads such values makes a :class:`CorruptionError` of it.
"""
