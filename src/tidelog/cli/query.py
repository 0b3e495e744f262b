"""Events and aggregates of a stream: what ``scan``, ``export`` and ``aggregate`` do."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

import tidelog
from tidelog.cli.saying import say
from tidelog.cli.times import point_in_time
from tidelog.cli.units import count
from tidelog.cli.writing.formats import BINARY, Output, writer
from tidelog.cli.writing.table import Column, columns_of, print_table
from tidelog.cli.writing.target import opened

if TYPE_CHECKING:
    from tidelog.engine.stream import Stream

TABLE_ROWS = 50
"""How many rows a table has unless a limit is given: as many as people look at."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which events of which stream."""

    store: Path
    stream: str
    start: str | None = None
    end: str | None = None
    columns: Sequence[str] | None = None
    where: str | None = None
    as_of: int | None = None
    seq: bool = False
    limit: int | None = None
    newest_first: bool = False

    def bounds(self, stream: Stream) -> tuple[int | str | None, int | str | None]:
        """Start and end of the range, as the stream's clock takes them."""
        clock = stream.schema.clock
        return point_in_time(self.start, clock), point_in_time(self.end, clock)

    def read(self, stream: Stream, limit: int | None) -> pa.RecordBatchReader:
        """The selected events, so many at the most; None is all."""
        start, end = self.bounds(stream)
        return stream.scan(
            start,
            end,
            self.columns,
            self.where,
            as_of=self.as_of,
            seq=self.seq,
            limit=limit,
            newest_first=self.newest_first,
        )


def scan(selection: Selection, output: Output, out: Path | None) -> None:
    """Print or write the selected events."""
    if output is Output.TABLE:
        _scan_table(selection)
        return
    if output in BINARY and out is None and sys.stdout.isatty():
        raise typer.BadParameter(
            f"{output} is no text; name a file with --out, or send standard output elsewhere", param_hint="--output"
        )
    write(selection, output, out)


def write(selection: Selection, output: Output, out: Path | None) -> int:
    """Write the selected events to a file, or to standard output; returns how many."""
    rows = 0
    with tidelog.open(selection.store, read_only=True) as store:
        reader = selection.read(store.stream(selection.stream), selection.limit)
        is_stream = out is None or out.suffix.lower() == ".arrows"
        with opened(out) as file, writer(output, file, reader.schema, is_stream=is_stream) as sink:
            for batch in reader:
                sink.write(batch)
                rows += batch.num_rows
    return rows


def _scan_table(selection: Selection) -> None:
    limit = TABLE_ROWS if selection.limit is None else selection.limit
    with tidelog.open(selection.store, read_only=True) as store:
        table = selection.read(store.stream(selection.stream), limit + 1).read_all()  # one more, to know of more
    columns = columns_of(_one_batch(table.slice(0, limit)))
    shown = print_table(columns)
    if shown < len(columns):
        say(f"{shown} of {len(columns)} columns; --columns chooses", err=True)
    if selection.limit is None and table.num_rows > limit:
        which = "newest" if selection.newest_first else "first"
        say(f"the {which} {count(limit)} rows; --limit or another --output shows more", err=True)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    arrays = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def aggregate(selection: Selection, aggregates: Sequence[str], output: Output, explain: bool) -> None:
    """Print aggregates of the selected events, or how they are found."""
    if output not in (Output.TABLE, Output.CSV, Output.JSON):
        raise typer.BadParameter(f"{output} is for events; expected table, csv or json", param_hint="--output")
    with tidelog.open(selection.store, read_only=True) as store:
        stream = store.stream(selection.stream)
        question = (*selection.bounds(stream), list(aggregates), selection.where)
        if explain:
            say(stream.explain(*question, as_of=selection.as_of))
            return
        values = stream.aggregate(*question, as_of=selection.as_of)
    if output is Output.JSON:
        typer.echo(json.dumps({name: _json_value(value) for name, value in values.items()}, ensure_ascii=False))
    elif output is Output.CSV:
        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerow(values)
        rows.writerow(["" if value is None else _text(value) for value in values.values()])
    else:
        texts = [None if value is None else _text(value) for value in values.values()]
        names = list(values)
        numeric = all(isinstance(value, int | float | Decimal | None) for value in values.values())
        print_table([Column("aggregate", names), Column("value", texts, is_number=numeric)])


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _json_value(value: Any) -> Any:
    """A value that JSON has: times as ISO 8601, decimals as texts so that no digit is lost, NaN as null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, bool | int | str) else _text(value)
