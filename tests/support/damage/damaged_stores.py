"""A store with something of everything, and copies of it in each of which one thing is damaged.

:func:`sample` writes the store and keeps older versions of its files; :class:`Damage` is one change of one file;
:func:`outcome` uses a damaged copy in every way and says what came of it: nothing that is wrong may be said, and what
is damaged must stay as it is.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from support.media.memory import MemoryMedium
from support.streams.history import SCHEMA
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model import to_batches
from tidelog.model.errors import TidelogError
from tidelog.storage.media.medium import Medium
from tidelog.store.bulk import BulkWriter, commit_bulk

Files = Mapping[str, bytes]
Row = tuple[int, int, str | None]

OPTIONS: dict[str, Any] = {
    "leaf_rows": 64,
    "fanout": 3,
    "split": 400,
    "split_bytes": 60_000,
    "late_rows": 1000,
    "journal_bytes": 40_000,
    "grace": 0,
}
REDUCED = 400
"""Before this time the stream ``s`` has aggregates only."""

AGGREGATES = ["count(*)", "sum(id)", "min(ts)", "max(id)", "second_largest(id)"]


def rows_between(start: int, stop: int, first_id: int) -> list[Row]:
    """Made-up rows, two for each time."""
    rows: list[Row] = []
    for index in range(2 * (stop - start)):
        id = first_id + index
        rows.append((start + index // 2, id, None if id % 7 == 0 else f"event {id}" * (id % 4)))
    return rows


def table(rows: list[Row]) -> pa.Table:
    """Rows as a table of the schema."""
    columns: list[list[Any]] = [[row[place] for row in rows] for place in range(3)]
    return pa.table(columns, schema=SCHEMA)


def contents(medium: Medium) -> dict[str, bytes]:
    """All files of a medium that have something in them, or could have."""
    found = {}
    for name in medium.names():
        if not name.endswith((".lock", "/lock", "/live")):
            with medium.open(name) as file:
                found[name] = bytes(file.read(0, file.size()))
    return found


def medium_of(files: Files) -> MemoryMedium:
    """A medium with these files."""
    medium = MemoryMedium()
    medium.make_directory(*sorted({name.rpartition("/")[0] for name in files}))
    for name, content in files.items():
        with medium.create(name) as file:
            file.write(0, content)
    return medium


@dataclass
class Sample:
    """A store, what is in it, and what its files were before."""

    files: Files
    rows: Mapping[str, list[Row]]
    """The rows of each stream, sorted, by its name; of ``s`` with those that were coarsened."""
    older: Mapping[str, list[bytes]] = field(default_factory=dict)
    """By file, what it was before."""


def sample(seed: int = 0) -> Sample:
    """A store with closed splits, coarse and overlapping ones, open splits, journals, and changes of everything."""
    medium = MemoryMedium()
    older: dict[str, list[bytes]] = {}
    rows: dict[str, list[Row]] = {"s": [], "t": [], "u": []}
    dice = random.Random(seed)

    def keep() -> None:
        for name, content in contents(medium).items():
            versions = older.setdefault(name, [])
            if content not in versions:
                versions.append(content)

    def append(stream: Stream, batch: list[Row], **values: Any) -> None:
        stream.append(table(batch), **values)
        rows[stream.name] += batch
        stream.flush()
        keep()

    with Store(medium) as store:
        store.create_stream("gone", SCHEMA, "ts").append(table([(1, 1, "x")]))
        for name in ("s", "old", "u"):
            store.create_stream(name, SCHEMA, "ts", **OPTIONS)
            keep()
        store.rename_stream("old", "t")
        store.drop_stream("gone")
        streams = {name: store.stream(name) for name in ("s", "t", "u")}
        streams["s"].attach(["second_largest(id)"])
        for step, (name, stream) in enumerate(streams.items()):
            at = 0
            for number in range({"s": 8, "t": 5, "u": 0}[name]):
                length = dice.choice([60, 140, 210])
                append(stream, rows_between(at, at + length, 10_000 * number), producer="p", number=number)
                at += length
            if name != "u":
                load(stream, rows[name], rows_between(150 + step, 260, 900_000))
                keep()
                append(stream, [(dice.randrange(at), 500_000 + index, "late") for index in range(40)])
            for number in range(30):
                append(stream, [(at + number, 600_000 + number, f"single {number}")])
    with Store(medium) as store:
        stream = store.stream("s")
        assert stream.coarsen(REDUCED).splits
        stream.compact()
        for name in ("s", "t", "u"):
            append(store.stream(name), [(5000 + index, 700_000 + index, f"more {index}") for index in range(3)])
        store.stream("t").delete_before(100)
        rows["t"] = [row for row in rows["t"] if row[0] >= 100]
        store.sweep()
        keep()
        for name in ("s", "t"):
            for number in range(12):
                sent: dict[str, Any] = {"producer": f"q{number}", "number": 9} if number < 3 else {}
                append(store.stream(name), [(5100 + number, 800_000 + number, None)], **sent)
        store.stream("t").evolve(add={"extra": pa.float64()})
        store.stream("t").append({"ts": [6000], "id": [1_000_000], "text": ["evolved"], "extra": [0.5]})
        rows["t"].append((6000, 1_000_000, "evolved"))
    files = contents(medium)
    for name, versions in list(older.items()):
        older[name] = [content for content in versions if content != files.get(name)]
    return Sample(files, {name: sorted(each) for name, each in rows.items()}, older)


def load(stream: Stream, known: list[Row], batch: list[Row]) -> None:
    """Load rows beside the tail."""
    with BulkWriter(writer_of(stream).context) as writer:
        for each in to_batches(table(batch), stream.schema):
            writer.append(each)
        commit_bulk(writer_of(stream).manifests, writer.finish(), transaction=("job", 1))
    known += batch


Kind = Literal["flip", "cut", "zero", "missing", "swapped", "older", "longer"]


@dataclass(frozen=True)
class Damage:
    """One change of one file."""

    kind: Kind
    file: str
    detail: str
    files: Files
    """All files after it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.file} {self.detail}"


