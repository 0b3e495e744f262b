"""Mistakes of a query that Spark would refuse, told by its text and by the types of its columns.

Types are sqlglot's guesses, which are not always Spark's. So only what is certain is judged: columns, literals and
casts. What is passed over here, Spark finds when it builds the step.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from tidelog.spark.pipeline.description.relations import family, is_time, type_text, unlike
from tidelog.spark.pipeline.description.steps import Fault
from tidelog.spark.pipeline.sql.intervals import WINDOWS, misplaced_windows, misread_intervals
from tidelog.spark.pipeline.sql.parsing import near

_DATE: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_MIXING: Final = (exp.Case, exp.Coalesce, exp.If, exp.Greatest, exp.Least, exp.Nvl2)
_OWN_QUERY: Final = (exp.Subquery, exp.Query)
_AGGREGATES: Final = (exp.AggFunc, exp.Any)


def mistakes_of_text(query: exp.Query) -> list[Fault]:
    """What the query says wrongly whatever its columns are."""
    found = [*misread_intervals(query), *_twice(query), *_impossible_dates(query)]
    for select in query.find_all(exp.Select):
        found += _ungrouped_condition(select)
    return found


def mistakes_of_types(typed: exp.Query) -> list[Fault]:
    """What does not go together in a query whose columns are qualified and typed."""
    found = [*misplaced_windows(typed)]
    for operation in typed.find_all(exp.SetOperation):
        found += _unequal(operation)
    for select in typed.find_all(exp.Select):
        found += [*_condition(select), *_ungrouped(select)]
    for comparison in typed.find_all(*_COMPARISONS):
        found += _incomparable(comparison)
    for arithmetic in typed.find_all(exp.Add, exp.Sub, exp.Mul, exp.Div):
        found += _uncountable(arithmetic)
    for mixing in typed.find_all(*_MIXING, exp.In):
        found += _mixed(mixing)
    return found


def forget_exploded(typed: exp.Query) -> None:
    """Take the types from what LATERAL VIEW makes, and from what is made of that: sqlglot says those of whole lists."""
    names = {
        column.name.lower()
        for lateral in typed.find_all(exp.Lateral)
        if isinstance(lateral.args.get("alias"), exp.TableAlias)
        for column in lateral.args["alias"].columns
    }
    aliases = list(typed.find_all(exp.Alias)) if names else []
    before = -1
    while len(names) != before:
        before = len(names)
        names |= {
            each.alias.lower()
            for each in aliases
            if any(column.name.lower() in names for column in each.this.find_all(exp.Column))
        }
    for node in typed.find_all(exp.Column, exp.Alias) if names else ():
        if node.alias_or_name.lower() in names:
            node.type = exp.DataType.build("unknown")


def certain_types(typed: exp.Query) -> list[exp.DataType]:
    """The types of what a query selects, in order."""
    if not isinstance(typed, exp.SetOperation):
        return [certain_type(each) for each in typed.selects]
    left, right = (certain_types(side) if isinstance(side, exp.Query) else [] for side in (typed.left, typed.right))
    unknown = exp.DataType.build("unknown")
    alike = [one if family(one) == family(two) else unknown for one, two in zip(left, right, strict=False)]
    return alike if len(alike) == len(typed.selects) else [unknown for _ in typed.selects]


def certain_type(node: exp.Expr) -> exp.DataType:
    """The type of what a query selects; unknown where a guess might be wrong."""
    unknown = exp.DataType.build("unknown")
    for each in node.walk():
        if isinstance(each, exp.Sub | exp.Add):
            sides = {_family(each.left), _family(each.right)}
            if sides == {"time"} or (None in sides and sides != {None}):
                return unknown  # the difference of times is an interval, sqlglot says a time
        elif isinstance(each, _MIXING):
            if len({_family(branch) for branch in _branches(each)} - {None}) > 1:
                return unknown
        elif isinstance(each, exp.Sum | exp.Avg) and _family(each.this) == "text":
            return unknown
    type_ = node.type
    return type_ if isinstance(type_, exp.DataType) else unknown


def is_aggregated(select: exp.Select) -> bool:
    """Whether a query makes one row of many, by aggregates of its own."""
    parts = [*select.expressions, select.args.get("having")]
    return any(_aggregate_in(part) is not None for part in parts if part is not None)


def _branches(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Case):
        return [*(each.args["true"] for each in node.args.get("ifs") or ()), *filter(None, [node.args.get("default")])]
    if isinstance(node, exp.If | exp.Nvl2):
        return [each for name in ("true", "false") if (each := node.args.get(name)) is not None]
    return [each for each in (node.this, *node.expressions) if isinstance(each, exp.Expr)]


def _family(node: exp.Expr | None) -> str | None:
    type_ = None if node is None else node.type
    return family(type_) if isinstance(type_, exp.DataType) else None


def _certain(node: exp.Expr) -> exp.DataType | None:
    """The type of an expression about which there is no doubt."""
    plain = node.unnest()
    if isinstance(plain, exp.Column | exp.Literal | exp.Cast | exp.Boolean | exp.Count):
        return plain.type if isinstance(plain.type, exp.DataType) else None
    return None


def _aggregate_in(node: exp.Expr) -> exp.Expr | None:
    """An aggregate of this very query, none of a window function's, nor of a query within."""
    for each in node.find_all(*_AGGREGATES):
        above: exp.Expr = each
        is_own = True
        while is_own and above is not node and above.parent is not None:
            above = above.parent
            is_own = not isinstance(above, (exp.Window, *_OWN_QUERY))
        if is_own and not isinstance(each.parent, exp.Window):
            return each
    return None


