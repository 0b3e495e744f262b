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
    "add_retention_policy": "ALTER STREAM s SET (retention = '90d')",
    "create_hypertable": "CREATE STREAM s (ts TIMESTAMP, ...)",
    "cumulative_sum": "sum(x) OVER (ORDER BY ts)",
    "date_format": "strftime(ts, '%Y-%m-%d')",
    "dateadd": "ts + INTERVAL 1 DAY",
    "derivative": "x - lag(x) OVER (ORDER BY ts)",
    "difference": "x - lag(x) OVER (ORDER BY ts)",
    "drop_chunks": "DELETE FROM s WHERE ts < ...",
    "elapsed": "ts - lag(ts) OVER (ORDER BY ts)",
    "getdate": "now()",
    "hop": "GROUP BY window(ts, size, slide)",
    "isnull": "x IS NULL, or coalesce(x, y)",
    "match_sequence_number": "RUNNING count(*)",
    "moving_average": "avg(x) OVER (ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)",
    "nvl": "coalesce(x, y)",
    "percentile": "quantile_cont(x, 0.95)",
    "spread": "max(x) - min(x)",
    "stdev": "stddev(x)",
    "sysdate": "now()",
    "to_char": "strftime(ts, '%Y-%m-%d')",
    "to_date": "strptime(x, '%Y-%m-%d')::DATE",
    "top": "LIMIT n at the end",
    "tumble": "GROUP BY window(ts, size)",
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
            r"types 'time_bucket\((?!INTERVAL|STRING_LITERAL)",
            "the width comes first, and is a length of time, as in time_bucket(INTERVAL '1 hour', ts)",
        ),
        (r"types 'date_trunc\((?!STRING_LITERAL|VARCHAR)", "the unit comes first, as in date_trunc('hour', ts)"),
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
        (r'call "[-+*/]\([^"]*STRING_LITERAL', "a column is written without quotes, or in double quotes"),
        (r"types 'count\(.*, ", "rows that differ in several columns are count(DISTINCT (a, b))"),
        (r"types 'date_?diff\((?!STRING_LITERAL|VARCHAR)", "the unit comes first, as in datediff('hour', ts, now())"),
        (r"WHERE clause cannot contain aggregates", "conditions of groups are said by HAVING, behind GROUP BY"),
        (r"WHERE clause cannot contain window", "conditions of these are said by QUALIFY, at the end"),
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
_CLAUSES: Final = ("FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT")
"""As they follow each other."""
_HALVES: Final = (
    "SELECT", "FROM", "JOIN", "ON", "WHERE", "BY", "HAVING", "QUALIFY", "LIMIT", "AND", "OR", "NOT", "IN", "LIKE",
    "BETWEEN", "WHEN", "THEN", "AS", "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", ",",
)  # fmt: skip
"""What nothing can end with."""
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "JOIN", "UNION",
    "EXCEPT", "INTERSECT", "BETWEEN", "DISTINCT", "DESC", "FILTER", "PARTITION", "VALUES", "USING", "INTERVAL",
)  # fmt: skip
_CLAUSE: Final = "MATCH_RECOGNIZE"
"""Which is followed by a parenthesis."""
PAST: Final = "the past of a stream is AT (VERSION => n) behind its name and alias: FROM s AS a AT (VERSION => 5)"
_LIKENESS: Final = 0.75
_SHORTEST: Final = 3


def advised(message: str, text: str, place: int | None) -> str:
    """A message about a place of a statement, with what to do at its end if that is known."""
    found = _advice(message, text, place)
    if found is None:
        return message
    return f"{message.partition(_CANDIDATES)[0].removesuffix(_CASTS).rstrip('.!')}; {found}"


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
        if name.lower() in ("nan", "inf", "infinity"):
            return f"it is written '{name}'::DOUBLE; isnan(x) and isinf(x) find it"
        if name.lower() == "_stream":
            return "it is a column of streams('pattern')"
        if f'"{name}"' in text:
            return "a text is written in single quotes, '" + name.replace("'", "''") + "'"
        return None
    if message.startswith("Chained comparisons") and "&&" in text:
        return "conditions are put together by AND, not by &&"
    return next((advice for pattern, advice in _ADVICE if pattern.search(message)), None)


