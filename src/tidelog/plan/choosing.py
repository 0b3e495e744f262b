"""Which plan of windows is taken: a replay of the rows, or one from the index, whichever is estimated to be faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tidelog.expr import UserCall
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.interval import Interval
from tidelog.operators.window.frames import FixedFrames, Frames
from tidelog.operators.window.timed import FromFirst
from tidelog.plan.answers import bounds, question_of
from tidelog.plan.calibration import weights_of
from tidelog.plan.cost import Merges, TreeShape, Weights, merges_of_slice, merges_of_slide
from tidelog.plan.slices import EntrySlices, Slices, StretchSlices
from tidelog.plan.windows import Bounds, RankWindowPlan, TimeWindowPlan, WindowPlan
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.aggregation import Question
from tidelog.store.read.aggregates.sources import Source
from tidelog.store.read.snapshot import Snapshot

REPLAY: Final = "replay"
NAIVE: Final = "naive"
OPTIMISED: Final = "optimised"


LEAST_LEAVES: Final = 1
"""Leaves that a slide must have: with less, all are cut, and their rows read."""


class NotIndexed(Exception):
    """Windows cannot come from the index, and why."""


@dataclass(frozen=True, slots=True)
class RankFrames:
    """Windows of ``size`` rows every ``slide`` rows."""

    size: int
    slide: int


@dataclass(frozen=True, slots=True)
class AskedWindows:
    """Windows of the rows of a stream in an interval, without keys."""

    snapshot: Snapshot
    options: StreamOptions
    numbers: SeqSet | None
    interval: Interval
    frames: Frames | FromFirst | RankFrames
    calls: Sequence[str]
    flags: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to windows, and the seconds that it is estimated to take of processors."""

    name: str
    seconds: float
    plan: WindowPlan | None = None
    """None for a replay, which is the operator's."""


def candidates(asked: AskedWindows) -> list[Candidate]:
    """All ways to windows that may be the fastest. Raises :class:`NotIndexed` if there is only the replay."""
    snapshot, interval, frames = asked.snapshot, asked.interval, asked.frames
    if not snapshot.has_all(interval.start, interval.end, asked.numbers):
        raise NotIndexed("only events up to a version count")
    question = question_of(snapshot, asked.options, [*asked.calls, "count(*)"])
    _check(question, asked)
    found = bounds(snapshot, asked.options, interval)
    if found is None:
        raise NotIndexed("there are no events")
    known = Bounds(*found)
    size, slide, slides = _sizes(frames, known)
    leaf_rows = asked.options.leaf_rows
    if slide < LEAST_LEAVES * leaf_rows and all(part.has_rows for part in snapshot.parts):
        raise NotIndexed(f"a slide has about {slide:,.0f} events, and blocks of {leaf_rows:,} would all be cut by some")
    tree = TreeShape.of(known.rows, leaf_rows, asked.options.fanout)
    merges = merges_of_slide(tree, size, slide)
    plans = _plans(asked, question, known)
    slices = plans[OPTIMISED].slices
    weights = weights_of(_key(question, slices, leaf_rows), slices, question.calls[:-1], leaf_rows)
    naive = Merges(merges_of_slice(tree, size).entries, 2 * min(slide, leaf_rows))
    seconds = {
        OPTIMISED: weights.of_index(merges, slides) + _known_before(slices, weights),
        NAIVE: weights.of_index(naive, slides + size / slide),
    }
    ways = [Candidate(name, seconds[name], plan) for name, plan in plans.items()]
    if all(part.has_rows for part in snapshot.in_range(interval.start, interval.end)[1]):
        ways.append(Candidate(REPLAY, weights.of_replay(known.rows)))
    return ways


def fastest(found: Sequence[Candidate]) -> Candidate:
    """The one that is estimated to be the fastest."""
    return min(found, key=lambda each: each.seconds)


def _plans(asked: AskedWindows, question: Question, known: Bounds) -> dict[str, WindowPlan]:
    """The plans from the index."""
    snapshot, interval, frames = asked.snapshot, asked.interval, asked.frames
    columns, counters = question.of_entries.columns, ReadCounters()
    if isinstance(frames, RankFrames):
        with_times = np.union1d(columns, [snapshot.layout.time])
        by_rank = StretchSlices(snapshot, question, interval, counters, with_times, by_rank=True)
        return {OPTIMISED: RankWindowPlan(by_rank, FixedFrames(frames.size, frames.slide))}
    if isinstance(frames, FromFirst):
        frames = FixedFrames(frames.size, frames.slide, known.first)
    frames.slices(np.array([known.first, known.last], np.int64))  # which raises if they reach out of the clock's range
    if question.of_states:
        by_time = StretchSlices(snapshot, question, interval, counters, columns, by_rank=False)
        return {OPTIMISED: TimeWindowPlan(by_time, frames, known, **asked.flags)}
    slices = EntrySlices(snapshot, question, interval, counters, columns)
    optimised = TimeWindowPlan(slices, frames, known, **asked.flags)
    return {OPTIMISED: optimised, NAIVE: replace(optimised, naive=True)}


def _sizes(frames: Frames | FromFirst | RankFrames, known: Bounds) -> tuple[float, float, float]:
    """The size and the slide of windows, in rows, and how many slides there are."""
    if isinstance(frames, RankFrames):
        return frames.size, frames.slide, known.rows / frames.slide
    ticks = known.last - known.first + 1
    rate = known.rows / ticks
    if isinstance(frames, FixedFrames | FromFirst):
        return frames.size * rate, frames.slide * rate, max(1.0, ticks / frames.slide)
    numbers = frames.numbers(np.array([known.first, known.last], np.int64))
    slides = max(1, int(numbers[1][1]) - int(numbers[1][0]))
    return frames.reach * rate, known.rows / slides, slides


def _known_before(slices: Slices, weights: Weights) -> float:
    """What is read, in seconds, however windows lie: the entries of all leaves, and rows of splits that overlap."""
    if not isinstance(slices, StretchSlices):
        return 0.0
    clusters = slices.clusters
    read = ~clusters.are_leaves
    return len(clusters) * weights.entry + 2 * float(clusters.rows[read].sum()) * weights.replayed_row


def _key(question: Question, slices: Slices, leaf_rows: int) -> tuple[str, ...]:
    stored = slices.snapshot.layout.stored
    types = [f"{name} {stored.field(name).type}" for call in question.calls for name in call.columns]
    return (type(slices).__name__, str(leaf_rows), *map(str, question.calls), *types)


def _check(question: Question, asked: AskedWindows) -> None:
    """Raise :class:`NotIndexed` unless the index keeps all that is asked."""
    snapshot, interval = asked.snapshot, asked.interval
    readings = list(zip(question.readings, asked.calls, strict=False))
    others = [call for each, call in readings if each.source is Source.ROWS]
    if others:
        raise NotIndexed(f"the index does not keep {', '.join(others)}")
    parts = [part for part in snapshot.in_range(interval.start, interval.end)[1] if not part.in_memory]
    for kept in {part.layout.states for part in parts} if question.of_states else ():
        folds = [(each.fold, call) for each, call in readings]
        missing = [call for fold, call in folds if isinstance(fold, UserCall) and not kept.has_all(fold.states)]
        if missing:
            raise NotIndexed(f"there are splits that do not keep {', '.join(missing)}")
    untold = [call for each, call in readings if isinstance(each.fold, UserCall) and each.fold.type is None]
    if untold:
        raise NotIndexed(f"{', '.join(untold)} does not tell the type of its values")
    if snapshot.is_shifted and question.of_entries.asks_numbers:
        raise NotIndexed("some splits count their events by themselves")
