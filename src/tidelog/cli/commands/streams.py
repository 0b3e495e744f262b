"""The commands about streams as a whole: ``streams``, ``stats``, ``configure``, ``alter``, ``drop``, ``rename``."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

import tidelog
from tidelog.cli.options import AsJson, OneStream, StorePath, StreamArgument, Yes
from tidelog.cli.stores import demand_somebody, existing
from tidelog.cli.telling.saying import say

NO_STREAMS: Final = "the store has no streams yet; `tidelog ingest` makes them of files"


def streams(
    store: StorePath,
    long: Annotated[bool, typer.Option("--long", "-l", help="With columns and their types.")] = False,
    json: AsJson = False,
) -> None:
    """List the streams of a store."""
    from tidelog.cli.writing.facts import print_json
    from tidelog.cli.writing.table import Column, print_table
    from tidelog.model.types import type_name

    with tidelog.open(store, read_only=True) as opened:
        names = opened.streams()
        schemas = {name: opened.stream(name).schema for name in names} if long or json else {}
    if json:
        print_json({name: schema.to_dict() for name, schema in schemas.items()})
    elif long:
        fields = [(name, field, schema) for name, schema in schemas.items() for field in schema]
        said = ["time" if field.name == schema.time else _nullability(field) for _, field, schema in fields]
        print_table(
            [
                Column("stream", [name for name, _, _ in fields]),
                Column("column", [field.name for _, field, _ in fields]),
                Column("type", [type_name(field.type) for _, field, _ in fields]),
                Column("", said),
            ]
        )
    else:
        for name in names:
            say(name)
    if not names and not json:
        say(NO_STREAMS, err=True)


def stats(
    store: StorePath,
    stream: OneStream = None,
    columns: Annotated[
        bool, typer.Option("--columns", "-c", help="With nulls, bounds and temporal correlation of columns, by split.")
    ] = False,
    json: AsJson = False,
) -> None:
    """What streams consist of: rows, bytes, times, splits and the shape of their trees."""
    from tidelog.cli.writing.facts import print_facts, print_json

    with tidelog.open(store, read_only=True) as opened:
        found = {name: opened.stream(name).stats() for name in (opened.streams() if stream is None else [stream])}
    if json:
        print_json(found if stream is None else found[stream])
        return
    if not found:
        say(NO_STREAMS, err=True)
    for index, values in enumerate(found.values()):
        if not columns:
            values.pop("statistics", None)
        if index:
            say()
        print_facts(values)


def configure(
    stream: StreamArgument,
    store: StorePath,
    retention: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How much older than the newest event others are kept.")
    ] = None,
    coarse_after: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How much older they are coarsened to aggregates.")
    ] = None,
    coarse_grain: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long an entry of these may be.")
    ] = None,
    grace: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long files stay that nobody needs any more.")
    ] = None,
) -> None:
    """Change how long what is kept of a stream, such as --retention 30d; none: for ever."""
    from tidelog.cli.stream_options import option_text
    from tidelog.engine.altering import CHANGEABLE

    given = {"retention": retention, "coarse_after": coarse_after, "coarse_grain": coarse_grain, "grace": grace}
    options = {name: None if text == "none" else text for name, text in given.items() if text is not None}
    if not options:
        raise typer.BadParameter("nothing is to be changed; say what, such as --retention 30d or --retention none")
    with existing(store) as opened:
        found = opened.stream(stream)
        found.configure(**options)
        values = {name: getattr(found.options, name) for name in CHANGEABLE}
    say(f"{stream!r} has {', '.join(f'{name} {option_text(value)}' for name, value in values.items())}")


def alter(
    stream: StreamArgument,
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
    from tidelog.cli.reading.typed import parsed_types
    from tidelog.model.types import type_name

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
    with existing(store) as opened:
        schema = opened.stream(stream).evolve(
            add=given["--add"], widen=given["--widen"], rename=names, loosen=loosen or []
        )
    columns = (f"{field.name} {type_name(field.type)}" for field in schema)
    say(f"{stream!r} has the columns {', '.join(columns)}")


def drop(
    stream: StreamArgument,
    store: StorePath,
    yes: Yes = False,
) -> None:
    """Delete a stream with all its events."""
    from tidelog.cli.stream_options import option_text

    demand_somebody(yes, "delete the stream")
    with existing(store) as opened:
        grace = opened.stream(stream).options.grace  # also: a name that does not exist should not be asked about
        if not yes:
            typer.confirm(f"delete stream {stream!r} of {store} with all its events?", abort=True)
        opened.drop_stream(stream)
    say(f"dropped {stream!r}; the first `tidelog maintain` in {option_text(grace)} or later removes its files")


def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Its name.", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its name from now on.", show_default=False)],
    store: StorePath,
) -> None:
    """Give a stream another name."""
    with existing(store) as opened:
        opened.rename_stream(old, new)
    say(f"renamed {old!r} to {new!r}")


def _nullability(field: Any) -> str:
    return "" if field.nullable else "not null"
