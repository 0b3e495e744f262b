"""What the names of a statement mean: streams at one moment, tables that are given, queries with a name."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from tidelog.model.errors import did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.plan.reading import relation_schema
from tidelog.sql.database import TABLE_FUNCTIONS
from tidelog.sql.errors import SqlError
from tidelog.sql.reading.dataset import ManyStreams, Relation
from tidelog.sql.reading.sources import StreamAt, Streams
from tidelog.sql.text.advice import PAST
from tidelog.sql.text.tree import Node, Parser, nodes, own_nodes

_SELECTING: Final = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
"""What statements consist of; those that change something are the others."""
_FILES: Final = (".csv", ".json", ".jsonl", ".parquet", ".arrow", ".feather", ".gz")
"""What names end with that are meant as files."""
_STREAMS: Final = "streams"
"""The table function of many streams."""


@dataclass(frozen=True, slots=True)
class Question:
    """A statement about tables that are given, asked while another one is planned."""

    text: str
    tables: frozenset[str]
    """All that the other one mentions."""


@dataclass(slots=True)
class Sources:
    """What statements of one call read, and how; a stream that is mentioned twice is looked at once."""

    streams: Streams
    tables: Mapping[str, Any]
    as_of: int | None
    now: datetime.datetime
    timezone: str
    ask: Callable[[Question], pa.Table] | None = None
    """Gives rows of tables that only have their columns here; None if they have their rows."""
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


class Resolver:
    """Puts relations in the place of the names in a tree.

    ``error`` makes the error for a node of it.
    """

    def __init__(self, tree: Node, sources: Sources, parser: Parser, error: Callable[[str, Node], SqlError]) -> None:
        self._sources = sources
        self._parser = parser
        self._error = error
        self.has_sequence = any(map(_names_sequence, nodes(tree)))
        """Whether it names ``_seq``, which is there only then."""
        self.relations: dict[str, Relation] = {}
        """Mentions of streams by the names that stand in their place."""
        self.mentions: dict[str, tuple[str, int | None]] = {}
        """Of mentions of one stream how it is written, and its version if one is, likewise."""
        self.tables: dict[str, Any] = {}
        """Tables that are mentioned, likewise."""

    def resolve(self, node: Any, known: Mapping[str, None] = MappingProxyType({})) -> None:
        """Put relations in the place of the names of streams and tables, below a node that sees some names of CTEs."""
        if isinstance(node, list):
            for each in node:
                self.resolve(each, known)
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
                self.resolve(each["value"], known)
                known = {**known, each["key"].lower(): None}
        for name, value in node.items():
            if name != "cte_map" and isinstance(value, dict | list):
                # What a recursion begins with does not see it.
                self.resolve(value, outer if kind == "RECURSIVE_CTE_NODE" and name == "left" else known)
        if kind == "SELECT_NODE" and self.has_sequence:
            self._hide_sequence(node)

    def _resolve_table(self, node: Node, known: Mapping[str, None]) -> None:
        name = node["table_name"]
        if node["schema_name"] or node["catalog_name"]:
            raise self._error(f"found {node['schema_name'] or node['catalog_name']}.{name}; there are no schemas", node)
        version = node["at_clause"]
        if name.lower() in known:
            if version is not None:
                raise self._error(f"found AT for query {name!r}; only streams have a past: say it inside of it", node)
            return
        table = self._sources.find_table(name)
        if table is not None:
            if version is not None:
                raise self._error(f"found AT for table {name!r}; only streams have a past", node)
            node.update(_named(node, f"#{table}"))
            self.tables[f"#{table}"] = self._sources.tables[table]
            return
        stream = self._sources.find_stream(name)
        if stream is None:
            advice = self._sources.suggestion(name)
            if name.lower().endswith(_FILES):
                advice = "files are not read: read it in Python and give it with tables=, or put it into a stream"
            raise self._error(f"no stream or table {name!r}; {advice}", node)
        written = None if version is None else self._version(version, node)
        at = self._sources.stream(stream, written)
        own = f"#{len(self.relations)} {name}"
        self.mentions[own] = name, written
        schema = relation_schema(at.snapshot, seq=self.has_sequence)
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
        schema = relation_schema(streams[0].snapshot, seq=self.has_sequence)
        for other in streams[1:]:
            own = relation_schema(other.snapshot, seq=self.has_sequence)
            if not own.equals(schema):
                differ = _difference(schema, own)
                raise self._error(
                    f"streams {names[0]!r} and {other.name!r} have different columns: {differ}; expected a pattern of "
                    "streams with the same ones, or UNION ALL BY NAME",
                    node,
                )
        name = f"#{len(self.relations)} streams('{pattern}')"
        self.relations[name] = ManyStreams(streams, schema)
        table = self._parser.parse("FROM x")["statements"][0]["node"]["from_table"]
        table.update({"alias": node["alias"] or _STREAMS, "table_name": name, "qualified_name": {"path": [name]}})
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
        for node in own_nodes(
            {name: value for name, value in select.items() if name != "modifiers"}
        ):  # ORDER BY ALL is a *
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
        version = int(value["text"])
        if version < 0:
            raise self._error(f"found AT (VERSION => {version}); expected a sequence number, 0 or more", node)
        return version

    def _check_table_function(self, node: Node) -> None:
        name = node["function"]["function_name"].lower()
        if name not in TABLE_FUNCTIONS:
            known = PAST if name == "at" else did_you_mean(name, sorted([*TABLE_FUNCTIONS, _STREAMS]))
            raise self._error(f"table function {name} is not allowed; {known}", node)


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    """How the columns of two streams differ, the first difference."""
    for mine, its in zip_longest(one, other):
        if mine is None or its is None or mine.name != its.name:
            return " and ".join("none" if each is None else f"{each.name!r}" for each in (mine, its))
        if not mine.equals(its):
            return f"{mine.name!r} is {_shown(mine)} and {_shown(its)}"
    return "their order"


def _shown(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' NOT NULL'}"


def _named(node: Node, name: str) -> Node:
    return {"table_name": name, "qualified_name": {"path": [name]}, "alias": node["alias"] or node["table_name"]}


def _names_sequence(node: Node) -> bool:
    if node["type"] == "JOIN":
        return SEQUENCE_COLUMN in map(str.lower, node["using_columns"])
    return node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() == SEQUENCE_COLUMN


def _tables(node: Node) -> Iterator[Node]:
    """The tables that a FROM clause names itself."""
    if node["type"] == "BASE_TABLE":
        yield node
    elif node["type"] == "JOIN":
        yield from _tables(node["left"])
        yield from _tables(node["right"])
