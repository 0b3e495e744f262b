"""What the trees of a stream have in common: columns, fan-out, and which aggregates are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.entry_words import COUNTS, FLOAT, SIGNED, TEXT, UNSIGNED
from tidelog.index.states import States, StoredState
from tidelog.model.errors import (
    NONSENSE,
    CorruptionError,
    InputError,
    NewerReleaseError,
    NotFoundError,
    SchemaError,
    TidelogError,
    did_you_mean,
)
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.storage.codec import Ints
from tidelog.storage.summary.record import is_text

FANOUT: Final = 64
"""Entries of a full inner node: with ten columns it has about 36 KiB, and a billion rows need three levels of them."""

_KEY: Final = "tree"
_VERSION: Final = 1
_VERSION_WITH_STATES: Final = 2
_KNOWN_LAYOUTS: Final = 64


@final
class Layout:
    """How a tree is laid out: the stream's schema, the fan-out, the columns with aggregates, further states. Immutable.

    Leaves have the columns of the schema and the hidden sequence number behind them (:attr:`stored`). Bounds and sums
    are kept for the columns named by ``aggregates`` ("all" for every one), and always for time and sequence number.
    Counts of rows, nulls and NaN are kept for all. ``states`` are user-defined aggregates that entries keep states of
    (:mod:`tidelog.index.states`). Raises :class:`NotFoundError` for a name that is no column and
    :class:`InputError` for a fan-out below 2.
    """

    __slots__ = (
        "_positions",
        "aggregates",
        "columns",
        "fanout",
        "kinds",
        "schema",
        "sequence",
        "states",
        "stored",
        "time",
        "types",
    )

    def __init__(
        self,
        schema: Schema,
        fanout: int = FANOUT,
        aggregates: str | Iterable[str] = "all",
        states: Sequence[StoredState] = (),
    ) -> None:
        if not 2 <= fanout <= 1 << 16:
            raise InputError(f"fanout is {fanout}, expected 2 to {1 << 16} entries of a node")
        self.schema = schema
        self.fanout = fanout
        self.stored: pa.Schema = schema.arrow.append(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False))
        self.types: list[pa.DataType] = self.stored.types
        self.time = schema.time_index
        self.sequence = len(schema)
        self._positions = {name: index for index, name in enumerate(self.stored.names)}
        self.aggregates = _kept(schema, aggregates)
        self.columns: Ints = np.arange(len(self.stored), dtype=np.int64)
        """The positions of all columns."""
        self.kinds: npt.NDArray[np.uint8] = np.array([_kind(field.type) for field in self.stored], np.uint8)
        """How the bounds of each column compare, as kernels know it."""
        if self.aggregates is not None:
            always = {schema.time, SEQUENCE_COLUMN}
            dropped = [name not in self.aggregates and name not in always for name in self.stored.names]
            self.kinds[dropped] = COUNTS
        self.columns.flags.writeable = self.kinds.flags.writeable = False
        self.states = States(self.stored, schema.time, states)

    def indexes(self, names: Sequence[str] | None) -> Ints:
        """The positions of named columns, the hidden one included; all for None."""
        if names is None:
            return self.columns
        return np.array([self.index(name) for name in names], np.int64)

    def index(self, name: str) -> int:
        """The position of a stored column. Raises :class:`NotFoundError` for an unknown name."""
        position = self._positions.get(name)
        return self.schema.index(name) if position is None else position

    def renamed(self, names: Sequence[str]) -> Layout:
        """The same layout with other names for the columns of the schema, given for all of them in their order."""
        kept: str | list[str] = "all"
        if self.aggregates is not None:
            pairs = zip(self.schema.names, names, strict=True)
            kept = [new for old, new in pairs if old in self.aggregates]
        moved = dict(zip(self.schema.names, names, strict=True))
        states = [replace(each, binding=each.binding.renamed(moved)) for each in self.states.kept]
        return Layout(self.schema.renamed(names), self.fanout, kept, states)

    def check_container(self, stored: pa.Schema) -> None:
        """Raise :class:`SchemaError` unless leaves of ``stored`` are leaves of such a tree."""
        if not stored.equals(self.stored):
            raise SchemaError(
                f"found a container with the columns {', '.join(stored.names)}, expected those of the tree, which are "
                f"{', '.join(self.stored.names)} of the types in its schema"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.to_notes() == other.to_notes()

    def __hash__(self) -> int:
        return hash((self.schema, self.fanout, self.aggregates, self.states.kept))

    def __repr__(self) -> str:
        states = f", states={self.states.kept!r}" if self.states.kept else ""
        return f"Layout({self.schema!r}, fanout={self.fanout}, aggregates={self._names()!r}{states})"

    def with_states(self, states: Sequence[StoredState]) -> Layout:
        """This layout with other states of user-defined aggregates."""
        if not states and not self.states.kept:
            return self
        return Layout(self.schema, self.fanout, self._names(), states)

    def _names(self) -> str | list[str]:
        return "all" if self.aggregates is None else sorted(self.aggregates)

    def to_notes(self) -> dict[str, Any]:
        """The layout as JSON values, for the ``description`` a container is created with."""
        notes: dict[str, Any] = {
            "version": _VERSION_WITH_STATES if self.states.kept else _VERSION,
            "schema": self.schema.to_dict(),
            "fanout": self.fanout,
            "aggregates": self._names(),
        }
        if self.states.kept:
            notes["states"] = [each.to_dict() for each in self.states.kept]
        return {_KEY: notes}

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Layout:
        """The layout in a container's description (``ContainerReader.description``).

        Raises :class:`CorruptionError` if there is none, :class:`NewerReleaseError` if a newer release wrote it.
        """
        try:
            values = description["notes"][_KEY]
            if values["version"] not in (_VERSION, _VERSION_WITH_STATES):
                raise NewerReleaseError(
                    f"found version {values['version']} of a tree, this release reads up to version "
                    f"{_VERSION_WITH_STATES}; use a newer release"
                )
            schema, fanout, kept = Schema.from_dict(values["schema"]), values["fanout"], values["aggregates"]
            states = [StoredState.from_dict(each) for each in values.get("states", ())]
            return cls(schema, fanout, kept, states) if states else plain_layout(schema, fanout, kept)
        except NewerReleaseError:
            raise
        except (TidelogError, *NONSENSE) as error:
            raise CorruptionError(f"the description of the container has no layout of a tree: {error}") from error


def plain_layout(schema: Schema, fanout: int, aggregates: str | Iterable[str]) -> Layout:
    """A layout without user-defined aggregates; mostly the same object for the same arguments, which many trees have.

    Raises what :class:`Layout` does.
    """
    return _known(schema, fanout, aggregates if isinstance(aggregates, str) else frozenset(aggregates))


@lru_cache(_KNOWN_LAYOUTS, typed=True)
def _known(schema: Schema, fanout: int, aggregates: str | frozenset[str]) -> Layout:
    return Layout(schema, fanout, aggregates)


def _kept(schema: Schema, aggregates: str | Iterable[str]) -> frozenset[str] | None:
    if aggregates == "all":
        return None
    if isinstance(aggregates, str):
        raise InputError(f"aggregates is {aggregates!r}, expected 'all' or a list of column names")
    names = frozenset(aggregates)
    for name in sorted(names):
        if name not in schema:
            raise NotFoundError(f"there is no column {name!r} to aggregate; {did_you_mean(name, schema.names)}")
    return names


def _kind(type: pa.DataType) -> int:
    if is_text(type):
        return TEXT
    if pa.types.is_floating(type):
        return FLOAT
    if pa.types.is_unsigned_integer(type):
        return UNSIGNED
    if pa.types.is_nested(type) or pa.types.is_null(type):
        return COUNTS
    return SIGNED
