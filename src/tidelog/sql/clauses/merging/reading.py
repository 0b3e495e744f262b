"""How ``LOGICAL_MERGE(TABLE a, TABLE b, ... [, KEY => (k), DELAY => ...])`` is read."""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.sql.clauses.cutting import ClauseText, Syntax
from tidelog.sql.clauses.joins.reading import read_side
from tidelog.sql.text.tree import Node

WORD: Final = "LOGICAL_MERGE"
_OPTIONS: Final = {
    "KEY": "columns that tell events of one time apart",
    "DELAY": "a length of time",
    "ALGORITHM": "the name of an algorithm, as a text",
    "POLICY": "the name of a policy, as a text",
    "OUTPUT": "'events' or 'elements'",
}


def _read(text: ClauseText) -> Node:
    """``inputs``, ``key`` (names of columns, none for all, and where they stand; or None) and ``options`` by name."""
    inputs = [read_side(text)]
    found: dict[str, Any] = {}
    key: Node | None = None
    while text.accept(","):
        following = text.peek(1)
        if following is None or not following.says("=>"):
            if found or key is not None:
                raise text.error("found a table behind options; expected tables first")
            inputs.append(read_side(text))
            continue
        place = text.place
        name = text.name("an option").upper()
        if name not in _OPTIONS:
            raise text.wrong(f"found {name}; {did_you_mean(name, _OPTIONS)}", place)
        if name.lower() in found or (name == "KEY" and key is not None):
            raise text.wrong(f"found {name} twice; give it once", place)
        text.expect("=>")
        if name == "KEY":
            key = _key(text)
        else:
            found[name.lower()] = text.expression(_OPTIONS[name], ",")
    return {"inputs": inputs, "key": key, "options": found}


def _key(text: ClauseText) -> Node:
    """``*``, a column, or columns in parentheses."""
    node: Node = {"type": "MERGE_KEY", "names": [], "query_location": text.offset(text.place)}
    if text.accept("*"):
        return node
    if not text.accept("("):
        node["names"].append(text.name("a column, columns in parentheses, or *"))
        return node
    while True:
        node["names"].append(text.name("a column"))
        if not text.accept(","):
            break
    text.expect(")")
    return node


SYNTAX: Final = Syntax(WORD, _read, starts=("TABLE", "("))
