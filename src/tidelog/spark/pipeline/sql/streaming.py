"""What Spark cannot do with rows that keep arriving, found in a query before Spark is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from tidelog.spark.pipeline.description.steps import Fault
from tidelog.spark.pipeline.sql.intervals import WINDOWS
from tidelog.spark.pipeline.sql.mistakes import is_aggregated
from tidelog.spark.pipeline.sql.parsing import near

COMPLETE: Final = "complete"
UPDATE: Final = "update"


@dataclass(frozen=True)
class Arriving:
    """What is known of the tables of a query."""

    streaming: Collection[str]
    """Those whose rows keep arriving, in lower case."""
    plain: Collection[str]
    """Columns that are no times in any table, in lower case; empty if some columns are not known."""
    mode: str
    """The output mode."""


def unsupported(text: str, query: exp.Query, known: Arriving) -> list[Fault]:
    """What a streaming query cannot do, each at its place."""
    found: list[Fault] = []
    for scope in traverse_scope(query):
        node = scope.expression
        if isinstance(node, exp.SetOperation):
            found += _set_operation(node, scope, known)
        if not isinstance(node, exp.Query) or not _streams(scope, known):
            continue
        found += _order(text, node, known)
        if isinstance(node, exp.Select):
            found += [
                *_expressions(scope),
                *_joins(node, scope, known),
                *_endless(node, known),
                *_queries(scope, known),
            ]
    return found


def gathers(query: exp.Query) -> bool:
    """Whether a query groups, so that mode ``complete`` can be."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct) is not None


def _streams(source: Any, known: Arriving, seen: frozenset[int] = frozenset()) -> bool:
    """Whether rows of a table, or of a query within, keep arriving."""
    if isinstance(source, exp.Table):
        return not source.db and source.name.lower() in known.streaming
    if not isinstance(source, Scope) or id(source) in seen:
        return False
    seen |= {id(source)}
    beside = [each for name, each in source.sources.items() if name in source.semi_or_anti_join_tables]
    parts = [*source.set_operation_scopes, *beside, *(each for _, each in source.selected_sources.values())]
    return any(_streams(each, known, seen) for each in parts)


def _order(text: str, node: exp.Query, known: Arriving) -> Iterator[Fault]:
    for clause, word in (("order", r"\bORDER\b"), ("sort", r"\bSORT\b"), ("cluster", r"\bCLUSTER\b")):
        found = node.args.get(clause)
        if found is not None and known.mode != COMPLETE:
            yield Fault(
                "sql",
                "rows that keep arriving have no last one, so they cannot be sorted; leave the order out: streams are "
                "in order of time by themselves",
                near(found, word, text),
            )
    if node.args.get("offset") is not None:
        yield Fault("sql", "OFFSET cannot be for rows that keep arriving; leave it out", near(node))
    if node.args.get("limit") is not None and known.mode == UPDATE:
        yield Fault("sql", "LIMIT cannot be for rows that keep arriving in mode 'update'; leave it out", near(node))


def _expressions(scope: Scope) -> Iterator[Fault]:
    window = next(iter(scope.find_all(exp.Window)), None)
    if window is not None:
        yield Fault(
            "sql",
            "OVER (...) looks at rows before and behind, which have not all arrived; expected GROUP BY window(...)",
            near(window),
        )
    for aggregate in scope.find_all(exp.AggFunc):
        if aggregate.find(exp.Distinct) is not None:
            yield Fault(
                "sql",
                f"{aggregate.sql('spark')} cannot be for rows that keep arriving: all values would have to be "
                "remembered; expected approx_count_distinct, or a step that deduplicates first",
                near(aggregate),
            )
    sample = next(iter(scope.find_all(exp.TableSample)), None)
    if sample is not None:
        yield Fault("sql", "rows that keep arriving cannot be sampled; expected WHERE with a hash", near(sample.parent))


def _queries(scope: Scope, known: Arriving) -> Iterator[Fault]:
    for each in scope.subquery_scopes:
        if _streams(each, known):
            yield Fault(
                "sql",
                "a query within an expression cannot read rows that keep arriving; expected a JOIN, or a source with "
                "streaming = false",
                near(each.expression),
            )


