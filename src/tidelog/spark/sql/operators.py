"""Operators of DuckDB's plans as Spark SQL: each a SELECT over those below, with columns of names that nobody else has.

What a statement left of its scope is gone from a plan: queries with a name, and those that DuckDB has taken out of
expressions, are written in front of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidelog.spark.sql.binding import Bound
from tidelog.spark.sql.columns import children, is_scan, kind, positions, used
from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.joins import Joins
from tidelog.spark.sql.parts import Rows
from tidelog.spark.sql.types import Type, quoted, type_of
from tidelog.spark.sql.vocabulary import unknown
from tidelog.sql.text.tree import Node


@dataclass(frozen=True)
class Source:
    """What Spark knows a table by: a name, and those of its columns by their place in the table."""

    name: str
    columns: Mapping[int, str]


def statement(
    bound: Bound, zone: str, sources: Callable[[Node], Source], tools: Tools, *, as_numbers: bool = False
) -> str:
    """A bound statement in Spark SQL. Raises :class:`SqlError` at what cannot be written.

    With ``as_numbers`` nanoseconds may come out, as numbers since 1970.
    """
    return _Translation(bound, zone, sources, tools).whole(as_numbers)


class _Translation(Joins):
    def __init__(self, bound: Bound, zone: str, sources: Callable[[Node], Source], tools: Tools) -> None:
        super().__init__(bound, zone, tools)
        self._sources = sources
        self._known: dict[int, Rows] = {}
        """Queries with a name, by their number."""

    def whole(self, as_numbers: bool) -> str:
        for what, node in unknown(self._bound.root):
            raise self._write.refuse(what, node)
        rows = self.rows(self._bound.root)
        for column, name in zip(rows.columns, self._bound.names, strict=True):
            if (column.type.has_nanoseconds and not as_numbers) or column.type.spark is None:
                what = "nanoseconds" if column.type.has_nanoseconds else f"type {column.type.name}"
                raise self._write.refuse(f"{what} in column {name!r} of the result", {})
        shown = [f"{each.name} AS o{place}" for place, each in enumerate(rows.columns)]
        front = f"WITH {', '.join(self._named)} " if self._named else ""
        return f"{front}SELECT {', '.join(shown)} FROM {self._inside(rows)}"

    def rows(self, node: Node) -> Rows:
        """What an operator gives."""
        what = kind(node)
        written = getattr(self, f"_{what.lower()}", None)
        if written is None:
            raise self._write.refuse(f"{what.replace('_', ' ')}", node)
        found: Rows = written(node)
        return found

    # -- operators ----------------------------------------------------------------------------------------------

    def _get(self, node: Node) -> Rows:
        if not is_scan(node):
            return self._function(node)
        source, wanted, places = self._sources(node), used(node), positions(node)
        types = [type_of(each) for each in node["returned_types"]]
        kinds = [types[each] if each < len(types) else Type("BIGINT") for each in places]
        columns = self._fresh(kinds)
        texts = [
            quoted(source.columns[place]) if at in wanted and place in source.columns else f"CAST(NULL AS {each.spark})"
            for at, (place, each) in enumerate(zip(places, kinds, strict=True))
        ]
        missing = [place for at, place in enumerate(places) if at in wanted and place not in source.columns]
        if missing:
            raise self._write.refuse("a number of a row", node)
        return self._select(texts, columns, f"FROM {source.name}")

    def _function(self, node: Node) -> Rows:
        name = str(node["qname"]["path"][-1])
        values = [each.get("value") for each in node.get("parameters", [])]
        is_plain = all(isinstance(each, int) for each in values) and 1 <= len(values) <= 3
        if name not in ("range", "generate_series") or not is_plain:
            raise self._write.refuse(f"the table function {name}", node)
        start, end = (0, values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) == 3 else 1
        if step == 0:
            raise self._write.refuse(f"{name} with a step of 0", node)
        if name == "generate_series":
            end += 1 if step > 0 else -1
        columns = self._fresh([Type("BIGINT")] * len(positions(node)))
        return self._select(["id"] * len(columns), columns, f"FROM range({start}, {end}, {step})")

    def _dummy_scan(self, node: Node) -> Rows:
        return self._select(["0"], self._fresh([Type("INTEGER")]), "")

    def _empty_result(self, node: Node) -> Rows:
        columns = self._fresh([type_of(each) for each in node.get("return_types", [])])
        return self._select([f"CAST(NULL AS {each.type.spark})" for each in columns], columns, "WHERE FALSE")

    def _expression_get(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        columns = self._fresh([type_of(each) for each in node["expr_types"]])
        parts = []
        for row in node["expressions"]:
            texts = [self._write.write(each, below.columns) for each in row]
            parts.append(self._select(texts, columns, f"FROM {self._inside(below)}").sql)
        return Rows(" UNION ALL ".join(parts), columns)

    def _projection(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        expressions = node.get("expressions", [])
        columns = self._fresh([self._write.type(each) for each in expressions])
        texts = [self._write.write(each, below.columns) for each in expressions]
        return self._select(texts, columns, f"FROM {self._inside(below)}")

    def _filter(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        if node.get("projection_map"):
            raise self._write.refuse("a filter that leaves out columns", node)
        texts = [self._write.write(each, below.columns) for each in node.get("expressions", [])]
        return Rows(f"SELECT * FROM {self._inside(below)} WHERE {' AND '.join(texts) or 'TRUE'}", below.columns)

    def _order_by(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        orders = self._write.orders(node["orders"], below.columns)
        return Rows(
            f"SELECT * FROM {self._inside(below)} ORDER BY {', '.join(each.sql for each in orders)}", below.columns
        )

    def _limit(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        text = f"SELECT * FROM {self._inside(below)}"
        for word, name in (("LIMIT", "limit_val"), ("OFFSET", "offset_val")):
            told = node.get(name, {})
            if told.get("type", "UNSET") == "UNSET":
                continue
            if told["type"] != "CONSTANT_VALUE":
                raise self._write.refuse(f"{word} that is no number of rows", node)
            value = int(told["constant_integer"])
            if value > (1 << 31) - 1:
                raise self._write.refuse(f"{word} of {value:,} rows", node)
            text += f" {word} {value}"
        return Rows(text, below.columns)

    def _distinct(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        if node.get("distinct_type", "DISTINCT") == "DISTINCT":
            for each in below.columns:
                if each.type.id == "STRUCT":
                    raise self._write.refuse(f"DISTINCT values of {each.type.name}", node)
            return Rows(f"SELECT DISTINCT * FROM {self._inside(below)}", below.columns)
        keys = [self._write.write(each, below.columns) for each in node["distinct_targets"]]
        orders = self._write.orders((node.get("order_by") or {}).get("orders", []), below.columns)
        by = ", ".join(each.sql for each in orders) or ", ".join(keys)
        number = self._column(Type("BIGINT")).name
        over = f"PARTITION BY {', '.join(keys)} ORDER BY {by}"
        inner = f"SELECT *, row_number() OVER ({over}) AS {number} FROM {self._inside(below)}"
        return Rows(
            f"SELECT {', '.join(below.names)} FROM ({inner}) AS t{next(self._tables)} WHERE {number} = 1", below.columns
        )

    def _window(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        columns = self._fresh([self._write.type(each) for each in node["expressions"]])
        texts = [self._write.window(each, below.columns) for each in node["expressions"]]
        items = ", ".join(f"{text} AS {column.name}" for text, column in zip(texts, columns, strict=True))
        return Rows(f"SELECT *, {items} FROM {self._inside(below)}", (*below.columns, *columns))

    def _unnest(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        expressions = node["expressions"]
        if len(expressions) != 1 or expressions[0]["expression_class"] != "BOUND_UNNEST":
            raise self._write.refuse("several lists that are unnested at once", node)
        column = self._column(self._write.type(expressions[0]))
        text = self._write.write(expressions[0]["child"], below.columns)
        return Rows(f"SELECT *, explode({text}) AS {column.name} FROM {self._inside(below)}", (*below.columns, column))

    # -- groups -------------------------------------------------------------------------------------------------

    def _aggregate_and_group_by(self, node: Node) -> Rows:
        below = self.rows(children(node)[0])
        groups, calls = node.get("groups", []), node.get("expressions", [])
        sets: list[list[int]] = node.get("grouping_sets") or [list(range(len(groups)))]
        for each in groups:
            if self._write.type(each).id == "STRUCT":
                raise self._write.refuse(f"groups of {self._write.type(each).name}", each)
        keys = self._fresh([self._write.type(each) for each in groups])
        items = [
            f"{self._write.write(each, below.columns)} AS {key.name}" for each, key in zip(groups, keys, strict=True)
        ]
        inner = Rows(f"SELECT *, {', '.join(items)} FROM {self._inside(below)}", below.columns) if items else below
        texts = [self._write.aggregate(each, below.columns) for each in calls]
        results = self._fresh([self._write.type(each) for each in calls])
        numbers = self._fresh([Type("BIGINT")] * len(node.get("grouping_functions", ())))
        columns = (*self._fresh([each.type for each in keys]), *results, *numbers)
        source = self._inside(inner) if len(sets) == 1 else self._kept(inner)
        parts = []
        for each in sets:
            shown = [key.name if at in each else f"CAST(NULL AS {key.type.spark})" for at, key in enumerate(keys)]
            told = [str(_grouping(arguments, each)) + "L" for arguments in node.get("grouping_functions", ())]
            by = f" GROUP BY {', '.join(keys[at].name for at in each)}" if each else ""
            parts.append(self._select([*shown, *texts, *told], columns, f"FROM {source}{by}").sql)
        return Rows(" UNION ALL ".join(parts), columns)

    # -- sets ---------------------------------------------------------------------------------------------------

    def _union(self, node: Node) -> Rows:
        return self._united(node, "UNION")

    def _except(self, node: Node) -> Rows:
        return self._united(node, "EXCEPT")

    def _intersect(self, node: Node) -> Rows:
        return self._united(node, "INTERSECT")

    def _united(self, node: Node, word: str) -> Rows:
        parts = [self.rows(each) for each in children(node)]
        columns = self._fresh([each.type for each in parts[0].columns])
        for part in parts:
            for own, first in zip(part.columns, columns, strict=True):
                if own.type != first.type:
                    raise self._write.refuse(f"{word} of {first.type.name} and {own.type.name}", node)
        every = " ALL" if node.get("setop_all") else ""
        texts = [f"({self._select(each.names, columns, f'FROM {self._inside(each)}').sql})" for each in parts]
        return Rows(f"{f' {word}{every} '.join(texts)}", columns)

    # -- queries with a name ------------------------------------------------------------------------------------

    def _materialized_cte(self, node: Node) -> Rows:
        definition, body = children(node)
        if kind(definition) == "RECURSIVE_CTE":
            raise self._write.refuse("WITH RECURSIVE", node)
        rows = self.rows(definition)
        name = self._kept(rows)
        self._known[node["table_index"]] = replace(rows, sql=name)
        return self.rows(body)

    def _cte_ref(self, node: Node) -> Rows:
        known = self._known[node["cte_index"]]
        return self._renamed(known, known.sql)


def _grouping(arguments: Any, groups: Sequence[int]) -> int:
    """What GROUPING tells of some groups: a bit for each that rows are not grouped by."""
    told = 0
    for each in arguments:
        told = told * 2 + (each not in groups)
    return told
