"""DuckDB's own parse trees: read from a text, looked through, changed, and printed by DuckDB again.

A tree is what ``json_serialize_sql`` gives: nodes are dicts, most with the place of their text in it. Nobody knows the
dialect better than the parser that will read the statement next.
"""

from __future__ import annotations

import copy
import json
import marshal
import re
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.sql.errors import SqlError
from tidelog.sql.text.advice import advised
from tidelog.sql.text.tokens import tokens

if TYPE_CHECKING:
    import duckdb

Node: TypeAlias = dict[str, Any]
_Known = TypeVar("_Known")

NOWHERE: Final = (1 << 64) - 1
"""The place of a node that has none."""

_KNOWN: Final = 512
_LONGEST_KNOWN: Final = 1 << 15
"""How many texts are kept with their trees, and how many characters of each: the same are asked again and again."""

_INNER: Final = frozenset({dict, list})
LOCATIONS: Final = ("query_location", "query_location_length")
"""Members of nodes that tell where they stand."""


class Parser:
    """Reads and prints statements by a connection of its own, which knows no tables."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._parsed = lru_cache(_KNOWN)(partial(self._asked, "SELECT json_serialize_sql(?::VARCHAR)"))
        self._printed = lru_cache(_KNOWN)(partial(self._asked, "SELECT json_deserialize_sql(?::JSON)"))
        self._known: dict[Hashable, Any] = {}

    def _asked(self, question: str, text: str) -> str:
        answer = self._connection.execute(question, [text]).fetchone()
        assert answer is not None
        return str(answer[0])

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection that knows no tables either; close it."""
        return self._connection.cursor()

    def parse(self, text: str) -> Node:
        """The tree of one statement that selects. Raises :class:`SqlError` for what is none."""
        tree = json.loads(self._parsed(text) if len(text) <= _LONGEST_KNOWN else self._parsed.__wrapped__(text))
        if tree["error"]:
            position = tree.get("position")
            # It quotes the text, which may have what would do something to a terminal.
            message = "".join(
                each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}"
                for each in tree["error_message"]
            )
            if message.startswith("Only SELECT") and text.lstrip("( \n\t").upper().startswith("PIVOT"):
                message = "found PIVOT without the values of its columns; expected them, as in ON site IN ('a', 'b')"
            elif message.startswith("Only SELECT") and (changing := _changing(text)) is not None:
                message = (
                    "found WITH before a statement that changes something; expected it inside, as in INSERT INTO s "
                )
                message += "WITH c AS (SELECT ...) SELECT ..."
                raise SqlError(message, text=text, position=changing)
            elif message.startswith("Only SELECT"):
                message = (
                    "found a statement that tidelog does not run; expected SELECT, EXPLAIN, DESCRIBE, SUMMARIZE, SHOW "
                    "STREAMS, CREATE STREAM, INSERT, DELETE, ALTER STREAM or DROP STREAM"
                )
            found = _first_place(message, text) if position is None else characters(text, int(position))
            message = advised(message + _unclosed(message, text), text, found)
            raise SqlError(message, text=text, position=found)
        if len(tree["statements"]) != 1:
            raise SqlError(f"found {len(tree['statements'])} statements; expected one", text=text)
        return tree  # type: ignore[no-any-return]

    def once(self, what: str, content: str | bytes, make: Callable[[], _Known], *others: Hashable) -> _Known:
        """What is made of some content and others, and depends on nothing else; what was made of the same before, if
        that is known. It must not be changed.
        """
        if len(content) > _LONGEST_KNOWN:
            return make()
        key = what, content, *others
        found: _Known | None = self._known.get(key)
        if found is None:
            found = make()
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def print(self, tree: Node) -> str:
        """A tree as a statement."""
        text = json.dumps(tree)
        return self._printed(text) if len(text) <= _LONGEST_KNOWN else self._printed.__wrapped__(text)

    def print_expression(self, node: Node) -> str:
        """An expression as DuckDB writes it, which is the name of a column that has none."""
        return self.once("printed", frozen(node), lambda: self._print_expression(node))

    def _print_expression(self, node: Node) -> str:
        tree = self.parse("SELECT 1")
        tree["statements"][0]["node"]["select_list"] = [node]
        return self.print(tree).removeprefix("SELECT ")

    def expression(self, text: str) -> Node:
        """The node of an expression."""
        node: Node = marshal.loads(self.once("expression", text, lambda: frozen(self._expression(text))))
        return node

    def _expression(self, text: str) -> Node:
        node: Node = self.parse(f"SELECT {text}")["statements"][0]["node"]["select_list"][0]
        return node

    def truths(self, condition: str, rows: pa.Table) -> npt.NDArray[np.bool_] | None:
        """For which of some rows a condition is true; None if it cannot be computed."""
        import duckdb

        cursor = self._connection.cursor()
        try:
            cursor.register("#rows", rows.append_column("#n", pa.array(np.arange(rows.num_rows))))
            found = cursor.sql(f'SELECT coalesce({condition}, FALSE) AS t FROM "#rows" ORDER BY "#n"').to_arrow_table()
        except duckdb.Error:
            return None
        finally:
            cursor.close()
        truths: npt.NDArray[np.bool_] = found["t"].to_numpy()
        return truths

    def instant(self, text: str) -> int | None:
        """The moment that a constant means as a time of the session's zone, in microseconds; None if it is none."""
        import duckdb

        cursor = self._connection.cursor()
        try:
            found = cursor.sql(f"SELECT epoch_us(CAST({text} AS TIMESTAMPTZ))").fetchall()[0][0]
        except duckdb.Error:
            return None
        finally:
            cursor.close()
        return None if found is None else int(found)


