"""Other models as batches of elements, and what elements mean."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import tidelog
from tidelog.merging import (
    BehindStableError,
    from_add_modify_finalize,
    from_changes,
    from_open_close,
    from_snapshots,
)
from tidelog.model.errors import InputError, SchemaError


def events(elements: object) -> list[tuple[object, ...]]:
    found = tidelog.reconstitute(elements).to_pylist()
    return sorted((row["p"], row["valid_from"], row["valid_to"]) for row in found)


def test_add_modify_finalize() -> None:
    """The published example: two streams of the same events."""
    one = pa.table({
        "kind": ["a", "a", "m", "f"],
        "p": ["B", "A", "B", None],
        "start": [8, 6, 8, 11],
        "end": pa.array([None, 12, 10, None], pa.int64()),
    })  # fmt: skip
    other = pa.table({
        "kind": ["a", "a", "m", "m", "f"],
        "p": ["A", "B", "A", "B", None],
        "start": [6, 8, 6, 8, 20],
        "end": pa.array([7, 15, 12, 10, None], pa.int64()),
    })  # fmt: skip
    expected = [("A", 6, 12), ("B", 8, 10)]
    assert events(from_add_modify_finalize(one)) == events(from_add_modify_finalize(other)) == expected
    merged = tidelog.merge([from_add_modify_finalize(one), from_add_modify_finalize(other)], key=True)
    assert events(merged.read_all()) == expected
    last = list(from_add_modify_finalize(one, slack=3))[-1].to_pylist()[-1]
    assert (last["kind"], last["valid_from"]) == ("stable", 8)


def test_open_close() -> None:
    one = pa.table({
        "kind": ["open", "close", "open", "close", "open"],
        "p": ["A", "A", "B", "B", "C"],
        "time": [1, 4, 2, 5, 3],
    })  # fmt: skip
    other = pa.table({
        "kind": ["open", "close", "open", "open", "close", "close"],
        "p": ["B", "B", "A", "C", "A", "B"],
        "time": [2, 6, 1, 3, 4, 5],
    })  # fmt: skip
    batches = [one.slice(row, 2).combine_chunks().to_batches()[0] for row in (0, 2, 4)]
    found = pa.Table.from_batches(list(from_open_close(batches)))
    assert found.column("valid_to").to_pylist()[:2] == [None, 4]
    expected = [("A", 1, 4), ("B", 2, 5)]
    for elements in (found, pa.Table.from_batches(list(from_open_close(other)))):
        assert [each for each in events(elements) if each[2] is not None] == expected
        assert tidelog.reconstitute(elements).num_rows == 3


def test_changes_and_snapshots_of_a_table() -> None:
    start = dt.datetime(2024, 1, 1)
    times = [start + dt.timedelta(seconds=each) for each in (0, 0, 1, 3)]
    changed = pa.table({
        "kind": ["insert", "insert", "delete", "insert"],
        "time": pa.array(times, pa.timestamp("us")),
        "p": ["x", "y", "x", "z"],
    })  # fmt: skip
    tables = [
        (start, pa.table({"p": ["x", "y"]})),
        (times[2], pa.table({"p": ["y"]})),
        (times[3], pa.table({"p": ["y", "z"]})),
    ]
    one = pa.Table.from_batches(list(from_changes(changed)))
    other = pa.Table.from_batches(list(from_snapshots(tables, time=pa.timestamp("us"))))
    found = [tidelog.reconstitute(each).to_pylist() for each in (one, other)]
    assert [{row["p"]: (row["valid_from"], row["valid_to"]) for row in each} for each in found] == [
        {"x": (times[0], times[2]), "y": (times[0], None), "z": (times[3], None)}
    ] * 2
    merged = tidelog.merge([one, other], key=True).read_all()
    assert {row["p"] for row in tidelog.reconstitute(merged, frozen=True).to_pylist()} == {"x"}


def test_prefixes_that_break_promises() -> None:
    columns = ["kind", "valid_from", "valid_to", "old_valid_to", "p"]

    def elements(*rows: tuple[object, ...]) -> pa.Table:
        return pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))

    fine = elements(("insert", 5, 9, None, "A"), ("adjust", 5, 7, 9, "A"), ("stable", 6, None, None, None))
    assert events(fine) == [("A", 5, 7)]
    with pytest.raises(BehindStableError, match="behind its own stable 6"):
        tidelog.reconstitute([fine, elements(("insert", 3, 9, 0, "B"))])
    with pytest.raises(InputError, match="adjusts an event from 5 on that is not there"):
        tidelog.reconstitute([fine, elements(("adjust", 5, 8, 9, "A"))])
    with pytest.raises(SchemaError, match="expected elements"):
        tidelog.reconstitute(pa.table({"a": [1]}))
    assert tidelog.reconstitute(fine.slice(0, 0)).num_rows == 0
    with pytest.raises(SchemaError, match="no column 'time'"):
        list(from_changes(fine))
