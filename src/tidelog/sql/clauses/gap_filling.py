"""Buckets without events: ``time_bucket_gapfill``, and ``locf`` and ``interpolate`` for what they lack.

A selection that groups by ``time_bucket_gapfill`` becomes two: one that groups by ``time_bucket``, which the index may
answer, and one around it that has a row for every bucket of each group. Buckets are those that the times of a range
fall into: instants closer to each other than any bucket is long are put through the very function that groups the
events, so that clocks that change, months and origins need no rules of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from tidelog.sql.text.tree import Node, Parser, nodes, put, same

GAPFILL: Final = "time_bucket_gapfill"
FUNCTIONS: Final = frozenset({GAPFILL, "locf", "interpolate"})

_BUCKET: Final = '"#bucket"'
_MOST_INSTANTS: Final = 20_000_000
"""Of one range. More are a mistake in the width or in the range."""
_SHIFT: Final = 15 * 60 * 1_000_000
"""Clocks of a zone change by multiples of these microseconds, so a bucket that a change cuts short has at least one."""

_LOWER: Final = ("COMPARE_GREATERTHANOREQUALTO", "COMPARE_GREATERTHAN")
_UPPER: Final = ("COMPARE_LESSTHANOREQUALTO", "COMPARE_LESSTHAN")
_SWAPPED: Final = dict(zip((*_LOWER, *_UPPER), (*_UPPER, *_LOWER), strict=True))

Refuse = Callable[[str, Node], Exception]
"""Makes an error of a message and the node that it is about."""


def fill_gaps(tree: Node, aggregates: frozenset[str], parser: Parser, refuse: Refuse) -> None:
    """Put selections that DuckDB knows in the place of those with gaps to fill; raises what ``refuse`` makes."""
    for node in list(nodes(tree)):
        if node["type"] == "SELECT_NODE" and any(_calls(each, *FUNCTIONS) for each in _own_nodes(node)):
            _Filling(node, aggregates, parser, refuse).rewrite()
    for node in nodes(tree):
        if _calls(node, *FUNCTIONS):
            raise _misplaced(node, refuse)


def _misplaced(node: Node, refuse: Refuse) -> Exception:
    return refuse(
        f"found {node['function_name'].lower()} outside of a selection that is grouped by one {GAPFILL}; expected "
        f"GROUP BY {GAPFILL}(width, time), alone or with other columns",
        node,
    )


def _calls(node: Node, *names: str) -> bool:
    """Whether a node calls one of some functions."""
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in names


def _own_nodes(select: Node) -> Iterator[Node]:
    """The nodes of a selection's own expressions, without those of selections inside of them."""
    waiting: list[Any] = [
        select[part] for part in ("select_list", "group_expressions", "having", "qualify", "modifiers")
    ]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict) and value.get("type") != "SELECT_NODE":
            if "type" in value:
                yield value
            waiting += value.values()


