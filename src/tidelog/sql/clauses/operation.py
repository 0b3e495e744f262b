"""An event clause of a statement, as a relation of DuckDB: what an operator makes of the rows of a selection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.sql.reading.dataset import ScannedDataset


@dataclass(slots=True)
class Operation:
    """One clause. It is run whenever its rows are asked for."""

    title: str
    """What it is, for people."""
    schema: pa.Schema
    """The columns that come out, by their names in the statement."""
    run: Callable[[], Iterator[pa.RecordBatch]]
    """Gives what comes out; columns count by their places."""
    way: str
    """How that is found."""
    reasons: Sequence[str] = ()
    """Why not in a faster way."""
    failure: BaseException | None = field(default=None)
    """What it has raised: DuckDB tells its text alone."""

    def dataset(self) -> ds.Dataset:
        """The relation, as DuckDB takes it."""

        def scanner(columns: Sequence[str] | None, filter: pc.Expression | None) -> ds.Scanner:
            names = self.schema.names if columns is None else list(columns)
            wanted = pa.schema([self.schema.field(name) for name in names])
            kept = ((batch if filter is None else batch.filter(filter)).select(names) for batch in self._batches())
            return ds.Scanner.from_batches(kept, schema=wanted)

        return ScannedDataset(self.schema, scanner)

    def _batches(self) -> Generator[pa.RecordBatch]:
        try:
            for batch in self.run():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        except GeneratorExit:  # nobody wants the rest
            raise
        except BaseException as error:
            self.failure = error
            raise
