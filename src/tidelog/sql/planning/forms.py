"""The same statement in the forms that planning knows, whatever the form in which it was written.

A selection of nothing but a selection of a stream selects from the stream itself; groups by the date of an event are
groups by its day; and what a condition compares with is its value, where the index tells it.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.calls import Functions, parts
from tidelog.sql.planning.indexed import groups_of
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.literals import literal
from tidelog.sql.text.tree import Node, Parser, become, nodes

_UNNAMED: Final = "unnamed_subquery"
"""What DuckDB calls a subquery without a name."""
_OPAQUE: Final = ("SUBQUERY", "WINDOW", "LAMBDA", "STAR", "PARAMETER")
_DAYS: Final = frozenset({"day", "week", "month", "quarter", "year", "decade", "century", "millennium"})
"""Units that are whole days."""
_CHOSEN: Final = frozenset({"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"})
"""Functions whose values are others each time."""
_KINDS: Final = re.compile(
    r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\)|DATE|TIMESTAMP.*|VARCHAR|BOOLEAN"
)
"""Types of DuckDB whose values can be written as texts and read again."""


# -- selections of selections -----------------------------------------------------------------------------------------


def merge_selections(tree: Node, relations: Mapping[str, Relation]) -> None:
    """Have selections of nothing but a selection of events, in a subquery or a CTE mentioned once, select these."""
    selects = [node for node in nodes(tree) if node["type"] == "SELECT_NODE"]
    if len(selects) < 2:
        return
    ctes = _once(tree)
    while sum(_merge(select, ctes, relations) for select in reversed(selects)):  # those inside of others first
        pass
    for node in list(nodes(tree)):
        if isinstance(node.get("cte_map"), dict):
            node["cte_map"]["map"] = [each for each in node["cte_map"]["map"] if not each["value"].get("#merged")]


def _once(tree: Node) -> dict[str, Node]:
    """The CTEs that are defined once and mentioned once, by their names in lower case."""
    defined = [each for node in nodes(tree) for each in (node.get("cte_map") or {}).get("map", ())]
    names = Counter(each["key"].lower() for each in defined)
    mentioned = Counter(node["table_name"].lower() for node in nodes(tree) if node["type"] == "BASE_TABLE")
    return {
        name: each["value"]
        for each in defined
        if names[name := each["key"].lower()] == 1
        and mentioned[name] == 1
        and not each["value"]["aliases"]
        and each["value"]["materialized"] != "CTE_MATERIALIZE_ALWAYS"
    }


def _merge(select: Node, ctes: Mapping[str, Node], relations: Mapping[str, Relation]) -> bool:
    item = select["from_table"]
    if item.get("sample") or item.get("column_name_alias"):
        return False
    cte = None
    if item["type"] == "SUBQUERY":
        inner, alias = item["subquery"]["node"], item["alias"] or _UNNAMED
    elif item["type"] == "BASE_TABLE" and (cte := ctes.get(item["table_name"].lower())) is not None:
        inner, alias = cte.get("query_node"), item["alias"] or item["table_name"]
    else:
        return False
    if inner is None or not _is_plain(inner) or inner["from_table"]["table_name"] not in relations:
        return False
    table = inner["from_table"]
    columns = {name.lower() for name in relations[table["table_name"]].schema.names}
    shown = _shown(inner["select_list"], columns)
    if shown is None or not (inner["select_list"][0]["class"] == "STAR" or _needs_only(select, shown)):
        return False
    where = copy.deepcopy(inner["where_clause"])
    if not _moved(where, table["alias"], alias, columns):
        return False
    select["from_table"] = {**table, "alias": alias}
    own = [each for each in (where, select["where_clause"]) if each is not None]
    both = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": own}
    select["where_clause"] = both if len(own) > 1 else own[0] if own else None
    if cte is not None:
        cte["#merged"] = True
    return True


def _is_plain(select: Node) -> bool:
    """Whether a selection is no more than columns of a table, with a condition."""
    return (
        select["type"] == "SELECT_NODE"
        and select["from_table"]["type"] == "BASE_TABLE"
        and select["aggregate_handling"] == "STANDARD_HANDLING"
        and not any(select[name] for name in ("modifiers", "group_expressions", "having", "qualify", "sample"))
        and not select["cte_map"]["map"]
        and not select["from_table"]["sample"]
        and not select["from_table"]["column_name_alias"]
    )


def _shown(items: list[Node], columns: set[str]) -> set[str] | None:
    """The columns that are selected, each by its own name; None if it is more than that."""
    if len(items) == 1 and items[0].get("class") == "STAR":
        more = [value for value in items[0].values() if isinstance(value, dict | list) and value]
        return None if more or items[0]["relation_name"] or items[0]["columns"] else columns
    names: list[str] = []
    for item in items:
        if item.get("class") != "COLUMN_REF" or item["column_names"][-1].lower() not in columns:
            return None
        if item["alias"]:
            return None
        names.append(item["column_names"][-1].lower())
    return set(names) if len(set(names)) == len(names) else None


def _needs_only(select: Node, shown: set[str]) -> bool:
    """Whether a selection names some columns of what it selects from, and no others."""
    own = {name: value for name, value in select.items() if name != "from_table"}
    found = list(nodes(list(own.values())))
    return not any(node.get("class") == "STAR" for node in found) and all(
        node["column_names"][-1].lower() in shown for node in found if node.get("class") == "COLUMN_REF"
    )


def _moved(where: Node | None, before: str, alias: str, columns: set[str]) -> bool:
    """Have a condition name its columns by another name of their table; returns whether it can."""
    for node in nodes(where):
        if node.get("class") in _OPAQUE:
            return False
        if node.get("class") == "COLUMN_REF":
            *qualified, name = node["column_names"]
            if name.lower() not in columns or [each.lower() for each in qualified] not in ([], [before.lower()]):
                return False
            node["column_names"] = [alias, name]
    return True


# -- days -------------------------------------------------------------------------------------------------------------


def group_by_days(block: Block, functions: Functions) -> Node | None:
    """Have a selection that groups by the date of its events group by their day, which is a bucket.

    Returns the selection as it was, if it was another one.
    """
    if len(block.select["group_sets"]) > 1:
        return None
    try:
        groups = groups_of(block, functions)
    except NotSo:
        return None
    days = [(group, day) for group in groups if (day := _day(block, group)) is not None]
    if len(days) != 1:
        return None
    ((group, day),) = days
    select = block.select
    before = copy.deepcopy(select)
    keys = [copy.deepcopy(day if each is group else each) for each in groups]
    same = [node for node in nodes(parts(block)) if node.get("class") == "CAST" and block.alike(node, group)]
    for item in select["select_list"]:
        if not item["alias"] and any(node is each for node in nodes(item) for each in same):
            item["alias"] = block.parser.print_expression(copy.deepcopy(item))
    for node in same:
        node["child"] = copy.deepcopy(day)
    for key in keys:
        key["alias"] = ""
    select.update(group_expressions=keys, group_sets=[list(range(len(keys)))], aggregate_handling="STANDARD_HANDLING")
    return before


def _day(block: Block, group: Node) -> Node | None:
    """The bucket of whole days that a group is the date of."""
    if group.get("class") != "CAST" or group["try_cast"] or str(group["type_expr"].get("type_name")).upper() != "DATE":
        return None
    child, time = group["child"], block.relation.stream.time
    if block.column(child) == time and pa.types.is_timestamp(block.relation.schema.field(time).type):
        found = block.parser.expression("date_trunc('day', x)")
        found["arguments"][1]["expression"] = copy.deepcopy(child)
        return found
    if child.get("class") == "FUNCTION" and child["function_name"].lower() == "date_trunc":
        unit, of = (each["expression"] for each in child["arguments"])
        is_whole = str(unit.get("literal", {}).get("text", "")).lower() in _DAYS
        return copy.deepcopy(child) if is_whole and block.column(of) == time else None
    return None


# -- known values -----------------------------------------------------------------------------------------------------


def compared(tree: Node) -> Iterator[Node]:
    """The subqueries of one value in the conditions of a statement, those inside of others first."""
    found = [
        node
        for select in nodes(tree)
        if select["type"] == "SELECT_NODE"
        for node in nodes(select["where_clause"])
        if node.get("class") == "SUBQUERY" and node["subquery_type"] == "SCALAR"
    ]
    yield from reversed(found)


def is_settled(query: Node, tables: Mapping[str, Any]) -> bool:
    """Whether a subquery is about answers of the index alone, so that its value is known."""
    mentioned = [node for node in nodes(query) if node["type"] in ("BASE_TABLE", "TABLE_FUNCTION")]
    return (
        bool(mentioned)
        and all(
            node["type"] == "BASE_TABLE" and node["table_name"].startswith("#answers") and node["table_name"] in tables
            for node in mentioned
        )
        and not any(
            node.get("class") == "FUNCTION" and node["function_name"].lower() in _CHOSEN for node in nodes(query)
        )
    )


def settle(query: Node, parser: Parser, connection: Any) -> None:
    """Put the value of a subquery in its place, unless that cannot be told."""
    import duckdb

    text = f"SELECT CAST(v AS VARCHAR), typeof(v) FROM (SELECT {parser.print_expression(copy.deepcopy(query))} AS v)"
    try:
        ((value, kind),) = connection.sql(text).fetchall()
    except duckdb.Error:  # it is about the rows around it, or wrong
        return
    if _KINDS.fullmatch(kind):
        become(query, parser.expression(f"CAST({literal(value)} AS {kind})"))
