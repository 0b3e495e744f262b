"""Selections of one stream, or of several as one: ``SELECT ... FROM stream WHERE ...``, wherever they stand."""

from __future__ import annotations

import copy
import datetime
import marshal
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from tidelog.expr import Predicate, column_ranges, predicate
from tidelog.expr.errors import ExpressionError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.plan.reading import EVER, instants
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node, Parser, become, frozen, nodes, same

_MOMENTS: Final = frozenset({"date", "timestamp", "timestamptz", "timestamp with time zone"})
"""Types of constants that are times, for which it may matter in which zone."""


class NotSo(Exception):
    """Something is not done for a selection, and why."""


@dataclass(slots=True)
class Block:
    """A selection of one stream, or of several as one."""

    select: Node
    relation: Relation
    parser: Parser
    timezone: str

    @property
    def table(self) -> Node:
        """The mention of the stream."""
        found: Node = self.select["from_table"]
        return found

    @property
    def alias(self) -> str:
        """What the stream is called here."""
        return str(self.table["alias"])

    def column(self, node: Node) -> str | None:
        """The stored column that a node names; None if it is none."""
        if node.get("class") != "COLUMN_REF":
            return None
        *before, name = node["column_names"]
        if before and (len(before) > 1 or before[0].lower() != self.alias.lower()):
            return None
        names = {each.lower(): each for each in self.relation.schema.names}
        found = names.get(name.lower())
        return found if self.table["column_name_alias"] == [] else None

    def alike(self, one: Node, other: Node) -> bool:
        """Whether two expressions say the same, with or without what the stream is called here."""
        if one.get("class") != other.get("class") or one.get("function_name") != other.get("function_name"):
            return False
        return same(one, other) or self.text(one) == self.text(other)

    def text(self, node: Node) -> str:
        """A node as a text about columns of the stream, without what the stream is called here."""
        content = frozen(node)
        is_renamed = self.table["column_name_alias"] != []
        of = self.alias, is_renamed, self.relation.shape
        return self.parser.once("text", content, lambda: self._text(marshal.loads(content)), *of)

    def _text(self, own: Node) -> str:
        own["alias"] = ""
        for each in list(nodes(own)):
            column = self.column(each)
            if column is not None:
                each["column_names"] = [column]
            elif each.get("class") == "CAST":
                self._put_truth(each)
        return _LIKE.sub(_like, self.parser.print_expression(own))

    def _put_truth(self, node: Node) -> None:
        """``b IS TRUE`` is read as ``CAST(b AS BOOLEAN) IS NOT DISTINCT FROM CAST('t' AS BOOLEAN)``: without casts."""
        child = node["child"]
        if str(node["type_expr"].get("type_name", "")).upper() != "BOOLEAN":
            return
        column = self.column(child)
        if column is not None and pa.types.is_boolean(self.relation.schema.field(column).type):
            become(node, child)
        elif child.get("class") == "CONSTANT" and child["literal"].get("text") in ("t", "f"):
            become(node, self.parser.expression("TRUE" if child["literal"]["text"] == "t" else "FALSE"))

    def condition(self, node: Node) -> Predicate:
        """A condition of the statement as one of ours. Raises :class:`NotSo` if ours cannot say it."""
        if self.timezone == "UTC":
            return self._predicate(node)
        # Times of columns without a zone become times of the session's zone next to such with one, and so do constants.
        holder = {"condition": copy.deepcopy(node)}
        compared = [each for each in nodes(holder) if self._put_moments(each)]
        found = self._predicate(holder["condition"])
        for each in compared:
            become(each, self.parser.expression("TRUE"))
        if any(_has_zone(each.type) for each in self._predicate(holder["condition"]).expression.node.walk()):
            raise NotSo("a condition on times of a zone is computed by DuckDB unless the session's zone is UTC")
        return found

    def _predicate(self, node: Node) -> Predicate:
        text = self.text(node)
        found = known_predicate(text, self.relation.stream.snapshot.layout.stored)
        if isinstance(found, str):
            raise NotSo(f"the condition {text} is computed by DuckDB: {found}")
        return found

    def _put_moments(self, node: Node) -> bool:
        """Have a comparison of a column of times of a zone with constants say which moments these are.

        Returns whether it is such a comparison.
        """
        if node.get("class") not in ("COMPARISON", "BETWEEN"):
            return False
        sides = [each for name in ("left", "right", "input", "lower", "upper") if (each := node.get(name)) is not None]
        columns = [name for each in sides if (name := self.column(each)) is not None]
        constants = [each for each in sides if self.column(each) is None]
        if len(columns) != 1 or not _counts_micros(self.relation.schema.field(columns[0]).type):
            return False
        moments = [self._moment(each) for each in constants]
        if any(each is None for each in moments):
            return False
        for each, text in zip(constants, moments, strict=True):
            become(each, self.parser.expression(str(text)))
        return True

    def _moment(self, node: Node) -> str | None:
        """A constant of the session's zone as a moment of its own."""
        if node.get("class") == "CAST":
            if (
                str(node["type_expr"].get("type_name", "")).lower() not in _MOMENTS
                or node["child"].get("class") != "CONSTANT"
            ):
                return None
        elif node.get("class") != "CONSTANT" or node["literal"].get("kind") != "STRING":
            return None
        micros = self.parser.instant(self.text(node))
        if micros is None:
            return None
        try:
            moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
        except OverflowError:
            return None
        return f"TIMESTAMPTZ '{moment.isoformat(' ')}+00'"

    def confined(self) -> Interval:
        """Times outside of which no row satisfies the condition, as far as ours can tell."""
        where = self.select["where_clause"]
        if where is None:
            return Interval()
        time = self.relation.stream.time
        of = time, self.timezone, self.alias, self.table["column_name_alias"] != [], self.relation.shape
        return self.parser.once("confined", frozen(where), lambda: self._confined(time), *of)

    def _confined(self, time: str) -> Interval:
        result = Interval()
        kind = self.relation.stream.snapshot.layout.stored.field(time).type
        for part in conjuncts(self.select["where_clause"]):
            try:
                found = column_ranges(self.condition(part).expression).get(time)
            except NotSo:
                continue
            times = None if found is None else instants(found, kind)
            if times is not None:
                result = result.intersect(times.bounds)
        return result

    def times(self, node: Node | None) -> Intervals:
        """The times that a condition means, and that it means nothing else. Raises :class:`NotSo` if it does."""
        if node is None:
            return EVER
        condition = self.condition(node)
        if condition.is_always:
            return EVER
        found = condition.exact_range
        time = self.relation.stream.time
        kind = self.relation.stream.snapshot.layout.stored.field(time).type
        times = instants(found, kind) if found is not None and found.column == time else None
        if times is None:
            raise NotSo(f"the condition {self.text(node)} is not about a range of {time} alone")
        return times

    def interval(self, node: Node | None) -> Interval:
        """The one range of time that a condition means, likewise."""
        return single(self.times(node))


