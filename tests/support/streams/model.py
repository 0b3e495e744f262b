"""What a stream is to users, as plain lists: rows with values, an order, a schema that changes, rows that are deleted.

The oracle of the state machine of streams (tests/engine/test_state_machine.py): everything is computed by brute force.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidelog.store.manifest.sequence_set import SeqSet

TIME, NUMBER, FLOAT, WORD = range(4)
"""Columns that are always there, by their identities, which they keep under any name. Others are added."""

WIDER: Mapping[pa.DataType, pa.DataType] = {
    pa.int16(): pa.int32(),
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.string(): pa.large_string(),
}

Values = tuple[int, int | None, float | None, str | None, int | None]
"""What a row is made of: a value for each of the first columns, and a number that those added later make theirs of."""


@dataclass(frozen=True)
class Column:
    """A column under its name and type of the moment."""

    name: str
    type: pa.DataType

    def value(self, values: Values, identity: int) -> Any:
        """What a row has in it."""
        if identity <= WORD:
            return values[identity]
        number = values[-1]
        if number is None:
            return None
        if pa.types.is_floating(self.type):
            return number / 2
        return number if pa.types.is_integer(self.type) else f"<{number}>"


@dataclass(frozen=True)
class Event:
    """A row: its values by the identity of the column, and its number in the order of arrival."""

    values: Mapping[int, Any]
    seq: int
    is_loaded: bool = False
    """Whether it was committed beside the tail."""

    @property
    def time(self) -> int:
        time: int = self.values[TIME]
        return time

    @property
    def key(self) -> tuple[int, int]:
        return self.time, self.seq


def schema_of(columns: Mapping[int, Column]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([pa.field(each.name, each.type, nullable=identity != TIME) for identity, each in columns.items()])


FIRST_COLUMNS: Mapping[int, Column] = {
    TIME: Column("ts", pa.timestamp("ms")),
    NUMBER: Column("n", pa.int16()),
    FLOAT: Column("x", pa.float32()),
    WORD: Column("word", pa.string()),
}

CONDITIONS: Mapping[str, Callable[[Mapping[int, Any]], bool]] = {
    "{n} > 0": lambda v: v[NUMBER] is not None and v[NUMBER] > 0,
    "{n} IS NULL": lambda v: v[NUMBER] is None,
    # NaN is greater than every number, as in DuckDB.
    "{x} >= 2": lambda v: v[FLOAT] is not None and (math.isnan(v[FLOAT]) or v[FLOAT] >= 2),
    "{word} = 'a' OR {n} = -1": lambda v: v[WORD] == "a" or v[NUMBER] == -1,
    "{word} < 'b' AND {x} < 0": lambda v: (
        v[WORD] is not None and v[WORD] < "b" and v[FLOAT] is not None and v[FLOAT] < 0
    ),
}
"""Each as SQL, with the columns' names left out, and as Python."""


