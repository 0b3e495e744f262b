"""What sqlglot makes of a text, node by node. Imported only when something is parsed: sqlglot is slow to load."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from tidelog.expr.errors import ExpressionError, UnsupportedError, too_deep
from tidelog.expr.interval_text import UNITS
from tidelog.expr.lists import Literals, Shortened, grouped, number_of, shortened
from tidelog.expr.parse import Binder
from tidelog.expr.tree import Expression, Literal
from tidelog.expr.types import (
    BOOLEAN,
    INTERVAL,
    NULL,
    PLAIN,
    VARCHAR,
    WIDEST_DECIMAL,
)

_FEWEST_MEMBERS = 3
"""Literals of a list behind IN from which on they are looked up, and not compared one by one."""

MOST_CHARACTERS = 1 << 17
"""Characters that an expression may have besides long lists of literals: sqlglot takes two seconds for so many."""

_MOST_SUBSCRIPTS = 100
"""Subscripts behind one another, which sqlglot copies at each: a thousand take half a minute."""

_LONG_DESCRIPTION = 200

_KEPT_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


class _Expressions(DuckDB):
    """DuckDB's syntax, with functions left under their own names instead of sqlglot's."""

    class Parser(DuckDB.Parser):  # type: ignore[valid-type, misc]
        """Knows only the functions whose arguments have a syntax of their own."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: DuckDB.Parser.FUNCTION_PARSERS[name] for name in _KEPT_SYNTAX
        }


_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_COLOURS = re.compile(r"\x1b\[\d*m")

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


@functools.cache
def is_plain_name(name: str) -> bool:
    """Whether a column's name needs no quotes: it is in lower case and no keyword."""
    if not _PLAIN_NAME.fullmatch(name):
        return False
    try:
        found = _Expressions().parse(name)[0]
    except SqlglotError:
        return False
    return isinstance(found, exp.Column) and found.name == name


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one expression, and what sqlglot makes of it."""

    text: str
    node: exp.Expression
    _short: Shortened

    def place(self, node: exp.Expression) -> int | None:
        """Where in the text a node starts, as far as its names tell."""
        return self._short.place(position_of(node))

    def literals(self, node: exp.Expression) -> Literals | None:
        """The list that stands in the text where sqlglot has seen a node; None if that is no list."""
        return self._short.lists.get(node.name) if isinstance(node, exp.Column) else None


def read(text: str) -> Source:
    """Read the text of one expression. Raises :class:`ExpressionError` for a syntax error."""
    if not isinstance(text, str):
        raise ExpressionError(f"found a {type(text).__name__} for an expression, expected SQL text")
    _check_characters(text)
    short = shortened(text)
    if len(short.text) > MOST_CHARACTERS:
        raise ExpressionError(
            f"found an expression of {len(short.text):,} characters; expected {MOST_CHARACTERS:,} at the most, besides "
            "lists of numbers and strings behind IN",
            text=text,
            position=0,
        )
    if short.text.count("][") > _MOST_SUBSCRIPTS:
        raise UnsupportedError("subscripts are not supported in expressions", text=text, position=text.find("]["))
    try:
        found = _Expressions().parse(short.text)
    except SqlglotError as error:
        raise _syntax_error(text, short, error) from None
    except RecursionError:
        raise too_deep(text) from None
    if len(found) != 1 or found[0] is None:
        what = "nothing" if not found or found[0] is None else f"{len(found)} expressions"
        raise ExpressionError(f"found {what}, expected one expression, e.g. price > 10", text=text, position=0)
    return Source(text, cast(exp.Expression, found[0]), short)


def _check_characters(text: str) -> None:
    """Raise unless a text can be written as UTF-8: Python's may have halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        raise ExpressionError("found half of a character, which is no text", text=shown, position=error.start) from None


def _syntax_error(text: str, short: Shortened, error: SqlglotError) -> ExpressionError:
    details = getattr(error, "errors", None) or [{}]
    description = str(details[0].get("description") or _COLOURS.sub("", str(error)).split("\n")[0])
    if description.startswith("Required keyword"):
        description = "an operand is missing"
    start = details[0].get("start_context")
    position = None
    if start is not None:
        place = short.text.find(str(start) + str(details[0].get("highlight", "")))
        position = None if place < 0 else short.place(place + len(str(start)))
    if len(description) > _LONG_DESCRIPTION:
        description = f"{description[:_LONG_DESCRIPTION]}..."
    return ExpressionError(f"syntax error: {description[:1].lower() + description[1:]}", text=text, position=position)


def position_of(node: exp.Expression) -> int | None:
    """Where in the text a node starts, as far as its names tell."""
    found = [int(each.meta["start"]) for each in node.walk() if each._meta and "start" in each._meta]
    own = node.meta.get("start") if node._meta else None
    if own is not None:
        return int(own)
    return min(found, default=None)


def translate(binder: Binder, node: exp.Expression) -> Expression:
    """The typed tree of a node."""
    kind = type(node)
    if kind in BINARY:
        return binder.call(BINARY[kind], [binder.bind(node.this), binder.bind(node.expression)], node)
    if kind in UNARY:
        return binder.call(UNARY[kind], [binder.bind(node.this)], node)
    translator = _TRANSLATORS.get(kind)
    if translator is None:
        raise binder.unsupported(_description(node), node)
    return translator(binder, node)


def _description(node: exp.Expression) -> str:
    if isinstance(node, exp.Star):
        return "*"
    if isinstance(node, exp.Alias):
        return f"text behind the expression ({node.alias!r})"
    text = node.sql(dialect=_Expressions)
    return text if len(text) <= 40 else type(node).__name__.upper()


