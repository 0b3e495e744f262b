"""Crashes while rows are set aside, and while appends are sent again because of a crash before.

The promise: however often there is a crash, when a producer has sent its appends again each row is in one of the two
streams, once; also rows that are the same in all values, of one append, of several, and of different producers, and
whatever is too late by the time they come again. The oracle is a count of what was sent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pytest

from support.media.crash import Crash, RecordingMedium, kills, power_losses, random_power_losses
from support.streams.history import NAME, SCHEMA, SMALL, rows_of, table
from tidelog.engine.store import Store

ASIDE = f"{NAME}.late"
LATENESS = 30
OPTIONS = {**SMALL, "late_rows": 3, "journal_bytes": 600, "lateness": LATENESS, "too_late": "aside"}
"""Journals are replaced after a few appends, so what is settled is forgotten."""

Rows: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Sent:
    """An append with a number, or rows without one, which may be lost."""

    rows: Rows = ()
    producer: str | None = None
    number: int | None = None


FLUSH = Sent()
EVOLVE = Sent()
"""Both streams get another column."""

HISTORY = (
    Sent(((60, 1), (60, 1)), "p", 0),
    FLUSH,
    Sent(((50, 3), (50, 3)), "p", 1),
    Sent(((100, 2), (50, 3), (90, 3), (50, 3)), "p", 2),
    Sent(((50, 3), (101, 4)), "q", 7),
    Sent(((90, 3), (50, 3)), "q", 8),
    FLUSH,
    Sent(((120, -1),)),
    Sent(((50, 3), (85, 5), (85, 5), (120, 6)), "p", 3),
    Sent(((85, 5), (85, 5), (160, 7), (85, 5)), "q", 9),
    Sent(((85, 5), (120, 6), (50, 3)), "p", 4),
    FLUSH,
    Sent(((85, 5), (50, 3)), "p", 5),
    Sent((), "p", 6),
    Sent(((200, -2),)),
    Sent(((165, 8), (170, 8), (165, 8)), "q", 11),
    Sent(((165, 8), (50, 3), (201, 9)), "p", 7),
)
"""Rows that are too late and the same as others, which were set aside or not; with and without flushes behind them."""

SENT_BEFORE = -1000

NEWEST: tuple[int | None, ...] = (None, 70, 130, 1000)
"""What else may come before the appends are sent again: nothing, or a row that makes more of them too late."""


def send(medium: RecordingMedium, history: Sequence[Sent], *, creates: bool = False) -> range:
    """Do what a history says; returns the positions of the medium's log at which there may be a crash meanwhile."""
    start = len(medium.log)
    store = Store(medium, maintenance="manual")
    stream = store.create_stream(NAME, SCHEMA, "ts", **OPTIONS) if creates else store.stream(NAME)
    for index, sent in enumerate(history):
        if creates:
            medium.mark(index + 1)
        if sent is FLUSH:
            stream.flush()
        elif sent is EVOLVE:
            stream.evolve(add={f"column {len(stream.schema.names)}": pa.int8()})
        else:
            stream.append(table(sent.rows), producer=sent.producer, number=sent.number)
    positions = range(start, len(medium.log) + 1)
    store.close()  # which comes too late for what is looked at
    return positions


def again(history: Sequence[Sent], newest: Sequence[int | None], dice: random.Random) -> list[Sent]:
    """The appends of a history as they are sent again, with flushes between some of them."""
    time = dice.choice(newest)
    result = [] if time is None else [Sent(((time, SENT_BEFORE),))]
    for sent in history:
        if sent.producer is not None:
            result += [sent, FLUSH] if dice.random() < 0.3 else [sent]
    if dice.random() < 0.2:
        result.insert(dice.randrange(len(result) + 1), EVOLVE)
    return result


def judge(medium: RecordingMedium, history: Sequence[Sent]) -> None:
    """Send everything again, and count."""
    expected = Counter(row for sent in history if sent.producer is not None for row in sent.rows)
    numbers = {sent.producer: sent.number for sent in history if sent.producer is not None}
    for _ in range(2):  # as it is in memory, and as it is on disk
        with Store(medium, maintenance="manual") as store:
            stream = store.stream(NAME)
            for sent in history:
                if sent.producer is not None:
                    stream.append(table(sent.rows), producer=sent.producer, number=sent.number)
            found = [*rows_of(stream), *(rows_of(store.stream(ASIDE)) if ASIDE in store else [])]
            counts = Counter((row.time, row.id) for row in found if row.id >= 0)
            assert counts == expected, f"missing {expected - counts}, too many {counts - expected}"
            others = Counter(row.id for row in found if row.id < 0 and row.id != SENT_BEFORE)
            assert all(count == 1 for count in others.values()), f"too many {others}"
            for producer, number in numbers.items():
                assert producer is not None
                assert stream.last_number(producer) == number
    with Store(medium, maintenance="manual") as store:
        assert store.check() == []


