"""The command ``sql``: statements of SQL over the streams of a store."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import StorePath
from tidelog.cli.saying import printable, say
from tidelog.cli.stores import existing
from tidelog.cli.units import count

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.sql.result import Result

_TABLE_ROWS: Final = 50
"""How many rows a table has unless a limit is given: as many as people look at."""


class Form(StrEnum):
    """What results are written as."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"


def sql(
    store: StorePath,
    text: Annotated[
        str | None, typer.Argument(metavar="[STATEMENT]", help="SQL; - or none reads it from standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the statements from a file.")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="The value of $NAME, a text; may be repeated."),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--format", "-F", help="By default told by the name of --output, else a table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of standard output.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="At most so many rows; by default 50 in a table, else all.")
    ] = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of texts of times.")] = "UTC",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the result too, as a picture such as a.png.")
    ] = None,
) -> None:
    """Run SQL over the streams of a store, in DuckDB's dialect."""
    asked = _statements(text, file)
    chosen = form or (None if output is None else _named(output)) or Form.TABLE
    if chosen in (Form.ARROW, Form.PARQUET) and output is None and sys.stdout.isatty():
        raise typer.BadParameter(
            f"{chosen} is no text; name a file with --output, or send standard output elsewhere", param_hint="--format"
        )
    params = dict(map(_parameter, parameters or [])) or None
    with existing(store, read_only=not _changes(asked)) as opened:
        result = opened.sql(asked, params, timezone=timezone)
        if plot is not None:
            result.plot(plot)
        if chosen in (Form.TABLE, Form.MARKDOWN) and output is None:
            _print(result, chosen, _TABLE_ROWS if limit is None else limit, is_asked=limit is not None)
        else:
            _write(result, chosen, output, limit)


def _statements(text: str | None, file: Path | None) -> str:
    if file is not None:
        if text is not None:
            raise typer.BadParameter("found a statement and --file; give one of them", param_hint="--file")
        return file.read_text(encoding="utf-8")
    if text is None or text == "-":
        if text is None and sys.stdin.isatty():
            raise typer.BadParameter("found no statement; give one, or a file with --file", param_hint="STATEMENT")
        return sys.stdin.read()
    return text


def _parameter(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (found and name):
        raise typer.BadParameter(f"found {text!r}; expected NAME=VALUE", param_hint="--param")
    return name, value


def _named(path: Path) -> Form | None:
    by_suffix = {".md": Form.MARKDOWN, ".json": Form.JSON, ".jsonl": Form.JSONL, ".ndjson": Form.JSONL}
    by_suffix |= {".csv": Form.CSV, ".arrow": Form.ARROW, ".arrows": Form.ARROW, ".feather": Form.ARROW}
    by_suffix |= {".parquet": Form.PARQUET, ".pq": Form.PARQUET}
    found = by_suffix.get(path.suffix.lower())
    if found is None:
        raise typer.BadParameter(f"found {str(path)!r}; name a format with --format", param_hint="--output")
    return found


def _changes(text: str) -> bool:
    """Whether a statement is one that changes something."""
    from tidelog.sql.text.tokens import statements, tokens

    firsts = [tokens(statement)[0] for statement, _ in statements(text)]
    return any(each.says("CREATE", "INSERT", "DELETE", "ALTER", "DROP") for each in firsts)


def _print(result: Result, form: Form, most: int, *, is_asked: bool) -> None:
    batches = _table(result, most + 1)
    shown = batches.slice(0, most)
    if form is Form.MARKDOWN:
        sys.stdout.write(_markdown(shown))
    else:
        _print_table(shown)
    if batches.num_rows > most and not is_asked:
        say(f"the first {count(most)} rows; --limit or another --format shows more", err=True)


def _table(result: Result, rows: int | None) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(_limited(result, rows), result.schema)


def _limited(result: Result, rows: int | None) -> Any:
    reader = result.reader()
    if rows is None:
        yield from reader
        return
    for batch in islice(reader, None):
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows


def _print_table(table: pa.Table) -> None:
    from tidelog.cli.writing.table import columns_of, print_table

    columns = columns_of(_one_batch(table))
    shown = print_table(columns)
    if shown < len(columns):
        say(f"{shown} of {len(columns)} columns; name fewer of them to see these", err=True)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _markdown(table: pa.Table) -> str:
    from tidelog.cli.writing.table import columns_of

    def cell(text: str | None) -> str:
        return "" if text is None else printable(text).replace("|", "\\|").replace("\n", " ")

    columns = columns_of(_one_batch(table))
    lines = [
        "| " + " | ".join(cell(column.name) for column in columns) + " |",
        "|" + "|".join("---:" if column.is_number else "---" for column in columns) + "|",
    ]
    lines += [
        "| " + " | ".join(map(cell, row)) + " |" for row in zip(*(column.texts for column in columns), strict=True)
    ]
    return "\n".join(lines) + "\n"


def _write(result: Result, form: Form, output: Path | None, limit: int | None) -> None:
    from tidelog.cli.formats import Output
    from tidelog.cli.writing.formats import writer
    from tidelog.cli.writing.target import opened

    batches = _limited(result, limit)
    with opened(output) as file:
        if form in (Form.TABLE, Form.MARKDOWN):
            file.write(_markdown(_table(result, limit)).encode())
            return
        if form is Form.JSON:
            _write_array(batches, file)
            return
        kind = {Form.CSV: Output.CSV, Form.JSONL: Output.JSON, Form.ARROW: Output.ARROW, Form.PARQUET: Output.PARQUET}
        is_stream = output is None or output.suffix.lower() == ".arrows"
        with writer(kind[form], file, result.schema, is_stream=is_stream) as sink:
            for batch in batches:
                sink.write(batch)


def _write_array(batches: Any, file: Any) -> None:
    """One array of JSON, an object a line."""
    from tidelog.cli.writing.texts import json_lines

    file.write(b"[")
    before = b"\n"
    for batch in batches:
        for line in json_lines(batch).splitlines():
            file.write(before + line)
            before = b",\n"
    file.write(b"\n]\n")
