"""Expressions as SQL text: canonical, fully parenthesised, and parsed back to an equal tree."""

from __future__ import annotations

import math
from collections.abc import Callable

from tidelog.expr.tree import Call, Case, Cast, Column, Literal, Members, Node
from tidelog.expr.values.types import DOUBLE, TIMESTAMPTZ_NS, is_decimal, sql_name

_INFIX = frozenset(
    (
        *("+", "-", "*", "/", "//", "%", "**", "&", "|", "<<", ">>", "||", "=", "<>", "<", "<=", ">", ">="),
        *("is distinct from", "is not distinct from", "and", "or"),
    )
)
_POSTFIX = frozenset(["is null", "is not null", "is true", "is not true", "is false", "is not false"])
_OTHER_OPERATORS = frozenset(["not", "~", "in", "between", "like", "ilike"])


class Writer:
    """Writes expressions; ``name`` writes columns."""

    def __init__(self, name: Callable[[Column], str]) -> None:
        self._name = name

    def text(self, node: Node) -> str:
        """The text of an expression."""
        if isinstance(node, Column):
            return self._name(node)
        if isinstance(node, Literal):
            return self.literal(node)
        if isinstance(node, Members):
            return ", ".join(map(self.literal, node.singly()))
        if isinstance(node, Cast):
            if node.implicit and self.leaves_out(node):
                return self.text(node.operand)
            return f"{'TRY_CAST' if node.lenient else 'CAST'}({self.text(node.operand)} AS {sql_name(node.type)})"
        if isinstance(node, Case):
            branches = [f"WHEN {self.text(condition)} THEN {self.text(value)}" for condition, value in node.branches]
            return f"CASE {' '.join(branches)} ELSE {self.text(node.otherwise)} END"
        assert isinstance(node, Call)
        return self.call(node)

    def literal(self, node: Literal) -> str:
        """The text of a constant."""
        return _literal(node)

    def leaves_out(self, _node: Cast) -> bool:
        """Whether a conversion that nobody wrote is not written."""
        return True

    def _operand(self, node: Node) -> str:
        text = self.text(node)
        shown = node.operand if isinstance(node, Cast) and node.implicit and self.leaves_out(node) else node
        if isinstance(shown, Column) or (isinstance(shown, Cast) and not (shown.implicit and self.leaves_out(shown))):
            return text
        if isinstance(shown, Literal) and not text.startswith("-"):
            return text
        if isinstance(shown, Call) and shown.name not in _INFIX | _POSTFIX | _OTHER_OPERATORS:
            return text
        return f"({text})"

    def call(self, node: Call) -> str:
        """The text of a call. Each argument is written once: whoever wrote one twice at each level would never end."""
        name, arguments = node.name, node.arguments
        if name in _INFIX and len(arguments) > 1:
            return f" {name.upper()} ".join(map(self._operand, arguments))
        if name in ("-", "+", "~"):
            return f"{name}({self.text(arguments[0])})"
        if name == "not":
            return f"NOT ({self.text(arguments[0])})"
        if name in _POSTFIX:
            return f"{self._operand(arguments[0])} {name.upper()}"
        if name == "in":
            return f"{self._operand(arguments[0])} IN ({', '.join(map(self.text, arguments[1:]))})"
        if name == "between":
            value, low, high = map(self._operand, arguments)
            return f"{value} BETWEEN {low} AND {high}"
        if name in ("like", "ilike"):
            value, pattern, *escape = map(self._operand, arguments)
            return f"{value} {name.upper()} {pattern}" + "".join(f" ESCAPE {each}" for each in escape)
        return f"{name}({', '.join(map(self.text, arguments))})"


class ForDuckDB(Writer):
    """Writes what DuckDB evaluates. It inserts its own conversions, but for one that it does not make unasked.

    Columns are called by their place in the schema: names that differ in case alone are one to DuckDB.
    """

    def __init__(self) -> None:
        super().__init__(lambda column: f"c{column.position}")

    def leaves_out(self, node: Cast) -> bool:
        """Instants with a zone in nanoseconds are what few functions of DuckDB take."""
        return bool(node.operand.type != TIMESTAMPTZ_NS)

    def literal(self, node: Literal) -> str:
        """A constant; a text may have zeros, which would end a statement."""
        text = _literal(node)
        return text if "\0" not in text else "(" + text.replace("\0", "' || chr(0) || '") + ")"


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
