"""Where the rows of an input come from, and what is promised of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from tidelog.merging.views import batch_without_views, schema_without_views
from tidelog.model.arguments import flag, instance, one_of, text
from tidelog.model.errors import InputError, SchemaError, TidelogError
from tidelog.operators.base import Shape
from tidelog.operators.merge.columns import FROM, is_elements
from tidelog.operators.properties import Order, Properties

Ordering: TypeAlias = Literal["none", "rising", "strict"]

ORDERS: Final = {"none": Order.NONE, "rising": Order.RISING, "strict": Order.STRICT}


@dataclass
class Source:
    """An input of a merge, with what is promised of it; what is None is as it is said for all inputs.

    ``data`` is a table, a batch or a reader of Arrow, anything that exports such, or an iterable of batches.
    """

    data: Any
    name: str | None = None
    delay: Any = None
    """How far behind the newest one an event may be: a duration. Events farther behind are dropped and counted."""
    join: Any = None
    """The time from which on the input has everything: all events that end at it or later."""
    order: Ordering | None = None
    same_ties: bool | None = None
    inserts_only: bool | None = None
    """Of elements: whether none is revised. Plain events never are."""
    properties: Properties | None = None
    """All promises at once, such as ``Operator.derive`` tells."""
    ends: Literal["complete", "leaves"] = "complete"
    """What the end of the data means: that there are no events any more, or only that the input is gone."""
    schema: pa.Schema | None = None
    """The columns, where data cannot tell before its first batch."""
    failure: Exception | None = field(default=None, init=False, repr=False)
    _opened: Iterator[pa.RecordBatch] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        one_of("ends", self.ends, ("complete", "leaves"))
        if self.name is not None:
            text("the name of an input", self.name)
        for what, value in {"same_ties": self.same_ties, "inserts_only": self.inserts_only}.items():
            if value is not None:
                flag(what, value)
        if self.properties is not None:
            instance("properties", self.properties, Properties, "tidelog.merging.Properties")
        if self.schema is not None:
            instance("schema", self.schema, pa.Schema, "a pyarrow.Schema")

    def open(self) -> pa.Schema | None:
        """Begin to read; the columns, or None if there are no rows to tell them. Views are what they view.

        What data raises instead of a first batch is the ``failure``, and raised again when batches are asked for.
        """
        schema, batches = _batches(self.data)
        batches = map(batch_without_views, batches)
        if schema is None:
            schema = self.schema
        if schema is None:
            try:
                first = next(batches, None)
            except TidelogError:  # it is no data
                raise
            except Exception as error:
                self.failure, first, batches = error, None, _failing(error)
            if first is not None:
                schema, batches = first.schema, chain([first], batches)
        self._opened = batches
        if schema is None:
            return None
        twice = [name for at, name in enumerate(schema.names) if name in schema.names[:at]]
        if twice:
            raise SchemaError(f"found two columns {twice[0]!r}; expected each name once: rename one of them")
        return schema_without_views(schema)

    def skip(self, horizon: int) -> None:
        """Tell the data, if it listens, that nothing before a time is of use any more."""
        listen = getattr(self.data, "skip", None)
        if listen is not None:
            listen(horizon)

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, once."""
        assert self._opened is not None
        return self._opened


