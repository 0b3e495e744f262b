"""``LOGICAL_MERGE`` in the FROM of a continuous query."""

from __future__ import annotations

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator
from tidelog.operators.composed import Composed
from tidelog.sql.clauses.merging.making import merge_maker, same_names
from tidelog.sql.clauses.merging.reading import WORD
from tidelog.sql.continuous.joined import check_time, constants_of, refuse_beside
from tidelog.sql.continuous.sources import Column, Source, Statement, plain_shape
from tidelog.sql.text.tree import Node


class Merged(Source):
    """``LOGICAL_MERGE(...)``: all columns of the inputs are needed, since events are told apart by them."""

    def __init__(self, statement: Statement, clause: Node) -> None:
        refuse_beside(statement, clause)
        self._sources = [statement.source(each["relation"]) for each in clause["inputs"]]
        for source, each in zip(self._sources, clause["inputs"], strict=True):
            check_time(statement, source, each["time"])
            source.used |= {column.here for column in source.columns}
        first = plain_shape(self._sources[0])
        self._names = [
            same_names(plain_shape(source), first, each["relation"], statement.error)
            for source, each in zip(self._sources, clause["inputs"], strict=True)
        ]
        shapes = [each.output for each in self._inputs()]
        self._make = merge_maker(clause, shapes, constants_of(statement, WORD), statement.error, delayed=True)
        shape = self._make().output
        alias = clause["alias"]
        columns = [Column(alias, name, name) for name in shape.schema.names if name != SEQUENCE_COLUMN]
        super().__init__(statement, alias, columns, shape)

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of all inputs."""
        return tuple(name for source in self._sources for name in source.streams)

    def _inputs(self) -> list[Operator]:
        return [source.named(names) for source, names in zip(self._sources, self._names, strict=True)]

    def front(self) -> list[Operator]:
        """The merge of all."""
        return [Composed(self._make(), self._inputs())]
