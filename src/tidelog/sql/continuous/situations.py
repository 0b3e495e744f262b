"""Situations in the FROM of a continuous query: matches of patterns, and situations alone."""

from __future__ import annotations

import pyarrow as pa

from tidelog.model.errors import did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator
from tidelog.operators.rowwise import Projection
from tidelog.sql.clauses.situations.resolving import resolve
from tidelog.sql.continuous.sources import Column, Source, Statement
from tidelog.sql.text.moments import moment
from tidelog.sql.text.tree import Node, nodes


class Situated(Source):
    """``stream SITUATIONS (...)`` or ``stream DERIVE (...)``."""

    def __init__(self, statement: Statement, clause: Node) -> None:
        for member, what in (("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if clause[member]:
                statement.refuse(what, clause)
        for each in nodes([clause["partition"], clause["definitions"], clause["returned"], clause.get("within")]):
            if (told := moment(each)) is not None and each.get("class") == "FUNCTION":
                statement.refuse(f"{told}(), which tells another time whenever it is asked", each)
        self._source = source = statement.source(clause["input"])
        names = {each.here: each.name for each in source.columns if each.here != SEQUENCE_COLUMN}
        fields = [source.shape.schema.field(here).with_name(name) for here, name in names.items()]
        if len({name.lower() for name in names.values()}) < len(fields):
            raise statement.error(f"found two columns of one name in the input of {clause['word']}; use AS", clause)
        time = names[source.shape.time]
        self._check_time(statement, clause, time)
        self._found = resolve(clause, pa.schema(fields), time, statement.context)
        here = {name: own for own, name in names.items()}
        self._needed = {here[name]: name for name in self._found.sources}
        output = self.front()[-1].output
        alias = clause["alias"] or source.alias
        super().__init__(statement, alias, [Column(alias, name, name) for name in output.schema.names], output)

    def _check_time(self, statement: Statement, clause: Node, time: str) -> None:
        """Raise if the time that a clause names is not that of the rows."""
        node = clause["time"]
        if node is None:
            return
        found, names = self._source.resolved(node) if node.get("class") == "COLUMN_REF" else (None, [])
        if found is None and names:
            known = [each.name for each in self._source.columns]
            raise statement.error(f"no column {names[-1]!r}; {did_you_mean(names[-1], known)}", node)
        if found is None or found.name != time or len(names) > 1:
            raise statement.error(
                f"found situations over a stream in another order than that of its time; expected ORDER BY {time}, or "
                "no ORDER BY",
                node,
            )

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of the input."""
        return self._source.streams

    def front(self) -> list[Operator]:
        """The input, then what is found in it."""
        rows = [self._source.named(self._needed)]
        if self._found.computed:
            columns = {name: self._found.computed.get(name, name) for name in self._found.columns}
            rows.append(Projection(rows[0].output, columns, rows[0].output.time))
        return [*rows, self._found.over(rows[-1].output)]