_WORDS: Final = {
    "without selection list": ("FROM", ";"),
    "DISTINCT requires": ("DISTINCT",),
    "Sample ": ("TABLESAMPLE", "SAMPLE"),
    "Chained comparisons": ("=", "<", ">", "<=", ">=", "<>", "!="),
}
"""What errors of the parser say that have no place, and the words, or signs, that they are about."""
_NAMED: Final = re.compile(r'ordered aggregate "([^"]+)"|arguments to (\w+)')


def _first_place(message: str, text: str) -> int | None:
    """Where what the parser complains of first comes."""
    for said, words in _WORDS.items():
        if said in message:
            return next((token.start for token in tokens(text) if token.says(*words)), None)
    named = _NAMED.search(message)
    if named is None:
        return None
    name = (named[1] or named[2]).lower()
    return next((token.start for token in tokens(text) if token.value.lower() == name), None)


def _changing(text: str) -> int | None:
    """Where a statement that begins with WITH changes something."""
    read = tokens(text)
    if not read or not read[0].says("WITH"):
        return None
    return next((token.start for token in read if token.says("INSERT", "UPDATE", "DELETE")), None)


def _unclosed(message: str, text: str) -> str:
    """What to add to an error about the syntax of a text with parentheses that are left open, or were never opened."""
    read = tokens(text) if message.startswith("syntax error") else ()
    depth = sum(token.says("(") - token.says(")") for token in read)
    if not depth:
        return ""
    count = abs(depth)
    return f"; found {count} {'(' if depth > 0 else ')'} more than {')' if depth > 0 else '('}"


def nodes(tree: Any) -> Iterator[Node]:
    """All nodes of a tree that are of some class or type, each before those inside of it."""
    waiting = [tree]  # trees are looked through again and again, so neither recursion nor isinstance
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            if "type" in value:
                yield value
            waiting += [each for each in reversed(value.values()) if type(each) in _INNER and each]
        elif type(value) is list:
            waiting += reversed(value)


def frozen(node: Node) -> bytes:
    """A node as bytes that only nodes have that are equal; ``marshal.loads`` makes another one of them."""
    try:
        return marshal.dumps(node, 2)  # later versions tell which objects were the same
    except ValueError as error:
        raise RecursionError(str(error)) from None


def rename_variables(tree: Node) -> None:
    """Give variables of list comprehensions names that no column has.

    ``[x FOR x IN ... IF ...]`` is printed with ``result := x``, where DuckDB takes a column x before a variable.
    """
    for node in list(nodes(tree)):
        if node.get("class") == "LAMBDA" and node["lhs"].get("class") == "COLUMN_REF":
            variable = node["lhs"]["column_names"][0]
            inside = [each for each in nodes(node) if each.get("class") == "COLUMN_REF"]
            own = [each for each in inside if each["column_names"][0].lower() == variable.lower()]
            for each in own if any(_is_argument(call, variable) for call in nodes(node["expr"])) else ():
                each["column_names"][0] = f"#{variable}"


def _is_argument(call: Node, variable: str) -> bool:
    """Whether a variable itself is a named argument of a call, as only the parser writes it."""
    return call.get("class") == "FUNCTION" and any(
        each["name"] and not each["expression"]["alias"] and each["expression"].get("column_names") == [variable]
        for each in call["arguments"]
    )


def put(node: Node, other: Node) -> None:
    """Put a node in the place of another, under its name."""
    become(node, copy.deepcopy(other))


def put_value(node: Node, value: Node) -> None:
    """Put the value of a parameter in its place; all of it stands there."""
    own: Node = {key: node[key] for key in LOCATIONS if key in node}
    put(node, value)
    for each in nodes(node):
        if "query_location" in each:
            each.update(own)


def become(node: Node, other: Node) -> None:
    """Put a node that stands nowhere else in the place of another, under its name."""
    alias = node.get("alias", "")
    node.clear()
    node.update(other)
    node["alias"] = alias


def place(node: Node, text: str) -> int | None:
    """Where the text of a node begins, in characters; None if it has no place."""
    location = node.get("query_location", NOWHERE)
    return None if location == NOWHERE else characters(text, location)


def beginning(node: Node) -> Node:
    """The node whose text begins first, of one and those inside of it."""
    return min(nodes(node), key=lambda each: each.get("query_location", NOWHERE))


def extent(node: Node, text: str) -> str:
    """The text of a node whose place is known as a whole: a function call, a column, a constant."""
    content = text.encode()
    start = node["query_location"]
    return content[start : start + node["query_location_length"]].decode(errors="replace")


def characters(text: str, offset: int) -> int:
    """An offset in bytes, as DuckDB counts them, in characters."""
    return len(text.encode()[:offset].decode(errors="replace"))


def same(one: Any, other: Any) -> bool:
    """Whether two nodes say the same, wherever they stand."""
    return bool(_without_places(one) == _without_places(other))


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_places(each) for name, each in value.items() if name not in (*LOCATIONS, "alias")}
    if isinstance(value, list):
        return [_without_places(each) for each in value]
    return value


def own_nodes(node: Any) -> Iterator[Node]:
    """The nodes of a SELECT, without those of queries inside of it."""
    if isinstance(node, list):
        for each in node:
            yield from own_nodes(each)
    elif isinstance(node, dict) and node.get("type") not in ("SUBQUERY", "SET_OPERATION_NODE"):
        if "type" in node:
            yield node
        for name, value in node.items():
            if name != "cte_map":
                yield from own_nodes(value)
