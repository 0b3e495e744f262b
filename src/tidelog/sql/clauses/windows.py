"""Windows in SQL: ``GROUP BY window(ts, '1 hour', '5 minutes')``, ``session_window``, ``count_window``.

A selection that is grouped by one of them, and perhaps by keys, becomes a selection of what the operator of such
windows gives: a row for each window and key, with ``window_start`` and ``window_end``. What is around the aggregates
stays, and ``HAVING`` becomes a condition on these rows.
"""

from __future__ import annotations

import copy
import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import parse_aggregate
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Operator, Shape
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Frames, Period
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.sql.clauses.grouping import GROUP, Grouping, Refuse, calls, key, own_nodes, value
from tidelog.sql.clauses.operation import Operation
from tidelog.sql.errors import SqlError
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.calls import Functions
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tokens import tokens
from tidelog.sql.text.tree import Node, Parser, nodes, put

if TYPE_CHECKING:
    import duckdb

_WINDOW: Final = "w1ndow"
"""What ``window(...)`` is called while DuckDB reads it, where the word has a meaning of its own; as long as that."""
FUNCTIONS: Final = (_WINDOW, "session_window", "count_window")
_COLUMNS: Final = ("window_start", "window_end")
_TIME: Final = "#time"
_OPTIONS: Final = ("origin", "zone", "empty", "complete_only")
_BATCH: Final = 1 << 16
"""Rows that DuckDB gives at once."""


def readable(text: str) -> str:
    """A statement with ``window(`` put so that DuckDB reads it as the call of a function; all places stay the same."""
    found = tokens(text)
    places = [one.start for one, other in itertools.pairwise(found) if one.says("WINDOW") and other.says("(")]
    for at in places:
        text = text[:at] + _WINDOW + text[at + len(_WINDOW) :]
    return text


def shown(text: str) -> str:
    """A text of DuckDB's with ``window`` as it was written."""
    return text.replace(_WINDOW, "window")


@dataclass(frozen=True, slots=True)
class Context:
    """What the clauses of a statement need to know of it."""

    parser: Parser
    refuse: Refuse
    functions: Functions
    relations: Mapping[str, Relation]
    timezone: str
    connect: Callable[[], duckdb.DuckDBPyConnection]
    """A connection that knows what the statement mentions."""
    plan: Callable[[Node], None]
    """Looks at a statement's tree for what can be read in a better way."""


def put_windows(tree: Node, context: Context) -> Iterator[tuple[str, Operation]]:
    """Put relations in the place of selections with windows; gives them one by one with their names.

    Those inside of others come first, and have to be known to connections before the next is asked for.
    """
    for number, (select, ctes) in enumerate(_selections(tree["statements"][0]["node"], [])):
        name = f"#window {number}"
        yield name, _Windows(select, ctes, context).operation(name)
    for node in nodes(tree):
        if calls(node, *FUNCTIONS):
            raise _misplaced(node, context.refuse)


