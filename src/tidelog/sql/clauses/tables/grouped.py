"""``FROM TUMBLE(...) GROUP BY window_start, window_end`` is ``GROUP BY window(...)``, by whatever that is computed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Final

from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.cutting import CLAUSE
from tidelog.sql.clauses.grouping import calls, same_value
from tidelog.sql.clauses.tables.reading import WORDS, window_call
from tidelog.sql.text.tree import Node, nodes

_ENDS: Final = ("window_start", "window_end")
_COLUMNS: Final = (*_ENDS, "window_time")


def is_window_table(node: Node) -> bool:
    """Whether a relation is one of windows."""
    return bool(node["type"] == CLAUSE and node["word"] in WORDS)


def group_by_windows(select: Node, context: Context) -> None:
    """Have a selection from windows that is grouped by these group its rows by them; else say why not."""
    clause = select["from_table"]
    if not is_window_table(clause):
        return
    aggregates = context.functions.of_duckdb | context.functions.own
    reason = regroup(select, aggregates, lambda: window_call(clause, context.parser))
    if reason is not None:
        clause["reason"] = reason


def regroup(select: Node, aggregates: frozenset[str], call: Callable[[], Node]) -> str | None:
    """The same; gives why not."""
    clause = select["from_table"]
    groups = _groups(select, aggregates)
    if groups is None:
        return "there are several sets of groups"
    ends = {_column(each) for each in groups} & set(_ENDS)
    if not ends or (clause["word"] == "SESSION" and len(ends) < len(_ENDS)):
        return "the selection is not grouped by window_start and window_end"
    keys = [each for each in groups if _column(each) is None]
    if any(_column(each) == "window_time" for each in nodes(select["select_list"])):
        return "window_time is selected"
    if any(_column(each) for each in nodes([select["where_clause"], keys])):
        return "there are conditions or groups by more than the windows themselves"
    if any(_column(each) for node in nodes(select) if calls(node, *aggregates) for each in nodes(node["arguments"])):
        return "there are aggregates of the windows themselves"
    if clause["word"] == "SESSION" and not _same(keys, clause["keys"]):
        return "sessions are partitioned by other columns than those of GROUP BY"
    if clause["sample"] or clause["column_name_alias"]:
        return "the windows are sampled, or their columns have other names"
    table = clause["inputs"][0]
    table["alias"] = clause["alias"] or table["alias"]
    made = [call(), *copy.deepcopy(keys)]
    select.update(
        from_table=table,
        group_expressions=made,
        group_sets=[list(range(len(made)))],
        aggregate_handling="STANDARD_HANDLING",
    )
    return None


def _groups(select: Node, aggregates: frozenset[str]) -> list[Node] | None:
    """What rows are grouped by, whether that is told by names, places or ``ALL``; None if there are several sets."""
    items = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        return [each for each in items if not any(calls(node, *aggregates) for node in nodes(each))]
    if len(select["group_sets"]) > 1:
        return None
    found = []
    for group in select["group_expressions"]:
        if group.get("class") == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
            place = int(group["literal"]["text"])
            group = items[place - 1] if 1 <= place <= len(items) else group
        elif group.get("class") == "COLUMN_REF" and len(group["column_names"]) == 1:
            named = (each for each in items if each.get("alias", "").lower() == group["column_names"][0].lower())
            group = next((each for each in named if _column(each) is not None), group)
        found.append(group)
    return found


def _column(node: Node) -> str | None:
    """The column of a window that a node is; None if it is none."""
    if node.get("class") != "COLUMN_REF" or node["column_names"][-1].lower() not in _COLUMNS:
        return None
    return str(node["column_names"][-1]).lower()


def _same(some: list[Node], others: list[Node]) -> bool:
    return all(any(same_value(one, other) for other in others) for one in some) and all(
        any(same_value(one, other) for one in some) for other in others
    )
