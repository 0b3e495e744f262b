"""Tail records: what the writer of a tail tells readers in other processes."""

from __future__ import annotations

import pytest

from support.media.crash import RecordingMedium, kills, power_losses
from tidelog.model.errors import StorageError
from tidelog.store.tail.record import Publications, Publisher, TailRecord

NAME = "published"


def record(number: int) -> TailRecord:
    return TailRecord(f"journal-{number}", number, {"a.tide": (number, number + 1), "b.tide": (0, 0)}, 100 + number)


def test_nothing_published() -> None:
    medium = RecordingMedium()
    assert Publications(medium, NAME).newest() == (0, None)
    Publisher(medium, NAME).close()
    assert Publications(medium, NAME).newest() == (0, None)


def test_the_newest_one_counts_and_numbers_go_on() -> None:
    medium = RecordingMedium()
    seen = Publications(medium, NAME)
    publisher = Publisher(medium, NAME)
    for number in range(1, 6):
        publisher.publish(record(number))
        assert seen.newest() == (number, record(number)) == Publications(medium, NAME).newest()
    publisher.close()
    again = Publisher(medium, NAME)
    assert seen.newest() == (5, record(5))
    again.publish(record(9))
    assert seen.newest() == (6, record(9))


def test_a_torn_publication_leaves_the_one_before() -> None:
    medium = RecordingMedium()
    publisher = Publisher(medium, NAME)
    published = {0: None}
    for number in range(1, 5):
        published[number] = record(number)
        publisher.publish(record(number))
        medium.mark(number)
    torn = 0
    for crash in kills(medium, range(len(medium.log) + 1)):
        number, found = Publications(crash.medium(), NAME).newest()
        assert found == published[number]
        assert number >= max(crash.marks, default=0)
        torn += crash.torn is not None
    assert torn > 4
    for loss in power_losses(medium):  # nothing is promised then, but what is read was published
        number, found = Publications(loss.medium(), NAME).newest()
        assert found == published[number]


def test_a_record_too_long_is_refused() -> None:
    medium = RecordingMedium()
    publisher = Publisher(medium, NAME)
    publisher.publish(record(1))
    with pytest.raises(StorageError, match="append in smaller parts"):
        publisher.publish(TailRecord("j", 1, {f"{index:060}": (1, 1) for index in range(1000)}))
    assert Publications(medium, NAME).newest()[1] == record(1)
