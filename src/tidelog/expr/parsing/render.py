"""Expressions as SQL text: canonical, fully parenthesised, and parsed back to an equal tree."""

from __future__ import annotations

import math

from tidelog.expr.tree import Call, Case, Cast, Column, Literal, Members, Node
from tidelog.expr.values.types import DOUBLE, is_decimal, sql_name

_INFIX = frozenset(
    (
        *("+", "-", "*", "/", "//", "%", "**", "&", "|", "<<", ">>", "||", "=", "<>", "<", "<=", ">", ">="),
        *("is distinct from", "is not distinct from", "and", "or"),
    )
)
_POSTFIX = frozenset(["is null", "is not null", "is true", "is not true", "is false", "is not false"])


def render(node: Node) -> str:
    """The text of an expression."""
    if isinstance(node, Column):
        return _name(node.name)
    if isinstance(node, Literal):
        return _literal(node)
    if isinstance(node, Members):
        return ", ".join(map(_literal, node.singly()))
    if isinstance(node, Cast):
        if node.implicit:
            return render(node.operand)
        return f"{'TRY_CAST' if node.lenient else 'CAST'}({render(node.operand)} AS {sql_name(node.type)})"
    if isinstance(node, Case):
        branches = " ".join(f"WHEN {render(condition)} THEN {render(value)}" for condition, value in node.branches)
        return f"CASE {branches} ELSE {render(node.otherwise)} END"
    assert isinstance(node, Call)
    return _call(node)


def _name(name: str) -> str:
    """A name, in quotes unless it reads as a name without them."""
    from tidelog.expr.parsing.syntax import is_plain_name

    if is_plain_name(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _literal(node: Literal) -> str:
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if node.type == DOUBLE:
        assert isinstance(value, float)
        assert math.isfinite(value)  # there is no literal for the others
        text = repr(value)
        return text if "e" in text else text + "e0"
    if is_decimal(node.type) and not isinstance(value, int):
        whole = node.type.precision - node.type.scale
        sign, digits = ("-", f"{value.copy_negate():f}") if value.is_signed() else ("", f"{value:f}")  # type: ignore[union-attr]
        before, _, behind = digits.partition(".")
        return f"{sign}{before.rjust(whole, '0') if whole else before}.{behind[: node.type.scale]}"
    return str(value)


def _operand(node: Node) -> str:
    text = render(node)
    shown = node.operand if isinstance(node, Cast) and node.implicit else node
    if isinstance(shown, Column) or (isinstance(shown, Cast) and not shown.implicit):
        return text
    if isinstance(shown, Literal) and not text.startswith("-"):
        return text
    if isinstance(shown, Call) and shown.name not in _INFIX | _POSTFIX | _OTHER_OPERATORS:
        return text
    return f"({text})"


_OTHER_OPERATORS = frozenset(["not", "~", "in", "between", "like", "ilike"])


def _call(node: Call) -> str:
    """Each argument is rendered once: whoever rendered two of them anew at each level would never end."""
    name, arguments = node.name, node.arguments
    if name in _INFIX and len(arguments) > 1:
        return f" {name.upper()} ".join(map(_operand, arguments))
    if name in ("-", "+", "~"):
        return f"{name}({render(arguments[0])})"
    if name == "not":
        return f"NOT ({render(arguments[0])})"
    if name in _POSTFIX:
        return f"{_operand(arguments[0])} {name.upper()}"
    if name == "in":
        return f"{_operand(arguments[0])} IN ({', '.join(map(render, arguments[1:]))})"
    if name == "between":
        value, low, high = map(_operand, arguments)
        return f"{value} BETWEEN {low} AND {high}"
    if name in ("like", "ilike"):
        value, pattern, *escape = map(_operand, arguments)
        return f"{value} {name.upper()} {pattern}" + "".join(f" ESCAPE {each}" for each in escape)
    return f"{name}({', '.join(map(render, arguments))})"
