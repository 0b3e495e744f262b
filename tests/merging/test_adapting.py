"""Adapters of whole batches give what those that go row by row give, element by element, wherever batches are cut."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from support.merging import adapters as oracle
from tidelog.merging import from_add_modify_finalize, from_changes, from_open_close, from_snapshots, reconstitute
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import KINDS, Element

RUNS = 80

Payload = tuple[str | None, int]
Row = tuple[Any, ...]

SCHEMAS = {
    "a/m/f": pa.schema(
        {"kind": pa.string(), "p": pa.string(), "n": pa.int64(), "start": pa.int64(), "end": pa.int64()}
    ),
    "timed": pa.schema({"kind": pa.string(), "p": pa.string(), "n": pa.int64(), "time": pa.int64()}),
}


def payload(dice: random.Random, count: int) -> Payload:
    return dice.choice(("x", "y", None)), dice.randrange(count)


def cut(dice: random.Random, rows: Sequence[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows in batches of any size, also none."""
    place = 0
    while place < len(rows):
        size = dice.choice((0, 1, 3, 20, 500))
        part = rows[place : place + size]
        yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in part], schema=schema)
        place += size


def told(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def expected(elements: Iterable[Element]) -> list[Row]:
    found: list[Row] = []
    for kind, own, start, end, old in elements:
        if kind == 2:
            if end != NEVER:
                found.append(("stable", end, None, None, None, None))
            continue
        ends = [None if each == NEVER or (place and kind == 0) else each for place, each in enumerate((end, old))]
        found.append((KINDS[kind], start, *ends, *own))  # type: ignore[misc]
    return found


def check(adapted: Iterable[pa.RecordBatch], by_row: Iterable[Element]) -> None:
    """The same elements, or an error for the same rows."""
    try:
        wanted = expected(by_row)
    except InputError:
        with pytest.raises(InputError, match="row"):
            told(adapted)
        return
    assert told(adapted) == wanted


def amf(dice: random.Random) -> list[Row]:
    found: list[Row] = []
    known: list[tuple[Payload, int]] = []
    last = 0
    for _ in range(dice.choice((5, 40, 400))):
        what = dice.random()
        if what < 0.5 or not known:
            key = payload(dice, 9), last + dice.randrange(30)
            known.append(key)
            found.append(("a", *key[0], key[1], dice.choice((None, key[1] + dice.randint(1, 30)))))
        elif what < 0.9:
            key = dice.choice(known[-20:])
            found.append(("m", *key[0], key[1], dice.choice((None, key[1] + dice.randint(0, 30)))))
        else:
            last += dice.randrange(-2, 9)
            found.append(("f", "x", 0, None if dice.random() < 0.05 else last, None))
        if dice.random() < 0.001:
            found.append((dice.choice(("z", None)), "x", 0, 1, 2))
    return found


def test_add_modify_finalize() -> None:
    failed = 0
    for seed in range(RUNS):
        dice = random.Random(seed)
        rows, slack = amf(dice), dice.choice((0, 5))
        by_row = [
            (kind, (p, n), NEVER if start is None else start, NEVER if end is None else end)
            for kind, p, n, start, end in rows
        ]
        try:
            list(oracle.add_modify_finalize(by_row, slack))
        except InputError:
            failed += 1
        check(
            from_add_modify_finalize(cut(dice, rows, SCHEMAS["a/m/f"]), slack=slack),
            oracle.add_modify_finalize(by_row, slack),
        )
    assert 0 < failed < RUNS // 2


def opened(dice: random.Random, *, in_order: bool) -> list[Row]:
    found: list[Row] = []
    time = 0
    for _ in range(dice.choice((5, 40, 400))):
        time += dice.randrange(4)
        at = time if in_order else time + dice.randrange(20)
        found.append(("open", *payload(dice, 30), at))
        for _ in range(dice.randrange(3)):
            _, p, n, start = dice.choice(found[-12:])
            found.append(("close", p, n, (time if in_order else start) + dice.randint(1, 9)))
            time = max(time, found[-1][3]) if in_order else time
    return found


@pytest.mark.parametrize("in_order", [False, True])
def test_open_close(in_order: bool) -> None:
    for seed in range(RUNS):
        dice = random.Random(100 + seed)
        rows = opened(dice, in_order=in_order)
        check(
            from_open_close(cut(dice, rows, SCHEMAS["timed"]), in_order=in_order),
            oracle.open_close([(kind, (p, n), time) for kind, p, n, time in rows], in_order=in_order),
        )


def test_changes() -> None:
    for seed in range(RUNS):
        dice = random.Random(200 + seed)
        rows: list[Row] = []
        there: list[Payload] = []
        time = 0
        for _ in range(dice.choice((5, 40, 400))):
            time += dice.randrange(3)
            if there and dice.random() < 0.45:
                rows.append(("delete", *there.pop(dice.randrange(len(there))), time))
            else:
                there.append(payload(dice, 30))
                rows.append(("insert", *there[-1], time))
        if seed % 8 == 0:
            rows.append((dice.choice(("delete", "update")), "never", 0, time))
        check(
            from_changes(cut(dice, rows, SCHEMAS["timed"])),
            oracle.changes([(kind, (p, n), time) for kind, p, n, time in rows]),
        )


def test_snapshots() -> None:
    schema = pa.schema({"p": pa.string(), "n": pa.int64()})
    for seed in range(RUNS):
        dice = random.Random(300 + seed)
        shots, time = [], 0
        for _ in range(dice.randint(1, 12)):
            time += dice.randint(1, 5)
            shots.append((time, [payload(dice, 3) for _ in range(dice.choice((0, 3, 12, 40)))]))
        tables = [
            (at, pa.Table.from_pylist([{"p": p, "n": n} for p, n in rows], schema=schema).slice(0))
            for at, rows in shots
        ]
        assert told(from_snapshots(tables)) == expected(oracle.snapshots(shots))


def test_what_is_wrong_is_told_by_its_row() -> None:
    fine = [("insert", "x", 1, 5), ("delete", "x", 1, 6)]
    batches = [
        pa.RecordBatch.from_pylist([dict(zip(SCHEMAS["timed"].names, row, strict=True))], schema=SCHEMAS["timed"])
        for row in (*fine, ("delete", "x", 1, 7))
    ]
    with pytest.raises(InputError, match="row 2 deletes, at 7, what is not there"):
        list(from_changes(batches))
    with pytest.raises(InputError, match="row 0 is of kind 'insert'; expected 'open' or 'close'"):
        list(from_open_close(batches))
    columns = {"kind": ["a", "m"], "p": ["x", "y"], "start": [1, 1], "end": [2, 3]}
    with pytest.raises(InputError, match="row 1 modifies an event that starts at 1 and was never added"):
        list(from_add_modify_finalize(pa.table(columns)))
    with pytest.raises(InputError, match="row 0 closes an event at 4, and none of the payload was opened before"):
        list(from_open_close(pa.table({"kind": ["close"], "p": ["x"], "time": [4]})))
    nowhere = pa.table({"kind": ["open", "open"], "p": ["x", "y"], "time": [4, None]})
    with pytest.raises(InputError, match=r"row 1 has no time \('time' is null\)"):
        list(from_open_close(nowhere))
    falling = pa.table({"kind": ["insert"] * 3, "p": ["x", "y", "z"], "time": [4, 6, 5]}).to_batches(max_chunksize=2)
    with pytest.raises(
        InputError, match="row 2 has the time 5, and stands behind one of 6; expected rows in the order"
    ):
        list(from_changes(falling))
    table = pa.table({"p": ["x"]})
    with pytest.raises(InputError, match="found a table at 5 behind one at 5; expected rising instants"):
        list(from_snapshots([(5, table), (5, table)]))
    with pytest.raises(SchemaError, match=r"the table at 6 has the columns q string; expected .* p string"):
        list(from_snapshots([(5, table), (6, table.rename_columns(["q"]))]))
    with pytest.raises(InputError, match=r"found int as the table at 5; expected a pyarrow\.Table"):
        list(from_snapshots([(5, 5)]))  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"found 5 .int. for snapshots; expected pairs of an instant"):
        list(from_snapshots(5))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"for a snapshot; expected an instant and a pyarrow\.Table"):
        list(from_snapshots([table]))  # type: ignore[list-item]
    with pytest.raises(SchemaError, match="the time column 'p' has type string; expected int64 or a timestamp"):
        list(from_open_close(nowhere, time="p"))