def _selections(value: Any, ctes: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """All selections with windows, those inside of others first, each with the CTEs that it sees."""
    if isinstance(value, list):
        for each in value:
            yield from _selections(each, ctes)
    if not isinstance(value, dict):
        return
    seen = list(ctes)
    for each in (value.get("cte_map") or {}).get("map", []):
        yield from _selections(each["value"], seen)
        seen.append(each)
    for name, inner in value.items():
        if name != "cte_map":
            yield from _selections(inner, seen)
    if value.get("type") == "SELECT_NODE" and any(calls(each, *FUNCTIONS) for each in own_nodes(value)):
        yield value, seen


def _misplaced(node: Node, refuse: Refuse) -> Exception:
    name = shown(node["function_name"].lower()) if calls(node, *FUNCTIONS) else node["column_names"][-1]
    return refuse(
        f"found {name} outside of a selection that is grouped by one window; expected GROUP BY window(time, size), "
        "session_window or count_window, alone or with other columns",
        node,
    )


def _is_own(node: Node) -> bool:
    """Whether a node is a column that windows have."""
    return node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in _COLUMNS


class _Windows:
    """One selection with windows."""

    def __init__(self, select: Node, ctes: list[Node], context: Context) -> None:
        self._context = context
        self._ctes = ctes
        parser, refuse = context.parser, context.refuse
        self._grouping = Grouping(
            select,
            FUNCTIONS,
            context.functions.of_duckdb | context.functions.own,
            parser,
            refuse,
            own=_is_own,
            misplaced=_misplaced,
        )

    def operation(self, name: str) -> Operation:
        """The relation of the windows, from which the selection selects from now on."""
        grouping, context = self._grouping, self._context
        select = grouping.select
        source = copy.deepcopy(select)
        having = select["having"]
        if having is not None:
            grouping.lift_one(having, _leave)
        grouping.lift(_leave)
        types = self._types(source)
        try:
            made = self._direct(source) or self._computed(source)
            make = self._operator(made)
            make()
        except SqlError:
            raise
        except TidelogError as error:  # of the operator, which knows nothing of the statement
            told = str(error).partition("\n")[0]
            raise context.refuse(told.replace(repr(_TIME), "of windows"), grouping.call) from None
        self._finish(types)
        table = context.parser.parse(f'SELECT 1 FROM "{name}"')["statements"][0]["node"]["from_table"]
        grouping.select_from(table)
        select["where_clause"] = having
        return Operation(self._title, make, made.rows, [*self._keys, *_COLUMNS, *self._values])

    # -- rows and aggregates ------------------------------------------------------------------------------------------

    def _time(self) -> Node | None:
        """What gives the time of rows; None for the stream's own."""
        arguments = self._plain_arguments()
        if self._grouping.name == "count_window":
            return arguments[2] if len(arguments) > 2 else None
        if not arguments:
            raise self._refuse("without arguments; expected a time, and a length")
        return arguments[0]

    def _direct(self, source: Node) -> _Source | None:
        """The rows of one stream, as they are stored; None if something has to be computed by DuckDB."""
        context, grouping = self._context, self._grouping
        table = source["from_table"]
        relation = context.relations.get(table["table_name"]) if table["type"] == "BASE_TABLE" else None
        if relation is None or not relation.is_one or table["sample"] or source["sample"]:
            return None
        block = Block(source, relation, context.parser, context.timezone)
        stored = relation.stream.snapshot.layout.stored
        time = self._time()
        keys = [block.column(each) for each in grouping.keys]
        if None in keys or (time is not None and block.column(time) != relation.stream.time):
            return None
        where = source["where_clause"]
        texts = [block.text(each).replace("count_star()", "count(*)") for each in grouping.values]
        try:
            condition = None if where is None else str(block.condition(where))
            calls = [parse_aggregate(each, stored, relation.stream.time) for each in texts]
        except (NotSo, ExpressionError):
            return None
        by = [each for each in keys if each is not None]
        columns = dict.fromkeys([relation.stream.time, *by, *(name for call in calls for name in call.columns)])
        names = [name for name in columns if name != SEQUENCE_COLUMN or name in stored.names]
        relation.confined = block.confined
        relation.way = f"the events, for {self._title}"
        shape = Shape(pa.schema([stored.field(name) for name in names]), relation.stream.time)
        return _Source(shape, dict(zip(self._values, texts, strict=True)), by, partial(relation.rows, names, condition))

    def _computed(self, source: Node) -> _Source:
        """Rows that DuckDB computes: times, keys, and arguments of aggregates, in order."""
        context, grouping = self._context, self._grouping
        time = self._time()
        if time is None:
            raise self._refuse("of something else than a stream; expected the time as third argument")
        items = [
            _named(time, _TIME),
            *(_named(each, name) for each, name in zip(grouping.keys, self._keys, strict=True)),
        ]
        aggregates: dict[str, str] = {}
        for call, name in zip(copy.deepcopy(grouping.values), self._values, strict=True):
            for holder, part in [*((each, "expression") for each in call["arguments"]), (call, "filter")]:
                if holder[part] is not None:
                    argument = f"#argument {len(items)}"
                    items.append(_named(holder[part], argument))
                    holder[part] = context.parser.expression(f'"{argument}"')
            aggregates[name] = grouping.text(call).replace("count_star()", "count(*)")
        tree = self._tree(source, items)
        context.plan(tree)
        inner = context.parser.print(tree)
        with closing(context.connect()) as cursor:
            schema = cursor.sql(inner).limit(0).to_arrow_table().schema
        cast = ' REPLACE (CAST("#time" AS TIMESTAMP) AS "#time")' if pa.types.is_date(schema.field(_TIME).type) else ""
        if cast:
            schema = schema.set(0, pa.field(_TIME, pa.timestamp("us")))
        text = (
            f'SELECT * EXCLUDE ("#row"){cast} FROM (SELECT *, row_number() OVER () AS "#row" FROM ({inner})) '
            f'WHERE "{_TIME}" IS NOT NULL ORDER BY "{_TIME}", "#row"'
        )
        return _Source(Shape(schema, _TIME), aggregates, self._keys, partial(_asked, context.connect, text))

    def _tree(self, source: Node, items: list[Node]) -> Node:
        """A statement that selects some items from what the selection selects from."""
        tree = self._context.parser.parse("SELECT 1")
        inner = copy.deepcopy(source)
        inner.update(
            select_list=items,
            group_expressions=[],
            group_sets=[],
            aggregate_handling="STANDARD_HANDLING",
            having=None,
            qualify=None,
            modifiers=[],
            cte_map={"map": copy.deepcopy(self._ctes)},
        )
        tree["statements"][0]["node"] = inner
        return tree

    def _types(self, source: Node) -> dict[int, str]:
        """The types that DuckDB gives to aggregates, by their places."""
        values = self._grouping.values
        known = [at for at, each in enumerate(values) if not self._context.functions.is_own(each)]
        if not known:
            return {}
        text = self._context.parser.print(self._tree(source, copy.deepcopy([values[at] for at in known])))
        with closing(self._context.connect()) as cursor:
            return dict(zip(known, map(str, cursor.sql(text).types), strict=True))

    def _finish(self, types: Mapping[int, str]) -> None:
        """Give aggregates the types of DuckDB's, and the window itself, where it is selected, a start and an end."""
        parser = self._context.parser
        made = {value(at).strip('"'): f"CAST({value(at)} AS {kind})" for at, kind in types.items()}
        made[GROUP.strip('"')] = 'struct_pack(start := window_start, "end" := window_end)'
        select = self._grouping.select
        parts = [select["select_list"], select["having"], select["qualify"], select["modifiers"]]
        for node in list(nodes(parts)):
            if node.get("class") == "COLUMN_REF" and node["column_names"][0] in made:
                put(node, parser.expression(made[node["column_names"][0]]))

    # -- windows ------------------------------------------------------------------------------------------------------

    def _plain_arguments(self) -> list[Node]:
        return [each["expression"] for each in self._grouping.call["arguments"] if not each["name"]]

    def _options(self) -> dict[str, Any]:
        """The named arguments, by name."""
        found = {}
        for each in self._grouping.call["arguments"]:
            if each["name"]:
                name = each["name"].lower()
                if name not in _OPTIONS:
                    raise self._refuse(f"with {name}; {did_you_mean(name, _OPTIONS)}")
                found[name] = each["expression"]
        return found

    def _operator(self, source: _Source) -> Callable[[], Operator]:
        """What makes the operator."""
        name, arguments, options = self._grouping.name, self._plain_arguments(), self._options()
        shape, clock = source.shape, source.shape.clock
        if name == "count_window":
            if not 1 <= len(arguments) <= 3 or options:
                raise self._refuse("with other arguments than a size, and perhaps a slide and a time")
            counts = [self._count(each) for each in arguments[:2]]
            return partial(CountWindows, shape, counts[0], counts[-1], source.aggregates, source.by)
        if name == "session_window":
            if len(arguments) != 2 or options:
                raise self._refuse("with other arguments than a time and the longest gap")
            gap = self._ticks(self._length(arguments[1], clock), clock)
            return partial(SessionWindows, shape, gap, source.aggregates, source.by)
        if not 2 <= len(arguments) <= 4:
            raise self._refuse("with other arguments than a time, a size, and perhaps a slide and an origin")
        if len(arguments) == 4:
            options.setdefault("origin", arguments[3])
        size = self._length(arguments[1], clock)
        slide = self._length(arguments[2], clock) if len(arguments) > 2 else size
        flags = {each: bool(self._constant(options.pop(each))) for each in _OPTIONS[2:] if each in options}
        frames = self._frames(size, slide, options, clock)
        return partial(TimeWindows, shape, frames, source.aggregates, source.by, **flags)

    def _frames(self, size: _Length, slide: _Length, options: Mapping[str, Node], clock: Clock) -> Frames | FromFirst:
        zone = self._constant(options["zone"]) if "zone" in options else None
        origin = self._constant(options["origin"]) if "origin" in options else None
        if origin == "first event":
            return FromFirst(self._ticks(size, clock), self._ticks(slide, clock))
        first = 0 if origin is None else clock.instant(origin)
        if zone is None and not size.months and not slide.months:
            return FixedFrames(self._ticks(size, clock), self._ticks(slide, clock), first)
        if any(each.micros or bool(each.months) == bool(each.days) for each in (size, slide)):
            raise self._refuse("of a calendar with other lengths than days or months; expected either")
        day, rest = divmod(first, self._ticks(_Length(days=1), clock))
        if rest:
            raise self._refuse("with an origin that is no date; windows of a calendar begin with a day")
        sizes = Period(size.months, size.days), Period(slide.months, slide.days)
        return CalendarFrames(clock, sizes[0], sizes[1], zone or "UTC", day)

    def _length(self, node: Node, clock: Clock) -> _Length:
        """A length of time."""
        if clock.unit is None:
            return _Length(ticks=self._count(node))
        text = f"CAST({self._grouping.text(node)} AS INTERVAL)"
        months, days, micros = self._asked(
            f"""SELECT m, d, epoch_us(i - to_months(m) - to_days(d)) FROM (
                    SELECT i, CAST(date_part('year', i) * 12 + date_part('month', i) AS INTEGER) AS m,
                        CAST(date_part('day', i) AS INTEGER) AS d FROM (SELECT {text} AS i))""",
            node,
        )
        if months is None:
            raise self._refuse("with a length that is null")
        return _Length(int(months), int(days), int(micros))

    def _ticks(self, length: _Length, clock: Clock) -> int:
        if length.ticks is not None:
            return length.ticks
        if length.months:
            raise self._refuse("with a length of months, which only windows of a calendar have")
        if length.days < 0 or length.micros < 0:
            raise self._refuse("with a length below zero")
        return clock.duration(datetime.timedelta(days=length.days, microseconds=length.micros))

    def _count(self, node: Node) -> int:
        found = self._constant(node)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise self._refuse(f"with {found!r}; expected a whole number of at least 1")
        return found

    def _constant(self, node: Node) -> Any:
        return self._asked(f"SELECT {self._grouping.text(node)}", node)[0]

    def _asked(self, text: str, node: Node) -> tuple[Any, ...]:
        """What DuckDB says of constants."""
        if any(each.get("class") in ("COLUMN_REF", "SUBQUERY") for each in nodes(node)):
            raise self._refuse(f"with {self._grouping.text(node)}; expected a constant")
        with closing(self._context.connect()) as cursor:
            found: tuple[Any, ...] = cursor.execute(text).fetchall()[0]
            return found

    def _refuse(self, message: str) -> Exception:
        return self._context.refuse(f"found {shown(self._grouping.name)} {message}", self._grouping.call)

    @property
    def _title(self) -> str:
        return shown(self._context.parser.print_expression(self._grouping.call))

    @property
    def _keys(self) -> list[str]:
        return [key(at).strip('"') for at in range(len(self._grouping.keys))]

    @property
    def _values(self) -> list[str]:
        return [value(at).strip('"') for at in range(len(self._grouping.values))]


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows for windows, and what is computed of them."""

    shape: Shape
    aggregates: Mapping[str, str]
    by: Sequence[str]
    rows: Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class _Length:
    """A length of time, as DuckDB has it, or in ticks of a clock of plain integers."""

    months: int = 0
    days: int = 0
    micros: int = 0
    ticks: int | None = None


def _leave(node: Node) -> bool:
    """Leave columns that windows have as they are."""
    if not _is_own(node):
        return False
    node["column_names"] = [node["column_names"][-1].lower()]
    return True


def _named(node: Node, name: str) -> Node:
    own = copy.deepcopy(node)
    own["alias"] = name
    return own


def _asked(connect: Callable[[], duckdb.DuckDBPyConnection], text: str) -> Iterator[pa.RecordBatch]:
    """The rows of a statement, by a connection of their own."""
    with closing(connect()) as cursor:
        yield from cursor.sql(text).to_arrow_reader(_BATCH)