def plain(value: Any) -> Any:
    """A value that compares equal to itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _present(events: Sequence[Event], identity: int) -> list[Any]:
    return [event.values[identity] for event in events if event.values.get(identity) is not None]


def _second(values: list[Any]) -> Any:
    return sorted(values)[-2] if len(values) > 1 else None


def _max_float(values: list[Any]) -> Any:
    real = [each for each in values if not math.isnan(each)]
    return math.nan if len(real) < len(values) else max(real, default=None)


def _min_float(values: list[Any]) -> Any:
    return min((each for each in values if not math.isnan(each)), default=math.nan if values else None)


AGGREGATES: Mapping[str, Callable[[Sequence[Event]], Any]] = {
    "count(*)": len,
    "count({n})": lambda events: len(_present(events, NUMBER)),
    "sum({n})": lambda events: sum(_present(events, NUMBER)) if _present(events, NUMBER) else None,
    "min({n})": lambda events: min(_present(events, NUMBER), default=None),
    "avg({n})": lambda events: statistics.fmean(_present(events, NUMBER)) if _present(events, NUMBER) else None,
    "max({x})": lambda events: _max_float(_present(events, FLOAT)),
    "min({x})": lambda events: _min_float(_present(events, FLOAT)),
    "max({word})": lambda events: max(_present(events, WORD), default=None),
}
"""Aggregates that every tree answers, as SQL and of events in their order."""

USER_AGGREGATES: Mapping[str, Callable[[Sequence[Event]], Any]] = {
    "last({n})": lambda events: events[-1].values[NUMBER] if events else None,
    "first({x})": lambda events: events[0].values[FLOAT] if events else None,
    "second_largest({n})": lambda events: _second(_present(events, NUMBER)),
    "var_pop({n})": lambda events: statistics.pvariance(_present(events, NUMBER)) if _present(events, NUMBER) else None,
}
"""The same of user-defined ones, which trees keep states of if that is asked for."""


@dataclass
class Model:
    """The rows of a stream, those that are deleted too, and its schema."""

    columns: dict[int, Column] = field(default_factory=lambda: dict(FIRST_COLUMNS))
    events: list[Event] = field(default_factory=list)
    """In the order of arrival, as far as the tail goes; those flushed first."""
    flushed: int = 0
    """How many of them survive a crash."""
    deleted: int | None = None
    """The time before which everything is."""
    overwritten: set[int] = field(default_factory=set)
    """Numbers of rows that were overwritten."""

    def event(self, values: Values, seq: int, *, is_loaded: bool = False) -> Event:
        made = {identity: column.value(values, identity) for identity, column in self.columns.items()}
        return Event(made, seq, is_loaded)

    def table(self, rows: Sequence[Values]) -> pa.Table:
        """Rows under the names and types of the moment."""
        schema = schema_of(self.columns)
        arrays = [
            pa.array([column.value(row, identity) for row in rows], column.type)
            for identity, column in self.columns.items()
        ]
        return pa.table(arrays, schema=schema)

    def living(self, events: Iterable[Event] | None = None) -> list[Event]:
        """Those that are not deleted, in the order that they are read in."""
        given = self.events if events is None else events
        kept = [event for event in given if self.deleted is None or event.time >= self.deleted]
        return sorted((event for event in kept if event.seq not in self.overwritten), key=lambda event: event.key)

    def matching(
        self,
        start: int | None = None,
        end: int | None = None,
        where: str | None = None,
        numbers: SeqSet | None = None,
    ) -> list[Event]:
        """Those in a half-open range of times that satisfy a condition and have one of the numbers."""
        return [
            event
            for event in self.living()
            if (start is None or event.time >= start)
            and (end is None or event.time < end)
            and (numbers is None or event.seq in numbers)
            and (where is None or CONDITIONS[where](event.values))
        ]

    def text(self, template: str) -> str:
        """A text with the names that columns have now."""
        names = {key: self.columns[identity].name for key, identity in (("n", NUMBER), ("x", FLOAT), ("word", WORD))}
        return template.format(**names)

    def row(self, event: Event) -> dict[str, Any]:
        """An event as a dict by the names of columns; those added after it came are null."""
        values = {each.name: plain(event.values.get(identity)) for identity, each in self.columns.items()}
        return {**values, "_seq": event.seq}

    def add_column(self, name: str, type: pa.DataType) -> None:
        self.columns[len(self.columns)] = Column(name, type)

    def widen(self, identity: int) -> pa.DataType:
        column = self.columns[identity]
        wider = WIDER[column.type]
        self.columns[identity] = Column(column.name, wider)
        return wider

    def rename(self, names: Mapping[str, str]) -> None:
        for identity, column in self.columns.items():
            self.columns[identity] = Column(names.get(column.name, column.name), column.type)


def rows_of(found: pa.Table, time: str) -> list[dict[str, Any]]:
    """What was read as dicts, times as numbers."""
    index = found.schema.get_field_index(time)
    if index >= 0:
        found = found.set_column(index, time, found.column(index).cast(pa.int64()))
    return [{name: plain(value) for name, value in row.items()} for row in found.to_pylist()]