def family(name: str) -> str:
    """What kind of file it is."""
    parts = name.split("/")
    if parts[0] != "streams":
        return parts[0] if parts[-1] != "newest" else f"{parts[0]}/newest"
    last = parts[-1]
    if parts[2] == "tail":
        return "journal" if last.startswith("journal-") else last
    if parts[2] == "splits":
        return "coarse split" if last.endswith(".coarse") else "split"
    return "manifest/newest" if last == "newest" else "manifest"


def damages(whole: Sample, seed: int) -> Iterator[Damage]:
    """Damages without end, of all kinds, to all kinds of files alike."""
    dice = random.Random(seed)
    families: dict[str, list[str]] = {}
    for name in whole.files:
        families.setdefault(family(name), []).append(name)
    kinds: list[Kind] = ["flip", "flip", "flip", "cut", "zero", "zero", "missing", "swapped", "older", "longer"]
    while True:
        among = families[dice.choice(sorted(families))]
        name, kind = dice.choice(among), dice.choice(kinds)
        content = whole.files[name]
        files = dict(whole.files)
        changed: bytes | None = None
        detail = ""
        if kind == "flip" and content:
            at = _place(content, dice)
            mask = 1 << dice.randrange(8)
            changed, detail = content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :], f"{at} by {mask}"
        elif kind == "cut":
            at = _place(content, dice) if content else 0
            changed, detail = content[:at], f"at {at}"
        elif kind == "zero":
            at = _place(content, dice) if content else 0
            length = dice.choice([1, 8, 64, 512, 4096, len(content)])
            changed = (content[:at] + bytes(min(length, len(content) - at)) + content[at + length :])[: len(content)]
            detail = f"{length} from {at}"
        elif kind == "longer":
            changed, detail = content + dice.randbytes(dice.choice([1, 100, 5000])), "by some bytes"
        elif kind == "missing":
            del files[name]
            yield Damage(kind, name, detail, files)
            continue
        elif kind == "swapped":
            others = [other for other in among if other != name and whole.files[other] != content]
            if others:
                other = dice.choice(others)
                files[other] = content
                changed, detail = whole.files[other], f"with {other}"
        elif kind == "older" and whole.older.get(name):
            changed = dice.choice(whole.older[name])
            detail = f"{len(changed)} bytes"
        if changed is None or changed == content:
            continue
        files[name] = changed
        yield Damage(kind, name, detail, files)


def _place(content: bytes, dice: random.Random) -> int:
    """Any byte, more often one of those that are something."""
    at = dice.randrange(len(content))
    if dice.random() < 0.8:
        for _ in range(200):
            if content[at]:
                break
            at = dice.randrange(len(content))
    return at


Outcome = Literal["right", "found by check", "some refused", "all refused"]
"""All rows are there and were written to; the same, but ``check`` tells of the damage; reading or writing some streams
is refused; the store as a whole is."""


class Silent(AssertionError):
    """A damage that was not told, or whose evidence was destroyed."""


