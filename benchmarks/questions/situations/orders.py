"""Is the order that is chosen the best one, and does it follow what changes?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import Any, Final

import numpy as np
import pyarrow as pa

from formats import ours
from harness import Bench, Bound, Comparison, Figures, Question
from questions.situations import queries, rows
from questions.situations.answering import race
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import Mode

NAMES: Final = "ABC"
ADAPTIVE: Final = "occurrences that change"
LOST: Final = "what each fixed order loses in some phase"
SWITCHED: Final = "hard-coded switch"
_WITHIN: Final = 5_000
_ADAPTING_WITHIN: Final = 10_000
_RARE: Final = ("", "A", "B")
"""What comes one in fifty times as often, phase by phase."""
_SHARES: Final = (1, 10, 10)
"""How long phases last. The first has fifty times the matches of the others, whatever the order."""


def title(name: str) -> str:
    """The question about a query."""
    return f"all orders of {name}"


def _orders(plan: Sequence[int]) -> list[list[int]]:
    """A plan as orders from each situation on."""
    return [[first, *(each for each in plan if each != first)] for first in range(len(plan))]


def ask(bench: Bench, events: int, name: str, bound: Bound) -> None:
    """Race what is suggested against every order."""
    table = rows.attributes(events, NAMES)
    batches = queries.batches(table)
    query = queries.of_attributes(queries.THREE[name], _WITHIN, Mode.COMPLETED)

    def run(plan: Sequence[int] | None) -> int:
        operator = queries.operator_of(table, query)
        if plan is not None:
            operator.matcher.ordering.fix(_orders(plan))
        return queries.matches(operator, batches)

    plans = {"-".join(NAMES[each] for each in plan): partial(run, plan) for plan in permutations(range(3))}
    race(
        bench,
        title(name),
        events,
        {ours.NAME: partial(run, None), **plans},
        [Comparison("the best order", tuple(plans), bound)],
    )


def phases(events: int) -> pa.Table:
    """Three situations that come equally often, then A and then B rarely."""
    parts = []
    borders = [end * events // sum(_SHARES) for end in np.cumsum([0, *_SHARES]).tolist()]
    for rare, (begin, end) in zip(_RARE, pairwise(borders), strict=True):
        spans = dict.fromkeys(rare, ((4165, 4225), rows.DURATION))
        parts.append(rows.attributes(end - begin, NAMES, spans))
    columns = [np.concatenate([np.asarray(part.column(name)) for part in parts]) for name in ("a", "b", "c")]
    return pa.table([np.arange(len(columns[0])), *columns], names=["t", "a", "b", "c"])


def ask_adaptive(bench: Bench, events: int, bound: Bound, loses: Bound) -> None:
    """Race orders that follow against fixed ones, and against those that are right in each phase.

    Then how much longer than ours each fixed order takes in the phase in which it loses the most.
    """
    table = phases(events)
    size = max(100, min(queries.BATCH, events // 210))
    batches = queries.batches(table, size)
    ends = [round(end * len(batches)) for end in np.cumsum([0, *_SHARES]) / sum(_SHARES)]
    query = queries.of_attributes(queries.THREE["Q3"], _ADAPTING_WITHIN, Mode.COMPLETED)
    fixed = {"C-B-A": (2, 1, 0), "C-A-B": (2, 0, 1)}
    seconds: dict[str, list[list[float]]] = {}
    """Of each run what its phases took."""

    def run(name: str, plans: Sequence[Sequence[int]] | None) -> int:
        operator = queries.operator_of(table, query)
        found, spent = 0, []
        for phase in range(len(_RARE)):
            if plans is not None:
                operator.matcher.ordering.fix(_orders(plans[phase]))
            began = time.process_time()
            found += _matches(operator, batches[ends[phase] : ends[phase + 1]])
            spent.append(time.process_time() - began)
        seconds.setdefault(name, []).append(spent)
        return found

    work: dict[str, Any] = {
        ours.NAME: partial(run, ours.NAME, None),
        SWITCHED: partial(run, SWITCHED, [fixed["C-B-A"], fixed["C-A-B"], fixed["C-B-A"]]),
    }
    work |= {name: partial(run, name, [plan] * 3) for name, plan in fixed.items()}
    comparisons = [Comparison(SWITCHED, (SWITCHED,), bound), *(Comparison(name, (name,)) for name in fixed)]
    race(bench, ADAPTIVE, len(table), work, comparisons)
    phase_times = {name: np.median(runs, axis=0) for name, runs in seconds.items()}
    told = "; ".join(f"{name} {', '.join(f'{each:.2f}' for each in own)} s" for name, own in phase_times.items())
    bench.questions[-1].note += f"; CPU by phase, medians: {told}"
    lost = {name: float((phase_times[name] / phase_times[ours.NAME]).max()) for name in fixed}
    note = "; ".join(f"{name} {each:.2f}x" for name, each in lost.items())
    figures = Figures((min(lost.values()),))
    comparison = Comparison("ours in the same phase", (), loses)
    bench.answer(Question(LOST, "x", len(table), figures, {}, [comparison], note=note))


def _matches(operator: SituationsOperator, batches: Sequence[pa.RecordBatch]) -> int:
    found = 0
    for batch in batches:
        found += sum(each.num_rows for each in operator.push(0, batch))
        found += sum(each.num_rows for each in operator.advance(int(batch.column("t")[-1].as_py())))
    return found
