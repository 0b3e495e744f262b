"""Aggregates that are written for Spark, with DuckDB's meaning, over groups and over windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.spark.sql.expressions.calls import Argument
from tidelog.spark.sql.expressions.constants import text_constant
from tidelog.spark.sql.types import FLOATS, INTEGERS, PLAIN_TIMES, UNSIGNED, WHOLE, ZONED, Type, Unwritable

_SPREADS: Final = {
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
ORDERED: Final = frozenset({"first", "last", "list", "array_agg", "string_agg", "group_concat", "listagg"})
"""Aggregates whose result depends on the order of rows."""


@dataclass(frozen=True)
class Order:
    """By what rows are ordered."""

    text: str
    type: Type
    is_descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        """As it is written behind ORDER BY."""
        way, nulls = "DESC" if self.is_descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return f"{self.text} {way} NULLS {nulls}"


@dataclass(frozen=True)
class Aggregate:
    """A call of an aggregate."""

    name: str
    arguments: Sequence[Argument]
    type: Type
    is_distinct: bool
    orders: Sequence[Order]
    filter: str | None
    over: str = ""
    """The window that it is computed over."""

    def call(self, text: str, *, condition: str | None = None) -> str:
        """A call of an aggregate of Spark's, for the rows that count."""
        conditions = [each for each in (self.filter, condition) if each is not None]
        if not conditions:
            return f"{text}{self.over}"
        joined = " AND ".join(f"({each})" for each in conditions)
        return f"{text} FILTER (WHERE {joined}){self.over}"

    def of(self, name: str, text: str) -> str:
        """The same with DISTINCT where that was said."""
        return self.call(f"{name}({'DISTINCT ' if self.is_distinct else ''}{text})")

    def refuse(self) -> Unwritable:
        """What is raised for arguments that are not known."""
        return Unwritable(f"{self.name} of {', '.join(each.type.name for each in self.arguments)}")


def aggregate(call: Aggregate) -> str:
    """An aggregate in Spark SQL. Raises :class:`Unwritable` for those that are not written."""
    written = AGGREGATES.get(call.name)
    if written is None:
        raise Unwritable(f"the aggregate {call.name}")
    if call.orders and call.name not in ORDERED:
        call = Aggregate(call.name, call.arguments, call.type, call.is_distinct, (), call.filter, call.over)
    return written(call)


def _count_star(call: Aggregate) -> str:
    return call.call("count(*)")


def _count(call: Aggregate) -> str:
    return call.of("count", call.arguments[0].text) if call.arguments else call.call("count(*)")


def _digits(kind: Type, text: str) -> str:
    """A whole number that sums of many do not overflow."""
    if kind.id == "BOOLEAN":
        return f"CAST(CAST({text} AS INT) AS DECIMAL(20,0))"
    return text if kind.id == "HUGEINT" else f"CAST({text} AS DECIMAL(20,0))"


def _sum(call: Aggregate) -> str:
    one = call.arguments[0]
    if one.type.id in FLOATS:
        return f"CAST({call.of('sum', f'CAST({one.text} AS DOUBLE)')} AS {call.type.spark})"
    if one.type.id in WHOLE or one.type.id == "BOOLEAN":
        return f"CAST({call.of('sum', _digits(one.type, one.text))} AS {call.type.spark})"
    if one.type.is_decimal:
        return f"CAST({call.of('sum', one.text)} AS {call.type.spark})"
    raise call.refuse()


def _avg(call: Aggregate) -> str:
    one = call.arguments[0]
    if call.type.id != "DOUBLE":
        raise call.refuse()
    if one.type.id in FLOATS:
        total = call.of("sum", f"CAST({one.text} AS DOUBLE)")
        return f"({total} / {_rows(call)})"
    if one.type.id in WHOLE:
        return f"(CAST({call.of('sum', _digits(one.type, one.text))} AS DOUBLE) / {_rows(call)})"
    raise call.refuse()


def _rows(call: Aggregate) -> str:
    """How many values there are, or null where there is none to divide."""
    return f"CAST(nullif({call.of('count', call.arguments[0].text)}, 0) AS DOUBLE)"


def _extreme(call: Aggregate) -> str:
    one = call.arguments[0]
    if len(call.arguments) != 1 or one.type.id in ("LIST", "STRUCT"):
        raise call.refuse()
    return call.call(f"{call.name}({one.text})")


def _same(call: Aggregate) -> str:
    return call.of(call.name, call.arguments[0].text)


def _bits(call: Aggregate) -> str:
    if call.arguments[0].type.id not in INTEGERS:
        raise call.refuse()
    return _same(call)


def _arg_extreme(call: Aggregate) -> str:
    if len(call.arguments) != 2:
        raise call.refuse()
    value, by = call.arguments
    name = "min_by" if "min" in call.name else "max_by"
    condition = None if call.name.endswith("_null") else f"{value.text} IS NOT NULL"
    return call.call(f"{name}({value.text}, {by.text})", condition=condition)


