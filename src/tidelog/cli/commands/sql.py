"""The command ``sql``: statements of SQL over the streams of a store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.options import SqlMemory, StorePath
from tidelog.cli.running import interruptible
from tidelog.cli.stores import existing
from tidelog.cli.writing.results import Form, fetched, is_quiet

if TYPE_CHECKING:
    from tidelog.sql.result import Result


def sql(
    store: StorePath,
    text: Annotated[
        str | None, typer.Argument(metavar="[STATEMENT]", help="SQL; - or none reads it from standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the statements from a file; - is standard input."),
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
    sql_memory: SqlMemory = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the result too, as a picture such as a.png.")
    ] = None,
) -> None:
    """Run SQL over the streams of a store, in DuckDB's dialect."""
    asked = statements(text, file)
    chosen = form or (None if output is None else _named(output)) or Form.TABLE
    if chosen in (Form.ARROW, Form.PARQUET) and output is None and sys.stdout.isatty():
        raise typer.BadParameter(
            f"{chosen} is no text; name a file with --output, or send standard output elsewhere", param_hint="--format"
        )
    params = dict(map(parameter, parameters or [])) or None
    from tidelog.sql.statements import changes_something

    with existing(store, read_only=not changes_something(asked), sql_memory=sql_memory) as opened:

        def run(results: list[Result]) -> Callable[[], None]:
            result = opened.sql(asked, params, timezone=timezone)
            results.append(result)
            if plot is not None:
                result.plot(plot)
            return fetched(result, chosen, output, limit, "--limit or another --format")

        interruptible(lambda: opened, run, is_told=is_quiet(chosen, output))()


def statements(text: str | None, file: Path | None) -> str:
    """The text of statements: given, in a file, or on standard input."""
    if file is not None:
        if text is not None:
            raise typer.BadParameter("found a statement and --file; give one of them", param_hint="--file")
        if str(file) != "-":
            return file.read_text(encoding="utf-8")
        text = "-"
    if text is None or text == "-":
        if text is None and sys.stdin.isatty():
            raise typer.BadParameter("found no statement; give one, or a file with --file", param_hint="STATEMENT")
        return sys.stdin.read()
    return text


def parameter(text: str) -> tuple[str, str]:
    """Name and value of a parameter."""
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