def _twice(query: exp.Query) -> Iterator[Fault]:
    """Names that are given to two columns in so many words."""
    seen: set[str] = set()
    for each in query.selects:
        name = "" if each.is_star else each.alias_or_name.lower()
        if name and name in seen:
            yield Fault("sql", f"two columns are called {name!r}; give each a name of its own, with AS", near(each))
        seen.add(name)


def _impossible_dates(query: exp.Query) -> Iterator[Fault]:
    """Texts that are to be dates, and look like some, that no calendar has."""
    for cast in query.find_all(exp.Cast):
        if isinstance(cast, exp.TryCast) or not isinstance(cast.this, exp.Literal) or _family_of(cast.to) != "time":
            continue
        found = _DATE.match(cast.this.name.strip())
        if found is not None and not _is_date(*map(int, found.groups())):
            yield Fault("sql", f"there is no day {found[0]}; correct it", near(cast.parent))


def _family_of(type_: exp.DataType | None) -> str | None:
    return None if type_ is None else family(type_)


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


def _ungrouped_condition(select: exp.Select) -> Iterator[Fault]:
    where = select.args.get("where")
    aggregate = None if where is None else _aggregate_in(where)
    if aggregate is not None:
        word = aggregate.sql("spark")
        yield Fault("sql", f"WHERE sees single rows, and {word} is of many; use HAVING behind GROUP BY", near(where))


def _unequal(operation: exp.SetOperation) -> Iterator[Fault]:
    left, right = operation.left.selects, operation.right.selects
    if operation.left.is_star or operation.right.is_star or operation.args.get("by_name"):
        return
    name, at = operation.key.upper(), near(operation.right)
    if len(left) != len(right):
        counts = f"{len(left)} and {len(right)} columns"
        yield Fault("sql", f"{name} of {counts}; expected the same number on both sides", at)
        return
    for number, (first, second) in enumerate(zip(left, right, strict=True), 1):
        kinds = certain_type(first), certain_type(second)
        if unlike(family(kinds[0]), family(kinds[1])):
            types = f"{type_text(kinds[0])} and, behind it, {type_text(kinds[1])}"
            message = f"column {number} of the {name}, {first.alias_or_name!r}, is {types}; make them one type by CAST"
            yield Fault("sql", message, near(second) or at)


