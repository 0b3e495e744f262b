"""Nodes of a typed tree: names are looked up, types worked out, and every conversion that DuckDB would make unasked is
written into the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.expr.database.binding import type_of
from tidelog.expr.database.lengths import grows
from tidelog.expr.database.literals import read
from tidelog.expr.errors import ExpressionError, UnsupportedError, too_deep
from tidelog.expr.functions.library import ALIASES, CONSTANTS, FUNCTIONS, NATIVE
from tidelog.expr.functions.members import fitted as members_of
from tidelog.expr.functions.members import representatives
from tidelog.expr.functions.registry import meeting_type
from tidelog.expr.parsing.lists import Literals
from tidelog.expr.text import ForDuckDB
from tidelog.expr.tree import Call, Case, Cast, Column, External, Literal, Members, Node
from tidelog.expr.values.casts import is_castable
from tidelog.expr.values.types import (
    BOOLEAN,
    INTERVAL,
    NULL,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    VARCHAR,
    sql_name,
    sql_type,
)
from tidelog.model.errors import did_you_mean
from tidelog.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

    from tidelog.expr.parsing.syntax import Source

_LONGEST_NAME = 1000
"""Characters of a name that an error tells."""

_MOST_INTERVALS = 1000
"""Values of the type INTERVAL in one list: they are compared one by one."""

AGGREGATES = frozenset(
    (
        *("count", "sum", "min", "max", "avg", "mean", "var_samp", "var_pop", "variance", "stddev", "stddev_samp"),
        *("stddev_pop", "first", "last", "median", "mode", "quantile", "quantile_cont", "string_agg", "list"),
        *("array_agg", "any_value", "arg_min", "arg_max", "bool_and", "bool_or", "product"),
    )
)
"""Aggregate functions of DuckDB, to tell them from unknown names; only some can be computed."""


@contextmanager
def not_too_deep(text: str) -> Iterator[None]:
    """Raise :class:`ExpressionError` where Python finds that calls are nested too deeply."""
    try:
        yield
    except RecursionError:
        raise too_deep(text) from None


class Binder:
    """Turns what sqlglot has read of one text into a typed tree."""

    def __init__(self, source: Source | str, schema: Schema | pa.Schema) -> None:
        """Of a text alone, names can be looked up, and what is wrong has no place in it."""
        self._source = None if isinstance(source, str) else source
        self.text = source if isinstance(source, str) else source.text
        self._schema = schema.arrow if isinstance(schema, Schema) else schema
        self._positions = {name: index for index, name in enumerate(self._schema.names)}
        self._lower: dict[str, list[str]] = {}
        for name in self._schema.names:
            self._lower.setdefault(name.lower(), []).append(name)

    def error(self, message: str, node: exp.Expression | None = None, *, column: str | None = None) -> ExpressionError:
        """An error at the place of a node."""
        place = self._place(node)
        return ExpressionError(message, text=self.text, position=place, column=column)

    def unsupported(self, what: str, node: exp.Expression | None) -> UnsupportedError:
        """An error about something that DuckDB would understand."""
        message = (
            f"{what} is not supported in expressions: these compute a value of the columns of one event, with the "
            "operators of SQL, CASE, CAST, IN, BETWEEN, LIKE and functions of single values"
        )
        return UnsupportedError(message, text=self.text, position=self._place(node))

    @property
    def source(self) -> Source:
        """What sqlglot has read of the text."""
        assert self._source is not None
        return self._source

    def _place(self, node: exp.Expression | None) -> int | None:
        return None if node is None or self._source is None else self._source.place(node)

    def has_column(self, name: str) -> bool:
        """Whether a column is called exactly that."""
        return name in self._positions

    def column(self, name: str, node: exp.Expression | None) -> Column:
        """A column by name; as in DuckDB, case does not matter, unless it tells two columns apart."""
        if name in self._positions:
            found = name
        else:
            candidates = self._lower.get(name.lower(), [])
            if len(candidates) > 1:
                raise self.error(f"{name!r} may be any of {', '.join(map(repr, candidates))}; write it as it is", node)
            if not candidates:
                name = name[:_LONGEST_NAME]
                hint = did_you_mean(name, self._schema.names)
                raise self.error(f"there is no column {name!r}; {hint}", node, column=name)
            found = candidates[0]
        field = self._schema.field(self._positions[found])
        type_ = sql_type(field.type)
        if type_ is None:
            raise self.error(
                f"column {found!r} is of type {field.type}, which expressions cannot use; cast it before it is stored",
                node,
                column=found,
            )
        return Column(type_, found, self._positions[found], field.nullable)

    def call(self, name: str, arguments: Sequence[Node], node: exp.Expression) -> Node:
        """An operator or a function applied to arguments, converted to what it takes."""
        lowered = name.lower()
        lowered = ALIASES.get(lowered, lowered)
        if lowered not in FUNCTIONS:
            if lowered in AGGREGATES:
                raise self.error(f"{name} is an aggregate; expected an expression of a single row", node)
            name = name[:_LONGEST_NAME]
            raise self.error(f"there is no function {name!r}; {did_you_mean(name, _known_names())}", node)
        function = NATIVE.get(lowered)
        for index in CONSTANTS.get(lowered, ()):
            if index < len(arguments) and not arguments[index].is_constant:
                raise self.unsupported(f"argument {index + 1} of {lowered} that depends on columns", node)
        if function is None or any(not each.is_constant for each in _picked(arguments, function.constants)):
            return self._external(lowered, arguments, node)
        try:
            shape = function.shape(arguments)
        except ExpressionError as error:  # of what DuckDB would take, some is refused on purpose
            raise self.error(str(error), node) from None
        if shape is None:
            return self._external(lowered, arguments, node)
        casts, result = shape
        fitted = [
            argument if type_ is None else self.fitted(argument, type_, node)
            for argument, type_ in zip(arguments, casts, strict=True)
        ]
        return Call(result, lowered, tuple(fitted))

    def _external(self, name: str, arguments: Sequence[Node], node: exp.Expression) -> Node:
        """What DuckDB computes; it says of which type the result is."""
        try:
            return External(self._type_of(name, arguments), name, tuple(arguments))
        except ExpressionError as error:
            zoned = [TIMESTAMPTZ if each.type == TIMESTAMPTZ_NS else None for each in arguments]
            if any(zoned):  # which few functions take; the others take less exact ones
                fitted = [
                    each if type_ is None else self.fitted(each, type_, node)
                    for each, type_ in zip(arguments, zoned, strict=True)
                ]
                return self._external(name, fitted, node)
            if isinstance(error, UnsupportedError):
                raise UnsupportedError(str(error), text=self.text, position=self._place(node)) from None
            raise self.error(str(error), node) from None

    def _type_of(self, name: str, arguments: Sequence[Node]) -> pa.DataType:
        operands = tuple(
            each if _says_more_than_its_type(each) else Column(each.type, name, place)
            for place, each in enumerate(arguments)
        )
        return _type_of(External(NULL, name, operands))

    def contained(self, value: Node, literals: Literals, others: Sequence[Node], node: exp.Expression) -> Node:
        """Whether a value is among literals, any number of them, or equals one of other expressions."""
        try:
            type_ = meeting_type([value, *others, *representatives(literals)], "a comparison")
            if type_ == INTERVAL and sum(map(len, literals)) <= _MOST_INTERVALS:
                return self._external("in", [value, *Members(type_, literals).singly(), *others], node)
            members = members_of(literals, type_)
        except ExpressionError as error:
            raise error if error.text else self.error(str(error), node) from None
        rest = [self.fitted(each, type_, node) for each in others]
        return Call(BOOLEAN, "in", (self.fitted(value, type_, node), members, *rest))

    def fitted(self, argument: Node, type_: pa.DataType, node: exp.Expression | None) -> Node:
        """An argument converted to a type, without anybody having asked for it."""
        if argument.type == type_:
            return argument
        if not is_castable(argument.type, type_):
            raise self.error(
                f"{sql_name(argument.type)} cannot become {sql_name(type_)}; expected {sql_name(type_)}", node
            )
        if isinstance(argument, Literal) and isinstance(argument.value, str):
            try:  # better now, with a place, than at every evaluation
                read(pa.array([argument.value], VARCHAR), type_)
            except ExpressionError:
                raise self.error(f"'{argument.value}' cannot be read as {sql_name(type_)}", node) from None
        return Cast(type_, argument, implicit=True)

    def cast(self, argument: Node, type_: pa.DataType, node: exp.Expression, *, lenient: bool) -> Node:
        """A conversion that was asked for."""
        if not is_castable(argument.type, type_):
            raise self.error(f"there is no cast from {sql_name(argument.type)} to {sql_name(type_)}", node)
        return Cast(type_, argument, lenient)

    def case(self, branches: Sequence[tuple[Node, Node]], otherwise: Node, node: exp.Expression) -> Node:
        """CASE: DuckDB says in which type its values meet."""
        operands = [each for branch in branches for each in branch]
        named = [
            each if _says_more_than_its_type(each) else Column(each.type, "", place)
            for place, each in enumerate([*operands, otherwise])
        ]
        shown = Case(NULL, tuple(zip(named[:-1:2], named[1:-1:2], strict=True)), named[-1])
        try:
            type_ = _type_of(shown)
        except UnsupportedError as error:
            raise UnsupportedError(str(error), text=self.text, position=self._place(node)) from None
        except ExpressionError as error:
            raise self.error(str(error), node) from None
        return Case(type_, tuple(branches), otherwise)


def _picked(arguments: Sequence[Node], places: Sequence[int]) -> list[Node]:
    return [arguments[place] for place in places if place < len(arguments)]


def _says_more_than_its_type(node: Node) -> bool:
    """Whether a type may depend on what an argument is: a literal, or a constant that is no long text."""
    return node.is_constant and not grows(node)


def _type_of(node: Node) -> pa.DataType:
    columns = sorted({(f"c{each.position}", each.type) for each in node.walk() if isinstance(each, Column)}, key=str)
    return type_of(ForDuckDB().text(node), tuple(columns))


def _known_names() -> list[str]:
    return [name for name in (*FUNCTIONS, *ALIASES) if name[0].isalpha() and " " not in name]
