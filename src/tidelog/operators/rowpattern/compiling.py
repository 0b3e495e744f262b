"""A query as it runs: what was made of its clause, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidelog.operators.rowpattern.conditions.conditions import Conditions
from tidelog.operators.rowpattern.errors import PatternError, text_of
from tidelog.operators.rowpattern.machine.search import Search
from tidelog.operators.rowpattern.opcodes import ASKED, CODE, MASK, TRUE
from tidelog.operators.rowpattern.rows import names_in
from tidelog.operators.rowpattern.syntax import RowPattern, Rows, counts_matches
from tidelog.operators.rowpattern.values.output import Output
from tidelog.operators.rowpattern.values.terms import Values

_TOLD: Final = {
    TRUE: "every row",
    MASK: "whole columns",
    CODE: "code over the match so far",
    ASKED: "row by row, exactly and slowly",
}


@dataclass(frozen=True)
class RowPatternQuery:
    """A clause that is ready to run."""

    pattern: RowPattern
    conditions: Conditions
    search: Search
    output: Output

    @cached_property
    def input(self) -> pa.Schema:
        """The columns that are needed, in the order of the input's; at least one, so that rows are counted."""
        schema = self.pattern.schema
        if self.pattern.rows is not Rows.ONE or self.pattern.frame is not None:
            return schema
        expressions = [*self.pattern.defines.values(), *(each.value for each in self.pattern.measures)]
        texts = [text_of(term) for each in expressions for term in each.terms]
        known = {*self.pattern.partition, *(each.column for each in self.pattern.order)}
        known.update(name for text in texts for name in names_in(text, schema))
        used = [each for each in schema if each.name in known]
        return pa.schema(used or [schema.field(0)])

    @property
    def explain(self) -> list[str]:
        """How the conditions of variables are evaluated, a line for each variable."""
        told = dict(zip(self.pattern.variables, map(_TOLD.__getitem__, self.conditions.kinds), strict=True))
        reasons = self.conditions.reasons
        return [f"{name}: {each}{f', for {reasons[name]}' if name in reasons else ''}" for name, each in told.items()]


def compile_query(pattern: RowPattern) -> RowPatternQuery:
    """Make a clause ready. Raises :class:`PatternError` for one that is too large."""
    if pattern.is_all_matches and any(map(counts_matches, pattern.defines.values())):
        raise PatternError(
            "found MATCH_NUMBER() in DEFINE together with ALL MATCHES, under which matches are "
            "numbered when all of one first row are found; expected it in MEASURES alone"
        )
    values = Values(pattern.variables, pattern.schema)
    conditions = Conditions(pattern, values)
    return RowPatternQuery(pattern, conditions, Search(pattern, conditions), Output(pattern, values))
