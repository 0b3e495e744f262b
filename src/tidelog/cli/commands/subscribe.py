"""The command ``subscribe``: continuous queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.commands.sql import parameter, statements
from tidelog.cli.following import checked_form, follow, work
from tidelog.cli.formats import Output
from tidelog.cli.options import StorePath
from tidelog.cli.stores import existing
from tidelog.cli.telling.saying import say
from tidelog.cli.telling.units import rows


def subscribe(
    store: StorePath,
    text: Annotated[
        str | None, typer.Argument(metavar="[STATEMENT]", help="SQL; - or none reads it from standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the statement from a file.")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="The value of $NAME, a text; may be repeated."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="earliest, latest or a time. Default: earliest.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go on where the subscription of that name was.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="STREAM", help="Append the rows to a stream instead of printing them.")
    ] = None,
    lateness: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How late rows may be, e.g. 10s. Default: as of the stream.")
    ] = None,
    idle_timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="After which a silent stream holds the others back no longer."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there has been read.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="End after so many rows; not with --name.")
    ] = None,
    form: Annotated[
        Output | None, typer.Option("--format", "-F", help="csv, json or arrow. Default: csv.", show_default=False)
    ] = None,
) -> None:
    """Print the rows of a continuous query, those that are there and those that come, until Ctrl-C."""
    chosen = checked_form(form)
    if limit is not None and (name is not None or into is not None):
        raise typer.BadParameter("what --name and --into take they take whole", param_hint="--limit")
    asked = statements(text, file)
    params = dict(map(parameter, parameters or [])) or None
    is_kept = name is not None or into is not None
    with existing(store, read_only=not is_kept) as opened:
        subscription = opened.subscribe(
            asked,
            params,
            start=start,
            name=name,
            into=into,
            lateness=lateness,
            idle_timeout=idle_timeout,
            follow=not once,
        )
        if into is None:
            follow(subscription, chosen, limit=limit)
            return
        work(subscription)
        say(f"appended {rows(subscription.rows_given)} to {into}", err=True)
