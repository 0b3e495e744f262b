"""Conditions of situations, row by row: what others may do before, and which rows matter then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tidelog.expr import predicate
from tidelog.model.arrays import boolean_column
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Batches, Shape
from tidelog.operators.rowwise import Rowwise
from tidelog.operators.situations.rows import Mask
from tidelog.operators.situations.syntax import Aggregate, Definition, Derivation, Mode, Situations

Query = TypeVar("Query", Situations, Derivation)


class Conditions(Rowwise):
    """Rows with the truth of each condition as a column, and without columns that only conditions needed."""

    keeps_rows = True

    def __init__(self, shape: Shape, definitions: Sequence[Definition], needed: Iterable[str]) -> None:
        """``needed`` are columns that are kept besides time and numbers, as far as there are such."""
        self._conditions = [predicate(each.condition, shape.schema) for each in definitions]
        prefix = "#"
        while any(name.startswith(prefix) for name in shape.schema.names):
            prefix += "#"
        self._names = [f"{prefix}{number}" for number in range(len(definitions))]
        kept = {shape.time, SEQUENCE_COLUMN, *needed}
        self._kept = [name for name in shape.schema.names if name in kept]
        fields = [shape.schema.field(name) for name in self._kept]
        fields += [pa.field(name, pa.bool_(), nullable=False) for name in self._names]
        super().__init__(shape, Shape(pa.schema(fields), shape.time))

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The same rows."""
        truths = [boolean_column(each.mask(batch)) for each in self._conditions]
        columns = [*(batch.column(name) for name in self._kept), *truths]
        return [pa.RecordBatch.from_arrays(columns, schema=self.output.schema)]

    def rest(self, query: Query) -> Query:
        """The query over rows that come out."""
        definitions = tuple(
            replace(each, condition=f'"{name}"') for each, name in zip(query.definitions, self._names, strict=True)
        )
        return replace(query, definitions=definitions)


def counting(query: Situations | Derivation) -> list[bool]:
    """Of each definition whether all rows of its situations matter, and not only the first and the one behind.

    They do if an aggregate is over them, or if it is known early only at one of them that a situation is long enough.
    """
    if isinstance(query, Derivation):
        return [bool(query.returned)] * len(query.definitions)
    terms = [term for each in query.returned for term in each.terms]
    aggregated = {term.situation for term in terms if isinstance(term, Aggregate)}
    return [each.name in aggregated or waits for each, waits in zip(query.definitions, waiting(query), strict=True)]


def waiting(query: Situations | Derivation) -> list[bool]:
    """Of each definition whether it is known early only at one of its rows that a situation is long enough."""
    is_early = isinstance(query, Situations) and query.mode is Mode.EARLY
    return [is_early and each.least > 0 for each in query.definitions]


def thinned(batch: pa.RecordBatch, truths: Sequence[Mask], counts: Sequence[bool]) -> pa.RecordBatch:
    """Of rows in order without keys the first one, those at which a condition changes, and those that count."""
    kept = np.zeros(batch.num_rows, np.bool_)
    kept[:1] = True
    for truth, is_counted in zip(truths, counts, strict=True):
        kept[1:] |= truth[1:] != truth[:-1]
        if is_counted:
            kept |= truth
    return batch.filter(boolean_column(kept))
