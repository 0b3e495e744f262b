"""The commands that keep stores in order: ``check``, ``compact``, ``maintain``, ``coarsen``, ``delete``, ``warm``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import OneStream, StorePath, StreamName, Yes
from tidelog.cli.stores import demand_somebody, existing
from tidelog.cli.telling.saying import say
from tidelog.cli.telling.units import count, rows, size
from tidelog.cli.times import point_in_time
from tidelog.model.errors import StorageError

if TYPE_CHECKING:
    from tidelog.engine.stream import Stream


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
    if remove and not orphans:
        raise typer.BadParameter("it is for orphans; say --orphans --remove", param_hint="--remove")
    with existing(store, read_only=not remove) as opened:
        findings = opened.check()
        names = opened.streams()
        removed = opened.remove_orphans(age) if remove else []
        left_over = opened.orphans() if orphans else []
    for finding in findings:
        say(str(finding))
    for word, files in (("removed", removed), ("orphan", left_over)):
        for file in files:
            say(f"{word}: {file}")
    if findings:
        say(f"{len(findings)} found", err=True)
        raise typer.Exit(1)
    say(f"{len(names)} {'stream' if len(names) == 1 else 'streams'} checked, nothing is wrong")


def compact(
    store: StorePath,
    stream: OneStream = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Read so many bytes of each stream at most.", show_default=False),
    ] = None,
) -> None:
    """Merge small and overlapping files, so that reading is as fast as it gets; others may read and write meanwhile."""
    with existing(store) as opened:
        for name in [stream] if stream is not None else opened.streams():
            done = opened.stream(name).compact(max_bytes)
            what = "nothing to merge" if not done.merges else _merged(done)
            say(f"{name!r}: {what}{'' if done.is_done else '; there is more to do'}")


def maintain(store: StorePath) -> None:
    """Do what is due: enforce retention, merge files where it pays, remove old ones. For stores without a writer."""
    with existing(store) as opened:
        for name, done in opened.maintain().items():
            said = []
            if done.deleted_before is not None:
                clock = opened.stream(name).schema.clock
                said.append(f"retention deleted what is before {clock.format(done.deleted_before)}")
            if done.coarsened.splits:
                said.append(f"{rows(done.coarsened.rows)} coarsened to aggregates")
            if done.compacted.merges:
                said.append(_merged(done.compacted))
            if done.files_removed:
                said.append(f"{count(done.files_removed)} old files removed")
            say(f"{name!r}: {', '.join(said) or 'nothing is due'}")


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
    yes: Yes = False,
) -> None:
    """Keep only aggregates of old events: count, sum, min, max and avg stay exact between their bounds."""
    demand_somebody(yes, "coarsen events")
    with existing(store) as opened:
        found = opened.stream(stream)
        bound, when = _bound(found, before)  # what is no time should not be asked about
        if not yes:
            typer.confirm(f"keep only aggregates of what is before {when} in {stream!r}, for good?", abort=True)
        done = found.coarsen(bound, grain)
    if done.splits:
        sizes = f"{size(done.bytes_before)} became {size(done.bytes_after)}"
        say(f"{stream!r}: {rows(done.rows)} coarsened to aggregates, {sizes}")
    else:
        say(f"{stream!r}: no split is old enough")


def delete(
    before: Annotated[
        str, typer.Argument(metavar="TIME", help="Events before it are deleted, it is not.", show_default=False)
    ],
    store: StorePath,
    stream: StreamName,
    yes: Yes = False,
) -> None:
    """Delete the events before a time, at once and for good, and those that still arrive with such a time."""
    demand_somebody(yes, "delete events")
    with existing(store) as opened:
        found = opened.stream(stream)
        bound, when = _bound(found, before)  # what is no time should not be asked about
        if not yes:
            typer.confirm(f"delete what is before {when} in {stream!r}, for good?", abort=True)
        found.delete_before(bound)
    say(f"{stream!r}: deleted what is before {when}")


def warm() -> None:
    """Compile all kernels now, on all processors, instead of each when it is first used.

    They are kept in the user's cache directory, or in TIDELOG_CACHE_DIR, for
    this machine, this release and its versions of Python and Numba.
    """
    from tidelog.cli import warming
    from tidelog.cli.telling.progress import WarmProgress

    with WarmProgress() as progress:
        done = warming.warm(progress.update)
    if done.directory is None:
        raise StorageError(
            "found no directory that compiled kernels can be kept in; set TIDELOG_CACHE_DIR to one that only you can "
            "write"
        )
    said = f"{count(done.compiled)} compiled in {done.seconds:.1f} s" if done.compiled else "all of them were there"
    say(f"{count(done.kernels)} kernels are ready in {done.directory}: {said}")


def _bound(stream: Stream, text: str) -> tuple[int, str]:
    """A point in time on a stream's clock, and as people read it."""
    clock = stream.schema.clock
    bound = clock.bound(point_in_time(text, clock))
    assert bound is not None
    return bound, clock.format(bound)


def _merged(done: Any) -> str:
    return f"merged {count(done.splits_before)} splits into {count(done.splits_after)}, {size(done.bytes_read)} read"