def test_batches_that_differ_are_refused() -> None:
    """Times of another unit, say, that would be taken for those of the first batch."""
    first = pa.table({"kind": ["open"], "p": ["x"], "time": pa.array([1], pa.timestamp("s"))})
    other = first.set_column(2, "time", pa.array([2000], pa.timestamp("ms")))
    for wrong in (other, first.drop_columns("p")):
        with pytest.raises(SchemaError, match=r"the rows from 1 on have the columns kind string, .*p string, time tim"):
            list(from_open_close([first, wrong]))
    elements = list(from_open_close(first))
    with pytest.raises(SchemaError, match="the rows from 1 on have"):
        reconstitute([*elements, elements[0].drop_columns("p")])
    columns = {"kind": ["a"], "start": pa.array([1], pa.timestamp("s")), "end": pa.array([2], pa.timestamp("ms"))}
    with pytest.raises(SchemaError, match=r"column 'end' .* timestamp\[ms\]; expected timestamp\[s\], as 'start' has"):
        list(from_add_modify_finalize(pa.table(columns)))


def test_finality_at_the_beginning_of_time() -> None:
    """What may come before the least time there is, is nothing."""
    first = -(2**63)
    rows = pa.table({"kind": ["f", "f"], "p": ["x", "x"], "start": [first + 1, first + 9], "end": [0, 0]})
    (found,) = from_add_modify_finalize(rows, slack=5)
    assert found["valid_from"].to_pylist() == [first, first + 4]
