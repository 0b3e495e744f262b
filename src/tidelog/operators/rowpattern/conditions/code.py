"""Conditions over the match so far as code of the kernel.

Numbers of up to 64 bits, points in time and truth values are integers there, DOUBLE is a float, and texts are integers
too: their places among all texts of the rows at hand, in order. What does not fit says why, and is evaluated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr import AggregateCall, ExpressionError, Predicate, parse_aggregate
from tidelog.expr.evaluate import constant_value
from tidelog.expr.tree import Call, Cast, Column, Members, Node
from tidelog.expr.values.types import sql_name
from tidelog.expr.values.vectors import numbers, valid_rows
from tidelog.operators.rowpattern import opcodes
from tidelog.operators.rowpattern.rows import Rows, expression_over, schema_of_terms
from tidelog.operators.rowpattern.syntax import (
    CLASSIFIER_COLUMN,
    MATCH_NUMBER_COLUMN,
    Aggregate,
    Expression,
    MatchNumber,
    Navigation,
)

_INTEGER: Final = "integer"
_FLOAT: Final = "float"
_TEXT: Final = "text"
_HUGEINT: Final = pa.decimal128(38, 0)
_DEEPEST: Final = 60

_COMPARISONS: Final = {
    "=": (0, 0, 0),
    "<>": (0, 1, 0),
    "<": (1, 0, 0),
    "<=": (2, 0, 0),
    ">": (2, 1, 0),
    ">=": (1, 1, 0),
}
"""Which comparison, and whether it is negated."""
_TRUTHS: Final = {"is true": (1, 0), "is not true": (1, 1), "is false": (0, 0), "is not false": (0, 1)}
_ARITHMETIC: Final = {
    "+": (opcodes.ADD_INTEGER, opcodes.ADD_FLOAT),
    "-": (opcodes.SUBTRACT_INTEGER, opcodes.SUBTRACT_FLOAT),
    "*": (opcodes.MULTIPLY_INTEGER, opcodes.MULTIPLY_FLOAT),
}


class NoCode(Exception):
    """The kernel cannot evaluate something; the message says what."""


def kind_of(type_: pa.DataType) -> str:
    """How values of a type are held. Raises :class:`NoCode`."""
    if pa.types.is_boolean(type_) or type_ == _HUGEINT or pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return _INTEGER
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return _INTEGER
    if pa.types.is_float64(type_) or pa.types.is_float32(type_):
        return _FLOAT
    if pa.types.is_string(type_):
        return _TEXT
    raise NoCode(f"values of type {sql_name(type_)}")


@dataclass
class Code:
    """Code of all conditions of a query that have any, and what it needs to know of rows."""

    variables: tuple[str, ...]
    schema: pa.Schema
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    cuts: list[int] = field(default_factory=lambda: [0])
    terms: list[tuple[int, ...]] = field(default_factory=list)
    sets: list[tuple[bool, ...]] = field(default_factory=list)
    slots: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Kind, set, column, filter."""
    integers: list[str] = field(default_factory=list)
    """Expressions over rows."""
    floats: list[str] = field(default_factory=list)
    constants: list[int | str] = field(default_factory=list)
    float_constants: list[float] = field(default_factory=list)

    def add(self, condition: Predicate | None, expression: Expression | None) -> None:
        """Add the code of the next variable, of none if there is no condition. Raises :class:`NoCode`."""
        if condition is not None and expression is not None:
            before = len(self.steps)
            try:
                _Writer(self, expression).value(condition.expression.node, 0)
            except NoCode:
                del self.steps[before:]
                self.cuts.append(len(self.steps))
                raise
        self.cuts.append(len(self.steps))

    def place(self, values: list[Any], value: Any) -> int:
        """The place of a value in a list, added if it is not there."""
        for at, known in enumerate(values):
            if known == value and type(known) is type(value):
                return at
        values.append(value)
        return len(values) - 1

    def chosen(self, variables: frozenset[str] | None) -> int:
        """The place of a set of variables."""
        return self.place(self.sets, tuple(variables is None or name in variables for name in self.variables))

    def slot(self, kind: int, variables: frozenset[str] | None, column: int = -1, filter_: int = -1) -> int:
        """The place of something that is known of a match."""
        return self.place(self.slots, (kind, self.chosen(variables), column, filter_))

    def over(self, rows: Rows) -> Coded:
        """The code, with what is known of some rows."""
        columns = [rows.values(each) for each in self.integers]
        texts = [values for values in columns if pa.types.is_string(values.type)]
        known = None
        if texts or any(isinstance(each, str) for each in self.constants):
            own = pa.array([each for each in self.constants if isinstance(each, str)], pa.string())
            known = pc.unique(pa.chunked_array([*texts, own], pa.string()))
            known = known.take(pc.array_sort_indices(known)).drop_null()
        integers, integers_valid = _stacked(columns, len(rows), np.int64, known)
        floats, floats_valid = _stacked([rows.values(each) for each in self.floats], len(rows), np.float64, None)
        constants = [pc.index(known, each).as_py() if isinstance(each, str) else each for each in self.constants]
        count = len(self.slots)
        slots = np.array(self.slots, np.int32).reshape(count, 4)
        starts, float_starts = np.zeros(count, np.int64), np.zeros(count)
        for at, (kind, *_) in enumerate(self.slots):
            starts[at] = _STARTS.get(kind, 0)
            float_starts[at] = _FLOAT_STARTS.get(kind, 0.0)
        return Coded(
            np.array(self.cuts, np.int64),
            np.array(self.steps, np.int32).reshape(-1, 3),
            np.array(self.terms, np.int32).reshape(-1, opcodes.TERM_WIDTH),
            np.array(self.sets, np.uint8).reshape(len(self.sets), len(self.variables)),
            np.ascontiguousarray(slots[:, 0]),
            np.ascontiguousarray(slots[:, 1]),
            np.ascontiguousarray(slots[:, 2]),
            np.ascontiguousarray(slots[:, 3]),
            integers,
            integers_valid,
            floats,
            floats_valid,
            np.array(constants, np.int64),
            np.array(self.float_constants, np.float64),
            starts,
            float_starts,
        )


