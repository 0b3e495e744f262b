"""What a SELECT of a continuous query reads, and how its columns are named there."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import pyarrow as pa

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.composed import chain
from tidelog.operators.rowwise import Projection
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.joins.names import unused
from tidelog.sql.continuous.plans import Plan
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node, nodes

_STAR_PARTS: Final = {"replace_list": "REPLACE", "rename_list": "RENAME", "expr": "COLUMNS", "columns": "COLUMNS"}


class Statement(ABC):
    """The statement that is read, as far as sources need to know it."""

    context: Context

    @abstractmethod
    def refuse(self, what: str, node: Node) -> NoReturn:
        """Raise for what is not allowed."""

    @abstractmethod
    def error(self, message: str, node: Node) -> SqlError:
        """An error where the text of a node begins."""

    @abstractmethod
    def printed(self, node: Node) -> str:
        """An expression as a text."""

    @abstractmethod
    def refuse_inner(self, node: Node) -> None:
        """Raise for what no expression of a continuous query has."""

    @abstractmethod
    def query(self, node: Node) -> Plan:
        """The plan of a query inside of another one."""

    @abstractmethod
    def stream(self, node: Node) -> tuple[str, Shape]:
        """The stream that a FROM names, and its rows."""

    @abstractmethod
    def table(self, node: Node) -> pa.Table | None:
        """The table that a FROM names; None if it names none."""

    @abstractmethod
    def source(self, node: Node) -> Source:
        """What a FROM reads."""


@dataclass(frozen=True)
class Column:
    """A column that can be named."""

    alias: str
    """What its relation is called."""
    name: str
    """What it is called there."""
    here: str
    """What it is called among all columns of a source."""
    is_shown: bool = True
    """Whether ``*`` stands for it too."""


class Source(ABC):
    """Rows, whose columns have names in the statement."""

    def __init__(self, statement: Statement, alias: str, columns: Sequence[Column], shape: Shape) -> None:
        self.statement = statement
        self.alias = alias
        self.columns = list(columns)
        self.shape = shape
        """All columns that there are."""
        self.used: set[str] = {SEQUENCE_COLUMN, shape.time}
        """Those that are needed."""

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """The streams that are read."""

    @abstractmethod
    def front(self) -> list[Operator]:
        """New operators that give the rows, with the columns that are needed; none for a stream as it is."""

    @property
    def read(self) -> Shape:
        """The rows with the columns that are needed."""
        return self.front()[-1].output

    def named(self, names: Mapping[str, str]) -> Operator:
        """A new operator that gives some columns, which include the time, under other names."""
        self.used |= set(names)
        texts = {other: name for name, other in names.items()}
        return chain(*self.front(), Projection(self.read, texts, names[self.shape.time]))

    # -- texts about columns ------------------------------------------------------------------------------------------

    def aggregate(self, node: Node) -> str:
        """An aggregate as a text about the columns."""
        for each in node["arguments"]:
            self.statement.refuse_inner(each)
        return self._text(node).replace("count_star()", "count(*)")

    def text(self, node: Node) -> str:
        """An expression as a text about the columns."""
        self.statement.refuse_inner(node)
        return self._text(node)

    def _text(self, node: Node) -> str:
        own = copy.deepcopy(node)
        own["alias"] = ""
        for each in nodes(own):
            if each.get("class") == "COLUMN_REF":
                found, names = self.resolved(each)
                if found is not None:
                    self.used.add(found.here)
                each["column_names"] = names
        if own.get("class") == "COLUMN_REF" and own["column_names"][0] in self.shape.schema.names:
            (name, *rest) = own["column_names"]
            if not rest:
                return str(name)
        return self.statement.printed(own)

    def resolved(self, node: Node) -> tuple[Column | None, list[str]]:
        """The column that a node names, and its name among those of the rows, with what is behind it."""
        first, *rest = names = [str(each) for each in node["column_names"]]
        if rest:
            own = [each for each in self.columns if each.alias.lower() == first.lower()]
            if own or first.lower() == self.alias.lower():
                names = rest
                hits = [each for each in own if each.name.lower() == rest[0].lower()]
                hits = hits or [each for each in self.columns if not own and each.here.lower() == rest[0].lower()]
                return (hits[0], [hits[0].here, *rest[1:]]) if hits else (None, names)
        hits = [each for each in self.columns if each.name.lower() == first.lower()]
        shown = [each for each in hits if each.is_shown]
        if len(shown) > 1:
            told = " or ".join(f"{each.alias}.{each.name}" for each in shown)
            raise self.statement.error(f"column {first!r} is of several relations; expected {told}", node)
        hits = shown or hits or [each for each in self.columns if each.here.lower() == first.lower()]
        return (hits[0], [hits[0].here, *rest]) if hits else (None, names)

    def column(self, item: Node) -> tuple[str, str]:
        """A column of SELECT: its name, and its text."""
        text = self.text(item)
        if item["alias"]:
            return item["alias"], text
        if item["class"] == "COLUMN_REF":
            found, names = self.resolved(item)
            return (item["column_names"][-1] if found is None or len(names) > 1 else found.name), text
        return self.statement.printed(item), text

    def star(self, item: Node) -> Iterator[tuple[str, str]]:
        """The columns that ``*`` stands for; ``_seq`` is not among them."""
        for member, what in _STAR_PARTS.items():
            if item[member]:
                self.statement.refuse(f"* with {what}", item)
        relation = item["relation_name"].lower()
        known = {each.alias.lower() for each in self.columns} | {self.alias.lower()}
        if relation and relation not in known:
            self.statement.refuse(f"{item['relation_name']}.*, which is no name of the stream here", item)
        excluded = {("", each.lower()) for each in item["exclude_list"]}
        excluded |= {(each["table"].lower(), each["column"].lower()) for each in item["qualified_exclude_list"]}
        one = relation if relation in {each.alias.lower() for each in self.columns} else ""
        shown = Counter(each.name.lower() for each in self.columns if each.is_shown)
        for each in self.columns:
            alias = each.alias.lower()
            if each.here == SEQUENCE_COLUMN or not (each.is_shown or one) or (one and alias != one):
                continue
            name = each.name if one or shown[each.name.lower()] == 1 else each.here
            if ("", name.lower()) not in excluded and (alias, each.name.lower()) not in excluded:
                self.used.add(each.here)
                yield name, each.here


def plain_shape(source: Source) -> Shape:
    """The rows of a source, by their names there, without their numbers."""
    fields = [source.shape.schema.field(each.here) for each in source.columns if each.here != SEQUENCE_COLUMN]
    return Shape(pa.schema(fields), source.shape.time)


class Stream(Source):
    """The rows of a stream as they are."""

    def __init__(self, statement: Statement, node: Node) -> None:
        for member, what in (("at_clause", "AT"), ("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if node[member]:
                statement.refuse(what, node)
        self._name, shape = statement.stream(node)
        alias = node["alias"] or node["table_name"]
        super().__init__(statement, alias, [Column(alias, name, name) for name in shape.schema.names], shape)

    @property
    def streams(self) -> tuple[str, ...]:
        """The one."""
        return (self._name,)

    def front(self) -> list[Operator]:
        """Nothing has to be done."""
        return []

    @property
    def read(self) -> Shape:
        """The columns that are needed."""
        names = [name for name in self.shape.schema.names if name in self.used]
        return Shape(pa.schema([self.shape.schema.field(name) for name in names]), self.shape.time)

    def named(self, names: Mapping[str, str]) -> Operator:
        """The columns under other names."""
        self.used |= set(names)
        texts = {other: name for name, other in names.items()}
        return Projection(self.read, texts, names[self.shape.time])


class Subquery(Source):
    """The rows of a query in parentheses."""

    def __init__(self, statement: Statement, node: Node) -> None:
        for member, what in (("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if node[member]:
                statement.refuse(what, node)
        self._plan = statement.query(node["subquery"]["node"])
        shape = self._plan.make().output
        columns = [Column(node["alias"], name, name) for name in self._plan.columns]
        super().__init__(statement, node["alias"], columns, shape)

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of the query."""
        return self._plan.streams

    def front(self) -> list[Operator]:
        """The query."""
        return [self._plan.make()]


