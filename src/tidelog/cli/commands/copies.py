"""The commands that copy stores: ``backup``, ``restore`` and ``salvage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tidelog
from tidelog.cli.options import Quiet, StorePath
from tidelog.cli.telling.saying import say
from tidelog.cli.telling.units import rows, size

if TYPE_CHECKING:
    from tidelog.store.backup import BackupReport


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
    quiet: Quiet = False,
) -> None:
    """Copy a store, consistently, while others read and write it. The copy is a store itself."""
    from tidelog.cli.telling.progress import CopyProgress

    with tidelog.open(store, read_only=True) as opened, CopyProgress(enabled=not quiet) as progress:
        report = opened.backup(target, streams=stream or None, link=link, verify=verify, progress=progress.update)
    if not quiet:
        say(f"backed up {_summary(report)}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The directory of a backup.", show_default=False)],
    store: StorePath,
    quiet: Quiet = False,
) -> None:
    """Make a store of a backup, in a new or empty directory, verified before and after."""
    from tidelog.cli.telling.progress import CopyProgress

    with CopyProgress(enabled=not quiet) as progress:
        report = tidelog.restore(source, store, progress=progress.update)
    if not quiet:
        say(f"restored {_summary(report)}")


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
    report = tidelog.salvage(source, target)
    for loss in report.losses:
        say(f"lost: {loss}", err=True)
    for stream in report.streams:
        if not quiet:
            say(f"{stream.name}: {rows(stream.rows)} salvaged" if stream.is_there else f"{stream.name}: lost")
        for loss in stream.losses:
            say(f"lost of {stream.name}: {loss}", err=True)
    if not report.is_complete:
        raise typer.Exit(1)


def _summary(report: BackupReport) -> str:
    count = len(report.streams)
    shared = ", closed splits shared" if report.linked else ""
    return f"{count} {'stream' if count == 1 else 'streams'}: {rows(report.rows)}, {size(report.bytes)}{shared}"