_STARTS: Final = {
    opcodes.LAST_ROW: -1,
    opcodes.FIRST_ROW: -1,
    opcodes.LEAST_INTEGER: 2**63 - 1,
    opcodes.MOST_INTEGER: -(2**63),
}
_FLOAT_STARTS: Final = {opcodes.LEAST_FLOAT: float("nan"), opcodes.MOST_FLOAT: float("-inf")}


@dataclass(frozen=True)
class Coded:
    """Code over some rows, as the kernel takes it."""

    cuts: Any
    steps: Any
    terms: Any
    sets: Any
    slot_kinds: Any
    slot_sets: Any
    slot_columns: Any
    slot_filters: Any
    integers: Any
    integers_valid: Any
    floats: Any
    floats_valid: Any
    constants: Any
    float_constants: Any
    starts: Any
    float_starts: Any


def _stacked(columns: Sequence[pa.Array], count: int, dtype: Any, known: pa.Array | None) -> tuple[Any, Any]:
    values, valid = np.zeros((len(columns), count), dtype), np.ones((len(columns), count), np.uint8)
    for at, column in enumerate(columns):
        if pa.types.is_string(column.type):
            column = pc.index_in(column, known)
        there = valid_rows(column)
        values[at] = numbers(column)
        if there is not None:
            valid[at] = there
    return values, valid


