"""Row patterns of all kinds over random rows, compared with the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.row_patterns.oracle import Oracle, Query, SkipError, TooMuch, View
from tidelog.operators.rowpattern import evaluate as evaluating
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.syntax import (
    Aggregate,
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Expression,
    MatchNumber,
    Measure,
    Navigation,
    OrderKey,
    Pattern,
    Permutation,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    Variable,
)

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
TYPES = {"t": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string(), "#classifier": pa.string()}
Dice = np.random.Generator
Function = Callable[[View], Any]


class Term:
    """A term of an expression, and a function that gives its value."""

    def __init__(self, term: Any, type_: pa.DataType, function: Function) -> None:
        self.term, self.type, self.function = term, type_, function


def navigation(column: str, **options: Any) -> Term:
    term = Navigation(f'"{column}"', **options)

    def function(view: View) -> Any:
        found = view.row(term.variables, term.is_last, term.logical, term.physical, term.is_final)
        if found is None:
            return None
        return found[1] if column == "#classifier" else view.rows[found[0]][column]

    return Term(term, TYPES[column], function)


def aggregate(call: str, column: str | None, variables: frozenset[str] | None, is_final: bool = False) -> Term:
    name = call.partition("(")[0]

    def function(view: View) -> Any:
        rows = [view.rows[row] for row, _, _ in view.chosen(variables, is_final)]
        if column is None:
            return len(rows)
        if name == "array_agg":
            return [row[column] for row in rows] or None
        values = [row[column] for row in rows if row[column] is not None]
        if name == "count":
            return len(set(values)) if "DISTINCT" in call else len(values)
        if not values:
            return None
        total: dict[str, Callable[[Any], Any]] = {"sum": sum, "min": min, "max": max, "avg": lambda v: sum(v) / len(v)}
        return total[name](values)

    types = {"count": pa.int64(), "sum": pa.decimal128(38, 0), "avg": pa.float64(), "array_agg": pa.list_(pa.int64())}
    return Term(Aggregate(call, variables, is_final), types.get(name, pa.int64()), function)


def number() -> Term:
    return Term(MatchNumber(), pa.int64(), lambda view: view.number)


def expression(text: str, *terms: Term) -> Expression:
    return Expression(text, tuple(each.term for each in terms), tuple(each.type for each in terms))


def compared(operator: str, one: Term, other: Term) -> tuple[Expression, Function]:
    functions: dict[str, Callable[[Any, Any], bool]] = {
        "<": lambda a, b: a < b,
        ">=": lambda a, b: a >= b,
        "=": lambda a, b: a == b,
        "<>": lambda a, b: a != b,
    }

    def holds(view: View) -> bool | None:
        left, right = one.function(view), other.function(view)
        return None if left is None or right is None else functions[operator](left, right)

    return expression(f'"#0" {operator} "#1"', one, other), holds


def both(left: tuple[Expression, Function], right: tuple[Expression, Function]) -> tuple[Expression, Function]:
    count = len(left[0].terms)
    text = right[0].text
    for place in reversed(range(len(right[0].terms))):
        text = text.replace(f'"#{place}"', f'"#{place + count}"')

    def holds(view: View) -> bool | None:
        values = left[1](view), right[1](view)
        return False if False in values else None if None in values else True

    whole = Expression(f"({left[0].text}) AND ({text})", left[0].terms + right[0].terms, left[0].types + right[0].types)
    return whole, holds


def some(dice: Dice, values: Any) -> Any:
    return values[int(dice.integers(len(values)))]


NAMES = ("A", "B", "C", "D")


def condition(dice: Dice, own: str, names: list[str], depth: int = 0) -> tuple[Expression, Function]:
    """A condition on the row alone, its neighbours, or the match so far."""
    mine = frozenset([own])
    theirs = frozenset(some(dice, [names[:1], names[-1:], names[:2], [own, names[0]]]))
    constant = int(dice.integers(1, 4))
    column = some(dice, ["v", "x"])
    row = navigation(column, variables=some(dice, [None, mine]))
    kind = int(dice.integers(13))
    if kind == 0 and depth == 0:
        return both(condition(dice, own, names, 1), condition(dice, own, names, 1))
    if kind <= 4:
        operator = some(dice, ["<", ">=", "=", "<>"])
        test = {"<": lambda v: v < constant, ">=": lambda v: v >= constant, "=": lambda v: v == constant}.get(
            operator, lambda v: v != constant
        )
        return expression(
            f'"#0" {operator} {constant}', row
        ), lambda view: None if (value := row.function(view)) is None else test(value)
    if kind == 5:
        letter = navigation("s", variables=mine)
        return expression(
            "\"#0\" IN ('a', 'b')", letter
        ), lambda view: None if (value := letter.function(view)) is None else value in ("a", "b")
    operator = some(dice, ["<", ">=", "<>"])
    if kind <= 7:
        offset = some(dice, [-1, -1, -2, 1])
        return compared(operator, row, navigation(column, variables=mine, physical=offset))
    if kind == 8:
        return compared("=", navigation("s", variables=mine), navigation("s", variables=theirs))
    if kind == 9:
        total = some(
            dice,
            [
                aggregate("count(*)", None, theirs),
                aggregate('count("v")', "v", None),
                aggregate('sum("v")', "v", theirs),
                aggregate('max("v")', "v", theirs),
                aggregate('count(DISTINCT "v")', "v", None),
            ],
        )
        return expression(
            f'"#0" < {constant}', total
        ), lambda view: None if (value := total.function(view)) is None else value < constant
    if kind == 10:
        label = navigation("#classifier", logical=int(dice.integers(3)), is_last=bool(dice.integers(2)))
        name = some(dice, names)
        return expression(
            f"\"#0\" <> '{name}'", label
        ), lambda view: None if (value := label.function(view)) is None else value != name
    if kind == 11:
        which = number()
        return expression(f'"#0" < {constant + 1}', which), lambda view: which.function(view) < constant + 1
    other = navigation(
        column,
        variables=theirs,
        is_last=bool(dice.integers(2)),
        logical=some(dice, [0, 0, 1]),
        physical=some(dice, [0, 0, -1, 1]),
    )
    return compared(operator, row, other)


def pattern(dice: Dice, names: list[str], depth: int) -> Pattern:
    kind = int(dice.integers(12)) if depth else 0
    if kind <= 2:
        return Variable(some(dice, names))

    def inner() -> Pattern:
        return pattern(dice, names, depth - 1)

    if kind <= 5:
        return Concatenation(tuple(inner() for _ in range(int(dice.integers(2, 4)))))
    if kind <= 8:
        least, most = some(
            dice, [(0, None), (1, None), (0, 1), (2, None), (1, 2), (0, 2), (2, 2), (0, None), (1, None)]
        )
        return Quantified(inner(), least, most, bool(dice.integers(3)))
    if kind == 9:
        return Alternation(tuple(inner() for _ in range(int(dice.integers(2, 4)))))
    if kind == 10:
        either: list[Pattern] = [Permutation((inner(), inner())), Exclusion(Variable(some(dice, names)))]
        return either[int(dice.integers(2))]
    others: list[Pattern] = [Empty(), Anchor(is_start=True), Anchor(is_start=False), Variable(names[0])]
    return others[int(dice.integers(4))]


def variables_of(part: Pattern) -> list[str]:
    return list(RowPattern(SCHEMA, part).variables)


def measures(dice: Dice, names: list[str]) -> list[tuple[str, Term]]:
    one = frozenset([some(dice, names)])
    final = bool(dice.integers(2))
    found = [
        ("label", navigation("#classifier")),
        ("number", number()),
        ("first", navigation("t", is_last=False, is_final=final)),
        ("last", navigation("v", variables=one, logical=int(dice.integers(2)), is_final=final)),
        ("before", navigation("v", variables=one, physical=some(dice, [-1, 1, -2]))),
        ("count", aggregate("count(*)", None, one, final)),
        ("total", aggregate('sum("v")', "v", None, not final)),
    ]
    return [*found, ("list", aggregate('array_agg("v")', "v", one, final))] if dice.integers(5) == 0 else found


def random_case(dice: Dice) -> tuple[RowPattern, Query, list[tuple[str, Term]]]:
    names = list(NAMES[: int(dice.integers(1, 5))])
    shape = pattern(dice, names, 3)
    names = variables_of(shape) or ["A"]
    if not variables_of(shape):
        shape = Concatenation((shape, Variable("A")))
    strategy = some(dice, [Strategy.CONTIGUOUS, Strategy.CONTIGUOUS, Strategy.SKIP_TILL_NEXT, Strategy.SKIP_TILL_ANY])
    is_all = bool(dice.integers(4) == 0)
    rows = some(dice, list(Rows)) if not is_all else some(dice, [Rows.ONE, Rows.OMIT_EMPTY])
    skip = some(dice, [Skip.PAST_LAST_ROW, Skip.PAST_LAST_ROW, *Skip])
    skip_to = frozenset([some(dice, names)])
    within = some(dice, [None, None, 2, 5])
    with_timeouts = within == 5 and rows is not Rows.WITH_UNMATCHED
    chosen = measures(dice, names)
    defined = [(name, condition(dice, name, names)) for name in names if dice.integers(5)]
    if is_all and any(isinstance(term, MatchNumber) for _, (each, _) in defined for term in each.terms):
        return random_case(dice)
    own = RowPattern(
        SCHEMA,
        shape,
        {name: text for name, (text, _) in defined},
        tuple(Measure(name, expression('"#0"', term), term.type) for name, term in chosen),
        ("k",),
        (OrderKey("t"),),
        rows,
        skip,
        skip_to,
        min(skip_to),
        within,
        strategy,
        is_all,
        with_timeouts=with_timeouts,
    )
    theirs = Query(
        shape,
        {name: function for name, (_, function) in defined},
        [(name, term.function) for name, term in chosen],
        rows,
        skip,
        skip_to,
        None if within is None else ("t", within),
        strategy,
        is_all,
        with_timeouts,
    )
    return own, theirs, chosen


def random_rows(dice: Dice) -> pa.RecordBatch:
    count = int(dice.integers(1, 13))
    keys = np.sort(dice.integers(0, 3, count))
    times = np.cumsum(dice.integers(0, 3, count))
    values = [None if dice.integers(9) == 0 else int(dice.integers(1, 5)) for _ in range(count)]
    reals = [None if dice.integers(9) == 0 else float(dice.integers(1, 5)) for _ in range(count)]
    letters = [some(dice, ["a", "b", "c", None]) for _ in range(count)]
    return pa.record_batch(
        [pa.array([f"k{key}" for key in keys]), pa.array(times), pa.array(values, pa.int64()), reals, letters],
        schema=SCHEMA,
    )


def expected(query: Query, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    found = []
    listed = rows.to_pylist()
    for key in dict.fromkeys(row["k"] for row in listed):
        own = [row for row in listed if row["k"] == key]
        for place, *values in Oracle(query, own).output():
            found.append((key, None if place is None else own[place]["t"], *values))
    return found


def run(query: RowPattern, rows: pa.RecordBatch, size: int) -> list[tuple[Any, ...]]:
    parts = [rows.slice(first, size) for first in range(0, rows.num_rows, size)]
    found = []
    for batch in evaluate(query, parts):
        assert batch.schema == query.output
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        times = columns.get("t", [None] * batch.num_rows)
        names = [*(each.name for each in query.measures), *(["timed_out"] if query.with_timeouts else [])]
        found += list(zip(columns["k"], times, *(columns[name] for name in names), strict=True))
    return found


def check(seed: int) -> bool:
    dice = np.random.default_rng(seed)
    own, theirs, _ = random_case(dice)
    compared = False
    for _ in range(3):
        rows = random_rows(dice)
        size = int(dice.integers(1, 6))
        try:
            wanted = expected(theirs, rows)
        except TooMuch:
            continue
        except SkipError:
            with pytest.raises(PatternError):
                run(own, rows, size)
            compared = True
            continue
        found = run(own, rows, size)
        assert [tuple(map(_plain, row)) for row in found] == [tuple(map(_plain, row)) for row in wanted], (
            seed,
            own,
            rows.to_pylist(),
        )
        compared = True
    return compared


def _plain(value: Any) -> Any:
    return int(value) if hasattr(value, "as_tuple") else value


@pytest.mark.parametrize("part", range(4))
def test_random(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "_ROWS", 2)
    done = sum(check(1000 * part + seed) for seed in range(30))
    assert done > 20