def _median(call: Aggregate) -> str:
    if call.arguments[0].type.id not in ("DOUBLE", "INTEGER", "SMALLINT", "TINYINT") or call.type.id != "DOUBLE":
        raise call.refuse()
    return call.of("percentile", call.arguments[0].text + ", 0.5") if not call.is_distinct else _refused(call)


def _refused(call: Aggregate) -> str:
    raise call.refuse()


def _spread(call: Aggregate) -> str:
    if call.arguments[0].type.id != "DOUBLE":
        raise call.refuse()
    return call.of(_SPREADS[call.name], call.arguments[0].text)


def _keys(orders: Sequence[Order]) -> tuple[str, bool]:
    """Orders as the fields of a struct, and whether it is the greatest that comes first."""
    is_descending = all(each.is_descending for each in orders)
    fields = []
    for each in orders:
        turned = each.is_descending != is_descending
        nulls_least = each.nulls_first != is_descending
        fields.append(f"{each.text} IS {'NOT ' if nulls_least else ''}NULL")
        fields.append(_turned(each) if turned else each.text)
    return ", ".join(fields), is_descending


def _turned(order: Order) -> str:
    """Something in the opposite order."""
    if order.type.id in INTEGERS:
        return f"~({order.text})"
    if order.type.id in PLAIN_TIMES:
        return f"~unix_micros(CAST({order.text} AS TIMESTAMP))"
    if order.type.id == ZONED:
        return f"~unix_micros({order.text})"
    if order.type.id == "DATE":
        return f"~unix_date({order.text})"
    if order.type.id in UNSIGNED or order.type.is_decimal or order.type.id == "HUGEINT":
        return f"-({order.text})"
    raise Unwritable(f"an aggregate that is ordered by {order.type.name} in another direction than by the rest")


def _first(call: Aggregate) -> str:
    value = call.arguments[0].text
    if not call.orders:
        # Those of a statement were refused; DuckDB's own are about groups of one row.
        return call.call(f"{call.name}({value})")
    keys, is_descending = _keys(call.orders)
    name = "max_by" if is_descending == (call.name == "first") else "min_by"
    return call.call(f"{name}({value}, struct({keys}))")


def _any_value(call: Aggregate) -> str:
    return call.call(f"any_value({call.arguments[0].text}, true)")


def _gathered(call: Aggregate, value: str, condition: str | None = None) -> str:
    """All values in order, as an array."""
    if not call.orders or call.is_distinct or call.over:
        raise Unwritable(f"{call.name} without ORDER BY inside, or with DISTINCT, or over a window")
    keys, is_descending = _keys(call.orders)
    pairs = call.call(f"collect_list(named_struct('k', struct({keys}), 'v', {value}))", condition=condition)
    ordered = f"sort_array({pairs}, {'false' if is_descending else 'true'})"
    return f"transform({ordered}, x -> x.v)"


def _list(call: Aggregate) -> str:
    found = _gathered(call, call.arguments[0].text)
    return f"CASE WHEN {call.call('count(*)')} > 0 THEN {found} END"


def _string_agg(call: Aggregate) -> str:
    value = call.arguments[0]
    separator = call.arguments[1] if len(call.arguments) > 1 else None
    if value.type.id != "VARCHAR" or (separator is not None and not separator.is_constant):
        raise call.refuse()
    between = text_constant("," if separator is None else str(separator.value))
    found = _gathered(call, value.text, f"{value.text} IS NOT NULL")
    return f"CASE WHEN {call.call(f'count({value.text})')} > 0 THEN array_join({found}, {between}) END"


def _product(call: Aggregate) -> str:
    value = call.arguments[0]
    if value.type.id != "DOUBLE" or call.is_distinct or call.over:
        raise call.refuse()
    factors = call.call(f"collect_list({value.text})")
    return f"CASE WHEN {call.call(f'count({value.text})')} > 0 THEN aggregate({factors}, 1D, (a, b) -> a * b) END"


AGGREGATES: Final[dict[str, Callable[[Aggregate], str]]] = {
    "count_star": _count_star,
    "count": _count,
    "sum": _sum,
    "sum_no_overflow": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": _extreme,
    "max": _extreme,
    "count_if": _sum,
    "countif": _sum,
    "bool_or": _same,
    "bool_and": _same,
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "arg_min": _arg_extreme,
    "arg_min_null": _arg_extreme,
    "arg_max_null": _arg_extreme,
    "argmin": _arg_extreme,
    "min_by": _arg_extreme,
    "arg_max": _arg_extreme,
    "argmax": _arg_extreme,
    "max_by": _arg_extreme,
    "median": _median,
    "product": _product,
    "first": _first,
    "last": _first,
    "any_value": _any_value,
    "arbitrary": _any_value,
    "list": _list,
    "array_agg": _list,
    "string_agg": _string_agg,
    "group_concat": _string_agg,
    "listagg": _string_agg,
    **dict.fromkeys(_SPREADS, _spread),
}
