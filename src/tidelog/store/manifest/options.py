"""How a stream is kept: what its creator may choose, checked early and stored in its manifest."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from tidelog.aggregates import Binding
from tidelog.model.arguments import one_of
from tidelog.model.errors import InputError, NotFoundError, TimeError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.model.times.clock import Clock
from tidelog.model.times.durations import read_duration
from tidelog.store.log.stream_names import check_stream_name

Duration: TypeAlias = str | int
"""A length of event time: a text such as ``"7d"``, or a number of ticks of the stream's clock."""

Durability: TypeAlias = Literal["flush", "batch", "none"]

LateMerge: TypeAlias = Literal["dense", "plain", "never"]

TooLate: TypeAlias = Literal["accept", "reject", "aside"]

DURATIONS: Final = ("split", "retention", "lateness", "coarse_after", "coarse_grain")
"""Options that are lengths of event time."""
LARGEST_FANOUT: Final = 1 << 16
LARGEST_LEAF: Final = 1 << 24
GRACE_SECONDS: Final = 600.0
"""How long files that nothing refers to any more stay on disk, unless a stream says otherwise."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The options of a stream. Immutable; equal options compare equal and have equal JSON.

    Lengths of event time (``split``, ``retention``, ``lateness``) are texts such as ``"7d"`` or ints in ticks of the
    stream's clock; a ``timedelta`` is taken too and becomes text. Whether they fit the clock is known only together
    with a schema: :meth:`check`. Raises :class:`InputError` or :class:`TimeError` for what cannot be.
    """

    split: Duration | None = None
    """The length of the regular time splits, aligned to the epoch; None: splits end by size alone."""
    split_bytes: int = 1 << 30
    """The size of its file at which an open split is closed, whatever its times."""
    leaf_rows: int = 8192
    fanout: int = 64
    """Entries of an inner node of a split's tree."""
    aggregates: Literal["all"] | tuple[str, ...] = "all"
    """The columns whose aggregates inner nodes hold."""
    user_aggregates: tuple[Binding, ...] = ()
    """Further aggregates that inner nodes hold states of: bindings, or texts such as ``"second_largest(price)"``."""
    durability: Durability = "flush"
    """What survives a crash of the machine: what ``flush`` returned for, every ``append``, or nothing for certain."""
    retention: Duration | None = None
    """Events older than the newest one by more than this are deleted; None keeps them for ever."""
    coarse_after: Duration | None = None
    """Of splits all of whose events are older than the newest one by more than this, only aggregates are kept."""
    coarse_grain: Duration | None = None
    """How long an entry of such aggregates may be; None: as short as there are."""
    lateness: Duration | None = None
    """How much older than the newest event an event may arrive, as far as ``too_late`` cares."""
    too_late: TooLate = "accept"
    """What becomes of events that arrive later than that: they are taken like any others (``accept``), make the append
    fail (``reject``), or go to a stream beside this one (``aside``)."""
    aside: str | None = None
    """The name of that stream, by default the stream's own with ``.late`` behind it."""
    late_rows: int = 1 << 20
    """Late rows held in memory, before they are merged into trees or become a split of their own."""
    late_bytes: int = 64 << 20
    """The same limit in bytes; the one reached first counts."""
    late_merge: LateMerge = "dense"
    """What happens to late rows at the limit: those that are many for one leaf are merged into it and the rest waits,
    or becomes a split of its own (``dense``); all are merged (``plain``); all become such a split (``never``)."""
    grace: float = GRACE_SECONDS
    """Seconds of wall-clock time that a file stays on disk after it left the manifest; texts such as ``"10m"`` too."""
    journal_bytes: int = 8 << 20
    """The size at which the journal is replaced by one that holds only what is still needed."""

    def __post_init__(self) -> None:
        for name in DURATIONS:
            object.__setattr__(self, name, _duration(name, getattr(self, name), positive=name != "lateness"))
        object.__setattr__(self, "aggregates", _columns(self.aggregates))
        object.__setattr__(self, "user_aggregates", read_bindings(self.user_aggregates))
        object.__setattr__(self, "grace", seconds("grace", self.grace))
        _check_integer("split_bytes", self.split_bytes, 1)
        _check_integer("leaf_rows", self.leaf_rows, 1, LARGEST_LEAF)
        _check_integer("fanout", self.fanout, 2, LARGEST_FANOUT)
        for name in ("late_rows", "late_bytes", "journal_bytes"):
            _check_integer(name, getattr(self, name), 1)
        one_of("durability", self.durability, get_args(Durability))
        one_of("too_late", self.too_late, get_args(TooLate))
        if self.too_late != "accept" and self.lateness is None:
            raise InputError(f"found too_late {self.too_late!r} and no lateness; say how late events may be, e.g. '1h'")
        if self.aside is not None:
            check_stream_name(self.aside)
            if self.too_late != "aside":
                raise InputError(f"found aside {self.aside!r} and too_late {self.too_late!r}; expected 'aside' with it")
        one_of("late_merge", self.late_merge, get_args(LateMerge))

    def check(self, schema: Schema) -> None:
        """Raise unless durations fit the schema's clock and all columns named are columns of the schema."""
        for name in DURATIONS:
            self._ticks(name, schema.clock, positive=name != "lateness")
        if self.aggregates != "all":
            for column in self.aggregates:
                try:
                    schema.index(column)
                except NotFoundError as error:
                    raise InputError(f"option aggregates: {error}", column=column) from None
        for binding in self.user_aggregates:
            for column in binding.columns:
                try:
                    schema.index(column)
                except NotFoundError as error:
                    raise InputError(f"option user_aggregates: {binding.name}: {error}", column=column) from None
        _check_computable(self.user_aggregates, schema)

    def split_ticks(self, clock: Clock) -> int | None:
        """The length of a regular split on a clock."""
        return self._ticks("split", clock, positive=True)

    def retention_ticks(self, clock: Clock) -> int | None:
        """How long events are kept, on a clock."""
        return self._ticks("retention", clock, positive=True)

    def coarse_ticks(self, clock: Clock) -> tuple[int | None, int | None]:
        """After how long events are coarsened to aggregates, and how long an entry of these may be, on a clock."""
        return self._ticks("coarse_after", clock, positive=True), self._ticks("coarse_grain", clock, positive=True)

    def lateness_ticks(self, clock: Clock) -> int | None:
        """How late events are expected at most, on a clock."""
        return self._ticks("lateness", clock, positive=False)

    def replace(self, **changes: Any) -> StreamOptions:
        """These options with some changed; refuses unknown names."""
        return self.from_dict({**self._values(), **changes})

    def with_renamed(self, names: Mapping[str, str]) -> StreamOptions:
        """These options for columns that have new names, given by their old ones."""
        kept = self.aggregates
        return self.replace(
            aggregates=kept if kept == "all" else [names.get(name, name) for name in kept],
            user_aggregates=[each.renamed(names) for each in self.user_aggregates],
        )

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON values, all of them: what a stream was created with does not follow new defaults."""
        values = self._values()
        if isinstance(self.aggregates, tuple):
            values["aggregates"] = list(self.aggregates)
        values["user_aggregates"] = [each.to_dict() for each in self.user_aggregates]
        return values

    def to_json(self) -> str:
        """The options as JSON text, read back by :meth:`from_json`."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The options that a mapping of names and values says; those it leaves out have their defaults."""
        if not isinstance(values, Mapping):
            raise InputError(f"found {type(values).__name__} for options; expected a mapping of names and values")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise InputError(f"there is no option {name!r}; {did_you_mean(str(name), known)}")
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The options that :meth:`to_json` wrote."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise InputError(f"found options that are not JSON: {error}") from error
        return cls.from_dict(values)

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _ticks(self, name: str, clock: Clock, *, positive: bool) -> int | None:
        value = getattr(self, name)
        if value is None:
            return None
        try:
            return clock.duration(value, positive=positive)
        except TimeError as error:
            raise TimeError(f"option {name}: {error}") from None


