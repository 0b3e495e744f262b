"""``PATTERN a overlaps | meets b AND b before c``: constraints, from tokens to what they mean."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import did_you_mean
from tidelog.operators.situations.relations import FINISHED_BY, FINISHES, NAMES
from tidelog.sql.clauses.cutting import ClauseText
from tidelog.sql.text.tree import Node

_THESIS: Final = {**NAMES, "finishes": FINISHED_BY, "finished by": FINISHES}
"""What relations are called in the thesis that patterns of situations come from: there the one that finishes another
starts first."""


def read_pattern(reader: ClauseText) -> list[Node]:
    """Read constraints that are joined by AND. Raises :class:`SqlError` for what is none."""
    found = [_constraint(reader)]
    while reader.accept("AND"):
        found.append(_constraint(reader))
    return found


def _constraint(reader: ClauseText) -> Node:
    place = reader.offset(reader.place)
    first = _name(reader)
    relations = [_relation(reader)]
    while reader.accept("|"):
        relations.append(_relation(reader))
    second = _name(reader)
    if reader.peek_text() == "|":
        raise reader.error("found | behind a constraint; alternatives stand between two names: a starts | during b")
    return {"first": first, "relations": relations, "second": second, "query_location": place}


def _name(reader: ClauseText) -> Node:
    place = reader.offset(reader.place)
    return {"query_location": place, "name": reader.name("the name of a situation")}


def _relation(reader: ClauseText) -> str:
    for name in NAMES:
        if reader.accept(*name.upper().split()):
            return name
    token = reader.peek()
    text = reader.peek_text()
    if token is not None and token.says("MET", "OVERLAPPED", "STARTED", "FINISHED"):
        raise reader.error(f"found {text}; expected {text.lower()} by")
    meant = did_you_mean(text.lower(), list(NAMES))
    known = meant if meant.startswith("did") else f"expected one of {', '.join(NAMES)}"
    raise reader.error(f"found {text} as a relation of situations; {known}")


def mask_of_relations(names: list[str], dialect: str) -> int:
    """The relations that are called so."""
    known = _THESIS if dialect == "THESIS" else NAMES
    found = 0
    for name in names:
        found |= known[name]
    return found
