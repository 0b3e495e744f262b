"""A statement that selects: what it mentions, found and put in its place, ready to be run any number of times."""

from __future__ import annotations

import datetime
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from tidelog import aggregates
from tidelog.aggregates.binding import missing
from tidelog.model.errors import NotFoundError, TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.plan.reading import relation_schema
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.gap_filling import FUNCTIONS as GAP_FUNCTIONS
from tidelog.sql.clauses.gap_filling import fill_gaps
from tidelog.sql.clauses.operation import Operation
from tidelog.sql.clauses.printing import printable
from tidelog.sql.clauses.putting import put_clauses
from tidelog.sql.clauses.syntax import parsed
from tidelog.sql.clauses.window_arguments import FUNCTIONS as WINDOW_FUNCTIONS
from tidelog.sql.database import TABLE_FUNCTIONS, TELLING_NAMES, Database, is_telling
from tidelog.sql.errors import SqlError, of_engine
from tidelog.sql.planning.blocks import NotSo, blocks
from tidelog.sql.planning.calls import Functions, aggregates_of
from tidelog.sql.planning.direct import Direct, direct
from tidelog.sql.planning.ends import read_one_end
from tidelog.sql.planning.hints import Hints
from tidelog.sql.planning.indexed import answer
from tidelog.sql.planning.places import go_by_places
from tidelog.sql.reading.dataset import ManyStreams, Relation
from tidelog.sql.reading.sources import StreamAt, Streams
from tidelog.sql.text.blame import concerned
from tidelog.sql.text.growth import Bounds, too_large_by
from tidelog.sql.text.literals import literal, parameters
from tidelog.sql.text.moments import moment, put_moments
from tidelog.sql.text.tokens import tokens
from tidelog.sql.text.tree import Node, nodes, place, put, rename_variables
from tidelog.threads import beside_main

if TYPE_CHECKING:
    import duckdb

_T = TypeVar("_T")

_SELECTING: Final = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
"""What statements consist of; those that change something are the others."""
_PATIENCE: Final = 0.01
"""Seconds between two attempts to stop a statement."""
_STREAMS: Final = "streams"
"""The table function of many streams."""
_LONGEST: Final = 1 << 20
"""Characters of a statement."""
_DEEPEST: Final = 400
"""Parentheses inside of each other."""


_MOST_UNITED: Final = 1000
"""UNIONs and the like, for which the parser takes time that grows with the square of their number."""
_MOST_DOTS: Final = 64
"""Parts of a name, likewise."""


_MOST_SCHEMAS: Final = 1024
_SCHEMAS: dict[Any, pa.Schema] = {}
"""What DuckDB has said of the columns of scans: it depends on nothing but these and the time zone."""


@dataclass(slots=True)
class Sources:
    """What statements of one call read, and how; a stream that is mentioned twice is looked at once."""

    streams: Streams
    tables: Mapping[str, Any]
    as_of: int | None
    now: datetime.datetime
    timezone: str
    _known: dict[tuple[str, int | None], StreamAt] = field(default_factory=dict)
    _names: dict[str, list[str]] | None = None

    def stream(self, name: str, version: int | None) -> StreamAt:
        """A stream at the moment of the call."""
        key = name, self.as_of if version is None else version
        if key not in self._known:
            self._known[key] = self.streams.at(*key)
        return self._known[key]

    def find_stream(self, name: str) -> str | None:
        """The stream that a name means: one that is spelled so, or the only one that is but for upper case."""
        if self._names is None:
            self._names = {}
            for each in self.streams.names():
                self._names.setdefault(each.lower(), []).append(each)
        similar = self._names.get(name.lower(), [])
        return name if name in similar else similar[0] if len(similar) == 1 else None

    def find_table(self, name: str) -> str | None:
        """The given table that a name means."""
        if name in self.tables:
            return name
        similar = [each for each in self.tables if each.lower() == name.lower()]
        return similar[0] if len(similar) == 1 else None

    def suggestion(self, name: str) -> str:
        """What to do about a name that is none."""
        return did_you_mean(name, [*self.streams.names(), *self.tables])

    def forget_names(self) -> None:
        """After a statement that has changed streams."""
        self._names = None
        self._known.clear()


