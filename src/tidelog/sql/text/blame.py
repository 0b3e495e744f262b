"""Which part of a statement a message of DuckDB is about.

Messages have no places, or those of the statement as it was printed for DuckDB. What they name, or are typical of, is
looked for in the tree of the user's own text: most of the time there is one thing that they can be about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from tidelog.sql.text.tree import NOWHERE, Node, nodes

_Finder = Callable[[Node, re.Match[str], AbstractSet[str]], Iterable[Node]]
"""The nodes that a message may be about, the likely first: of a tree, by what was found in the message."""

_OPERATORS: Final = {
    "addition": "+",
    "subtraction": "-",
    "multiplication": "*",
    "division": "/",
    "negation": "-",
    "left shift": "<<",
}
_TYPES: Final = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
    "BOOL": "BOOLEAN",
}
_SYNONYMS: Final = {"INT": "INTEGER", "INT4": "INTEGER", "INT2": "SMALLINT", "INT8": "BIGINT", "LONG": "BIGINT"}


def concerned(tree: Node, message: str, aggregates: AbstractSet[str]) -> Node | None:
    """The node that a message of DuckDB is about; None if that is not known. ``aggregates`` are names of functions."""
    for pattern, find in _RULES:
        found = pattern.search(message)
        if found is None:
            continue
        node = next((each for each in find(tree, found, aggregates) if _has_place(each)), None)
        if node is not None:
            return node
    return _only_one(tree, message)


def _has_place(node: Node) -> bool:
    return bool(node.get("query_location", NOWHERE) != NOWHERE)


def _name_of(node: Node) -> str:
    return str(node["function_name"]).lower() if node.get("class") == "FUNCTION" else ""


def _named(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    """Columns, functions and texts of the names that were found."""
    names = [each for each in found.groups() if each is not None]
    return (node for node in nodes(tree) if any(_names(node, each) for each in names))


def _names(node: Node, name: str) -> bool:
    kind = node.get("class")
    if kind == "COLUMN_REF":
        return name.lower() in (each.lower() for each in node["column_names"])
    if kind == "FUNCTION":
        return _name_of(node) == name.lower()
    return kind == "CONSTANT" and bool(node.get("literal", {}).get("text") == name)


def _text_with(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    """Texts that have a word, such as the unit of a length of time."""
    constants = (node for node in nodes(tree) if node.get("class") == "CONSTANT")
    return (node for node in constants if found[1] in re.findall(r"\w+", str(node.get("literal", {}).get("text"))))


def _column_or_star(tree: Node, found: re.Match[str], aggregates: AbstractSet[str]) -> Iterator[Node]:
    yield from _named(tree, found, aggregates)
    yield from (node for node in nodes(tree) if node.get("class") == "STAR")


def _star(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    return (node for node in nodes(tree) if node.get("class") == "STAR")


def _last_table(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> list[Node]:
    names = {found[1].lower()}
    tables = [node for node in nodes(tree) if node["type"] == "BASE_TABLE"]
    own = [node for node in tables if names & {node["table_name"].lower(), node["alias"].lower()}]
    return list(reversed(own))


def _cast_of_column(tree: Node, found: re.Match[str], aggregates: AbstractSet[str]) -> Iterator[Node]:
    wanted, column = _TYPES.get(found[1], found[1]), found[2]
    casts = [node for node in nodes(tree) if node.get("class") == "CAST" and _type(node) == wanted]
    yield from (node for node in casts if any(_names(each, column) for each in nodes(node["child"])))
    yield from (node for node in nodes(tree) if node.get("class") == "COLUMN_REF" and _names(node, column))


def _cast_to(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    wanted = _TYPES.get(found[1], found[1])
    casts = [node for node in nodes(tree) if node.get("class") == "CAST" and _type(node) == wanted]
    yield from casts
    yield from (each for node in casts for each in nodes(node["child"]))
    said = found.string.replace('"', " ").split()
    yield from (node for node in nodes(tree) if node.get("class") == "CONSTANT" and node["literal"].get("text") in said)


def _type(cast: Node) -> str:
    name = str(cast["type_expr"].get("type_name", "")).upper()
    return _SYNONYMS.get(name, name)


def _operator(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    sign = _OPERATORS.get(found[1].lower())
    yield from (node for node in nodes(tree) if _name_of(node) == sign)
    yield from (node for node in nodes(tree) if _name_of(node) in ("sum", "avg"))


def _in_where(kinds: Callable[[Node, AbstractSet[str]], bool]) -> _Finder:
    def find(tree: Node, found: re.Match[str], aggregates: AbstractSet[str]) -> Iterator[Node]:
        clause = {"WHERE": "where_clause", "GROUP BY": "group_expressions", "QUALIFY": "qualify", "HAVING": "having"}
        name = clause.get(found[1], "")
        for select in nodes(tree):
            if select.get(name):
                yield from (node for node in nodes(select[name]) if kinds(node, aggregates))

    return find


def _is_aggregate(node: Node, aggregates: AbstractSet[str]) -> bool:
    return _name_of(node) in aggregates


def _is_window(node: Node, _: AbstractSet[str]) -> bool:
    return node.get("class") == "WINDOW"


def _nested_aggregate(tree: Node, _: re.Match[str], aggregates: AbstractSet[str]) -> Iterator[Node]:
    for node in nodes(tree):
        if _name_of(node) in aggregates:
            yield from (each for each in nodes(node["arguments"]) if _name_of(each) in aggregates)


def _limits(tree: Node, _found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    for node in nodes(tree):
        if node["type"] in ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"):
            for each in filter(None, (node["limit"], node["offset"])):
                yield from nodes(each)


def _ordinals(name: str) -> _Finder:
    def find(tree: Node, found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
        most = int(found[1])
        for owner in nodes(tree):
            for node in nodes(owner.get(name)) if owner.get(name) else ():
                literal = node.get("literal", {}) if node.get("class") == "CONSTANT" else {}
                if literal.get("kind") == "INTEGER" and not 1 <= int(literal["text"]) <= most:
                    yield node

    return find


def _second_side(tree: Node, _found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    for node in nodes(tree):
        if node["type"] == "SET_OPERATION_NODE":
            for child in list(node.get("children") or ())[1:] or [node.get("right")]:
                yield from nodes(child)


def _of_class(*kinds: str) -> _Finder:
    return lambda tree, _found, _aggregates: (node for node in nodes(tree) if node.get("class") in kinds)


def _functions(*names: str) -> _Finder:
    """Calls of functions whose names begin so."""
    return lambda tree, _found, _aggregates: (node for node in nodes(tree) if _name_of(node).startswith(names))


def _distinct(tree: Node, _found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    return (node for node in nodes(tree) if node.get("distinct") is True)


def _comparison(tree: Node, _found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    """Comparisons, which have no place themselves: what is compared."""
    for node in nodes(tree):
        if node.get("class") in ("COMPARISON", "BETWEEN"):
            yield node
            yield from (each for name in ("left", "input") if node.get(name) for each in nodes(node[name]))


def _samples(tree: Node, _found: re.Match[str], _: AbstractSet[str]) -> Iterator[Node]:
    return (node for node in nodes(tree) if node.get("sample"))


def _rule(pattern: str, find: _Finder) -> tuple[re.Pattern[str], _Finder]:
    return re.compile(pattern), find


_RULES: Final = (
    _rule(r'column "([^"]+)" must appear', _column_or_star),
    _rule(r"to (\w+) when casting from source column (\w+)", _cast_of_column),
    _rule(r'[Aa]mbiguous reference to table "([^"]+)"', _last_table),
    _rule(r"(?:EXCLUDE|REPLACE|RENAME) list", _star),
    _rule(r'(?:[Cc]olumn|column named|column name) "([^"]+)"', _named),
    _rule(r'[Tt]able "([^"]+)" not found', _named),
    _rule(r"with name \"?(\w+)\"? does not|argument types '([^\s(]+)\(", _named),
    _rule(r"argument types 'array_(?:extract|slice)\(", _of_class("OPERATOR")),
    _rule(r'Could not find key "([^"]+)" in struct', _of_class("OPERATOR", "FUNCTION")),
    _rule(
        r"string '([^']*)'|specifier \"([^\"]+)\"|field (?:value|format)[^:]*: \"([^\"]*)\"|TimeZone '([^']*)'"
        r"|time zone '([^']*)'",
        _named,
    ),
    _rule(r'specifier "([^"]+)"', _text_with),
    _rule(r"(WHERE|GROUP BY|HAVING) clause cannot contain aggregates", _in_where(_is_aggregate)),
    _rule(r"(WHERE|GROUP BY|HAVING) clause cannot contain window", _in_where(_is_window)),
    _rule(r"aggregate function calls cannot be nested", _nested_aggregate),
    _rule(r"window functions are not allowed|window function calls cannot", _of_class("WINDOW")),
    _rule(r"LIMIT|OFFSET", _limits),
    _rule(r"ORDER term out of range - should be between 1 and (\d+)", _ordinals("orders")),
    _rule(r"GROUP BY term out of range - should be between 1 and (\d+)", _ordinals("group_expressions")),
    _rule(r"Set operations can only apply", _second_side),
    _rule(r"More than one row returned by a subquery", _of_class("SUBQUERY")),
    _rule(r"Subquery returns \d+ columns", _of_class("SUBQUERY")),
    _rule(r"Overflow in (\w+(?: shift)?) of", _operator),
    _rule(r"destination type (\w+)", _cast_to),
    _rule(r"to type (DECIMAL)\(\d+", _cast_to),
    _rule(r"Cannot (?:compare|mix) values", _comparison),
    _rule(r"Chained comparisons", _comparison),
    _rule(r"DISTINCT requires", _distinct),
    _rule(r"Sample \w+ ", _samples),
    _rule(r"Period must be|bucket|Month intervals", _functions("time_bucket")),
    _rule(r"Division by zero", _functions("//", "%", "/", "mod", "fmod")),
    _rule(r"cast \(\w+ -> (\w+)\) when casting from source column (\w+)", _cast_of_column),
    _rule(r"Codepoint", _functions("chr")),
    _rule(r"Epoch|timestamp range|[Dd]ate (?:and time )?(?:not|out)", _functions("to_timestamp", "epoch_ms", "+", "-")),
    _rule(r"JSON|json", _functions("json", "->", "->>")),
    _rule(r"missing [\])]|repetition|escape|regex|parenthes", _functions("regexp")),
)
"""What messages say, the particular before the general, and what they are about."""


def _only_one(tree: Node, message: str) -> Node | None:
    """The call that raised, or else the only one that can have: of a function, of a cast, of an operator."""
    raised = [node for node in nodes(tree) if _name_of(node) == "error"]
    for node in raised:
        texts = (each.get("literal", {}).get("text") for each in nodes(node["arguments"]))
        if any(text and text in message for text in texts) and _has_place(node):
            return node
    for is_kind in (_is_call, _is_operator):
        found = [node for node in nodes(tree) if is_kind(node) and _has_place(node)]
        if len(found) == 1:
            return found[0]
    return None


def _is_call(node: Node) -> bool:
    return (node.get("class") == "FUNCTION" and not node["is_operator"]) or node.get("class") == "CAST"


def _is_operator(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and bool(node["is_operator"])
