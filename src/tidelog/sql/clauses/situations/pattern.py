"""``PATTERN a overlaps | meets b AND b before c``: constraints, from tokens to what they mean."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import did_you_mean
from tidelog.operators.situations.relations import FINISHED_BY, FINISHES, NAMES
from tidelog.sql.clauses.cutting import ClauseText
from tidelog.sql.text.tokens import Token
from tidelog.sql.text.tree import Node

_THESIS: Final = {**NAMES, "finishes": FINISHED_BY, "finished by": FINISHES}
"""What relations are called in the thesis that patterns of situations come from: there the one that finishes another
starts first."""


_WORDS: Final = tuple(name.partition(" ")[0].upper() for name in NAMES)
"""What the names of relations begin with."""
_BEHIND: Final = ("PARTITION", "ORDER", "DEFINE", "PATTERN", "WITHIN", "RETURN", "MODE", "RELATIONS", "WHERE")
_ALTERNATIVES: Final = "alternatives of relations stand between |, as in A before | meets B"


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
    token = reader.peek()
    if token is not None and token.says(",", "/"):
        raise reader.error(f"found {token.text} behind {relations[-1]}; {_ALTERNATIVES}")
    if token is None:
        raise reader.error(
            f"found the end behind {relations[-1]}; expected the name of a situation. A semicolon ends the statement: "
            f"{_ALTERNATIVES}"
        )
    second = _name(reader)
    _check_behind(reader, relations[-1], token)
    return {"first": first, "relations": relations, "second": second, "query_location": place}


def _check_behind(reader: ClauseText, relation: str, second: Token) -> None:
    """Raise where it can be seen that a constraint does not end with what was read as its second situation."""
    token = reader.peek()
    if token is None or token.says("AND"):
        return
    if token.says("|", "OR", ","):
        raise reader.error(
            f"found {token.text} behind a constraint; constraints are joined by AND, and {_ALTERNATIVES}"
        )
    names_relation = token.text.upper() in _WORDS
    if second.says("OR", *_WORDS) and (names_relation or not _ends(token)):
        raise reader.wrong(f"found {second.text} behind {relation}; {_ALTERNATIVES}", second.start)
    if names_relation:
        raise reader.error(
            f"found {token.text} behind a constraint, which is about two situations; expected AND and another one, as "
            "in A before B AND B before C"
        )
    if not _ends(token):
        raise reader.wrong(
            f"found {second.text} behind {relation}; expected the name of a situation, or | and another relation",
            second.start,
        )


def _ends(token: Token) -> bool:
    """Whether what stands behind a constraint may be about something else."""
    return token.kind not in ("word", "name") or token.says(*_BEHIND)


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
