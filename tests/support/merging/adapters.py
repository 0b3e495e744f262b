"""Other ways in which streams tell of events, as elements, row by row, and back.

Each takes what it takes in the order in which it comes, and gives elements in the same order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final

from tidelog.model.errors import InputError
from tidelog.operators.merge.codes import ADJUST, INSERT, NEVER, STABLE
from tidelog.operators.merge.elements import Element, adjust, insert, stable

_OPEN: Final = "open"
_CLOSE: Final = "close"


def plain_events(rows: Iterable[tuple[Hashable, int]], delay: int | None = None) -> Iterator[Element]:
    """Events of a payload and a time t, each valid in [t, t + 1).

    With a ``delay`` no event is farther behind the newest one, which makes stables; at the end everything is stable.
    """
    newest: int | None = None
    for payload, time in rows:
        yield insert(payload, time, time + 1)
        if delay is not None and (newest is None or time > newest):
            newest = time
            yield stable(newest - delay)
    yield stable(NEVER)


class AddModifyFinalize:
    """Rows ``("a", payload, start, end)``, ``("m", payload, start, new end)`` and ``("f", None, time, time)``.

    Finalising says that ends before a time are final; that no event starts before it any more is a second promise. If
    it is not given, ``slack`` is how far before it starts may still be.
    """

    def __init__(self, slack: int = 0) -> None:
        self._slack = slack
        self._ends: dict[tuple[Hashable, int], int] = {}

    def take(self, rows: Iterable[tuple[str, Hashable, int, int]]) -> Iterator[Element]:
        """The elements of the next rows."""
        ends = self._ends
        for kind, payload, start, end in rows:
            if kind == "a":
                ends[payload, start] = end
                yield insert(payload, start, end)
            elif kind == "m":
                if (payload, start) not in ends:
                    raise InputError(f"('m', {payload!r}, {start}, {end}) modifies an event that was never added")
                yield adjust(payload, start, ends[payload, start], end)
                ends[payload, start] = end
                if end == start:
                    del ends[payload, start]
            elif kind == "f":
                yield stable(start if start == NEVER else start - self._slack)
                for key in [key for key, own in ends.items() if own < start]:
                    del ends[key]
            else:
                raise InputError(f"found a row of kind {kind!r}; expected 'a' (add), 'm' (modify) or 'f' (finalise)")


def add_modify_finalize(rows: Iterable[tuple[str, Hashable, int, int]], slack: int = 0) -> Iterator[Element]:
    """:class:`AddModifyFinalize` of all rows."""
    return AddModifyFinalize(slack).take(rows)


def as_add_modify_finalize(elements: Iterable[Element]) -> Iterator[tuple[str, Hashable, int, int]]:
    """Elements as such rows, where payload and start are a key."""
    for element in elements:
        kind = "amf"[element.kind]
        yield (kind, element.payload, element.end if element.kind == STABLE else element.start, element.end)


class OpenClose:
    """Rows ``("open", payload, start)`` and ``("close", payload, end)``: an event is open until it is closed.

    A payload has at most one open event at a time. A close is of the event with the last start before it, and may be
    another one for the same event. With ``in_order`` rows come in the order of time, and each new time is a stable.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._in_order = in_order
        self._known: defaultdict[Hashable, dict[int, int]] = defaultdict(dict)
        self._starts: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._reached: int | None = None

    def take(self, rows: Iterable[tuple[str, Hashable, int]]) -> Iterator[Element]:
        """The elements of the next rows."""
        known, starts = self._known, self._starts
        for kind, payload, time in rows:
            if self._in_order and (self._reached is None or time > self._reached):
                self._reached = time
                yield stable(time)
            if kind == _OPEN:
                insort(starts[payload], time)
                known[payload][time] = NEVER
                yield insert(payload, time, NEVER)
            elif kind == _CLOSE:
                place = bisect_left(starts[payload], time) - 1
                if place < 0:
                    raise InputError(f"('close', {payload!r}, {time}) closes nothing: no event of it was opened before")
                start = starts[payload][place]
                old, known[payload][start] = known[payload][start], time
                if old != time:
                    yield adjust(payload, start, old, time)
                if self._in_order:  # what ends here is over: nothing before it is asked for again
                    del starts[payload][:place]
            else:
                raise InputError(f"found a row of kind {kind!r}; expected {_OPEN!r} or {_CLOSE!r}")


