"""The parts of ``MATCH_RECOGNIZE (...)``, read in the order in which they stand.

::

    [PARTITION BY expression, ...]
    [ORDER BY expression [ASC | DESC] [NULLS FIRST | LAST], ...]
    [MEASURES [RUNNING | FINAL] expression AS name, ...]
    [ONE ROW PER MATCH | ALL ROWS PER MATCH [SHOW EMPTY MATCHES | OMIT EMPTY MATCHES | WITH UNMATCHED ROWS]]
    [AFTER MATCH SKIP {PAST LAST ROW | TO NEXT ROW | TO [FIRST | LAST] variable} | ALL MATCHES]
    PATTERN (pattern) [CONTIGUOUS | SKIP TILL NEXT | SKIP TILL ANY] [WITHIN length [EMIT TIMEOUTS]]
        [LIMIT number {ROWS | STATES}]
    [SUBSET name = (variable, ...), ...]
    [DEFINE variable AS condition, ...]

``WITHIN``, ``EMIT``, ``LIMIT``, the strategies and ``ALL MATCHES`` are not in the standard. What is read are nodes, so
that whatever goes through the tree of a statement, for parameters and the names of streams, goes through them too.
"""

from __future__ import annotations

from typing import Final

from tidelog.operators.rowpattern.syntax import Rows, Skip, Strategy
from tidelog.sql.clauses.cutting import ClauseText, Syntax
from tidelog.sql.clauses.pattern_windows.finding import begins_frame
from tidelog.sql.clauses.row_pattern.grammar import read_pattern
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import CLOSING, OPENING, Token
from tidelog.sql.text.tree import Node, nodes

WORD: Final = "MATCH_RECOGNIZE"
WINDOW: Final = "WINDOW"
FUNCTIONS: Final = frozenset({"prev", "next", "first", "last", "classifier", "match_number"})
"""Functions about rows of a match."""
_AGGREGATES: Final = ("first", "last")
"""Those of them that are aggregates elsewhere."""
CALL: Final = "ROW_PATTERN_CALL"
"""The class that calls of them have in the tree, where others are functions."""
_MODES: Final = ("RUNNING", "FINAL")

