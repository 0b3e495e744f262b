"""Events as dicts: one at a time and few at a time, in microseconds.

Who appends many single events had better collect the results of :meth:`RowReader.read`, which are checked and
final, and make one :meth:`RowReader.batch` of many: that costs a fraction of a batch for each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from tidelog.model.arguments import found, instance
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.conversion.packing import RowPacker
from tidelog.model.conversion.values import plain_shape, value_reader
from tidelog.model.errors import InputError
from tidelog.model.naming import check_names
from tidelog.model.schema import Schema

Row = tuple[Any, ...]
"""The canonical values (see :mod:`tidelog.model.conversion.values`) of one event, in the order of the schema."""


_PLAIN: Final = 8
"""Bytes that a number among others, or no value, is taken for."""


class _NOTHING:
    """The type of no value."""


@functools.lru_cache(maxsize=256)
def row_reader(schema: Schema) -> RowReader:
    """The reader of a schema, which is made once: that takes longer than reading many events."""
    return RowReader(schema)


class RowReader:
    """Reads events given as dicts. Immutable; one per schema is enough, see :func:`row_reader`."""

    def __init__(self, schema: Schema) -> None:
        self.schema = instance("a schema", schema, Schema, "a tidelog.Schema")
        self._readers = [value_reader(field) for field in schema]
        self._columns = list(zip(schema.names, self._readers, strict=True))
        names = schema.names
        # itemgetter of one name would return the bare value, not a tuple.
        self._pick = itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)
        self._packer = RowPacker(schema.arrow)
        shapes = [plain_shape(field) for field in schema]
        self._plain_types = tuple(shape.type if shape is not None else _NOTHING for shape in shapes)
        self._bounded = [(i, *shape.bounds) for i, shape in enumerate(shapes) if shape is not None and shape.bounds]
        self._texts = [i for i, shape in enumerate(shapes) if shape is not None and shape.type is str]
        self._long = [i for i, field in enumerate(schema) if not _has_fixed_width(field.type)]
        self.has_long = bool(self._long)
        """Whether some values have no fixed width."""

    def long_bytes(self, row: Row) -> int:
        """About how many bytes the values of an event that have no fixed width take in a batch."""
        return sum([_size_of(row[i]) for i in self._long])

    def read(self, row: Mapping[str, Any]) -> Row:
        """The canonical values of an event.

        Nullable columns may be absent. Raises :class:`InputError` when names or values do not fit; whatever
        it returns fits for certain.
        """
        if not isinstance(row, dict | Mapping):
            raise found("an event", row, "a dict of names and values")
        plain = self.read_plain(row)
        if plain is not None:
            return plain
        try:
            values: Row = self._pick(row)
            if len(row) == len(self._readers):
                return tuple([read(value) for read, value in zip(self._readers, values, strict=True)])
        except (KeyError, Misfit):
            pass
        return self._read_or_explain(row)

    def read_plain(self, row: Mapping[str, Any]) -> Row | None:
        """:meth:`read` for an event whose values are all of the plain types of their columns; None for others.

        It has one comparison for all columns, and so takes a third of the time.
        """
        try:
            values: Row = self._pick(row)
        except KeyError:
            return None
        if tuple(map(type, values)) != self._plain_types or len(row) != len(values):
            return None
        for i, low, high in self._bounded:
            if not low <= values[i] <= high:
                return None
        return values if not self._texts or all(values[i].isascii() for i in self._texts) else None

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """A batch of events that were read; at least one."""
        if len(rows) == 1:
            return self._packer.batch(rows[0])
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    def _read_or_explain(self, row: Mapping[str, Any]) -> Row:
        check_names(list(row), self.schema, "the event")
        values = []
        for name, read in self._columns:
            try:
                values.append(read(row.get(name)))
            except Misfit as misfit:
                raise InputError(f"column {name!r}: {misfit.reason}", column=name, row=0) from None
        return tuple(values)


def _has_fixed_width(type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type) or pa.types.is_fixed_size_binary(type))


def _size_of(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size_of, value.values()))
    return sum(map(_size_of, value)) if isinstance(value, Sequence) else _PLAIN
