"""What does it cost to find patterns of situations, with a thousand keys, with long windows, with many definitions?"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from formats import ours
from harness import Bench, Bound, Comparison
from questions.situations import queries, rows
from questions.situations.answering import race
from questions.situations.iseq import operator as iseq
from tidelog.operators.situations.relations import NAMES
from tidelog.operators.situations.syntax import Mode, Situations

DRIVERS: Final = "aggressive drivers, a thousand cars"
NUMPY_AND_SORT: Final = "5x NumPy's conditions, 1.5x Polars' sort"
COMPLETED: Final = "completed"
WINDOWS: Final = (500, 5_000, 20_000, 100_000)
SHAPES: Final = ("equal", "meets", "chain", "star", "combined")
FOUR: Final = "four streams"
_INSTANCES: Final = 3
_SCENES: Final = 8


def window_title(within: int) -> str:
    """The question about a window."""
    return f"disconnected pattern, window {within:,} s"


def streams_title(shape: str) -> str:
    """The question about a shape of patterns."""
    return f"ten streams, {shape}"


def ask_drivers(bench: Bench, table: pa.Table, bound: Bound, early: Bound) -> None:
    """Race the query, completed, against its conditions and a sort of the columns it uses; and early against it."""
    batches = queries.batches(table)
    whole = pl.from_arrow(table.combine_chunks())
    assert isinstance(whole, pl.DataFrame)
    up, fast, down = queries.thresholds(table)
    speed, accel = (np.asarray(table.column(name).combine_chunks()) for name in ("speed", "accel"))

    def simple() -> int:
        for _ in range(10):
            _conditions = [accel > up, speed > fast, accel < down]
        for _ in range(3):
            whole.sort("car", maintain_order=True)
        return 0

    def run(mode: Mode) -> int:
        return queries.matches(queries.operator_of(table, queries.drivers(table, mode)), batches)

    def twice() -> int:
        return run(Mode.COMPLETED) + run(Mode.COMPLETED)

    if bench.wants(DRIVERS):
        race(
            bench,
            DRIVERS,
            2 * len(table),
            {ours.NAME: twice, NUMPY_AND_SORT: simple},
            [Comparison(NUMPY_AND_SORT, (NUMPY_AND_SORT,), bound)],
            unequal=[NUMPY_AND_SORT],
            note="everybody twice: ten times the conditions, three sorts",
        )
    title = f"{DRIVERS}, early"
    if bench.wants(title):
        work = {ours.NAME: partial(run, Mode.EARLY), COMPLETED: partial(run, Mode.COMPLETED)}
        race(bench, title, len(table), work, [Comparison(COMPLETED, (COMPLETED,), early)], unequal=[COMPLETED])


def ask_window(bench: Bench, events: int, within: int, bound: Bound | None, early: Bound) -> None:
    """Race the early search against the completed one, and that of ISEQ."""
    table = rows.attributes(events, "ABCD")
    batches = queries.batches(table)
    query = partial(queries.of_attributes, queries.DISCONNECTED, within)

    def run(mode: Mode) -> int:
        return queries.matches(queries.operator_of(table, query(mode)), batches)

    def scan() -> int:
        return queries.matches(iseq.operator_of(table, query(Mode.COMPLETED)), batches)

    title = window_title(within)
    if bench.wants(title):
        work = {ours.NAME: partial(run, Mode.COMPLETED), iseq.NAME: scan}
        race(bench, title, events, work, [Comparison(iseq.NAME, (iseq.NAME,), bound)])
    if bench.wants(f"{title}, early"):
        work = {ours.NAME: partial(run, Mode.EARLY), COMPLETED: partial(run, Mode.COMPLETED)}
        comparisons = [Comparison(COMPLETED, (COMPLETED,), early)]
        race(bench, f"{title}, early", events, work, comparisons, unequal=[COMPLETED])


def ask_streams(bench: Bench, events: int, shape: str, bound: Bound) -> None:
    """Race patterns of ten situations against those of four, over the same rows.

    Of ten that come as they like hardly any are in such relations, so there are scenes in which they are, for either.
    """
    names = "ABCDEFGHIJ"
    plain = rows.attributes(events, names)
    work = []
    for instance in range(_INSTANCES):
        patterns = {count: _pattern(shape, names[:count], instance) for count in (4, 10)}
        table = rows.with_scenes(plain, [_scene(pattern) for pattern in patterns.values()] * _SCENES)
        batches = queries.batches(table)
        work.append((table, batches, {count: _query(pattern) for count, pattern in patterns.items()}))

    def run(count: int) -> int:
        found = [queries.matches(queries.operator_of(table, asked[count]), batches) for table, batches, asked in work]
        if min(found) < _SCENES:
            raise AssertionError(f"found {found} matches of {count} situations; expected {_SCENES} of each pattern")
        return sum(found)

    note = (
        f"{_INSTANCES} patterns each, with at most one 'before' or 'after' of two neighbours; each has {_SCENES} "
        "scenes in which it matches"
    )
    own = {ours.NAME: partial(run, 10), FOUR: partial(run, 4)}
    race(bench, streams_title(shape), events, own, [Comparison(FOUR, (FOUR,), bound)], unequal=[FOUR], note=note)


def _query(pattern: queries.Pattern) -> Situations:
    return queries.of_attributes(pattern, 2_000, Mode.COMPLETED)


def _scene(pattern: queries.Pattern) -> dict[str, rows.Span]:
    """A match of a pattern in which each situation but the first is in a relation to one before it."""
    found: dict[str, rows.Span] = {}
    for (one, other), name in pattern.items():
        start, end = found.setdefault(one.lower(), (0, 40))
        found[other.lower()] = {
            "before": (end + 1, end + 41),
            "meets": (end, end + 40),
            "overlaps": (start + 1, end + 1),
            "starts": (start, end + 1),
            "during": (start - 1, end + 1),
            "finishes": (start - 1, end),
            "equals": (start, end),
            "after": (start - 41, start - 1),
            "met by": (start - 40, start),
            "overlapped by": (start - 1, end - 1),
            "started by": (start, end - 1),
            "contains": (start + 1, end - 1),
            "finished by": (start + 1, end),
        }[name]
    return found


def _pattern(shape: str, names: str, instance: int) -> queries.Pattern:
    """Neighbours, or the first and each other one, are in a relation; the first half and the rest, if combined."""
    dice: Any = np.random.default_rng(instance)
    pairs = []
    for place in range(1, len(names)):
        is_chain = shape in ("equal", "meets", "chain") or (shape == "combined" and place < len(names) // 2)
        pairs.append((names[place - 1] if is_chain else names[0], names[place]))
    if shape in ("equal", "meets"):
        return dict.fromkeys(pairs, "equals" if shape == "equal" else "meets")
    found: queries.Pattern = {}
    for pair in pairs:
        has_far = any(name in ("before", "after") for name in found.values())
        choices = [name for name in NAMES if not (has_far and name in ("before", "after"))]
        found[pair] = str(dice.choice(choices))
    return found
