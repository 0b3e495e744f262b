"""Errors of row patterns."""

from __future__ import annotations

import re
from typing import Final

from tidelog.expr import EvaluationError
from tidelog.model.errors import TidelogError
from tidelog.operators.rowpattern.syntax import Aggregate, Expression, Navigation, Term

_TERM: Final = re.compile(r'"?#(\d+)"?')


class PatternError(TidelogError, ValueError):
    """A row pattern is too large, or rows do not let the search for it go on."""


def in_words(error: EvaluationError, expression: Expression) -> EvaluationError:
    """An error of the values of an expression, about what its terms are instead of their numbers."""

    def told(text: str) -> str:
        return _TERM.sub(lambda found: text_of(expression.terms[int(found[1])]), text)

    return EvaluationError(told(str(error).partition("\n")[0]), text=told(error.text))


def text_of(term: Term) -> str:
    """What a term says, over columns of the input."""
    match term:
        case Navigation():
            return term.expression
        case Aggregate():
            return term.call
        case _:
            return "MATCH_NUMBER()"
