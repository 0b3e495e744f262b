"""What sqlglot makes of a text, node by node. Imported only when something is parsed: sqlglot is slow to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from sqlglot import exp

from tidelog.expr.database.binding import UNITS
from tidelog.expr.errors import ExpressionError
from tidelog.expr.functions.library import FUNCTIONS
from tidelog.expr.parsing.binder import Binder
from tidelog.expr.parsing.lists import grouped, number_of
from tidelog.expr.parsing.syntax import Expressions
from tidelog.expr.tree import Literal, Node
from tidelog.expr.values.types import (
    BOOLEAN,
    INTERVAL,
    NULL,
    PLAIN,
    VARCHAR,
    WIDEST_DECIMAL,
)

_FEWEST_MEMBERS = 3
"""Literals of a list behind IN from which on they are looked up, and not compared one by one."""

BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeNEQ: "is distinct from",
    exp.NullSafeEQ: "is not distinct from",
    exp.RegexpLike: "regexp_matches",
    exp.SimilarTo: "regexp_full_match",
    exp.StartsWith: "starts_with",
}

UNARY: dict[type[exp.Expression], str] = {exp.BitwiseNot: "~", exp.Abs: "abs"}

_TYPES: dict[str, str] = {
    "INT": "INTEGER",
    "TEXT": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "STRING": "VARCHAR",
    "INT128": "HUGEINT",
    "VARBINARY": "BLOB",
    "BINARY": "BLOB",
    "BYTEA": "BLOB",
    "BOOL": "BOOLEAN",
    "LOGICAL": "BOOLEAN",
    "UINT": "UINTEGER",
    "REAL": "FLOAT",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_US": "TIMESTAMP",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
}


def translate(binder: Binder, node: exp.Expression) -> Node:
    """The typed tree of a node."""
    kind = type(node)
    if kind in BINARY:
        return binder.call(BINARY[kind], [translate(binder, node.this), translate(binder, node.expression)], node)
    if kind in UNARY:
        return binder.call(UNARY[kind], [translate(binder, node.this)], node)
    translator = _TRANSLATORS.get(kind)
    if translator is None:
        raise binder.unsupported(_description(node), node)
    return translator(binder, node)


def _description(node: exp.Expression) -> str:
    if isinstance(node, exp.Star):
        return "*"
    if isinstance(node, exp.Alias):
        return f"text behind the expression ({node.alias!r})"
    text = node.sql(dialect=Expressions)
    return text if len(text) <= 40 else type(node).__name__.upper()


def _column(binder: Binder, node: exp.Expression) -> Node:
    if node.args.get("table") is not None:
        raise binder.unsupported(f"the qualified name {node.sql(dialect=Expressions)}", node)
    if isinstance(node.this, exp.Star):
        raise binder.unsupported("*", node)
    if binder.source.literals(node) is not None:
        raise binder.unsupported("a list here", node)
    return binder.column(node.this.name, node)


def _literal(binder: Binder, node: exp.Expression) -> Node:
    text = str(node.this)
    return Literal(VARCHAR, text) if node.args["is_string"] else _number(binder, text, node)


def _number(binder: Binder, text: str, node: exp.Expression) -> Node:
    try:
        return Literal(*number_of(text))
    except ExpressionError as error:
        raise binder.error(str(error), node) from None


def _negative(binder: Binder, node: exp.Expression) -> Node:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
        return _number(binder, f"-{inner.this}", node)
    return binder.call("-", [translate(binder, inner)], node)


def _connected(name: str) -> Callable[[Binder, exp.Expression], Node]:
    def run(binder: Binder, node: exp.Expression) -> Node:
        return binder.call(name, [translate(binder, cast(exp.Expression, each)) for each in node.flatten()], node)

    return run


def _not(binder: Binder, node: exp.Expression) -> Node:
    inner = node.this
    if isinstance(inner, exp.Is):
        return _is(binder, inner, negated=True)
    return binder.call("not", [translate(binder, inner)], node)


def _is(binder: Binder, node: exp.Expression, *, negated: bool = False) -> Node:
    right = node.expression
    if isinstance(right, exp.Null):
        what = "null"
    elif isinstance(right, exp.Boolean):
        what = "true" if right.this else "false"
    else:
        raise binder.unsupported(_description(node), node)
    return binder.call(f"is not {what}" if negated else f"is {what}", [translate(binder, node.this)], node)


def _in(binder: Binder, node: exp.Expression) -> Node:
    if not node.expressions:
        raise binder.unsupported("IN without a list", node)
    value = translate(binder, node.this)
    literals = binder.source.literals(node.expressions[0])
    if literals is not None:
        return binder.contained(value, literals, [], node)
    members = [translate(binder, each) for each in node.expressions]
    plain = [(each.type, each.value) for each in members if isinstance(each, Literal)]
    if len(plain) < _FEWEST_MEMBERS:
        return binder.call("in", [value, *members], node)
    others = [each for each in members if not isinstance(each, Literal)]
    return binder.contained(value, grouped(plain), others, node)


def _between(binder: Binder, node: exp.Expression) -> Node:
    if node.args.get("symmetric"):
        raise binder.unsupported("BETWEEN SYMMETRIC", node)
    return binder.call(
        "between",
        [translate(binder, node.this), translate(binder, node.args["low"]), translate(binder, node.args["high"])],
        node,
    )


def _like(binder: Binder, node: exp.Expression, escape: exp.Expression | None = None) -> Node:
    name = "like" if isinstance(node, exp.Like) else "ilike"
    arguments = [translate(binder, node.this), translate(binder, node.expression)]
    if escape is not None:
        arguments.append(translate(binder, escape))
    found = binder.call(name, arguments, node)
    return binder.call("not", [found], node) if node.args.get("negate") else found


def _escape(binder: Binder, node: exp.Expression) -> Node:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise binder.unsupported("ESCAPE here", node)
    return _like(binder, node.this, node.expression)


def _case(binder: Binder, node: exp.Expression) -> Node:
    subject = node.args.get("this")
    branches = []
    for branch in node.args["ifs"]:
        condition = translate(binder, branch.this)
        if subject is not None:
            condition = binder.call("=", [translate(binder, subject), condition], branch)
        branches.append((condition, translate(binder, branch.args["true"])))
    default = node.args.get("default")
    return binder.case(branches, Literal(NULL, None) if default is None else translate(binder, default), node)


def _if(binder: Binder, node: exp.Expression) -> Node:
    parts = [node.this, node.args.get("true"), node.args.get("false")]
    return binder.call("if", [translate(binder, part) for part in parts if part is not None], node)


def _cast(binder: Binder, node: exp.Expression) -> Node:
    type_ = _type(binder, node.args["to"])
    return binder.cast(translate(binder, node.this), type_, node, lenient=isinstance(node, exp.TryCast))


def _type(binder: Binder, node: exp.Expression) -> pa.DataType:
    name = str(node.args.get("kind") or getattr(node.this, "value", node.this)).upper()
    name = _TYPES.get(name, name)
    if name in PLAIN and not node.expressions:
        return PLAIN[name]
    if name == "VARCHAR":
        return VARCHAR  # DuckDB reads VARCHAR(n) and does not hold anybody to it
    if name in ("DECIMAL", "NUMERIC"):
        digits, scale = ([int(part.name) for part in node.expressions] + [18, 3][len(node.expressions) :])[:2]
        if len(node.expressions) == 1:
            scale = 0
        if not (1 <= digits <= WIDEST_DECIMAL and 0 <= scale <= digits):
            raise binder.error(
                f"found DECIMAL({digits},{scale}), expected 1 to 38 digits and a scale from 0 to them", node
            )
        return pa.decimal128(digits, scale)
    raise binder.unsupported(f"the type {node.sql(dialect=Expressions)}", node)


def _interval(binder: Binder, node: exp.Expression) -> Node:
    unit = node.args.get("unit")
    inner = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if unit is None:
        text = translate(binder, inner)
        binder.fitted(text, INTERVAL, node)  # refuses what is no interval
        return binder.cast(text, INTERVAL, node, lenient=False)
    name = UNITS.get(unit.name.lower())
    if name is None:
        raise binder.error(
            f"there is no unit {unit.name}; expected one of {', '.join(sorted(set(UNITS.values())))}", node
        )
    if isinstance(inner, exp.Literal) or (isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal)):
        amount = f"-{inner.this.name}" if isinstance(inner, exp.Neg) else inner.name
        text = Literal(VARCHAR, f"{amount} {unit.name.lower()}")
        binder.fitted(text, INTERVAL, node)
        return binder.cast(text, INTERVAL, node, lenient=False)
    plural = {"century": "centuries", "millennium": "millennia"}.get(name, name + "s")
    return binder.call(f"to_{plural}", [translate(binder, inner)], node)


def _named(name: str, *parts: str) -> Callable[[Binder, exp.Expression], Node]:
    """A function that sqlglot has a node of its own for, and which parts of it are the arguments."""

    def run(binder: Binder, node: exp.Expression) -> Node:
        arguments = [translate(binder, node.args[part]) for part in parts if node.args.get(part) is not None]
        return binder.call(name, arguments, node)

    return run


def _trim(binder: Binder, node: exp.Expression) -> Node:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return _named(name, "this", "expression")(binder, node)


def _extract(binder: Binder, node: exp.Expression) -> Node:
    part = Literal(VARCHAR, node.this.name.lower())
    return binder.call("date_part", [part, translate(binder, node.expression)], node)


def _anonymous(binder: Binder, node: exp.Expression) -> Node:
    name = node.name  # which may stand between quotes
    if FUNCTIONS.get(name.lower()) == "operator":
        raise binder.error(f"there is no function {name!r}; it is an operator", node)
    return binder.call(name, [translate(binder, argument) for argument in node.expressions], node)


_TRANSLATORS: dict[type[exp.Expression], Callable[[Binder, Any], Node]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda _binder, node: Literal(BOOLEAN, bool(node.this)),
    exp.Null: lambda _binder, _node: Literal(NULL, None),
    exp.Paren: lambda binder, node: translate(binder, node.this),
    exp.Neg: _negative,
    exp.And: _connected("and"),
    exp.Or: _connected("or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _named("substr", "this", "start", "length"),
    exp.StrPosition: _named("strpos", "this", "substr"),
    exp.AtTimeZone: _named("timezone", "zone", "this"),
    exp.Anonymous: _anonymous,
}