def _duration(name: str, value: object, *, positive: bool) -> Duration | None:
    """A length of event time as it is kept: as given, but timedeltas as text of the same length."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        length: Any = value
    elif isinstance(value, timedelta):
        length = read_duration(value)
        value = f"{value // timedelta(microseconds=1)}us"
    elif isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        length = int(value)  # ticks as text, which only the clock of an int64 column reads
    elif isinstance(value, str):
        try:
            length = read_duration(value)
        except TimeError as error:
            raise TimeError(f"option {name}: {error}") from None
    else:
        raise TimeError(
            f"option {name}: found {value!r} ({type(value).__name__}); expected a text such as '7d', a timedelta, "
            "an int of ticks, or None"
        )
    if length < 0 or (positive and length == 0):
        raise TimeError(f"option {name}: found {value!r}; expected {'more than' if positive else 'at least'} zero")
    return value


def seconds(name: str, value: object) -> float:
    """A length of wall-clock time in seconds, given as such or as text; raises :class:`TimeError` by its name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        length = float(value)
    else:
        try:
            length = float(read_duration(value))
        except TimeError as error:
            raise TimeError(f"option {name}: {error}, or a number of seconds") from None
    if not (math.isfinite(length) and length >= 0):
        raise TimeError(f"option {name}: found {value!r}; expected a finite number of seconds, at least 0")
    return length


