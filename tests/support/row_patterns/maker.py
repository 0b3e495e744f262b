"""Random row patterns: each as a text, and as what the oracle takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from support.row_patterns.oracle import Query, View, names
from tidelog.operators.rowpattern.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Rows,
    Skip,
    Strategy,
    Variable,
)

Value = Callable[[View], Any]

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in "ginxmq"),
        ("s", pa.string()),
        ("y", pa.float64()),
        ("t", pa.timestamp("us")),
        ("d", pa.date32()),
    ]
)
ORDERS: Final = {
    "n": "{}",
    "n NULLS FIRST": "{}",
    "m DESC": "{}",
    "m DESC NULLS FIRST, g": "{}",
    "t": "INTERVAL '{} seconds'",
    "t ASC NULLS FIRST": "INTERVAL '{} seconds'",
    "d DESC": "INTERVAL {} DAY",
    "q, n": None,
    "q NULLS FIRST, m DESC NULLS FIRST": None,
}
"""Orders that are all that of n, and how a length of n is said of their first keys."""
FLOATS: Final = (None, float("nan"), float("inf"), -1.5, 0.0, 1.0, 1.0, 2.5)


@dataclass(frozen=True)
class Made:
    """An expression."""

    text: str
    value: Value


@dataclass(frozen=True)
class Statement:
    """A clause over columns g (of the partition), i (of the row), n (of the order), x and y (numbers and nulls) and s
    (letters); m, q, t and d are made of n."""

    clause: str
    query: Query
    order: str

    @property
    def text(self) -> str:
        """The whole statement."""
        keys = ["g", "i"] if self.query.rows is not Rows.ONE else ["g"]
        columns = [*keys, *(name for name, _ in self.query.measures)]
        columns += ["timed_out"] if self.query.with_timeouts else []
        return f"SELECT {', '.join(columns)} FROM t MATCH_RECOGNIZE ({self.clause})"


def rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """The rows of one partition, in their order."""
    found = []
    n = draw.randrange(5)
    letters = draw.choice(["abc", "ab", "aab"])
    for i in range(count):
        row = {"n": n, "x": draw.choice([None, 0, 1, 1, 2, 3]), "s": draw.choice(letters)}
        found.append({"i": i, **row, "y": draw.choice(FLOATS), **_orders(n)})
        n += draw.choice([1, 1, 2, 3])
    return found


def tied(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of one partition in no order, some of which have the same place in it, or none."""
    found = rows(draw, count)
    places: list[int | None] = [draw.randrange(2 * count) for _ in found]
    if draw.random() < 0.2:
        places = [None if draw.random() < 0.3 else place for place in places]
    return [{**row, "n": place, **_orders(place)} for row, place in zip(found, places, strict=True)]