class _Filling:
    """One selection with gaps to fill."""

    def __init__(self, select: Node, aggregates: frozenset[str], parser: Parser, refuse: Refuse) -> None:
        self._select = select
        self._aggregates = aggregates
        self._parser = parser
        self._refuse = refuse
        groups = [copy.deepcopy(self._meant(each)) for each in self._group_nodes()]
        calls = [each for each in groups if _calls(each, GAPFILL)]
        if len(calls) != 1:
            raise _misplaced(next(each for each in _own_nodes(select) if _calls(each, *FUNCTIONS)), refuse)
        (self._call,) = calls
        if len(select["group_sets"]) > 1:
            raise refuse("found several sets of groups; gaps are filled in one", self._call)
        if not 2 <= len(self._call["arguments"]) <= 3:
            raise refuse(
                f"found {GAPFILL} with {len(self._call['arguments'])} arguments; expected a width, a time, and perhaps "
                "a zone, an origin or an offset",
                self._call,
            )
        self._keys = [each for each in groups if each is not self._call]
        self._values: list[Node] = []
        """The aggregates that the inner selection computes."""

    def _group_nodes(self) -> list[Node]:
        select = self._select
        if select["aggregate_handling"] != "FORCE_AGGREGATES":
            return list(select["group_expressions"])
        computed = (*self._aggregates, "locf", "interpolate")
        return [each for each in select["select_list"] if not any(_calls(node, *computed) for node in nodes(each))]

    def _meant(self, group: Node) -> Node:
        """The expression of a group, which may be told by its place or its name."""
        items = self._select["select_list"]
        if group.get("class") == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
            place = int(group["literal"]["text"])
            if not 1 <= place <= len(items):
                raise self._refuse(f"found GROUP BY {place}; there are {len(items)} columns", group)
            return items[place - 1]  # type: ignore[no-any-return]
        if group.get("class") == "COLUMN_REF" and len(group["column_names"]) == 1:
            for item in items:
                # A column comes before the name of an item, but nobody calls a column like the buckets that it makes.
                if item.get("alias", "").lower() == group["column_names"][0].lower() and _calls(item, GAPFILL):
                    return item  # type: ignore[no-any-return]
        return group

    # -- both selections ------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Put two selections in the place of the one."""
        select = self._select
        for item in select["select_list"]:
            item["alias"] = item["alias"] or self._name(item)
        names = frozenset(item["alias"].lower() for item in select["select_list"])
        inner = copy.deepcopy(select)
        self._lift(select["select_list"], frozenset())
        self._lift(select["qualify"], names)
        self._lift(select["modifiers"], names)
        self._make_inner(inner)
        around = self._parser.parse(self._around(select["where_clause"]))["statements"][0]["node"]
        source = around["from_table"]
        events, *_ = source["subquery"]["node"]["cte_map"]["map"]
        events["value"]["query_node"] = inner
        select.update(
            from_table=source,
            where_clause=None,
            group_expressions=[],
            group_sets=[],
            aggregate_handling="STANDARD_HANDLING",
            having=None,
            sample=None,
        )

    def _name(self, item: Node) -> str:
        if item.get("class") == "COLUMN_REF":
            return str(item["column_names"][-1])
        if item.get("class") == "STAR":
            raise self._refuse(f"found * beside {GAPFILL}; name the columns instead", item)
        return self._parser.print_expression(item)

    def _make_inner(self, inner: Node) -> None:
        """Make of a copy the selection that groups events."""
        bucket = _as_bucket(self._call)
        if inner["having"] is not None:
            for node in list(nodes(inner["having"])):
                if _calls(node, "locf", "interpolate"):
                    raise self._refuse("found a filled value in HAVING, which is about buckets with events", node)
                if _calls(node, GAPFILL):
                    put(node, bucket)
        names = [_BUCKET, *map(_key, range(len(self._keys))), *map(_value, range(len(self._values)))]
        items = [copy.deepcopy(each) for each in (bucket, *self._keys, *self._values)]
        for item, name in zip(items, names, strict=True):
            item["alias"] = name.strip('"')
        groups = [copy.deepcopy(each) for each in (bucket, *self._keys)]
        for each in groups:
            each["alias"] = ""
        inner.update(
            select_list=items,
            group_expressions=groups,
            group_sets=[list(range(len(groups)))],
            aggregate_handling="STANDARD_HANDLING",
            modifiers=[],
            qualify=None,
            cte_map={"map": []},
        )

    def _around(self, where: Node | None) -> str:
        """The selection around, in which the one that groups events is still to be put."""
        width, _, *more = (self._text(each["expression"]) for each in self._call["arguments"])
        lows, highs = self._bounds(where)
        low = f"greatest({', '.join(lows)})" if lows else f'(SELECT min({_BUCKET}) FROM "#events")'
        high = f"least({', '.join(highs)})" if highs else f'(SELECT max({_BUCKET}) FROM "#events")'
        half = f"epoch(CAST({width} AS INTERVAL)) * 500000"
        keys = [_key(at) for at in range(len(self._keys))]
        groups = f'SELECT DISTINCT {", ".join(keys)} FROM "#events"' if keys else "SELECT 1"
        equal = [f"g.{key} IS NOT DISTINCT FROM e.{key}" for key in keys]
        columns = [f"b.{_BUCKET}", *(f"g.{key}" for key in keys)]
        columns += [f"e.{_value(at)}" for at in range(len(self._values))]
        return f"""
            SELECT 1 FROM (
                WITH "#events" AS MATERIALIZED (SELECT 1),
                "#range" AS (
                    SELECT {low} AS low, {high} AS high, CAST(greatest(1, least({half}, {_SHIFT})) AS BIGINT) AS step,
                        count(*) AS rows
                    FROM "#events" WHERE false
                ),
                "#steps" AS (
                    SELECT *, CASE
                        WHEN (epoch_us(high) - epoch_us(low)) // step <= {_MOST_INSTANTS} THEN step
                        ELSE error('there are more than {_MOST_INSTANTS // 2:,} buckets to fill; expected a shorter '
                            || 'range of time, or longer buckets')
                    END AS checked FROM "#range" WHERE low <= high
                ),
                "#instants" AS (
                    SELECT unnest(generate_series(low, high, to_microseconds(checked))) AS instant FROM "#steps"
                    UNION ALL SELECT high FROM "#steps"
                ),
                "#buckets" AS (
                    SELECT DISTINCT time_bucket({", ".join([width, "instant", *more])}) AS {_BUCKET} FROM "#instants"
                ),
                "#groups" AS ({groups})
                SELECT {", ".join(columns)}
                FROM "#groups" g CROSS JOIN "#buckets" b LEFT JOIN "#events" e
                ON {" AND ".join([f"b.{_BUCKET} = e.{_BUCKET}", *equal])}
            ) AS "#filled"
        """

    def _bounds(self, where: Node | None) -> tuple[list[str], list[str]]:
        """The first and the last instants that a condition allows, as texts; all of them count."""
        time = self._call["arguments"][1]["expression"]
        lows: list[str] = []
        highs: list[str] = []

        def take(kind: str, node: Node) -> None:
            outside = [each for each in _without_subqueries(node) if each.get("class") == "COLUMN_REF"]
            if outside:
                return
            if kind in _LOWER:
                lows.append(self._like_times(node))
            elif kind in _UPPER:
                before = " - INTERVAL 1 MICROSECOND" if kind == "COMPARE_LESSTHAN" else ""
                highs.append(self._like_times(node) + before)

        for part in _conjuncts(where):
            if part["type"] == "COMPARE_BETWEEN" and _same(part["input"], time):
                take(_LOWER[0], part["lower"])
                take(_UPPER[0], part["upper"])
            elif part.get("class") == "COMPARISON" and _same(part["left"], time):
                take(part["type"], part["right"])
            elif part.get("class") == "COMPARISON" and _same(part["right"], time):
                take(_SWAPPED.get(part["type"], ""), part["left"])
        return lows, highs

    def _like_times(self, node: Node) -> str:
        """A bound, of the type that times have: the aggregate is of no rows, so it is null, of that type."""
        return f"coalesce(any_value({_BUCKET}), {self._text(node)})"

    # -- values ---------------------------------------------------------------------------------------------------

    def _lift(self, value: Any, names: frozenset[str]) -> None:
        """Put columns of the inner selection in the place of what it computes."""
        if isinstance(value, list):
            for each in value:
                self._lift(each, names)
            return
        if not isinstance(value, dict) or value.get("type") == "SELECT_NODE":
            return
        column = self._column(value)
        if column is not None:
            put(value, self._parser.expression(column))
        elif _calls(value, "locf", "interpolate"):
            self._fill(value)
        elif value.get("class") == "COLUMN_REF":
            if len(value["column_names"]) > 1 or value["column_names"][0].lower() not in names:
                raise self._refuse(
                    f"found column {value['column_names'][-1]!r}, which is neither in GROUP BY nor in an aggregate",
                    value,
                )
        else:
            for each in value.values():
                self._lift(each, names)

    def _column(self, node: Node) -> str | None:
        """The column of the inner selection that has the value of a node."""
        if "class" not in node:
            return None
        if _same(node, self._call):
            return _BUCKET
        for at, key in enumerate(self._keys):
            if _same(node, key):
                return _key(at)
        if not _calls(node, *self._aggregates):
            return None
        for at, known in enumerate(self._values):
            if same(node, known):
                return _value(at)
        self._values.append(copy.deepcopy(node))
        return _value(len(self._values) - 1)

    def _fill(self, call: Node) -> None:
        """Put the value, or what it is taken to be in a gap, in the place of a call."""
        name = call["function_name"].lower()
        arguments = [each["expression"] for each in call["arguments"]]
        if not 1 <= len(arguments) <= 2:
            raise self._refuse(
                f"found {name} with {len(arguments)} arguments; expected a value, and perhaps the longest gap to fill",
                call,
            )
        longest = self._text(arguments[1]) if len(arguments) == 2 else None
        self._lift(arguments[0], frozenset())
        value = self._text(arguments[0])
        parts = ", ".join(_key(at) for at in range(len(self._keys)))
        over = f"({f'PARTITION BY {parts} ' if parts else ''}ORDER BY {_BUCKET} ROWS BETWEEN "
        before = f"{over}UNBOUNDED PRECEDING AND CURRENT ROW)"
        after = f"{over}CURRENT ROW AND UNBOUNDED FOLLOWING)"
        known = f"CASE WHEN {value} IS NOT NULL THEN {_BUCKET} END"
        last = f"last_value({known} IGNORE NULLS) OVER {before}"
        following = f"first_value({known} IGNORE NULLS) OVER {after}"
        until = _BUCKET if name == "locf" else following
        near = "" if longest is None else f"WHEN {until} > {last} + CAST({longest} AS INTERVAL) THEN NULL "
        if name == "locf":
            text = f"last_value({value} IGNORE NULLS) OVER {before}"
            text = f"CASE {near}ELSE {text} END" if near else text
        else:
            low = f"last_value({value} IGNORE NULLS) OVER {before}"
            high = f"first_value({value} IGNORE NULLS) OVER {after}"
            share = f"(epoch_us({_BUCKET}) - epoch_us({last})) / (epoch_us({following}) - epoch_us({last}))"
            text = (
                f"CASE WHEN {value} IS NOT NULL THEN CAST({value} AS DOUBLE) {near}"
                f"ELSE CAST({low} AS DOUBLE) + (CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE)) * {share} END"
            )
        put(call, self._parser.expression(text))

    def _text(self, node: Node) -> str:
        own = copy.deepcopy(node)
        own["alias"] = ""
        return self._parser.print_expression(own)


