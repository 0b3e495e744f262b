"""An event clause of a statement, as a relation of DuckDB: what an operator makes of the rows of a selection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.operators.base import Operator
from tidelog.sql.reading.dataset import ScannedDataset


@dataclass(slots=True)
class Operation:
    """One clause. It is run whenever its rows are asked for."""

    title: str
    """What it is, for people."""
    make: Callable[[], Operator]
    """A new operator of one input."""
    rows: Callable[[], Iterator[pa.RecordBatch]]
    """The rows of the input, in order."""
    names: Sequence[str]
    """What the columns that come out are called in the statement."""
    failure: BaseException | None = field(default=None)
    """What it has raised: DuckDB tells its text alone."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        found = self.make().output.schema
        return pa.schema([found.field(at).with_name(name) for at, name in enumerate(self.names)])

    def dataset(self) -> ds.Dataset:
        """The relation, as DuckDB takes it."""
        schema = self.schema

        def scanner(columns: Sequence[str] | None, filter: pc.Expression | None) -> ds.Scanner:
            names = schema.names if columns is None else list(columns)
            wanted = pa.schema([schema.field(name) for name in names])
            kept = (
                (batch if filter is None else batch.filter(filter)).select(names) for batch in self._batches(schema)
            )
            return ds.Scanner.from_batches(kept, schema=wanted)

        return ScannedDataset(schema, scanner)

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        try:
            for batch in run(self.make(), self.rows()):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except GeneratorExit:  # nobody wants the rest
            raise
        except BaseException as error:
            self.failure = error
            raise


def run(operator: Operator, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes out of an operator of one input for all of its rows, which are in order."""
    shape = operator.inputs[0]
    for batch in rows:
        if not batch.num_rows:
            continue
        yield from operator.push(0, batch)
        # All rows so far are in order: what is before the last one is known.
        yield from operator.advance(int(shape.times(batch.slice(batch.num_rows - 1))[0]))
    yield from operator.finish()
