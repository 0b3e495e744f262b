"""Event clauses in a tree become relations that operators give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.cutting import CLAUSE
from tidelog.sql.clauses.groups import group_by_keys
from tidelog.sql.clauses.joins.asof import is_as_of, make_as_of
from tidelog.sql.clauses.joins.windowed import make_window_join
from tidelog.sql.clauses.merging.making import make_merge
from tidelog.sql.clauses.operation import Operation
from tidelog.sql.clauses.pattern_windows.making import make_pattern_window
from tidelog.sql.clauses.row_pattern.making import make_row_pattern
from tidelog.sql.clauses.situations.making import make_situations
from tidelog.sql.clauses.tables.grouped import group_by_windows
from tidelog.sql.clauses.tables.rows import make_window_rows
from tidelog.sql.clauses.windows import has_windows, make_windows, refuse_windows
from tidelog.sql.text.tree import Node, nodes

Maker: TypeAlias = Callable[[Node, Scope, Context], Operation]
"""Makes the operation of a clause, whose relation will have the clause's name, ``alias``, in the statement."""

MAKERS: Final[Mapping[str, Maker]] = {
    "WINDOW_JOIN": make_window_join,
    "LOGICAL_MERGE": make_merge,
    "TUMBLE": make_window_rows,
    "HOP": make_window_rows,
    "SESSION": make_window_rows,
    "MATCH_RECOGNIZE": make_row_pattern,
    "SITUATIONS": make_situations,
    "DERIVE": make_situations,
    "WINDOW": make_pattern_window,
}
"""By the words that clauses begin with."""


def put_clauses(tree: Node, context: Context) -> Iterator[tuple[str, Operation]]:
    """Put relations in the place of event clauses; gives them one by one with their names.

    Those inside of others come first, and have to be known to connections before the next is asked for.
    """
    for node in [each for each in nodes(tree) if each["type"] == "SELECT_NODE"]:
        group_by_windows(node, context)
        group_by_keys(node, context)
    number = 0
    for node, scope in _found(tree["statements"][0]["node"], None, []):
        found = _made(node, scope, number, context)
        if found is not None:
            yield found
            number += 1
    refuse_windows(tree, context.refuse)


def _made(node: Node, scope: Scope, number: int, context: Context) -> tuple[str, Operation] | None:
    """The name and the operation of a clause, for which its node stands from now on; None if DuckDB has it."""
    if node["type"] == "SELECT_NODE":
        name = f"#window {number}"
        return name, make_windows(node, scope.ctes, name, context)
    if node["type"] == CLAUSE:
        name, node["alias"] = f"#{number} {node['word']}", node["alias"] or _called(node) or f"#{number}"
        operation: Operation | None = MAKERS[node["word"]](node, scope, context)
    else:
        name, alias = f"#{number} ASOF JOIN", f"#{number}"
        operation = make_as_of(node, scope, alias, context)
        node.update(alias=alias if operation is not None else node["alias"], column_name_alias=[])
    if operation is None:
        return None
    _stand_for(node, name)
    return name, operation


def _called(clause: Node) -> str | None:
    """What the only relation that a clause is about is called."""
    inputs = [clause["input"]] if "input" in clause else clause["inputs"]
    return inputs[0].get("alias") if len(inputs) == 1 else None


def _stand_for(node: Node, name: str) -> None:
    """Make of a node the mention of a relation, under the names that it has."""
    kept = {each: node[each] for each in ("alias", "sample", "column_name_alias", "query_location")}
    node.clear()
    node.update(
        type="BASE_TABLE",
        query_location_length=0,
        schema_name="",
        table_name=name,
        catalog_name="",
        at_clause=None,
        qualified_name={"path": [name]},
        **kept,
    )


def _found(value: Any, select: Node | None, ctes: list[Node]) -> Iterator[tuple[Node, Scope]]:
    """All clauses and selections with windows, those inside of others first, each with where it stands."""
    if isinstance(value, list):
        for each in value:
            yield from _found(each, select, ctes)
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    inner = value if kind == "SELECT_NODE" else select
    seen = list(ctes)
    for each in (value.get("cte_map") or {}).get("map", []):
        yield from _found(each["value"], inner, seen)
        seen.append(each)
    for name, part in list(value.items()):
        if name != "cte_map":
            yield from _found(part, inner, seen)
    if kind == CLAUSE or (kind == "JOIN" and is_as_of(value)):
        assert select is not None
        yield value, Scope(select, seen)
    elif kind == "SELECT_NODE" and has_windows(value):
        yield value, Scope(value, seen)
