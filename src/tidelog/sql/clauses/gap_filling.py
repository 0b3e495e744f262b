"""Buckets without events: ``time_bucket_gapfill``, and ``locf`` and ``interpolate`` for what they lack.

A selection that groups by ``time_bucket_gapfill`` becomes two: one that groups by ``time_bucket``, which the index may
answer, and one around it that has a row for every bucket of each group. Buckets are those that the times of a range
fall into: instants closer to each other than any bucket is long are put through the very function that groups the
events, so that clocks that change, months and origins need no rules of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from tidelog.sql.clauses.grouping import GROUP, Grouping, Refuse, calls, key, own_nodes, same_value, value
from tidelog.sql.text.tree import Node, Parser, nodes, put

GAPFILL: Final = "time_bucket_gapfill"
FUNCTIONS: Final = frozenset({GAPFILL, "locf", "interpolate"})
_FILLING: Final = ("locf", "interpolate")

_MOST_INSTANTS: Final = 20_000_000
"""Of one range. More are a mistake in the width or in the range."""
_SHIFT: Final = 15 * 60 * 1_000_000
"""Clocks of a zone change by multiples of these microseconds, so a bucket that a change cuts short has at least one."""

_LOWER: Final = ("COMPARE_GREATERTHANOREQUALTO", "COMPARE_GREATERTHAN", "COMPARE_EQUAL")
_UPPER: Final = ("COMPARE_LESSTHANOREQUALTO", "COMPARE_LESSTHAN", "COMPARE_EQUAL")
_SWAPPED: Final = dict(zip((*_LOWER, *_UPPER), (*_UPPER, *_LOWER), strict=True))
_TIMES: Final = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS")
"""Kinds of time that another one is cast to without a loss that matters for buckets."""
_TICK: Final = " {} INTERVAL 1 MICROSECOND"


def fill_gaps(tree: Node, aggregates: frozenset[str], parser: Parser, refuse: Refuse) -> None:
    """Put selections that DuckDB knows in the place of those with gaps to fill; raises what ``refuse`` makes."""
    for node in list(nodes(tree)):
        if node["type"] == "SELECT_NODE" and any(calls(each, *FUNCTIONS) for each in own_nodes(node)):
            _Filling(node, aggregates, parser, refuse).rewrite()
    for node in nodes(tree):
        if calls(node, *FUNCTIONS):
            raise _misplaced(node, refuse)


def _misplaced(node: Node, refuse: Refuse) -> Exception:
    return refuse(
        f"found {node['function_name'].lower()} outside of a selection that is grouped by one {GAPFILL}; expected "
        f"GROUP BY {GAPFILL}(width, time), alone or with other columns",
        node,
    )


class _Filling:
    """One selection with gaps to fill."""

    def __init__(self, select: Node, aggregates: frozenset[str], parser: Parser, refuse: Refuse) -> None:
        self._grouping = Grouping(
            select,
            (GAPFILL,),
            aggregates,
            parser,
            refuse,
            own=lambda node: calls(node, *_FILLING),
            misplaced=_misplaced,
        )
        if not 2 <= len(self._grouping.arguments) <= 3:
            raise refuse(
                f"found {GAPFILL} with {len(self._grouping.arguments)} arguments; expected a width, a time, and "
                "perhaps a zone, an origin or an offset",
                self._grouping.call,
            )

    def rewrite(self) -> None:
        """Put two selections in the place of the one."""
        grouping = self._grouping
        inner = copy.deepcopy(grouping.select)
        grouping.lift(self._fill)
        self._make_inner(inner)
        around = grouping.parser.parse(self._around(grouping.select["where_clause"]))["statements"][0]["node"]
        events, *_ = around["from_table"]["subquery"]["node"]["cte_map"]["map"]
        events["value"]["query_node"] = inner
        grouping.select_from(around["from_table"])

    def _make_inner(self, inner: Node) -> None:
        """Make of a copy the selection that groups events."""
        grouping = self._grouping
        bucket = _as_bucket(grouping.call)
        if inner["having"] is not None:
            for node in list(nodes(inner["having"])):
                if calls(node, *_FILLING):
                    raise grouping.refuse("found a filled value in HAVING, which is about buckets with events", node)
                if calls(node, GAPFILL):
                    put(node, bucket)
        names = [GROUP, *map(key, range(len(grouping.keys))), *map(value, range(len(grouping.values)))]
        items = [copy.deepcopy(each) for each in (bucket, *grouping.keys, *grouping.values)]
        for item, name in zip(items, names, strict=True):
            item["alias"] = name.strip('"')
        groups = [copy.deepcopy(each) for each in (bucket, *grouping.keys)]
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
        grouping = self._grouping
        width, _, *more = map(grouping.text, grouping.arguments)
        lows, highs = self._bounds(where)
        low = f"greatest({', '.join(lows)})" if lows else f'(SELECT min({GROUP}) FROM "#events")'
        high = f"least({', '.join(highs)})" if highs else f'(SELECT max({GROUP}) FROM "#events")'
        half = f"epoch(CAST({width} AS INTERVAL)) * 500000"
        keys = [key(at) for at in range(len(grouping.keys))]
        groups = f'SELECT DISTINCT {", ".join(keys)} FROM "#events"' if keys else "SELECT 1"
        equal = [f"g.{each} IS NOT DISTINCT FROM e.{each}" for each in keys]
        columns = [f"b.{GROUP}", *(f"g.{each}" for each in keys)]
        columns += [f"e.{value(at)}" for at in range(len(grouping.values))]
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
                    SELECT time_bucket({", ".join([width, "instant", *more])}) AS {GROUP} FROM "#instants"
                    UNION SELECT {GROUP} FROM "#events" WHERE {GROUP} IS NOT NULL
                ),
                "#groups" AS ({groups})
                SELECT {", ".join(columns)}
                FROM "#groups" g CROSS JOIN "#buckets" b LEFT JOIN "#events" e
                ON {" AND ".join([f"b.{GROUP} = e.{GROUP}", *equal])}
            ) AS "#filled"
        """

    def _bounds(self, where: Node | None) -> tuple[list[str], list[str]]:
        """The first and the last instants that a condition allows, as texts; all of them count.

        A condition on a column bounds casts of it to another kind of time, too: these keep the order of times.
        """
        time = self._grouping.arguments[1]
        cast = time if time.get("class") == "CAST" and time["type_expr"]["type_name"].upper() in _TIMES else None
        times = [time] if cast is None else [time, cast["child"]]
        lows: list[str] = []
        highs: list[str] = []

        def is_time(node: Node) -> bool:
            return any(same_value(node, each) for each in times)

        def take(kind: str, node: Node) -> None:
            outside = [each for each in _without_subqueries(node) if each.get("class") == "COLUMN_REF"]
            if outside:
                return
            instant = self._like_times(node if cast is None else {**cast, "child": node, "try_cast": True})
            if kind in _LOWER:
                lows.append(instant + _TICK.format("+") if kind == "COMPARE_GREATERTHAN" else instant)
            if kind in _UPPER:
                highs.append(instant + _TICK.format("-") if kind == "COMPARE_LESSTHAN" else instant)

        for part in _conjuncts(where):
            if part["type"] == "COMPARE_BETWEEN" and is_time(part["input"]):
                take("COMPARE_GREATERTHANOREQUALTO", part["lower"])
                take("COMPARE_LESSTHANOREQUALTO", part["upper"])
            elif part.get("class") == "COMPARISON" and is_time(part["left"]):
                take(part["type"], part["right"])
            elif part.get("class") == "COMPARISON" and is_time(part["right"]):
                kind: str = part["type"]
                take(_SWAPPED.get(kind, kind), part["left"])
        return lows, highs

    def _like_times(self, node: Node) -> str:
        """A bound, of the type that times have: the aggregate is of no rows, so it is null, of that type."""
        return f"coalesce(any_value({GROUP}), {self._grouping.text(node)})"

    def _fill(self, call: Node) -> bool:
        """Put the value, or what it is taken to be in a gap, in the place of a call that fills gaps."""
        if not calls(call, *_FILLING):
            return False
        grouping = self._grouping
        name = call["function_name"].lower()
        arguments = [each["expression"] for each in call["arguments"]]
        if not 1 <= len(arguments) <= 2:
            raise grouping.refuse(
                f"found {name} with {len(arguments)} arguments; expected a value, and perhaps the longest gap to fill",
                call,
            )
        longest = grouping.text(arguments[1]) if len(arguments) == 2 else None
        grouping.lift_one(arguments[0], self._fill)
        filled = grouping.text(arguments[0])
        parts = ", ".join(key(at) for at in range(len(grouping.keys)))
        over = f"({f'PARTITION BY {parts} ' if parts else ''}ORDER BY {GROUP} ROWS BETWEEN "
        before = f"{over}UNBOUNDED PRECEDING AND CURRENT ROW)"
        after = f"{over}CURRENT ROW AND UNBOUNDED FOLLOWING)"
        known = f"CASE WHEN {filled} IS NOT NULL THEN {GROUP} END"
        last = f"last_value({known} IGNORE NULLS) OVER {before}"
        following = f"first_value({known} IGNORE NULLS) OVER {after}"
        until = GROUP if name == "locf" else following
        near = "" if longest is None else f"WHEN {until} > {last} + CAST({longest} AS INTERVAL) THEN NULL "
        if name == "locf":
            text = f"last_value({filled} IGNORE NULLS) OVER {before}"
            text = f"CASE {near}ELSE {text} END" if near else text
        else:
            low = f"last_value({filled} IGNORE NULLS) OVER {before}"
            high = f"first_value({filled} IGNORE NULLS) OVER {after}"
            share = f"(epoch_us({GROUP}) - epoch_us({last})) / (epoch_us({following}) - epoch_us({last}))"
            text = (
                f"CASE WHEN {filled} IS NOT NULL THEN CAST({filled} AS DOUBLE) {near}"
                f"ELSE CAST({low} AS DOUBLE) + (CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE)) * {share} END"
            )
        put(call, grouping.parser.expression(text))
        return True


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
