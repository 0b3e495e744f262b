"""States of user-defined aggregates, as words behind the columns of an entry (docs/format.md).

Each aggregate has a word with the number of rows that took part, then its state. A state that could not be computed is
:data:`UNKNOWN`, and so is everything merged with it: whoever asks looks at what is below instead. That is how trees are
written, and go on being right, where the code of an aggregate is missing or fails: events are never refused for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.aggregates.base import Aggregate, Dependent, Incremental, Virtual
from tidelog.aggregates.binding import Binding, closure, find, instance, missing, needed_by, revision
from tidelog.aggregates.runs import compressed, filled
from tidelog.index.columnvalues import ColumnValues, is_supported
from tidelog.model.errors import InputError, NotFoundError, TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.storage.codec import Ints
from tidelog.storage.rows.numbered import Rows

_LOG: Final = logging.getLogger(__name__)

Words = npt.NDArray[np.uint64]

UNKNOWN: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Instead of a number of rows: the state was not computed."""

_KNOWN_VIEWS: Final = 64

LARGEST: Final = 1 << 16
"""Words of states in an entry at most, half a megabyte."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """An aggregate whose states are kept, and how many words they have, without the number of rows."""

    binding: Binding
    words: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.binding.to_dict(), "words": self.words}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StoredState:
        """What :meth:`to_dict` described; raises :class:`InputError` for anything else."""
        words = values.get("words")
        if type(words) is not int or not 0 < words <= LARGEST:
            raise InputError(f"found states of {words!r} words; expected 1 to {LARGEST}")
        return cls(Binding.from_dict(values), words)


@dataclass(frozen=True, slots=True)
class _Step:
    """An aggregate ready to be computed."""

    aggregate: Incremental
    dependencies: tuple[int, ...]
    """The positions of those that its states are merged with, of which it is one."""


@final
class States:
    """The states of some aggregates side by side, in an order in which each follows those it depends on. Immutable.

    With ``strict`` errors of aggregates, and missing code, are raised; otherwise states are unknown, and it is logged
    once.
    """

    def __init__(self, stored: pa.Schema, time: str, kept: Sequence[StoredState], *, strict: bool = False) -> None:
        """Of rows of the schema ``stored``, in which ``time`` is the column with the times."""
        self.kept = tuple(kept)
        self._stored = stored
        self._time = time
        self._strict = strict
        self._starts: list[int] = []
        words = 0
        for each in self.kept:
            self._starts.append(words)
            words += 1 + each.words
        if words > LARGEST:
            raise InputError(f"the states of all aggregates have {words} words together; {LARGEST} are possible")
        self.words = words
        """Words of an entry that all states take."""
        self._places = {each.binding: place for place, each in enumerate(self.kept)}
        self._covered: dict[tuple[StoredState, ...], bool] = {}
        self._steps: dict[int, _Step] = {}
        self._complained: set[Binding] = set()
        self._views: dict[tuple[StoredState, ...], Ints] = {}

    @classmethod
    def of(cls, stored: pa.Schema, time: str, bindings: Sequence[Binding], *, strict: bool = False) -> States:
        """The states that some aggregates need: their own and those of all they depend on.

        Raises :class:`NotFoundError` for missing code, :class:`InputError` if one cannot be applied to its columns.
        """
        kept = []
        for binding in closure(bindings):
            made = instance(binding, lambda name: _type_of(stored, name))
            if isinstance(made, Incremental):
                kept.append(StoredState(binding, made.state.itemsize // 8))
        return cls(stored, time, kept, strict=strict)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What states are kept of."""
        return tuple(self._places)

    @property
    def digest(self) -> str:
        """A short text that is the same for the same states in the same order; empty for none."""
        if not self.kept:
            return ""
        text = json.dumps([each.to_dict() for each in self.kept], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that states are computed from, each once; times if there are none, for rows must be counted."""
        names = [name for each in self.kept for name in each.binding.columns]
        if any((kind := find(each.binding.id)) is not None and kind.by_place for each in self.kept):
            names += [self._time, SEQUENCE_COLUMN]
        return tuple(dict.fromkeys(names)) or (self._time,)

    def __contains__(self, binding: object) -> bool:
        return binding in self._places

    def has_all(self, other: States) -> bool:
        """Whether the states of another one are among these, each of the same width."""
        if other.kept not in self._covered:
            if len(self._covered) >= _KNOWN_VIEWS:
                self._covered.clear()
            self._covered[other.kept] = set(other.kept) <= set(self.kept)
        return self._covered[other.kept]

    def subset(self, bindings: Sequence[Binding]) -> States:
        """The states that some of the aggregates need."""
        return States.of(self._stored, self._time, bindings, strict=self._strict)

    def words_of(self, other: States) -> Ints:
        """Where the words of another one's states, all of which are among these, are among these."""
        found = self._views.get(other.kept)
        if found is None:
            ranges = []
            for each in other.kept:
                start = self._starts[self._places[each.binding]]
                ranges.append(np.arange(start, start + 1 + each.words, dtype=np.int64))
            found = np.concatenate(ranges) if ranges else np.empty(0, np.int64)
            if len(self._views) >= _KNOWN_VIEWS:
                self._views.clear()
            self._views[other.kept] = found
        return found

    def unknown(self, count: int) -> Words:
        """So many rows of states that were not computed."""
        table = np.zeros((count, self.words), np.uint64)
        table[:, self._starts] = UNKNOWN
        return table

    def is_unknown(self, table: Words) -> npt.NDArray[np.bool_]:
        """Which rows have states that were not computed."""
        found: npt.NDArray[np.bool_] = (table[:, self._starts] == UNKNOWN).any(axis=1)
        return found

    # -- computing ------------------------------------------------------------------------------------------------

    def of_rows(self, rows: Rows, cuts: Ints) -> Words:
        """The states of runs of rows, of rows ``cuts[i]`` to ``cuts[i + 1]`` for each ``i``; runs may be empty."""
        first = int(cuts[0])
        return self.of_columns(ColumnValues(rows.slice(first, int(cuts[-1]) - first)), cuts - first)

    def of_columns(self, columns: ColumnValues, cuts: Ints) -> Words:
        """:meth:`of_rows` of columns, of which the runs are all rows."""
        table = np.zeros((len(cuts) - 1, self.words), np.uint64)
        for place, start in enumerate(self._starts):
            step = self._step(place)
            if step is None:
                table[:, start] = UNKNOWN
                continue
            try:
                self._init(step.aggregate, self.kept[place].binding, columns, cuts, self.part(table, place))
            except Exception as error:
                self._fail(place, error)
                table[:, start] = UNKNOWN
        return table

    def _init(self, aggregate: Incremental, binding: Binding, columns: ColumnValues, cuts: Ints, out: Words) -> None:
        kept = None if aggregate.sees_nulls else columns.present(binding.columns)
        own = compressed(cuts, kept)
        known, starts = filled(own)
        if not known.any():
            return
        if aggregate.sees_nulls:
            values = [columns.masked(name) for name in binding.columns]
        else:
            values = [columns.values(name, kept) for name in binding.columns]
        if aggregate.by_place:
            values += [columns.values(name, kept) for name in (self._time, SEQUENCE_COLUMN)]
        states = _states(aggregate, aggregate.init(values, starts), len(starts) - 1)
        out[:, 0] = np.diff(own)
        out[known, 1:] = states

    def merge(self, table: Words, cuts: Ints) -> Words:
        """The states of runs of rows of states, of rows ``cuts[i]`` to ``cuts[i + 1]``; runs may be empty."""
        if len(table) == 1 and len(cuts) == 2 and cuts[1] == 1:
            return table
        merged = np.zeros((len(cuts) - 1, self.words), np.uint64)
        for place, start in enumerate(self._starts):
            step = self._step(place)
            out = self.part(merged, place)
            if step is None:
                out[:, 0] = UNKNOWN
                continue
            try:
                self._merge(step, place, table, cuts, out)
            except Exception as error:
                self._fail(place, error)
                out[:] = 0
                merged[:, start] = UNKNOWN
        return merged

    def _merge(self, step: _Step, place: int, table: Words, cuts: Ints, out: Words) -> None:
        lengths = np.diff(cuts)
        if len(lengths) == 1 and self._merge_run(step, place, table[cuts[0] : cuts[1]], out):
            return
        runs = np.repeat(np.arange(len(lengths)), lengths)
        counts = table[cuts[0] : cuts[-1], self._starts[place]]
        lost = np.zeros(len(lengths), np.bool_)
        for each in (place, *step.dependencies):
            theirs = table[cuts[0] : cuts[-1], self._starts[each]] == UNKNOWN
            if theirs.any():
                lost[runs[theirs]] = True
        usable = (counts != 0) & ~lost[runs]
        if usable.any():
            known, starts = filled(compressed(cuts - cuts[0], usable))
            chosen = np.flatnonzero(usable) + cuts[0]
            args = [self._read(table, each, chosen) for each in (place, *step.dependencies)]
            merge = step.aggregate.merge
            states = args[0] if len(starts) - 1 == len(chosen) else merge(args[0], starts, *args[1:])
            out[known, 0] = np.add.reduceat(counts[usable], starts[:-1])
            out[known, 1:] = _states(step.aggregate, states, len(starts) - 1)
        out[lost, 0] = UNKNOWN

    def _merge_run(self, step: _Step, place: int, table: Words, out: Words) -> bool:
        """Merge all of a table; false, and nothing is done, if some of its states are unknown or of nothing."""
        counts = table[:, self._starts[place]]
        if not len(counts) or not counts.all():
            return False
        places = (place, *step.dependencies)
        if (table[:, [self._starts[each] for each in places]] == UNKNOWN).any():
            return False
        rows = slice(0, len(table))
        states = step.aggregate.merge(*_with(len(table), *(self._read(table, each, rows) for each in places)))
        out[0, 0] = counts.sum()
        out[0, 1:] = _states(step.aggregate, states, 1)[0]
        return True

    def part(self, table: Words, place: int) -> Words:
        """The number of rows and the states of one aggregate, by its position."""
        start = self._starts[place]
        return table[:, start : start + 1 + self.kept[place].words]

    def _read(self, table: Words, place: int, rows: Ints | slice) -> npt.NDArray[Any]:
        start, step = self._starts[place], self._step(place)
        assert step is not None
        part = np.ascontiguousarray(table[rows, start + 1 : start + 1 + self.kept[place].words])
        return part.view(step.aggregate.state).reshape(len(part))

    # -- results --------------------------------------------------------------------------------------------------

    def shifted(self, table: Words, base: int) -> Words:
        """States after all sequence numbers grew by ``base``."""
        moved = table.copy()
        for place, start in enumerate(self._starts):
            step = self._step(place)
            if step is not None and step.aggregate.by_place:
                rows = np.flatnonzero((table[:, start] != 0) & (table[:, start] != UNKNOWN))
                states = step.aggregate.shifted(self._read(table, place, rows), base)
                moved[rows, start + 1 : start + 1 + self.kept[place].words] = _states(step.aggregate, states, len(rows))
        return moved

    def result(self, binding: Binding, row: Words) -> Any:
        """The result of an aggregate, of which all that it needs is here; None if no rows took part."""
        return self.results(binding, row.reshape(1, -1))[0]

    def results(self, binding: Binding, table: Words) -> list[Any]:
        """:meth:`result` of each row of a table."""
        return self._results(binding, table, {})

    def result_type(self, binding: Binding) -> pa.DataType | None:
        """The type of the results of an aggregate, if its code says it."""
        return instance(binding, lambda name: _type_of(self._stored, name)).result_type()

    def _results(self, binding: Binding, table: Words, known: dict[Binding, list[Any]]) -> list[Any]:
        if binding not in known:
            kind = find(binding.id)
            if kind is None:
                raise missing(binding.id)
            needed = [self._results(each, table, known) for each in needed_by(binding, kind)]
            try:
                known[binding] = self._evaluated(binding, table, needed)
            except Exception as error:
                _tell(error, binding)
                raise
        return known[binding]

    def _evaluated(self, binding: Binding, table: Words, needed: Sequence[list[Any]]) -> list[Any]:
        """The results of an aggregate from its states and from the results of those that it depends on."""
        place = self._places.get(binding)
        if place is None:
            made = instance(binding, lambda name: _type_of(self._stored, name))
            assert isinstance(made, Virtual)
            return [
                None if any(value is None for value in each) else made.eval(*each) for each in zip(*needed, strict=True)
            ]
        step = self._step(place)
        rows = np.flatnonzero(table[:, self._starts[place]])
        found: list[Any] = [None] * len(table)
        if not len(rows):
            return found
        assert step is not None
        states = self._read(table, place, rows)
        known = len(rows) == len(table)
        arguments = needed if isinstance(step.aggregate, Dependent) else ()
        if not known:
            arguments = [[each[row] for row in rows.tolist()] for each in arguments]
        results = step.aggregate.eval_all(states, *arguments)
        if known:
            return list(results)
        for row, result in zip(rows.tolist(), results, strict=True):
            found[row] = result
        return found

    # -- code -----------------------------------------------------------------------------------------------------

    def _step(self, place: int) -> _Step | None:
        """How an aggregate is computed; None if that is not possible here."""
        step = self._steps.get(place)
        if step is None or type(step.aggregate) is not find(self.kept[place].binding.id):  # code may be replaced
            step = None
            try:
                step = self._steps[place] = self._made(place)
            except (NotFoundError, InputError) as error:
                self._fail(place, error)
        return step

    def _made(self, place: int) -> _Step:
        each = self.kept[place]
        made = instance(each.binding, lambda name: _type_of(self._stored, name))
        if not isinstance(made, Incremental) or made.state.itemsize != 8 * each.words:
            raise InputError(
                f"the code of {each.binding.id} does not make the states of {8 * each.words} bytes that are stored; "
                "give an aggregate with other states another id"
            )
        dependencies: list[int] = []
        if isinstance(made, Dependent):
            for needed in needed_by(each.binding, type(made)):
                if needed not in self._places:
                    raise InputError(f"{each.binding.id} depends on {needed.name}, which is not stored beside it")
                dependencies.append(self._places[needed])
        return _Step(made, tuple(dependencies))

    def agree(self, place: int, found: Words, expected: Words) -> bool:
        """Whether two states of an aggregate, by its position, can be of the same rows.

        They are the same but for the last bits of floats; those of rough estimates cannot be compared.
        """
        step = self._step(place)
        if step is None or not step.aggregate.is_reproducible or found.tobytes() == expected.tobytes():
            return True
        return _is_close(*(np.ascontiguousarray(each[1:]).view(step.aggregate.state) for each in (found, expected)))

    def _fail(self, place: int, error: Exception) -> None:
        if self._strict:
            _tell(error, self.kept[place].binding)
            raise error
        binding = self.kept[place].binding
        if binding not in self._complained:
            self._complained.add(binding)
            _LOG.warning("the aggregate %s is not kept up to date: %s", binding.name, error)


def _tell(error: Exception, binding: Binding) -> None:
    """Say of which aggregate an error is that its code raised; errors of ours tell that themselves."""
    if not isinstance(error, TidelogError):
        error.add_note(f"raised by the code of the aggregate {binding.name} ({binding.id})")


def _with(length: int, states: npt.NDArray[Any], *dependencies: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The arguments of a merge of one run of so many states."""
    return states, np.array([0, length], np.int64), *dependencies


def _is_close(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    if found.dtype.names:
        return all(_is_close(found[name], expected[name]) for name in found.dtype.names)
    if found.dtype.kind == "f":
        return bool(np.isclose(found, expected, rtol=1e-6, atol=1e-12, equal_nan=True).all())
    return bool((found == expected).all())


def _states(aggregate: Aggregate, states: Any, runs: int) -> Words:
    """States as words, one row for each run."""
    assert isinstance(aggregate, Incremental)
    array = np.asarray(states)
    if array.dtype != aggregate.state or array.shape != (runs,):
        raise InputError(
            f"{aggregate.id} gave {array.shape} states of {array.dtype}; expected {runs} of {aggregate.state}"
        )
    return np.ascontiguousarray(array).view(np.uint64).reshape(runs, array.dtype.itemsize // 8)


def _type_of(stored: pa.Schema, name: str) -> pa.DataType:
    index = stored.get_field_index(name)
    if index < 0:
        raise InputError(f"there is no column {name!r}; {did_you_mean(name, stored.names)}", column=name)
    type = stored.field(index).type
    if not is_supported(type):
        raise InputError(f"no aggregates can be computed of columns of {type}, such as {name!r}", column=name)
    return type


def still_holds(each: StoredState, before: pa.Schema, after: pa.Schema) -> bool:
    """Whether states of an aggregate hold for the same rows under another version of the schema, of the same names."""
    names = each.binding.columns
    old, new = (tuple(_found(schema, name) for name in names) for schema in (before, after))
    if None in old or None in new:
        return False
    return old == new or _has_same_states(each.binding, old, new, revision())


_KNOWN_TYPES: Final = 1024


@lru_cache(_KNOWN_TYPES)
def _has_same_states(
    binding: Binding, before: tuple[pa.DataType, ...], after: tuple[pa.DataType, ...], _revision: int
) -> bool:
    """Whether an aggregate makes the same states of the same values in columns of other types."""
    kind = find(binding.id)
    if kind is None or not kind.by_value or not all(map(_same_values, before, after)):
        return False
    try:
        named = [dict(zip(binding.columns, types, strict=True)) for types in (before, after)]
        old, new = (instance(binding, types.__getitem__) for types in named)
    except (NotFoundError, InputError):
        return False
    return isinstance(old, Incremental) and isinstance(new, Incremental) and old.state == new.state


def _found(schema: pa.Schema, name: str) -> pa.DataType | None:
    index = schema.get_field_index(name)
    return None if index < 0 else schema.field(index).type


def _same_values(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether values of two types are the same but for how wide they are stored."""
    if pa.types.is_integer(before) and pa.types.is_integer(after):
        return True
    return before == after or {before, after} in (
        {pa.string(), pa.large_string()},
        {pa.binary(), pa.large_binary()},
    )


def available(stored: pa.Schema, time: str, bindings: Sequence[Binding]) -> States:
    """The states of those aggregates whose code is here, for new trees; the others are named in the log.

    Streams are opened and written without the code of their aggregates.
    """
    usable: dict[StoredState, None] = {}
    for binding in bindings:
        try:
            more = {**usable, **dict.fromkeys(States.of(stored, time, [binding]).kept)}
            States(stored, time, tuple(more))  # which are not too wide together
            usable = more
        except (NotFoundError, InputError) as error:
            _LOG.warning("new splits will be without the aggregate %s: %s", binding.name, error)
    return States(stored, time, tuple(usable))
