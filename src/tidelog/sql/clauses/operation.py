"""An event clause of a statement, as a relation of DuckDB: what an operator makes of the rows of a selection."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Operator
from tidelog.operators.rowpattern.syntax import MatchNumber, RowPattern
from tidelog.sql.reading.dataset import ScannedDataset


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows that an operator takes, as parts of a SELECT about what the statement mentions; in no order."""

    items: Sequence[str]
    """The columns of the input, in their order."""
    source: str
    """What stands behind FROM, with conditions."""
    stream: str | None = None
    """The mention of a stream whose rows these are, one by one, and whose ``_seq`` may be selected as well."""
    times: Intervals | None = None
    """If there is a stream: the times in which all of its rows are that matter; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does, for those who do it elsewhere."""

    make: Callable[[], Operator] | RowPattern
    """Gives a new operator, always an equal one, whose columns are those of the operation, by their places. Or a row
    pattern, whose only input has its columns; rows of that may be in any order."""
    inputs: Callable[[], Sequence[Selected]]
    """Gives what each input takes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Columns that tell from when to when something lasts, for those who draw it."""

    name: str
    """What lasts."""
    start: str
    end: str
    kind: str = ""
    """A column that tells what lasts, if that differs from row to row."""


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
    """Why not in a faster way, or why in this one."""
    expected: float | None = None
    """The seconds that it is estimated to take of processors."""
    spent: float = field(default=0.0)
    """The seconds that this process has taken of processors while rows were made, in all runs."""
    rows: int = field(default=0)
    """How many rows have come out."""
    failure: BaseException | None = field(default=None)
    """What it has raised: DuckDB tells its text alone."""
    work: Work | None = field(default=None)
    """What it does to rows; None if nobody but this process can do it."""
    is_indexed: bool = False
    """Whether it is answered from the index alone."""
    stretches: Sequence[Stretch] = ()
    """What lasts in each row that comes out."""

    @property
    def match_numbers(self) -> list[str]:
        """Columns that number matches of a row pattern."""
        pattern = None if self.work is None else self.work.make
        if not isinstance(pattern, RowPattern):
            return []
        return [each.name for each in pattern.measures if each.value.terms == (MatchNumber(),)]

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
            for batch in self._timed():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        except GeneratorExit:  # nobody wants the rest
            raise
        except BaseException as error:
            self.failure = error
            raise

    def _timed(self) -> Iterator[pa.RecordBatch]:
        batches = self.run()
        while True:
            began = time.process_time()
            batch = next(batches, None)
            self.spent += time.process_time() - began
            if batch is None:
                return
            self.rows += batch.num_rows
            yield batch


def milliseconds(seconds: float) -> str:
    """Seconds as people read them."""
    return f"{seconds * 1000:,.2f} ms"
