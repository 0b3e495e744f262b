"""Aggregates of DuckDB's that have no states of ours: all their rows are kept, and DuckDB computes them at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import Fold, Value
from tidelog.expr.database.binding import failed, refused
from tidelog.expr.database.connection import connection
from tidelog.expr.errors import ExpressionError
from tidelog.model.arrays import integer_column

_Piece: TypeAlias = tuple[pa.RecordBatch, int, int]
"""Rows of a batch, from the first number up to the second one."""
_Kept: TypeAlias = tuple[_Piece, ...]
"""Rows in their order, as pieces each of which has more of them than the next."""

_NAMES: Final = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")*)\"|([^\W\d]\w*)(?=(\s*\()?)")
"""Texts, which are passed over, names in quotes, and other words, with the sign of a call."""
_OBJECTS: Final = np.dtype(object)


@dataclass(frozen=True)
class DatabaseCall(Fold):
    """An aggregate as DuckDB knows it, with ``DISTINCT``, ``ORDER BY`` and ``FILTER`` if they are part of the text.

    Its states are the rows themselves; those without an order have that of the rows.
    """

    text: str
    schema: pa.Schema
    """The columns that the text is about, one at least."""
    kind: pa.DataType

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are kept."""
        return tuple(self.schema.names)

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self.kind

    @property
    def is_ordered(self) -> bool:
        """As far as is known."""
        return True

    def start(self) -> States:
        """No rows."""
        return _objects([()])

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The rows of each run."""
        columns = [rows.column(name) for name in self.schema.names]
        needed = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return _objects([((needed, low, high),) if high > low else () for low, high in pairwise(cuts.tolist())])

    def merge(self, states: States, cuts: Cuts) -> States:
        """The rows of states, one behind the other."""
        nothing: _Kept = ()
        return _objects([reduce(_joined, states[low:high], nothing) for low, high in pairwise(cuts.tolist())])

    def plus(self, states: States, others: States) -> States:
        """Pairs of states, likewise."""
        return _objects([_joined(one, other) for one, other in zip(states, others, strict=True)])

    def lower(self, states: States) -> list[Value]:
        """What DuckDB says of the rows."""
        found: list[Value] = self.lower_column(states).to_pylist()
        return found

    def lower_column(self, states: States) -> pa.Array:
        """The same as a column. Raises :class:`EvaluationError` for values that DuckDB has no result for."""
        rows, cuts = self._rows(states)
        found = of_runs(self.text, rows, cuts)
        return found if found.type == self.kind else found.cast(self.kind)

    def pack(self, states: States) -> pa.Buffer:
        """The rows of each state as a list."""
        rows, cuts = self._rows(states)
        own = pa.StructArray.from_arrays(rows.columns, fields=list(self.schema))
        column = pa.LargeListArray.from_arrays(pa.array(cuts, pa.int64()), own)
        return pa.RecordBatch.from_arrays([column], ["rows"]).serialize()

    def unpack(self, content: pa.Buffer) -> States:
        """The states that were packed."""
        kind = pa.large_list(pa.struct(list(self.schema)))
        column = pa.ipc.read_record_batch(content, pa.schema([("rows", kind)])).column(0)
        rows = pa.RecordBatch.from_arrays(column.values.flatten(), schema=self.schema)
        return self.lift(rows, np.asarray(column.offsets))

    def _rows(self, states: States) -> tuple[pa.RecordBatch, Cuts]:
        """The rows of states, one state behind the other, and where each begins and the last one ends."""
        kept: list[_Kept] = [each or () for each in states]  # room that nobody has written to has zeros
        pieces = [piece for own in kept for piece in own]
        lengths = np.array([sum(high - low for _, low, high in own) for own in kept], np.int64)
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return _together(pieces, self.schema), cuts

    def __str__(self) -> str:
        return self.text


def database_call(text: str, schema: pa.Schema) -> DatabaseCall:
    """The call of an aggregate that ``text`` says, as DuckDB knows it.

    Raises :class:`ExpressionError` for what is none, or would not be the same whenever it is computed.
    """
    known = {name.lower(): name for name in schema.names}
    used = set()
    for quoted, word, is_call in _NAMES.findall(text):
        name = (quoted.replace('""', '"') or word).lower()
        if name in known and not is_call:
            used.add(known[name])
        elif not quoted and name in _changing():
            raise ExpressionError(f"{name} is not the same whenever it is computed; compute it in the input")
    names = [name for name in schema.names if name in used] or schema.names[:1]
    own = pa.schema([schema.field(name) for name in names])
    return DatabaseCall(text, own, _bound(text, own))


def of_runs(call: str, rows: pa.RecordBatch, cuts: Cuts) -> pa.Array:
    """An aggregate over runs of rows, whose order is that of the rows, as DuckDB computes it."""
    run, place = column_beside(rows, "run"), column_beside(rows, "row")
    runs = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    batch = with_column(with_column(rows, run, integer_column(runs)), place, integer_column(np.arange(len(runs))))
    ordered = f'SELECT "{run}", {call} AS x FROM (SELECT * FROM input ORDER BY "{place}") GROUP BY "{run}"'
    values = asked(f'SELECT x FROM ({ordered} ORDER BY "{run}")', batch)
    is_filled = np.diff(cuts) > 0
    if is_filled.all():
        return values
    places = np.where(is_filled, np.cumsum(is_filled) - 1, len(values))
    return pa.concat_arrays([values, of_nothing(call, rows.schema).cast(values.type)]).take(integer_column(places))


@lru_cache(256)
def of_nothing(call: str, schema: pa.Schema) -> pa.Array:
    """The aggregate of no rows."""
    none = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)
    return asked(f"SELECT {call} AS x FROM input", none)


def asked(text: str, batch: pa.RecordBatch) -> pa.Array:
    """The only column of what DuckDB says of a batch, which the text calls ``input``.

    Raises :class:`EvaluationError`.
    """
    import duckdb

    try:
        return _answer(text, pa.Table.from_batches([batch])).column(0).combine_chunks()
    except (duckdb.Error, RuntimeError) as error:
        raise failed(error) from None


def with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """A batch with one more column."""
    return pa.RecordBatch.from_arrays(
        [*batch.columns, column], schema=pa.schema([*batch.schema, pa.field(name, column.type)])
    )


def column_beside(rows: pa.RecordBatch, name: str) -> str:
    """A name that no column has."""
    while name in rows.schema.names or not name.startswith("#"):
        name = f"#{name}"
    return name


def _answer(text: str, table: pa.Table) -> pa.Table:
    with connection() as own:
        own.cursor.register("input", table)
        try:
            return own.cursor.sql(text).to_arrow_table()
        finally:
            own.cursor.unregister("input")


@lru_cache(256)
def _bound(call: str, schema: pa.Schema) -> pa.DataType:
    """The type of an aggregate over rows of a schema."""
    import duckdb

    try:
        # Beside a count DuckDB refuses what is no aggregate.
        kind = _answer(f"SELECT {call} AS x, count(*) FROM input", schema.empty_table()).schema.types[0]
    except (duckdb.Error, RuntimeError) as error:
        raise refused(error) from None
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@lru_cache(1)
def _changing() -> frozenset[str]:
    """The functions of DuckDB whose values depend on more than their arguments."""
    text = "SELECT DISTINCT function_name AS x FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    with connection() as own:
        found = own.cursor.sql(text).to_arrow_table().column(0).to_pylist()
    return frozenset({*found, "current_time", "current_timestamp", "localtime", "localtimestamp"})


def _joined(one: _Kept, other: _Kept) -> _Kept:
    """The rows of both, in pieces that never become many, however few rows come at a time."""
    for piece in other:
        own = list(one)
        while own:
            before = own[-1]
            if before[0] is piece[0] and before[2] == piece[1]:
                piece = (piece[0], before[1], piece[2])
            elif before[2] - before[1] <= piece[2] - piece[1]:
                both = _together([before, piece], piece[0].schema)
                piece = (both, 0, both.num_rows)
            else:
                break
            own.pop()
        one = (*own, piece)
    return one


def _together(pieces: Sequence[_Piece], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of some pieces as a batch of their own."""
    if not pieces:
        return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)
    first = {id(batch): batch for batch, _, _ in pieces}
    bases = dict(zip(first, np.cumsum([0, *(each.num_rows for each in first.values())]), strict=False))
    lows = np.array([bases[id(batch)] + low for batch, low, _ in pieces], np.int64)
    lengths = np.array([high - low for _, low, high in pieces], np.int64)
    begins = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(lows - begins, lengths)
    return pa.concat_batches(list(first.values())).take(integer_column(places))


def _objects(values: Sequence[Any]) -> States:
    found = np.empty(len(values), _OBJECTS)
    for place, value in enumerate(values):  # NumPy would look into tuples
        found[place] = value
    return found
