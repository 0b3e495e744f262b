"""Whole batches of what DuckDB computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.database import lengths
from tidelog.expr.database.binding import failed
from tidelog.expr.database.connection import Prepared, connection
from tidelog.expr.database.lengths import Longest, Tested, grows, too_long_by
from tidelog.expr.errors import EvaluationError
from tidelog.expr.text import ForDuckDB
from tidelog.expr.tree import Column, Node
from tidelog.expr.values.types import BLOB, VARCHAR, sql_name
from tidelog.expr.values.vectors import Mask

Numbers = Callable[[Node], float]
"""The greatest value of an expression of integers."""


class Projection:
    """An expression that DuckDB computes, over columns of a batch. Any thread may use it."""

    def __init__(self, node: Node) -> None:
        found = {each.position: each for each in node.walk() if isinstance(each, Column)}
        self.columns = tuple(found[position] for position in sorted(found))
        self._node = node
        self._type = node.type
        self._text = f"CAST({ForDuckDB().text(node)} AS {sql_name(node.type)})"
        self._tested: str | None = None
        self._grows = grows(node)
        fields = [(f"c{each.position}", each.type) for each in self.columns] or [("c", pa.int8())]
        self._schema = pa.schema(fields)
        self._key = str(fields)

    def values(self, arrays: Sequence[pa.Array], rows: int, numbers: Numbers) -> Iterator[pa.Array]:
        """The values for all rows, of some at a time. ``arrays`` are the columns, as their SQL types."""
        for part, text in self._parts(arrays, rows, numbers):
            yield self._run(Prepared.values, text, part)

    def truths(self, arrays: Sequence[pa.Array], rows: int, numbers: Numbers) -> Mask:
        """Where a boolean is true."""
        found = [self._run(Prepared.truths, text, part) for part, text in self._parts(arrays, rows, numbers)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _run(self, run: Callable[[Prepared, pa.Table], Any], text: str, part: pa.Table) -> Any:
        import duckdb

        try:
            with connection() as own:
                return run(own.prepared(text, self._schema, self._key), part)
        except (duckdb.Error, RuntimeError) as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> EvaluationError:
        names = {each.position: each.name for each in self.columns}
        listed = [names.get(place, "it") for place in range(max(names, default=-1) + 1)]
        return too_long_by(str(error)) or failed(error, listed)

    def _parts(self, arrays: Sequence[pa.Array], rows: int, numbers: Numbers) -> Iterator[tuple[pa.Table, str]]:
        """Tables of some rows at a time, and the text that is evaluated of them."""
        table = pa.Table.from_arrays(list(arrays) or [pa.nulls(rows, pa.int8())], schema=self._schema)
        most = self._longest(arrays, numbers) if self._grows else 0.0
        text = self._text
        if most > lengths.MOST_BYTES:
            if self._tested is None:
                self._tested = f"CAST({Tested().text(self._node)} AS {sql_name(self._type)})"
            text = self._tested
            own = max((self._texts(arrays).values()), default=0)
            most = min(most, max(lengths.MOST_BYTES, own))
        size = max(int(lengths.BATCH_BYTES // most), 1) if most else rows
        for first in range(0, rows, max(size, 1)) if rows else [0]:
            yield table if size >= rows else table.slice(first, size), text

    def _texts(self, arrays: Sequence[pa.Array]) -> dict[str, int]:
        """The bytes of the longest text of each column."""
        return {
            each.name: pc.max(pc.binary_length(array)).as_py() or 0
            for each, array in zip(self.columns, arrays, strict=True)
            if each.type in (VARCHAR, BLOB)
        }

    def _longest(self, arrays: Sequence[pa.Array], numbers: Numbers) -> float:
        longest = Longest(self._texts(arrays), numbers)
        longest.of(self._node)
        return longest.most if not math.isnan(longest.most) else math.inf


def projection(node: Node) -> Projection:
    """What computes a node."""
    for each in node.known:
        if isinstance(each, Projection):
            return each
    found = Projection(node)
    node.known.append(found)
    return found