_BEGINNINGS: Final = (
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("MEASURES",),
    ("ONE", "ROW"),
    ("ALL", "ROWS"),
    ("ALL", "MATCHES"),
    ("AFTER", "MATCH"),
    ("INITIAL",),
    ("SEEK",),
    ("PATTERN", "("),
    ("SUBSET",),
    ("DEFINE",),
)
"""What parts of the clause begin with."""
_BEHIND_PATTERN: Final = ("CONTIGUOUS", "WITHIN", "EMIT", "LIMIT")
"""What stands right behind the pattern, and ends an expression as well, so that it can be told that it is misplaced."""
_NO_CALLS: Final = (
    *("AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "SIMILAR", "GLOB", "BETWEEN", "ESCAPE", "COLLATE"),
    *("THEN", "ELSE", "END", "WHEN", "FROM", "AS", "ON", "USING"),
)
"""Words with a parenthesis behind them that are no names of functions."""
_OPERATORS: Final = (*(word for word in _NO_CALLS if word not in ("END", "AS")), "CASE", "DISTINCT")
"""Words behind which an expression goes on."""
_UNITS: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_SELECTING: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""What a query in parentheses begins with."""


def read_clause(reader: ClauseText) -> Node:
    """What is between the parentheses. Raises :class:`SqlError` for what is no such clause."""
    found: Node = {
        "partition": _keys(reader) if reader.accept("PARTITION", "BY") else [],
        "order": _orders(reader) if reader.accept("ORDER", "BY") else [],
        "measures": _measures(reader) if reader.accept("MEASURES") else [],
        "rows": _rows(reader).name,
        "skip": None,
        "all_matches": False,
    }
    if reader.accept("ALL", "MATCHES"):
        found["all_matches"] = True
        if reader.comes("AFTER"):
            raise reader.error("found AFTER MATCH beside ALL MATCHES, which skips nothing; expected one of both")
    elif reader.accept("AFTER", "MATCH"):
        found["skip"] = _skip(reader)
        if reader.comes_all("ALL", "MATCHES"):
            raise reader.error("found ALL MATCHES beside AFTER MATCH, which skips some; expected one of both")
    if reader.comes("INITIAL", "SEEK"):
        raise reader.error(f"found {reader.take().text}; it is for patterns of windows, not of a table")
    if not reader.comes("PATTERN"):
        raise _misplaced(reader)
    reader.take()
    found["pattern"] = read_pattern(reader)
    found["strategy"] = Strategy.CONTIGUOUS.name
    found["within"] = found["timeouts"] = None
    found["limits"] = {}
    _behind_pattern(reader, found)
    found["subsets"] = _subsets(reader) if reader.accept("SUBSET") else []
    found["defines"] = _defines(reader) if reader.accept("DEFINE") else []
    if reader.peek() is not None:
        raise _misplaced(reader)
    return found


def read_window(reader: ClauseText) -> Node:
    """What is between the parentheses of a window with a pattern. ``base`` is the name of the window it is made of.

    ::

        [window]
        [PARTITION BY expression, ...]
        [ORDER BY expression [ASC | DESC] [NULLS FIRST | LAST], ...]
        [MEASURES expression AS name, ...]
        ROWS BETWEEN CURRENT ROW AND {CURRENT ROW | number FOLLOWING | UNBOUNDED FOLLOWING} [EXCLUDE NO OTHERS]
        [AFTER MATCH SKIP ...]
        [INITIAL | SEEK]
        PATTERN (pattern)
        [SUBSET name = (variable, ...), ...]
        [DEFINE variable AS condition, ...]
    """
    found = read_keys(reader)
    found["measures"] = _measures(reader) if reader.accept("MEASURES") else []
    for words in (("ONE", "ROW"), ("ALL", "ROWS"), ("ALL", "MATCHES")):
        if reader.comes_all(*words):
            raise reader.error(f"found {' '.join(words)} in a window, in which every row has one match, or none")
    found["frame"] = _frame(reader)
    found["skip"] = _skip(reader) if reader.accept("AFTER", "MATCH") else None
    found["frame"]["is_seeking"] = not reader.accept("INITIAL") and reader.accept("SEEK")
    if not reader.comes("PATTERN"):
        raise _misplaced(reader)
    reader.take()
    found["pattern"] = read_pattern(reader)
    if reader.comes("CONTIGUOUS", "SKIP", "WITHIN", "EMIT", "LIMIT"):
        raise reader.error(
            f"found {reader.take().text} in a window, where the frame says which rows a match may have; expected "
            "SUBSET, DEFINE or the end"
        )
    found["subsets"] = _subsets(reader) if reader.accept("SUBSET") else []
    found["defines"] = _defines(reader) if reader.accept("DEFINE") else []
    if reader.peek() is not None:
        raise _misplaced(reader)
    found |= {"rows": Rows.ONE.name, "all_matches": False, "strategy": Strategy.CONTIGUOUS.name}
    return found | {"within": None, "limits": {}, "timeouts": None}


def read_keys(reader: ClauseText) -> Node:
    """The keys of a window, and ``base``, the name of the window it is made of."""
    base, token = None, reader.peek()
    if token is not None and token.kind in ("word", "name") and not token.says("PARTITION", "ORDER", "MEASURES"):
        base = None if _begins_part(reader) else reader.take().value
    return {
        "base": base,
        "partition": _keys(reader) if reader.accept("PARTITION", "BY") else [],
        "order": _orders(reader) if reader.accept("ORDER", "BY") else [],
    }


def _frame(reader: ClauseText) -> Node:
    """The frame of a window: its end, which is a number of rows, or None for that of the partition."""
    place = reader.offset(reader.place)
    if reader.comes("RANGE", "GROUPS"):
        raise reader.error(f"found a frame of {reader.take().text} with a row pattern; expected ROWS")
    if not reader.accept("ROWS"):
        raise reader.error(
            f"found {reader.peek_text()}; a window with a row pattern has a frame: expected ROWS BETWEEN CURRENT ROW "
            "AND CURRENT ROW, a number of rows FOLLOWING, or UNBOUNDED FOLLOWING"
        )
    is_pair = reader.accept("BETWEEN")
    if not reader.accept("CURRENT", "ROW"):
        raise reader.error("found another start of the frame of a row pattern; expected CURRENT ROW")
    end: Node | int | None = None
    if not is_pair or reader.accept("AND", "CURRENT", "ROW"):
        end = 0
    elif not reader.accept("AND", "UNBOUNDED", "FOLLOWING"):
        reader.expect("AND")
        end = reader.expression("a number of rows", "FOLLOWING", "PRECEDING")
        reader.expect("FOLLOWING")
    if reader.comes("EXCLUDE") and not reader.accept("EXCLUDE", "NO", "OTHERS"):
        raise reader.error("found EXCLUDE with a row pattern, whose match is the frame; expected EXCLUDE NO OTHERS")
    return {"end": end, "query_location": place}


def _misplaced(reader: ClauseText) -> Exception:
    if reader.word != WINDOW and _comes_misplaced(reader):
        return reader.error(f"found {reader.peek_text()}, which stands right behind PATTERN (...)")
    parts = "MEASURES, ONE ROW or ALL ROWS PER MATCH, AFTER MATCH SKIP"
    if reader.word == WINDOW:
        parts = "MEASURES, ROWS BETWEEN CURRENT ROW AND ..., AFTER MATCH SKIP, INITIAL or SEEK"
    what = "a window with a row pattern" if reader.word == WINDOW else WORD
    return reader.error(
        f"found {reader.peek_text()}; expected the parts of {what} in their order: PARTITION BY, ORDER BY, {parts}, "
        "PATTERN, SUBSET, DEFINE"
    )


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(reader: ClauseText) -> list[Node]:
    keys = [_expression(reader, "a column to partition by", ",")]
    while reader.accept(","):
        keys.append(_expression(reader, "a column to partition by", ","))
    return keys


def _orders(reader: ClauseText) -> list[Node]:
    found = [_order(reader)]
    while reader.accept(","):
        found.append(_order(reader))
    return found


def _order(reader: ClauseText) -> Node:
    place = reader.offset(reader.place)
    key = _expression(reader, "a column to order by", ",", "ASC", "DESC", "NULLS")
    descending = not reader.accept("ASC") and reader.accept("DESC")
    nulls_first = False  # as DuckDB does in both directions
    if reader.accept("NULLS"):
        nulls_first = reader.accept("FIRST")
        if not nulls_first:
            reader.expect("LAST")
    return {"expression": key, "descending": descending, "nulls_first": nulls_first, "query_location": place}


# -- expressions ------------------------------------------------------------------------------------------------------


def _measures(reader: ClauseText) -> list[Node]:
    found = []
    while True:
        place = reader.offset(reader.place)
        value = _expression(reader, "a measure", ",", "AS", ending="AS")
        reader.expect("AS")
        found.append({"expression": value, "name": reader.name("the name of the measure"), "query_location": place})
        if not reader.accept(","):
            return found


def _defines(reader: ClauseText) -> list[Node]:
    found = []
    while True:
        place = reader.offset(reader.place)
        name = reader.name("a variable of the pattern")
        reader.expect("AS")
        found.append({"name": name, "expression": _expression(reader, "a condition", ","), "query_location": place})
        if not reader.accept(","):
            return found


def _subsets(reader: ClauseText) -> list[Node]:
    found = []
    while True:
        place = reader.offset(reader.place)
        name = reader.name("the name of a subset")
        reader.expect("=", "(")
        members = [{"query_location": reader.offset(reader.place), "name": reader.name("a variable")}]
        while reader.accept(","):
            members.append({"query_location": reader.offset(reader.place), "name": reader.name("a variable")})
        reader.expect(")")
        found.append({"name": name, "members": members, "query_location": place})
        if not reader.accept(","):
            return found


def _expression(reader: ClauseText, what: str, *stops: str, ending: str = "") -> Node:
    """An expression up to one of some words, or to what begins the next part of the clause.

    It has to end with ``ending``, if that is given.
    """
    start, end, depth = reader.peek(), None, 0
    modes: dict[int, str] = {}
    blanks: list[tuple[int, int]] = []
    columns: dict[int, str] = {}
    while (token := reader.peek()) is not None:
        if depth == 0 and (token.says(*stops) or _ends_expression(reader, is_first=end is None)):
            break
        depth += token.says("(", "[", "{") - token.says(")", "]", "}")
        call = reader.peek(1)
        if token.says("(") and call is not None and call.says(*_SELECTING):
            end = _query(reader)
            depth -= 1
            continue
        if token.says(*_MODES) and call is not None and (call.says("(") or _is_two_modes(reader)):
            what = "a parenthesis" if call.says("(") else call.text.upper()
            mode = token.text.upper()
            raise reader.error(
                f"found {mode} before {what}; it is said of FIRST, LAST, CLASSIFIER and aggregates, as in "
                f"{mode} LAST(price)"
            )
        if token.says(*_MODES) and call is not None and _is_call(reader):
            modes[call.start] = token.text.upper()
            blanks.append((token.start, token.end))
        elif token.says(*_MODES) and call is not None and call.kind in ("word", "name"):
            columns |= dict.fromkeys((call.start, call.end), token.text.upper())  # perhaps read as another name
        end = reader.take().end
    if start is None or end is None:
        raise reader.error(f"found {'the end' if start is None else start.text}; expected {what}")
    if ending and not reader.comes(ending):
        raise reader.error(f"found {what} without a name; expected {ending} and one")
    try:
        node = reader.expression_at(start.start, end, what, blanks)
    except SqlError as error:
        place = start.start if error.position is None else error.position
        if error.position is None:
            raise reader.wrong(error.message, place) from None
        if place not in columns:
            raise
        told = f"it is said of FIRST, LAST, CLASSIFIER and aggregates, as in {columns[place]} LAST(price)"
        raise reader.wrong(f"found {columns[place]} before a column; {told}", place) from None
    _mark(node, {reader.offset(place): mode for place, mode in modes.items()})
    return node


def _query(reader: ClauseText) -> int:
    """Go behind a query in parentheses, whose words are its own; gives its end."""
    depth = 0
    while True:
        token = reader.take()
        depth += token.says(*OPENING) - token.says(*CLOSING)
        if not depth:
            return token.end


def _begins_part(reader: ClauseText) -> bool:
    if any(reader.comes_all(*each) for each in _BEGINNINGS):
        return True
    return reader.word == WINDOW and begins_frame([reader.peek(ahead) for ahead in range(4)])


def _ends_expression(reader: ClauseText, *, is_first: bool) -> bool:
    """Whether a word that comes next is no part of an expression: it is, as a column's name, where a value is due."""
    token, before = reader.peek(), reader.peek(-1)
    is_behind = _comes_misplaced(reader)
    if token is None or before is None or not (is_behind or _begins_part(reader)):
        return False
    if not is_first:
        return not (before.says(*_OPERATORS) or (before.kind == "sign" and not before.says("?", *CLOSING)))
    following = reader.peek(1)
    if following is None or not any(reader.comes(*words) for words in _BEGINNINGS if len(words) == 1):
        return not is_behind
    goes_on = following.says("AS", "ASC", "DESC", "NULLS", ")", *_OPERATORS)
    is_sign = following.kind == "sign" and not following.says("(")
    return not (goes_on or is_sign or any(_comes_behind(reader, words) for words in _BEGINNINGS))


def _comes_misplaced(reader: ClauseText) -> bool:
    is_one = reader.comes(*_BEHIND_PATTERN) or reader.comes_all("SKIP", "TILL")
    return is_one and not reader.comes_all("WITHIN", "GROUP")


def _comes_behind(reader: ClauseText, words: tuple[str, ...]) -> bool:
    """Whether some words come behind the next token."""
    found = [reader.peek(ahead) for ahead in range(1, len(words) + 1)]
    return all(token is not None and token.says(word) for token, word in zip(found, words, strict=True))


def _is_call(reader: ClauseText) -> bool:
    """Whether a call stands behind the next token, which then tells of which rows it is."""
    call, parenthesis = reader.peek(1), reader.peek(2)
    if call is None or parenthesis is None or not parenthesis.says("("):
        return False
    return call.kind == "name" or (call.kind == "word" and call.text.upper() not in _NO_CALLS)


def _is_two_modes(reader: ClauseText) -> bool:
    other, call, parenthesis = (reader.peek(ahead) for ahead in (1, 2, 3))
    if other is None or call is None or parenthesis is None:
        return False
    return other.says(*_MODES) and call.kind in ("word", "name") and parenthesis.says("(")


def _mark(node: Node, modes: dict[int, str]) -> None:
    """Tell functions of patterns from others, and what is said before them. Those in queries are aggregates."""
    inside = {
        id(each) for query in nodes(node) if query.get("class") == "SUBQUERY" for each in nodes(query["subquery"])
    }
    for each in list(nodes(node)):
        if each.get("class") != "FUNCTION" or (id(each) in inside and each["function_name"].lower() in _AGGREGATES):
            continue
        mode = modes.get(each["query_location"]) if not each["is_operator"] else None
        if mode is not None:
            each["mode"] = mode
        if each["function_name"].lower() in FUNCTIONS:
            each["class"] = CALL


# -- words ------------------------------------------------------------------------------------------------------------


def _rows(reader: ClauseText) -> Rows:
    if reader.accept("ONE", "ROW"):
        reader.expect("PER", "MATCH")
        return Rows.ONE
    if not reader.accept("ALL", "ROWS"):
        return Rows.ONE
    reader.expect("PER", "MATCH")
    if reader.accept("OMIT"):
        reader.expect("EMPTY", "MATCHES")
        return Rows.OMIT_EMPTY
    if reader.accept("WITH"):
        reader.expect("UNMATCHED", "ROWS")
        return Rows.WITH_UNMATCHED
    if reader.accept("SHOW"):
        reader.expect("EMPTY", "MATCHES")
    return Rows.SHOW_EMPTY


def _skip(reader: ClauseText) -> Node:
    is_skip = reader.accept("SKIP")
    if is_skip and reader.accept("PAST"):
        reader.expect("LAST", "ROW")
        return {"kind": Skip.PAST_LAST_ROW.name}
    if not (is_skip and reader.accept("TO")):
        raise reader.error(
            f"found {reader.peek_text()} behind AFTER MATCH{' SKIP' if is_skip else ''}; expected SKIP PAST LAST ROW, "
            "SKIP TO NEXT ROW, or SKIP TO [FIRST | LAST] and a variable"
        )
    if reader.accept("NEXT", "ROW"):
        return {"kind": Skip.TO_NEXT_ROW.name}
    kind = Skip.TO_LAST
    following = reader.peek(1)
    is_word = following is not None and following.kind in ("word", "name") and not following.says("PATTERN")
    if is_word and reader.accept("FIRST"):
        kind = Skip.TO_FIRST
    elif is_word:
        reader.accept("LAST")
    return {
        "kind": kind.name,
        "query_location": reader.offset(reader.place),
        "name": reader.name("a variable of the pattern"),
    }


def _behind_pattern(reader: ClauseText, found: Node) -> None:
    """A strategy, WITHIN, EMIT TIMEOUTS and LIMIT, in whatever order."""
    has_strategy = False
    while True:
        strategy = next((each for each in Strategy if reader.comes_all(*each.value.split())), None)
        if strategy is not None:
            if has_strategy:
                raise reader.error(f"found a second strategy, {strategy.value}; expected one")
            reader.expect(*strategy.value.split())
            found["strategy"], has_strategy = strategy.name, True
        elif reader.comes("WITHIN"):
            if found["within"] is not None:
                raise reader.error("found a second WITHIN; expected one")
            reader.take()
            number, unit = reader.peek(), reader.peek(1)
            if number is not None and number.kind == "number" and unit is not None and _is_unit(unit):
                told = f"{number.text} {unit.text}"
                raise reader.error(f"found WITHIN {told}; expected WITHIN INTERVAL {told}")
            found["within"] = _expression(reader, "a length of time", "SKIP", "CONTIGUOUS", "WITHIN", "LIMIT", "EMIT")
        elif reader.comes("EMIT"):
            if found["timeouts"] is not None:
                raise reader.error("found a second EMIT TIMEOUTS; expected one")
            found["timeouts"] = {"query_location": reader.offset(reader.place)}
            reader.expect("EMIT", "TIMEOUTS")
        elif reader.accept("LIMIT"):
            limit = _count(reader)
            kind = "states" if reader.comes("STATES") else "rows"
            if kind in found["limits"]:
                raise reader.error(f"found a second LIMIT of {kind}; expected one")
            reader.expect(kind.upper())
            found["limits"][kind] = limit
        else:
            break
    if reader.comes("SKIP"):
        raise reader.error("found SKIP; expected SKIP TILL NEXT or SKIP TILL ANY")


def _is_unit(token: Token) -> bool:
    return token.kind == "word" and token.text.upper().removesuffix("S") in _UNITS


def _count(reader: ClauseText) -> int:
    token = reader.take()
    if token.kind != "number" or not token.text.isascii() or not token.text.isdigit() or not int(token.text):
        raise reader.wrong(f"found LIMIT {token.text}; expected a number of rows or states, of at least 1", token.start)
    return int(token.text)


SYNTAX: Final = Syntax(WORD, read_clause, is_behind=True)
