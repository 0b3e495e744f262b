"""Conditions of variables: what of them is known of rows alone, and how the rest is found during the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import EvaluationError, Predicate, all_of, predicate
from tidelog.expr.aggregates import database
from tidelog.expr.values.types import sql_type
from tidelog.model.arrays import batch_of
from tidelog.operators.rowpattern.conditions.asking import Answers
from tidelog.operators.rowpattern.conditions.code import Code, Coded, NoCode
from tidelog.operators.rowpattern.opcodes import ASKED, CODE, MASK, TRUE
from tidelog.operators.rowpattern.rows import Mask, Rows
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


@dataclass(frozen=True)
class DatabaseCondition:
    """A condition about values that no expression of ours has, such as lists: DuckDB tells where it holds."""

    text: str
    schema: pa.Schema
    """The values that it is about."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.schema.names)

    def mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Where it holds. Raises :class:`EvaluationError`."""
        holds = database.asked(f"SELECT ({self.text}) IS TRUE AS x FROM input", batch)
        return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class Condition:
    """The condition of one variable."""

    variable: str
    expression: Expression
    known: Predicate | None
    """What depends on the row and its neighbours alone."""
    rest: Predicate | DatabaseCondition | None
    """What depends on the match so far."""

    def mask(self, rows: Rows) -> Mask:
        """Where what is known of rows holds."""
        assert self.known is not None
        columns = []
        for name in self.known.columns:
            place = int(name[1:])
            term, type_ = self.expression.terms[place], self.expression.types[place]
            assert isinstance(term, Navigation)
            values = rows.shifted(term.expression, term.physical)
            columns.append(values if values.type == type_ else values.cast(type_))
        schema = pa.schema([self.known.schema.field(name) for name in self.known.columns])
        return self.known.mask(batch_of(columns, schema, len(rows)))


def condition_of(query: RowPattern, variable: str, expression: Expression) -> Condition:
    """Take the condition of a variable apart."""
    schema = pa.schema([(f"#{place}", type_) for place, type_ in enumerate(expression.types)])
    if any(sql_type(each) is None for each in expression.types):
        return Condition(variable, expression, None, DatabaseCondition(expression.text, schema))
    whole = predicate(expression.text, schema)
    known: list[Predicate] = []
    rest: list[Predicate] = []
    for each in whole.conjuncts:
        terms = [expression.terms[int(name[1:])] for name in each.columns]
        (known if all(is_of_row(term, variable, query) for term in terms) else rest).append(each)
    return Condition(variable, expression, all_of(known) if known else None, all_of(rest) if rest else None)


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
        if isinstance(condition.rest, DatabaseCondition):
            self._code.add(None, None)
            kinds = [str(each) for each in condition.rest.schema.types if sql_type(each) is None]
            self.reasons[condition.variable] = f"values of type {kinds[0]}"
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
        rests: list[Predicate | DatabaseCondition | None] = []
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
                rests[-1] = all_of([each for each in (condition.known, condition.rest) if isinstance(each, Predicate)])
        return Evaluated(self, rows, kinds, masks, tuple(rests), self._code.over(rows))


@dataclass(frozen=True)
class Evaluated:
    """Conditions over some rows."""

    conditions: Conditions
    rows: Rows
    kinds: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8]
    rests: tuple[Predicate | DatabaseCondition | None, ...]
    code: Coded

    def without_code(self) -> None:
        """Code has come to a number that it cannot hold: from now on whoever runs the kernel is asked."""
        self.kinds[self.kinds == CODE] = ASKED

    @cached_property
    def answers(self) -> Answers:
        """Those of conditions that no kernel holds."""
        return Answers(self)