@dataclass(frozen=True)
class Promises:
    """What is said for all inputs."""

    time: str | None
    key: tuple[str, ...] | None
    delay: Any
    order: Ordering
    same_ties: bool
    inserts_only: bool

    def shape(self, schema: pa.Schema, name: str) -> Shape:
        """What the rows of an input look like."""
        if is_elements(schema):
            return Shape(schema, FROM)
        if self.time is None:
            raise InputError(
                f"input {name!r} has plain events ({', '.join(schema.names)}), and no time is named; give the name of "
                "the column as time=, or the columns kind, valid_from, valid_to and old_valid_to of elements"
            )
        return Shape(schema, self.time)

    def ticks(self, name: str, source: Source, shape: Shape, properties: Properties) -> int | None:
        """How far an input may be behind its newest event; None where stables tell, and for any distance."""
        if is_elements(shape.schema):
            if source.delay is None:
                return None
            raise InputError(
                f"found a delay of input {name!r}, whose rows are elements; the stables among them say how far it is"
            )
        delay = self.delay if source.delay is None else source.delay
        if delay is not None:
            return shape.clock.duration(delay)
        return 0 if properties.order > Order.NONE else None  # what is in order tells by itself how far it is

    def properties(self, source: Source, shape: Shape, key: tuple[str, ...] | None) -> Properties:
        """What is promised of an input."""
        if source.properties is not None:
            own = source.properties
            return own if key is None else Properties(own.order, own.inserts_only, own.same_ties, key)
        order = source.order or self.order
        one_of("order", order, tuple(ORDERS))
        of_elements = self.inserts_only if source.inserts_only is None else source.inserts_only
        return Properties(
            ORDERS[order],
            of_elements if is_elements(shape.schema) else True,
            self.same_ties if source.same_ties is None else source.same_ties,
            key,
        )


def check_apart(source: Source, others: Mapping[str, Source]) -> None:
    """Raise :class:`InputError` for data that another input reads already."""
    for name, other in others.items():
        if source is other or (source.data is other.data and isinstance(source.data, Iterator)):
            raise InputError(
                f"found data that input {name!r} reads already, so that each would have a part of it; give every input "
                "data of its own"
            )


def in_order_of(first: pa.Schema, own: pa.Schema | None) -> pa.Schema:
    """The columns of an input in the order of those of another one, if they have the same names."""
    if own is None:
        return first
    is_same = len(own) == len(first) and set(own.names) == set(first.names)
    return pa.schema([own.field(name) for name in first.names]) if is_same else own


def alike(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches that all have some columns; raises :class:`SchemaError` for the first that has not."""
    rows = 0
    for batch in batches:
        if columns_told(batch.schema) != columns_told(schema):
            raise SchemaError(
                f"the rows from {rows} on have the columns {columns_told(batch.schema)}; expected those of the rows "
                f"before, {columns_told(schema)}"
            )
        rows += batch.num_rows
        yield batch if batch.schema.equals(schema) else pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def columns_told(schema: pa.Schema) -> str:
    """Names and types for messages; equal ones are."""
    return ", ".join(f"{each.name} {each.type}" for each in schema)


def key_of(key: tuple[str, ...] | None, payload: Sequence[str]) -> tuple[str, ...] | None:
    """The columns of a key: some, all of the payload for no names, None for none."""
    return tuple(payload) if key == () else key


def _batches(data: Any) -> tuple[pa.Schema | None, Iterator[pa.RecordBatch]]:
    if isinstance(data, pa.RecordBatch):
        return data.schema, iter([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    if hasattr(data, "__arrow_c_stream__"):
        reader = _reader(data)
        return reader.schema, iter(reader)
    is_plain = isinstance(data, str | bytes | Mapping)
    if is_plain or not isinstance(data, Iterable) or getattr(data, "ndim", 1) == 0:
        raise InputError(f"found {type(data).__name__} as an input; expected Arrow data, or an iterable of batches")
    told = getattr(data, "schema", None)
    return told if isinstance(told, pa.Schema) else None, _each(data)


def _failing(error: Exception) -> Iterator[pa.RecordBatch]:
    yield from ()
    raise error


def _each(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for each in data:
        if isinstance(each, pa.RecordBatch):
            yield each
        elif hasattr(each, "__arrow_c_stream__"):
            yield from _reader(each)
        else:
            raise SchemaError(f"found {type(each).__name__} among the batches of an input; expected a RecordBatch")


def _reader(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid:  # a column, say
        raise InputError(f"found {type(data).__name__}, which has no rows of columns; expected a table") from None
