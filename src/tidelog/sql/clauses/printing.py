"""Trees with event clauses as trees that DuckDB can print."""

from __future__ import annotations

import copy
import json
from typing import Any

from tidelog.sql.clauses.cutting import CLAUSE
from tidelog.sql.text.tree import LOCATIONS, Node, nodes


def clauses(tree: Any) -> list[Node]:
    """All clauses of a tree, and AS-OF joins with more beside them than DuckDB knows."""
    return [each for each in nodes(tree) if each["type"] == CLAUSE or "nearest" in each]


def printable(tree: Node, *, named: bool = False) -> Node:
    """A tree that DuckDB can print: clauses are names that say all of them, or are their words if ``named``."""
    if not clauses(tree):
        return tree
    own = copy.deepcopy(tree)
    for node in reversed(clauses(own)):  # those inside of others first
        if node["type"] != CLAUSE:
            beside = {name: node.pop(name) for name in ("nearest", "tolerance")}
            if not named:
                node["right"]["alias"] = json.dumps([node["right"]["alias"], _described(beside)])
            continue
        kept = {name: node[name] for name in ("alias", "column_name_alias", "sample")}
        whole = {key: value for key, value in node.items() if key not in kept}
        name = node["word"] if named else json.dumps(_described(whole))
        node.clear()
        node.update(
            type="BASE_TABLE",
            query_location=0,
            query_location_length=0,
            schema_name="",
            table_name=name,
            catalog_name="",
            at_clause=None,
            qualified_name={"path": [name]},
            **kept,
        )
    return own


def _described(value: Any) -> Any:
    """What was read, without where it stands."""
    if isinstance(value, dict):
        return {name: _described(each) for name, each in value.items() if name not in LOCATIONS}
    return [_described(each) for each in value] if isinstance(value, list) else value
