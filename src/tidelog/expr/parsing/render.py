"""Expressions as people read them, and :func:`tidelog.expr.parse` does."""

from __future__ import annotations

from tidelog.expr.text import Writer
from tidelog.expr.tree import Column, Node


def _shown(column: Column) -> str:
    """A name, in quotes unless it reads as a name without them."""
    from tidelog.expr.parsing.syntax import is_plain_name

    return column.name if is_plain_name(column.name) else '"' + column.name.replace('"', '""') + '"'


_WRITER = Writer(_shown)


def render(node: Node) -> str:
    """The text of an expression."""
    return _WRITER.text(node)
