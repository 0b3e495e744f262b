"""What DuckDB reads: it asks for the number of rows, offers filters, and takes a stream of batches.

``duckdb._sources`` is not public, but what is public tells DuckDB neither how many rows there are, so that every join
is in the order of the text, nor lets it push comparisons of floats. :mod:`tidelog` asks for the minor version of
DuckDB that has it as it is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Node

from tidelog.sql.reading.dataset import Relation
from tidelog.sql.reading.filters import Condition, condition_of
from tidelog.sql.reading.reduction import Reduction

_NOTHING: Final = pa.schema([]).empty_table()


class Source(ds.InMemoryDataset, ArrowScanSource):  # type: ignore[misc]  # Arrow has no types
    """A relation, for one connection. It is an empty dataset of Arrow too: nothing else can be registered."""

    schema_is_stable = True

    def __init__(self, relation: Relation | Reduction) -> None:
        self._schema = relation.handed
        super().__init__(_NOTHING)
        self.obj = self
        self._relation = relation

    def __arrow_c_schema__(self) -> object:
        """The columns."""
        return self._schema.__arrow_c_schema__()

    def rows(self) -> int:
        """About how many there are."""
        return self._relation.likely_rows

    def accepts(self, predicate: Node) -> bool:
        """Whether every row that comes will satisfy a filter, which DuckDB does not apply then."""
        condition = condition_of(predicate)
        return condition is not None and self._relation.can_apply(condition)

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """Begin to read some columns, by number, of the rows that satisfy filters that were accepted."""
        names = self._relation.schema.names
        wanted = names if columns is None else [names[column] for column in columns]
        return self._relation.reader(wanted, _conditions(filters)).__arrow_c_stream__(), columns is not None


def _conditions(filters: Sequence[Node]) -> list[Condition]:
    found = [condition_of(each) for each in filters]
    assert None not in found  # they were accepted
    return [each for each in found if each is not None]
