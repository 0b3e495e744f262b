"""Comparisons of what grows with time, such as ``time_bucket(INTERVAL '1 day', ts) >= x``, as ranges of time.

Where such a comparison becomes true or false is found by asking DuckDB for it at more and more times that are nearer
and nearer: nobody knows better what its functions mean, in the time zone of the session too.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.plan.answers import bounds
from tidelog.plan.reading import EVER
from tidelog.sql.planning.blocks import Block, NotSo, conjuncts, single
from tidelog.sql.text.tree import Node, nodes

_GROWING: Final = frozenset(
    {"epoch", "epoch_ms", "epoch_us", "epoch_ns", "year", "isoyear", "century", "decade", "millennium", "julian"}
)
_GROWING_PARTS: Final = frozenset({"year", "years", "y", "epoch", "isoyear", "century", "decade", "millennium"})
_TYPES: Final = frozenset(
    {"date", "timestamp", "timestamptz", "timestamp with time zone", "timestamp without time zone"}
)
_COMPARISONS: Final = frozenset(
    {"COMPARE_LESSTHAN", "COMPARE_GREATERTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHANOREQUALTO"}
)
_SAMPLES: Final = 1024
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def interval_of(block: Block, node: Node | None) -> Interval:
    """The one range of time that a condition means, and that it means nothing else. Raises :class:`NotSo` if not."""
    return single(intervals_of(block, node))


def intervals_of(block: Block, node: Node | None) -> Intervals:
    """The times that a condition means, and that it means nothing else. Raises :class:`NotSo` if it does."""
    try:
        return block.times(node)
    except NotSo as reason:
        result = EVER
        for part in conjuncts(node):
            try:
                result = result & block.times(part)
            except NotSo:
                found = times_of(block, part)
                if found is None or not found[1]:
                    raise reason from None
                result = result & found[0]
        return result


def times_of(block: Block, node: Node) -> tuple[Interval, bool] | None:
    """The times of events for which a comparison may be true, and whether it is true for all of them.

    None if it is no comparison of something that grows with time with a constant.
    """
    tests = _tests(block, node)
    if not tests:
        return None
    kind = block.relation.schema.field(block.relation.stream.time).type
    if not pa.types.is_timestamp(kind):
        return None
    found = [each for stream in block.relation.streams if (each := bounds(stream.snapshot, stream.options, Interval()))]
    if not found:
        return None
    low, high = min(first for first, _, _ in found), max(last for _, last, _ in found)
    result = Interval()
    for test in tests:
        times = _true_within(block, test, kind, low, high)
        if times is None:
            return None
        result = result.intersect(times)
    if not _names_zone(node) and (block.timezone == "UTC" or (kind.tz is None and not _has_moments(node))):
        return result, True
    # Clocks that are put back or forward make what grows with time shrink for an hour.
    start, end, day = result.start, result.end, _DAY[kind.unit]
    return Interval(None if start is None else start - day, None if end is None else end + day), False


def _names_zone(node: Node) -> bool:
    """Whether a condition names a time zone."""
    for each in nodes(node):
        name = each["function_name"].lower() if each.get("class") == "FUNCTION" else ""
        further = each["arguments"][2:] if name == "time_bucket" else ()
        texts = (one["expression"].get("literal", {}).get("kind") == "STRING" for one in further)
        if name == "timezone" or any(texts):
            return True
    return False


def _has_moments(node: Node) -> bool:
    """Whether a condition is about points in time, and not only about what clocks show."""
    for each in nodes(node):
        if each.get("class") == "CAST" and ("tz" in _type_name(each) or "zone" in _type_name(each)):
            return True
        if each.get("class") == "FUNCTION" and each["function_name"].lower() == "to_timestamp":
            return True
    return False


def _tests(block: Block, node: Node) -> list[Node]:
    """A condition as comparisons that must all hold, each of which is true up to some time, or from then on."""
    if node.get("class") == "COMPARISON" and node["type"] in _COMPARISONS | {"COMPARE_EQUAL"}:
        left, right = node["left"], node["right"]
        if not ((_grows(block, left) and is_constant(right)) or (_grows(block, right) and is_constant(left))):
            return []
        if node["type"] != "COMPARE_EQUAL":
            return [node]
        return [{**node, "type": each} for each in ("COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHANOREQUALTO")]
    if node.get("class") == "BETWEEN" and node["type"] == "COMPARE_BETWEEN" and _grows(block, node["input"]):
        if not (is_constant(node["lower"]) and is_constant(node["upper"])):
            return []
        common = {"class": "COMPARISON", "alias": "", "left": node["input"]}
        return [
            {**common, "type": "COMPARE_GREATERTHANOREQUALTO", "right": node["lower"]},
            {**common, "type": "COMPARE_LESSTHANOREQUALTO", "right": node["upper"]},
        ]
    return []


def _grows(block: Block, node: Node) -> bool:
    """Whether an expression grows, or shrinks, with the time of events, and depends on nothing else."""
    kind = node.get("class")
    if kind == "COLUMN_REF":
        return block.column(node) == block.relation.stream.time
    if kind == "CAST":
        return not node["try_cast"] and _type_name(node) in _TYPES and _grows(block, node["child"])
    if kind != "FUNCTION":
        return False
    name, arguments = node["function_name"].lower(), [each["expression"] for each in node["arguments"]]
    if name in _GROWING:
        return len(arguments) == 1 and _grows(block, arguments[0])
    if name in ("date_part", "datepart"):
        part = str(arguments[0].get("literal", {}).get("text", "")).lower()
        return part in _GROWING_PARTS and _grows(block, arguments[1])
    if name in ("time_bucket", "date_trunc", "datetrunc", "timezone") and len(arguments) >= 2:
        rest = [*arguments[:1], *arguments[2:]]
        return all(map(is_constant, rest)) and _grows(block, arguments[1])
    if name in ("+", "-") and len(arguments) == 2:
        one, other = arguments
        return (is_constant(other) and _grows(block, one)) or (is_constant(one) and _grows(block, other))
    return False


def _type_name(cast: Node) -> str:
    return str(cast["type_expr"].get("type_name", "")).lower()


def is_constant(node: Any) -> bool:
    """Whether an expression is made of constants, without a function whose value may change."""
    found = list(nodes(node))
    return not any(
        each.get("class") in ("COLUMN_REF", "SUBQUERY", "WINDOW", "LAMBDA", "STAR") for each in found
    ) and all(each.get("class") != "FUNCTION" or each["function_name"].lower() in _PURE for each in found)


_PURE: Final = frozenset(
    {"+", "-", "*", "/", "//", "trunc", "date_trunc", "time_bucket", "make_date", "make_timestamp", "to_timestamp"}
    | {f"to_{each}" for each in ("years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds")}
    | {"to_microseconds", "timezone", "epoch", "epoch_ms", "epoch_us"}
)


def _true_within(block: Block, test: Node, kind: pa.DataType, low: int, high: int) -> Interval | None:
    """The times from ``low`` to ``high`` for which a comparison is true that changes once at the most.

    Unbounded where it is true at the end. None if it changes more often, or cannot be computed.
    """
    text = block.text(copy.deepcopy(test))
    time = block.relation.stream.time

    def holds(ticks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        return block.parser.truths(text, pa.table({time: pa.array(ticks, pa.int64()).cast(kind)}))

    first, last = low, high
    while True:
        ticks = np.unique(np.array([first + (last - first) * step // _SAMPLES for step in range(_SAMPLES + 1)]))
        truths = holds(ticks)
        if truths is None:
            return None
        changes = np.flatnonzero(truths[1:] != truths[:-1])
        if len(changes) > 1:
            return None
        if not len(changes):
            return Interval() if truths[0] else Interval(0, 0)
        first, last = int(ticks[changes[0]]), int(ticks[changes[0] + 1])
        if last - first == 1:
            return Interval(last, None) if truths[-1] else Interval(None, last)
