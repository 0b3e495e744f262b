"""Functions of lists, as Spark SQL with DuckDB's meaning.

An element that is null is an element like others in DuckDB; where Spark answers null for a list with such ones, it is
asked otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.spark.sql.expressions.calls import Call, Functions
from tidelog.spark.sql.expressions.casts import failure
from tidelog.spark.sql.types import FLOATS, INTEGERS, WHOLE, Type, Unwritable

FUNCTIONS: Final = Functions()
"""Functions of which one argument is a list at least."""

_SIZE: Final = (1 << 31) - 1


def element(kind: Type) -> Type:
    """The type of the elements of a list. Raises :class:`Unwritable` for other types, and for lists of these."""
    if kind.id != "LIST" or kind.child is None:
        raise Unwritable(f"a list that is {kind.name}")
    return kind.child


def _comparable(call: Call, place: int) -> Type:
    """The type of elements that are compared."""
    found = element(call.arguments[place].type)
    if found.id in ("LIST", "STRUCT"):
        raise call.refuse()
    return found


def place(text: str, size: str) -> str:
    """The place of an element, from 0 on, by a number from 1 on or from the end; below zero for none."""
    return (
        f"CASE WHEN {text} > {_SIZE} OR {text} < -{_SIZE} THEN -1 WHEN {text} > 0 THEN CAST({text} AS INT) - 1 "
        f"WHEN {text} < 0 THEN {size} + CAST({text} AS INT) WHEN {text} = 0 THEN -1 END"
    )


@FUNCTIONS.named("list_value")
def _value(call: Call) -> str:
    return f"CAST(array({', '.join(call.texts)}) AS {call.type.spark})"


@FUNCTIONS.named("length", "len", "array_length")
def _length(call: Call) -> str:
    if len(call.arguments) != 1:
        raise call.refuse()
    return f"CAST(array_size({call.texts[0]}) AS BIGINT)"


@FUNCTIONS.named("array_extract", "list_extract", "list_element")
def _extract(call: Call) -> str:
    element(call.arguments[0].type)
    at = call.texts[1]
    return call.let(
        call.texts[0], lambda rows: call.let(at, lambda number: f"get({rows}, {place(number, f'array_size({rows})')})")
    )


@FUNCTIONS.named("array_slice", "list_slice")
def _slice(call: Call) -> str:
    """Elements of a range of numbers. Where an end is left out DuckDB has an empty list in its place."""
    is_open = [each.type.id == "LIST" for each in call.arguments[1:3]]
    if len(call.arguments) > 3:
        step = call.arguments[3]
        if not (all(is_open) and step.is_constant and step.value == -1):
            raise Unwritable("a slice of a list with a step")
        return f"reverse({call.texts[0]})"
    element(call.arguments[0].type)

    def bound(rows: str, at: int) -> str:
        text = call.texts[at]
        return f"CASE WHEN {text} < 0 THEN array_size({rows}) + 1 + {text} ELSE {text} END"

    def written(rows: str) -> str:
        x, i = call.tools.name(), call.tools.name()
        tests = [f"{i} + 1 {sign} {bound(rows, at)}" for at, sign in ((1, ">="), (2, "<=")) if not is_open[at - 1]] or [
            "TRUE"
        ]
        found = f"filter({rows}, ({x}, {i}) -> {' AND '.join(tests)})"
        asked = [call.texts[at] for at in (1, 2) if not is_open[at - 1] and not call.arguments[at].is_constant]
        empty = " OR ".join(f"{each} IS NULL" for each in asked)
        return f"CASE WHEN {empty} THEN NULL ELSE {found} END" if empty else found

    return call.let(call.texts[0], written)


@FUNCTIONS.named("list_contains", "list_has", "array_contains", "array_has", "contains")
def _contains(call: Call) -> str:
    kind = _comparable(call, 0)
    if call.arguments[1].type != kind:
        raise call.refuse()
    return call.let(call.texts[1], lambda value: _exists(call, call.texts[0], value))


def _exists(call: Call, rows: str, value: str) -> str:
    x = call.tools.name()
    return f"CASE WHEN {value} IS NOT NULL THEN exists({rows}, {x} -> {x} <=> {value}) END"


@FUNCTIONS.named("list_position", "list_indexof", "array_position", "array_indexof")
def _position(call: Call) -> str:
    kind = _comparable(call, 0)
    if call.arguments[1].type != kind:
        raise call.refuse()

    def written(rows: str) -> str:
        x, i = call.tools.name(), call.tools.name()
        numbered = f"transform({rows}, ({x}, {i}) -> if({x} <=> {call.texts[1]}, {i} + 1, NULL))"
        return f"CAST(array_min({numbered}) AS {call.type.spark})"

    return call.let(call.texts[0], written)


@FUNCTIONS.named("list_has_any", "array_has_any", "&&")
def _has_any(call: Call) -> str:
    return _overlap(call, 0, "exists")


@FUNCTIONS.named("list_has_all", "array_has_all", "@>")
def _has_all(call: Call) -> str:
    return _overlap(call, 1, "forall")


@FUNCTIONS.named("<@")
def _within(call: Call) -> str:
    return _overlap(call, 0, "forall")


def _overlap(call: Call, asked: int, how: str) -> str:
    """Whether some, or all, elements of one list that are not null are in the other."""
    if _comparable(call, 0) != _comparable(call, 1):
        raise call.refuse()
    x, y = call.tools.name(), call.tools.name()
    kind = element(call.arguments[asked].type).spark
    known = f"filter({call.texts[asked]}, {x} -> {x} IS NOT NULL)"
    other = call.texts[1 - asked]
    if kind is None:
        raise call.refuse()
    return f"CASE WHEN {other} IS NOT NULL THEN {how}({known}, {x} -> exists({other}, {y} -> {y} <=> {x})) END"


@FUNCTIONS.named("list_sort", "array_sort", "list_reverse_sort", "array_reverse_sort")
def _sort(call: Call) -> str:
    _comparable(call, 0)
    rows, x = call.texts[0], call.tools.name()
    is_descending = call.told["order_type"] == "DESCENDING"
    if "FIRST" not in str(call.told["null_order"]).replace("_", " "):
        return f"sort_array({rows}, false)" if is_descending else f"array_sort({rows})"
    if not is_descending:
        return f"sort_array({rows}, true)"
    return call.let(
        rows,
        lambda all_: (
            f"concat(filter({all_}, {x} -> {x} IS NULL), sort_array(filter({all_}, {x} -> {x} IS NOT NULL), false))"
        ),
    )


@FUNCTIONS.named("list_unique", "array_unique")
def _unique(call: Call) -> str:
    if _comparable(call, 0).id in FLOATS:
        raise call.refuse()
    x = call.tools.name()
    return f"CAST(array_size(array_distinct(filter({call.texts[0]}, {x} -> {x} IS NOT NULL))) AS {call.type.spark})"


@FUNCTIONS.named("list_concat", "list_cat", "array_concat", "array_cat")
def _concat(call: Call) -> str:
    """Lists that are null are as if they were empty."""
    return "concat(" + ", ".join(f"coalesce({each}, CAST(array() AS {call.type.spark}))" for each in call.texts) + ")"


@FUNCTIONS.named("||")
def _joined(call: Call) -> str:
    if call.kinds != ["LIST", "LIST"]:
        raise call.refuse()
    return f"concat({', '.join(call.texts)})"


@FUNCTIONS.named("flatten")
def _flatten(call: Call) -> str:
    inner = element(element(call.arguments[0].type))
    if inner.spark is None:
        raise call.refuse()
    x = call.tools.name()
    return f"flatten(filter({call.texts[0]}, {x} -> {x} IS NOT NULL))"


def _known(call: Call) -> str:
    x = call.tools.name()
    return f"filter({call.texts[0]}, {x} -> {x} IS NOT NULL)"


def _least(call: Call) -> str:
    _comparable(call, 0)
    return f"array_{'min' if str(call.arguments[1].value) == 'min' else 'max'}({call.texts[0]})"


def _sum(call: Call) -> str:
    kind, name = _comparable(call, 0), call.type.spark
    if not (call.type.id in ("HUGEINT", "DOUBLE") or call.type.is_decimal):
        raise call.refuse()
    if kind.id not in WHOLE and kind.id not in FLOATS and not kind.is_decimal:
        raise call.refuse()
    a, x = call.tools.name(), call.tools.name()
    added = f"CAST(coalesce({a}, CAST(0 AS {name})) + CAST({x} AS {name}) AS {name})"
    return f"aggregate({_known(call)}, CAST(NULL AS {name}), ({a}, {x}) -> {added})"


def _average(call: Call) -> str:
    kind = _comparable(call, 0)
    if kind.id not in INTEGERS:
        raise call.refuse()
    a, x = call.tools.name(), call.tools.name()
    added = f"CAST(coalesce({a}, 0BD) + {x} AS DECIMAL(38,0))"
    return call.let(
        _known(call),
        lambda rows: (
            f"CAST(aggregate({rows}, CAST(NULL AS DECIMAL(38,0)), ({a}, {x}) -> {added}) AS DOUBLE)"
            f" / nullif(array_size({rows}), 0)"
        ),
    )


def _count(call: Call) -> str:
    return f"CAST(array_size({_known(call)}) AS BIGINT)"


def _first(call: Call) -> str:
    return f"get({call.texts[0]}, 0)"


def _last(call: Call) -> str:
    return call.let(call.texts[0], lambda rows: f"get({rows}, array_size({rows}) - 1)")


def _any_value(call: Call) -> str:
    return f"get({_known(call)}, 0)"


def _truth(call: Call) -> str:
    call.expect("LIST", "VARCHAR")
    name = "exists" if str(call.arguments[1].value) == "bool_or" else "forall"
    x = call.tools.name()
    return call.let(_known(call), lambda rows: f"CASE WHEN array_size({rows}) > 0 THEN {name}({rows}, {x} -> {x}) END")


_AGGREGATES: Final[Mapping[str, Callable[[Call], str]]] = {
    "min": _least,
    "max": _least,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "count": _count,
    "first": _first,
    "last": _last,
    "any_value": _any_value,
    "bool_or": _truth,
    "bool_and": _truth,
}


@FUNCTIONS.named("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate")
def _aggregate(call: Call) -> str:
    name = str(call.constant(1, "an aggregate"))
    if name not in _AGGREGATES or len(call.arguments) != 2:
        raise Unwritable(f"the aggregate {name} of a list")
    return _AGGREGATES[name](call)


TRANSFORMS: Final = frozenset({"list_transform", "array_transform", "list_apply", "array_apply", "apply"})
FILTERS: Final = frozenset({"list_filter", "array_filter", "filter"})
REDUCTIONS: Final = frozenset({"list_reduce", "array_reduce", "reduce"})


def transformed(name: str, rows: str, parameters: list[str], body: str) -> str:
    """A lambda over a list; a second parameter counts elements from 1."""
    how = "filter" if name in FILTERS else "transform"
    if len(parameters) == 1:
        return f"{how}({rows}, {parameters[0]} -> {body})"
    return f"{how}({rows}, ({parameters[0]}, {parameters[1]}) -> {body})"


def reduced(call: Call, start: str | None, parameters: list[str], body: str) -> str:
    """A lambda that puts the elements of a list together, beginning with a value or else with the first of them."""
    kind = call.type.spark
    merged = f"({parameters[0]}, {parameters[1]}) -> CAST({body} AS {kind})"
    if start is not None:
        return f"aggregate({call.texts[0]}, CAST({start} AS {kind}), {merged})"

    def written(rows: str) -> str:
        rest = f"slice({rows}, 2, greatest(array_size({rows}) - 1, 0))"
        empty = failure("list_reduce of a list without elements, and no value to begin with")
        return (
            f"CASE WHEN array_size({rows}) = 0 THEN {empty} "
            f"ELSE aggregate({rest}, CAST(get({rows}, 0) AS {kind}), {merged}) END"
        )

    return call.let(call.texts[0], written)
