"""What the arguments of ``window``, ``session_window`` and ``count_window`` say."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Operator, Shape
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Frames, Period
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.sql.clauses.grouping import Grouping
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import tokens
from tidelog.sql.text.tree import Node, Parser, nodes

if TYPE_CHECKING:
    import duckdb

_WINDOW: Final = "w1ndow"
"""What ``window(...)`` is called while DuckDB reads it, where the word has a meaning of its own; as long as that."""
FUNCTIONS: Final = (_WINDOW, "session_window", "count_window")
_OPTIONS: Final = ("origin", "zone", "empty", "complete_only")


def parsed(parser: Parser, text: str) -> Node:
    """The tree of a statement, in which ``window(`` is the call of a function; all places are those of the text."""
    own = _readable(text)
    try:
        return parser.parse(own)
    except SqlError as error:
        if own == text:
            raise
        raise SqlError(shown(error.message), text=text, position=error.position, column=error.column) from None


def _readable(text: str) -> str:
    found = tokens(text)
    places = [one.start for one, other in itertools.pairwise(found) if one.says("WINDOW") and other.says("(")]
    for at in places:
        text = text[:at] + _WINDOW + text[at + len(_WINDOW) :]
    return text


def shown(text: str) -> str:
    """A text of DuckDB's with ``window`` as it was written."""
    return text.replace(_WINDOW, "window")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of windows."""

    operator: Callable[[Shape, Mapping[str, str], Sequence[str]], Operator]
    """Makes the operator for rows of some shape, aggregates and keys."""
    frames: Frames | FromFirst | None = None
    """Which windows of time there are, if they are such."""
    flags: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Length:
    """A length of time, as DuckDB has it, or in ticks of a clock of plain integers."""

    months: int = 0
    days: int = 0
    micros: int = 0
    ticks: int | None = None


class Arguments:
    """The arguments of one call."""

    def __init__(self, grouping: Grouping, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._grouping = grouping
        self._connect = connect

    def plain(self) -> list[Node]:
        """Those without a name."""
        return [each["expression"] for each in self._grouping.call["arguments"] if not each["name"]]

    def _options(self) -> dict[str, Any]:
        """The named arguments, by name."""
        found = {}
        for each in self._grouping.call["arguments"]:
            if each["name"]:
                name = each["name"].lower()
                if name not in _OPTIONS:
                    raise self.refuse(f"with {name}; {did_you_mean(name, _OPTIONS)}")
                found[name] = each["expression"]
        return found

    def kind(self, clock: Clock) -> Kind:
        """What windows are asked for."""
        name, arguments, options = self._grouping.name, self.plain(), self._options()
        if name == "count_window":
            if not 1 <= len(arguments) <= 3 or options:
                raise self.refuse("with other arguments than a size, and perhaps a slide and a time")
            counts = [self._count(each) for each in arguments[:2]]
            return Kind(lambda shape, calls, by: CountWindows(shape, counts[0], counts[-1], calls, by))
        if name == "session_window":
            if len(arguments) != 2 or options:
                raise self.refuse("with other arguments than a time and the longest gap")
            gap = self._ticks(self._length(arguments[1], clock), clock)
            return Kind(lambda shape, calls, by: SessionWindows(shape, gap, calls, by))
        if not 2 <= len(arguments) <= 4:
            raise self.refuse("with other arguments than a time, a size, and perhaps a slide and an origin")
        if len(arguments) == 4:
            options.setdefault("origin", arguments[3])
        size = self._length(arguments[1], clock)
        slide = self._length(arguments[2], clock) if len(arguments) > 2 else size
        flags: dict[str, bool] = {
            each: bool(self._constant(options.pop(each))) for each in _OPTIONS[2:] if each in options
        }
        frames = self._frames(size, slide, options, clock)
        return Kind(lambda shape, calls, by: TimeWindows(shape, frames, calls, by, **flags), frames, flags)

    def _frames(self, size: _Length, slide: _Length, options: Mapping[str, Node], clock: Clock) -> Frames | FromFirst:
        zone = self._constant(options["zone"]) if "zone" in options else None
        origin = self._constant(options["origin"]) if "origin" in options else None
        if origin == "first event":
            return FromFirst(self._ticks(size, clock), self._ticks(slide, clock))
        first = 0 if origin is None else clock.instant(origin)
        if zone is None and not size.months and not slide.months:
            return FixedFrames(self._ticks(size, clock), self._ticks(slide, clock), first)
        if any(each.micros or bool(each.months) == bool(each.days) for each in (size, slide)):
            raise self.refuse("of a calendar with other lengths than days or months; expected either")
        day, rest = divmod(first, self._ticks(_Length(days=1), clock))
        if rest:
            raise self.refuse("with an origin that is no date; windows of a calendar begin with a day")
        sizes = Period(size.months, size.days), Period(slide.months, slide.days)
        return CalendarFrames(clock, sizes[0], sizes[1], zone or "UTC", day)

    def _length(self, node: Node, clock: Clock) -> _Length:
        """A length of time."""
        if clock.unit is None:
            return _Length(ticks=self._count(node))
        text = f"CAST({self._grouping.text(node)} AS INTERVAL)"
        months, days, micros = self._asked(
            f"""SELECT m, d, epoch_us(i - to_months(m) - to_days(d)) FROM (
                    SELECT i, CAST(date_part('year', i) * 12 + date_part('month', i) AS INTEGER) AS m,
                        CAST(date_part('day', i) AS INTEGER) AS d FROM (SELECT {text} AS i))""",
            node,
        )
        if months is None:
            raise self.refuse("with a length that is null")
        return _Length(int(months), int(days), int(micros))

    def _ticks(self, length: _Length, clock: Clock) -> int:
        if length.ticks is not None:
            return length.ticks
        if length.months:
            raise self.refuse("with a length of months, which only windows of a calendar have")
        if length.days < 0 or length.micros < 0:
            raise self.refuse("with a length below zero")
        return clock.duration(datetime.timedelta(days=length.days, microseconds=length.micros))

    def _count(self, node: Node) -> int:
        found = self._constant(node)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise self.refuse(f"with {found!r}; expected a whole number of at least 1")
        return found

    def _constant(self, node: Node) -> Any:
        return self._asked(f"SELECT {self._grouping.text(node)}", node)[0]

    def _asked(self, text: str, node: Node) -> tuple[Any, ...]:
        """What DuckDB says of constants."""
        if any(each.get("class") in ("COLUMN_REF", "SUBQUERY") for each in nodes(node)):
            raise self.refuse(f"with {self._grouping.text(node)}; expected a constant")
        with closing(self._connect()) as cursor:
            found: tuple[Any, ...] = cursor.execute(text).fetchall()[0]
            return found

    def refuse(self, message: str) -> Exception:
        """The error of a call that is not as it should be."""
        return self._grouping.refuse(f"found {shown(self._grouping.name)} {message}", self._grouping.call)
