"""Logical merge: what it costs to make one stream of several copies, in time, memory and delay, and what it gives.

``python benchmarks/merge.py --help`` tells the options.
"""

from __future__ import annotations

import sys

from harness import Bench, Bound, main
from questions.merge import adapters, availability, conditions, hashing, ordered, plans, revised

MILLION = 1_000_000
ORDERED, REVISED, SCALAR = MILLION, MILLION // 5, MILLION // 50

UNIQUE = Bound(0.5, 1.0, ORDERED)
"""The rate of R0, R1 and R2, against Polars' unique over the same elements."""
BY_ELEMENT = Bound(20, 50, REVISED)
"""The rate of R3 of arrays, against the reference."""
FASTER = {"arrays": Bound(1.0, 2.0, REVISED // 2), "elements": Bound(1.0, 2.0, SCALAR)}
"""The rate of R3 from four inputs on, against the other ways, all in the same form."""
GROWTH = Bound(1.4, 1.2, REVISED)
"""What R3 remembers with ten inputs, against two."""
CLEANSED = Bound(5, 7, REVISED)
"""What Cleanse and R1 remember with ten inputs, against R3."""


SWITCHED = Bound(4.0, 5.0, plans.ROWS)
"""How fast two plans with feedback are done, against the same without it."""


def ask(bench: Bench) -> None:
    """All questions about logical merge."""
    events = bench.size(ORDERED, ORDERED // 20)
    for algorithm in ordered.CASES:
        if bench.wants(ordered.title(algorithm)):
            ordered.ask(bench, events, algorithm, UNIQUE)
    events = bench.size(REVISED, REVISED // 20)
    for stables in (0.001, 0.01):
        if bench.wants(revised.speed_title(stables)):
            revised.ask_speed(bench, events, stables, BY_ELEMENT if stables < 0.01 else None)
    if bench.wants(hashing.TITLE):
        hashing.ask(bench, min(events, REVISED // 2))
    for model in adapters.MODELS:
        if bench.wants(adapters.title(model)):
            adapters.ask(bench, events, model)
    for form in FASTER:
        few = bench.size(REVISED // 2, REVISED // 40) if form == "arrays" else bench.size(SCALAR, SCALAR // 10)
        for inputs in revised.INPUTS[::2] if bench.quick else revised.INPUTS:
            if bench.wants(revised.rate_title(inputs, form)):
                revised.ask_rates(bench, few, inputs, form, FASTER[form])
    if bench.wants(revised.MEMORY):
        revised.ask_memory(bench, events, GROWTH, CLEANSED)
    if bench.wants(revised.LATENCY):
        revised.ask_latency(bench, events)
    if bench.wants(conditions.OUTPUT):
        conditions.ask_output(bench, events)
    if bench.wants("lag"):
        conditions.ask_lags(bench, events)
    if bench.wants("stables"):
        conditions.ask_stables(bench, events)
    longest = availability.FULL_SECONDS
    seconds = max(2, min(longest, bench.size(longest * availability.RATE, 6 * availability.RATE) // availability.RATE))
    if bench.wants(availability.BURSTS):
        availability.ask_bursts(bench, seconds)
    if bench.wants(availability.CONGESTION):
        availability.ask_congestion(bench, seconds)
    if bench.wants(plans.TITLE):
        plans.ask(bench, bench.size(plans.ROWS, plans.ROWS // 50), SWITCHED)


if __name__ == "__main__":
    sys.exit(main("merge", ask))