def _set_operation(node: exp.SetOperation, scope: Scope, known: Arriving) -> Iterator[Fault]:
    sides = [_streams(each, known) for each in scope.set_operation_scopes]
    name = node.key.upper()
    definitions = node.parent_select.args.get("with_") if node.parent_select is not None else None
    if not any(sides) or (definitions is not None and definitions.recursive):
        return  # what reads itself streams if it does, which is for Spark to say
    if isinstance(node, exp.Intersect):
        yield Fault("sql", "INTERSECT cannot be for rows that keep arriving; expected a JOIN", near(node.right))
    elif isinstance(node, exp.Except) and sides[-1]:
        yield Fault("sql", "EXCEPT cannot take away rows that keep arriving; expected a JOIN", near(node.right))
    elif isinstance(node, exp.Union) and not all(sides):
        yield Fault(
            "sql",
            f"{name} of rows that keep arriving with rows of a table cannot be; expected the same kind on both sides: "
            "set streaming of the source, or write two sinks into one stream",
            near(node.right),
        )
    elif isinstance(node, exp.Union) and node.args.get("distinct") and known.mode == "append":
        keys = [column.name.lower() for each in node.left.selects for column in each.find_all(exp.Column)]
        if keys and not node.left.is_star and all(key in known.plain for key in keys):
            yield Fault("sql", f"{name} drops duplicates, {_NEVER}; expected UNION ALL", near(node.right))


_NEVER: Final = "and without a time among the columns no result is ever final"


def _joins(node: exp.Select, scope: Scope, known: Arriving) -> Iterator[Fault]:
    """Joins that would have to know what will never arrive."""
    sources = {name: _streams(each, known) for name, each in scope.sources.items()}
    start = node.args.get("from_") or node.args.get("from")
    left = sources.get(start.this.alias_or_name, False) if start is not None else False
    for join in node.args.get("joins") or ():
        right = sources.get(join.this.alias_or_name, False)
        side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
        word = " ".join(filter(None, (side, kind, "JOIN")))
        keeps_left = side == "LEFT" or kind in ("SEMI", "ANTI")
        reason = None
        if kind == "ANTI" and right:
            reason = "what is not there yet may still arrive; expected a table on the right"
        elif side == "FULL" and left != right:
            reason = "a table and rows that keep arriving have no full join"
        elif keeps_left and right and not left:
            reason = "rows of the table on the left may find a partner at any time; swap the two"
        elif side == "RIGHT" and left and not right:
            reason = "rows of the table on the right may find a partner at any time; swap the two"
        elif (side in ("LEFT", "RIGHT", "FULL") or kind == "SEMI") and left and right and _is_timeless(join, known):
            reason = (
                "rows without a partner are known for what they are only when it is too late for one; expected a "
                "condition on the times of both, such as b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"
            )
        if reason is not None:
            yield Fault("sql", f"{word}: {reason}", near(join))
        left = left or right


def _is_timeless(join: exp.Join, known: Arriving) -> bool:
    """Whether a condition is about no times, for certain."""
    on, using = join.args.get("on"), join.args.get("using") or []
    columns = [*using, *(on.find_all(exp.Column) if on is not None else ())]
    names = [each.name.lower() for each in columns]
    return bool(names) and all(name in known.plain for name in names)


def _endless(node: exp.Select, known: Arriving) -> Iterator[Fault]:
    """Groups that are never final, because rows may be added to them for ever."""
    group, distinct = node.args.get("group"), node.args.get("distinct")
    if known.mode != "append" or not known.plain:
        return
    if group is not None:
        if not group.expressions or any(call.name.lower() in WINDOWS for call in group.find_all(exp.Anonymous)):
            return
        keys: list[exp.Expr] = list(group.expressions)
    elif distinct is not None:
        keys = list(node.expressions)
    elif is_aggregated(node):
        keys = []
    else:
        return
    columns = [list(key.find_all(exp.Column)) for key in keys]
    if any(key.is_star for key in keys) or any(not each for each in columns):
        return
    if all(
        column.name.lower() in known.plain and column.table.lower() != "window" for each in columns for column in each
    ):
        what = "GROUP BY" if group is not None else "DISTINCT" if distinct is not None else "an aggregate"
        hint = "window(at, '1 minute')" if group is not None or distinct is None else "the time column"
        yield Fault(
            "sql",
            f"{what} makes groups that rows are added to for ever, {_NEVER}; expected {hint} among the keys",
            near(group or node),
        )
