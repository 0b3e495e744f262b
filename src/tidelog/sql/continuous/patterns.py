"""Row patterns in the FROM of a continuous query."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from tidelog.model.errors import TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator
from tidelog.operators.rowpattern.operator import TIME_COLUMN, RowPatternOperator
from tidelog.operators.rowpattern.syntax import RowPattern, Strategy, longest
from tidelog.sql.clauses.row_pattern.resolving import Keys, resolve
from tidelog.sql.continuous.sources import Column, Source, Statement
from tidelog.sql.text.moments import moment
from tidelog.sql.text.tree import Node, nodes

MATCH_TIME: Final = "match_time"
"""The column more that matches have here: the time at which they became certain, which is the time of the rows."""


class Matched(Source):
    """``stream MATCH_RECOGNIZE (...)``."""

    def __init__(self, statement: Statement, clause: Node) -> None:
        for member, what in (("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if clause[member]:
                statement.refuse(what, clause)
        for each in nodes([clause["measures"], clause["defines"], clause["within"]]):
            if (told := moment(each)) is not None and each.get("class") == "FUNCTION":
                statement.refuse(f"{told}(), which tells another time whenever it is asked", each)
        self._source = source = statement.source(clause["input"])
        self._names = {each.here: each.name for each in source.columns if each.here != SEQUENCE_COLUMN}
        fields = [source.shape.schema.field(here).with_name(name) for here, name in self._names.items()]
        if len({name.lower() for name in self._names.values()}) < len(fields):
            raise statement.error("found two columns of one name in the input of MATCH_RECOGNIZE; use AS", clause)
        partition = [self._key(statement, each) for each in clause["partition"]]
        order = [self._key(statement, each["expression"]) for each in clause["order"]]
        query = resolve(clause, pa.schema(fields), Keys(partition, order), statement.context)
        if not clause["order"] or order[0] != self._time or query.order[0].is_descending:
            place = clause["order"][0] if clause["order"] else clause
            raise statement.error(
                f"found a row pattern over a stream whose order is not led by its time; expected ORDER BY {self._time}",
                place,
            )
        if _may_wait_for_ever(query) and "rows" not in clause["limits"]:
            raise statement.error(
                "found a pattern that may have any number of rows, or wait for them for ever, over a stream; expected "
                "WITHIN and a length behind PATTERN (...), or LIMIT n ROWS, with which more than n are an error",
                clause,
            )
        self._needed = {here: name for here, name in self._names.items() if name in query.schema.names}
        self._make = partial(_made, query, statement, clause)
        output = self._make(self._source.named(self._needed)).output
        alias = clause["alias"]
        columns = [Column(alias, name, name) for name in query.output.names]
        super().__init__(statement, alias, [*columns, Column(alias, MATCH_TIME, TIME_COLUMN)], output)

    @property
    def _time(self) -> str:
        return self._names[self._source.shape.time]

    def _key(self, statement: Statement, node: Node) -> str:
        if node.get("class") != "COLUMN_REF":
            raise statement.error(
                "found an expression as a key of a row pattern over a stream; expected a column: compute it in a query "
                "in parentheses that the pattern reads",
                node,
            )
        found, names = self._source.resolved(node)
        if found is None or len(names) > 1:
            name = node["column_names"][-1]
            raise statement.error(f"no column {name!r}; {did_you_mean(name, list(self._names.values()))}", node)
        return found.name

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of the input."""
        return self._source.streams

    def front(self) -> list[Operator]:
        """The input, then its matches."""
        rows = self._source.named(self._needed)
        return [rows, self._make(rows)]


def _made(query: RowPattern, statement: Statement, clause: Node, rows: Operator) -> Operator:
    try:
        return RowPatternOperator(rows.output, query)
    except TidelogError as error:  # of the operator, which knows nothing of the statement
        raise statement.error(str(error).partition("\n")[0], clause) from None


def _may_wait_for_ever(query: RowPattern) -> bool:
    """Whether nothing says how many rows a match may have to wait for."""
    return query.within is None and (query.strategy is not Strategy.CONTIGUOUS or longest(query.pattern) is None)