class _Writer:
    """Writes the code of one condition."""

    def __init__(self, code: Code, expression: Expression) -> None:
        self._code = code
        self._expression = expression

    def value(self, node: Node, depth: int) -> str:
        """Code that leaves the value of a node on the stack; how it is held."""
        if depth > _DEEPEST:
            raise NoCode("an expression that is nested deeply")
        if node.is_constant:
            return self._constant(node)
        if isinstance(node, Column):
            return self._term(int(node.name[1:]))
        if isinstance(node, Cast):
            return self._cast(node, depth)
        if not isinstance(node, Call):
            raise NoCode("CASE")
        return self._call(node, depth)

    def _add(self, operation: int, first: int = 0, second: int = 0) -> None:
        self._code.steps.append((operation, first, second))

    def _constant(self, node: Node) -> str:
        scalar = constant_value(node)
        if not scalar.is_valid:
            self._add(opcodes.NULL_CONSTANT)
            return _INTEGER if pa.types.is_null(node.type) else kind_of(node.type)
        kind = kind_of(node.type)
        if kind == _FLOAT:
            self._code.float_constants.append(scalar.as_py())
            self._add(opcodes.FLOAT_CONSTANT, len(self._code.float_constants) - 1)
        elif kind == _TEXT:
            self._add(opcodes.INTEGER_CONSTANT, self._code.place(self._code.constants, scalar.as_py()))
        else:
            value = int(scalar.as_py()) if node.type == _HUGEINT else int(numbers(scalar)[0])
            if not -(2**63) <= value < 2**63:
                raise NoCode("a number of more than 64 bits")
            self._add(opcodes.INTEGER_CONSTANT, self._code.place(self._code.constants, value))
        return kind

    def _term(self, place: int) -> str:
        term, type_ = self._expression.terms[place], self._expression.types[place]
        kind = kind_of(type_)
        match term:
            case MatchNumber():
                self._add(opcodes.MATCH_NUMBER)
            case Navigation():
                self._navigation(term, type_)
            case Aggregate():
                self._aggregate(term, type_)
        return kind

    def _navigation(self, term: Navigation, type_: pa.DataType) -> None:
        code = self._code
        kind = opcodes.LAST_ROW if term.is_last else opcodes.FIRST_ROW
        found = (
            code.slot(kind, term.variables),
            code.chosen(term.variables),
            int(term.is_last),
            term.logical,
            term.physical,
        )
        place = code.place(code.terms, found)
        if MATCH_NUMBER_COLUMN in term.expression:
            raise NoCode("an expression of MATCH_NUMBER() at a row")
        if CLASSIFIER_COLUMN in term.expression:
            if term.expression.strip('"') != CLASSIFIER_COLUMN:
                raise NoCode("an expression of CLASSIFIER()")
            first = len(code.constants)
            code.constants += code.variables
            self._add(opcodes.LABEL_AT, place, first)
            return
        column = self._column(term.expression, type_)
        self._add(opcodes.FLOAT_AT if kind_of(type_) == _FLOAT else opcodes.INTEGER_AT, place, column)

    def _column(self, expression: str, type_: pa.DataType) -> int:
        own = expression_over(expression, self._code.schema)
        if own is None:
            raise NoCode(f"the expression {expression}")
        if own.type != type_:
            raise NoCode(f"a term of type {own.type} as {type_}")
        if own.type == _HUGEINT:
            raise NoCode(f"values of type {sql_name(own.type)}")
        is_float = kind_of(own.type) == _FLOAT
        return self._code.place(self._code.floats if is_float else self._code.integers, expression)

    def _aggregate(self, term: Aggregate, type_: pa.DataType) -> None:
        code = self._code
        try:
            call = parse_aggregate(term.call, schema_of_terms(code.schema))
        except ExpressionError:
            raise NoCode(f"the aggregate {term.call}") from None
        if not isinstance(call, AggregateCall) or call.type != type_ or call.is_ordered:
            raise NoCode(f"the aggregate {term.call}")
        if {CLASSIFIER_COLUMN, MATCH_NUMBER_COLUMN} & set(call.columns):
            raise NoCode(f"the aggregate {term.call}")
        chosen, where = term.variables, -1
        if call.where is not None:
            where = self._column(str(call.where), pa.bool_())
        if call.argument is None:
            self._add(opcodes.INTEGER_SLOT, code.slot(opcodes.COUNT, chosen, -1, where), -1)
            return
        own = call.argument.type
        if (kind := kind_of(own)) == _TEXT and call.function != "count":
            raise NoCode(f"the aggregate {term.call}")
        is_float = kind == _FLOAT
        column = self._column(str(call.argument), own)
        count = code.slot(opcodes.COUNT_FLOAT if is_float else opcodes.COUNT_INTEGER, chosen, column, where)
        slot = opcodes.FLOAT_SLOT if is_float else opcodes.INTEGER_SLOT
        match call.function:
            case "count":
                self._add(opcodes.INTEGER_SLOT, count, -1)
            case "sum":
                total = opcodes.SUM_FLOAT if is_float else opcodes.SUM_INTEGER
                self._add(slot, code.slot(total, chosen, column, where), count)
            case "avg" if pa.types.is_integer(own) or is_float:
                total = opcodes.SUM_FLOAT if is_float else opcodes.SUM_INTEGER
                average = opcodes.AVERAGE_SLOT if is_float else opcodes.AVERAGE_INTEGER
                self._add(average, code.slot(total, chosen, column, where), count)
            case "min" | "max" as name:
                least = opcodes.LEAST_FLOAT if is_float else opcodes.LEAST_INTEGER
                most = opcodes.MOST_FLOAT if is_float else opcodes.MOST_INTEGER
                self._add(slot, code.slot(least if name == "min" else most, chosen, column, where), count)
            case _:
                raise NoCode(f"the aggregate {term.call}")

    def _cast(self, node: Cast, depth: int) -> str:
        source, target = node.operand.type, node.type
        known = kind_of(source), kind_of(target)
        is_whole = pa.types.is_integer(source) or pa.types.is_boolean(source) or source == _HUGEINT
        self.value(node.operand, depth)
        if known == (_INTEGER, _FLOAT) and is_whole and pa.types.is_float64(target):
            self._add(opcodes.TO_FLOAT)
        elif known == (_FLOAT, _FLOAT) and pa.types.is_float64(target):
            pass
        elif known == (_INTEGER, _INTEGER) and is_whole and (pa.types.is_integer(target) or target == _HUGEINT):
            self._check_range(target)
        elif source != target:
            raise NoCode(f"a cast of {sql_name(source)} to {sql_name(target)}")
        return known[1]

    def _check_range(self, type_: pa.DataType) -> None:
        """What a narrower type cannot hold is left to others, who say what is wrong with it."""
        if type_ in (_HUGEINT, pa.int64()):
            return
        limits = np.iinfo(type_.to_pandas_dtype())
        first = len(self._code.constants)
        self._code.constants += [int(limits.min), int(limits.max)]
        self._add(opcodes.CHECK_RANGE, first)

    def _call(self, node: Call, depth: int) -> str:
        name, arguments = node.name, node.arguments
        if name in _COMPARISONS:
            return self._compared(arguments[0], arguments[1], name, depth)
        if name in ("is distinct from", "is not distinct from"):
            kind = self._two(arguments, depth)
            operation = opcodes.DISTINCT_FLOAT if kind == _FLOAT else opcodes.DISTINCT_INTEGER
            self._add(operation, 0, int(name == "is not distinct from"))
        elif name == "between":
            self._compared(arguments[0], arguments[1], ">=", depth)
            self._compared(arguments[0], arguments[2], "<=", depth + 1)
            self._add(opcodes.AND)
        elif name == "in":
            self._in(arguments, depth)
        elif name in ("and", "or"):
            for at, each in enumerate(arguments):
                self.value(each, depth + min(at, 1))
                if at:
                    self._add(opcodes.AND if name == "and" else opcodes.OR)
        elif name == "not":
            self.value(arguments[0], depth)
            self._add(opcodes.NOT)
        elif name in ("is null", "is not null"):
            self.value(arguments[0], depth)
            self._add(opcodes.IS_NULL, 0, int(name == "is not null"))
        elif name in _TRUTHS:
            self.value(arguments[0], depth)
            self._add(opcodes.IS_TRUE, *_TRUTHS[name])
        else:
            return self._arithmetic(node, depth)
        return _INTEGER

    def _two(self, arguments: Sequence[Node], depth: int) -> str:
        kinds = {self.value(each, depth + at) for at, each in enumerate(arguments[:2])}
        if len(kinds) > 1:
            raise NoCode("a comparison of different types")
        return kinds.pop()

    def _compared(self, left: Node, right: Node, name: str, depth: int) -> str:
        kind = self._two([left, right], depth)
        which, negated, _ = _COMPARISONS[name]
        self._add(opcodes.COMPARE_FLOAT if kind == _FLOAT else opcodes.COMPARE_INTEGER, which, negated)
        return _INTEGER

    def _in(self, arguments: Sequence[Node], depth: int) -> None:
        members: list[Node] = []
        for each in arguments[1:]:
            members += each.singly() if isinstance(each, Members) else [each]
        if len(members) > _DEEPEST or any(each.type != arguments[0].type for each in members):
            raise NoCode("a list of many values, or of other types")
        for at, each in enumerate(members):
            self._compared(arguments[0], each, "=", depth + min(at, 1))
            if at:
                self._add(opcodes.OR)

    def _arithmetic(self, node: Call, depth: int) -> str:
        name, arguments, type_ = node.name, node.arguments, node.type
        is_float = pa.types.is_float64(type_)
        if name not in (*_ARITHMETIC, "/") or not (is_float or pa.types.is_integer(type_) or type_ == _HUGEINT):
            raise NoCode(f"the function {name}")
        kinds = {self.value(each, depth + at) for at, each in enumerate(arguments)}
        if kinds != {_FLOAT if is_float else _INTEGER}:
            raise NoCode(f"{name} of such types")
        if not all(pa.types.is_integer(each.type) or each.type == _HUGEINT or is_float for each in arguments):
            raise NoCode(f"{name} of such types")
        if len(arguments) == 1:
            if name == "-":
                self._add(opcodes.NEGATE_FLOAT if is_float else opcodes.NEGATE_INTEGER)
        elif name == "/":
            if not is_float:
                raise NoCode("the function /")
            self._add(opcodes.DIVIDE_FLOAT)
        else:
            self._add(_ARITHMETIC[name][is_float])
        if not is_float:
            self._check_range(type_)
        return _FLOAT if is_float else _INTEGER