def single(times: Intervals) -> Interval:
    """The one range of time that some times are. Raises :class:`NotSo` if they are several."""
    if len(times.spans) > 1:
        raise NotSo("the condition is about several ranges of time")
    return times.bounds


_LIKE = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")| (!?)~~ """)
"""How DuckDB prints LIKE, or something in which it is no such thing."""


def _like(found: re.Match[str]) -> str:
    return found[1] or (" NOT LIKE " if found[2] else " LIKE ")


@lru_cache(256)
def known_predicate(text: str, stored: pa.Schema) -> Predicate | str:
    """A condition, or why it is none of ours."""
    try:
        return predicate(text, stored)
    except ExpressionError as error:
        return str(error).partition("\n")[0]


def conjuncts(node: Node | None) -> Iterator[Node]:
    """The conditions that must all hold."""
    if node is None:
        return
    if node["type"] == "CONJUNCTION_AND":
        for each in node["children"]:
            yield from conjuncts(each)
    else:
        yield node


def quoted(name: str) -> str:
    """A name as it can be written wherever one stands."""
    return '"' + name.replace('"', '""') + '"'


def blocks(tree: Any, relations: dict[str, Relation], parser: Parser, timezone: str) -> Iterator[Block]:
    """All selections of one relation in a tree."""
    for node in list(nodes(tree)):
        if node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "BASE_TABLE":
            relation = relations.get(node["from_table"]["table_name"])
            if relation is not None:
                yield Block(node, relation, parser, timezone)


def _counts_micros(kind: pa.DataType) -> bool:
    """Whether a type is one of times of a zone that DuckDB knows as its own."""
    return _has_zone(kind) and kind.unit != "ns"


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None
