"""Copies of stores: what ``backup``, ``restore`` and ``salvage`` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tidelog
from tidelog.cli.progress import CopyProgress
from tidelog.cli.saying import say
from tidelog.cli.units import rows, size

if TYPE_CHECKING:
    from tidelog.store.backup import BackupReport


def backup(
    store_path: Path, target: Path, streams: Sequence[str] | None, *, link: bool, verify: bool, quiet: bool
) -> None:
    """Copy a store that exists."""
    with tidelog.open(store_path, read_only=True) as store, CopyProgress(enabled=not quiet) as progress:
        report = store.backup(target, streams=streams, link=link, verify=verify, progress=progress.update)
    if not quiet:
        say(f"backed up {_summary(report)}")


def restore(source: Path, store_path: Path, *, quiet: bool) -> None:
    """Make a store of a backup."""
    with CopyProgress(enabled=not quiet) as progress:
        report = tidelog.restore(source, store_path, progress=progress.update)
    if not quiet:
        say(f"restored {_summary(report)}")


def salvage(source: Path, target: Path, *, quiet: bool) -> bool:
    """Make a store of what is whole in a damaged one; whether that is everything."""
    report = tidelog.salvage(source, target)
    for loss in report.losses:
        say(f"lost: {loss}", err=True)
    for stream in report.streams:
        if not quiet:
            say(f"{stream.name}: {rows(stream.rows)} salvaged" if stream.is_there else f"{stream.name}: lost")
        for loss in stream.losses:
            say(f"lost of {stream.name}: {loss}", err=True)
    return report.is_complete


def _summary(report: BackupReport) -> str:
    count = len(report.streams)
    shared = ", closed splits shared" if report.linked else ""
    return f"{count} {'stream' if count == 1 else 'streams'}: {rows(report.rows)}, {size(report.bytes)}{shared}"
