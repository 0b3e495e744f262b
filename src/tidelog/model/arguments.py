"""Arguments of public calls: the checks that several of them share.

Each returns the argument as the caller goes on with it, or raises :class:`InputError` that says what was found, what
was expected and where.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tidelog.model.errors import InputError
from tidelog.model.times.instants import shown

T = TypeVar("T")


def found(what: str, value: object, expected: str) -> InputError:
    """The error for a value that an argument cannot have."""
    return InputError(f"found {shown(value)} ({type(value).__name__}) for {what}; expected {expected}")


def text(what: str, value: object, expected: str = "a text") -> str:
    """A text."""
    if not isinstance(value, str):
        raise found(what, value, expected)
    return value


def flag(what: str, value: object) -> bool:
    """True or False: a text such as ``"false"`` would be true."""
    if not isinstance(value, bool | np.bool_):
        raise found(what, value, "True or False")
    return bool(value)


def integer(what: str, value: object, smallest: int | None = None) -> int:
    """An integer, of Python or NumPy, but no bool, from ``smallest`` on if given."""
    expected = "an integer" if smallest is None else f"an integer from {smallest} on"
    if isinstance(value, bool | np.bool_ | np.timedelta64 | np.ndarray):
        raise found(what, value, expected)
    try:
        plain = operator.index(value)  # type: ignore[arg-type]  # which is what is tried
    except TypeError:
        raise found(what, value, expected) from None
    if smallest is not None and plain < smallest:
        raise found(what, value, expected)
    return plain


def one_of(what: str, value: object, choices: Sequence[str]) -> str:
    """One of some texts."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"found {what} {shown(value)}; expected one of {', '.join(map(repr, choices))}")
    return value


def instance(what: str, value: object, kind: type[T], expected: str) -> T:
    """An object of a class."""
    if not isinstance(value, kind):
        raise found(what, value, expected)
    return value


def several(what: str, values: object, expected: str) -> list[Any]:
    """The members of a list, or of anything else that can be gone through but a text, a mapping or a table."""
    is_plain = isinstance(values, list | tuple | range | set | frozenset)
    if not is_plain:
        if isinstance(values, str | bytes | Mapping | type) or not isinstance(values, Iterable):
            raise found(what, values, expected)
        if getattr(values, "ndim", 1) != 1 or hasattr(values, "column_names") or hasattr(values, "columns"):
            raise found(what, values, expected)
    return list(values)  # type: ignore[call-overload, no-any-return]  # it can be gone through


def pair(what: str, value: object, expected: str = "a start and an end, each a time or None") -> tuple[Any, Any]:
    """A tuple or a list of two."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise found(what, value, expected)
    return value[0], value[1]


def names(what: str, values: object, example: str = "x") -> list[str]:
    """A list of texts, which are names."""
    expected = f"a list of names such as [{example!r}]"
    if isinstance(values, str):
        raise InputError(f"{what} is the text {values!r}; expected a list of names such as [{values!r}]")
    listed = several(what, values, expected)
    for each in listed:
        if not isinstance(each, str):
            raise InputError(f"found {shown(each)} ({type(each).__name__}) among {what}; expected {expected}")
    return [str(each) for each in listed]
