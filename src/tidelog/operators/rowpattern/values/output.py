"""The rows that come out for matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import batch_of, integer_column
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.rows import index_array
from tidelog.operators.rowpattern.syntax import TIMED_OUT_COLUMN, RowPattern
from tidelog.operators.rowpattern.syntax import Rows as Which
from tidelog.operators.rowpattern.values.terms import Values


class Output:
    """Renders the matches of one query."""

    def __init__(self, query: RowPattern, values: Values) -> None:
        self._query = query
        self._values = values
        self.schema = query.output

    def rendered(self, matches: Matches) -> tuple[pa.RecordBatch, Ints]:
        """The rows for some matches, and the match of each of them."""
        if self._query.frame is not None:
            return self._each(matches)
        return self._one(matches) if self._query.rows is Which.ONE else self._all(matches)

    def _one(self, matches: Matches) -> tuple[pa.RecordBatch, Ints]:
        starts = integer_column(matches.starts)
        columns = [matches.rows.batch.column(name).take(starts) for name in self._query.partition]
        columns += [
            _cast(self._values.of_matches(measure.value, matches), measure.type) for measure in self._query.measures
        ]
        if self._query.with_timeouts:
            columns.append(pa.array(matches.is_timed_out))
        return batch_of(columns, self.schema, len(matches)), np.arange(len(matches))

    def _each(self, matches: Matches) -> tuple[pa.RecordBatch, Ints]:
        """A row for each match, or for what is none, which is that of a window."""
        places = integer_column(matches.starts)
        columns = [each.take(places) for each in matches.rows.batch.columns]
        known = pa.array(matches.is_match)
        for measure in self._query.measures:
            values = _cast(self._values.of_matches(measure.value, matches), measure.type)
            if not measure.is_function:
                values = pc.if_else(known, values, pa.scalar(None, values.type))
            columns.append(values)
        return batch_of(columns, self.schema, len(matches)), np.arange(len(matches))

    def _all(self, matches: Matches) -> tuple[pa.RecordBatch, Ints]:
        """Rows of matches, then matches without rows, then rows without a match, put into order."""
        is_empty = matches.is_match & (matches.lengths == 0)
        empties = np.flatnonzero(is_empty & (self._query.rows is not Which.OMIT_EMPTY))
        others = np.flatnonzero(matches.is_unmatched)
        shown = np.flatnonzero(~matches.excluded)
        owners = np.concatenate([matches.owners[shown], empties, others]).astype(np.int64)
        order = np.argsort(owners, kind="stable")
        owners = owners[order]
        rows = np.concatenate([matches.places[shown], matches.starts[empties], matches.starts[others]])[order]
        # Where the values of measures stand: those of rows, of empty matches, and none.
        total = len(matches.places)
        sources = np.concatenate([shown, total + np.arange(len(empties)), np.full(len(others), -1)])[order]
        indices = index_array(sources, sources < 0)
        without_rows = matches.chosen(_only(empties, len(matches)))
        measures = {}
        for measure in self._query.measures:
            values = _cast(self._values.of_rows(measure.value, matches), measure.type)
            if len(empties):
                values = pa.concat_arrays(
                    [values, _cast(self._values.of_matches(measure.value, without_rows), measure.type)]
                )
            measures[measure.name] = values.take(indices)
        if self._query.with_timeouts:
            measures[TIMED_OUT_COLUMN] = pa.array(matches.is_timed_out[owners])
        places = integer_column(rows)
        batch, columns = matches.rows.batch, []
        first = len({*self._query.partition, *(each.column for each in self._query.order)})
        for place, field in enumerate(self.schema):
            if first <= place < first + len(measures):
                columns.append(measures[field.name])
            else:
                columns.append(batch.column(field.name).take(places))
        return batch_of(columns, self.schema, len(rows)), owners


def _only(places: Ints, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(count, np.bool_)
    found[places] = True
    return found


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return values if values.type == type_ else values.cast(type_)
