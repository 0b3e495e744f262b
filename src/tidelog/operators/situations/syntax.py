"""What a query about situations says: what the grammar of the clause gives, and what the operators take.

A *situation* is a longest run of rows of a partition for all of which a condition holds, valid from the time of its
first row up to, and not including, the time of the first row behind it for which the condition does not hold. One that
would be of no length, because rows have equal times, is none. A pattern is a conjunction of constraints, each of which
is about two situations and says which relations between them are allowed. A match is one situation of each definition
for which all constraints are fulfilled, and that all lie within the window: from the first start to the last end.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

MATCH_TIME: Final = "match_time"
"""The column with the time at which a match is known."""
OPEN_SUFFIX: Final = "_is_open"
"""Ends the names of the columns that tell, of early matches, which situations still go on."""
SITUATION: Final = "situation"
START_TIME: Final = "start_time"
END_TIME: Final = "end_time"


class Mode(enum.Enum):
    """When matches come out."""

    COMPLETED = "COMPLETED"
    """When all situations have ended."""
    EARLY = "EARLY"
    """At the first instant at which the relations are certain, whatever comes. The window is then tested with the time
    of that instant for ends that are not known, so that some matches come out whose situations outgrow it later."""


class Bound(enum.Enum):
    """What a situation tells of its time."""

    START = "start_time"
    END = "end_time"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of situation."""

    name: str
    condition: str
    """SQL over the input's columns; where it is NULL it does not hold."""
    least: int = 0
    """How long, in ticks, a situation lasts at least; shorter ones are none."""
    most: int | None = None
    """How long it lasts at the most; None for any length."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What relations between two situations are allowed."""

    first: str
    relations: int
    """A mask of :mod:`~tidelog.operators.situations.relations`."""
    second: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over the rows of a situation; of one that goes on, over those so far."""

    situation: str
    call: str
    """SQL over the input's columns, such as ``avg("speed")``."""


@dataclass(frozen=True, slots=True)
class Instant:
    """When a situation starts or ends, or how long it lasts; of one that goes on the last two are NULL."""

    situation: str
    bound: Bound


Term: TypeAlias = Aggregate | Instant


@dataclass(frozen=True, slots=True)
class Returned:
    """A column that comes out: SQL over columns ``#0``, ``#1`` and so on, the values of its terms."""

    name: str
    text: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Situations:
    """A whole query: rows in, matches out."""

    definitions: tuple[Definition, ...]
    constraints: tuple[Constraint, ...]
    within: int
    """The window, in ticks."""
    returned: tuple[Returned, ...]
    partition: tuple[str, ...] = ()
    mode: Mode = Mode.COMPLETED


@dataclass(frozen=True, slots=True)
class Derivation:
    """Rows in, situations out."""

    definitions: tuple[Definition, ...]
    returned: tuple[tuple[str, str], ...] = ()
    """Names of columns, and calls of aggregates over the rows of each situation."""
    partition: tuple[str, ...] = ()


def default_returned(definitions: tuple[Definition, ...]) -> tuple[Returned, ...]:
    """What comes out if nothing is said: when each situation starts and ends."""
    return tuple(
        Returned(f"{each.name}_{bound.value}", '"#0"', (Instant(each.name, bound),))
        for each in definitions
        for bound in (Bound.START, Bound.END)
    )


def duration_type(time: pa.DataType) -> pa.DataType:
    """The type of lengths of time of a clock."""
    return pa.duration(time.unit) if pa.types.is_timestamp(time) else pa.int64()
