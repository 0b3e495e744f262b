"""Which expressions can be NULL."""

from __future__ import annotations

from tidelog.expr.functions.comparison import COMPARISONS
from tidelog.expr.functions.library import NATIVE, STRICT
from tidelog.expr.tree import Call, Case, Cast, Column, External, Literal, Members, Node

_NEVER_NULL = frozenset(
    (
        *("is null", "is not null", "is true", "is not true", "is false", "is not false"),
        *("is distinct from", "is not distinct from", "concat"),
    )
)


def may_be_null(node: Node) -> bool:
    """Whether the result of a node may be NULL for some batch."""
    if isinstance(node, Column):
        return node.nullable_column
    if isinstance(node, Literal):
        return node.value is None
    if isinstance(node, Members):
        return any(part.null_count for part in node.literals)
    if isinstance(node, Cast):
        return node.lenient or may_be_null(node.operand)
    if isinstance(node, Case):
        return any(may_be_null(value) for _, value in node.branches) or may_be_null(node.otherwise)
    assert isinstance(node, Call)
    if node.name in _NEVER_NULL:
        return False
    if node.name in ("coalesce", "greatest", "least"):
        return all(may_be_null(argument) for argument in node.arguments)
    if isinstance(node, External):
        is_strict = node.name in STRICT or node.name in COMPARISONS
    else:
        is_strict = NATIVE[node.name].strict
    if is_strict or node.name in ("and", "or", "in", "between"):
        return any(may_be_null(argument) for argument in node.arguments)
    return True