def open_close(rows: Iterable[tuple[str, Hashable, int]], *, in_order: bool = False) -> Iterator[Element]:
    """:class:`OpenClose` of all rows."""
    return OpenClose(in_order=in_order).take(rows)


def as_open_close(elements: Iterable[Element]) -> Iterator[tuple[str, Hashable, int]]:
    """Elements as such rows; of removals and stables there is nothing to tell."""
    for kind, payload, start, end, old in elements:
        if kind == INSERT:
            yield _OPEN, payload, start
        if kind == ADJUST and end == start:
            raise InputError(f"a(…,{start},{old}→{end}) takes an event back, which opens and closes cannot tell")
        if kind != STABLE and end != NEVER:
            yield _CLOSE, payload, end


class Changes:
    """Change data: ``("insert", row, time)`` and ``("delete", row, time)`` in the order of time; updates are both.

    A row is valid from its insert to its delete. Equal rows are deleted in the order in which they were inserted.
    """

    def __init__(self) -> None:
        self._starts: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._reached: int | None = None

    def take(self, rows: Iterable[tuple[str, Hashable, int]]) -> Iterator[Element]:
        """The elements of the next rows."""
        for kind, row, time in rows:
            if self._reached is None or time > self._reached:
                self._reached = time
                yield stable(time)
            own = self._starts[row]
            if kind == "insert":
                own.append(time)
                yield insert(row, time, NEVER)
            elif kind == "delete":
                if not own:
                    raise InputError(f"('delete', {row!r}, {time}) deletes a row that was never inserted")
                yield adjust(row, own.pop(0), NEVER, time)
            else:
                raise InputError(f"found a change of kind {kind!r}; expected 'insert' or 'delete'")
            if not own:
                del self._starts[row]


def changes(rows: Iterable[tuple[str, Hashable, int]]) -> Iterator[Element]:
    """:class:`Changes` of all rows."""
    return Changes().take(rows)


def as_changes(elements: Iterable[Element]) -> Iterator[tuple[str, Hashable, int]]:
    """Elements as change data, each change being told once it is certain: when it is behind a stable."""
    waiting: Counter[tuple[Hashable, int, int]] = Counter()
    reached: int | None = None
    for kind, payload, start, end, old in elements:
        if kind == STABLE:
            if reached is not None and end <= reached:
                continue
            due: list[tuple[int, int, Any, str]] = []
            for (row, first, last), count in waiting.items():
                if first < end and (reached is None or first >= reached):
                    due += [(first, 1, row, "insert")] * count
                if last < end and (reached is None or last >= reached) and last != NEVER:
                    due += [(last, 0, row, "delete")] * count
            for time, _, row, what in sorted(due, key=lambda each: (each[0], each[1], repr(each[2]))):
                yield what, row, time
            waiting = Counter({event: count for event, count in waiting.items() if event[2] >= end})
            reached = end
            continue
        if kind == ADJUST:
            waiting[payload, start, old] -= 1
        if end > start:
            waiting[payload, start, end] += 1
        waiting = +waiting


class Snapshots:
    """The rows of a table at rising instants: a row that is there is valid, one that is gone has ended."""

    def __init__(self) -> None:
        self._starts: defaultdict[Hashable, list[int]] = defaultdict(list)

    def take(self, tables: Iterable[tuple[int, Iterable[Hashable]]]) -> Iterator[Element]:
        """The elements of the next instants."""
        starts = self._starts
        for time, rows in tables:
            yield stable(time)
            now = Counter(rows)
            for row, own in list(starts.items()):
                for _ in range(len(own) - now[row]):
                    yield adjust(row, own.pop(0), NEVER, time)
                if not own:
                    del starts[row]
            for row, count in now.items():
                for _ in range(count - len(starts[row])):
                    starts[row].append(time)
                    yield insert(row, time, NEVER)


def snapshots(tables: Iterable[tuple[int, Iterable[Hashable]]]) -> Iterator[Element]:
    """:class:`Snapshots` of all instants."""
    return Snapshots().take(tables)


def as_snapshot(events: Iterable[tuple[Hashable, int, int]], time: int) -> list[Hashable]:
    """The payloads of events that are valid at an instant."""
    return [payload for payload, start, end in events if start <= time < end]
