"""Keys of small tables that a stream is joined with: events that have none of them find no partner, and are not read.

DuckDB looks up each event, and has to be given all columns of it first. A scan tells by the distinct values of a block
which events are wanted, and decodes the other columns of these alone. Where nearly all events have a partner that would
be in vain, so a few of them are looked at.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.errors import TidelogError
from tidelog.plan.reading import End, read
from tidelog.sql.planning.blocks import Block
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node

_LEAST_ROWS: Final = 1 << 17
"""Rows of a stream below which looking at keys takes longer than it saves."""
_MOST_TABLE_ROWS: Final = 1 << 16
_MOST_KEYS: Final = 1000
_LONGEST: Final = 1 << 13
"""Characters of a condition of keys at the most."""
_SAMPLE: Final = 4096
"""Events that are looked at."""
_MOST_SHARE: Final = 0.75
"""The share of events with a partner above which all are read."""


def keys_of(table: Any, name: str) -> pa.Array | None:
    """The distinct values of a column of a table that is at hand; None if these are too many, or no texts or integers.

    NULL, which has no partner, is none of them.
    """
    if not isinstance(table, pa.Table) or table.num_rows > _MOST_TABLE_ROWS:
        return None
    found = [at for at, each in enumerate(table.schema.names) if each.lower() == name.lower()]
    if len(found) != 1:
        return None
    column = table.column(found[0])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(kind):
        kind = pa.string()
    elif pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        kind = pa.int64()
    else:
        return None
    values = pc.unique(column.cast(kind)).drop_null()
    return values if len(values) <= _MOST_KEYS else None


def give_keys(values: pa.Array, block: Block, node: Node) -> None:
    """Have a relation leave out rows without any of some keys in the column that a node names."""
    relation, name = block.relation, block.column(node)
    if name is None or name not in relation.stream.snapshot.layout.stored.names:
        return
    kind = relation.schema.field(name).type
    is_text = pa.types.is_string(kind) and pa.types.is_string(values.type)
    is_integer = pa.types.is_integer(kind) and not pa.types.is_uint64(kind) and pa.types.is_integer(values.type)
    if not (is_text or is_integer) or sum(part.rows for part in relation.stream.snapshot.parts) < _LEAST_ROWS:
        return
    text = _condition(name, values.to_pylist())
    if text is not None and _share(relation, name, values) <= _MOST_SHARE:
        relation.add_condition(text)


def _condition(name: str, values: list[Any]) -> str | None:
    if not values:
        return "FALSE"
    if any(isinstance(each, str) and "\x00" in each for each in values):
        return None
    members = [str(each) if isinstance(each, int) else "'" + each.replace("'", "''") + "'" for each in values]
    column = '"' + name.replace('"', '""') + '"'
    text = f"{column} IN ({', '.join(members)})"
    return text if len(text) <= _LONGEST else None


def _share(relation: Relation, name: str, values: pa.Array) -> float:
    """The share of the last events that have one of some keys."""
    stream, within = relation.stream, relation.within & relation.confined()
    try:
        _, batches = read(stream.snapshot, stream.numbers, [name], None, End(_SAMPLE, True), within=within)
        columns = [batch.column(0) for batch in batches]
    except TidelogError:  # perhaps of events that the statement does not need
        return 1.0
    rows = sum(map(len, columns))
    known = values.cast(relation.schema.field(name).type, safe=False)
    return sum(pc.sum(pc.is_in(each, value_set=known)).as_py() or 0 for each in columns) / rows if rows else 1.0


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
