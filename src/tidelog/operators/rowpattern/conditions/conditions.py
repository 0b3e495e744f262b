"""Conditions of variables: what of them is known of rows alone, and how the rest is found during the search."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import EvaluationError, ExpressionError, Predicate, all_of, predicate
from tidelog.expr.values.types import sql_type
from tidelog.model.arrays import batch_of, integer_column
from tidelog.operators.rowpattern.conditions.asking import Answers
from tidelog.operators.rowpattern.conditions.code import Code, Coded, NoCode
from tidelog.operators.rowpattern.opcodes import ASKED, CODE, MASK, TRUE
from tidelog.operators.rowpattern.rows import Mask, Rows, asked
from tidelog.operators.rowpattern.syntax import (
    CLASSIFIER_COLUMN,
    MATCH_NUMBER_COLUMN,
    Expression,
    Navigation,
    RowPattern,
    Strategy,
    Term,
)
from tidelog.operators.rowpattern.values.terms import Values

_TERM: Final = re.compile(r'"#(\d+)"')
_OURS: Final = "an expression that DuckDB computes"


@dataclass(frozen=True)
class DatabaseCondition:
    """A condition with functions, or about values such as lists, that expressions of ours do not have.

    DuckDB tells where it holds.
    """

    text: str
    schema: pa.Schema
    """The values that it is about."""
    because: str
    """What it has that expressions do not."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.schema.names)

    def mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Where it holds. Raises :class:`EvaluationError`."""
        holds = asked(f"({self.text}) IS TRUE", batch)
        return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class Several:
    """Conditions that must all hold, some of which DuckDB tells: those are asked of rows where the others hold."""

    own: Predicate
    others: DatabaseCondition

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(dict.fromkeys([*self.own.columns, *self.others.columns]))

    def mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Where all hold. Raises :class:`EvaluationError`."""
        found = self.own.mask(batch)
        places = np.flatnonzero(found)
        if len(places):
            some = batch if len(places) == len(found) else batch.take(integer_column(places))
            found[places] = self.others.mask(some)
        return found


Holds: TypeAlias = Predicate | DatabaseCondition | Several


@dataclass(frozen=True)
class Condition:
    """The condition of one variable."""

    variable: str
    expression: Expression
    whole: Holds
    known: Holds | None
    """What depends on the row and its neighbours alone."""
    rest: Holds | None
    """What depends on the match so far."""

    def mask(self, rows: Rows) -> Mask:
        """Where what is known of rows holds."""
        assert self.known is not None
        columns, fields = [], []
        for name in self.known.columns:
            place = int(name[1:])
            term, type_ = self.expression.terms[place], self.expression.types[place]
            assert isinstance(term, Navigation)
            values = rows.shifted(term.expression, term.physical)
            columns.append(values if values.type == type_ else values.cast(type_))
            fields.append(pa.field(name, type_))
        return self.known.mask(batch_of(columns, pa.schema(fields), len(rows)))


def condition_of(query: RowPattern, variable: str, expression: Expression) -> Condition:
    """Take the condition of a variable apart."""
    known: list[Predicate | DatabaseCondition] = []
    rest: list[Predicate | DatabaseCondition] = []
    for each in conjuncts_of(expression):
        terms = [expression.terms[int(name[1:])] for name in each.columns]
        (known if all(is_of_row(term, variable, query) for term in terms) else rest).append(each)
    return Condition(
        variable, expression, _together([*known, *rest]), *(_together(own) if own else None for own in (known, rest))
    )


def conjuncts_of(expression: Expression) -> list[Predicate | DatabaseCondition]:
    """What must all hold for a condition to do."""
    schema = pa.schema([(f"#{place}", type_) for place, type_ in enumerate(expression.types)])
    plain = pa.schema([each for each in schema if sql_type(each.type) is not None])
    found: list[Predicate | DatabaseCondition] = []
    for text in expression.conjuncts or [expression.text]:
        try:
            found += predicate(text, plain).conjuncts
        except ExpressionError as error:
            own = pa.schema([schema.field(int(place)) for place in sorted(set(_TERM.findall(text)), key=int)])
            kinds = [f"values of type {each}" for each in own.types if sql_type(each) is None]
            asked = DatabaseCondition(text, own, kinds[0] if kinds else _OURS)
            try:
                asked.mask(batch_of([pa.nulls(1, each) for each in own.types], own, 1))
            except EvaluationError:  # whatever the rows are
                raise error from None
            found.append(asked)
    return found