def in_order(own: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Rows as a matcher sees them, those with the same place as they come."""
    nulls_first = "NULLS FIRST" in order
    return sorted(own, key=lambda row: ((row["n"] is None) != nulls_first, row["n"] or 0))


def _orders(n: int | None) -> dict[str, int | None]:
    if n is None:
        return dict.fromkeys("mqtd")
    return {"m": -n, "q": n // 3, "t": n * 1_000_000, "d": -n}


def table_of(partitions: dict[int, list[dict[str, Any]]], draw: random.Random) -> pa.Table:
    """Rows of partitions among each other, those of one as they come."""
    places = [g for g, each in partitions.items() for _ in each]
    draw.shuffle(places)
    left = {g: iter(each) for g, each in partitions.items()}
    found = [{"g": g, **next(left[g])} for g in places]
    return pa.table({each.name: pa.array([row[each.name] for row in found], each.type) for each in SCHEMA})


def shown(pattern: Pattern) -> str:
    """The text of a pattern."""
    match pattern:
        case Variable(name):
            return name
        case Empty():
            return "()"
        case Anchor(is_start):
            return "^" if is_start else "$"
        case Concatenation(parts):
            return " ".join(f"({shown(each)})" if isinstance(each, Alternation) else shown(each) for each in parts)
        case Alternation(parts):
            return " | ".join(map(shown, parts))
        case Permutation(parts):
            return f"PERMUTE({', '.join(map(shown, parts))})"
        case Exclusion(part):
            return f"{{- {shown(part)} -}}"
        case Quantified(part, least, most, is_greedy):
            inner = shown(part) if isinstance(part, Variable) else f"({shown(part)})"
            sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            if sign is None:
                sign = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
            return f"{inner}{sign}{'' if is_greedy else '?'}"
    raise AssertionError(pattern)


@dataclass
class Maker:
    """Makes statements of one seed."""

    draw: random.Random
    variables: list[str] = field(default_factory=list)
    subset: frozenset[str] | None = None
    other: frozenset[str] | None = None
    """The variables of a second subset."""
    is_define: bool = False
    is_final: bool = False
    is_all: bool = False
    timeouts: bool = False
    """Whether all statements ask for partial matches that timed out, as far as they can."""
    is_window: bool = False

    def statement(self) -> Statement:
        """A statement."""
        draw = self.draw
        output = draw.choice(list(Rows))
        is_all = self.is_all = draw.random() < 0.15
        strategy = draw.choice([Strategy.CONTIGUOUS] * 3 + list(Strategy))
        if is_all and output is Rows.WITH_UNMATCHED:
            output = Rows.SHOW_EMPTY
        pattern = self._pattern(3, allow_out=output is not Rows.WITH_UNMATCHED)
        self.variables = names(pattern)
        if not self.variables:
            return self.statement()
        self.subset = self._subset(0.4)
        self.other = self._subset(0.2)
        self.is_define, self.is_final = True, False
        defines = {name: self._condition(2) for name in self.variables if draw.random() < 0.85}
        self.is_define, self.is_final = False, output is Rows.ONE
        measures = [(f"m{at}", self._measure()) for at in range(draw.randint(1, 4))]
        skip, skip_to, after = self._skip()
        within = draw.choice([draw.randint(0, 6)] if self.timeouts else [None, None, draw.randint(0, 6)])
        order = draw.choice([each for each, length in ORDERS.items() if within is None or length])
        parts = [f"PARTITION BY g ORDER BY {order}"]
        parts.append("MEASURES " + ", ".join(f"{made.text} AS {name}" for name, made in measures))
        parts.append(output.value)
        parts.append("ALL MATCHES" if is_all else f"AFTER MATCH {after}" if after else "")
        parts.append(f"PATTERN ({shown(pattern)})")
        parts.append(strategy.value if strategy is not Strategy.CONTIGUOUS or draw.random() < 0.1 else "")
        parts.append("" if within is None else f"WITHIN {ORDERS[order].format(within)}")
        with_timeouts = within is not None and output is not Rows.WITH_UNMATCHED and (self.timeouts or within % 2 == 1)
        parts.append("EMIT TIMEOUTS" if with_timeouts else "")
        subsets = {name: each for name, each in (("U", self.subset), ("W", self.other)) if each is not None}
        if subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(sorted(subsets[name]))})" for name in subsets))
        if defines:
            parts.append("DEFINE " + ", ".join(f"{name} AS {made.text}" for name, made in defines.items()))
        query = Query(
            pattern,
            {name: made.value for name, made in defines.items()},
            [(name, made.value) for name, made in measures],
            output,
            Skip.PAST_LAST_ROW if is_all else skip,
            skip_to,
            None if within is None else ("n", within),
            strategy,
            is_all,
            with_timeouts,
        )
        return Statement(" ".join(filter(None, parts)), query, order)

    def _subset(self, share: float) -> frozenset[str] | None:
        if self.draw.random() >= share:
            return None
        return frozenset(self.draw.sample(self.variables, self.draw.randint(1, len(self.variables))))

    # -- patterns -------------------------------------------------------------------------------------------------

    def _pattern(self, depth: int, *, allow_out: bool) -> Pattern:
        draw = self.draw

        def inner() -> Pattern:
            return self._pattern(depth - 1, allow_out=allow_out)

        kind = draw.random() if depth else 0.0
        if kind < 0.3:
            return Variable(draw.choice("ABCD"))
        if kind < 0.55:
            return Concatenation(_flat(Concatenation, [inner() for _ in range(draw.randint(2, 3))]))
        if kind < 0.65:
            return Alternation(_flat(Alternation, [inner() for _ in range(draw.randint(2, 3))]))
        if kind < 0.86:
            least = draw.choice([0, 0, 1, 1, 2])
            most = draw.choice([None, None, least, least + 1])
            return Quantified(inner(), least, None if most == 0 else most, draw.random() < 0.7)
        if kind < 0.9:
            return Permutation(tuple(inner() for _ in range(draw.randint(2, 3))))
        if kind < 0.94 and allow_out:
            return Exclusion(inner())
        if kind < 0.97 and not self.is_window:
            return Anchor(draw.random() < 0.5)
        return Empty()

    def _skip(self) -> tuple[Skip, frozenset[str], str]:
        draw = self.draw
        skip = draw.choice([*Skip, Skip.PAST_LAST_ROW, Skip.TO_NEXT_ROW])
        if skip in (Skip.PAST_LAST_ROW, Skip.TO_NEXT_ROW):
            is_said = skip is Skip.TO_NEXT_ROW or draw.random() < 0.5
            return skip, frozenset(), skip.value if is_said else ""
        name, variables = self._label()
        while variables is None:
            name, variables = self._label()
        word = "" if skip is Skip.TO_LAST and draw.random() < 0.3 else skip.value.rpartition(" ")[2] + " "
        return skip, variables, f"SKIP TO {word}{name}"

    # -- expressions ----------------------------------------------------------------------------------------------

    def _label(self) -> tuple[str, frozenset[str] | None]:
        """A name of rows, and the variables that it means."""
        kind = self.draw.random()
        if kind < 0.3:
            return "", None
        if kind < 0.45 and self.subset is not None:
            return "U", self.subset
        if kind < 0.5 and self.other is not None:
            return "w", self.other
        name = self.draw.choice(self.variables)
        return self.draw.choice([name, name, name.lower()]), frozenset([name])

    @property
    def _allows_numbers(self) -> bool:
        return not (self.is_window or (self.is_define and self.is_all))

    def _mode(self) -> tuple[str, bool]:
        draw = self.draw.random()
        if draw < 0.2:
            return "RUNNING ", False
        if draw < 0.4 and not self.is_define:
            return "FINAL ", True
        return "", self.is_final

    def _navigation(self, column: str, *, plain: bool = False, around: str = "{}") -> Made:
        """A column of some row; ``around`` it there is what does not change its values."""
        draw = self.draw
        name, variables = self._label()
        about = around.format(f"{name}.{column}" if name else column)
        if column == "classifier":
            about = f"CLASSIFIER({name})"
        is_numbered = column in ("x", "n") and self._allows_numbers and draw.random() < 0.08
        if is_numbered:
            about = f"{about} + MATCH_NUMBER()"
        logical, physical, is_last = 0, 0, True
        is_final = self.is_final
        kind = draw.random()
        text = about
        if plain or kind < 0.35:
            pass
        else:
            if kind < 0.7:
                word, is_final = self._mode()
                is_last = draw.random() < 0.5
                logical = draw.choice([0, 0, 1, 2])
                text = f"{word}{'LAST' if is_last else 'FIRST'}({about}{f', {logical}' if logical else ''})"
            if kind > 0.55:
                back = draw.random() < 0.7
                steps = draw.choice([0, 1, 1, 1, 2])
                physical = -steps if back else steps
                text = f"{'PREV' if back else 'NEXT'}({text}{'' if steps == 1 else f', {steps}'})"

        def value(view: View) -> Any:
            found = view.row(variables, is_last, logical, physical, is_final)
            if found is None:
                return None
            if is_numbered:
                own = view.rows[found[0]][column]
                return None if own is None or view.number is None else own + view.number
            return found[1] if column == "classifier" else view.rows[found[0]][column]

        return Made(f"({text})" if is_numbered else text, value)

    def _aggregate(self) -> Made:
        draw = self.draw
        name, variables = self._label()
        column = draw.choice(["x", "x", "n", "y"])
        about = f"{name}.{column}" if name else column
        word, is_final = self._mode()
        kind = draw.choice(["count", "star", "sum", "min", "max", "distinct", "filter", "twice", "avg", "list", "by"])

        def chosen(view: View) -> list[Any]:
            return [view.rows[row][column] for row, _, _ in view.chosen(variables, is_final)]

        def known(view: View) -> list[Any]:
            return [each for each in chosen(view) if each is not None]

        made: dict[str, tuple[str, Value]] = {
            "star": (f"count({f'{name}.*' if name else '*'})", lambda view: len(chosen(view))),
            "count": (f"count({about})", lambda view: len(known(view))),
            "sum": (f"sum({about})", lambda view: sum(known(view)) if known(view) else None),
            "avg": (f"avg({about})", lambda view: sum(known(view)) / len(known(view)) if known(view) else None),
            "min": (f"min({about})", lambda view: min(known(view), default=None, key=rank)),
            "max": (f"max({about})", lambda view: max(known(view), default=None, key=rank)),
            "distinct": (f"count(DISTINCT {about})", lambda view: len(set(map(rank, known(view))))),
            "filter": (
                f"count({about}) FILTER (WHERE {about} > 0)",
                lambda view: sum(1 for each in known(view) if rank(each) > rank(0)),
            ),
            "list": (
                f"list({about})",
                lambda view: len(chosen(view)) or None,
            ),
            "by": (
                f"min_by({f'{name}.i' if name else 'i'}, {about})",
                lambda view: min(
                    (
                        view.rows[row]
                        for row, _, _ in view.chosen(variables, is_final)
                        if view.rows[row][column] is not None
                    ),
                    default={"i": None},
                    key=lambda row: rank(row[column]),
                )["i"],
            ),
            "twice": (
                f"sum({about} * 2 + 1)",
                lambda view: sum(2 * e + 1 for e in known(view)) if known(view) else None,
            ),
        }
        text, value = made[kind]
        return Made(f"len({word}{text})" if kind == "list" else word + text, value)

    def _number(self) -> Made:
        draw = self.draw
        kind = draw.random()
        if kind < 0.45:
            return self._navigation("x")
        if kind < 0.55:
            return self._navigation("y")
        if kind < 0.62:
            return self._navigation("n")
        if kind < 0.8:
            return self._aggregate()
        if kind < 0.85 and self._allows_numbers:
            return Made("MATCH_NUMBER()", lambda view: view.number)
        if kind < 0.93:
            inner, add = self._navigation("x", plain=True), draw.randrange(3)

            def added(view: View) -> Any:
                found = inner.value(view)
                return None if found is None else found + add

            return Made(f"({inner.text} + {add})", added)
        inner = self._navigation("x")
        return Made(f"coalesce({inner.text}, 1)", lambda view: 1 if inner.value(view) is None else inner.value(view))

    def _condition(self, depth: int) -> Made:
        draw = self.draw
        kind = draw.random()
        if depth and kind < 0.25:
            one, other = self._condition(depth - 1), self._condition(depth - 1)
            is_and = draw.random() < 0.5

            def both(view: View) -> Any:
                values = [one.value(view), other.value(view)]
                if (not is_and) in values:
                    return not is_and
                return None if None in values else is_and

            return Made(f"({one.text} {'AND' if is_and else 'OR'} {other.text})", both)
        if depth and kind < 0.3:
            one = self._condition(depth - 1)
            return Made(f"(NOT {one.text})", lambda view: None if one.value(view) is None else not one.value(view))
        if kind < 0.55:
            letter = draw.choice("abc")
            is_final = self.is_final

            def last(view: View) -> Any:
                found = view.row(None, True, 0, 0, is_final)
                return None if found is None else view.rows[found[0]]["s"]

            one = Made("s", last) if draw.random() < 0.8 else self._navigation("s")
            return Made(
                f"{one.text} = '{letter}'", lambda view: None if one.value(view) is None else one.value(view) == letter
            )
        if kind < 0.6:
            name = draw.choice(self.variables)
            one = self._navigation("classifier")
            return Made(
                f"{one.text} = '{name}'", lambda view: None if one.value(view) is None else one.value(view) == name
            )
        if kind < 0.64:
            one = self._number()
            return Made(f"{one.text} IS NULL", lambda view: one.value(view) is None)
        if kind < 0.72:
            return self._test()
        one = self._number()
        bound = draw.randrange(4)
        other = Made(str(bound), lambda view: bound) if draw.random() < 0.5 else self._number()
        sign = draw.choice(["<", "<=", "=", ">", ">="])
        compare: dict[str, Callable[[Any, Any], bool]] = {
            "<": lambda a, b: a < b,
            "<=": lambda a, b: a <= b,
            "=": lambda a, b: a == b,
            ">": lambda a, b: a > b,
            ">=": lambda a, b: a >= b,
        }

        def compared(view: View) -> Any:
            left, right = one.value(view), other.value(view)
            return None if left is None or right is None else compare[sign](rank(left), rank(right))

        return Made(f"{one.text} {sign} {other.text}", compared)

    def _test(self) -> Made:
        """A condition with a word instead of a sign."""
        draw = self.draw
        one, other = self._number(), self._number()
        kind = draw.choice(["between", "in", "in null", "distinct", "case", "like", "begins", "asked"])
        if kind == "between":

            def between(view: View) -> Any:
                found = one.value(view)
                return None if found is None else rank(0) <= rank(found) <= rank(2)

            return Made(f"{one.text} BETWEEN 0 AND 2", between)
        if kind.startswith("in"):
            has_null = kind == "in null"

            def is_in(view: View) -> Any:
                found = one.value(view)
                if found is None:
                    return None
                return True if found in (0, 2) else None if has_null else False

            return Made(f"{one.text} IN (0, 2{', NULL' if has_null else ''})", is_in)
        if kind == "distinct":

            def distinct(view: View) -> Any:
                left, right = one.value(view), other.value(view)
                if left is None or right is None:
                    return (left is None) != (right is None)
                return rank(left) != rank(right)

            return Made(f"{one.text} IS DISTINCT FROM {other.text}", distinct)
        if kind == "begins":  # which DuckDB computes
            word, beginning = self._navigation("s"), self._navigation("s")

            def begins(view: View) -> Any:
                found, other = word.value(view), beginning.value(view)
                return None if found is None or other is None else found == other

            return Made(f"{word.text} LIKE {beginning.text} || '%'", begins)
        if kind == "asked":
            word = self._navigation("s", around="printf('%s', {})")
            return Made(
                f"{word.text} = 'a'", lambda view: None if word.value(view) is None else word.value(view) == "a"
            )
        if kind == "case":
            when, then = self._condition(0), self._condition(0)
            return Made(
                f"CASE WHEN {when.text} THEN {then.text} ELSE {one.text} > 0 END",
                lambda view: (
                    then.value(view)
                    if when.value(view)
                    else None
                    if one.value(view) is None
                    else rank(one.value(view)) > rank(0)
                ),
            )
        letter = self._navigation("s")
        return Made(
            f"({letter.text} LIKE 'a%' OR {letter.text} > 'b')",
            lambda view: None if letter.value(view) is None else letter.value(view) in "ac",
        )

    def _measure(self) -> Made:
        draw = self.draw
        kind = draw.random()
        if kind < 0.55:
            return self._number()
        if kind < 0.75:
            return self._navigation(draw.choice(["classifier", "s"]))
        if kind < 0.85:
            return self._condition(1)
        name, variables = self._label()
        word, is_final = self._mode()
        about = f"CLASSIFIER({name})"

        def joined(view: View) -> Any:
            found = [variable for _, variable, _ in view.chosen(variables, is_final)]
            return "".join(found) if found else None

        return Made(f"{word}string_agg({about}, '')", joined)


def rank(value: Any) -> tuple[bool, Any]:
    """What numbers are ordered and told apart by: NaN is behind all others."""
    return (True, 0) if value != value else (False, value)


def plain(value: Any) -> Any:
    """A value as Python has it, which is the same as itself."""
    if isinstance(value, Decimal):
        return int(value)
    return "NaN" if value != value else value


def _flat(kind: type, parts: list[Pattern]) -> tuple[Pattern, ...]:
    """Parts without those of the same kind among them, which a text does not tell apart."""
    return tuple(inner for each in parts for inner in (each.parts if isinstance(each, kind) else (each,)))  # type: ignore[attr-defined]
