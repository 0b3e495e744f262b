"""How ``WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => ..., LEFT => ..., RIGHT => ...)`` is read."""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.sql.clauses.cutting import ClauseText, Syntax
from tidelog.sql.text.tree import Node

_OPTIONS: Final = ("ON", "LEFT", "RIGHT", "TIME", "COMPLETE_ONLY")


def _read(text: ClauseText) -> Node:
    """``inputs``, ``on``, ``windows`` (expressions of sizes and slides, and whether they count rows), and options."""
    inputs = [read_side(text)]
    text.expect(",")
    inputs.append(read_side(text))
    found: dict[str, Any] = {}
    while text.accept(","):
        place = text.place
        name = text.name("an argument").upper()
        if name not in _OPTIONS:
            raise text.wrong(f"found {name}; {did_you_mean(name, _OPTIONS)}", place)
        if name.lower() in found:
            raise text.wrong(f"found {name} twice; give it once", place)
        text.expect("=>")
        if name in ("LEFT", "RIGHT"):
            found[name.lower()] = _window(text)
        elif name == "TIME":
            found["time"] = text.name("the name of the column with the later time")
        else:
            found[name.lower()] = text.expression("a condition" if name == "ON" else "true or false", ",")
    for name in ("LEFT", "RIGHT"):
        if name.lower() not in found:
            raise text.error(f"found WINDOW_JOIN without {name} => ...; expected the window of each side")
    return {
        "inputs": inputs,
        "on": found.get("on"),
        "windows": [found["left"], found["right"]],
        "time": found.get("time"),
        "complete_only": found.get("complete_only"),
    }


def read_side(text: ClauseText) -> Node:
    """A relation, and the column of its time if that is told."""
    if not text.accept("TABLE") and not text.comes("("):
        raise text.error("expected TABLE and the name of a table, or a query in parentheses")
    relation = text.relation("a table", ",", "DESCRIPTOR")
    return {"type": "INPUT", "relation": relation, "time": descriptor(text) if text.comes("DESCRIPTOR") else None}


def descriptor(text: ClauseText) -> Node:
    """``DESCRIPTOR(column)``."""
    text.expect("DESCRIPTOR", "(")
    place = text.place
    column = text.expression("the name of a column", ",")
    if column.get("class") != "COLUMN_REF" or len(column["column_names"]) > 2:
        raise text.wrong("expected the name of a column", place)
    text.expect(")")
    return column


def _window(text: ClauseText) -> Node:
    size = text.expression("a length, or a number of ROWS", ",", "SLIDE", "ROWS", "ROW")
    rows = text.accept("ROWS") or text.accept("ROW")
    slide = text.expression("by how much the window moves", ",", "ROWS", "ROW") if text.accept("SLIDE") else None
    if slide is not None and rows:
        text.accept("ROWS")
    return {"type": "JOIN_WINDOW", "size": size, "slide": slide, "rows": rows}


SYNTAX: Final = Syntax("WINDOW_JOIN", _read, starts=("TABLE", "("))
