"""The commands and their options. What they do stands elsewhere and is loaded when a command runs.

``tidelog --help`` should come at once, so nothing here may load Numba or anything else that takes long.
"""

from __future__ import annotations

import importlib.metadata
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failures import reported
from tidelog.cli.formats import InputFormat, OutputFormat
from tidelog.cli.options import (
    AsJson,
    AsOf,
    Columns,
    End,
    PipelineFile,
    Start,
    StorePath,
    StreamName,
    Where,
    names_of,
)
from tidelog.cli.saying import say

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


@app.command()
@reported
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
    format: Annotated[
        InputFormat, typer.Option("--format", "-f", help="By default told by name or content.")
    ] = InputFormat.AUTO,
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Append files to a stream: CSV, JSON (lines or one array), Parquet or Arrow, also CSV and JSON in .gz.

    Types of CSV and JSON come from the first few megabytes. Rows go in
    batches, so memory stays small. A row that does not fit ends the command
    with its file, row and column; all rows before it are stored.
    """
    from tidelog.cli.ingest import IngestOptions
    from tidelog.cli.ingest import ingest as ingest_files
    from tidelog.cli.reading.detect import STDIN, Format
    from tidelog.cli.reading.typed import parsed_types
    from tidelog.cli.streamoptions import parsed_options
    from tidelog.model.errors import TidelogError

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
        format=None if format is InputFormat.AUTO else Format(format.value),
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


@app.command()
@reported
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
    seq: Annotated[bool, typer.Option("--seq", help="Add the column _seq, the order of arrival.")] = False,
    output: Annotated[
        OutputFormat | None, typer.Option("--output", "-o", help="By default told by the name of --out, else a table.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to a file instead of standard output.")
    ] = None,
) -> None:
    """Print the events of a time range in order of time."""
    from tidelog.cli.query import Selection
    from tidelog.cli.query import scan as scan_stream
    from tidelog.cli.writing.formats import Output, output_for

    named = None if out is None else output_for(out)
    chosen = Output(output.value) if output is not None else named or Output.TABLE
    if out is not None and chosen is Output.TABLE:
        raise typer.BadParameter("a table is for the terminal; name another format with --output", param_hint="--out")
    selection = Selection(
        store=store,
        stream=stream,
        start=start,
        end=end,
        columns=names_of(columns),
        where=where,
        as_of=as_of,
        seq=seq,
        limit=limit,
        newest_first=newest_first,
    )
    scan_stream(selection, chosen, out)


@app.command()
@reported
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
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="table, csv or json.")] = OutputFormat.TABLE,
    explain: Annotated[bool, typer.Option("--explain", help="Say instead what is read to find the answer.")] = False,
) -> None:
    """Aggregates of the events of a time range, from the index where possible."""
    from tidelog.cli.query import Selection
    from tidelog.cli.query import aggregate as aggregate_stream
    from tidelog.cli.writing.formats import Output

    selection = Selection(store=store, stream=stream, start=start, end=end, where=where, as_of=as_of)
    aggregate_stream(selection, aggregates, Output(output.value), explain)


@app.command()
@reported
def export(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="By its name: .parquet, .csv, .jsonl, .arrow.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    seq: Annotated[bool, typer.Option("--seq", help="Add the column _seq, the order of arrival.")] = False,
) -> None:
    """Write the events of a time range to a file, which appears when it is complete."""
    from tidelog.cli.query import Selection, write
    from tidelog.cli.units import rows, size
    from tidelog.cli.writing.formats import known_suffixes, output_for

    chosen = output_for(out)
    if chosen is None:
        raise typer.BadParameter(
            f"found {str(out)!r}; expected a name that ends in one of {', '.join(known_suffixes())}", param_hint="FILE"
        )
    selection = Selection(
        store=store,
        stream=stream,
        start=start,
        end=end,
        columns=names_of(columns),
        where=where,
        as_of=as_of,
        seq=seq,
    )
    written = write(selection, chosen, out)
    say(f"wrote {rows(written)}, {size(out.stat().st_size)}, to {out}")


@app.command()
@reported
def streams(
    store: StorePath,
    long: Annotated[bool, typer.Option("--long", "-l", help="With columns and their types.")] = False,
    json: AsJson = False,
) -> None:
    """List the streams of a store."""
    from tidelog.cli import manage

    manage.streams(store, details=long, as_json=json)


@app.command()
@reported
def stats(
    store: StorePath,
    stream: Annotated[
        str | None, typer.Option("--stream", "-n", metavar="NAME", help="One stream only.", show_default=False)
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", "-c", help="With nulls, bounds and temporal correlation of columns, by split.")
    ] = False,
    json: AsJson = False,
) -> None:
    """What streams consist of: rows, bytes, times, splits and the shape of their trees."""
    from tidelog.cli import manage

    manage.stats(store, stream, columns=columns, as_json=json)


@app.command()
@reported
def check(
    store: StorePath,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List files that belong to nothing, as interrupted writers leave them.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="With --orphans: remove those that are old enough to be nobody's work.")
    ] = False,
    age: Annotated[
        str, typer.Option(metavar="DURATION", help="With --remove: how old that is, e.g. 1d or 90m.")
    ] = "1d",
) -> None:
    """Walk every structure of a store and list what is wrong; the exit code is 1 if something is."""
    from tidelog.cli import manage

    if remove and not orphans:
        raise typer.BadParameter("it is for orphans; say --orphans --remove", param_hint="--remove")
    if not manage.check(store, orphans=orphans, remove=remove, age=age):
        raise typer.Exit(1)


@app.command()
@reported
def compact(
    store: StorePath,
    stream: Annotated[
        str | None, typer.Option("--stream", "-n", metavar="NAME", help="One stream only.", show_default=False)
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Read so many bytes of each stream at most.", show_default=False),
    ] = None,
) -> None:
    """Merge small and overlapping files, so that reading is as fast as it gets; others may read and write meanwhile."""
    from tidelog.cli import upkeep

    upkeep.compact(store, stream, max_bytes)


@app.command()
@reported
def maintain(store: StorePath) -> None:
    """Do what is due: enforce retention, merge files where it pays, remove old ones. For stores without a writer."""
    from tidelog.cli import upkeep

    upkeep.maintain(store)


@app.command()
@reported
def coarsen(
    before: Annotated[
        str, typer.Argument(metavar="TIME", help="Files all of whose events are before it.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    grain: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long an aggregate may be, e.g. 1h.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Keep only aggregates of old events: count, sum, min, max and avg stay exact between their bounds."""
    from tidelog.cli import upkeep

    if not (yes or sys.stdin.isatty()):
        raise typer.BadParameter("nobody is there to be asked; say --yes to reduce events", param_hint="--yes")
    upkeep.coarsen(store, stream, before, grain, is_sure=yes)


