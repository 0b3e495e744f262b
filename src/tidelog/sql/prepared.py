"""Statements that were read before: their names resolved, checked and put together, up to where events come in.

People ask the same again and again, of streams that grow. What a text becomes before it is planned depends on the text,
on what its names mean, and on the columns of these; all of that is compared before it is used again.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidelog.plan.reading import relation_schema
from tidelog.sql.clauses.cutting import CLAUSE
from tidelog.sql.database import Database
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.resolving import Resolver, Sources
from tidelog.sql.text.moments import moment
from tidelog.sql.text.tree import Node, frozen, nodes

_MOST: Final = 256
_LARGEST: Final = 1 << 17
"""How many statements are kept, and how many bytes of each."""


_OTHERS: Final = ("TABLE_FUNCTION", "SHOW_REF", CLAUSE)
"""Nodes that stand for more than a stream."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A stream in a statement."""

    written: str
    version: int | None
    stream: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement about streams by their names, without parameters, tables, times of the call and event clauses."""

    tree: bytes
    mentions: dict[str, _Mention]
    """By the names that stand in their place."""
    has_sequence: bool


def recalled(key: Hashable, sources: Sources, database: Database) -> tuple[Node, dict[str, Relation]] | None:
    """A statement that was kept, with its relations; None if it was not, or if its names mean something else now."""
    prepared = database.prepared.get(key)
    if not isinstance(prepared, _Prepared):
        return None
    relations = {}
    for own, mention in prepared.mentions.items():
        if sources.find_table(mention.written) is not None or sources.find_stream(mention.written) != mention.stream:
            return None
        stream = sources.stream(mention.stream, mention.version)
        if not relation_schema(stream.snapshot, seq=prepared.has_sequence).equals(mention.schema):
            return None
        relations[own] = Relation(stream, mention.schema)
    return marshal.loads(prepared.tree), relations


def can_be_kept(text: str, tree: Node, own: AbstractSet[str]) -> bool:
    """Whether a statement, as it was read, is told by its text and by the streams it names alone.

    ``own`` are the aggregates that only tidelog knows.
    """
    return len(text) <= _LARGEST and not any(_depends(node, own) for node in nodes(tree))


def keep(key: Hashable, tree: Node, resolver: Resolver, database: Database) -> None:
    """Keep such a statement, which is about to be planned, if it mentions nothing but single streams."""
    if resolver.tables or len(resolver.mentions) < len(resolver.relations):
        return
    mentions = {
        own: _Mention(written, version, relation.stream.name, relation.schema)
        for own, relation in resolver.relations.items()
        for written, version in [resolver.mentions[own]]
    }
    content = frozen(tree)
    if len(content) > _LARGEST:
        return
    if len(database.prepared) >= _MOST:
        database.prepared.clear()
    database.prepared[key] = _Prepared(content, mentions, resolver.has_sequence)


def _depends(node: Node, own: AbstractSet[str]) -> bool:
    """Whether a node means something else from call to call."""
    kind = node.get("class")
    return (
        node["type"] in _OTHERS
        or kind == "PARAMETER"
        or node.get("ref_type") == "ASOF"
        or (kind in ("FUNCTION", "WINDOW") and node["function_name"].lower() in own)
        or moment(node) is not None
    )
