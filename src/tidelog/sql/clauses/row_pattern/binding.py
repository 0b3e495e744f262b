"""Types of what a row pattern computes, which DuckDB tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import parse_aggregate
from tidelog.expr.errors import ExpressionError
from tidelog.operators.rowpattern.syntax import (
    CLASSIFIER_COLUMN,
    MATCH_NUMBER_COLUMN,
    Aggregate,
    Expression,
    MatchNumber,
    Navigation,
    Term,
)
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.row_pattern.expressions import Taken
from tidelog.sql.errors import of_engine
from tidelog.sql.text.tree import Node, beginning

if TYPE_CHECKING:
    import duckdb

_ROWS: Final = "#rows"


@dataclass(frozen=True, slots=True)
class Binding:
    """Tells types over rows of some schema."""

    schema: pa.Schema
    refuse: Refuse
    connect: Callable[[], duckdb.DuckDBPyConnection]
    is_own: Callable[[Node], bool]
    """Whether a node calls an aggregate that DuckDB does not know."""

    def typed(self, taken: Sequence[Taken]) -> list[tuple[Expression, pa.DataType]]:
        """Expressions with the types of their terms and their own."""
        terms = {term: node for each in taken for term, node in each.terms.items()}
        types = dict(zip(terms, self._terms(list(terms.items())), strict=True))
        found = []
        for each in taken:
            own = tuple(types[term] for term in each.terms)
            schema = pa.schema([(f"#{at}", kind) for at, kind in enumerate(own)])
            is_term = each.text == '"#0"'
            kind = own[0] if is_term else self._asked([(each.text, each.node)], schema)[0]
            found.append((Expression(each.text, tuple(each.terms), own, each.conjuncts), kind))
        return found

    def constant(self, text: str, node: Node) -> Any:
        """The value of an expression of constants, as Arrow has it."""
        import duckdb

        with closing(self.connect()) as cursor:
            try:
                return cursor.sql(f"SELECT {text}").to_arrow_table().column(0)[0]
            except duckdb.Error as error:
                raise self._wrong(error, node) from None

    def _terms(self, terms: Sequence[tuple[Term, Node]]) -> list[pa.DataType]:
        rows = self.schema.append(pa.field(CLASSIFIER_COLUMN, pa.string()))
        rows = rows.append(pa.field(MATCH_NUMBER_COLUMN, pa.int64()))
        kinds: dict[Term, pa.DataType] = {}
        navigations = [(term, node) for term, node in terms if isinstance(term, Navigation)]
        aggregates = [(term, node) for term, node in terms if isinstance(term, Aggregate)]
        asked = self._asked([(term.expression, node) for term, node in navigations], rows)
        kinds |= {term: kind for (term, _), kind in zip(navigations, asked, strict=True)}
        known = [(term, node) for term, node in aggregates if not self.is_own(node)]
        asked = self._asked([(term.call, node) for term, node in known], rows)
        kinds |= {term: kind for (term, _), kind in zip(known, asked, strict=True)}
        for term, node in aggregates:
            if self.is_own(node):
                kinds[term] = self._own(term.call, node, rows)
        return [pa.int64() if isinstance(term, MatchNumber) else kinds[term] for term, _ in terms]

    def _own(self, call: str, node: Node, schema: pa.Schema) -> pa.DataType:
        try:
            kind = parse_aggregate(call, schema).type
        except ExpressionError as error:
            raise self.refuse(str(error).partition("\n")[0], node) from None
        if kind is None:
            raise self.refuse(f"{call} does not tell the type of its result; have its result_type() say it", node)
        return kind

    def _asked(self, texts: Sequence[tuple[str, Node]], schema: pa.Schema) -> list[pa.DataType]:
        """The types of expressions over rows of a schema, all at once; each by itself to tell which one is wrong."""
        import duckdb

        if not texts:
            return []
        items = ", ".join(f"{text} AS c{at}" for at, (text, _) in enumerate(texts))
        rows = schema.empty_table() if len(schema) else pa.table({"#": pa.array([], pa.int8())})
        with closing(self.connect()) as cursor:
            cursor.register(_ROWS, rows)
            try:
                found = cursor.sql(f'SELECT {items} FROM "{_ROWS}"').limit(0).to_arrow_table().schema.types
            except duckdb.Error as error:
                if len(texts) == 1:
                    raise self._wrong(error, texts[0][1]) from None
                found = None
        return [self._asked([each], schema)[0] for each in texts] if found is None else list(map(plain, found))

    def _wrong(self, error: Exception, node: Node) -> Exception:
        message = of_engine(error, "", lambda _: None).message.partition("\n")[0]
        return self.refuse(message, beginning(node))


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries, which operators do not take."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