def _of_syntax(text: str, place: int) -> str | None:
    """What was meant where the parser gave up, or by the word before."""
    known = tokens(text)
    at = next((number for number, token in enumerate(known) if token.start >= place), len(known))
    habit = next((found for of_habit in _HABITS if (found := of_habit(known, at)) is not None), None)
    if habit is not None:
        return habit
    near = [each for each in (*known[at : at + 1], *known[max(at - 1, 0) : at]) if each.kind == "word"]
    if (at < len(known) and known[at].says(":", "{", "%")) or (near and near[-1].text == "$"):
        return "a parameter is written ?, or $name"
    if _is_past(known, at):
        return PAST
    if any(_LENGTH.fullmatch(each.text) for each in known[max(at - 1, 0) : at + 1]):
        return "a length of time is written INTERVAL '1 hour', or INTERVAL 5 SECOND"
    if any(each.says("TOP") for each in near):
        return "the first rows are LIMIT n, at the end"
    if at > 1 and known[at - 1].says("(") and _is_like(known[at - 2], _CLAUSE):
        return f"did you mean {_CLAUSE!r}?"
    meant = next((f"did you mean {found!r}?" for each in near if (found := _meant(each)) is not None), None)
    if meant is None and at == len(known) - 1 and known[at].says(*_HALVES):
        return "something is missing behind it"
    return meant


def _says(known: Sequence[Token], at: int, *words: str) -> bool:
    return 0 <= at < len(known) and known[at].says(*words)


def _of_text(known: Sequence[Token], at: int) -> str | None:
    if _says(known, at, "%") and _says(known, at - 2, "LIKE", "ILIKE"):
        return f"a text is written in single quotes, '{known[at - 1].text}%'"
    if _says(known, at, "/") and _says(known, at - 1, "~"):
        return "a regular expression is a text, as in regexp_matches(x, '^h.*')"
    return None


def _of_name(known: Sequence[Token], at: int) -> str | None:
    if _says(known, at, "/", "-") and _says(known, at - 2, "FROM", "JOIN", "INTO") and at + 1 < len(known):
        name = "".join(each.text for each in known[at - 1 : at + 2])
        return f'a name with other characters than letters is written in double quotes, "{name}"'
    if _says(known, at - 1, "STREAM") and _says(known, at - 2, "DESCRIBE", "SUMMARIZE"):
        return f"the name follows {known[at - 2].text.upper()}"
    return None


def _of_other_pasts(known: Sequence[Token], at: int) -> str | None:
    is_as_of = _says(known, at, "AS") and _says(known, at + 1, "OF")
    is_of_system = _says(known, at, "FOR") and _says(known, at + 1, "SYSTEM_TIME", "SYSTEM_VERSION", "VERSION")
    is_equal = _says(known, at, "=") and _says(known, at - 1, "VERSION")
    is_selected = any(_says(known, number, "SELECT") and _says(known, number + 1, "AT") for number in range(at))
    return PAST if is_as_of or is_of_system or is_equal or is_selected else None


def _of_clause(known: Sequence[Token], at: int) -> str | None:
    """Clauses that are out of order, or there twice."""
    if not _says(known, at, *_CLAUSES):
        return None
    own = known[at].text.upper()
    depth = 0
    for token in reversed(known[:at]):
        depth += token.says(")") - token.says("(")
        if depth < 0 or (depth == 0 and token.says("SELECT", "UNION", "EXCEPT", "INTERSECT")):
            return None
        if depth or not token.says(*_CLAUSES):
            continue
        other = token.text.upper()
        if other == own == "WHERE":
            return "there is one WHERE; conditions are put together by AND"
        if _CLAUSES.index(other) > _CLAUSES.index(own):
            return f"{_clause(own)} stands before {_clause(other)}"
    return None


def _clause(word: str) -> str:
    return f"{word} BY" if word in ("GROUP", "ORDER") else word


def _of_join(known: Sequence[Token], at: int) -> str | None:
    """A join that ends, or goes on with another clause, without a condition."""
    if at != len(known) - 1 and not _says(known, at, *_CLAUSES, "JOIN"):
        return None
    begin = next((number for number in range(at - 1, max(at - 5, 0), -1) if known[number].says("JOIN")), None)
    if begin is None or any(each.says("ON", "USING", "(") for each in known[begin:at]):
        return None
    return "JOIN takes a condition, ON a.x = b.x or USING (x)"


def _of_others(known: Sequence[Token], at: int) -> str | None:
    if _says(known, at, "FILL") or _says(known, at - 2, "FILL"):
        return "empty buckets come of GROUP BY time_bucket_gapfill(width, ts), values in them of locf and interpolate"
    if _says(known, at - 1, "ON") and _says(known, at - 2, "DISTINCT"):
        return "it takes parentheses, DISTINCT ON (a, b)"
    if _says(known, at, "RETURNING"):
        return "INSERT tells the number of rows, and nothing else"
    if _says(known, at, "ON") and _says(known, at + 1, "CONFLICT"):
        return "events are added beside those that are there, without conflicts"
    return None


_HABITS: Final = (_of_text, _of_name, _of_other_pasts, _of_clause, _of_join, _of_others)
"""What is written elsewhere, or often by mistake; each of these knows some of it."""


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
