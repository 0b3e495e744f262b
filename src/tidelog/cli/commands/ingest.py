"""The command ``ingest``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.formats import Format
from tidelog.cli.options import Quiet, StorePath, StreamName, names_of
from tidelog.cli.telling.saying import say
from tidelog.model.errors import TidelogError


def ingest(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files to read; - is standard input.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of event times; needed to create the stream."),
    ] = None,
    create: Annotated[bool, typer.Option(help="Create the stream if there is none.")] = True,
    format: Annotated[Format, typer.Option("--format", "-f", help="By default told by name or content.")] = Format.AUTO,
    type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="COLUMN=TYPE", help="The type of a column of a new stream; may be repeated."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Take these columns only, and that of event times; separated by commas, may be repeated.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of a new stream, e.g. split=1d; may be repeated."
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", help="CSV: a text that stands for null, besides nothing; repeatable."),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="SIGN", help="CSV: what separates values; a comma, or a tab for .tsv.")
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of one append.")] = 65536,
    producer: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Makes the command repeatable: a second run goes on behind the rows of the first."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Append files to a stream: CSV, JSON (lines or one array), Parquet or Arrow, also CSV and JSON in .gz.

    Types of CSV and JSON come from the first few megabytes. Rows go in
    batches, so memory stays small. A row that does not fit ends the command
    with its file, row and column; all rows before it are stored.
    """
    from tidelog.cli.ingestion import IngestOptions, ingest_files
    from tidelog.cli.reading.detect import STDIN
    from tidelog.cli.reading.typed import parsed_types
    from tidelog.cli.stream_options import parsed_options

    if files.count(STDIN) > 1:
        raise typer.BadParameter("standard input can be read once", param_hint="FILE")
    if delimiter is not None and len(delimiter.encode()) != 1:
        raise typer.BadParameter(f"found {delimiter!r}, expected one character", param_hint="--delimiter")
    try:
        types = parsed_types(type or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--type") from error
    try:
        stream_options = parsed_options(option or [])
    except TidelogError as error:
        raise typer.BadParameter(str(error), param_hint="--option") from error
    options = IngestOptions(
        stream=stream,
        time=time,
        create=create,
        format=format,
        types=types,
        columns=names_of(columns),
        stream_options=stream_options,
        nulls=null or (),
        delimiter=delimiter,
        batch_rows=batch_rows,
        producer=producer,
        progress=not quiet,
    )
    result = ingest_files(store, files, options)
    if not quiet:
        say(str(result))