Crashes: TypeAlias = Callable[[RecordingMedium, range], Iterator[Crash]]


def killed(medium: RecordingMedium, positions: range) -> Iterator[Crash]:
    return kills(medium, positions)


def powerless(medium: RecordingMedium, positions: range) -> Iterator[Crash]:
    return random_power_losses(medium, 1, len(medium.log), positions)


def nastily_powerless(medium: RecordingMedium, positions: range) -> Iterator[Crash]:
    return power_losses(medium, positions, singles=2)


def crash_twice(first: Crashes, second: Crashes, every: int, each: int) -> int:
    """Crash everywhere in the history, and in sending it again; returns how often."""
    medium = RecordingMedium()
    count, positions = 0, send(medium, HISTORY, creates=True)
    for index, crash in enumerate(first(medium, positions)):
        if index % every or not crash.marks:
            continue
        begun = HISTORY[: crash.marks[-1]]
        survivor = crash.medium()
        sent = again(begun, NEWEST, random.Random(index))
        for number, next_crash in enumerate(second(survivor, send(survivor, sent))):
            if (number + index) % each:
                continue
            count += 1
            try:
                judge(next_crash.medium(), begun)
            except Exception as error:
                raise AssertionError(f"{error!r} after {crash}, then {sent}, and then {next_crash}") from error
    return count


KINDS: list[tuple[Crashes, Crashes]] = [
    (killed, killed),
    (killed, powerless),
    (powerless, killed),
    (powerless, powerless),
    (powerless, nastily_powerless),
]


@pytest.mark.parametrize(("first", "second"), KINDS)
def test_a_crash_while_appends_are_sent_again(first: Crashes, second: Crashes) -> None:
    assert crash_twice(first, second, 17, 131 if second is nastily_powerless else 13) > 25


@pytest.mark.soak
@pytest.mark.parametrize(("first", "second"), KINDS)
def test_soak_a_crash_anywhere_while_appends_are_sent_again(first: Crashes, second: Crashes) -> None:
    assert crash_twice(first, second, 1, 1) > 1000


def walk(seed: int) -> int:
    """Any history, any number of crashes of any kind; returns how many there were."""
    dice = random.Random(seed)
    history, now = list[Sent](), 100
    numbers = Counter[str]()
    for _ in range(dice.randrange(4, 14)):
        now += dice.choice([0, 10, 40])
        rows = tuple((now - dice.choice([0, 5, 20, 45, 60]), dice.randrange(3)) for _ in range(dice.randrange(6)))
        kind = dice.random()
        if kind < 0.2:
            history.append(FLUSH)
        elif kind < 0.25:
            history.append(EVOLVE)
        elif kind < 0.35:
            history.append(Sent(((now, -1 - len(history)),)))
        else:
            producer = dice.choice("pq")
            history.append(Sent(rows, producer, numbers[producer]))
            numbers[producer] += dice.choice([1, 1, 3])
    medium = RecordingMedium()
    positions, begun = send(medium, history, creates=True), history
    for depth in range(dice.randrange(2, 6)):
        if depth:
            positions = send(medium, again(begun, [None, now - 40, now, now + 100], dice))
        kind = dice.choice([killed, powerless])
        at = dice.choice(positions)
        crash = dice.choice(list(kind(medium, range(at, at + 1))))
        if not depth:
            if not crash.marks:
                return 0
            begun = history[: crash.marks[-1]]
        medium = crash.medium()
    try:
        judge(medium, begun)
    except Exception as error:
        raise AssertionError(f"{error!r} with seed {seed} of {begun}") from error
    return 1


def test_any_number_of_crashes() -> None:
    assert sum(walk(seed) for seed in range(40)) > 20


@pytest.mark.soak
def test_soak_any_number_of_crashes() -> None:
    assert sum(walk(seed) for seed in range(1000, 6000)) > 2000
