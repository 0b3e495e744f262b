"""Groups of events by keys with aggregates of tidelog's own: ``SELECT site, spread(x) FROM s GROUP BY site``.

DuckDB does not know such aggregates, and the index has no keys. So they are computed as those of windows are, with all
events of a key in one window.
"""

from __future__ import annotations

import copy

from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.grouping import own_nodes
from tidelog.sql.clauses.window_arguments import GROUPS
from tidelog.sql.clauses.windows import has_windows
from tidelog.sql.planning.blocks import Block, NotSo, quoted
from tidelog.sql.planning.indexed import groups_of, refuse_keys
from tidelog.sql.text.tree import Node, nodes


def group_by_keys(select: Node, context: Context) -> None:
    """Have a selection of streams with such aggregates, which has keys, group its rows by windows without an end."""
    table = select["from_table"]
    relation = context.relations.get(table["table_name"]) if table["type"] == "BASE_TABLE" else None
    own = next(filter(context.functions.is_own, own_nodes(select)), None)
    if own is None or relation is None or has_windows(select) or len(select["group_sets"]) > 1:
        return
    block = Block(select, relation, context.parser, context.timezone)
    try:
        groups = groups_of(block, context.functions)
    except NotSo:
        return
    if not groups or any(map(context.functions.aggregates, nodes(groups))):
        return
    try:
        refuse_keys(block, groups)
    except NotSo:
        keys = copy.deepcopy(groups)
    else:
        return  # buckets of time, which the index knows
    call = context.parser.expression(f"{quoted(GROUPS)}({quoted(table['alias'])}.{quoted(relation.stream.time)})")
    call["query_location"] = own["query_location"]
    call["word"] = "GROUP BY " + ", ".join(map(block.text, keys))
    select.update(
        group_expressions=[*keys, call],
        group_sets=[list(range(len(keys) + 1))],
        aggregate_handling="STANDARD_HANDLING",
    )