class Running:
    """A statement that is being run, by a connection of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation) -> None:
        self._connection = connection
        self.relation = relation

    def fetch(self, work: Callable[[duckdb.DuckDBPyRelation], _T]) -> _T:
        """What some work makes of the result; an interrupt stops it."""
        return stoppable(self._connection, partial(work, self.relation))


def stoppable(connection: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """What some work by a connection returns. An interrupt stops DuckDB, which would not notice it for long.

    Interrupts come to the main thread alone, so that is the one that waits while another one works.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    task = beside_main(work)
    try:
        task.wait()
    except BaseException:
        while not task.wait(_PATIENCE):
            connection.interrupt()  # again and again: what has not begun yet does not notice it
        raise
    return task.result()


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
        self.operations: dict[str, Operation] = {}
        """Event clauses by the names that stand in their place."""
        self.direct: Direct | None = None
        """The scan that answers it without DuckDB."""
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
            tree = self.tree = parsed(database.parser, self.text)
            self._has_seq = any(map(_names_sequence, nodes(tree)))
            self._keep_names(tree)
            self._put_values(tree, params)
            statement = tree["statements"][0]
            self._resolve(statement["node"], {})
            self._refuse_telling(statement)
            put_moments(tree, self._sources.now, self._columns(tree), database.parser)
            rename_variables(tree)
            bounds = Bounds(database.parser, database.memory, database.aggregates, self._error)
            bounds.put(tree, tested=self._is_embedded)
            fill_gaps(tree, database.aggregates | self._functions.own, database.parser, self._error)
            self._put_clauses(tree)
            self._plan(tree)
            self._go_directly(statement["node"])
            self.printed = database.parser.print(tree)

    # -- names ----------------------------------------------------------------------------------------------------

    def _keep_names(self, tree: Node) -> None:
        """Give columns that have no name, and in whose text something will be put, the name of the text as it is."""
        for select in [node for node in nodes(tree) if node["type"] == "SELECT_NODE"]:
            for item in select["select_list"]:
                if not item["alias"] and any(map(_is_put, nodes(item))) and not any(map(_is_star, _own(item))):
                    item["alias"] = self.database.parser.print_expression(printable(item, named=True))

    def _put_values(self, tree: Node, params: Any) -> None:
        """Constants in the place of parameters."""
        parser = self.database.parser
        statement = tree["statements"][0]
        names = [each["key"] for each in statement["named_param_map"]]
        values = {name: parser.expression(literal(value)) for name, value in parameters(params, names).items()}
        statement["named_param_map"] = []
        of_tables = {id(node["function"]) for node in nodes(tree) if node["type"] == "TABLE_FUNCTION"}
        for node in list(nodes(tree)):
            kind = node.get("class")
            if kind == "PARAMETER":
                put(node, values[node["identifier"]])
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
        if is_telling(name):
            raise self._error(f"function {name} is not allowed, because it tells of the process, or changes it", node)
        known = did_you_mean(name, [*allowed, *GAP_FUNCTIONS, *WINDOW_FUNCTIONS, *self._functions.own])
        known = f"; {known}" if known.startswith("did") else ", neither of DuckDB nor of tidelog"
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

    def _resolve(self, node: Any, known: Mapping[str, None]) -> None:
        """Put relations in the place of the names of streams and tables, below a node that sees some names of CTEs."""
        if isinstance(node, list):
            for each in node:
                self._resolve(each, known)
            return
        if not isinstance(node, dict):
            return
        kind = node.get("type")
        if kind == "BASE_TABLE":
            self._resolve_table(node, known)
            return
        if kind == "TABLE_FUNCTION":
            if node["function"]["function_name"].lower() == _STREAMS:
                self._resolve_streams(node)
                return
            self._check_table_function(node)
        if kind == "SHOW_REF" and node["query"] is None:
            raise self._error("expected SHOW STREAMS, or DESCRIBE and a stream, a table or a SELECT", node)
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _SELECTING:
            what = kind.split("_")[0]
            raise self._error(f"found {what} inside of a query, which does more than to select", node)
        outer = known
        if kind == "RECURSIVE_CTE_NODE":
            known = {**known, node["cte_name"].lower(): None}
        ctes = node.get("cte_map")
        if isinstance(ctes, dict):
            for each in ctes.get("map", []):
                # A name counts for those behind it, and for itself where it is recursive.
                self._resolve(each["value"], known)
                known = {**known, each["key"].lower(): None}
        for name, value in node.items():
            if name != "cte_map" and isinstance(value, dict | list):
                # What a recursion begins with does not see it.
                self._resolve(value, outer if kind == "RECURSIVE_CTE_NODE" and name == "left" else known)
        if kind == "SELECT_NODE" and self._has_seq:
            self._hide_sequence(node)

    def _resolve_table(self, node: Node, known: Mapping[str, None]) -> None:
        name = node["table_name"]
        if node["schema_name"] or node["catalog_name"]:
            raise self._error(f"found {node['schema_name'] or node['catalog_name']}.{name}; there are no schemas", node)
        if name.lower() in known:
            return
        table = self._sources.find_table(name)
        version = node["at_clause"]
        if table is not None:
            if version is not None:
                raise self._error(f"found AT for table {name!r}; only streams have a past", node)
            node.update(_named(node, f"#{table}"))
            self.tables[f"#{table}"] = self._sources.tables[table]
            return
        stream = self._sources.find_stream(name)
        if stream is None:
            raise self._error(f"no stream or table {name!r}; {self._sources.suggestion(name)}", node)
        at = self._sources.stream(stream, None if version is None else self._version(version, node))
        own = f"#{len(self.relations)} {name}"
        schema = relation_schema(at.snapshot, seq=self._has_seq)
        self.relations[own] = Relation(at, schema)
        node.update(_named(node, own))
        node["at_clause"] = None

    def _resolve_streams(self, node: Node) -> None:
        """Put all streams whose names match a pattern in the place of ``streams('pattern')``."""
        arguments = node["function"]["arguments"]
        literal = arguments[0]["expression"].get("literal", {}) if len(arguments) == 1 else {}
        if literal.get("kind") != "STRING":
            raise self._error("expected streams('pattern'), such as streams('sensors/*')", node)
        pattern = literal["text"]
        matches = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch
        names = [name for name in self._sources.streams.names() if matches(name)]
        if not names:
            suggestion = self._sources.suggestion(pattern.rstrip("*/"))
            raise self._error(f"no stream matches {pattern!r}; {suggestion}", node)
        streams = [self._sources.stream(name, None) for name in names]
        schema = relation_schema(streams[0].snapshot, seq=self._has_seq)
        for other in streams[1:]:
            if not relation_schema(other.snapshot, seq=self._has_seq).equals(schema):
                raise self._error(f"streams {names[0]!r} and {other.name!r} have different columns", node)
        own = f"#{len(self.relations)} streams('{pattern}')"
        self.relations[own] = ManyStreams(streams, schema)
        table = self.database.parser.parse("FROM x")["statements"][0]["node"]["from_table"]
        table.update({"alias": node["alias"] or _STREAMS, "table_name": own, "qualified_name": {"path": [own]}})
        table.update({"column_name_alias": node["column_name_alias"], "sample": node["sample"]})
        node.clear()
        node.update(table)

    def _hide_sequence(self, select: Node) -> None:
        """Leave ``_seq`` out of what ``*`` stands for, as if it was not there unless it is named."""
        tables = [table for table in _tables(select["from_table"]) if table["table_name"] in self.relations]
        if not tables:
            return
        aliases = [table["alias"] for table in tables]
        columns = {name.lower() for table in tables for name in self.relations[table["table_name"]].schema.names}
        rows = {each.lower() for each in aliases} - columns
        for node in _own({name: value for name, value in select.items() if name != "modifiers"}):  # ORDER BY ALL is a *
            kind, what = node.get("class"), None
            if kind == "STAR" and node["expr"] is None:
                own = [each for each in aliases if node["relation_name"].lower() in ("", each.lower())]
                hidden = [{"catalog": "", "schema": "", "table": each, "column": SEQUENCE_COLUMN} for each in own]
                node["qualified_exclude_list"] += hidden
            elif kind == "STAR":
                what = "COLUMNS with a condition"
            elif kind == "COLUMN_REF" and len(node["column_names"]) == 1 and node["column_names"][0].lower() in rows:
                what = "a whole row"
            elif node["type"] == "JOIN" and node["ref_type"] == "NATURAL":
                what = "NATURAL JOIN"
            if what is not None:
                raise self._error(
                    f"found {what} in a statement that names {SEQUENCE_COLUMN}, which would be part of it; "
                    "name the columns instead",
                    node,
                )

    def _version(self, clause: Node, node: Node) -> int:
        value = clause["expr"].get("literal", {})
        if clause["unit"].upper() != "VERSION" or value.get("kind") != "INTEGER":
            raise self._error("expected AT (VERSION => n) with a sequence number n", node)
        return int(value["text"])

    def _check_table_function(self, node: Node) -> None:
        name = node["function"]["function_name"].lower()
        if name not in TABLE_FUNCTIONS:
            known = did_you_mean(name, sorted([*TABLE_FUNCTIONS, _STREAMS]))
            raise self._error(f"table function {name} is not allowed; {known}", node)

    def _plan(self, tree: Node) -> None:
        """Answer from the index what it knows, and read one end of a stream where that is enough."""
        functions = self._functions
        for block in blocks(tree, self.relations, self.database.parser, self._sources.timezone):
            relation = block.relation
            name = f"#answers of {block.table['table_name']}"
            try:
                found = answer(block, functions, self.cursor, name)
            except NotSo as reason:
                relation.reasons.append(f"not from the index, because {reason}")
                own = next(filter(functions.is_own, aggregates_of(block, functions)), None)
                if own is not None:
                    raise self._own_error(own, str(reason)) from None
            else:
                self.tables[name] = found.table
                relation.way = f"the index: {', '.join(found.calls)} of {found.ranges:,} ranges of time"
                if found.leaves:
                    relation.way += f", with {found.leaves:,} blocks of events"
                if found.rest is None:
                    relation.is_indexed = True
                    continue
                block = found.rest
                relation.way += "; from the events: " + ", ".join(map(block.text, block.select["select_list"]))
            relation.confined = block.confined
            if not relation.is_one:
                continue
            go_by_places(block, functions)
            try:
                end = read_one_end(block, functions)
                relation.way = f"the {'last' if end.newest_first else 'first'} {end.rows:,} events"
            except NotSo as reason:
                relation.reasons.append(f"not one end alone, because {reason}")
        for relation in self.relations.values():
            relation.is_alone = len(self.relations) + len(self.tables) == 1
        Hints(tree, self.relations, self.tables, self.database.parser, self._sources.timezone, functions).give()
        for relation in self.relations.values():
            relation.look_again()
        left = next(filter(functions.is_own, nodes(tree)), None)
        if left is not None:
            raise self._own_error(left, "it stands in no selection of one stream")

    def _go_directly(self, statement: Node) -> None:
        """Answer by a scan alone if that is all there is to do."""
        if not self._is_embedded or len(self.relations) != 1 or self.tables or self.operations:
            return
        for block in blocks(statement, self.relations, self.database.parser, self._sources.timezone):
            try:
                self.direct = direct(block, statement)
                self.direct.relation.way += ", without DuckDB"
            except NotSo as reason:
                block.relation.reasons.append(f"by DuckDB, because {reason}")

    @cached_property
    def _functions(self) -> Functions:
        own = frozenset(aggregates.names()) - self.database.functions
        return Functions(self.database.aggregates, own)

    def _own_error(self, node: Node, reason: str) -> SqlError:
        name = node["function_name"].lower()
        return self._error(
            f"{name} is an aggregate of tidelog's own, which takes the events of one stream, all or those of buckets "
            f"of time, but {reason}",
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
        )
        with self.told():
            for name, operation in put_clauses(tree, context):
                self.operations[name] = operation

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
    def schema(self) -> pa.Schema:
        """The columns, as DuckDB says."""
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
        """All rows, by a scan alone; None if it takes DuckDB."""
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
                raise failure from None
            raise self._of_engine(error) from None

    def _of_engine(self, error: BaseException) -> SqlError:
        if (found := too_large_by(str(error))) is not None:
            message, offset = found
            return SqlError(message, text=self.text, position=place({"query_location": offset}, self.text))
        columns = sorted({name for each in self.relations.values() for name in each.schema.names})
        return of_engine(error, self.text, self._place_of, columns)

    def _place_of(self, message: str) -> int | None:
        with self.database.mutex:
            node = concerned(parsed(self.database.parser, self.text), message, self.database.aggregates)
        return None if node is None else self._place(node)