def _columns(value: object) -> Literal["all"] | tuple[str, ...]:
    if isinstance(value, str) and value == "all":
        return "all"
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise InputError(f"option aggregates: found {value!r}; expected 'all' or a list of column names, such as ['x']")
    for index, column in enumerate(value):
        if column in value[:index]:
            raise InputError(f"option aggregates: found column {column!r} twice; name it once", column=column)
    return tuple(value)


def read_bindings(values: object) -> tuple[Binding, ...]:
    """User-defined aggregates given as bindings, as calls such as ``"second_largest(price)"``, or as JSON values.

    Raises :class:`InputError` for anything else, and for the same one twice.
    """
    if isinstance(values, str | Mapping | Binding) or not isinstance(values, Sequence):
        raise InputError(
            f"option user_aggregates: found {values!r}; expected a list of calls such as ['second_largest(price)']"
        )
    found: list[Binding] = []
    for value in values:
        if isinstance(value, Binding):
            binding = value
        elif isinstance(value, str):
            from tidelog.expr.aggregates.bindings import parse_binding  # with sqlglot

            binding = parse_binding(value)
        else:
            binding = Binding.from_dict(value)
        if binding in found:
            raise InputError(f"option user_aggregates: found {binding.name} twice; name it once")
        found.append(binding)
    return tuple(found)


def _check_computable(bindings: Sequence[Binding], schema: Schema) -> None:
    """Raise :class:`InputError` if aggregates cannot be applied to their columns, or not all be kept at once.

    Those whose code is not here are taken for granted.
    """
    if not bindings:
        return
    from tidelog.index.states import States  # with all of the index, which few who read options need

    known = []
    for binding in bindings:
        try:
            States.of(schema.arrow, schema.time, [binding])
        except InputError as error:
            raise InputError(f"option user_aggregates: {binding.name}: {error}") from None
        except NotFoundError:
            continue
        known.append(binding)
    States.of(schema.arrow, schema.time, known)


def _check_integer(name: str, value: object, smallest: int, largest: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"option {name}: found {value!r} ({type(value).__name__}); expected an int")
    if value < smallest or (largest is not None and value > largest):
        wanted = f"at least {smallest}" if largest is None else f"{smallest} to {largest}"
        raise InputError(f"option {name}: found {value}; expected {wanted}")
