"""Rows that are later than a stream allows: refused, or set aside; what a crash may do with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.crash_medium import RecordingMedium, kills, random_power_losses
from support.stream_history import NAME, SCHEMA, SMALL, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import InputError, NotFoundError, SchemaError

ASIDE = f"{NAME}.late"


def created(too_late: str, lateness: int = 10, **options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium)
    values = {**SMALL, "lateness": lateness, "too_late": too_late, **options}
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **values)


def ids(stream: Stream) -> list[int]:
    return [row.id for row in rows_of(stream)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=6), st.integers(0, 20), st.booleans())
def test_rows_are_set_aside_as_a_loop_over_them_would(appends: list[list[int]], lateness: int, single: bool) -> None:
    medium, store, stream = created("aside", lateness)
    kept, late = list[tuple[int, int]](), list[tuple[int, int]]()
    newest, number = None, 0
    for times in appends:
        rows = []
        for time in times:
            is_late = newest is not None and time < newest - lateness
            (late if is_late else kept).append((time, number))
            newest = time if newest is None else max(newest, time)
            rows.append((time, number))
            number += 1
        for data in table(rows).to_pylist() if single else [table(rows)]:
            stream.append(data)
    stream.flush()
    assert stream.stats()["late"]["aside"] == len(late)
    with Store(medium, read_only=True) as other:
        assert ids(other.stream(NAME)) == [id for _, id in sorted(kept)]
        assert (ASIDE in other) == bool(late)
        if late:
            assert ids(other.stream(ASIDE)) == [id for _, id in sorted(late)]
    store.close()


def test_an_append_with_a_row_too_late_is_refused_whole() -> None:
    _, store, stream = created("reject")
    stream.append(table([(100, 0), (90, 1)]))
    with pytest.raises(InputError, match="more than 10 older") as error:
        stream.append(table([(105, 2), (120, 3), (109, 4), (50, 5)]))
    assert error.value.row == 2
    with pytest.raises(InputError):
        stream.append({"ts": 89, "id": 6, "text": "event 6 at 89"})
    stream.append(table([(95, 7)]))  # what was refused does not count as seen
    assert sorted(ids(stream)) == [0, 1, 7]
    assert stream.stats()["late"]["rejected"] == 3
    assert ASIDE not in store
    store.close()


def test_of_a_reader_the_batches_before_are_kept() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for rows in ([(100, 0)], [(150, 1)], [(20, 2)], [(200, 3)]):
            yield from table(rows).to_batches()

    for too_late, expected in (("reject", [0, 1]), ("aside", [0, 1, 3])):
        _, store, stream = created(too_late)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
        if too_late == "reject":
            with pytest.raises(InputError):
                stream.append(reader)
        else:
            stream.append(reader)
            assert ids(store.stream(ASIDE)) == [2]
        assert ids(stream) == expected
        store.close()


def test_a_writer_that_comes_later_knows_the_newest_row() -> None:
    medium, store, stream = created("reject")
    stream.append(table([(100, 0)]))
    store.close()
    with Store(medium) as store:
        with pytest.raises(InputError):
            store.stream(NAME).append(table([(89, 1)]))
        store.stream(NAME).append(table([(90, 2)]))


def test_an_append_that_is_sent_again_is_set_aside_once() -> None:
    _, store, stream = created("aside", aside="odd ones")
    for _ in range(2):
        stream.append(table([(100, 0), (50, 1)]), producer="p", number=0)
    stream.append(table([(101, 2), (51, 3)]), producer="p", number=1)
    assert ids(stream) == [0, 2]
    assert ids(store.stream("odd ones")) == [1, 3]
    store.close()


def test_a_stream_of_other_columns_takes_nothing() -> None:
    _, store, stream = created("aside")
    store.create_stream(ASIDE, pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    with pytest.raises(SchemaError, match="not those of any version"):
        stream.append(table([(100, 0), (50, 1)]))
    assert ids(stream) == []
    stream.append(table([(100, 0)]))
    assert ids(stream) == [0]
    store.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"too_late": "reject"}, "no lateness"),
        ({"too_late": "drop", "lateness": 1}, "'accept', 'reject', 'aside'"),
        ({"aside": "x"}, "too_late 'accept'"),
        ({"aside": "", "too_late": "aside", "lateness": 1}, "0 characters"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Store(RecordingMedium()).create_stream(NAME, SCHEMA, "ts", **options)


def test_what_was_flushed_survives_in_both_streams() -> None:
    medium, store, stream = created("aside")
    for round in range(4):
        start = 100 * round
        stream.append(table([(start + 50 + index, start + index) for index in range(9)]))
        stream.append(table([(start, start + 90), (start + 58, start + 91)]))
        stream.flush()
        medium.mark(round + 1)
    store.close()
    looked = 0
    for crash in [*kills(medium), *random_power_losses(medium, 1, 7)][::9]:
        rounds = crash.marks[-1] if crash.marks else 0
        with Store(crash.medium()) as left:
            try:
                kept = set(ids(left.stream(NAME)))
            except NotFoundError:
                assert not rounds
                continue
            aside = set(ids(left.stream(ASIDE))) if ASIDE in left else set()
            assert {100 * round + index for round in range(rounds) for index in (*range(9), 91)} <= kept
            assert {100 * round + 90 for round in range(rounds)} <= aside
            assert not kept & aside
            looked += 1
    assert looked > 15
