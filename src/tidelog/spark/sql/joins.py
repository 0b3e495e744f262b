"""Joins of DuckDB's plans as Spark SQL, also those that it makes of subqueries and of ASOF JOIN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidelog.spark.sql.columns import children, shown_of_right
from tidelog.spark.sql.expressions.casts import failure
from tidelog.spark.sql.expressions.writer import Column
from tidelog.spark.sql.parts import Parts, Rows
from tidelog.spark.sql.types import Type
from tidelog.sql.text.tree import Node

_JOINS: Final = {
    "INNER": "JOIN",
    "LEFT": "LEFT JOIN",
    "RIGHT": "RIGHT JOIN",
    "OUTER": "FULL JOIN",
    "FULL": "FULL JOIN",
    "SEMI": "LEFT SEMI JOIN",
    "ANTI": "LEFT ANTI JOIN",
}
_EQUAL: Final = frozenset({"COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"})
_BEFORE: Final = {
    "COMPARE_GREATERTHANOREQUALTO": (False, True),
    "COMPARE_GREATERTHAN": (False, False),
    "COMPARE_LESSTHANOREQUALTO": (True, True),
    "COMPARE_LESSTHAN": (True, False),
}
"""How an ASOF JOIN compares: whether times fall, and whether the right side comes first where they are equal."""
_SEVERAL: Final = "a query in the place of a value gave several rows"


@dataclass(frozen=True)
class _Pair:
    """Two expressions that a join compares."""

    left: str
    right: str
    comparison: str
    type: Type


class Joins(Parts):
    """The operators that join."""

    def _cross_product(self, node: Node) -> Rows:
        left, right = (self.rows(each) for each in children(node))
        return Rows(
            f"SELECT * FROM {self._inside(left)} CROSS JOIN {self._inside(right)}", (*left.columns, *right.columns)
        )

    def _any_join(self, node: Node) -> Rows:
        left, right = (self.rows(each) for each in children(node))
        how = node["join_type"]
        if how not in _JOINS:
            raise self._write.refuse(f"a join of the kind {how}", node)
        both = (*left.columns, *right.columns)
        on = self._write.write(node["condition"], both)
        columns = left.columns if how in ("SEMI", "ANTI") else both
        return Rows(f"SELECT * FROM {self._inside(left)} {_JOINS[how]} {self._inside(right)} ON {on}", columns)

    def _comparison_join(self, node: Node) -> Rows:
        left, right = (self.rows(each) for each in children(node))
        how = node["join_type"]
        pairs = self._pairs(node, left, right)
        if how == "MARK":
            return self._marked(node, left, right, pairs)
        if how == "SINGLE":
            right = self._single(node, right, pairs)
            how = "LEFT"
            pairs = [replace(each, right=column.name) for each, column in zip(pairs, self._keys_of, strict=True)]
        if how not in _JOINS:
            raise self._write.refuse(f"a join of the kind {how}", node)
        on = " AND ".join(self._write.comparison(each.comparison, each.left, each.right) for each in pairs) or "TRUE"
        shown = [right.columns[place] for place in shown_of_right(node)]
        columns = left.columns if how in ("SEMI", "ANTI") else (*left.columns, *shown)
        rows = f"SELECT {', '.join(each.name for each in columns) or '1'} FROM {self._inside(left)} {_JOINS[how]} "
        return Rows(f"{rows}{self._inside(right)} ON {on}", tuple(columns))

    def _asof_join(self, node: Node) -> Rows:
        """The rows of both sides in the order of time: beside each of the left is the last of the right before it."""
        left, right = (self.rows(each) for each in children(node))
        pairs = self._pairs(node, left, right)
        equal = [each for each in pairs if each.comparison in _EQUAL]
        bounds = [each for each in pairs if each.comparison in _BEFORE]
        how = node["join_type"]
        if len(bounds) != 1 or len(equal) + 1 != len(pairs) or how not in ("INNER", "LEFT"):
            raise self._write.refuse("an ASOF JOIN of this kind", node)
        is_descending, right_first = _BEFORE[bounds[0].comparison]
        compared = [*equal, *bounds]
        keys = [each.name for each in self._fresh([each.type for each in compared])]
        side, one, other, nearest = (self._column(Type("BOOLEAN")).name for _ in range(4))
        lefts = [*(each.left for each in compared), str(right_first).upper(), _struct(left), _no_struct(right)]
        rights = [*(each.right for each in compared), str(not right_first).upper(), _no_struct(left), _struct(right)]
        names = [*keys, side, one, other]
        present = [each.right for each in compared if each.comparison != "COMPARE_NOT_DISTINCT_FROM"]
        where = " AND ".join(f"{each} IS NOT NULL" for each in present)
        both = (
            f"SELECT {_items(lefts, names)} FROM {self._inside(left)} UNION ALL "
            f"SELECT {_items(rights, names)} FROM {self._inside(right)} WHERE {where}"
        )
        part = f"PARTITION BY {', '.join(keys[:-1])} " if equal else ""
        over = (
            f"{part}ORDER BY {keys[-1]} {'DESC' if is_descending else 'ASC'} NULLS FIRST, {side} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        )
        columns = (*left.columns, *right.columns)
        joined = self._inside(
            Rows(
                f"SELECT {one}, last_value({other}) IGNORE NULLS OVER ({over}) AS {nearest} "
                f"FROM {self._inside(Rows(both, columns))}",
                columns,
            )
        )
        texts = [*(f"{one}.{each}" for each in left.names), *(f"{nearest}.{each}" for each in right.names)]
        kept = f"{one} IS NOT NULL" + (f" AND {nearest} IS NOT NULL" if how == "INNER" else "")
        return self._select(texts, columns, f"FROM {joined} WHERE {kept}")

    def _pairs(self, node: Node, left: Rows, right: Rows) -> list[_Pair]:
        found = []
        for each in node.get("conditions", []):
            if "left" not in each:
                raise self._write.refuse("a join by a condition of this form", node)
            for side in ("left", "right"):
                if self._write.type(each[side]).id in ("LIST", "STRUCT"):
                    raise self._write.refuse(f"a join by {self._write.type(each[side]).name}", node)
            one, other = self._write.write(each["left"], left.columns), self._write.write(each["right"], right.columns)
            found.append(_Pair(one, other, str(each["comparison"]), self._write.type(each["right"])))
        return found

    def _single(self, node: Node, right: Rows, pairs: Sequence[_Pair]) -> Rows:
        """At most one row for each key, or an error when there are more."""
        if any(each.comparison not in _EQUAL for each in pairs):
            raise self._write.refuse(
                "a query in the place of a value that is compared otherwise than by equality", node
            )
        keys = self._fresh([each.type for each in pairs])
        self._keys_of = keys
        items = [f"{each.right} AS {key.name}" for each, key in zip(pairs, keys, strict=True)]
        inner = f"SELECT *, {', '.join(items)} FROM {self._inside(right)}"
        values = [
            f"CASE WHEN count(*) > 1 THEN {failure(_SEVERAL)} ELSE first({each.name}) END AS {each.name}"
            for each in right.columns
        ]
        names = [each.name for each in keys]
        text = (
            f"SELECT {', '.join([*names, *values])} FROM ({inner}) AS t{next(self._tables)} GROUP BY {', '.join(names)}"
        )
        return Rows(text, right.columns)

    def _marked(self, node: Node, left: Rows, right: Rows, pairs: Sequence[_Pair]) -> Rows:
        """Beside every row whether one on the other side is equal; null if that cannot be told, because of nulls.

        Pairs that are compared with nulls as values say which rows of the other side count at all.
        """
        if any(each.comparison not in _EQUAL for each in pairs):
            raise self._write.refuse("ANY, ALL or IN with a comparison other than equality", node)
        tested = [each for each in pairs if each.comparison == "COMPARE_EQUAL"]
        if len(tested) > 1:
            raise self._write.refuse("IN for several values at once", node)
        source = self._kept(right)
        mark = self._column(Type("BOOLEAN"))
        keys = self._fresh([each.type for each in pairs])
        found = self._column(Type("BOOLEAN")).name
        items = ", ".join(f"{each.right} AS {key.name}" for each, key in zip(pairs, keys, strict=True))
        matches = f"(SELECT DISTINCT {items}, TRUE AS {found} FROM {source}) AS t{next(self._tables)}"
        on = " AND ".join(
            self._write.comparison(each.comparison, each.left, key.name) for each, key in zip(pairs, keys, strict=True)
        )
        text = f"SELECT {{}} FROM {self._inside(left)} LEFT JOIN {matches} ON {on}"
        if not tested:
            return self._finished(text, f"({found} IS NOT NULL)", left, mark)
        scopes = [each for each in pairs if each.comparison != "COMPARE_EQUAL"]
        (test,) = tested
        names = self._fresh([each.type for each in scopes])
        rows, empty = (self._column(Type("BIGINT")).name for _ in range(2))
        scope_items = "".join(f"{each.right} AS {name.name}, " for each, name in zip(scopes, names, strict=True))
        by = f" GROUP BY {', '.join(each.right for each in scopes)}" if scopes else ""
        counted = (
            f"(SELECT {scope_items}count(*) AS {rows}, count_if({test.right} IS NULL) AS {empty} FROM {source}{by}) "
            f"AS t{next(self._tables)}"
        )
        if scopes:
            same = " AND ".join(
                self._write.comparison(each.comparison, each.left, name.name)
                for each, name in zip(scopes, names, strict=True)
            )
            text += f" LEFT JOIN {counted} ON {same}"
        else:
            text += f" CROSS JOIN {counted}"
        value = (
            f"CASE WHEN {found} IS NOT NULL THEN TRUE WHEN coalesce({rows}, 0) = 0 THEN FALSE "
            f"WHEN {test.left} IS NULL OR {empty} > 0 THEN NULL ELSE FALSE END"
        )
        return self._finished(text, value, left, mark)

    def _finished(self, text: str, value: str, left: Rows, mark: Column) -> Rows:
        return Rows(text.replace("{}", ", ".join([*left.names, f"{value} AS {mark.name}"]), 1), (*left.columns, mark))


def _struct(rows: Rows) -> str:
    """All columns as one."""
    return "named_struct(" + ", ".join(f"'{each}', {each}" for each in rows.names) + ")"


def _no_struct(rows: Rows) -> str:
    fields = ", ".join(f"{each.name}: {each.type.spark}" for each in rows.columns)
    return f"CAST(NULL AS STRUCT<{fields}>)"


def _items(texts: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