@app.command()
@reported
def delete(
    before: Annotated[
        str, typer.Argument(metavar="TIME", help="Events before it are deleted, it is not.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the events before a time, at once and for good, and those that still arrive with such a time."""
    from tidelog.cli import upkeep

    if not (yes or sys.stdin.isatty()):
        raise typer.BadParameter("nobody is there to be asked; say --yes to delete events", param_hint="--yes")
    upkeep.delete(store, stream, before, is_sure=yes)


@app.command()
@reported
def configure(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    store: StorePath,
    retention: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How much older than the newest event others are kept.")
    ] = None,
    coarse_after: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How much older they are reduced to aggregates.")
    ] = None,
    coarse_grain: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long an entry of these may be.")
    ] = None,
    grace: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long files stay that nobody needs any more.")
    ] = None,
) -> None:
    """Change how long what is kept of a stream, such as --retention 30d; none: for ever."""
    from tidelog.cli import manage

    given = {"retention": retention, "coarse_after": coarse_after, "coarse_grain": coarse_grain, "grace": grace}
    options = {name: None if text == "none" else text for name, text in given.items() if text is not None}
    if not options:
        raise typer.BadParameter("nothing is to be changed; say what, such as --retention 30d or --retention none")
    manage.configure(store, stream, options)


@app.command()
@reported
def alter(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    store: StorePath,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="COLUMN=TYPE", help="A new column; may be repeated.")
    ] = None,
    widen: Annotated[
        list[str] | None, typer.Option("--widen", metavar="COLUMN=TYPE", help="A wider type for a column; repeatable.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A new name for a column; repeatable.")
    ] = None,
    loosen: Annotated[
        list[str] | None, typer.Option("--loosen", metavar="COLUMN", help="Nulls from now on; may be repeated.")
    ] = None,
) -> None:
    """Change the columns of a stream; events from before are read through the new schema.

    Names are those from before. The stream must not be written by another
    process at the same time.
    """
    from tidelog.cli import manage
    from tidelog.cli.reading.typed import parsed_types

    given = {}
    for name, texts in (("--add", add), ("--widen", widen)):
        try:
            given[name] = parsed_types(texts or [])
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=name) from error
    names = dict(text.partition("=")[::2] for text in rename or [])
    if not all(old and new for old, new in names.items()):
        raise typer.BadParameter(f"found {rename}; expected OLD=NEW, such as price=amount", param_hint="--rename")
    if len(names) < len(rename or []):
        raise typer.BadParameter(f"found {rename}; give each column one new name", param_hint="--rename")
    if not (add or widen or rename or loosen):
        raise typer.BadParameter("nothing is to be changed; say what with --add, --widen, --rename or --loosen")
    manage.alter(store, stream, add=given["--add"], widen=given["--widen"], rename=names, loosen=loosen or [])