def outcome(
    whole: Sample, files: Files, make: Callable[[Files], Medium] = medium_of, *, thorough: bool = True
) -> Outcome:
    """Use a damaged copy in every way; ``thorough`` checks it once more after it was written to.

    Returns whether everything was right, or told to be damaged; raises :class:`Silent` for anything else.
    """
    medium = make(files)
    told: list[str] = []
    is_all = False
    checked: list[str] = []
    try:
        with Store(medium, read_only=True) as store:
            names = store.streams()
            if set(names) != set(whole.rows):
                raise Silent(f"streams are {names}")
            for name in names:
                told += _told(lambda name=name: _read(whole, store.stream(name)))  # type: ignore[misc]
                told += _told(lambda name=name: _aggregate(whole, store.stream(name)))  # type: ignore[misc]
            checked = [str(finding) for finding in store.check()]
    except TidelogError as error:
        told.append(_described(error))
        is_all = True
    if told and not checked and not is_all:
        raise Silent(f"reading tells {told[0]}, but check finds nothing")
    before = contents(medium)
    if before != {name: content for name, content in files.items() if name in before} or len(before) != len(files):
        raise Silent("reading has changed files")
    refused = _write(whole, medium, is_checked=thorough and not told and not checked)
    after = contents(medium)
    if told or refused:
        _judge_evidence(whole, files, after, refused)
    if not told and not refused:
        return "found by check" if checked else "right"
    return "all refused" if is_all else "some refused"


def _told(action: Callable[[], None]) -> list[str]:
    try:
        action()
    except TidelogError as error:
        return [_described(error)]
    return []


def _described(error: TidelogError) -> str:
    text = str(error)
    if not text or text.startswith("("):
        raise Silent(f"an error that tells nothing: {error!r}")
    return f"{type(error).__name__}: {text}"


def _start(name: str) -> int | None:
    return REDUCED if name == "s" else None


def _read(whole: Sample, stream: Stream, more: list[Row] | None = None) -> None:
    start = _start(stream.name)
    expected = [row for row in whole.rows[stream.name] if start is None or row[0] >= start] + (more or [])
    found = stream.scan(start=start, columns=["ts", "id", "text"]).read_all()
    times = found["ts"].to_pylist()
    if times != sorted(times):
        raise Silent("times do not rise")
    rows = sorted(zip(times, found["id"].to_pylist(), found["text"].to_pylist(), strict=True), key=repr)
    if rows != sorted(expected, key=repr):
        raise Silent(f"{stream.name} has {len(rows)} rows, expected {len(expected)}")


def _aggregate(whole: Sample, stream: Stream) -> None:
    for start, end in ((None, None), (400, 1100), (5000, 5105)):
        rows = [
            row
            for row in whole.rows[stream.name]
            if (start is None or row[0] >= start) and (end is None or row[0] < end)
        ]
        found = stream.aggregate(start, end, AGGREGATES)
        ids = sorted(row[1] for row in rows)
        expected: list[int | None] = [0, None, None, None, None]
        if rows:
            expected = [len(rows), sum(ids), min(row[0] for row in rows), ids[-1], ids[-2]]
        if list(found.values()) != expected:
            raise Silent(f"aggregates of {stream.name} are {found}, expected {expected}")


def _write(whole: Sample, medium: Medium, *, is_checked: bool) -> list[str]:
    """Append to every stream; what is refused. What is not refused must be there, with all rows from before."""
    refused: list[str] = []
    try:
        store = Store(medium)
    except TidelogError as error:
        return [_described(error)]
    with store:
        for name in whole.rows:
            more: list[Row] = [(7000, 2_000_000, "after the damage"), (450, 2_000_001, "late after the damage")]

            def append(name: str = name, more: list[Row] = more) -> None:
                stream = store.stream(name)
                stream.append(table(more[:1]))
                stream.append(table(more[1:]))
                stream.flush()

            refusals = _told(append)
            refused += refusals
            if not refusals:
                refused += _told(lambda: _read(whole, store.stream(name), more))  # noqa: B023
        refused += _told(store.close)
    if not refused and is_checked:
        try:
            with Store(medium, read_only=True) as again:
                findings = again.check()
                if findings:
                    raise Silent(f"afterwards: {findings[0]}")
        except TidelogError as error:
            raise Silent(f"afterwards: {error!r}") from error
    return refused


def _judge_evidence(whole: Sample, files: Files, after: Files, refused: list[str]) -> None:
    """What is damaged must not be changed: a journal or split may have grown, and slots may have been written."""
    for name, content in files.items():
        if content == whole.files.get(name):
            continue
        found = after.get(name)
        if found is None:
            raise Silent(f"{name} was removed, although {refused}")
        start = 12288 if name.endswith(".tide") else 0
        kind = family(name)
        if kind in ("published", "catalogue/newest", "manifest/newest"):
            continue  # they are written all the time, and have nothing that is not elsewhere
        if found[start : len(content)] != content[start:] and found != content:
            raise Silent(f"{name} was changed, although {refused or 'it is damaged'}")


def explained(damage: Damage) -> str:
    """A damage and what went wrong, for a report."""
    return f"{damage}\n{traceback.format_exc()}"
