"""Keeping a store in order: what ``compact``, ``maintain``, ``coarsen`` and ``delete`` do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tidelog.cli import warming
from tidelog.cli.manage import existing
from tidelog.cli.progress import WarmProgress
from tidelog.cli.saying import say
from tidelog.cli.times import point_in_time
from tidelog.cli.units import count, rows, size
from tidelog.model.errors import StorageError


def compact(store_path: Path, stream: str | None, max_bytes: int | None) -> None:
    """Merge the small and overlapping splits of a stream, or of all."""
    with existing(store_path) as store:
        for name in [stream] if stream is not None else store.streams():
            done = store.stream(name).compact(max_bytes)
            what = "nothing to merge" if not done.merges else _merged(done)
            say(f"{name!r}: {what}{'' if done.is_done else '; there is more to do'}")


def maintain(store_path: Path) -> None:
    """Do what is due for all streams."""
    with existing(store_path) as store:
        for name, done in store.maintain().items():
            said = []
            if done.deleted_before is not None:
                clock = store.stream(name).schema.clock
                said.append(f"retention deleted what is before {clock.format(done.deleted_before)}")
            if done.coarsened.splits:
                said.append(f"{rows(done.coarsened.rows)} reduced to aggregates")
            if done.compacted.merges:
                said.append(_merged(done.compacted))
            if done.files_removed:
                said.append(f"{count(done.files_removed)} old files removed")
            say(f"{name!r}: {', '.join(said) or 'nothing is due'}")


def coarsen(store_path: Path, stream: str, before: str, grain: str | None, *, is_sure: bool) -> None:
    """Reduce old events to aggregates, after a question unless ``is_sure``."""
    with existing(store_path) as store:
        found = store.stream(stream)
        clock = found.schema.clock
        bound = clock.bound(point_in_time(before, clock))  # what is no time should not be asked about
        if not is_sure:
            when = clock.format(bound)
            typer.confirm(f"keep only aggregates of what is before {when} in {stream!r}, for good?", abort=True)
        done = found.coarsen(bound, grain)
    if done.splits:
        sizes = f"{size(done.bytes_before)} became {size(done.bytes_after)}"
        say(f"{stream!r}: {rows(done.rows)} reduced to aggregates, {sizes}")
    else:
        say(f"{stream!r}: no split is old enough")


def delete(store_path: Path, stream: str, before: str, *, is_sure: bool) -> None:
    """Delete the events before a time, after a question unless ``is_sure``."""
    with existing(store_path) as store:
        found = store.stream(stream)
        clock = found.schema.clock
        bound = clock.bound(point_in_time(before, clock))  # what is no time should not be asked about
        if not is_sure:
            typer.confirm(f"delete what is before {clock.format(bound)} in {stream!r}, for good?", abort=True)
        found.delete_before(bound)
    say(f"{stream!r}: deleted what is before {clock.format(bound)}")


def _merged(done: Any) -> str:
    return f"merged {count(done.splits_before)} splits into {count(done.splits_after)}, {size(done.bytes_read)} read"


def warm() -> None:
    """Compile all kernels that are not in the cache, and say what was done."""
    with WarmProgress() as progress:
        done = warming.warm(progress.update)
    if done.directory is None:
        raise StorageError(
            "found no directory that compiled kernels can be kept in; set TIDELOG_CACHE_DIR to one that only you can "
            "write"
        )
    said = f"{count(done.compiled)} compiled in {done.seconds:.1f} s" if done.compiled else "all of them were there"
    say(f"{count(done.kernels)} kernels are ready in {done.directory}: {said}")
