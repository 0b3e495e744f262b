"""What EXPLAIN tells of a pattern of situations: when matches become known, and in which order it is searched."""

from __future__ import annotations

from tidelog.operators.situations.matching import Matcher
from tidelog.operators.situations.orders.planning import costs_of
from tidelog.operators.situations.relations import ANY, told
from tidelog.operators.situations.syntax import Mode, Situations


def explained(query: Situations, matcher: Matcher) -> list[str]:
    """Lines of text: first what a search begins with, then for each such situation the order, step by step."""
    names = [each.name for each in query.definitions]
    ordering, relations = matcher.ordering, matcher.relations
    statistics = ordering.plan.chosen_by
    begins = _begins(query, matcher, names)
    samples = ordering.samples
    lines = [f"matches become known when {', or '.join(begins)}"]
    lines.append(
        f"orders by what {samples} searches have measured, plan {ordering.plans}"
        if ordering.plans > 1
        else "orders by what is expected, for nothing has been measured yet that speaks against them"
    )
    for own in range(len(names)):
        if not matcher.triggers[own].any():
            continue
        order = [int(each) for each in ordering.plan.orders[own]]
        costs = costs_of(order, relations, statistics)
        lines.append(f"from {names[own]}, at a cost of {sum(costs):.4g}:")
        for step, cost in enumerate(costs, 1):
            other = order[step]
            partners = [
                f"{names[one]} {told(relations[one][other])} it ({statistics.shares[one, other]:.3g} of them)"
                for one in order[:step]
                if relations[one][other] != ANY
            ]
            lines.append(
                f"  {names[other]}, {statistics.sizes[other]:.4g} of them: {', '.join(partners)}; cost {cost:.4g}"
            )
    return lines


def _begins(query: Situations, matcher: Matcher, names: list[str]) -> list[str]:
    found = []
    for name, definition, (at_start, at_end) in zip(names, query.definitions, matcher.triggers.tolist(), strict=True):
        if at_start and definition.most is None and query.mode is Mode.EARLY:
            found.append(f"{name} has lasted {definition.least}" if definition.least else f"{name} starts")
        if at_end:
            found.append(f"{name} ends")
    return found
