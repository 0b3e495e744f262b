"""Queries about situations from the arguments of a call: the text of a clause."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from tidelog.model.arguments import found, one_of, several, text
from tidelog.model.errors import InputError
from tidelog.model.times.durations import read_duration
from tidelog.sql.clauses.situations.clause import DERIVE, DIALECTS, SITUATIONS
from tidelog.sql.clauses.situations.standing_alone import with_bars

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
    if keys := _texts("partition_by", partition_by, "the name of a column, or a list of names"):
        written = [each if "(" in each else quoted(each) for each in keys]  # what is computed has parentheses
        parts.append(f"PARTITION BY {', '.join(written)}")
    if time is not None:
        parts.append(f"ORDER BY {quoted(text('time', time))}")
    definitions = _lines("define", define, "{name} AS {value}")
    if not definitions:
        raise InputError("found no situations to define; expected a dict of names and conditions")
    parts.append(f"DEFINE {_listed(definitions)}")
    one_of("mode", mode, MODES)
    one_of("dialect", dialect, _DIALECTS)
    if pattern is None:
        for name, is_given in (("within", within is not None), ("mode", mode != "completed")):
            if is_given:
                raise InputError(f"found {name} without a pattern; give one, or leave both for situations alone")
    else:
        constraints = _texts("pattern", pattern, "a text, or a list with a text for each constraint")
        if not any(each.strip() for each in constraints):
            raise InputError("found a pattern without constraints; expected some, such as 'A overlaps B'")
        constraints = [with_bars(f"PATTERN {each}").removeprefix("PATTERN ") for each in constraints]
        parts.append("PATTERN " + "\n    AND ".join(constraints))
        if within is None:
            raise InputError("found a pattern without within; give how long a match may last, such as '5 minutes'")
        parts.append(f"WITHIN {_length(within)}")
    if returns is not None and (returned := _lines("returns", returns, "{value} AS {name}")):
        parts.append(f"RETURN {_listed(returned)}")
    if pattern is not None:
        parts += [f"MODE {mode.upper()}", f"RELATIONS {dialect.upper()}"]
    inside = "\n    ".join(parts)
    return f"{DERIVE if pattern is None else SITUATIONS} (\n    {inside}\n)"


def quoted(name: str) -> str:
    """A name, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def _texts(what: str, value: Any, expected: str) -> list[str]:
    """One text, or several."""
    return (
        [value] if isinstance(value, str) else [text(what, each, expected) for each in several(what, value, expected)]
    )


def _lines(what: str, value: Any, form: str) -> list[str]:
    """Names and texts in some form, or texts as they are."""
    if isinstance(value, Mapping):
        return [
            form.format(name=quoted(text(f"a name of {what}", name)), value=_ended(text(f"{name} of {what}", each)))
            for name, each in value.items()
        ]
    return [_ended(each) for each in _texts(what, value, "a dict of names and texts, or texts as in the language")]


def _ended(own: str) -> str:
    """A text behind which something else may stand: a comment goes on to the end of its line."""
    return f"{own}\n" if "--" in own else own


def _listed(lines: list[str]) -> str:
    return ",\n        ".join(lines)


def _length(value: Any) -> str:
    if isinstance(value, bool):
        raise found("within", value, "a length of time such as '5 minutes', or a number of ticks")
    if isinstance(value, int):
        return f"{value} ticks"
    if isinstance(value, datetime.timedelta):
        return f"{int(read_duration(value) * 10**6)} us"
    return text("within", value, "a length of time such as '5 minutes', a timedelta or a number of ticks")
