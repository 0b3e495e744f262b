"""Conditions around a row pattern that decide about whole partitions, so that the input can do without these."""

from __future__ import annotations

import copy
from typing import Final

from tidelog.sql.clauses.context import Scope
from tidelog.sql.planning.blocks import conjuncts
from tidelog.sql.text.tree import Node, nodes

_PLAIN: Final = frozenset({"COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CONSTANT", "COLUMN_REF"})
"""Nodes of conditions that give the same, and no error, wherever they are computed."""


def partition_condition(clause: Node, scope: Scope) -> Node | None:
    """What the selection of a clause asks of the columns of its partition, and of nothing else, about the input.

    None if it asks nothing. Partitions for which it does not hold have no row that the selection takes, and others do
    not depend on them. With more than the clause behind FROM nothing is told: rows of a join may be without a match.
    """
    if scope.select["from_table"] is not clause or clause["column_name_alias"] or clause["sample"]:
        return None
    keys = {
        each["column_names"][-1].lower(): each
        for each in clause["partition"]
        if each.get("class") == "COLUMN_REF" and len(each["column_names"]) <= 2
    }
    found = []
    for part in conjuncts(scope.select["where_clause"]):
        own = copy.deepcopy(part)
        inside = list(nodes(own))
        columns = [each for each in inside if each.get("class") == "COLUMN_REF"]
        if not columns or not all(each.get("class") in _PLAIN for each in inside):
            continue
        if all(_is_key(each, clause["alias"], keys) for each in columns):
            for each in columns:
                each["column_names"] = list(keys[each["column_names"][-1].lower()]["column_names"])
            found.append(own)
    if len(found) < 2:
        return found[0] if found else None
    return {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": found}


def _is_key(column: Node, alias: str, keys: dict[str, Node]) -> bool:
    *before, name = column["column_names"]
    return name.lower() in keys and (not before or [each.lower() for each in before] == [alias.lower()])
