"""Values that statements make out of nothing, such as ``repeat('x', 1000000000)``, are bounded before they are made.

DuckDB counts the memory of what it keeps, and not that of values while it computes them: a row is enough to take all of
a machine's memory. So functions that make much of little are asked first how much that will be: what is written out is
told at once, at its place, and what only rows tell is tested for each of them. The test stands inside of an argument,
because constants are computed before anybody asks which of them are needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node, Parser, become, nodes

_ROWS: Final = 2048
"""Rows that DuckDB computes at once."""
_LEAST: Final = 1 << 16
"""Bytes that a value may have with however little memory."""
_OF_FEW: Final = 64
"""The part of memory that a value may take that is computed once or for few rows: what is made of it takes more."""
_OF_UNNESTED: Final = 16
"""The same of a list of which rows are made at once."""
_IN_LISTS: Final = 64
"""How much less a value may have inside of a lambda, which is computed for each member of a list."""
_SMALL: Final = 64
"""Factors that are not worth a test by themselves."""
_MOST_DOUBLED: Final = 4096
"""How much longer a statement may make texts, by putting them together and by small factors, before that is tested."""
_MOST_AGAIN: Final = 4
"""The same where it goes on from its own results."""
_PER_MEMBER: Final = 8
"""Bytes of a member of a list."""
_PER_PIECE: Final = 32
"""Bytes that a piece of a text takes in a list, with those that the list is built in."""
_TOO_LARGE: Final = "tidelog: too large: "
_WIDE: Final = re.compile(r"\d{5}|\*|\{[^}]*\{")
"""In a format: a width of five digits, or one that is an argument."""
_WIDE_BYTES: Final = 100_000
_DOUBLING: Final = {"hex": 2, "to_hex": 2, "bin": 8, "to_binary": 8, "to_base64": 2, "base64": 2, "translate": 4}
_CHAINS: Final = frozenset(
    {"||", "concat", "concat_ws", "list_concat", "list_cat", "array_concat", "array_cat", "json_array", "json_object"}
)
_REDUCING: Final = frozenset({"list_reduce", "array_reduce", "reduce"})
"""Functions that go on from what their lambda has made."""


def _bytes(text: str) -> str:
    return f"CAST(strlen(CAST({text} AS VARCHAR)) AS DOUBLE)"


def _number(text: str) -> str:
    return f"TRY_CAST(CAST({text} AS VARCHAR) AS DOUBLE)"


def _moment(text: str) -> str:
    return f"coalesce({_number(text)}, epoch(TRY_CAST(CAST({text} AS VARCHAR) AS TIMESTAMPTZ)))"


def _repeated(texts: Sequence[str]) -> str:
    return f"{_bytes(texts[0])} * {_number(texts[1])}"


def _padded(texts: Sequence[str]) -> str:
    return _number(texts[1])


def _resized(texts: Sequence[str]) -> str:
    return f"{_PER_MEMBER} * {_number(texts[1])}"


def _counted(texts: Sequence[str]) -> str:
    """Of ``range``: how many steps there are from one end to the other."""
    start, stop, step = ["0", texts[0], "1"] if len(texts) == 1 else [*texts, "1"][:3]
    length = f"coalesce({_number(step)}, epoch(TRY_CAST(CAST({step} AS VARCHAR) AS INTERVAL)))"
    return f"{_PER_MEMBER} * abs(({_moment(stop)} - {_moment(start)}) / nullif({length}, 0))"


def _replaced(texts: Sequence[str]) -> str:
    value, old, new = texts[:3]
    times = f"({_bytes(value)} - {_bytes(f'replace({value}, {old}, {chr(39) * 2})')}) / nullif({_bytes(old)}, 0)"
    return f"{_bytes(value)} + coalesce({times}, 0) * {_bytes(new)}"


def _replaced_by_pattern(texts: Sequence[str]) -> str:
    return f"{_bytes(texts[0])} + ({_bytes(texts[0])} + 1) * {_bytes(texts[2])}"


def _split(texts: Sequence[str]) -> str:
    value, by = texts[:2]
    rest = f"replace({value}, {by}, '')"
    return f"{_PER_PIECE} * ({_bytes(value)} - {_bytes(rest)})"


def _split_by_pattern(texts: Sequence[str]) -> str:
    value, by = texts[:2]
    rest = f"regexp_replace({value}, {by}, '', 'g')"
    return f"{_PER_PIECE} * ({_bytes(value)} - {_bytes(rest)})"


def _formatted(texts: Sequence[str]) -> str:
    return f"CASE WHEN regexp_matches({texts[0]}, '{_WIDE.pattern}') THEN 1e300 ELSE 0 END"


def _added(texts: Sequence[str]) -> str:
    return " + ".join(f"coalesce({_bytes(each)}, 0)" for each in texts)


@dataclass(frozen=True, slots=True)
class _Growing:
    """A function that makes much of little."""

    size: Callable[[Sequence[str]], str]
    """The bytes that it makes, as an expression of its arguments."""
    carrier: int
    """The argument that the test stands in."""
    least: int = 2
    """Arguments that it has at least."""
    is_long: int | None = 0
    """The argument that may be as long as the result in any case."""


_ARITHMETIC: Final = frozenset(
    {"+", "-", "*", "/", "//", "%", "list_value"}
    | {f"to_{each}" for each in ("years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds")}
    | {"to_milliseconds", "to_microseconds"}
)
"""Functions that make little of what they are given, always the same."""
_FUNCTIONS: Final = {
    "repeat": _Growing(_repeated, 1),
    "lpad": _Growing(_padded, 1, 3),
    "rpad": _Growing(_padded, 1, 3),
    "bitstring": _Growing(_padded, 1),
    "list_resize": _Growing(_resized, 1),
    "array_resize": _Growing(_resized, 1),
    "range": _Growing(_counted, 0, 1, None),
    "generate_series": _Growing(_counted, 0, 1, None),
    "replace": _Growing(_replaced, 0, 3),
    "regexp_replace": _Growing(_replaced_by_pattern, 0, 3),
    "format": _Growing(_formatted, 0, 1, None),
    "printf": _Growing(_formatted, 0, 1, None),
    "fmt": _Growing(_formatted, 0, 1, None),
}
_CHAIN: Final = _Growing(_added, -1)
_SPLITTING: Final = {
    **dict.fromkeys(("string_split", "str_split", "string_to_array", "split"), _Growing(_split, 0, 2, None)),
    **dict.fromkeys(
        ("string_split_regex", "str_split_regex", "regexp_split_to_array", "regexp_extract_all"),
        _Growing(_split_by_pattern, 0, 2, None),
    ),
}
"""Functions that make lists of the pieces of a text: much of a long one, such as others have made."""
_LONGER: Final = {
    name: _Growing(lambda texts, factor=factor: f"{factor} * {_bytes(texts[0])}", 0, 1, None)  # type: ignore[misc]
    for name, factor in _DOUBLING.items()
}
_MADE: Final = frozenset({*_FUNCTIONS, *_SPLITTING, *_LONGER, *_CHAINS})


def too_large_by(message: str) -> tuple[str, int] | None:
    """What a test of ours has raised in DuckDB, and the place that it is about; None if it was another error."""
    _, found, behind = message.partition(_TOO_LARGE)
    told = re.match(r"(\d+) (\d+) ([\w|]+) (\S+)", behind)
    if not found or told is None:
        return None
    return _message(told[3], float(told[4].rstrip(".")), int(told[2])), int(told[1])


def _message(name: str, size: float, limit: int) -> str:
    made = f"a value of about {size:,.0f} bytes" if size < 1e18 else "a value of any size"
    return (
        f"{name} would make {made}; up to {limit:,} are made here: give it more with sql_memory, or ask for a smaller "
        "one"
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A call, and what it is inside of."""

    node: Node
    is_inside: bool = False
    """Of a lambda that is computed for each member of a list."""
    is_reduced: bool = False
    """Of a lambda that goes on from its own results."""
    reduces: bool = False
    """Of a function that has such a lambda, as the next one around it."""
    is_unnested: bool = False
    """Of a function that makes rows of it, likewise."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that may be tested."""

    node: Node
    growing: _Growing
    arguments: Sequence[Node]
    limit: int
    is_certain: bool
    """Whether it is, whatever else there is in the statement."""


