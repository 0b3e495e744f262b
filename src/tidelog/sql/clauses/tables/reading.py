"""How ``TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset])``, ``HOP`` and ``SESSION`` are read: as Flink has them."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.sql.clauses.cutting import ClauseText, Syntax
from tidelog.sql.clauses.joins.reading import descriptor
from tidelog.sql.clauses.window_arguments import FUNCTIONS
from tidelog.sql.text.tree import Node, Parser

_LENGTHS: Final = {"TUMBLE": ("SIZE", "OFFSET"), "HOP": ("SLIDE", "SIZE", "OFFSET"), "SESSION": ("GAP",)}
"""The arguments behind the table and its time, in their order."""
WORDS: Final = tuple(_LENGTHS)
_OPTIONAL: Final = "OFFSET"


def _read(word: str, text: ClauseText) -> Node:
    """``inputs`` (one), ``keys``, ``time`` (a column) and ``lengths`` by name, all of them nodes."""
    names = ("DATA", "TIMECOL", *_LENGTHS[word])
    found: dict[str, Any] = {}
    keys: list[Node] = []
    while True:
        place = text.place
        name = names[len(found)] if len(found) < len(names) else None
        following = text.peek(1)
        if following is not None and following.says("=>"):
            name = text.name("an argument").upper()
            text.expect("=>")
            if name not in names:
                raise text.wrong(f"found {name}; {did_you_mean(name, names)}", place)
            if name in found:
                raise text.wrong(f"found {name} twice; give it once", place)
        if name is None or name in found:
            raise text.wrong(f"found more arguments of {word} than {', '.join(names)}", place)
        if name == "DATA":
            found[name], keys = _table(text)
        elif name == "TIMECOL":
            if not text.comes("DESCRIPTOR"):
                raise text.error("expected DESCRIPTOR and the column of the time in parentheses")
            found[name] = descriptor(text)
        else:
            found[name] = text.expression(f"the {name.lower()} of the windows", ",")
        if not text.accept(","):
            break
    for name in names:
        if name not in found and name != _OPTIONAL:
            raise text.error(f"found {word} without {name}; expected {word}({_usage(word)})")
    lengths = {name.lower(): found[name] for name in _LENGTHS[word] if name in found}
    return {"inputs": [found["DATA"]], "keys": keys, "time": found["TIMECOL"], "lengths": lengths}


def _usage(word: str) -> str:
    return f"TABLE t, DESCRIPTOR(time), {', '.join(each.lower() for each in _LENGTHS[word])}"


def _table(text: ClauseText) -> tuple[Node, list[Node]]:
    """The relation, and the columns that it is partitioned by."""
    if not text.accept("TABLE") and not text.comes("("):
        raise text.error("expected TABLE and the name of a table, or a query in parentheses")
    relation = text.relation("a table", ",", "PARTITION")
    keys: list[Node] = []
    if not text.accept("PARTITION", "BY"):
        return relation, keys
    while True:
        place = text.place
        key = text.expression("a column", ",")
        if key.get("class") != "COLUMN_REF":
            raise text.wrong("expected PARTITION BY and the names of columns", place)
        keys.append(key)
        # More keys and the next argument both stand behind a comma.
        after = text.peek(1), text.peek(2)
        ends = after[0] is None or after[0].says("DESCRIPTOR") or (after[1] is not None and after[1].says("=>"))
        if ends or not text.accept(","):
            return relation, keys


SYNTAXES: Final = tuple(Syntax(word, partial(_read, word), starts=("TABLE", "DATA", "(")) for word in WORDS)


def window_call(clause: Node, parser: Parser) -> Node:
    """The call in GROUP BY that means the windows of a clause."""
    lengths, word = clause["lengths"], clause["word"]
    if word == "SESSION":
        call = parser.expression("session_window(a, b)")
        arguments = [clause["time"], lengths["gap"]]
    else:
        call = parser.expression(f"{FUNCTIONS[0]}(a, b, c)")
        arguments = [clause["time"], lengths["size"], lengths.get("slide", lengths["size"])]
    for argument, node in zip(call["arguments"], arguments, strict=True):
        argument["expression"] = copy.deepcopy(node)
    if "offset" in lengths:
        call["arguments"].append({"name": "origin", "expression": _origin(lengths["offset"], parser)})
    call.update(query_location=clause["query_location"], word=word)
    return call


def _origin(offset: Node, parser: Parser) -> Node:
    """The time that is an offset behind the epoch; the number itself for clocks of integers."""
    if offset.get("literal", {}).get("kind") == "INTEGER":
        return copy.deepcopy(offset)
    origin = parser.expression("TIMESTAMP '1970-01-01' + CAST(a AS INTERVAL)")
    cast = origin["arguments"][1]["expression"]
    cast["child"] = copy.deepcopy(offset)
    return origin
