"""Constants of clauses: lengths of time, counts and values, which DuckDB computes."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.model.times.clock import INT64_MAX, Clock
from tidelog.sql.errors import engine_message
from tidelog.sql.text.tree import Node, Parser, nodes

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Length:
    """A length of time, as DuckDB has it, or in ticks of a clock of plain integers."""

    months: int = 0
    days: int = 0
    micros: int = 0
    ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Constants:
    """Computes what nodes say; ``refuse`` makes the error of a message and the node that it is about."""

    parser: Parser
    connect: Callable[[], duckdb.DuckDBPyConnection]
    refuse: Callable[[str, Node], Exception]

    def length(self, node: Node, clock: Clock, *, least: int = 1) -> Length:
        """A length of time; of plain integers at least so many ticks."""
        if clock.unit is None:
            return Length(ticks=self.count(node, least=least))
        text = f"CAST({self._text(node)} AS INTERVAL)"
        months, days, micros = self._asked(
            f"""SELECT m, d, epoch_us(i - to_months(m) - to_days(d)) FROM (
                    SELECT i, CAST(date_part('year', i) * 12 + date_part('month', i) AS INTEGER) AS m,
                        CAST(date_part('day', i) AS INTEGER) AS d FROM (SELECT {text} AS i))""",
            node,
        )
        if months is None:
            raise self.refuse("with a length that is null", node)
        return Length(int(months), int(days), int(micros))

    def ticks(self, length: Length, clock: Clock, node: Node) -> int:
        """A length that is the same whenever it begins."""
        if length.ticks is not None:
            return length.ticks
        if length.months:
            raise self.refuse("with a length of months, which only windows of a calendar have", node)
        if length.days < 0 or length.micros < 0:
            raise self.refuse("with a length below zero", node)
        return clock.duration(datetime.timedelta(days=length.days, microseconds=length.micros))

    def count(self, node: Node, *, least: int = 1) -> int:
        """A whole number that is large enough."""
        found = self.value(node)
        if not isinstance(found, int) or isinstance(found, bool) or found < least:
            raise self.refuse(f"with {self._text(node)}; expected a whole number of at least {least}", node)
        if found > INT64_MAX:
            raise self.refuse(f"with {self._text(node)}; expected at most {INT64_MAX}", node)
        return found

    def flag(self, node: Node) -> bool:
        """True or false."""
        found = self.value(node)
        if not isinstance(found, bool):
            raise self.refuse(f"with {found!r}; expected true or false", node)
        return found

    def value(self, node: Node) -> Any:
        """Whatever a node is."""
        return self._asked(f"SELECT {self._text(node)}", node)[0]

    def _asked(self, text: str, node: Node) -> tuple[Any, ...]:
        """What DuckDB says of constants."""
        if any(each.get("class") in ("COLUMN_REF", "SUBQUERY") for each in nodes(node)):
            raise self.refuse(f"with {self._text(node)}; expected a constant", node)
        import duckdb

        with closing(self.connect()) as cursor:
            try:
                found: tuple[Any, ...] = cursor.execute(text).fetchall()[0]
            except duckdb.Error as error:
                raise self.refuse(f"with {self._text(node)}: {engine_message(error)}", node) from None
            return found

    def _text(self, node: Node) -> str:
        own = copy.deepcopy(node)
        own["alias"] = ""
        return self.parser.print_expression(own)
