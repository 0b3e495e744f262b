"""Pieces of which statements for Spark are put together: SELECTs over others, with columns of names of their own."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.spark.sql.binding import Bound
from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.expressions.writer import Column, Writer
from tidelog.spark.sql.types import Type
from tidelog.sql.text.tree import Node


@dataclass(frozen=True)
class Rows:
    """What an operator gives."""

    sql: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [each.name for each in self.columns]


class Parts(ABC):
    """What all operators are written with."""

    def __init__(self, bound: Bound, zone: str, tools: Tools) -> None:
        self._bound = bound
        self._write = Writer(bound, zone, tools)
        self._names = itertools.count()
        self._tables = itertools.count()
        self._named: list[str] = []
        """Queries in front of all others."""

    @abstractmethod
    def rows(self, node: Node) -> Rows:
        """What an operator gives."""

    def _column(self, type_: Type) -> Column:
        return Column(f"c{next(self._names)}", type_)

    def _fresh(self, types: Sequence[Type]) -> tuple[Column, ...]:
        return tuple(self._column(each) for each in types)

    def _inside(self, rows: Rows) -> str:
        return f"({rows.sql}) AS t{next(self._tables)}"

    def _select(self, texts: Sequence[str], columns: Sequence[Column], rest: str) -> Rows:
        items = [f"{text} AS {column.name}" for text, column in zip(texts, columns, strict=True)]
        return Rows(f"SELECT {', '.join(items) or '1 AS nothing'} {rest}".rstrip(), tuple(columns))

    def _renamed(self, rows: Rows, source: str) -> Rows:
        """The same columns under names of their own."""
        columns = self._fresh([each.type for each in rows.columns])
        return self._select(rows.names, columns, f"FROM {source}")

    def _kept(self, rows: Rows) -> str:
        """A query that is used several times, by a name."""
        name = f"q{next(self._tables)}"
        self._named.append(f"{name} AS ({rows.sql})")
        return name
