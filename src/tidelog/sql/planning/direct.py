"""Plain columns of one stream, all rows or those of one end, with a condition of ours: DuckDB has nothing to add.

Handing rows over to DuckDB and back takes longer than reading a few of them, and nearly as long as reading many. So a
statement that does nothing else is answered by the scan itself, with columns of the types that DuckDB gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidelog.plan.reading import End, read
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.ends import is_descending
from tidelog.sql.planning.selection import native_condition
from tidelog.sql.reading.dataset import PLACE_FIELD, Relation
from tidelog.sql.text.tree import Node

_CLAUSES: Final = ("group_expressions", "group_sets", "having", "qualify", "sample")


@dataclass(frozen=True, slots=True)
class Direct:
    """The scan that answers a statement."""

    relation: Relation
    columns: tuple[str, ...]
    """Stored columns."""
    names: tuple[str, ...]
    """What the statement calls them, each once."""
    where: str | None
    end: End | None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows, as columns of the types of a schema."""
        relation = self.relation
        stream = relation.stream
        reading, batches = read(
            stream.snapshot, stream.numbers, list(dict.fromkeys(self.columns)), self.where, self.end
        )
        relation.readings.append(reading)
        for batch in batches:
            columns = [batch.column(name) for name in self.columns]
            yield pa.RecordBatch.from_arrays(
                [
                    each if each.type == kind else each.cast(kind)
                    for each, kind in zip(columns, schema.types, strict=True)
                ],
                schema=schema,
            )

    def fits(self, schema: pa.Schema) -> bool:
        """Whether the types of a result are those of the stored columns, but for names of time zones."""
        stored = [self.relation.schema.field(name).type for name in self.columns]
        return len(stored) == len(schema) and all(map(is_same, stored, schema.types))


def is_same(stored: pa.DataType, given: pa.DataType) -> bool:
    """Whether values of a stored type are, for DuckDB, of a type that it gives; names of time zones may differ."""
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(given):
        return bool(stored.unit == given.unit and (stored.tz is None) == (given.tz is None))
    return bool(stored == given)


def direct(block: Block, statement: Node) -> Direct:
    """How a scan alone answers a statement. Raises :class:`NotSo` if it does not."""
    select = block.select
    relation = block.relation
    if statement is not select or not relation.is_one or relation.is_indexed:
        raise NotSo("the statement is more than one selection of one stream")
    if any(select[name] for name in _CLAUSES) or block.table["sample"] or select["cte_map"]["map"]:
        raise NotSo("rows are grouped, or chosen after they were read")
    if select["aggregate_handling"] != "STANDARD_HANDLING":
        raise NotSo("rows are grouped")
    _refuse_ways(block)
    columns, names = _columns(block)
    where = None
    if select["where_clause"] is not None:
        where = str(native_condition(block, select["where_clause"]))
    return Direct(relation, columns, names, where, relation.end)


def _refuse_ways(block: Block) -> None:
    """Raise unless rows are wanted in the order in which they are read, and all that are read."""
    for modifier in block.select["modifiers"]:
        if modifier["type"] == "LIMIT_MODIFIER":
            if block.relation.end is None or modifier["offset"] is not None:
                raise NotSo("rows are left out")
        elif modifier["type"] != "ORDER_MODIFIER" or (is_descending(block, modifier) and block.relation.end is None):
            raise NotSo("rows are wanted in another order")


def _columns(block: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
    columns: list[str] = []
    names: list[str] = []
    for item in block.select["select_list"]:
        if item.get("class") == "STAR":
            if not _is_plain(item) or PLACE_FIELD.name in block.relation.schema.names:
                raise NotSo("not all columns are wanted")
            columns += block.relation.schema.names
            names += block.relation.schema.names
            continue
        column = block.column(item)
        if column is None:
            raise NotSo(f"{block.text(item)} is computed by DuckDB")
        columns.append(column)
        names.append(item["alias"] or item["column_names"][-1])
    if len({name.lower() for name in names}) < len(names):
        raise NotSo("columns have the same name")
    return tuple(columns), tuple(names)


def _is_plain(star: Node) -> bool:
    """Whether it is ``*``, and nothing more."""
    more: Sequence[Any] = [value for name, value in star.items() if isinstance(value, dict | list) and value]
    return not more and not star.get("relation_name") and not star.get("columns") and not star.get("expr")
