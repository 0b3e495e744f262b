"""Joins and windows in the FROM of a continuous query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from tidelog.model.errors import TidelogError
from tidelog.operators.base import Operator, Shape
from tidelog.operators.composed import Composed
from tidelog.operators.join.asof import AsOfJoin
from tidelog.operators.join.lookup import Lookup
from tidelog.operators.rowwise import Filter
from tidelog.operators.window.assigning import COLUMNS as WINDOW_COLUMNS
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.joins.asof import as_of_maker, read_as_of
from tidelog.sql.clauses.joins.names import unused
from tidelog.sql.clauses.joins.windowed import TIME, condition_of, join_maker
from tidelog.sql.clauses.tables.rows import rows_maker
from tidelog.sql.continuous.sources import Column, Combined, Source, Statement
from tidelog.sql.text.tree import Node

_KINDS: Final = ("INNER", "LEFT")


def constants_of(statement: Statement, what: str) -> Constants:
    """What computes the constants of a clause."""

    def refuse(message: str, node: Node) -> Exception:
        return statement.error(f"found {what} {message}", node)

    return Constants(statement.context.parser, statement.context.connect, refuse)


def refuse_beside(statement: Statement, clause: Node) -> None:
    """Raise for what may not stand behind a clause."""
    for member, what in (("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
        if clause[member]:
            statement.refuse(what, clause)


class WindowJoined(Combined):
    """``WINDOW_JOIN(...)``."""

    def __init__(self, statement: Statement, clause: Node) -> None:
        refuse_beside(statement, clause)
        sources = [statement.source(each["relation"]) for each in clause["inputs"]]
        for source, each in zip(sources, clause["inputs"], strict=True):
            check_time(statement, source, each["time"])
        if sources[0].alias.lower() == sources[1].alias.lower():
            raise statement.error(f"found two sides called {sources[0].alias!r}; give them names, by AS", clause)
        super().__init__(statement, clause["alias"], sources)
        refuse = statement.error
        self._condition = condition_of(
            clause["on"], self.resolved_side, self._input_shapes, statement.context.parser, refuse
        )
        for name in (*self._condition.by, *self._condition.by.values()):
            self.used.add(name)
        constants = constants_of(statement, "WINDOW_JOIN")
        self._make = partial(join_maker, clause, condition=self._condition, constants=constants, refuse=refuse)
        self.shape = self._make(self._input_shapes)().output
        time = clause["time"] or TIME
        self.columns.append(Column(self.alias, time, time))
        self.used |= {time, *(shape.time for shape in self._input_shapes)}

    def front(self) -> list[Operator]:
        """The join of both."""
        inputs = self.inputs()
        return [Composed(self._make([each.output for each in inputs])(), inputs)]


class AsOfJoined(Combined):
    """``a ASOF JOIN b ...``."""

    def __init__(self, statement: Statement, node: Node) -> None:
        sources = [statement.source(node["left"]), statement.source(node["right"])]
        super().__init__(statement, "", sources)
        places = [{each.alias.lower() for each in source.columns} for source in sources]
        if places[0] & places[1]:
            raise statement.error(f"found two sides called {sorted(places[0] & places[1])[0]!r}; use AS", node)
        if node["using_columns"]:
            self._hide(node)
        join = read_as_of(node, self._side, statement.error)
        for source, time in zip((0, 1), join.times, strict=True):
            if self._name(time, source, node) != self._input_shapes[source].time:
                raise statement.error(
                    f"found {time['column_names'][-1]!r} as the time of an AS-OF join; expected that of the rows, "
                    f"{sources[source].shape.time!r}",
                    time if "query_location" in time else node,
                )
        by = {self._name(one, 0, node): self._name(other, 1, node) for one, other in join.equal}
        self.used |= {*by, *by.values(), *(shape.time for shape in self._input_shapes)}
        constants = constants_of(statement, "TOLERANCE")

        def make_of(shapes: Sequence[Shape]) -> AsOfJoin:
            return as_of_maker(node, join, shapes, by, constants, statement.error)[0]()

        self._make = make_of
        self.shape = make_of(self._input_shapes).output

    def _hide(self, node: Node) -> None:
        """Have columns of USING named once."""
        hidden = {name.lower() for name in node["using_columns"]}
        for at, each in enumerate(self.columns):
            if self._place[each.here] == 1 and each.name.lower() in hidden:
                self.columns[at] = Column(each.alias, each.name, each.here, is_shown=False)

    def _side(self, node: Node) -> int | None:
        found = self.resolved_side(node)
        return None if found is None else found[0]

    def _name(self, node: Node, side: int, join: Node) -> str:
        name = node["column_names"][-1].lower()
        for each in self.columns:
            if self._place[each.here] == side and each.name.lower() == name:
                return each.here
        raise self.statement.error(f"there is no column {name!r} of that side", join)

    def front(self) -> list[Operator]:
        """The join of both."""
        inputs = self.inputs()
        return [Composed(self._make([each.output for each in inputs]), inputs)]


class LookedUp(Combined):
    """``a [LEFT] JOIN t ON ...`` with a table that is given."""

    def __init__(self, statement: Statement, node: Node, table: pa.Table) -> None:
        super().__init__(statement, "", [statement.source(node["left"])])
        right = node["right"]
        for member, what in (("at_clause", "AT"), ("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if right[member]:
                statement.refuse(what, right)
        if node["join_type"] not in _KINDS or node["ref_type"] != "REGULAR":
            kind = node["ref_type"] if node["ref_type"] != "REGULAR" else node["join_type"]
            statement.refuse(f"a join of the kind {kind} with a table, instead of JOIN or LEFT JOIN", node)
        self._outer = node["join_type"] == "LEFT"
        alias = right["alias"] or right["table_name"]
        if alias.lower() in {each.alias.lower() for each in self.columns}:
            raise statement.error(f"found two sides called {alias!r}; give them names, by AS", node)
        taken = {name.lower() for name in self._place}
        names = {}
        using = {name.lower() for name in node["using_columns"]}
        for name in table.schema.names:
            names[name] = unused(name, taken)
            taken.add(names[name].lower())
            self.columns.append(Column(alias, name, names[name], is_shown=name.lower() not in using))
            self._place[names[name]] = 1
        self._table = table.rename_columns(list(names.values()))
        shape = self._input_shapes[0]
        fields = [each.with_nullable(True) if self._outer else each for each in self._table.schema]
        self.shape = Shape(pa.schema([*shape.schema, *fields]), shape.time)
        # Columns of the table are of its shape, whatever time that has.
        shapes = [shape, Shape(pa.schema([*self._table.schema, shape.schema.field(shape.time)]), shape.time)]
        if node["using_columns"]:
            by = {self._using(name, 0, node): self._using(name, 1, node) for name in node["using_columns"]}
            self._where = None
        else:
            condition = condition_of(
                node["condition"], self.resolved_side, shapes, statement.context.parser, statement.error
            )
            by, self._where = condition.by, condition.where
        if not by or (self._outer and self._where is not None):
            what = "a LEFT JOIN by more than equal columns" if self._outer else "a join by other than equal columns"
            statement.refuse(f"{what} of the same type", node)
        self._by = by
        self.used |= {*by, *by.values(), shape.time}
        try:
            self._joined(shape)
        except TidelogError as error:
            raise statement.error(str(error).partition("\n")[0], node) from None

    def _using(self, name: str, side: int, node: Node) -> str:
        for each in self.columns:
            if self._place[each.here] == side and each.name.lower() == name.lower():
                return each.here
        raise self.statement.error(f"there is no column {name!r} of both sides", node)

    def _joined(self, shape: Shape) -> list[Operator]:
        names = [name for name in self._table.schema.names if name in self.used]
        lookup = Lookup(shape, self._table.select(names), self._by, outer=self._outer)
        return [lookup, *([] if self._where is None else [Filter(lookup.output, self._where)])]

    def front(self) -> list[Operator]:
        """The rows, then what is looked up for them."""
        (rows,) = self.inputs()
        return [rows, *self._joined(rows.output)]


class Assigned(Combined):
    """``TUMBLE(...)``, ``HOP`` and ``SESSION``: rows with their windows."""

    def __init__(self, statement: Statement, clause: Node) -> None:
        refuse_beside(statement, clause)
        source = statement.source(clause["inputs"][0])
        check_time(statement, source, clause["time"])
        super().__init__(statement, clause["alias"] or source.alias, [source])
        keys = [self._key(each) for each in clause["keys"]]
        self._make = partial(rows_maker, clause, keys=keys, context=statement.context)
        self.shape = self._make(self._input_shapes[0])().output
        self.columns += [Column(self.alias, name, name) for name in WINDOW_COLUMNS]
        self.columns = [Column(self.alias, each.name, each.here) for each in self.columns]
        self.used |= {*keys, self.shape.time, self._input_shapes[0].time}

    def _key(self, node: Node) -> str:
        found = self.resolved_side(node)
        if found is None:
            raise self.statement.error(f"there is no column {node['column_names'][-1]!r}", node)
        return found[1][0]

    def front(self) -> list[Operator]:
        """The rows, then their windows."""
        (rows,) = self.inputs()
        return [rows, self._make(rows.output)()]


def check_time(statement: Statement, source: Source, time: Node | None) -> None:
    """Raise unless a column that is said to be the time is that of the rows."""
    if time is None:
        return
    found, _ = source.resolved(time)
    if found is None:
        raise statement.error(f"there is no column {time['column_names'][-1]!r}", time)
    if found.here != source.shape.time:
        raise statement.error(
            f"found windows of another time than that of the rows, {source.shape.time!r}; expected these", time
        )
