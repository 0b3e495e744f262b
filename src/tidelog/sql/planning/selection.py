"""What is asked of selections of aggregates before they become others: what they mention, and what DuckDB calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.values.types import TIMESTAMPTZ_NS
from tidelog.sql.planning.blocks import Block, NotSo, quoted
from tidelog.sql.planning.calls import parts
from tidelog.sql.text.tree import Node, frozen, nodes

if TYPE_CHECKING:
    import duckdb

_MOST_DESCRIBED: Final = 256
_LARGEST: Final = 1 << 17
"""Bytes of a selection of which it is kept."""
_DESCRIBED: dict[Any, tuple[list[str], list[str], list[pa.DataType]]] = {}
"""What DuckDB has said of selections: it depends on nothing but these, the columns they select from, and the zone."""


def refuse_other_clauses(block: Block) -> None:
    """Raise :class:`NotSo` if more is to be known of rows than groups and aggregates tell."""
    select = block.select
    if select["sample"] or block.table["sample"]:
        raise NotSo("rows are chosen after they were read")
    if len(select["group_sets"]) > 1:
        raise NotSo("there are several sets of groups")
    for node in nodes([*parts(block), select["qualify"]]):
        kind = str(node.get("class"))
        if kind in ("SUBQUERY", "LAMBDA"):
            raise NotSo(f"there is a {kind.lower()} beside it")
        if kind == "STAR" and not node.get("columns"):
            raise NotSo("events themselves are wanted")


def meant(block: Block, group: Node) -> Node:
    """What a group is: the expression itself, or an item of the selection by its place or its name."""
    items = block.select["select_list"]
    if group.get("class") == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
        place = int(group["literal"]["text"])
        if not 1 <= place <= len(items):
            raise NotSo(f"there is no item {place}")
        found: Node = items[place - 1]
        return found
    if group.get("class") == "COLUMN_REF" and block.column(group) is None and len(group["column_names"]) == 1:
        for item in items:
            if item.get("alias", "").lower() == group["column_names"][0].lower():
                return item  # type: ignore[no-any-return]
    return group


def refuse_other_columns(block: Block, groups: list[Node], calls: list[Node]) -> None:
    """Raise if a column is mentioned outside of aggregates and groups."""
    select = block.select
    inside = {id(node) for call in calls for node in nodes(call)}
    aliases = {item.get("alias", "").lower() for item in select["select_list"]} - {""}

    def look(node: Any, may_be_alias: bool) -> None:
        if isinstance(node, list):
            for each in node:
                look(each, may_be_alias)
        elif isinstance(node, dict):
            if id(node) in inside or any(block.alike(node, group) for group in groups):
                return
            if node.get("class") == "COLUMN_REF":
                names = node["column_names"]
                if not (may_be_alias and len(names) == 1 and names[0].lower() in aliases):
                    raise NotSo(f"{names[-1]} is wanted beside the aggregates")
            for each in node.values():
                look(each, may_be_alias)

    look(select["select_list"], False)
    look(select["having"], True)
    look(select["qualify"], True)
    look(select["modifiers"], True)


def described(
    block: Block,
    connect: Callable[[], duckdb.DuckDBPyConnection],
    probes: Sequence[str],
    own: Sequence[pa.Field] = (),
) -> tuple[list[str], list[str], list[pa.DataType]]:
    """The names of the columns of the selection, and the types of aggregates, of DuckDB and of Arrow.

    ``own`` are values that DuckDB does not know, as columns of ``"#own"``. Raises :class:`NotSo` for what it refuses.
    """
    import duckdb

    select = {**block.select, "modifiers": []}
    key = frozen(select), tuple(probes), block.relation.shape, block.timezone, *own
    known = _DESCRIBED.get(key)
    if known is None:
        tree = block.parser.parse("SELECT 1")
        tree["statements"][0]["node"] = select
        text = block.parser.print(tree)
        table = quoted(block.table["table_name"])
        with closing(connect()) as cursor:
            if own:  # which DuckDB does not know
                cursor.register("#own", pa.schema(own).empty_table())
            try:
                names = (
                    [item["alias"] or block.parser.print_expression(item) for item in select["select_list"]]
                    if own
                    else cursor.sql(text).columns
                )
                probe = cursor.sql(f"SELECT {', '.join(probes)} FROM {table}").limit(0)
                types = [str(each) for each in probe.types]
                kinds = [field.type for field in probe.to_arrow_table().schema]
            except duckdb.Error as error:
                raise NotSo(f"DuckDB does not take it: {error}") from None
        known = names, types, kinds
        if len(key[0]) > _LARGEST:
            return known
        if len(_DESCRIBED) >= _MOST_DESCRIBED:
            _DESCRIBED.clear()
        _DESCRIBED[key] = known
    return known


def native_condition(block: Block, node: Node) -> Predicate:
    """A condition that is computed here.

    Where it is, DuckDB need not be asked, so it must not be one that DuckDB refuses: it does not order nanoseconds with
    a zone beside microseconds with one, which ours does.
    """
    condition = block.condition(node)
    if not condition.expression.node.is_native:
        raise NotSo(f"DuckDB computes a part of {block.text(node)}")
    if any(each.type == TIMESTAMPTZ_NS for each in condition.expression.node.walk()):
        raise NotSo("DuckDB computes conditions on nanoseconds with a zone")
    return condition
