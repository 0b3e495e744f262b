"""Event clauses, which no parser of SQL knows, cut out of a text before DuckDB reads it.

The text of a clause, such as ``WINDOW_JOIN(...)`` or ``t MATCH_RECOGNIZE (...)``, stands where a table does. Its place
is taken by a name that is as long, so that all others stay where they are. The clause itself is read by whoever knows
it (a :class:`Syntax`): its expressions and the relations in it are handed to DuckDB by themselves, behind as many
spaces as there are characters before them, so that their nodes tell places in the text as it was written. What was read
becomes a node of the tree, of the type :data:`CLAUSE`, in the place of the name. So whatever goes through a tree, for
parameters, names of streams, functions and moments, goes through clauses as well, at any depth, and a clause may stand
inside of another one, in CTEs and in subqueries.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from tidelog.sql.clauses.joins.asof_words import AsOfWords, as_of_words
from tidelog.sql.clauses.pattern_windows.finding import MARK, PatternWindows, pattern_windows
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import CLOSING, OPENING, Reader, Token, closing, pattern_places, tokens
from tidelog.sql.text.tree import Node, Parser, characters, nodes

CLAUSE: Final = "EVENT_CLAUSE"
"""The type of nodes that are clauses. They have the word they begin with, ``word``, a name in the statement, ``alias``,
and whatever was read of them."""

_SPACES: Final = re.compile("[\u00a0\u1680\u180e\u2000-\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
_BEFORE: Final = ("FROM", "JOIN", ",", "(")
"""What a table may stand behind."""
_SURE: Final = ("FROM", "JOIN")


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a clause is read."""

    word: str
    """It begins with this word and a parenthesis."""
    read: Callable[[ClauseText], Node]
    """Reads what is between the parentheses, and gives the members of its node."""
    is_behind: bool = False
    """Whether it stands behind the relation that it is about, which is then the member ``input`` of its node."""
    advice: str = ""
    """What to say more of one that is not closed."""
    starts: tuple[str, ...] = ()
    """What comes first between the parentheses, where it is only a clause if that does; empty for anything. Behind a
    relation these are words with more words behind them, so that names of columns are none."""
    first: str = ""
    """Which of these come first, for people."""
    is_query: bool = False
    """Whether it is a query in parentheses by itself, which begins with FROM, and has ``starts``, a name and AS."""


class ClauseText(Reader):
    """The text of a clause, token by token; all places are those of the whole text."""

    def __init__(self, cutting: Cutting, word: str, first: int, last: int) -> None:
        """The tokens from the first up to, and not including, the last, of which there may be none."""
        super().__init__(cutting.text)
        self._cutting = cutting
        self._end = self._tokens[last].start if last < len(self._tokens) else len(self.text)
        self._tokens = self._tokens[:last]
        self._next = first
        self.word = word

    @property
    def place(self) -> int:
        """Where the next token begins, or the clause ends."""
        token = self.peek()
        return self._end if token is None else token.start

    def take(self) -> Token:
        """The next token."""
        if self.peek() is None:
            raise self.error(f"{self.word} ends here; expected more")
        return super().take()

    def has(self, word: str) -> bool:
        """Whether a word, with another one behind it, is still to come outside of parentheses."""
        depth = 0
        rest = self._tokens[self._next :]
        for token, following in pairwise(rest):
            depth += token.says(*OPENING) - token.says(*CLOSING)
            if depth == 0 and token.says(word) and following.kind in ("word", "name"):
                return True
        return False

    def ends(self) -> None:
        """Raise if something is left."""
        token = self.peek()
        if token is not None:
            raise self.error(f"found {token.text}; expected the end of {self.word}")

    def expression(self, what: str, *stops: str) -> Node:
        """An expression, up to one of some words or signs that stand outside of parentheses."""
        start, end = self.until(what, *stops)
        return self._cutting.expression(start, end, what)

    def expression_at(self, start: int, end: int, what: str, blanks: Sequence[tuple[int, int]] = ()) -> Node:
        """An expression at some place, without words that only the clause knows."""
        return self._cutting.expression(start, end, what, blanks)

    def peek_text(self) -> str:
        """What comes next, for people."""
        token = self.peek()
        return "the end" if token is None else token.text

    def offset(self, place: int) -> int:
        """A place as nodes tell it."""
        return self._cutting.offset(place)

    def relation(self, what: str, *stops: str) -> Node:
        """A table, a stream, a clause or a query in parentheses, perhaps with another name, up to some words."""
        start, end = self.until(what, *stops)
        return self._cutting.relation(start, end, what)

    def wrong(self, message: str, place: int) -> SqlError:
        """An error at a place."""
        return SqlError(message, text=self.text, position=place)


