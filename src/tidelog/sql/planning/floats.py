"""Comparisons of columns of floats, which DuckDB does not push into a scan: what they rule out need not be read."""

from __future__ import annotations

import pyarrow as pa

from tidelog.sql.planning.blocks import Block, NotSo, conjuncts
from tidelog.sql.text.tree import Node, nodes


def narrow_floats(block: Block) -> None:
    """Have a selection read only rows that satisfy its comparisons of floats with constants.

    They stay in the statement too, so nothing is lost where DuckDB computes them again.
    """
    where = block.select["where_clause"]
    if where is None:
        return
    texts = []
    for part in conjuncts(where):
        if part.get("class") in ("COMPARISON", "BETWEEN") and _is_about_floats(block, part):
            try:
                texts.append(f"({block.condition(part)})")
            except NotSo:
                continue
    if texts:
        block.relation.where = " AND ".join(texts)


def _is_about_floats(block: Block, node: Node) -> bool:
    columns = [block.column(each) for each in nodes(node) if each.get("class") == "COLUMN_REF"]
    schema = block.relation.schema
    return bool(columns) and all(name is not None and pa.types.is_floating(schema.field(name).type) for name in columns)