class Bounds:
    """The tests for one statement, whose values may take so many bytes of memory."""

    def __init__(
        self, parser: Parser, memory: int, aggregates: AbstractSet[str], error: Callable[[str, Node], SqlError]
    ) -> None:
        """``aggregates`` are the names of functions that aggregate, in lower case."""
        self._parser = parser
        self._aggregates = aggregates
        self._memory = memory
        self._places: dict[tuple[str, ...], int] = {}
        self._error = error

    def put(self, tree: Node, *, tested: bool) -> None:
        """Raise for values that are written out and too large; with ``tested``, have rows tested that make others."""
        found = list(self._found(tree))
        if not found:
            return
        doubled = 1.0
        calls: list[_Call] = []
        for place in found:
            node, name = place.node, place.node["function_name"].lower()
            arguments = [each["expression"] for each in node["arguments"]]
            limit = self._limit(arguments, place)
            growing = _FUNCTIONS.get(name) or _SPLITTING.get(name)
            if growing is None:
                leaves = _leaves(node)
                doubled *= _DOUBLING.get(name, sum(not _is_constant(each) for each in leaves) or 1)
                calls.append(_Call(node, _LONGER.get(name, _CHAIN), leaves, limit, place.is_reduced))
            elif len(arguments) >= growing.least:
                size = _written_size(name, arguments)
                if size is not None and size > limit:
                    raise self._error(_message(name, size, limit), node)
                if size is not None and size > self._of_row:
                    doubled = math.inf  # rows may make something of it
                factor = _small_factor(name, arguments) if size is None else None
                doubled *= factor or 1
                if size is None:
                    is_certain = name in _FUNCTIONS and factor is None
                    calls.append(_Call(node, growing, arguments, limit, is_certain))
        if not tested:
            return
        goes_on = any(node["type"] == "RECURSIVE_CTE_NODE" for node in nodes(tree))
        if doubled <= (_MOST_AGAIN if goes_on else _MOST_DOUBLED):
            certain = [call for call in calls if call.is_certain]
            calls = [call for call in calls if call.is_certain or (certain and call.growing in _SPLITTING.values())]
        self._keep_names(tree, {id(call.node) for call in calls})
        for call in reversed(calls):  # those inside of others first
            self._test(call)

    def _found(self, tree: Any) -> Iterator[_Place]:
        """Calls of functions that make much of little."""
        waiting: list[tuple[Any, _Place]] = [(tree, _Place({}))]
        below_chain: set[int] = set()
        while waiting:
            value, at = waiting.pop()
            if isinstance(value, list):
                waiting += [(each, at) for each in reversed(value)]
            elif isinstance(value, dict):
                if value.get("type") == "TABLE_FUNCTION":  # which makes rows, a few at a time
                    function = value["function"]
                    is_unnest = function["function_name"].lower() == "unnest"
                    waiting.append((function["arguments"], replace(at, is_unnested=is_unnest)))
                    continue
                if value.get("class") == "LAMBDA":
                    at = replace(at, is_reduced=True) if at.reduces else replace(at, is_inside=True)
                elif value.get("class") == "FUNCTION":
                    name = value["function_name"].lower()
                    if name == "||":
                        below_chain |= {id(each["expression"]) for each in value["arguments"]}
                    if name in _MADE and not (name == "||" and id(value) in below_chain):
                        yield replace(at, node=value)
                    at = replace(at, is_unnested=name == "unnest", reduces=name in _REDUCING)
                waiting += [(each, at) for each in reversed(value.values()) if isinstance(each, dict | list)]

    @property
    def _of_row(self) -> int:
        """Bytes that a value may have of which each row makes one."""
        return max(self._memory // _ROWS, _LEAST)

    def _limit(self, arguments: Sequence[Node], place: _Place) -> int:
        if place.is_inside:
            return self._of_row // _IN_LISTS
        if all(self._is_of_few(each) for each in arguments):
            return max(self._memory // (_OF_UNNESTED if place.is_unnested else _OF_FEW), _LEAST)
        return self._of_row

    def _is_of_few(self, node: Any) -> bool:
        """Whether an expression is made of constants, aggregates and subqueries."""
        kind = node.get("class")
        if kind == "SUBQUERY" or _is_constant(node):
            return True
        if kind == "FUNCTION" and node["function_name"].lower() in self._aggregates:
            return True
        if kind == "CAST":
            return self._is_of_few(node["child"])
        return (_is_made(node) or _is_arithmetic(node)) and all(
            self._is_of_few(each["expression"]) for each in node["arguments"]
        )

    def _keep_names(self, tree: Node, tested: set[int]) -> None:
        for select in [node for node in nodes(tree) if node["type"] == "SELECT_NODE"] if tested else ():
            for item in select["select_list"]:
                if not item["alias"] and any(id(node) in tested for node in nodes(item)):
                    item["alias"] = self._parser.print_expression(item)

    def _test(self, call: _Call) -> None:
        """Put a test into one of the arguments of a call."""
        node, growing, arguments, limit = call.node, call.growing, call.arguments, call.limit
        name = node["function_name"].lower()
        plain = [self._parser.print_expression({**each, "alias": ""}) for each in arguments]
        is_named = not all(_is_simple(each) or _is_fixed(each) for each in arguments)
        kept = [_is_fixed(each) for each in arguments]  # patterns stay constants, and no row has one of its own
        texts = [
            f"(v.a{at})" if is_named and not keep else f"({text})"
            for at, (text, keep) in enumerate(zip(plain, kept, strict=True))
        ]
        size = growing.size(texts)
        most = str(limit) if growing.is_long is None else f"greatest({limit}, {_bytes(texts[growing.is_long])})"
        # The same expression at two places has to remain the same: it may be a group.
        place = self._places.setdefault((name, *plain), node.get("query_location", 0))
        said = f"'{_TOO_LARGE}{place} {limit} {name} ' || CAST({size} AS VARCHAR)"
        texts[growing.carrier] = f"CASE WHEN {size} > {most} THEN error({said}) ELSE {texts[growing.carrier]} END"
        joined = " || ".join(f"({each})" for each in texts) if name == "||" else f"{name}({', '.join(texts)})"
        if is_named:
            fields = ", ".join(f"a{at}: {text}" for at, text in enumerate(plain) if not kept[at])
            joined = f"list_transform([{{{fields}}}], lambda v: {joined})[1]"
        location: Node = {key: node[key] for key in ("query_location", "query_location_length") if key in node}
        become(node, {**self._parser.expression(joined), **location})


def _leaves(node: Node) -> list[Node]:
    """What is put together by a chain of ``||``, or the arguments of another call."""
    found: list[Node] = []
    for each in [each["expression"] for each in node["arguments"]]:
        is_same = each.get("class") == "FUNCTION" and each["function_name"] == node["function_name"] == "||"
        found += _leaves(each) if is_same else [each]
    return found


def _is_constant(node: Node) -> bool:
    return all(each.get("class") in ("CONSTANT", "CAST", None) or _is_arithmetic(each) for each in nodes(node))


def _is_made(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in _MADE


def _is_fixed(node: Node) -> bool:
    """Whether an expression is a constant, or something that is made of constants alone."""
    fixed = ("CONSTANT", "CAST", None)
    return all(each.get("class") in fixed or _is_arithmetic(each) or _is_made(each) for each in nodes(node))


def _is_simple(node: Node) -> bool:
    """Whether an expression is the same however often it is computed, and quickly."""
    simple = ("CONSTANT", "CAST", "COLUMN_REF", None)
    return all(each.get("class") in simple or _is_arithmetic(each) for each in nodes(node))


def _is_arithmetic(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"] in _ARITHMETIC


def _literal(node: Node) -> str | None:
    return node["literal"].get("text") if node.get("class") == "CONSTANT" else None


def _integer(node: Node) -> float | None:
    if node.get("class") != "CONSTANT" or node["literal"].get("kind") not in ("INTEGER", "DECIMAL", "FLOAT"):
        return None
    try:
        return float(node["literal"]["text"])
    except ValueError:
        return None


def _written_size(name: str, arguments: Sequence[Node]) -> float | None:
    """The bytes of a value, if they are written out."""
    if name in ("lpad", "rpad", "bitstring"):
        return _integer(arguments[1])
    if name in ("list_resize", "array_resize"):
        members = _integer(arguments[1])
        return None if members is None else _PER_MEMBER * members
    if name == "repeat":
        text, times = _literal(arguments[0]), _integer(arguments[1])
        return None if text is None or times is None else len(text.encode()) * times
    if name in ("range", "generate_series"):
        numbers = [_integer(each) for each in arguments]
        if any(each is None for each in numbers):
            return None
        start, stop, step = ([0, numbers[0], 1] if len(numbers) == 1 else [*numbers, 1])[:3]
        return _PER_MEMBER * abs(stop - start) / abs(step) if step else 0  # type: ignore[operator]
    if name in ("format", "printf", "fmt"):
        text = _literal(arguments[0])
        return None if text is None else _width(text)
    return None


def _width(text: str) -> float:
    """The widths of a format."""
    if not _WIDE.search(text):
        return 0
    widths = [float(each) for each in re.findall(r"\d{5,}", text)]
    return sum(widths) if widths else math.inf


def _small_factor(name: str, arguments: Sequence[Node]) -> float | None:
    """How many times what it is given a call makes at most; None if that may be many times."""
    factor: float | None = None
    if name == "repeat":
        factor = _integer(arguments[1])
    elif name in ("replace", "regexp_replace") and (text := _literal(arguments[2])) is not None:
        length = len(text.encode())
        if name == "replace":
            factor = length / max(len((_literal(arguments[1]) or "").encode()), 1)
        elif length <= _SMALL and len(arguments) < 4 and "\\" not in text:  # one piece of it, once
            factor = 1
        else:
            factor = length + 1
    return None if factor is None or factor > _SMALL else max(factor, 1)
