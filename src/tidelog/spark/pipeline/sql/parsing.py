"""The text of a step as a tree of sqlglot's, and where its parts stand in the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import Token, TokenType

from tidelog.spark.pipeline.description.relations import DIALECT
from tidelog.spark.pipeline.description.steps import Fault, StepError


@lru_cache(maxsize=256)
def parsed(text: str) -> exp.Query:
    """A query. Raises :class:`StepError` for what is none; callers must not change what is returned."""
    dialect = Dialect.get_or_raise(DIALECT)
    try:
        with not_too_deep():
            tokens = _tokens(dialect, text)
            statements = [each for each in dialect.parser().parse(tokens, text) if each is not None]
    except ParseError as error:
        first = error.errors[0]
        near = str(first.get("highlight") or "")
        end = _offset_of(text, int(first.get("line") or 1), int(first.get("col") or 1))
        found = f"near {near!r}" if near else "at the end"
        description = _SPOKEN.sub("something is missing", str(first["description"]).split(" but got <")[0].rstrip("."))
        message = f"this is no SQL {found}: {description}"
        raise StepError(Fault("sql", message, max(0, end - len(near)))) from None
    except TokenError as error:
        raise StepError(Fault("sql", f"this is no SQL: {one_line(error)}", 0)) from None
    if len(statements) != 1:
        raise StepError(Fault("sql", f"found {len(statements)} statements; expected one query", 0))
    query = statements[0]
    if not isinstance(query, exp.Query):
        word = text.split(maxsplit=1)[0].upper()
        raise StepError(Fault("sql", f"found {word}; expected a query, such as SELECT ... FROM a source or step", 0))
    return query


_SPOKEN = re.compile(r"Required keyword: .* missing for <class .*")


def _tokens(dialect: Dialect, text: str) -> list[Token]:
    """The words of a text, those that sqlglot would misunderstand put right."""
    tokens = list(dialect.tokenize(text))
    for word, behind in itertools.pairwise(tokens):
        if word.token_type == TokenType.WINDOW and behind.token_type == TokenType.L_PAREN:
            word.token_type = TokenType.VAR  # the function; behind GROUP BY sqlglot takes it for the clause WINDOW
        if word.token_type == TokenType.COMMA and behind.token_type == TokenType.FROM:
            raise StepError(Fault("sql", "this is no SQL near ',': nothing comes behind it; leave it out", word.start))
    return tokens


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Tell of queries that are nested more deeply than they can be looked at."""
    try:
        yield
    except RecursionError:
        raise StepError(
            Fault("sql", "the query is nested too deeply to be checked; divide it into several steps", 0)
        ) from None


def tables_of(query: exp.Query) -> list[exp.Table]:
    """The tables of a query that are none of its own definitions, in the order of the text."""
    found: dict[int, exp.Table] = {}
    for scope in traverse_scope(query):
        own = {name.lower() for name in scope.cte_sources}
        for table in scope.tables:
            if isinstance(table.this, exp.Identifier) and (table.db or table.name.lower() not in own):
                found[id(table)] = table
    return sorted(found.values(), key=lambda table: offset(table.this) or 0)


def offset(node: exp.Expr | None) -> int | None:
    """Where a name begins in the text."""
    start = None if node is None else node.meta.get("start")
    return start if isinstance(start, int) else None


def near(node: exp.Expr | None, word: str = "", text: str = "") -> int | None:
    """Where an expression is: its first name, or the last ``word``, a pattern, before that."""
    if node is None:
        return None
    starts = [start for each in node.walk() if (start := offset(each)) is not None]
    if not starts:
        return None
    first = min(starts)
    words = [match.start() for match in re.finditer(word, text[:first], re.IGNORECASE)] if word else []
    return words[-1] if words else first


def one_line(error: Exception) -> str:
    """The message of an error of sqlglot's."""
    return " ".join(str(error).split())


def _offset_of(text: str, line: int, column: int) -> int:
    """The offset behind a character, of which sqlglot tells the line and the column, both counted from 1."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return min(starts[min(line, len(starts)) - 1] + column, len(text))
