"""The constants of a list behind IN as a set: whether values are in it, and what it says about a column.

Made once for a list, however many batches are looked at. Numbers are looked up by their place in a table of bits where
they are dense, else by bisection; all others by a hash of each distinct value of a batch.
"""

from __future__ import annotations

from typing import Any, Final
from typing import cast as typed

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.database.literals import converted, read
from tidelog.expr.errors import ExpressionError
from tidelog.expr.tree import Literal, Members
from tidelog.expr.values.casts import cast, is_castable, is_native
from tidelog.expr.values.types import BLOB, BOOLEAN, INTERVAL, NULL, VARCHAR, is_integer, sql_name
from tidelog.expr.values.vectors import Mask, has_numbers, made, numbers, valid_rows

_DENSE: Final = 64
"""Bits of a table for each number in it, at the most."""

_FEW: Final = 10_000
"""Constants that Arrow makes a table of for each batch; for more it takes longer than for the batch."""

_WORD: Final = 8
"""Bytes of text that are looked at by whoever asks for its words."""


def representatives(literals: tuple[pa.Array, ...]) -> list[Literal]:
    """A few literals of a list that have the type in common with others which all of them have."""
    found: list[Literal] = []
    for part in literals:
        if is_integer(part.type):
            bounds = pc.min_max(part).as_py()
            found += [Literal(part.type, int(bounds[end])) for end in ("min", "max")]
        else:
            found.append(Literal(part.type, part[0].as_py()))
    return found


def fitted(literals: tuple[pa.Array, ...], type_: pa.DataType) -> Members:
    """A list whose literals become values of a type. Raises :class:`ExpressionError`, without a place."""
    members = Members(type_, literals)
    members.known.append(ConstantSet(members))
    return members


def constants(members: Members) -> ConstantSet:
    """What is in a list."""
    if not members.known:
        members.known.append(ConstantSet(members))
    return typed(ConstantSet, members.known[0])


class ConstantSet:
    """Values of one type, and maybe NULL."""

    def __init__(self, members: Members) -> None:
        self.type = members.type
        if self.type == INTERVAL:
            raise ExpressionError(f"found {members.count} intervals in a list; expected fewer")
        self.has_null = any(part.type == NULL for part in members.literals)
        values = [_cast(part, self.type) for part in members.literals if part.type != NULL]
        whole = pa.concat_arrays(values) if values else pa.array([], self.type)
        self.has_nan = False
        self._hashed: frozenset[Any] | None = None
        self._sorted: npt.NDArray[Any] = np.empty(0)
        self._dense: Mask | None = None
        self._whole = whole
        if has_numbers(self.type):
            self._sort(numbers(whole))

    def _sort(self, values: npt.NDArray[Any]) -> None:
        if values.dtype.kind == "b":
            values = values.view(np.uint8)
        if values.dtype.kind == "f":
            is_nan = np.isnan(values)
            self.has_nan = bool(is_nan.any())
            values = values[~is_nan] + 0.0  # which leaves one kind of zero
        self._sorted = _distinct(values)
        if len(self._sorted) and values.dtype.kind in "iu":
            span = int(self._sorted[-1]) - int(self._sorted[0]) + 1
            if span <= _DENSE * len(self._sorted):
                self._dense = np.zeros(span, np.bool_)
                self._dense[self._sorted - self._sorted[0]] = True

    def contains(self, array: pa.Array) -> pa.Array:
        """Whether each value of an array is in the list: NULL for NULL, and where it is not and the list has NULL."""
        if self.type == NULL or pa.types.is_null(array.type):
            return pa.nulls(len(array), BOOLEAN)
        found = self._numbers(numbers(array)) if has_numbers(self.type) else self._others(array)
        valid = valid_rows(array)
        if self.has_null:
            valid = found if valid is None else valid & found
        return made(found, valid, BOOLEAN)

    def _numbers(self, values: npt.NDArray[Any]) -> Mask:
        if values.dtype.kind == "b":
            values = values.view(np.uint8)
        known = self._sorted
        if not len(known):
            found = np.zeros(len(values), np.bool_)
        elif self._dense is not None:
            found = (values >= known[0]) & (values <= known[-1])
            places = np.where(found, values, known[0]) - known[0]
            found &= self._dense[places]
        else:
            places = np.minimum(known.searchsorted(values), len(known) - 1)
            found = known[places] == values
        return found | np.isnan(values) if self.has_nan else found

    def _others(self, array: pa.Array) -> Mask:
        if len(self._whole) <= _FEW:
            return numbers(pc.is_in(array, value_set=self._whole))
        if self._hashed is None:
            self._hashed = frozenset(self._whole.to_pylist())
        encoded = pc.dictionary_encode(array)
        known = self._hashed
        among = [value in known for value in encoded.dictionary.to_pylist()]  # a loop over distinct values
        hits = np.array([*among, False])
        codes = pc.fill_null(encoded.indices, len(among)).to_numpy(zero_copy_only=False)
        return typed(Mask, hits[codes])

    @property
    def bounds(self) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The least and the greatest constant but NULL and NaN; None if there are no others."""
        whole = self._whole
        if self.has_nan:
            whole = whole.filter(pc.invert(pc.is_nan(whole)))
        if not len(whole):
            return None
        found = pc.min_max(whole)
        return found["min"], found["max"]

    def points(self) -> npt.NDArray[Any] | None:
        """The constants but NULL and NaN, sorted, as numbers; of text the first eight bytes, as words that sort alike.

        None for types that have no such numbers.
        """
        if self.type in (VARCHAR, BLOB):
            whole = self._whole if self.type == BLOB else self._whole.cast(BLOB)
            words = np.array(pc.binary_slice(whole, 0, _WORD).to_pylist(), f"S{_WORD}")
            return _distinct(words.view(">u8").astype(np.uint64))
        return self._sorted if has_numbers(self.type) else None


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each value once, sorted; ``numpy.unique`` takes twenty times as long for a million of them."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]


def _cast(part: pa.Array, type_: pa.DataType) -> pa.Array:
    """Literals of one type as values of another, as a comparison converts them."""
    if not is_castable(part.type, type_):
        raise ExpressionError(f"{sql_name(part.type)} cannot become {sql_name(type_)}; expected {sql_name(type_)}")
    if part.type == VARCHAR:
        return read(part, type_)
    return cast(part, type_) if is_native(part.type, type_) else converted(part, type_)
