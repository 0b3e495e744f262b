"""What to do about messages of DuckDB that only say what is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from tidelog.model.errors import did_you_mean
from tidelog.sql.text.tokens import Token, tokens

ELSEWHERE: Final[Mapping[str, str]] = {
    "date_format": "strftime(ts, '%Y-%m-%d')",
    "dateadd": "ts + INTERVAL 1 DAY",
    "derivative": "x - lag(x) OVER (ORDER BY ts)",
    "getdate": "now()",
    "isnull": "x IS NULL, or coalesce(x, y)",
    "match_sequence_number": "RUNNING count(*)",
    "nvl": "coalesce(x, y)",
    "percentile": "quantile_cont(x, 0.95)",
    "spread": "max(x) - min(x)",
    "stdev": "stddev(x)",
    "sysdate": "now()",
    "to_char": "strftime(ts, '%Y-%m-%d')",
    "to_date": "strptime(x, '%Y-%m-%d')::DATE",
    "top": "LIMIT n at the end",
}
"""What functions of other databases are here."""

_NUMBER: Final = r"(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|INTEGER_LITERAL|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\))"
_TIME: Final = r"(?:DATE|TIMESTAMP[\w ]*)"
_ADVICE: Final = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            rf"compare values of type (?:{_TIME} and type {_NUMBER}|{_NUMBER} and type {_TIME})"
            rf"|cast \((?:{_TIME} -> {_NUMBER}|{_NUMBER} -> {_TIME})\)",
            "a time is written '2026-01-01 08:00'; epoch(ts) makes seconds of one, to_timestamp(n) one of seconds",
        ),
        (
            rf"types '(?:time_bucket|date_trunc)\(.*, {_NUMBER}\)'",
            "times that are numbers are put into buckets by t // width * width",
        ),
        (
            r'call "time_bucket\((?:INTERVAL|STRING_LITERAL), TIMESTAMP, STRING_LITERAL\)"',
            "a zone is for times that have one, as in time_bucket(width, ts AT TIME ZONE 'UTC', 'Europe/Berlin')",
        ),
        (
            rf"call \"[-+]\({_TIME}, STRING_LITERAL\)\"|types '[-+]\({_TIME}, {_NUMBER}\)'",
            "a length of time is written INTERVAL '1 day', or INTERVAL 5 SECOND",
        ),
        (
            rf"types '(?:first|last)\(.*, {_TIME}\)'",
            "arg_min(x, ts) is that of the first event, arg_max(x, ts) that of the last",
        ),
        (r"FROM clause is missing", "a text is written in single quotes"),
        (r"[Ww]indow functions are not supported here", "it takes OVER, as in lag(x) OVER (ORDER BY ts)"),
        (r"Unknown ordered aggregate", "the order stands inside of the call, as in string_agg(x, ',' ORDER BY ts)"),
        (r"Missing ASOF JOIN inequality", "times are compared by >= or the like, as in a.ts >= b.ts"),
    )
)
_NO_COLUMN: Final = re.compile(r'column "([^"]+)" not found')
_NO_UNIT: Final = re.compile(r'extract specifier "([^"]+)" not recognized')
_PARTS: Final = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade",
    "century", "dayofweek", "isodow", "dayofyear", "epoch", "yearweek",
)  # fmt: skip
_CANDIDATES: Final = "\n\tCandidate functions"
_CASTS: Final = ". You might need to add explicit type casts."
"""Words of DuckDB that help less than advice does."""
_LENGTH: Final = re.compile(r"\d+(?:ns|us|ms|s|sec|m|min|h|hour|hours|d|day|days|w|week|weeks)")
"""What other databases write for a length of time."""
_UNITS: Final = frozenset({"second", "minute", "hour", "day", "week", "month", "quarter", "year"})
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "JOIN", "UNION",
    "EXCEPT", "INTERSECT", "BETWEEN", "DISTINCT", "DESC", "FILTER", "PARTITION", "VALUES", "USING", "INTERVAL",
)  # fmt: skip
_CLAUSE: Final = "MATCH_RECOGNIZE"
"""Which is followed by a parenthesis."""
_LIKENESS: Final = 0.75
_SHORTEST: Final = 3


def advised(message: str, text: str, place: int | None) -> str:
    """A message about a place of a statement, with what to do at its end if that is known."""
    found = _advice(message, text, place)
    if found is None:
        return message
    return f"{message.partition(_CANDIDATES)[0].removesuffix(_CASTS).removesuffix('.')}; {found}"


def _advice(message: str, text: str, place: int | None) -> str | None:
    if message.startswith("syntax error"):
        return None if place is None else _of_syntax(text, place)
    unit = _NO_UNIT.search(message)
    if unit is not None:
        return did_you_mean(unit[1].lower().removesuffix("s"), _PARTS)
    missing = _NO_COLUMN.search(message)
    if missing is not None:
        name = missing[1]
        if name.lower() in _UNITS:
            return f"a unit of time is a text, {name.lower()!r}"
        if f'"{name}"' in text:
            return "a text is written in single quotes, '" + name.replace("'", "''") + "'"
        return None
    return next((advice for pattern, advice in _ADVICE if pattern.search(message)), None)


def _of_syntax(text: str, place: int) -> str | None:
    """What was meant where the parser gave up, or by the word before."""
    known = tokens(text)
    at = next((number for number, token in enumerate(known) if token.start >= place), len(known))
    near = [each for each in (*known[at : at + 1], *known[max(at - 1, 0) : at]) if each.kind == "word"]
    if (at < len(known) and known[at].says(":", "{", "%")) or (near and near[-1].text == "$"):
        return "a parameter is written ?, or $name"
    if _is_past(known, at):
        return "the past of a stream is AT (VERSION => n) behind its name and alias: FROM s AS a AT (VERSION => 5)"
    if any(_LENGTH.fullmatch(each.text) for each in known[max(at - 1, 0) : at + 1]):
        return "a length of time is written INTERVAL '1 hour', or INTERVAL 5 SECOND"
    if any(each.says("TOP") for each in near):
        return "the first rows are LIMIT n, at the end"
    if at > 1 and known[at - 1].says("(") and _is_like(known[at - 2], _CLAUSE):
        return f"did you mean {_CLAUSE!r}?"
    return next((f"did you mean {found!r}?" for each in near if (found := _meant(each)) is not None), None)


def _is_past(known: Sequence[Token], at: int) -> bool:
    """Whether it is about ``AT`` that the parser gave up: in front of it, inside of it, or right behind it."""
    near = known[max(at - 2, 0) : at + 2]
    if any(one.says("AT") and other.says("(", "VERSION") for one, other in pairwise(near)):
        return True
    behind = known[max(at - 6, 0) : at]
    return len(behind) == 6 and behind[0].says("AT") and behind[2].says("VERSION") and behind[5].says(")")


def _is_like(token: Token, word: str) -> bool:
    return bool(difflib.get_close_matches(token.text.upper(), [word], cutoff=_LIKENESS))


def _meant(token: Token) -> str | None:
    word = token.text.upper()
    if word in _WORDS or len(word) < _SHORTEST:
        return None
    close = difflib.get_close_matches(word, _WORDS, n=1, cutoff=_LIKENESS)
    return close[0] if close else None
