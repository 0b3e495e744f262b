"""What an aggregate is: the contracts that user-defined ones fulfil (spec/event-store.md 3.4, 3.5).

An aggregate works on *runs*: of rows, to make states, and of states, to merge them. Runs are given by ``cuts``, an
array of ascending positions: run ``i`` is everything from ``cuts[i]`` to ``cuts[i + 1]`` (exclusive). The first cut is
0, the last one the length of what is cut, and no run is empty: that nothing aggregated is None, and that nothing merged
with something is the latter, is seen to by the engine, which keeps the number of rows beside each state.

**Values.** A column comes as a NumPy array: numbers and booleans as they are, times, dates and durations as integers
in the unit of the column; text and binary columns come as Arrow arrays. Rows in which one of the columns is null are
left out, unless the aggregate says :attr:`Aggregate.sees_nulls`; then columns are masked arrays. NaN is a value.

**Order.** Runs of rows are in the order of (time, ``_seq``), but states are merged in any order and any grouping:
``merge`` must be associative and commutative. What depends on order asks for the places of rows,
:attr:`Aggregate.by_place`, and keeps them in its states.

**Purity.** All functions depend on their arguments alone, and states can be written to disk: their type is a NumPy
type of a fixed width, a multiple of eight bytes, whatever the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.model.scalars import python_value

Cuts: TypeAlias = npt.NDArray[np.int64]
States: TypeAlias = npt.NDArray[Any]
"""States of one aggregate, an array of its type :attr:`Incremental.state`."""
Column: TypeAlias = Any
"""A NumPy array, a masked one, or an Arrow array; the head of this module says which."""

REQUIRED: Final = ...
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Another aggregate that one depends on: its id, and which of the columns it takes, by position; None for all.

    It gets the parameters that both have under the same name.
    """

    id: str
    columns: tuple[int, ...] | None = None


class Aggregate(ABC):
    """Base of all kinds. A class is a function such as ``second_largest``, an instance is bound to types of columns.

    Subclass :class:`Incremental`, :class:`Dependent` or :class:`Virtual`, and decorate the class with
    :func:`tidelog.aggregates.register`.
    """

    name: ClassVar[str]
    """What queries call it, e.g. ``second_largest`` in ``second_largest(price)``."""
    id: ClassVar[str] = ""
    """Names it for all time, as ``module:name``; that of the class unless it says another one."""
    arity: ClassVar[int] = 1
    """How many columns it takes."""
    parameters: ClassVar[Mapping[str, Any]] = {}
    """Its parameters in order, which follow the columns in a call, with defaults or :data:`REQUIRED`.

    Values are numbers, booleans, texts or None.
    """
    depends_on: ClassVar[Sequence[Needs]] = ()
    """The aggregates whose results it is computed from. They are kept for a stream when it is."""
    sees_nulls: ClassVar[bool] = False
    """Whether rows with nulls count, so that columns come as masked arrays."""
    by_place: ClassVar[bool] = False
    """Whether ``init`` gets two more columns behind its own: times and sequence numbers, both 64-bit integers."""
    by_value: ClassVar[bool] = False
    """Whether states of integers, or of texts, hold as well when the column has got a wider type of these.

    Then old trees answer with their states, and ``init`` may get values of the narrower type.
    """
    is_reproducible: ClassVar[bool] = True
    """Whether equal rows give equal states, but for the last bits of floats; ``check()`` then compares them."""

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        """For columns of these types. Raises :class:`InputError` for types or parameters that it cannot take."""
        self.types = tuple(types)

    def result_type(self) -> pa.DataType | None:
        """The Arrow type of results, for those who make columns of them; None if it does not say."""
        return None


class Incremental(Aggregate):
    """An aggregate with a state. Rough estimates are such ones too: both functions see all of a run at once."""

    state: np.dtype[Any]
    """The type of its states, set by ``__init__``; a multiple of eight bytes wide."""

    @abstractmethod
    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The states of runs of rows."""

    @abstractmethod
    def merge(self, states: States, cuts: Cuts) -> States:
        """The states of runs of states."""

    @abstractmethod
    def eval(self, state: Any) -> Any:
        """The result: a plain Python value. ``state`` is a scalar of the type of states."""

    def eval_all(self, states: States, *results: Sequence[Any]) -> Sequence[Any]:
        """The results of many states: :meth:`eval` of each. Override it where whole arrays are faster.

        ``results`` are those of the dependencies, in step with ``states``; only a :class:`Dependent` one has some.
        """
        return [self.eval(*each) for each in zip(states, *results, strict=True)]

    def shifted(self, states: States, base: int) -> States:
        """The states after all sequence numbers grew by ``base``; for those with :attr:`by_place` alone."""
        return states


class Dependent(Incremental):
    """An aggregate whose state is only meaningful beside the states of those it depends on.

    They take the same columns, and count the same rows.
    """

    @abstractmethod
    def merge(self, states: States, cuts: Cuts, *dependencies: States) -> States:
        """The states of runs of states; ``dependencies`` are the states of the others, in step with ``states``."""

    @abstractmethod
    def eval(self, state: Any, *results: Any) -> Any:
        """The result, from the state and the results of the dependencies."""


class Virtual(Aggregate):
    """An aggregate without a state: a function of the results of others. Without one of these there is no result."""

    @abstractmethod
    def eval(self, *results: Any) -> Any:
        """The result, from those of the dependencies in their order."""


def number_type(name: str, type: pa.DataType) -> np.dtype[Any]:
    """How the values of a column of numbers are kept in a state: as doubles or 64-bit integers.

    Times, dates and durations count as integers. Raises :class:`InputError` for other types.
    """
    if pa.types.is_floating(type):
        return np.dtype("<f8")
    if pa.types.is_unsigned_integer(type):
        return np.dtype("<u8")
    if pa.types.is_integer(type) or pa.types.is_boolean(type) or pa.types.is_temporal(type):
        return np.dtype("<i8")
    raise InputError(f"{name} takes columns of numbers or times, found one of {type}")


def all_plain(values: npt.NDArray[Any], type: pa.DataType) -> list[Any]:
    """:func:`plain` of each value."""
    if pa.types.is_temporal(type):
        return [plain(value, type) for value in values]
    found: list[Any] = (values != 0).tolist() if pa.types.is_boolean(type) else values.tolist()
    return found


def plain(value: Any, type: pa.DataType) -> Any:
    """A value from a state as the Python value of a column's type."""
    number = value.item() if isinstance(value, np.generic) else value
    if pa.types.is_boolean(type):
        return bool(number)
    if pa.types.is_temporal(type):
        return python_value(pa.scalar(number, pa.int64() if type.bit_width == 64 else pa.int32()).cast(type))
    return number