def _column(binder: Binder, node: exp.Expression) -> Expression:
    if node.args.get("table") is not None:
        raise binder.unsupported(f"the qualified name {node.sql(dialect=_Expressions)}", node)
    if isinstance(node.this, exp.Star):
        raise binder.unsupported("*", node)
    if binder.source.literals(node) is not None:
        raise binder.unsupported("a list here", node)
    return binder.column(node.this.name, node)


def _literal(binder: Binder, node: exp.Expression) -> Expression:
    text = str(node.this)
    return Literal(VARCHAR, text) if node.args["is_string"] else _number(binder, text, node)


def _number(binder: Binder, text: str, node: exp.Expression) -> Expression:
    try:
        return Literal(*number_of(text))
    except ExpressionError as error:
        raise binder.error(str(error), node) from None


def _negative(binder: Binder, node: exp.Expression) -> Expression:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
        return _number(binder, f"-{inner.this}", node)
    return binder.call("-", [binder.bind(inner)], node)


def _connected(name: str) -> Callable[[Binder, exp.Expression], Expression]:
    def run(binder: Binder, node: exp.Expression) -> Expression:
        return binder.call(name, [binder.bind(cast(exp.Expression, each)) for each in node.flatten()], node)

    return run


def _not(binder: Binder, node: exp.Expression) -> Expression:
    inner = node.this
    if isinstance(inner, exp.Is):
        return _is(binder, inner, negated=True)
    return binder.call("not", [binder.bind(inner)], node)


def _is(binder: Binder, node: exp.Expression, *, negated: bool = False) -> Expression:
    right = node.expression
    if isinstance(right, exp.Null):
        what = "null"
    elif isinstance(right, exp.Boolean):
        what = "true" if right.this else "false"
    else:
        raise binder.unsupported(_description(node), node)
    return binder.call(f"is not {what}" if negated else f"is {what}", [binder.bind(node.this)], node)


def _in(binder: Binder, node: exp.Expression) -> Expression:
    if not node.expressions:
        raise binder.unsupported("IN without a list", node)
    value = binder.bind(node.this)
    literals = binder.source.literals(node.expressions[0])
    if literals is not None:
        return binder.contained(value, literals, [], node)
    members = [binder.bind(each) for each in node.expressions]
    plain = [(each.type, each.value) for each in members if isinstance(each, Literal)]
    if len(plain) < _FEWEST_MEMBERS:
        return binder.call("in", [value, *members], node)
    others = [each for each in members if not isinstance(each, Literal)]
    return binder.contained(value, grouped(plain), others, node)


def _between(binder: Binder, node: exp.Expression) -> Expression:
    if node.args.get("symmetric"):
        raise binder.unsupported("BETWEEN SYMMETRIC", node)
    return binder.call(
        "between", [binder.bind(node.this), binder.bind(node.args["low"]), binder.bind(node.args["high"])], node
    )


def _like(binder: Binder, node: exp.Expression, escape: exp.Expression | None = None) -> Expression:
    name = "like" if isinstance(node, exp.Like) else "ilike"
    arguments = [binder.bind(node.this), binder.bind(node.expression)]
    if escape is not None:
        arguments.append(binder.bind(escape))
    found = binder.call(name, arguments, node)
    return binder.call("not", [found], node) if node.args.get("negate") else found


def _escape(binder: Binder, node: exp.Expression) -> Expression:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise binder.unsupported("ESCAPE here", node)
    return _like(binder, node.this, node.expression)


def _case(binder: Binder, node: exp.Expression) -> Expression:
    subject = node.args.get("this")
    branches = []
    for branch in node.args["ifs"]:
        condition = binder.bind(branch.this)
        if subject is not None:
            condition = binder.call("=", [binder.bind(subject), condition], branch)
        branches.append((condition, binder.bind(branch.args["true"])))
    default = node.args.get("default")
    return binder.case(branches, Literal(NULL, None) if default is None else binder.bind(default), node)


def _if(binder: Binder, node: exp.Expression) -> Expression:
    parts = [node.this, node.args.get("true"), node.args.get("false")]
    return binder.call("if", [binder.bind(part) for part in parts if part is not None], node)


def _cast(binder: Binder, node: exp.Expression) -> Expression:
    type_ = _type(binder, node.args["to"])
    return binder.cast(binder.bind(node.this), type_, node, lenient=isinstance(node, exp.TryCast))


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
    raise binder.unsupported(f"the type {node.sql(dialect=_Expressions)}", node)


def _interval(binder: Binder, node: exp.Expression) -> Expression:
    unit = node.args.get("unit")
    inner = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if unit is None:
        text = binder.bind(inner)
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
    return binder.call(f"to_{plural}", [binder.bind(inner)], node)


def _named(name: str, *parts: str) -> Callable[[Binder, exp.Expression], Expression]:
    """A function that sqlglot has a node of its own for, and which parts of it are the arguments."""

    def run(binder: Binder, node: exp.Expression) -> Expression:
        arguments = [binder.bind(node.args[part]) for part in parts if node.args.get(part) is not None]
        return binder.call(name, arguments, node)

    return run


def _trim(binder: Binder, node: exp.Expression) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return _named(name, "this", "expression")(binder, node)


def _extract(binder: Binder, node: exp.Expression) -> Expression:
    part = Literal(VARCHAR, node.this.name.lower())
    return binder.call("date_part", [part, binder.bind(node.expression)], node)


def _anonymous(binder: Binder, node: exp.Expression) -> Expression:
    return binder.call(str(node.this), [binder.bind(argument) for argument in node.expressions], node)


_TRANSLATORS: dict[type[exp.Expression], Callable[[Binder, Any], Expression]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda _binder, node: Literal(BOOLEAN, bool(node.this)),
    exp.Null: lambda _binder, _node: Literal(NULL, None),
    exp.Paren: lambda binder, node: binder.bind(node.this),
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
