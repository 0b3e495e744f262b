"""A statement that selects: what it mentions, found and put in its place, ready to be run any number of times."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog import aggregates
from tidelog.aggregates.binding import missing
from tidelog.model.errors import NotFoundError, TidelogError, did_you_mean
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.gap_filling import FUNCTIONS as GAP_FUNCTIONS
from tidelog.sql.clauses.gap_filling import fill_gaps
from tidelog.sql.clauses.operation import Operation
from tidelog.sql.clauses.printing import printable
from tidelog.sql.clauses.putting import put_clauses
from tidelog.sql.clauses.syntax import parsed
from tidelog.sql.clauses.window_arguments import FUNCTIONS as WINDOW_FUNCTIONS
from tidelog.sql.database import TELLING_NAMES, Database, is_telling
from tidelog.sql.errors import SqlError, of_engine
from tidelog.sql.planning.blocks import Block, NotSo, blocks
from tidelog.sql.planning.calls import Functions, aggregates_of
from tidelog.sql.planning.conditions.hints import Hints, is_worth
from tidelog.sql.planning.direct import Direct, direct
from tidelog.sql.planning.ends import read_one_end
from tidelog.sql.planning.few import FewGroups, few_groups
from tidelog.sql.planning.forms import compared, group_by_days, is_settled, merge_selections, settle
from tidelog.sql.planning.indexed import answer
from tidelog.sql.planning.outline import Told
from tidelog.sql.planning.places import go_by_places
from tidelog.sql.planning.reduced import reduced
from tidelog.sql.prepared import can_be_kept, keep, recalled
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.reading.reduction import Reduction
from tidelog.sql.resolving import Question, Resolver, Sources
from tidelog.sql.running import Running, stoppable
from tidelog.sql.text.advice import ELSEWHERE, advised
from tidelog.sql.text.blame import concerned
from tidelog.sql.text.growth import Bounds, too_large_by
from tidelog.sql.text.limits import refuse_monstrous
from tidelog.sql.text.literals import literal, parameters
from tidelog.sql.text.moments import BARE, moment, put_moments
from tidelog.sql.text.tokens import tokens
from tidelog.sql.text.tree import Node, nodes, own_nodes, place, put_value, rename_variables

if TYPE_CHECKING:
    import duckdb

_MISSING: Final = re.compile(r'(?:[Cc]olumn|[Tt]able) "([^"]+)" (?:does not exist|not found)')
_MOST_SCHEMAS: Final = 1024
_SCHEMAS: dict[Any, pa.Schema] = {}
"""What DuckDB has said of the columns of scans: it depends on nothing but these and the time zone."""


class Query:
    """A statement that selects. Raises :class:`SqlError` for what cannot be, at the place in its text."""

    def __init__(
        self, text: str, params: Any, sources: Sources, database: Database, *, is_embedded: bool = True
    ) -> None:
        refuse_monstrous(text)
        self._is_embedded = is_embedded
        self.text = text
        self.database = database
        self._sources = sources
        self.relations: dict[str, Relation] = {}
        """Mentions of streams by the names that stand in their place."""
        self.tables: dict[str, Any] = {}
        """Tables that are mentioned, and answers from the index, likewise."""
        self.reductions: dict[str, Reduction] = {}
        """Groups that the events of mentions are reduced to, likewise."""
        self.operations: dict[str, Operation] = {}
        """Event clauses by the names that stand in their place."""
        self.direct: Direct | None = None
        """The scan that answers it without DuckDB."""
        self._groups: FewGroups | Told | None = None
        """What knows all rows without DuckDB, unless there turn out to be many."""
        began = time.perf_counter()
        try:
            self._read(params)
        except RecursionError:
            raise SqlError("the statement is nested too deeply; split it up", text=text, position=0) from None
        self.planned = time.perf_counter() - began
        """Seconds that it took to read and plan it."""

    def _read(self, params: Any) -> None:
        database = self.database
        with database.mutex:
            key = self.text, self._is_embedded, self._sources.timezone, self._functions.own
            known = None if params else recalled(key, self._sources, database)
            if known is not None:
                self.tree, self.relations = known
            else:
                self._prepare(params, key)
            tree = self.tree
            self._plan(tree)
            self._go_directly(tree["statements"][0]["node"])
            if self.direct is None and self._groups is None:
                _ = self.printed

    def _prepare(self, params: Any, key: Hashable) -> None:
        """Resolve the names of the statement, check it, and put together what needs no look at events.

        ``key`` is what it is kept by for the next time.
        """
        database = self.database
        tree = self.tree = parsed(database.parser, self.text)
        is_kept = not params and can_be_kept(self.text, tree, self._functions.own)
        resolver = Resolver(tree, self._sources, database.parser, self._error)
        self._keep_names(tree)
        self._put_values(tree, params)
        statement = tree["statements"][0]
        resolver.resolve(statement["node"])
        self.relations, self.tables = resolver.relations, resolver.tables
        self._refuse_telling(statement)
        put_moments(tree, self._sources.now, self._columns(tree), database.parser)
        rename_variables(tree)
        bounds = Bounds(database.parser, database.memory, database.aggregates, self._error)
        bounds.put(tree, tested=self._is_embedded)
        fill_gaps(tree, database.aggregates | self._functions.own, database.parser, self._error)
        self._put_clauses(tree)
        if is_kept and not self.operations:
            keep(key, tree, resolver, database)

    # -- names ----------------------------------------------------------------------------------------------------

    def _keep_names(self, tree: Node) -> None:
        """Give columns that have no name, and in whose text something will be put, the name of the text as it is."""
        for select in [node for node in nodes(tree) if node["type"] == "SELECT_NODE"]:
            for item in select["select_list"]:
                if not item["alias"] and any(map(_is_put, nodes(item))) and not any(map(_is_star, own_nodes(item))):
                    item["alias"] = self.database.parser.print_expression(printable(item, named=True))

    def _put_values(self, tree: Node, params: Any) -> None:
        """Constants in the place of parameters."""
        parser = self.database.parser
        statement = tree["statements"][0]
        names = [each["key"] for each in statement["named_param_map"]]
        given = parameters(params, names).items()
        values = {name.lower(): parser.expression(literal(value)) for name, value in given}
        statement["named_param_map"] = []
        of_tables = {id(node["function"]) for node in nodes(tree) if node["type"] == "TABLE_FUNCTION"}
        for node in list(nodes(tree)):
            kind = node.get("class")
            if kind == "PARAMETER":
                put_value(node, values[node["identifier"].lower()])
            elif kind == "WINDOW":
                self._check_function(node)
                if node["function_name"].lower() in self._functions.own:
                    raise self._own_error(node, "this is a window")
            elif kind == "FUNCTION" and id(node) not in of_tables:  # which are checked where they stand
                self._check_function(node)

    def _columns(self, tree: Node) -> set[str]:
        """The names of all columns that there are, in lower case."""
        schemas = [each.schema for each in self.relations.values()]
        schemas += [getattr(each, "schema", None) or pa.schema([]) for each in self.tables.values()]
        columns = {name.lower() for schema in schemas for name in schema.names}
        given = (name for node in nodes(tree) if moment(node) is None for name in _given_names(node))
        return columns | {str(name).lower() for name in given}

    def _check_function(self, node: Node) -> None:
        name = node["function_name"].lower()
        allowed = self.database.functions
        if name in allowed or name in (*GAP_FUNCTIONS, *WINDOW_FUNCTIONS) or name in self._functions.own:
            return
        if name in BARE:
            raise self._error(f"found {name}(); expected {name}, without parentheses, or now()", node)
        if is_telling(name):
            raise self._error(f"function {name} is not allowed, because it tells of the process, or changes it", node)
        known = did_you_mean(name, [*allowed, *GAP_FUNCTIONS, *WINDOW_FUNCTIONS, *self._functions.own])
        known = f"; {known}" if known.startswith("did") else ", neither of DuckDB nor of tidelog"
        if name in ELSEWHERE:
            known = f"; write {ELSEWHERE[name]}"
        raise self._absent(name) or self._error(f"there is no function {name}{known}", node)

    def _absent(self, name: str) -> NotFoundError | None:
        """The error for an aggregate that a stream keeps whose code is not here."""
        mentioned = {node["table_name"] for node in nodes(self.tree) if node["type"] == "BASE_TABLE"}
        streams = [stream for each in mentioned if (stream := self._sources.find_stream(each)) is not None]
        kept = (each for stream in streams for each in self._sources.stream(stream, None).options.user_aggregates)
        return next((missing(each.id) for each in kept if each.id.rpartition(":")[2] == name), None)

    def _refuse_telling(self, tree: Node) -> None:
        """Raise for names that DuckDB takes for functions if they are no columns, as far as that can be told here."""
        found = [
            node
            for node in nodes(tree)
            if node.get("class") == "COLUMN_REF"
            and len(node["column_names"]) == 1
            and node["column_names"][0].lower() in TELLING_NAMES
        ]
        if not found:
            return
        columns = self._columns(tree)
        for node in found:
            name = node["column_names"][0]
            if name.lower() not in columns:
                raise self._error(f"there is no column {name!r}; what DuckDB has by that name is not allowed", node)

    def _plan(self, tree: Node) -> None:
        """Answer from the index what it knows, and read one end of a stream where that is enough."""
        functions = self._functions
        if self._is_embedded:
            merge_selections(tree, self.relations)
            for query in list(compared(tree)) if any(map(is_worth, self.relations.values())) else ():
                for block in blocks(query, self.relations, self.database.parser, self._sources.timezone):
                    self._answer(block)
                if is_settled(query, self.tables):
                    with closing(self.cursor()) as cursor:
                        settle(query, self.database.parser, cursor)
        for block in blocks(tree, self.relations, self.database.parser, self._sources.timezone):
            rest = self._answer(block)
            if rest is None:
                continue
            relation = rest.relation
            relation.confined = rest.confined
            if not relation.is_one:
                continue
            go_by_places(rest, functions)
            try:
                end = read_one_end(rest, functions)
                relation.way = f"the {'last' if end.newest_first else 'first'} {end.rows:,} events"
            except NotSo as reason:
                relation.reasons.append(f"not one end alone, because {reason}")
        for relation in self.relations.values():
            relation.is_alone = len(self.relations) + len(self.tables) == 1
        Hints(tree, self.relations, self.tables, self.database.parser, self._sources.timezone, functions).give()
        for relation in self.relations.values():
            relation.look_again()
        if self._is_embedded:
            self._reduce(tree)
        left = next(filter(functions.is_own, nodes(tree)), None)
        if left is not None:
            raise self._own_error(left, "it stands in no selection of one stream")

    def _answer(self, block: Block) -> Block | None:
        """Answer from the index what it knows of a selection; returns the selection of the rest, if there is one."""
        functions, relation = self._functions, block.relation
        name = f"#answers of {block.table['table_name']}"
        before = group_by_days(block, functions)
        try:
            found = answer(block, functions, self.cursor, name)
        except NotSo as reason:
            if before is not None:
                block.select.clear()
                block.select.update(before)
            if (told := f"not from the index, because {reason}") not in relation.reasons:
                relation.reasons.append(told)
            own = next(filter(functions.is_own, aggregates_of(block, functions)), None)
            if own is not None:
                raise self._own_error(own, str(reason).partition("\n")[0]) from None
            return block
        self.tables[name] = found.table
        if self._is_embedded and block.select is self.tree["statements"][0]["node"]:
            self._groups = found.told
        relation.way = f"the index: {', '.join(found.calls)} of {found.ranges:,} ranges of time"
        if found.leaves:
            relation.way += f", with {found.leaves:,} blocks of events"
        if found.rest is None:
            relation.is_indexed = True
            return None
        relation.way += "; from the events: " + ", ".join(map(found.rest.text, found.rest.select["select_list"]))
        return found.rest

    def _reduce(self, tree: Node) -> None:
        """Have DuckDB get groups in the place of events where aggregates can be put together from them."""
        for block in blocks(tree, self.relations, self.database.parser, self._sources.timezone):
            relation = block.relation
            if relation.is_indexed:
                continue
            name = f"#groups of {block.table['table_name']}"
            try:
                self.reductions[name] = reduced(block, self._functions, self.cursor, name)
            except NotSo as reason:
                relation.reasons.append(f"not reduced to groups, because {reason}")

    def _go_directly(self, statement: Node) -> None:
        """Answer by a scan alone, and perhaps its groups, if that is all there is to do."""
        if not self._is_embedded or len(self.relations) != 1 or self.tables or self.operations or self.reductions:
            return
        for block in blocks(statement, self.relations, self.database.parser, self._sources.timezone):
            try:
                self.direct = direct(block, statement)
            except NotSo as reason:
                try:
                    self._groups = few_groups(block, statement, self._functions, self.cursor)
                except NotSo:
                    block.relation.reasons.append(f"by DuckDB, because {reason}")
                    continue
            block.relation.way += ", without DuckDB"

    @cached_property
    def _functions(self) -> Functions:
        own = frozenset(aggregates.names()) - self.database.functions
        return Functions(self.database.aggregates, own)

    def _own_error(self, node: Node, reason: str) -> SqlError:
        name = node["function_name"].lower()
        return self._error(
            f"{name} is an aggregate of tidelog's own, which takes the events of streams in a selection of them, all "
            f"or in groups, but {reason}",
            node,
        )

    def _put_clauses(self, tree: Node) -> None:
        database = self.database
        context = Context(
            database.parser,
            self._error,
            self._functions,
            self.relations,
            self._sources.timezone,
            self.cursor,
            self._plan,
            self.tables,
            database.memory // 2,
            self._ask,
        )
        with self.told():
            for name, operation in put_clauses(tree, context):
                self.operations[name] = operation

    def _ask(self, tree: Node) -> pa.Table:
        """The rows of a statement about what this one mentions."""
        ask = self._sources.ask
        mentioned = {each["table_name"]: each for each in nodes(tree) if each["type"] == "BASE_TABLE"}
        if ask is not None and not mentioned.keys().isdisjoint((*self.tables, *self.operations)):
            for name, each in mentioned.items():
                if name in self.relations or name in self.operations:
                    raise self._error(
                        "found a query inside of a row pattern that is about more than tables, or has an event clause; "
                        "on Spark expected one about streams alone, or about tables",
                        each,
                    )
            for each in nodes(tree):
                if each["type"] == "BASE_TABLE" and each["table_name"] in self.tables:
                    name = each["table_name"].removeprefix("#")
                    each.update(table_name=name, qualified_name={"path": [name]})
            given = frozenset(name.removeprefix("#") for name in self.tables)
            return ask(Question(self.database.parser.print(tree), given))
        self._plan(tree)
        text = self.database.parser.print(tree)
        with closing(self.cursor()) as cursor:
            return stoppable(cursor, lambda: cursor.sql(text).to_arrow_table())

    def _error(self, message: str, node: Node) -> SqlError:
        return SqlError(message, text=self.text, position=self._place(node))

    def _place(self, node: Node) -> int | None:
        """Where a node is; a table or function that the parser says nothing of, where its name first comes."""
        found = place(node, self.text)
        name = node.get("table_name") or node.get("function_name")
        if found is not None or not name:
            return found
        same = (token.start for token in tokens(self.text) if token.value.lower() == str(name).lower())
        return next(same, None)

    # -- running --------------------------------------------------------------------------------------------------

    @cached_property
    def printed(self) -> str:
        """The statement as DuckDB gets it."""
        with self.database.mutex:
            return self.database.parser.print(self.tree)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, as DuckDB says."""
        if (groups := self._groups) is not None:
            return groups.schema
        stored = None if self.direct is None else self.direct.relation.schema
        key = stored, None if self.direct is None else self.direct.names, self._sources.timezone
        known = _SCHEMAS.get(key) if stored is not None else None
        if known is None:
            with self.opened() as running:
                names = running.relation.columns
                found = running.fetch(lambda relation: relation.limit(0).to_arrow_table().schema)
            # It has numbered names that come twice.
            known = pa.schema([field.with_name(name) for field, name in zip(found, names, strict=True)])
            if stored is not None and len(_SCHEMAS) < _MOST_SCHEMAS:
                _SCHEMAS[key] = known
        return known

    def scanned(self) -> Iterator[pa.RecordBatch] | None:
        """All rows, by the index or a scan alone; None if it takes DuckDB."""
        if (groups := self._groups) is not None:
            self.database.check()
            found = groups.rows()
            batches: list[pa.RecordBatch] | None = None if found is None else found.to_batches()
            if batches is not None:
                return iter(batches)
            self._groups = None
        if self.direct is None or not self.direct.fits(self.schema):
            return None
        self.database.check()
        self.direct.relation.readings.clear()
        return self.direct.batches(self.schema)

    @property
    def progress(self) -> tuple[int, int]:
        """Blocks of events that were read since it was last begun, and about how many there are to read."""
        reading = [each for each in self.relations.values() if not each.is_indexed]
        done = sum(each.counters.leaves for relation in reading for each in relation.readings)
        return done, max(done, sum(relation.likely_blocks for relation in reading))

    def arrow(self) -> pa.Table:
        """All rows."""
        scanned = self.scanned()
        if scanned is not None:
            return pa.Table.from_batches(scanned, self.schema)
        with self.opened() as running:
            return running.fetch(lambda relation: relation.to_arrow_table())

    @contextmanager
    def opened(self) -> Iterator[Running]:
        """The statement, about to be run. Errors inside are those of the statement."""
        cursor = self.cursor()
        try:
            with self.told():
                yield Running(cursor, cursor.sql(self.printed))
        finally:
            cursor.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection that knows what the statement mentions."""
        cursor = self.database.cursor()
        try:
            for name, relation in self.relations.items():
                relation.readings.clear()
                relation.failure = None
                cursor.register(name, relation.source())
            for name, reduction in self.reductions.items():
                cursor.register(name, reduction.source())
            for name, table in self.tables.items():
                cursor.register(name, table)
            for name, operation in self.operations.items():
                operation.failure = None
                cursor.register(name, operation.dataset())
        except BaseException:
            cursor.close()
            raise
        return cursor

    @contextmanager
    def told(self) -> Iterator[None]:
        """Makes of DuckDB's errors those of tidelog."""
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:  # the last one from readers of Arrow
            if isinstance(error, TidelogError):
                raise
            failures = [each.failure for each in self.relations.values()]
            failures += [each.failure for each in self.operations.values()]
            for failure in filter(None, failures):
                # The input of a clause is a query of DuckDB's as well.
                raise (self._of_engine(failure) if isinstance(failure, duckdb.Error) else failure) from None
            raise self._of_engine(error) from None

    def _of_engine(self, error: BaseException) -> SqlError:
        self.database.recover()
        if (found := too_large_by(str(error))) is not None:
            message, offset = found
            return SqlError(message, text=self.text, position=place({"query_location": offset}, self.text))
        columns = sorted({name for each in self.relations.values() for name in each.schema.names})
        told = of_engine(error, self.text, self._place_of, columns)
        message = advised(told.message, self.text, told.position)
        return SqlError(message, text=self.text, position=told.position)

    def _place_of(self, message: str) -> int | None:
        with self.database.mutex:
            node = concerned(parsed(self.database.parser, self.text), message, self.database.aggregates)
        if node is not None:
            return self._place(node)
        # Joins and their columns have no places.
        found = _MISSING.search(message)
        names = ["asof"] if message.startswith("Missing ASOF") else [] if found is None else [found[1].lower()]
        return next((each.start for each in tokens(self.text) if each.value.lower() in names), None)


def _given_names(node: Node) -> list[str]:
    """The names that a node gives to columns."""
    return [node.get("alias") or "", *(node.get("column_name_alias") or ())]


def _is_put(node: Node) -> bool:
    """Whether something else is put in the place of a node, or of one inside of it."""
    return node.get("class") in ("PARAMETER", "LAMBDA") or node["type"] == "BASE_TABLE" or moment(node) is not None


def _is_star(node: Node) -> bool:
    return node.get("class") == "STAR"


def read_alone(text: str, database: Database) -> None:
    """Raise :class:`SqlError` for what is no statement that selects, whatever names it has."""
    refuse_monstrous(text)
    with database.mutex:
        parsed(database.parser, text)
