"""The directory that remembers how far a pipeline has come, and of which pipeline.

Spark keeps one checkpoint for each streaming query below it (``sinks/NAME``). Such a checkpoint counts sources by their
places in the query and knows nothing of the sink, so that a changed pipeline would go on with the offsets of other
sources, write what was written before into another place, or fail with an error about classes. So ``pipeline.json``
says what the checkpoints were made for, and a pipeline that differs in that is refused::

    {"version": 1, "name": "trades", "sinks": {"NAME": {"sources": [...], "sink": "...", "states": [...]}}}
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tidelog.model.errors import CorruptionError, LockedError
from tidelog.spark.pipeline.description.objects import TIDELOG, Pipeline, Sink, Source
from tidelog.spark.pipeline.description.places import is_address
from tidelog.spark.pipeline.description.plans import SinkPlan
from tidelog.spark.pipeline.file.positions import KeyPath

RECORD: Final = "pipeline.json"
LOCK: Final = "lock"
_VERSION: Final = 1
_ADVICE: Final = (
    "undo the change, or start anew with another checkpoint directory, which reads everything there is once more"
)


def checkpoint_of(pipeline: Pipeline, sink: Sink) -> str:
    """Where Spark keeps the checkpoint of the query that writes a sink."""
    return f"{pipeline.place(pipeline.checkpoint)}/sinks/{sink.name}"


def changes(pipeline: Pipeline, plans: Sequence[SinkPlan]) -> list[tuple[KeyPath, str]]:
    """What keeps a pipeline from going on with its checkpoint, and where it says so; empty if nothing does.

    Sinks may be added and left out. Filters, columns and options may change, and steps without state. A sink whose
    query has never been started is free to change.
    """
    place = pipeline.place(pipeline.checkpoint)
    if is_address(place) or not os.path.isdir(place):
        return []
    found: list[tuple[KeyPath, str]] = []
    record = _read(Path(place))
    here: KeyPath = ("pipeline", "checkpoint")
    if record is None:
        others = sorted(set(os.listdir(place)) - {LOCK})
        if others:
            found.append((here, f"{place} has {others[0]!r} in it and is no checkpoint of a pipeline; choose another"))
        return found
    if record["name"] != pipeline.name and any(_is_begun(place, name) for name in record["sinks"]):
        message = f"{place} is the checkpoint of pipeline {record['name']!r}, not of {pipeline.name!r}"
        return [(here, f"{message}; give each pipeline its own, or the name it had")]
    for plan in plans:
        before, now = record["sinks"].get(plan.sink.name), _identity(pipeline, plan)
        if before is None or not _is_begun(place, plan.sink.name):
            continue
        path: KeyPath = ("sinks", plan.sink.name)
        if before["sources"] != now["sources"]:
            what = f"reads {_several(now['sources'])}; with this checkpoint it read {_several(before['sources'])}"
            found.append((path, f"sink {plan.sink.name!r} {what}: {_ADVICE}"))
        if before["sink"] != now["sink"]:
            what = f"writes {now['sink']}; with this checkpoint it wrote {before['sink']}"
            found.append((path, f"sink {plan.sink.name!r} {what}: {_ADVICE}"))
        if before["states"] != now["states"]:
            what = f"takes the steps {_several(now['states'])}; its state was made by {_several(before['states'])}"
            found.append((path, f"sink {plan.sink.name!r} {what}: {_ADVICE}"))
    return found


def forsaken(pipeline: Pipeline, plans: Sequence[SinkPlan]) -> list[str]:
    """What sinks that are no longer there have left, and what that means for sinks that begin.

    A checkpoint belongs to the name of its sink: one that was renamed begins anew.
    """
    place = pipeline.place(pipeline.checkpoint)
    record = None if is_address(place) or not os.path.isdir(place) else _read(Path(place))
    if record is None:
        return []
    named = {sink.name for sink in pipeline.sinks}
    left = {name: before for name, before in record["sinks"].items() if name not in named and _is_begun(place, name)}
    found = []
    for plan in plans:
        name, now = plan.sink.name, _identity(pipeline, plan)
        if _is_begun(place, name) or not plan.relation.is_streaming:
            continue
        for other, before in left.items():
            if before["sink"] == now["sink"] and before["sources"] and set(before["sources"]) <= set(now["sources"]):
                found.append(
                    f"sink {name!r} has no checkpoint yet: everything that is there will be read again, and written to "
                    f"{now['sink']} again, which sink {other!r}, no longer there, has written. If it was renamed, stop "
                    f"the pipeline and run `mv {place}/sinks/{other} {place}/sinks/{name}`, so that it goes on"
                )
    return found


def _is_begun(place: str, sink: str) -> bool:
    """Whether there is something in a checkpoint that belongs to a sink: of a query, or of jobs."""
    return os.path.isdir(f"{place}/sinks/{sink}") or os.path.isfile(f"{place}/jobs/{sink}.json")


@contextmanager
def held(pipeline: Pipeline, plans: Sequence[SinkPlan]) -> Iterator[None]:
    """The checkpoint as this process's own, made and recorded if it is new.

    Raises :class:`LockedError` while another process runs the pipeline; its end, however it comes, frees the lock.
    """
    place = pipeline.place(pipeline.checkpoint)
    if is_address(place):
        yield
        return
    directory = Path(place)
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LockedError(
                f"another process is running pipeline {pipeline.name!r} with the checkpoint {place}; wait for its end, "
                "or stop it"
            ) from None
        _record(directory, pipeline, plans)
        yield
    finally:
        os.close(lock)


def _record(directory: Path, pipeline: Pipeline, plans: Sequence[SinkPlan]) -> None:
    """Write down, durably, what the checkpoints are made for, before the first of them is. Sinks left out stay."""
    before = _read(directory)
    sinks = dict(before["sinks"]) if before is not None else {}
    sinks.update({plan.sink.name: _identity(pipeline, plan) for plan in plans})
    wanted = {"version": _VERSION, "name": pipeline.name, "sinks": sinks}
    if before == wanted:
        return
    write_durably(directory / RECORD, json.dumps(wanted, ensure_ascii=False, indent=2) + "\n")


def write_durably(path: Path, text: str) -> None:
    """Replace a file in one step that survives a loss of power."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(directory: Path) -> Mapping[str, Any] | None:
    file = directory / RECORD
    if not file.exists():
        return None
    try:
        record: Mapping[str, Any] = json.loads(file.read_text())
        version = record["version"]
        if version == _VERSION and isinstance(record["name"], str) and isinstance(record["sinks"], dict):
            return record
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"{file} cannot be read ({error}); choose another checkpoint directory") from None
    raise CorruptionError(f"{file} has version {version!r}, expected {_VERSION}; it was written by another tidelog")


def _identity(pipeline: Pipeline, plan: SinkPlan) -> dict[str, Any]:
    """What a query's checkpoint depends on."""
    by_name = {source.name: source for source in pipeline.sources}
    sources = [by_name[name] for name in plan.inputs]
    return {
        "sources": [_place(pipeline, each) for each in sources if each.streaming] if plan.relation.is_streaming else [],
        "sink": _place(pipeline, plan.sink),
        "states": list(plan.states) if plan.relation.is_streaming else [],
    }


def _place(pipeline: Pipeline, end: Source | Sink) -> str:
    """A source or a sink by where it is."""
    place = "" if end.path is None else pipeline.place(end.path)
    if end.format == TIDELOG:
        return f"stream {end.stream} of {place}"
    return f"{end.format} {place}".strip()


def _several(texts: Sequence[str]) -> str:
    return " and ".join(texts) if texts else "nothing of that kind"
