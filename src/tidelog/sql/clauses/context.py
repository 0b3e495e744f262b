"""What the clauses of a statement need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.planning.calls import Functions
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node, Parser

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Context:
    """The statement."""

    parser: Parser
    refuse: Refuse
    functions: Functions
    relations: Mapping[str, Relation]
    """Mentions of streams by the names that stand in their place."""
    timezone: str
    connect: Callable[[], duckdb.DuckDBPyConnection]
    """A connection that knows what the statement mentions."""
    plan: Callable[[Node], None]
    """Looks at a statement's tree for what can be read in a better way."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Tables that were given, by the names that stand in their place."""
    memory: int = 0
    """The bytes that a clause may use to put rows in order."""
    ask: Callable[[Node], pa.Table] | None = None
    """Gives the rows of a statement at the moment of this one; None where rows have yet to come."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a clause stands."""

    select: Node
    """The selection in whose FROM it is."""
    ctes: Sequence[Node]
    """The CTEs that it sees."""
