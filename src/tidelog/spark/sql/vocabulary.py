"""What plans of DuckDB are known to say. Whatever says more is refused: to pass over it might change the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidelog.sql.text.tree import Node

_NOWHERE: Final = (1 << 64) - 1
_EXPRESSION: Final = "expression_class type alias query_location query_location_length return_type children"
_CALL: Final = "arguments qname has_serialize function_data"
_SET: Final = "type children column_count setop_all table_index allow_out_of_order"
_JOIN: Final = "type children join_type mark_index"

_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(keys.split())
    for name, keys in {
        "BOUND_AGGREGATE": f"{_EXPRESSION} {_CALL} aggregate_type filter order_bys state_export",
        "BOUND_CASE": f"{_EXPRESSION} case_checks else_expr",
        "BOUND_CONJUNCTION": _EXPRESSION,
        "BOUND_CONSTANT": f"{_EXPRESSION} value",
        "BOUND_FUNCTION": f"{_EXPRESSION} {_CALL} is_operator named_arguments positional_arguments",
        "BOUND_LAMBDA": f"{_EXPRESSION} lambda_expr parameter_count parameter_names",
        "BOUND_OPERATOR": _EXPRESSION,
        "BOUND_REF": f"{_EXPRESSION} index",
        "BOUND_UNNEST": f"{_EXPRESSION} child",
        "BOUND_WINDOW": f"{_EXPRESSION} {_CALL} arg_orders distinct start end start_expr end_expr exclude_clause "
        "filters ignore_nulls orders partitions sql_range_order_type",
        "LOGICAL_AGGREGATE_AND_GROUP_BY": "type children expressions groups grouping_sets grouping_functions "
        "group_index aggregate_index groupings_index distinct_validity",
        "LOGICAL_ANY_JOIN": f"{_JOIN} condition",
        "LOGICAL_ASOF_JOIN": f"{_JOIN} conditions delim_flipped",
        "LOGICAL_COMPARISON_JOIN": f"{_JOIN} conditions delim_flipped mark_types right_projection_map",
        "LOGICAL_CROSS_PRODUCT": "type children",
        "LOGICAL_CTE_REF": "type bound_columns chunk_types cte_index is_recurring table_index",
        "LOGICAL_DISTINCT": "type children distinct_type distinct_targets order_by",
        "LOGICAL_DUMMY_SCAN": "type table_index",
        "LOGICAL_EMPTY_RESULT": "type bindings return_types",
        "LOGICAL_EXCEPT": _SET,
        "LOGICAL_EXPRESSION_GET": "type children table_index expr_types expressions",
        "LOGICAL_FILTER": "type children expressions",
        "LOGICAL_GET": "type table_index arguments column_indexes extra_info function_data has_pushed_projection "
        "has_serialize input_table_names input_table_types named_parameters names number used ordinality_idx "
        "parameters projected_input projection_ids qname returned_types source_ordinality table_filters "
        "table_filters_by_projection",
        "LOGICAL_INTERSECT": _SET,
        "LOGICAL_LIMIT": "type children limit_val offset_val unpruned_offset",
        "LOGICAL_MATERIALIZED_CTE": "type children column_count ctename materialize table_index",
        "LOGICAL_ORDER_BY": "type children orders",
        "LOGICAL_PROJECTION": "type children expressions table_index",
        "LOGICAL_UNION": _SET,
        "LOGICAL_UNNEST": "type children expressions unnest_index",
        "LOGICAL_WINDOW": "type children expressions window_index",
    }.items()
}
_USUAL: Final[Mapping[str, Any]] = {
    "state_export": "NONE",
    "delim_flipped": False,
    "is_recurring": False,
    "has_pushed_projection": False,
    "source_ordinality": "WITHOUT_ORDINALITY",
    "unpruned_offset": _NOWHERE,
    "projection_ids": [],
    "named_parameters": [],
    "projected_input": [],
}
"""What some of it has to be."""


def unknown(root: Node) -> Iterator[tuple[str, Node]]:
    """What a plan says that is not known, and where."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            what = str(node.get("expression_class") or node.get("type") or "")
            known = _KNOWN.get(what)
            for name, value in node.items():
                if known is not None and (name not in known or _USUAL.get(name, value) != value):
                    yield f"{name} of {what.lower()}", node
                waiting.append(value)
