"""Results of SQL, printed for people or written for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tidelog.cli.telling.saying import printable, say
from tidelog.cli.telling.units import count

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.sql.result import Result

TABLE_ROWS: Final = 50
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


def is_quiet(form: Form, output: Path | None) -> bool:
    """Whether nothing is printed on the terminal while a result is fetched, so that something may be said there."""
    return form in (Form.TABLE, Form.MARKDOWN) or output is not None or not sys.stdout.isatty()


def fetched(result: Result, form: Form, output: Path | None, limit: int | None, more: str) -> Callable[[], None]:
    """Do what takes long of showing a result, and return what prints it. ``more`` says what would show more rows.

    Tables for people are fetched here and printed then; everything else is written here.
    """
    if form not in (Form.TABLE, Form.MARKDOWN) or output is not None:
        _write(result, form, output, limit)
        return lambda: None
    most = TABLE_ROWS if limit is None else limit
    table = _table(result, most + 1)
    return lambda: _print(table, form, most, more if limit is None else None)


def _print(table: pa.Table, form: Form, most: int, more: str | None) -> None:
    shown = table.slice(0, most)
    if form is Form.MARKDOWN:
        sys.stdout.write(_markdown(shown))
    else:
        _print_table(shown)
    sys.stdout.flush()  # what comes next may go to the bytes below, or be a note on standard error
    if table.num_rows > most and more is not None:
        say(f"the first {count(most)} rows; {more} shows more", err=True)


def _table(result: Result, rows: int | None) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(_limited(result, rows), result.schema)


def _limited(result: Result, rows: int | None) -> Iterator[pa.RecordBatch]:
    reader = result.reader()
    if rows is None:
        yield from reader
        return
    for batch in reader:
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


def _write_array(batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    """One array of JSON, an object a line."""
    from tidelog.cli.writing.texts import json_lines

    file.write(b"[")
    before = b"\n"
    for batch in batches:
        for line in json_lines(batch).splitlines():
            file.write(before + line)
            before = b",\n"
    file.write(b"\n]\n")
