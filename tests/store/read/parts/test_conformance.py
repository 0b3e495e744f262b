"""Every kind of part, and kinds over one another, keep the whole contract of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.coarse import CoarsePart
from tidelog.store.read.parts.conformance import PartConformance
from tidelog.store.read.parts.evolved import EvolvedPart
from tidelog.store.read.parts.masked import MaskedPart
from tidelog.store.read.parts.memory import MemoryPart
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.tree import SplitPart, TreePart
from tidelog.store.upkeep.split_inputs import SmallSplits, SplitInput

Row = dict[str, Any]
SCHEMA = pa.schema(
    [pa.field("ts", pa.int64(), nullable=False), ("n", pa.int32()), ("x", pa.float64()), ("text", pa.string())]
)
OPTIONS: dict[str, Any] = {"leaf_rows": 8, "fanout": 3, "user_aggregates": ["last(n)", "first(x)"]}
BOUNDS = [-3, 17, 48, 1000]
FEWER = [17, 48]


def rows_from(first_seq: int, count: int = 60) -> list[Row]:
    """Rows in order, some of equal time, some null; numbered from one on."""
    return [
        {
            "ts": index // 3 * 4,
            "n": None if index % 7 == 3 else index * 37 % 101,
            "x": None if index % 11 == 5 else index / 4,
            "text": "abc"[index % 3] * (index % 5),
            "_seq": first_seq + index,
        }
        for index in range(count)
    ]


def events(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names} for row in rows], schema=SCHEMA)


def created() -> Stream:
    return Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", **OPTIONS)


def loaded(stream: Stream, rows: list[Row]) -> None:
    writer = BulkWriter(writer_of(stream).context)
    for batch in events(rows).to_batches():
        writer.append(batch)
    commit_bulk(writer_of(stream).manifests, writer.finish())


def only(stream: Stream, kind: type[Part]) -> Part:
    (part,) = [part for part in stream.snapshot().parts if type(part) is kind]
    return part


def being_written(kind: type[Part]) -> tuple[Part, list[Row]]:
    stream, rows = created(), rows_from(0)
    for first in range(0, 32, 8):
        stream.append(events(rows[first : first + 8]))
        stream.flush()
    stream.append(events(rows[32:]))
    part = only(stream, kind)
    in_tree = next(part.rows for part in stream.snapshot().parts if not part.in_memory)
    return part, rows[in_tree:] if kind is MemoryPart else rows[:in_tree]


def published() -> tuple[Part, list[Row]]:
    stream, rows = created(), rows_from(0)
    stream.append(events(rows[:56]))
    stream.flush()
    (part,) = [part for part in writer_of(stream).published().parts if type(part) is TreePart]
    assert part.opened is not None
    return part, rows[: part.rows]


def closed() -> tuple[Part, list[Row]]:
    """The second of two, whose numbers are not those in its file."""
    stream = created()
    loaded(stream, rows_from(0, 30))
    loaded(stream, rows_from(30))
    part = next(part for part in stream.snapshot().parts if part.base)
    assert type(part) is SplitPart
    return part, rows_from(30)


def evolved(make: Callable[[], tuple[Part, list[Row]]]) -> tuple[Part, list[Row]]:
    """Under a schema where columns were widened, one was added, and all but the time have other places."""
    part, rows = make()
    fields = [("n", pa.int64()), ("more", pa.int16()), ("text", pa.large_string()), ("x", pa.float64())]
    newer = Store(MemoryMedium()).create_stream(
        "s", pa.schema([pa.field("ts", pa.int64(), nullable=False), *fields]), "ts", **OPTIONS
    )
    found = EvolvedPart(part, newer.snapshot().layout)
    names = found.layout.stored.names
    return found, [{name: row.get(name) for name in names} for row in rows]


def recast(make: Callable[[], tuple[Part, list[Row]]]) -> tuple[Part, list[Row]]:
    """Integers as doubles: of these the entries of before know only how many are null."""
    part, rows = make()
    fields = [("n", pa.float64()), ("x", pa.float64())]
    newer = Store(MemoryMedium()).create_stream(
        "s", pa.schema([pa.field("ts", pa.int64(), nullable=False), *fields]), "ts", leaf_rows=8, fanout=3
    )
    found = EvolvedPart(part, newer.snapshot().layout)
    kept = [{name: row[name] for name in found.layout.stored.names} for row in rows]
    return found, [{**row, "n": None if row["n"] is None else float(row["n"])} for row in kept]


def coarse() -> tuple[Part, list[Row]]:
    stream = created()
    loaded(stream, rows_from(0, 30))
    loaded(stream, rows_from(30))
    stream.coarsen(10_000)
    part = next(part for part in stream.snapshot().parts if part.base)
    assert type(part) is CoarsePart
    return part, rows_from(30)


def read_once() -> tuple[Part, list[Row]]:
    stream = created()
    loaded(stream, rows_from(0))
    (info,) = writer_of(stream).manifests.load().splits.values()
    return SplitInput(writer_of(stream).context, info), rows_from(0)


def together() -> tuple[Part, list[Row]]:
    stream = created()
    loaded(stream, rows_from(0, 30))
    loaded(stream, rows_from(30))
    stream.snapshot()
    infos = list(writer_of(stream).manifests.load().splits.values())
    rows = sorted([*rows_from(0, 30), *rows_from(30)], key=lambda row: (row["ts"], row["_seq"]))
    return SmallSplits(writer_of(stream).context.at(writer_of(stream).manifests.load()), infos), rows


KINDS: dict[str, Callable[[], tuple[Part, list[Row]]]] = {
    "tree": lambda: being_written(TreePart),
    "published tree": published,
    "split": closed,
    "memory": lambda: being_written(MemoryPart),
    "coarse": coarse,
    "split that is read once": read_once,
    "small splits": together,
}
KINDS |= {f"evolved {name}": lambda make=make: evolved(make) for name, make in [*KINDS.items()]}
KINDS |= {f"recast {name}": lambda make=make: recast(make) for name, make in KINDS.items() if name in ("tree", "split")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_keeps_the_contract(kind: str) -> None:
    part, rows = KINDS[kind]()
    PartConformance(part, rows, BOUNDS).check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_part_keeps_the_contract(kind: str) -> None:
    part, rows = KINDS[kind]()
    low, high = part.numbers
    middle, time = (low + high) // 2, rows[len(rows) // 2]["ts"]
    marks = [
        Deletion(Interval(time, None), SeqSet([(middle, high + 1)])),
        Deletion(Interval(None, rows[2]["ts"] + 1), SeqSet([(low, middle)])),
        Deletion(Interval(time - 8, time - 3), SeqSet([(0, high + 1)])),
    ]
    left = [
        row
        for row in rows
        if not any(mark.interval.contains(row["ts"]) and row["_seq"] in mark.numbers for mark in marks)
    ]
    assert 0 < len(left) < len(rows)
    PartConformance(MaskedPart(part, marks), left, FEWER, is_masked=True).check()


@pytest.mark.parametrize("kind", ["tree", "memory", "evolved split"])
def test_a_part_all_of_whose_rows_are_deleted(kind: str) -> None:
    part, _ = KINDS[kind]()
    mark = Deletion(Interval(None, None), SeqSet([(0, 1 << 40)]))
    PartConformance(MaskedPart(part, [mark]), [], FEWER, is_masked=True).check()


def test_the_checks_find_what_is_wrong() -> None:
    part, rows = being_written(TreePart)
    wrong = [{**row, "n": 5} if index == 20 else row for index, row in enumerate(rows)]
    for model in (rows[:-1], rows[1:], wrong, [*rows[:7], *rows[8:]]):
        with pytest.raises(AssertionError):
            PartConformance(part, model, BOUNDS).check()
        with pytest.raises(AssertionError):
            PartConformance(part, model, BOUNDS, is_masked=True).check()
