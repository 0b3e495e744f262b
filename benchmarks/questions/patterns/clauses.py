"""Rows and row patterns that the questions share.

Rows are a sequence of symbols 0 to 25 with prices around 1,000, one every tick; keys are 0 to 999, at random.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog.operators.rowpattern.syntax import (
    Concatenation,
    Expression,
    Measure,
    Navigation,
    OrderKey,
    Quantified,
    RowPattern,
    Strategy,
    Variable,
)

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("symbol", pa.int64()), ("price", pa.float64())])
BATCH = 1 << 17


def rows(events: int) -> pa.Table:
    """Rows in the order of time."""
    dice = np.random.default_rng(20)
    return pa.table(
        [
            np.arange(events),
            dice.integers(0, 1000, events),
            dice.integers(0, 26, events),
            dice.normal(1000, 10, events),
        ],
        schema=SCHEMA,
    )


def value(column: str, **options: object) -> Navigation:
    """A column of a row of the match."""
    return Navigation(f'"{column}"', **options)  # type: ignore[arg-type]


def expression(text: str, *terms: Navigation) -> Expression:
    """An expression around some terms."""
    return Expression(text, terms, tuple(SCHEMA.field(term.expression.strip('"')).type for term in terms))


def before(column: str) -> Navigation:
    """A column of the row before."""
    return value(column, physical=-1)


def of(column: str, variable: str) -> Navigation:
    """A column of the last row of a variable."""
    return value(column, variables=frozenset([variable]))


def clause(pattern: str, within: int | None = None, **defines: Expression) -> RowPattern:
    """A pattern of single letters, some with a plus behind them; the times of the first and the last row come out."""
    parts = tuple(Quantified(Variable(each[0]), 1, None) if "+" in each else Variable(each) for each in pattern.split())
    measures = [("first", value("t", is_last=False)), ("last", value("t")), ("price", value("price"))]
    return RowPattern(
        SCHEMA,
        Concatenation(parts),
        defines,
        tuple(
            Measure(name, expression('"#0"', term), SCHEMA.field(term.expression[1:-1]).type) for name, term in measures
        ),
        order=(OrderKey("t"),),
        within=within,
    )


def symbols() -> RowPattern:
    """Three symbols, one behind the other."""
    tests = {name: expression(f'"#0" = {place}', value("symbol")) for place, name in enumerate("ABC")}
    return clause("A B C", **tests)


def run() -> RowPattern:
    """A symbol, some of others, and one of the last two."""
    return clause(
        "A B+ C",
        A=expression('"#0" = 1', value("symbol")),
        B=expression('"#0" < 20', value("symbol")),
        C=expression('"#0" >= 24', value("symbol")),
    )


def disjoint() -> RowPattern:
    """The same, no row of which fits two of them: so no matches overlap, and none is preferred to another."""
    return clause(
        "A B+ C",
        A=expression('"#0" = 1', value("symbol")),
        B=expression('"#0" BETWEEN 2 AND 19', value("symbol")),
        C=expression('"#0" >= 24', value("symbol")),
    )


def valley() -> RowPattern:
    """Prices that fall and then rise."""
    return clause(
        "S D+ U+",
        D=expression('"#0" < "#1"', value("price"), before("price")),
        U=expression('"#0" > "#1"', value("price"), before("price")),
    )


def references() -> RowPattern:
    """Prices above that of the first row, and one below it."""
    return clause(
        "A B+ C",
        A=expression('"#0" = 1', value("symbol")),
        B=expression('"#0" > "#1"', value("price"), of("price", "A")),
        C=expression('"#0" < "#1"', value("price"), of("price", "A")),
    )


def nothing() -> RowPattern:
    """What no row fulfils comes second."""
    return clause("A B", A=expression('"#0" = 1', value("symbol")), B=expression('"#0" > 100', value("symbol")))


STRATEGIES = {"next": Strategy.SKIP_TILL_NEXT, "any": Strategy.SKIP_TILL_ANY}
