"""What the arguments of ``window``, ``session_window`` and ``count_window`` say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.model.errors import did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Operator, Shape
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Frames, GrowingFrames, Period
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.plan.choosing import RankFrames
from tidelog.sql.clauses.constants import Constants, Length
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.text.tokens import tokens
from tidelog.sql.text.tree import NOWHERE, Node, Parser

if TYPE_CHECKING:
    import duckdb

_WINDOW: Final = "w1ndow"
"""What ``window(...)`` is called while DuckDB reads it, where the word has a meaning of its own; as long as that."""
FUNCTIONS: Final = (_WINDOW, "session_window", "count_window")
GROUPS: Final = "#groups"
"""What has all rows of a key in one window; nobody can write it."""
MAKERS: Final = (*FUNCTIONS, GROUPS)
_FLAGS: Final = ("empty", "complete_only")
_OPTIONS: Final = ("origin", "zone", "early", *_FLAGS)


def readable(text: str) -> str:
    """A text in which ``window(`` is the call of a function; all places are those of the text as it was."""
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
    frames: Frames | FromFirst | RankFrames | None = None
    """Which windows there are, if the times or the ranks of events tell them."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    gap: int | None = None
    """The longest gap in ticks, if they are sessions."""


class Call(Protocol):
    """A call that makes windows."""

    call: Node
    parser: Parser

    @property
    def refuse(self) -> Refuse:
        """Makes errors."""

    @property
    def name(self) -> str:
        """The name of the function."""

    def text(self, node: Node) -> str:
        """A node as a text."""


class Arguments:
    """The arguments of one call."""

    def __init__(self, grouping: Call, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._grouping = grouping
        self._constants = Constants(grouping.parser, connect, self.refuse)

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
            counts = [self._constants.count(each) for each in arguments[:2]]
            ranks = RankFrames(counts[0], counts[-1])
            return Kind(lambda shape, calls, by: CountWindows(shape, ranks.size, ranks.slide, calls, by), ranks)
        if name == GROUPS:
            return Kind(lambda shape, calls, by: SessionWindows(shape, None, calls, by))
        if name == "session_window":
            if len(arguments) != 2 or options:
                raise self.refuse("with other arguments than a time and the longest gap")
            gap = self._ticks(self._constants.length(arguments[1], clock), clock)
            return Kind(lambda shape, calls, by: SessionWindows(shape, gap, calls, by), gap=gap)
        if not 2 <= len(arguments) <= 4:
            raise self.refuse("with other arguments than a time, a size, and perhaps a slide and an origin")
        if len(arguments) == 4:
            options.setdefault("origin", arguments[3])
        size = self._constants.length(arguments[1], clock)
        slide = self._constants.length(arguments[2], clock) if len(arguments) > 2 else size
        flags: dict[str, bool] = {each: self._constants.flag(options.pop(each)) for each in _FLAGS if each in options}
        frames = self._frames(size, slide, options, clock)
        if "early" in options:
            frames = self._growing(frames, options["early"], clock)
        return Kind(lambda shape, calls, by: TimeWindows(shape, frames, calls, by, **flags), frames, flags)

    def _frames(self, size: Length, slide: Length, options: Mapping[str, Node], clock: Clock) -> Frames | FromFirst:
        zone = self._constants.value(options["zone"]) if "zone" in options else None
        if zone is not None and not (isinstance(zone, str) and zone):
            raise self.refuse(f"with the zone {zone!r}; expected the name of one", options["zone"])
        origin = self._constants.value(options["origin"]) if "origin" in options else None
        if origin == "first event":
            if zone is not None:
                raise self.refuse("of the first event and of a zone; windows of a zone begin with its days")
            return FromFirst(self._ticks(size, clock), self._ticks(slide, clock))
        if "word" in self._grouping.call and isinstance(origin, datetime):  # that of a table, told by an offset
            origin = origin.replace(tzinfo=UTC)
        first = 0 if origin is None else clock.instant(origin)
        if zone is None and not size.months and not slide.months:
            return FixedFrames(self._ticks(size, clock), self._ticks(slide, clock), first)
        if any(each.micros or bool(each.months) == bool(each.days) for each in (size, slide)):
            raise self.refuse("of a calendar with other lengths than days or months; expected either")
        day, rest = divmod(first, self._ticks(Length(days=1), clock))
        if rest:
            raise self.refuse("with an origin that is no date; windows of a calendar begin with a day")
        sizes = Period(size.months, size.days), Period(slide.months, slide.days)
        return CalendarFrames(clock, sizes[0], sizes[1], zone or "UTC", day)

    def _growing(self, frames: Frames | FromFirst, step: Node, clock: Clock) -> Frames:
        """Windows that are told early, after every step of them."""
        if not isinstance(frames, FixedFrames) or frames.size != frames.slide:
            raise self.refuse(
                "that are told early, and overlap, or are those of a calendar, or of the first event", step
            )
        ticks = self._constants.ticks(self._constants.length(step, clock), clock, step)
        if ticks < 1 or frames.size % ticks:
            raise self.refuse("that are told early after steps which do not fit in exactly", step)
        return GrowingFrames(frames.size, ticks, frames.origin)

    def _ticks(self, length: Length, clock: Clock) -> int:
        return self._constants.ticks(length, clock, self._grouping.call)

    def refuse(self, message: str, node: Node | None = None) -> Exception:
        """The error of a call that is not as it should be."""
        called = self._grouping.call.get("word") or shown(self._grouping.name)
        at = node if node is not None and node.get("query_location", NOWHERE) != NOWHERE else self._grouping.call
        return self._grouping.refuse(f"found {called} {message}", at)