Windows: TypeAlias = "Callable[[Cutting, PatternWindows], Callable[[Node], None]]"
"""Reads the windows with patterns of a text, and gives what puts clauses into its tree for them."""


@dataclass(slots=True)
class _Cut:
    """A clause that was found."""

    syntax: Syntax
    word: int
    """The number of the token it is told by."""
    last: int
    """The number of the token that closes it."""
    start: int
    end: int
    """Where its text is, with the relation before it."""


class Cutting:
    """Reads one text."""

    def __init__(self, parser: Parser, text: str, syntaxes: Sequence[Syntax], windows: Windows | None = None) -> None:
        self.text = text
        self.parser = parser
        self._windows = windows
        self._syntaxes = {each.word: each for each in syntaxes if not each.is_query}
        self._queries = [each for each in syntaxes if each.is_query]
        self._tokens = tokens(text)
        self._found = False

    def tree(self) -> Node:
        """The tree of the statement."""
        tree = self._parsed(0, len(self.text), "")
        if self._found:
            self._number_parameters(tree)
        return tree

    def tree_around(self, read: Callable[[ClauseText], Node]) -> Node:
        """The tree of a statement that selects everything of the clause that the whole text is."""
        self._found = True
        self._refuse_spaces()
        tree = copy.deepcopy(self.parser.parse("SELECT * FROM x"))
        reader = ClauseText(self, "the statement", 0, len(self._tokens))
        tree["statements"][0]["node"]["from_table"] = read(reader)
        reader.ends()
        self._number_parameters(tree)
        return tree

    def expression(self, start: int, end: int, what: str, blanks: Sequence[tuple[int, int]] = ()) -> Node:
        """The node of an expression at some place, without some parts of its text."""
        node = self._parsed(start, end, "SELECT ", blanks)["statements"][0]["node"]
        if not _is_plain(node) or len(node["select_list"]) != 1 or node["from_table"]["type"] != "EMPTY":
            raise SqlError(f"found {self.text[start:end]}; expected {what}", text=self.text, position=start)
        found: Node = node["select_list"][0]
        if found["alias"]:  # such as a unit behind a number, or what a comma is missing before
            last = max((each for each in self._tokens if start <= each.start < end), key=lambda each: each.start)
            instead = "leave it out"
            if last.kind == "number":  # with a unit
                instead = "a length of time is an interval there, as in INTERVAL 5 SECONDS"
            raise SqlError(
                f"found {last.text} behind {what}, where nothing has a name; {instead}",
                text=self.text,
                position=last.start,
            )
        return found

    def relation(self, start: int, end: int, what: str) -> Node:
        """The node of a relation at some place."""
        node = self._parsed(start, end, "FROM ")["statements"][0]["node"]
        table: Node = node.get("from_table", {"type": "EMPTY"})
        is_closed = self.text.startswith("(", start)  # which a join may be, in parentheses
        if not _is_plain(node) or table["type"] in ("EMPTY", "PIVOT") or (table["type"] == "JOIN" and not is_closed):
            raise SqlError(
                f"found {self.text[start:end]}; expected {what}: a name, or a query in parentheses",
                text=self.text,
                position=start,
            )
        return table

    # -- what is cut ----------------------------------------------------------------------------------------------

    def _parsed(self, start: int, end: int, before: str, blanks: Sequence[tuple[int, int]] = ()) -> Node:
        """The tree of a part of the text behind some words."""
        inside = [at for at, token in enumerate(self._tokens) if start <= token.start and token.end <= end]
        cuts: list[_Cut] = []
        beside: list[AsOfWords] = []
        at = inside[0] if inside else 0
        while inside and at <= inside[-1]:
            cut = self._clause(at, inside[0], inside[-1])
            if cut is not None:
                cuts = [each for each in cuts if each.start < cut.start]
                beside = [each for each in beside if each.place < cut.start]
                cuts.append(cut)
                at = cut.last
            elif (join := as_of_words(self.text, at, inside[-1])) is not None:
                beside.append(join)
            at += 1
        windows, put_windows = PatternWindows(), None
        if inside and self._windows is not None:
            outside = [(cut.start, cut.end) for cut in cuts]
            windows = pattern_windows(self._tokens, inside[0], inside[-1], outside)
            put_windows = self._windows(self, windows) if windows.patterns else None
        pieces = [(cut.start, cut.end, f'"{MARK}{number}"') for number, cut in enumerate(cuts)]
        pieces += windows.pieces(self._tokens)
        pieces += [(*span, "") for join in beside for span in join.spans]
        pieces += [(*span, "") for span in blanks]
        if pieces and not self._found:
            self._found = True
            self._refuse_spaces()
        tree = self._read(start, end, before, sorted(pieces), cuts)
        self._put_clauses(tree, cuts)
        self._put_beside(tree, beside)
        if put_windows is not None:
            put_windows(tree)
        return tree

    def _refuse_spaces(self) -> None:
        """Raise for spaces that DuckDB makes shorter, so that places would not be those of the text."""
        quoted = [token for token in self._tokens if token.kind in ("text", "name")]
        for space in _SPACES.finditer(self.text):
            if not any(token.start <= space.start() < token.end for token in quoted):
                code = f"U+{ord(space[0]):04X}"
                raise SqlError(
                    f"found the character {code} beside an event clause; expected a plain space",
                    text=self.text,
                    position=space.start(),
                )

    def _read(self, start: int, end: int, before: str, pieces: list[tuple[int, int, str]], cuts: list[_Cut]) -> Node:
        text = self.text
        if self.offset(start) < len(before):
            raise SqlError(f"found {text[start:end]}; expected it behind SELECT ... FROM", text=text, position=start)
        written = [" " * (self.offset(start) - len(before)), before]
        at = start
        for first, last, instead in pieces:
            written += [text[at:first], instead, " " * (self.offset(last) - self.offset(first) - len(instead))]
            at = last
        written.append(text[at:end])
        own = "".join(written)
        try:
            return self.parser.parse(own)
        except SqlError as error:
            if own == text:
                raise self._meant(error.position) or error from None
            place = None if error.position is None else characters(text, len(own[: error.position].encode()))
            message = error.message
            for number, cut in enumerate(cuts):
                message = message.replace(f'"{MARK}{number}"', cut.syntax.word)
            told = SqlError(message, text=text, position=place, column=error.column)
            raise self._meant(place) or told from None

    def _meant(self, place: int | None) -> SqlError | None:
        """What to say of an error at a place within what was meant as a clause, and does not begin as one."""
        found = self._tokens
        for at, token in enumerate(found[:-2]):
            syntax = self._syntaxes.get(token.text.upper()) if found[at + 1].says("(") else None
            if place is None or syntax is None or not syntax.first or self._begins(at + 2, len(found) - 1, syntax):
                continue
            table = self._input(at, 0)
            close = closing(found, at + 1, len(found) - 1)
            is_behind = 0 < table < at and found[table - 1].says(*_SURE, ",")
            if is_behind and token.end < place and (close is None or place <= found[close].start):
                message = f"found {found[at + 2].text}; expected {syntax.word} to begin with {syntax.first}"
                return SqlError(message, text=self.text, position=found[at + 2].start)
        return None

    def _clause(self, at: int, first: int, last: int) -> _Cut | None:
        """The clause whose word is a token."""
        found = self._tokens
        token = found[at]
        if token.says("("):
            return self._query(at, last)
        if token.kind != "word" or at + 1 > last or not found[at + 1].says("("):
            return None
        syntax = self._syntaxes.get(token.text.upper())
        if syntax is None:
            return None
        begin = at
        if syntax.is_behind and syntax.starts and not self._begins(at + 2, last, syntax):
            return None  # a name of a relation, with those of its columns, or of a function
        if syntax.is_behind:
            begin = self._input(at, first)
            if begin == at:
                raise SqlError(
                    f"found {syntax.word} without a table before it; expected FROM table {syntax.word} (...)",
                    text=self.text,
                    position=token.start,
                )
        elif not self._stands(at, first, last, syntax):
            return None
        close = closing(found, at + 1, last)
        if close is None:
            raise SqlError(
                f"found {syntax.word} ( that is not closed{syntax.advice}", text=self.text, position=token.start
            )
        wrapped = not syntax.is_behind and begin - 2 >= first and found[begin - 2].says("TABLE")
        if wrapped and found[begin - 1].says("(") and close < last and found[close + 1].says(")"):
            return _Cut(syntax, at, close, found[begin - 2].start, found[close + 1].end)
        return _Cut(syntax, at, close, found[begin].start, found[close].end)

    def _query(self, at: int, last: int) -> _Cut | None:
        """The clause that is all of what a parenthesis has behind FROM, which stays."""
        found = self._tokens
        if at + 2 > last or not found[at + 1].says("FROM"):
            return None
        close = closing(found, at, last)
        for syntax in self._queries if close is not None else ():
            assert close is not None
            depth = 0
            for place in range(at + 2, close - 2):
                depth += found[place].says(*OPENING) - found[place].says(*CLOSING)
                if depth == 0 and found[place].says(*syntax.starts) and found[place + 2].says("AS"):
                    return _Cut(syntax, at + 1, close, found[at + 2].start, found[close - 1].end)
        return None

    def _stands(self, at: int, first: int, last: int, syntax: Syntax) -> bool:
        """Whether a word stands where a table may, and is followed by what makes it a clause."""
        before = self._tokens[at - 1] if at > first else None
        if before is None:
            return at == first  # the relation of another clause
        if not before.says(*_BEFORE):
            return False
        inside = self._tokens[at + 2] if at + 2 <= last else None
        return before.says(*_SURE) or (inside is not None and inside.says(*syntax.starts))

    def _begins(self, at: int, last: int, syntax: Syntax) -> bool:
        """Whether words with which a clause begins are next."""
        inside = self._tokens[at : min(at + 2, last + 1)]
        return len(inside) > 1 and inside[0].says(*syntax.starts) and inside[1].kind != "sign"

    def _input(self, at: int, first: int) -> int:
        """The number of the token with which the relation before a word begins."""
        depth = 0
        while at > first:
            token = self._tokens[at - 1]
            depth += token.says(*CLOSING) - token.says(*OPENING)
            if depth < 0 or (depth == 0 and token.says("FROM", "JOIN", ",")):
                break
            at -= 1
        return at

    # -- what is put ----------------------------------------------------------------------------------------------

    def _put_clauses(self, tree: Node, cuts: list[_Cut]) -> None:
        waiting = {f"{MARK}{number}": cut for number, cut in enumerate(cuts)}
        for node in list(nodes(tree)) if waiting else ():
            cut = waiting.pop(node["table_name"], None) if node["type"] == "BASE_TABLE" else None
            if cut is None:
                continue
            if node["at_clause"]:
                raise self._wrong(f"found AT behind {cut.syntax.word}; only streams have a past", cut)
            table = {name: node[name] for name in ("alias", "column_name_alias", "sample")}
            node.clear()
            start = self._tokens[cut.word].start
            node.update(type=CLAUSE, word=cut.syntax.word, **table)
            node.update(query_location=self.offset(start), query_location_length=self.offset(cut.end - start))
            if cut.syntax.is_behind:
                node["input"] = self.relation(cut.start, self._tokens[cut.word - 1].end, "a table")
            reader = ClauseText(self, cut.syntax.word, cut.word + (1 if cut.syntax.is_query else 2), cut.last)
            node.update(cut.syntax.read(reader))
            reader.ends()
        for cut in waiting.values():
            raise self._wrong(f"found {cut.syntax.word} where no table stands; expected it behind FROM or JOIN", cut)

    def _wrong(self, message: str, cut: _Cut) -> SqlError:
        return SqlError(message, text=self.text, position=self._tokens[cut.word].start)

    def _put_beside(self, tree: Node, beside: list[AsOfWords]) -> None:
        """Put what stands beside AS-OF joins into their nodes: ``nearest``, and ``tolerance``, perhaps None."""
        joins = {each["query_location"]: each for each in nodes(tree) if each["type"] == "JOIN"} if beside else {}
        for each in beside:
            node = joins[self.offset(each.place)]
            node["nearest"] = each.nearest
            node["tolerance"] = None if each.tolerance is None else self.expression(*each.tolerance, "a length of time")

    def _number_parameters(self, tree: Node) -> None:
        """Give parameters that are counted the numbers that they have in the whole text."""
        others = pattern_places(self._tokens)
        counted = [
            self.offset(one.start)
            for one, other in zip(self._tokens, (*self._tokens[1:], None), strict=True)
            if one.says("?")
            and one.start not in others
            and not (other is not None and other.start == one.end and other.kind in ("word", "number"))
        ]
        numbers = {place: str(number) for number, place in enumerate(counted, 1)}
        names: dict[str, None] = {}
        for node in nodes(tree):
            if node.get("class") == "PARAMETER":
                node["identifier"] = numbers.get(node["query_location"], node["identifier"])
                names[node["identifier"]] = None
        tree["statements"][0]["named_param_map"] = [{"key": name, "value": 0} for name in names]

    def offset(self, place: int) -> int:
        """A place as DuckDB counts it."""
        return place if self.text.isascii() else len(self.text[:place].encode())


def _is_plain(node: Node) -> bool:
    """Whether a query has nothing but what it selects, and from where."""
    members = ("where_clause", "group_expressions", "group_sets", "having", "qualify", "sample", "modifiers")
    return (
        node["type"] == "SELECT_NODE"
        and not any(node[each] for each in members)
        and not node["cte_map"]["map"]
        and node["aggregate_handling"] == "STANDARD_HANDLING"
    )
