"""Which rows can be leaves, and how many of them one leaf."""

from __future__ import annotations

import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.storage.codec import Ints
from tidelog.storage.format.block import LARGEST_FRAME
from tidelog.storage.rows.numbered import NumberedRows
from tidelog.storage.rows.ordered import AnyRows
from tidelog.storage.rows.row_size import RowSize
from tidelog.storage.write.encoding import rows_of_leaves

_LEAF_BYTES = 8 << 20
"""Leaves are cut smaller than asked for when their rows are so large that this would be exceeded."""

_LARGEST_LEAF = LARGEST_FRAME - (64 << 20)
"""Raw bytes of a leaf, so that its frame stays below the limit even if nothing compresses."""


class LeafRules:
    """Looks at rows before they become leaves of a schema; what does not fit raises :class:`InputError`."""

    def __init__(self, schema: pa.Schema, most_rows: int) -> None:
        """``most_rows`` is how many a leaf has that is cut from others."""
        self._schema = schema
        self._unnumbered = pa.schema(list(schema)[:-1])
        self._size = RowSize(schema)
        self._most_rows = most_rows

    def check(self, rows: AnyRows) -> None:
        """Rows that are to be cut into leaves."""
        found, expected = rows.schema, self._schema
        if isinstance(rows, NumberedRows) and len(expected) and expected.types[-1] == pa.int64():
            expected = self._unnumbered
        if found is not expected and not found.equals(expected):
            raise InputError(
                f"a batch with the columns {_columns(found)} was given, expected {_columns(expected)}; "
                "convert it first (tidelog.model.to_batches)"
            )

    def check_one(self, rows: pa.RecordBatch) -> None:
        """Rows that are to be one leaf."""
        self.check(rows)
        if not rows.num_rows:
            raise InputError("a leaf without rows was given; expected at least one row")
        self._check_size(rows)

    def rows_of(self, rows: AnyRows) -> tuple[int, int]:
        """Rows of the leaves that others are cut into, and the bytes of all of these."""
        size = self._size.of(rows)
        average = max(1, size // max(1, rows.num_rows))
        return max(1, min(self._most_rows, _LEAF_BYTES // average)), size

    def cut(self, rows: AnyRows, most: int | None, breaks: Ints | None) -> tuple[AnyRows, int, int]:
        """The first rows, those that become ``most`` leaves (None: all of them); rows of each, and bytes of all.

        A leaf ends at each of the ``breaks``, rising places behind the first row.
        """
        leaf_rows, size = self.rows_of(rows)
        while most is not None and (fit := rows_of_leaves(rows.num_rows, leaf_rows, most, breaks)) < rows.num_rows:
            rows = rows.slice(0, fit)
            leaf_rows, size = self.rows_of(rows)  # fewer if these rows are longer than those cut off
        if size > _LARGEST_LEAF:
            for start in range(0, rows.num_rows, leaf_rows):
                self._check_size(rows.slice(start, leaf_rows))
        return rows, leaf_rows, size

    def _check_size(self, rows: AnyRows) -> None:
        size = self._size.of(rows)
        if size > _LARGEST_LEAF:
            raise InputError(
                f"a block of {rows.num_rows} rows has {size} bytes, at most {_LARGEST_LEAF} are possible; "
                "append fewer rows at a time, or store such large values outside the stream"
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)
