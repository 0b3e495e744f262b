"""Lengths of time as queries about situations write them: ``5s``, ``5 minutes``, ``10 ticks``, or what SQL has.

Those with units are nodes of the type :data:`LENGTH`; all others are expressions, which DuckDB computes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tidelog.model.errors import did_you_mean
from tidelog.model.times.clock import INT64_MAX, Clock
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.cutting import ClauseText
from tidelog.sql.clauses.situations.advice import OTHER_ROWS, comma_before
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import Token
from tidelog.sql.text.tree import Node, beginning

LENGTH: Final = "LENGTH"
_TICK: Final = "tick"
_UNITS: Final = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
    **dict.fromkeys((_TICK, "ticks"), _TICK),
}
"""Units, by what they may be called."""
_PART: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]+)\s*")


def is_length(found: Sequence[Token]) -> bool:
    """Whether tokens say a length of time that is told from a number or a text."""
    if not found:
        return False
    return found[0].says("INTERVAL") or _parts(_written(found)) is not None


def length_at(reader: ClauseText, found: Sequence[Token], what: str) -> Node:
    """The node of a length that some tokens say."""
    parts = _parts(_written(found))
    if parts is not None:
        return {"type": LENGTH, "parts": parts, "query_location": reader.offset(found[0].start)}
    for number in range(1, len(found)):
        if found[number].kind == "word" and _parts(_written(found[:number])) is not None:
            raise _behind(reader, found[number:])
    if found[0].says("-") and _parts(_written(found[1:])) is not None:
        raise reader.wrong(f"found a length below zero; expected {what}, as in 5s", found[0].start)
    if len(found) == 2 and found[0].kind == "number" and found[1].kind == "word":
        unit = found[1].text
        if unit.lower() in _UNITS:
            raise reader.wrong(f"found {found[0].text} {unit}; expected digits, as in 5 {unit}", found[0].start)
        raise reader.wrong(f"found the unit {unit}; {did_you_mean(unit.lower(), list(_UNITS))}", found[1].start)
    if len(found) > 1 and not found[0].says("INTERVAL") and all(each.kind == "word" for each in found):
        raise reader.wrong(f"found {_written(found)}; expected {what}, as in 5s or 10 ticks", found[0].start)
    return reader.expression_at(found[0].start, found[-1].end, what)


def _behind(reader: ClauseText, rest: Sequence[Token]) -> SqlError:
    """What to say of words behind a length that are no units."""
    token = rest[0]
    text = token.text
    if len(rest) > 1 and rest[1].says("AS"):
        return comma_before(reader, token)
    if token.says("EARLY", "COMPLETED"):
        told = f"expected MODE {text}"
    elif token.says("ALLEN", "THESIS"):
        told = f"expected RELATIONS {text}"
    elif token.says("AND"):
        told = "a situation has one bound, of AT LEAST, AT MOST and BETWEEN 5s AND 9s"
    elif token.says("WHERE"):
        told = OTHER_ROWS
    else:
        told = f"expected a unit, or what {reader.word} goes on with; {did_you_mean(text.lower(), list(_UNITS))}"
    return reader.wrong(f"found {text} behind a length; {told}", token.start)


def ticks_of(node: Node, clock: Clock, constants: Constants) -> int:
    """A length in ticks of a clock. Raises what the constants' ``refuse`` makes for what is none."""
    written = node.get("literal") or {}
    if clock.unit is not None and written.get("kind") == "INTEGER":
        number = written["text"]
        raise constants.refuse(f"of {number} without a unit; expected one, as in {number}s or {number} ticks", node)
    if node["type"] != LENGTH:
        return constants.ticks(constants.length(node, clock), clock, beginning(node))
    total = 0
    for number, unit in node["parts"]:
        total += _ticks(number, unit, clock, constants, node)
    if total > INT64_MAX:
        raise constants.refuse(f"of {total} ticks; at most {INT64_MAX} can be", node)
    return total


def _ticks(number: str, unit: str, clock: Clock, constants: Constants, node: Node) -> int:
    if unit == _TICK:
        if not number.isdigit():
            raise constants.refuse(f"of {number} ticks; expected a whole number of them", node)
        return int(number)
    if clock.unit is None:
        raise constants.refuse(
            f"of {number}{unit}, and the times here are plain integers; expected a number of ticks, as in 10 ticks",
            node,
        )
    return clock.duration(f"{number.removesuffix('.')}{unit}")


def _written(found: Sequence[Token]) -> str:
    if len(found) == 1 and found[0].kind == "text":
        return found[0].value
    if all(each.kind in ("number", "word") for each in found):
        return " ".join(each.text for each in found)
    return ""


def _parts(text: str) -> list[list[str]] | None:
    """Numbers and units, one after the other; None if a text is anything else."""
    found, at = [], 0
    while match := _PART.match(text, at):
        unit = _UNITS.get(match[2].lower())
        if unit is None:
            return None
        found.append([match[1], unit])
        at = match.end()
    return found if found and at == len(text) else None