def _condition(select: exp.Select) -> Iterator[Fault]:
    for clause in ("where", "having"):
        node = select.args.get(clause)
        type_ = None if node is None else _certain(node.this)
        if type_ is not None and family(type_) not in (None, "boolean"):
            what = node.this.sql("spark") if node is not None else ""
            message = f"{clause.upper()} {what} is {type_text(type_)}; expected a condition, which is true or false"
            yield Fault("sql", message, near(node))


def _ungrouped(select: exp.Select) -> Iterator[Fault]:
    """Columns beside aggregates that are not grouped by."""
    group = select.args.get("group")
    if group is None and not is_aggregated(select) and select.args.get("having") is None:
        return
    if group is not None and (group.args.get("all") or _has_made_keys(group)):
        return
    keys = {(each.table, each.name) for each in group.find_all(exp.Column)} if group is not None else set()
    if group is not None and any(isinstance(each, exp.Literal) for each in group.expressions):
        return
    for item in select.expressions:
        for column in item.find_all(exp.Column):
            if (column.table, column.name) in keys or _is_inside(column, item):
                continue
            hint = f"GROUP BY {column.name}, or an aggregate such as max({column.name})"
            message = f"column {column.name!r} has many values for one row of the result; expected {hint}"
            yield Fault("sql", message, near(column))
            return


def _has_made_keys(group: exp.Group) -> bool:
    """Whether it groups by what is no column, such as aliases that were left as they are."""
    return not group.expressions and not any(group.args.get(each) for each in ("rollup", "cube", "grouping_sets"))


def _is_inside(column: exp.Column, item: exp.Expr) -> bool:
    """Whether a column stands in an aggregate, in a function that might be one, or in a query of its own."""
    above: exp.Expr | None = column
    while above is not None and above is not item:
        above = above.parent
        if isinstance(above, (*_AGGREGATES, exp.Filter, exp.WithinGroup, exp.Window, *_OWN_QUERY)):
            return True
        if isinstance(above, exp.Anonymous) and above.name.lower() not in WINDOWS:
            return True
    return False


def _incomparable(comparison: exp.Binary) -> Iterator[Fault]:
    types = _certain(comparison.left), _certain(comparison.right)
    if types[0] is None or types[1] is None or not unlike(family(types[0]), family(types[1])):
        return
    message = (
        f"{_shown(comparison)} compares {type_text(types[0])} with {type_text(types[1])}; make them one type by CAST"
    )
    yield Fault("sql", message, near(comparison))


def _uncountable(arithmetic: exp.Binary) -> Iterator[Fault]:
    """Calculations with times and flags as if they were numbers."""
    types = _certain(arithmetic.left), _certain(arithmetic.right)
    if types[0] is None or types[1] is None:
        return
    families = {family(types[0]), family(types[1])}
    has_timestamp = is_time(types[0]) or is_time(types[1])  # days and numbers go together
    if families == {"number", "boolean"} or (families == {"number", "time"} and has_timestamp):
        hint = "add an INTERVAL such as INTERVAL 1 HOUR" if has_timestamp else "CAST the flag"
        kinds = f"{type_text(types[0])} and {type_text(types[1])}"
        yield Fault("sql", f"{_shown(arithmetic)} is of {kinds}, which do not add up; {hint}", near(arithmetic))


def _mixed(node: exp.Expr) -> Iterator[Fault]:
    """Values that are to be of one type."""
    known = [type_ for each in _branches(node) if (type_ := _certain(each)) is not None]
    for type_ in known[1:]:
        if unlike(family(known[0]), family(type_)):
            kinds = f"{type_text(known[0])} and {type_text(type_)}"
            yield Fault("sql", f"{_shown(node)} is of {kinds}; make them one type by CAST", near(node))
            return


def _shown(node: exp.Expr) -> str:
    return node.sql("spark").replace("`", "")
