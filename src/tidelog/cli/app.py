"""All commands together.

``tidelog --help`` should come at once, so nothing that is loaded here may load Numba or anything else that takes long.
"""

from __future__ import annotations

import importlib.metadata
import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from tidelog.cli.commands import copies, events, pipeline, streams, upkeep
from tidelog.cli.commands.ingest import ingest
from tidelog.cli.commands.shell import shell
from tidelog.cli.commands.sql import sql
from tidelog.cli.commands.subscribe import subscribe
from tidelog.cli.failures import reported

app = typer.Typer(
    name="tidelog",
    help="An event store: files into streams, questions about them, and what they consist of.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

pipeline_app = typer.Typer(
    help="Pipelines on Spark: from files and streams, through SQL, into streams and files.", no_args_is_help=True
)
app.add_typer(pipeline_app, name="pipeline")

COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    ingest,
    sql,
    shell,
    subscribe,
    events.scan,
    events.aggregate,
    events.export,
    streams.streams,
    streams.stats,
    upkeep.check,
    upkeep.compact,
    upkeep.maintain,
    upkeep.coarsen,
    upkeep.delete,
    streams.configure,
    streams.alter,
    upkeep.warm,
    copies.backup,
    copies.restore,
    copies.salvage,
    streams.drop,
    streams.rename,
)
"""In the order in which help tells of them."""

for command in COMMANDS:
    app.command()(reported(command))
for command in (pipeline.run, pipeline.check, pipeline.init):
    pipeline_app.command()(reported(command))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where a terminal has no such character
    try:
        app(args=None if arguments is None else list(arguments), prog_name="tidelog")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidelog {importlib.metadata.version('tidelog')}")
        raise typer.Exit


@app.callback()
def _tidelog(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