@app.command()
@reported
def warm() -> None:
    """Compile all kernels now, on all processors, instead of each when it is first used.

    They are kept in the user's cache directory, or in TIDELOG_CACHE_DIR, for
    this machine, this release and its versions of Python and Numba.
    """
    from tidelog.cli import upkeep

    upkeep.warm()


@app.command()
@reported
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty directory for the copy.", show_default=False)
    ],
    store: StorePath,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", "-n", metavar="NAME", help="Only this stream; may be repeated.", show_default=False),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Share the files of closed splits, on one file system, instead of copying.")
    ] = False,
    verify: Annotated[bool, typer.Option(help="Read the copy back and look at every checksum.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Copy a store, consistently, while others read and write it. The copy is a store itself."""
    from tidelog.cli import copies

    copies.backup(store, target, stream or None, link=link, verify=verify, quiet=quiet)


@app.command()
@reported
def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The directory of a backup.", show_default=False)],
    store: StorePath,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Make a store of a backup, in a new or empty directory, verified before and after."""
    from tidelog.cli import copies

    copies.restore(source, store, quiet=quiet)


@app.command()
@reported
def salvage(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The damaged store.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A new or empty directory for what is whole.", show_default=False)
    ],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tell only what is lost.")] = False,
) -> None:
    """Make a store of what is whole in a damaged one, which is left as it is; tell what is lost.

    Exits with 1 if something is.
    """
    from tidelog.cli import copies

    if not copies.salvage(source, target, quiet=quiet):
        raise typer.Exit(1)


@app.command()
@reported
def drop(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    store: StorePath,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a stream with all its events."""
    from tidelog.cli import manage

    if not (yes or sys.stdin.isatty()):
        raise typer.BadParameter("nobody is there to be asked; say --yes to delete the stream", param_hint="--yes")
    manage.drop(store, stream, is_sure=yes)


@app.command()
@reported
def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Its name.", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its name from now on.", show_default=False)],
    store: StorePath,
) -> None:
    """Give a stream another name."""
    from tidelog.cli import manage

    manage.rename(store, old, new)


@pipeline_app.command("run")
@reported
def pipeline_run(
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Read what there is, in as many batches as it takes, and end.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Where Spark runs, instead of what the file says, e.g. local[2].", show_default=False
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Tell Prometheus, on the loopback interface; 0: any port.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Check a pipeline, then run it until it is done or Ctrl-C; started again, it goes on where it was.

    Exit codes: 0 when everything was read (--once), 1 after an error, 130
    after Ctrl-C and 143 after SIGTERM, both of which let the batch at work
    end first; a second one does not wait for it.
    """
    from tidelog.cli import pipelines

    pipelines.run(file, once=once, master=master, metrics=metrics, quiet=quiet)


@pipeline_app.command("check")
@reported
def pipeline_check(file: PipelineFile) -> None:
    """Say what a pipeline will do, or everything that is wrong with it and where, without starting anything."""
    from tidelog.cli import pipelines

    pipelines.check(file)


@pipeline_app.command("init")
@reported
def pipeline_init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("pipeline.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented pipeline to start from."""
    from tidelog.cli import pipelines

    pipelines.init(file, force=force)