def _key(at: int) -> str:
    return f'"#key {at}"'


def _value(at: int) -> str:
    return f'"#value {at}"'


def _as_bucket(call: Node) -> Node:
    """The call that groups events as a call that fills gaps does."""
    own = copy.deepcopy(call)
    own["function_name"] = "time_bucket"
    own["qualified_name"] = {"path": ["time_bucket"]}
    return own


def _conjuncts(node: Node | None) -> Iterator[Node]:
    if node is None:
        return
    if node["type"] == "CONJUNCTION_AND":
        for each in node["children"]:
            yield from _conjuncts(each)
    else:
        yield node


def _without_subqueries(value: Any) -> Iterator[Node]:
    if isinstance(value, list):
        for each in value:
            yield from _without_subqueries(each)
    elif isinstance(value, dict) and value.get("class") != "SUBQUERY":
        if "type" in value:
            yield value
        for each in value.values():
            yield from _without_subqueries(each)


def _same(one: Node, other: Node) -> bool:
    """Whether two nodes say the same, or name the same column, one of them perhaps with its table."""
    if one.get("class") != "COLUMN_REF" or other.get("class") != "COLUMN_REF":
        return same(one, other)
    names = [[each.lower() for each in node["column_names"]] for node in (one, other)]
    shorter = min(map(len, names))
    return names[0][-shorter:] == names[1][-shorter:]
