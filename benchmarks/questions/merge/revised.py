"""What does a merge of revised copies cost in time and memory, as there are more of them?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Outcome, Question
from questions.merge.contestants import (
    CLEANSED,
    CONTESTANTS,
    R3_SEPARATE,
    R3_SHARED,
    Texts,
    elements_of,
    merged,
    scalar,
)
from questions.merge.copies import Copies, adjust_share, batches, payloads, revised
from tidelog.operators.merge.batches.engine import Keyed, Rows
from tidelog.operators.merge.elements import Element

SCALAR = "element by element"
LATENCY = "latency"
INPUTS = (2, 4, 6, 8, 10)


def speed_title(stables: float) -> str:
    """The name of the question about arrays against single elements."""
    return f"R3 with {stables:.1%} stables"


def ask_speed(bench: Bench, events: int, stables: float, bound: Bound | None) -> None:
    """Race R3 of arrays against the reference, with payloads that are numbers."""
    copies = revised(Copies(events, 3, stables=stables))
    texts = np.zeros((events, 0), np.uint8)
    turns = _turns(copies, texts)
    cases = [
        Case(OURS, lambda _: sum(out.shape[1] for out in _keyed(copies))),
        Case(SCALAR, lambda _: _by_element(R3_SHARED, len(copies), turns)),
    ]
    _answer_rates(
        bench,
        speed_title(stables),
        copies,
        _same(bench, speed_title(stables), cases),
        [Comparison(SCALAR, (SCALAR,), bound)],
        f"3 inputs, {adjust_share(copies[0]):.0%} adjusts, payloads as numbers",
    )


def rate_title(inputs: int, form: str) -> str:
    """The name of the question about how fast so many inputs are merged."""
    return f"{inputs} inputs, {form}"


def ask_rates(bench: Bench, events: int, inputs: int, form: str, bound: Bound) -> None:
    """Race R3 against an index for each input and against Cleanse, all with payloads of 1,000 bytes."""
    copies, texts = revised(Copies(events, inputs)), payloads(events)
    name = rate_title(inputs, form)
    if form == "arrays":
        cases = [
            Case(each, lambda _, each=each: merged(CONTESTANTS[each](inputs, texts, events), batches(copies)))  # type: ignore[misc]
            for each in CONTESTANTS
        ]
    else:
        turns = _turns(copies, texts)
        cases = [Case(each, lambda _, each=each: _by_element(each, inputs, turns)) for each in CONTESTANTS]  # type: ignore[misc]
    outcomes = bench.race(name, cases)
    _answer_rates(
        bench,
        name,
        copies,
        {OURS: outcomes.pop(R3_SHARED), **outcomes},
        [Comparison(peer, (peer,), bound if inputs >= 4 else None) for peer in (R3_SEPARATE, CLEANSED)],
        f"{adjust_share(copies[0]):.0%} adjusts, 0.1 % stables, payloads of 1,000 bytes",
        events,
    )


MEMORY = "memory with 10 inputs"


def ask_memory(bench: Bench, events: int, growth: Bound, cleansed: Bound) -> None:
    """The most that is remembered at the end of any batch."""
    texts = payloads(events)
    found: dict[tuple[str, int], int] = {}
    for inputs in INPUTS:
        copies = revised(Copies(events, inputs))
        for name, make in CONTESTANTS.items():
            contestant, most = make(inputs, texts, events), 0
            for number, rows in batches(copies):
                contestant.push(number, rows)
                most = max(most, contestant.memory)
            found[name, inputs] = most
    few = f"{R3_SHARED} with 2 inputs"
    curves = "; ".join(
        f"{name}: {', '.join(f'{found[name, inputs] / 1e6:.1f}' for inputs in INPUTS)}" for name in CONTESTANTS
    )
    bench.answer(
        Question(
            MEMORY,
            "MB",
            events,
            _one(found[R3_SHARED, 10] / 1e6),
            {few: _one(found[R3_SHARED, 2] / 1e6)},
            [Comparison(few, (few,), growth)],
            higher_is_better=False,
            note=f"events, payloads and indexes with {', '.join(map(str, INPUTS))} inputs: {curves}",
        )
    )
    bench.answer(
        Question(
            f"{MEMORY}, {CLEANSED}",
            "MB",
            events,
            _one(found[CLEANSED, 10] / 1e6),
            {R3_SHARED: _one(found[R3_SHARED, 10] / 1e6)},
            [Comparison(R3_SHARED, (R3_SHARED,), cleansed)],
            note="how much more the other way takes: more is better for R3",
        )
    )


def ask_latency(bench: Bench, events: int) -> None:
    """How many elements are read between the first copy of an event and its coming out, on average."""
    copies, texts = revised(Copies(events, 4)), payloads(events)
    waits = {}
    for name in (R3_SHARED, CLEANSED):
        contestant = CONTESTANTS[name](4, texts, events)
        first, given = np.full(events, -1, np.int64), np.full(events, -1, np.int64)
        read = 0
        for number, rows in batches(copies):
            _note_first(first, rows, read)
            _note_first(given, contestant.push(number, rows), read)
            read += rows.shape[1]
        waits[name] = float((given - first).mean())
    bench.answer(
        Question(
            LATENCY,
            "elements read between the first copy and the output",
            events,
            _one(waits[R3_SHARED]),
            {CLEANSED: _one(waits[CLEANSED])},
            [Comparison("at most", (), Bound(0.0, 0.0, 0))],
            higher_is_better=False,
            note="by whole batches: 0 is the batch that brought the first copy",
        )
    )


def _note_first(places: np.ndarray, rows: Rows, read: int) -> None:  # type: ignore[type-arg]
    payloads_ = rows[1, rows[0] == 0]
    payloads_ = payloads_[places[payloads_] < 0]
    places[payloads_] = read


def _one(value: float) -> Figures:
    return Figures((value,))


def _keyed(copies: Sequence[Rows]) -> list[Rows]:
    merge = Keyed()
    for number in range(len(copies)):
        merge.attach(str(number))
    return [merge.push(str(number), rows) for number, rows in batches(copies)]


def _turns(copies: Sequence[Rows], texts: Texts) -> list[tuple[int, list[Element]]]:
    return [(number, elements_of(rows, texts)) for number, rows in batches(copies)]


def _by_element(name: str, inputs: int, turns: Sequence[tuple[int, list[Element]]]) -> int:
    push = scalar(name, inputs)
    return sum(len(push(number, element)) for number, elements in turns for element in elements)


def _same(bench: Bench, title: str, cases: list[Case]) -> dict[str, Outcome]:
    """Race; all give as many elements."""
    counts: dict[str, int] = {}

    def checked(case: Case) -> Case:
        def check(count: int) -> None:
            counts[case.name] = count
            if len(set(counts.values())) > 1:
                raise AssertionError(f"{title}: found {counts} elements, expected as many by all")

        return Case(case.name, case.work, check=check)

    return bench.race(title, [checked(case) for case in cases])


def _answer_rates(
    bench: Bench,
    title: str,
    copies: Sequence[Rows],
    outcomes: dict[str, Outcome],
    comparisons: Sequence[Comparison],
    note: str,
    events: int | None = None,
) -> None:
    elements = sum(copy.shape[1] for copy in copies)
    figures = {name: Figures.of(each, lambda sample: elements / sample.wall / 1e6) for name, each in outcomes.items()}
    ours = figures.pop(OURS)
    bench.answer(
        Question(title, "million elements/s of all inputs", events or elements, ours, figures, comparisons, note=note)
    )
