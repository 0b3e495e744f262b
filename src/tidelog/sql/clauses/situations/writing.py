"""Queries about situations from the arguments of a call: the text of a clause."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.model.arguments import found, one_of, text
from tidelog.model.errors import InputError
from tidelog.model.times.durations import read_duration
from tidelog.sql.clauses.situations.clause import DERIVE, DIALECTS, SITUATIONS

MODES: Final = ("completed", "early")
_DIALECTS: Final = tuple(each.lower() for each in DIALECTS)


def clause_of(
    define: Any,
    pattern: Any = None,
    within: Any = None,
    returns: Any = None,
    partition_by: Any = (),
    time: Any = None,
    mode: Any = "completed",
    dialect: Any = "allen",
) -> str:
    """The clause, with its word and parentheses; ``DERIVE`` if there is no pattern. Raises :class:`InputError`."""
    parts = []
    keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    if keys:
        parts.append(f"PARTITION BY {', '.join(quoted(text('partition_by', each)) for each in keys)}")
    if time is not None:
        parts.append(f"ORDER BY {quoted(text('time', time))}")
    parts.append(f"DEFINE {_listed('define', define, '{name} AS {value}')}")
    one_of("mode", mode, MODES)
    one_of("dialect", dialect, _DIALECTS)
    if pattern is None:
        for name, is_given in (("within", within is not None), ("mode", mode != "completed")):
            if is_given:
                raise InputError(f"found {name} without a pattern; give one, or leave both for situations alone")
    else:
        constraints = [pattern] if isinstance(pattern, str) else list(pattern)
        parts.append("PATTERN " + "\n    AND ".join(text("a constraint of the pattern", each) for each in constraints))
        if within is None:
            raise InputError("found a pattern without within; give how long a match may last, such as '5 minutes'")
        parts.append(f"WITHIN {_length(within)}")
    if returns:
        parts.append(f"RETURN {_listed('returns', returns, '{value} AS {name}')}")
    if pattern is not None:
        parts += [f"MODE {mode.upper()}", f"RELATIONS {dialect.upper()}"]
    inside = "\n    ".join(parts)
    return f"{DERIVE if pattern is None else SITUATIONS} (\n    {inside}\n)"


def quoted(name: str) -> str:
    """A name, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def _listed(what: str, value: Any, form: str) -> str:
    """Names and texts, one of each on a line."""
    if isinstance(value, Mapping):
        lines = [
            form.format(name=quoted(text(f"a name of {what}", name)), value=text(f"{name} of {what}", each))
            for name, each in value.items()
        ]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        lines = [text(f"an item of {what}", each) for each in value]
    elif isinstance(value, str):
        lines = [value]
    else:
        raise found(what, value, "a dict of names and texts, or texts as in the language")
    if not lines:
        raise InputError(f"found no {what}; expected a dict of names and texts")
    return ",\n        ".join(lines)


def _length(value: Any) -> str:
    if isinstance(value, bool):
        raise found("within", value, "a length of time such as '5 minutes', or a number of ticks")
    if isinstance(value, int):
        return f"{value} ticks"
    if isinstance(value, datetime.timedelta):
        return f"{int(read_duration(value) * 10**6)} us"
    return text("within", value, "a length of time such as '5 minutes', a timedelta or a number of ticks")
