"""What a statement gives: fetched as often as wanted, in whatever form."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arguments import integer
from tidelog.model.errors import InputError
from tidelog.sql.clauses.operation import Stretch
from tidelog.sql.query import Query

_BATCH_ROWS: Final = 65_536
_SHOWN_ROWS: Final = 40


class Result:
    """The rows of a statement. A ``SELECT`` is run whenever it is fetched, always of the moment of the call."""

    def __init__(self, query: Query) -> None:
        self._query = query

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._query.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def arrow(self) -> pa.Table:
        """All rows, as an Arrow table."""
        return self._query.arrow()

    def reader(self, batch_rows: int = _BATCH_ROWS) -> pa.RecordBatchReader:
        """All rows, in batches of so many at most, with bounded memory."""
        rows = integer("batch_rows", batch_rows, 1)
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(rows))

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        scanned = self._query.scanned()
        if scanned is not None:
            for batch in scanned:
                yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))
            return
        with self._query.opened() as running:
            reader = running.fetch(lambda relation: relation.to_arrow_reader(rows))
            while (batch := running.fetch(lambda _: next(reader, None))) is not None:
                yield batch

    def df(self) -> Any:
        """All rows, as a frame of pandas."""
        _check_installed("pandas")
        with self._query.opened() as running:
            return running.fetch(lambda relation: relation.df())

    def pl(self) -> Any:
        """All rows, as a frame of Polars. It has no intervals: as in pandas, a month is 30 days."""
        _check_installed("polars")
        with self._query.opened() as running:
            if "INTERVAL" not in map(str, running.relation.types):
                return running.fetch(lambda relation: relation.pl())
            import polars

            return polars.from_arrow(_with_durations(running.fetch(lambda relation: relation.to_arrow_table())))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows, as tuples."""
        with self._query.opened() as running:
            return running.fetch(lambda relation: relation.fetchall())

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, as a tuple; None if there is none."""
        with self._query.opened() as running:
            rows = running.fetch(lambda relation: relation.limit(1).fetchall())
            return rows[0] if rows else None

    @property
    def match_numbers(self) -> frozenset[str]:
        """The names of measures of row patterns that number matches."""
        return frozenset(name for each in self._query.operations.values() for name in each.match_numbers)

    @property
    def stretches(self) -> list[Stretch]:
        """Situations that the columns tell start and end of."""
        known = self.columns
        found = [own for each in self._query.operations.values() for own in each.stretches]
        return [each for each in found if all(name in known for name in (each.start, each.end, each.kind) if name)]

    @property
    def progress(self) -> tuple[int, int]:
        """Blocks of events that were read since it was last fetched, and about how many there are to read; from any
        thread."""
        return self._query.progress

    def explain(self, *, analyze: bool = False) -> str:
        """By which way each stream is answered, and why not by a faster one; with ``analyze``, what running it took."""
        from tidelog.sql.explaining import explain

        return explain(self._query, analyze=analyze)

    def plot(self, path: Path | str | None = None) -> Any:
        """Draw the numbers over the first column, into a file if one is named; the figure of Matplotlib.

        Stretches of matches are shaded if there is a column with the ``MATCH_NUMBER()`` of a row pattern. Situations
        whose start and end are among the columns are drawn on a time line instead, a line for each match.

        Needs the extra ``plot``.
        """
        from tidelog.sql.plotting import plot

        return plot(self, path)

    def show(self) -> None:
        """Print the first rows as a table."""
        sys.stdout.write(f"{self}\n")

    def __str__(self) -> str:
        with self._query.opened() as running:
            return running.fetch(str)  # of thousands of rows it shows those at both ends, and says how many there are

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table in notebooks."""
        from html import escape

        with self._query.opened() as running:
            rows = running.fetch(lambda relation: relation.limit(_SHOWN_ROWS + 1).fetchall())
        more = f"<p>the first {_SHOWN_ROWS} rows; there are more</p>" if len(rows) > _SHOWN_ROWS else ""
        heads = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        shown = rows[:_SHOWN_ROWS]
        body = "".join("<tr>" + "".join(f"<td>{escape(str(each))}</td>" for each in row) + "</tr>" for row in shown)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows as a stream of Arrow's C interface."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns, for those who ask by Arrow's C interface."""
        return self.schema.__arrow_c_schema__()


def _check_installed(package: str) -> None:
    """Raise if what makes frames is missing; DuckDB would say that the statement is wrong."""
    if find_spec(package) is None:
        raise InputError(f"found no {package} to make a frame of; install it with `pip install {package}`")


def _with_durations(table: pa.Table) -> pa.Table:
    """A table whose intervals are lengths of time in microseconds."""
    parts = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
    for index, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            column = table.column(index).combine_chunks()
            found = np.frombuffer(column.buffers()[1], parts)[column.offset : column.offset + len(column)]
            days = found["months"].astype(np.int64) * 30 + found["days"]
            lengths = pa.array(days * 86_400_000_000 + found["nanoseconds"] // 1000, pa.duration("us"))
            lengths = pc.if_else(column.is_valid(), lengths, pa.scalar(None, lengths.type))
            table = table.set_column(index, field.name, lengths)
    return table