def read_alone(text: str, database: Database) -> None:
    """Raise :class:`SqlError` for what is no statement that selects, whatever names it has."""
    refuse_monstrous(text)
    with database.mutex:
        parsed(database.parser, text)


def refuse_monstrous(text: str) -> None:
    """Raise for texts that would only keep the parser busy."""
    if len(text) > _LONGEST:
        raise SqlError(f"found a statement of {len(text):,} characters; at most {_LONGEST:,} are read: use parameters")
    strange = re.search(r"[\0\ud800-\udfff]", text)
    if strange is not None:
        raise SqlError(f"found {strange[0]!r}, which is no character of a text", text=text, position=strange.start())
    depth = deepest = 0
    for each in re.finditer(r"[([{]|[)\]}]", text):
        depth += 1 if each[0] in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise SqlError(f"found parentheses {deepest:,} deep; at most {_DEEPEST} are read")
    joined = sum(1 for _ in re.finditer(r"\b(?:UNION|INTERSECT|EXCEPT)\b", text, re.IGNORECASE))
    if joined > _MOST_UNITED or re.search(rf"(?:\.\s*\w+\s*){{{_MOST_DOTS}}}", text):
        raise SqlError(f"found {joined:,} UNIONs, or a name of more than {_MOST_DOTS} parts; split the statement up")