class Combined(Source):
    """Rows made of those of other sources, by an operator."""

    def __init__(self, statement: Statement, alias: str, sources: Sequence[Source]) -> None:
        self._sources = list(sources)
        columns: list[Column] = []
        fields: list[pa.Field] = []
        taken: set[str] = set()
        self._of: list[dict[str, str]] = []
        """For each source the names of its columns here."""
        for source in sources:
            own: dict[str, str] = {}
            for each in source.columns:
                if each.here == SEQUENCE_COLUMN:
                    continue
                own[each.here] = unused(each.here, taken)
                taken.add(own[each.here].lower())
                columns.append(replace(each, here=own[each.here]))
                fields.append(source.shape.schema.field(each.here).with_name(own[each.here]))
            self._of.append(own)
        self._place = {name: at for at, own in enumerate(self._of) for name in own.values()}
        self._input_shapes = [
            Shape(pa.schema([each for each in fields if each.name in own.values()]), own[source.shape.time])
            for source, own in zip(sources, self._of, strict=True)
        ]
        """All columns of each source, by their names here."""
        super().__init__(statement, alias, columns, self._input_shapes[0])

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of all sources."""
        return tuple(name for source in self._sources for name in source.streams)

    def resolved_side(self, node: Node) -> tuple[int, list[str]] | None:
        """The place of the source that a column is of, and its name here; None if it is none. It is needed then."""
        found, names = self.resolved(node)
        if found is None:
            return None
        self.used.add(found.here)
        return self._place[found.here], names

    def inputs(self) -> list[Operator]:
        """New operators for the sources, that give the columns which are needed under their names here."""
        found = []
        for source, own in zip(self._sources, self._of, strict=True):
            names = {name: here for name, here in own.items() if here in self.used or name == source.shape.time}
            found.append(source.named(names))
        return found