def _together(parts: list[Predicate | DatabaseCondition]) -> Holds:
    """What says that all of some conditions hold."""
    own = [each for each in parts if isinstance(each, Predicate)]
    others = [each for each in parts if isinstance(each, DatabaseCondition)]
    if not others:
        return all_of(own)
    fields = {each.name: each for part in others for each in part.schema}
    text = " AND ".join(f"({each.text})" for each in others)
    asked = others[0] if len(others) == 1 else DatabaseCondition(text, pa.schema(fields.values()), others[0].because)
    return Several(all_of(own), asked) if own else asked


def is_of_row(term: Term, variable: str, query: RowPattern) -> bool:
    """Whether the value of a term, in the condition of a variable, depends on the row and its neighbours alone."""
    if not isinstance(term, Navigation):
        return False
    if CLASSIFIER_COLUMN in term.expression or MATCH_NUMBER_COLUMN in term.expression:
        return False
    is_current = term.is_last and term.logical == 0 and (term.variables is None or variable in term.variables)
    has_neighbours = query.strategy is Strategy.CONTIGUOUS and query.frame is None
    return is_current and (term.physical == 0 or has_neighbours)


@dataclass
class Conditions:
    """The conditions of all variables of a query."""

    query: RowPattern
    values: Values
    each: tuple[Condition | None, ...] = field(init=False)
    kinds: list[int] = field(init=False)
    """How each is found."""
    reasons: dict[str, str] = field(init=False, default_factory=dict)
    """Why the conditions of some variables cannot be code."""
    _code: Code = field(init=False)

    def __post_init__(self) -> None:
        self.each = tuple(
            condition_of(self.query, name, self.query.defines[name]) if name in self.query.defines else None
            for name in self.query.variables
        )
        self._code = Code(self.query.variables, self.query.schema)
        self.kinds = [self._kind(each) for each in self.each]

    def _kind(self, condition: Condition | None) -> int:
        if condition is None or condition.rest is None:
            self._code.add(None, None)
            return TRUE if condition is None else MASK
        if not isinstance(condition.rest, Predicate):
            self._code.add(None, None)
            asked = condition.rest.others if isinstance(condition.rest, Several) else condition.rest
            self.reasons[condition.variable] = asked.because
            return ASKED
        try:
            self._code.add(condition.rest, condition.expression)
        except NoCode as error:
            self.reasons[condition.variable] = str(error)
            return ASKED
        return CODE

    @cached_property
    def behind(self) -> int:
        """How many rows before those of a match are looked at."""
        return max([0, *(-term.physical for term in self._navigations())])

    @cached_property
    def ahead(self) -> int:
        """How many rows behind those of a match are looked at."""
        return max([0, *(term.physical for term in self._navigations())])

    def _navigations(self) -> list[Navigation]:
        if self.query.strategy is not Strategy.CONTIGUOUS:
            return []
        expressions = [*self.query.defines.values(), *(each.value for each in self.query.measures)]
        return [term for each in expressions for term in each.terms if isinstance(term, Navigation)]

    def over(self, rows: Rows) -> Evaluated:
        """What is known of some rows."""
        kinds = np.array(self.kinds, np.int32)
        masks = np.ones((len(self.each), len(rows)), np.uint8)
        rests: list[Holds | None] = []
        for place, condition in enumerate(self.each):
            rests.append(None)
            if condition is None:
                continue
            rests[-1] = condition.rest
            if condition.known is None:
                continue
            try:
                masks[place] = condition.mask(rows)
            except EvaluationError:
                # Some row has no value, and perhaps nobody asks for it.
                kinds[place] = ASKED
                rests[-1] = condition.whole
        return Evaluated(self, rows, kinds, masks, tuple(rests), self._code.over(rows))


@dataclass(frozen=True)
class Evaluated:
    """Conditions over some rows."""

    conditions: Conditions
    rows: Rows
    kinds: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8]
    rests: tuple[Holds | None, ...]
    code: Coded

    def without_code(self) -> None:
        """Code has come to a number that it cannot hold: from now on whoever runs the kernel is asked."""
        self.kinds[self.kinds == CODE] = ASKED

    @cached_property
    def answers(self) -> Answers:
        """Those of conditions that no kernel holds."""
        return Answers(self)