def _given_names(node: Node) -> list[str]:
    """The names that a node gives to columns."""
    return [node.get("alias") or "", *(node.get("column_name_alias") or ())]


def _named(node: Node, name: str) -> Node:
    return {"table_name": name, "qualified_name": {"path": [name]}, "alias": node["alias"] or node["table_name"]}


def _is_put(node: Node) -> bool:
    """Whether something else is put in the place of a node, or of one inside of it."""
    return node.get("class") in ("PARAMETER", "LAMBDA") or node["type"] == "BASE_TABLE" or moment(node) is not None


def _is_star(node: Node) -> bool:
    return node.get("class") == "STAR"


def _names_sequence(node: Node) -> bool:
    if node["type"] == "JOIN":
        return SEQUENCE_COLUMN in map(str.lower, node["using_columns"])
    return node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() == SEQUENCE_COLUMN


def _own(node: Any) -> Iterator[Node]:
    """The nodes of a SELECT, without those of queries inside of it."""
    if isinstance(node, list):
        for each in node:
            yield from _own(each)
    elif isinstance(node, dict) and node.get("type") not in ("SUBQUERY", "SET_OPERATION_NODE"):
        if "type" in node:
            yield node
        for name, value in node.items():
            if name != "cte_map":
                yield from _own(value)


def _tables(node: Node) -> Iterator[Node]:
    """The tables that a FROM clause names itself."""
    if node["type"] == "BASE_TABLE":
        yield node
    elif node["type"] == "JOIN":
        yield from _tables(node["left"])
        yield from _tables(node["right"])


__all__ = ["NotFoundError", "Query", "Sources", "read_alone", "refuse_monstrous"]
