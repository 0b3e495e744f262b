"""The commands ``scan``, ``aggregate`` and ``export``: events and aggregates of a stream."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

import tidelog
from tidelog.cli.formats import Output
from tidelog.cli.options import AsOf, Columns, End, Start, StorePath, StreamName, Where, names_of
from tidelog.cli.telling.saying import say
from tidelog.cli.telling.units import count, rows, size
from tidelog.cli.times import point_in_time

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.engine.stream import Stream

TABLE_ROWS: Final = 50
"""How many rows a table has unless a limit is given: as many as people look at."""

Seq: TypeAlias = Annotated[bool, typer.Option("--seq", help="Add the column _seq, the order of arrival.")]


def scan(
    store: StorePath,
    stream: StreamName,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    where: Where = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="At most so many events; by default 50 in a table, else all.")
    ] = None,
    newest_first: Annotated[
        bool, typer.Option("--newest-first", help="From the newest event to the oldest; with --limit, only the newest.")
    ] = False,
    as_of: AsOf = None,
    seq: Seq = False,
    form: Annotated[
        Output | None, typer.Option("--format", "-F", help="By default told by the name of --output, else a table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of standard output.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with events that come, in order of arrival, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the events of a time range in order of time."""
    if follow:
        _refuse_with_follow(
            {"--end": end, "--as-of": as_of, "--newest-first": newest_first or None, "--output": output}
        )
        _follow(store, stream, start, names_of(columns), where, limit, seq, form)
        return
    from tidelog.cli.writing.formats import BINARY, output_for

    named = None if output is None else output_for(output)
    chosen = form or named or Output.TABLE
    if output is not None and chosen is Output.TABLE:
        raise typer.BadParameter(
            "a table is for the terminal; name another format with --format", param_hint="--output"
        )
    if chosen in BINARY and output is None and sys.stdout.isatty():
        raise typer.BadParameter(
            f"{chosen} is no text; name a file with --output, or send standard output elsewhere", param_hint="--format"
        )
    shown = TABLE_ROWS if limit is None else limit
    most = shown + 1 if chosen is Output.TABLE else limit  # one more, to know of more
    with tidelog.open(store, read_only=True) as opened:
        found = opened.stream(stream)
        bounds = _bounds(found, start, end)
        events = found.scan(
            *bounds, names_of(columns), where, as_of=as_of, seq=seq, limit=most, newest_first=newest_first
        )
        if chosen is not Output.TABLE:
            _write(events, chosen, output)
            return
        table = events.read_all()
    _print_events(table.slice(0, shown))
    if limit is None and table.num_rows > shown:
        which = "newest" if newest_first else "first"
        say(f"the {which} {count(shown)} rows; --limit or another --format shows more", err=True)


def _refuse_with_follow(options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter("events that come have no end, and go to standard output", param_hint=option)


def _follow(
    store: Path,
    stream: str,
    start: str | None,
    columns: list[str] | None,
    where: str | None,
    limit: int | None,
    seq: bool,
    form: Output | None,
) -> None:
    """Print events as they come."""
    from tidelog.cli.following import checked_form
    from tidelog.cli.following import follow as follow_rows

    chosen = checked_form(form)
    with tidelog.open(store, read_only=True) as opened:
        schema = opened.stream(stream).schema
        names = schema.names if columns is None else columns
        names = [*names, "_seq"] if seq and "_seq" not in names else names
        # Their time belongs to rows, whether it is printed or not.
        selected = ", ".join(map(_quoted, dict.fromkeys((*names, schema.time))))
        text = f"SELECT {selected} FROM {_quoted(stream)}" + ("" if where is None else f" WHERE ({where})")
        begin = start if start in ("earliest", "latest") else point_in_time(start, schema.clock)
        follow_rows(opened.subscribe(text, start=begin), chosen, columns=names, limit=limit)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def aggregate(
    aggregates: Annotated[
        list[str],
        typer.Argument(
            metavar="AGGREGATE...", help="Such as 'count(*)' 'avg(price)' 'max(price)'.", show_default=False
        ),
    ],
    store: StorePath,
    stream: StreamName,
    start: Start = None,
    end: End = None,
    where: Where = None,
    as_of: AsOf = None,
    form: Annotated[Output, typer.Option("--format", "-F", help="table, csv or json.")] = Output.TABLE,
    explain: Annotated[bool, typer.Option("--explain", help="Say instead what is read to find the answer.")] = False,
) -> None:
    """Aggregates of the events of a time range, from the index where possible."""
    from tidelog.cli.writing.table import Column, print_table

    if form not in (Output.TABLE, Output.CSV, Output.JSON):
        raise typer.BadParameter(f"{form} is for events; expected table, csv or json", param_hint="--format")
    with tidelog.open(store, read_only=True) as opened:
        found = opened.stream(stream)
        question = (*_bounds(found, start, end), aggregates, where)
        if explain:
            say(found.explain(*question, as_of=as_of))
            return
        values = found.aggregate(*question, as_of=as_of)
    if form is Output.JSON:
        typer.echo(json.dumps({name: _json_value(value) for name, value in values.items()}, ensure_ascii=False))
    elif form is Output.CSV:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(values)
        lines.writerow(["" if value is None else _text(value) for value in values.values()])
    else:
        texts = [None if value is None else _text(value) for value in values.values()]
        numeric = all(isinstance(value, int | float | Decimal | None) for value in values.values())
        print_table([Column("aggregate", list(values)), Column("value", texts, is_number=numeric)])


def export(
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="By its name: .parquet, .csv, .jsonl, .arrow.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    seq: Seq = False,
) -> None:
    """Write the events of a time range to a file, which appears when it is complete."""
    from tidelog.cli.writing.formats import known_suffixes, output_for

    chosen = output_for(output)
    if chosen is None:
        raise typer.BadParameter(
            f"found {str(output)!r}; expected a name that ends in one of {', '.join(known_suffixes())}",
            param_hint="FILE",
        )
    with tidelog.open(store, read_only=True) as opened:
        found = opened.stream(stream)
        bounds = _bounds(found, start, end)
        written = _write(found.scan(*bounds, names_of(columns), where, as_of=as_of, seq=seq), chosen, output)
    say(f"wrote {rows(written)}, {size(output.stat().st_size)}, to {output}")


def _bounds(stream: Stream, start: str | None, end: str | None) -> tuple[int | str | None, int | str | None]:
    """Start and end of a range, as the stream's clock takes them."""
    clock = stream.schema.clock
    return point_in_time(start, clock), point_in_time(end, clock)


def _write(events: pa.RecordBatchReader, form: Output, output: Path | None) -> int:
    """Write events to a file, or to standard output; returns how many."""
    from tidelog.cli.writing.formats import writer
    from tidelog.cli.writing.target import opened

    written = 0
    is_stream = output is None or output.suffix.lower() == ".arrows"
    with opened(output) as file, writer(form, file, events.schema, is_stream=is_stream) as sink:
        for batch in events:
            sink.write(batch)
            written += batch.num_rows
    return written


def _print_events(table: pa.Table) -> None:
    from tidelog.cli.writing.table import columns_of, print_table

    columns = columns_of(_one_batch(table))
    shown = print_table(columns)
    if shown < len(columns):
        say(f"{shown} of {len(columns)} columns; --columns chooses", err=True)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [column.combine_chunks() for column in table.columns]
    arrays = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _json_value(value: Any) -> Any:
    """A value that JSON has: times as ISO 8601, decimals as texts so that no digit is lost, NaN as null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, bool | int | str) else _text(value)
