"""The versions of a stream's schema, and how what was written under one of them is read under another.

Columns keep their identity when they are renamed, so each version is a list of (identity, name, type). What is read is
presented under one version, mostly the newest: columns of others have its names; those it does not have are called
something that nobody can ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import pyarrow as pa

from tidelog.index.layout import Layout, plain_layout
from tidelog.index.states import available
from tidelog.model.arrays import batch_of
from tidelog.model.errors import CorruptionError, SchemaError
from tidelog.model.evolution import Renames
from tidelog.model.schema import Schema
from tidelog.model.types import type_name
from tidelog.store.manifest.manifest import Manifest

_VERSION: Final = "schema_version"


@final
class SchemaHistory:
    """All versions of a schema, numbered from 0, presented under one of them. Immutable."""

    def __init__(self, manifest: Manifest, version: int | None = None) -> None:
        """Those that a manifest knows, presented under the newest unless another one is said."""
        self.schemas = manifest.schemas
        self.version = len(self.schemas) - 1 if version is None else version
        self._identities = _identities(self.schemas, manifest.renames)
        self._names = dict(zip(self._identities[self.version], self.schema.names, strict=True))
        self._layouts: dict[int, Layout] = {}
        newest = dict(zip(self.schemas[-1].names, self._identities[-1], strict=True))
        kept = manifest.options.aggregates
        # The option has the newest names; what an older version does not have, it cannot keep.
        self._kept = None if kept == "all" else {newest[name] for name in kept}
        self._fanout = manifest.options.fanout
        layout = self.layout_of(self.version)
        if self.version == len(self.schemas) - 1 and manifest.options.user_aggregates:
            states = available(layout.stored, self.schema.time, manifest.options.user_aggregates)
            layout = layout.with_states(states.kept)
        self.layout = layout
        """The layout of new trees; without user-defined aggregates whose code is not here, or of an older version."""

    @property
    def schema(self) -> Schema:
        """The version it is presented under."""
        return self.schemas[self.version]

    def layout_of(self, version: int) -> Layout:
        """The layout of trees of a version without user-defined aggregates, under the names of the one presented."""
        layout = self._layouts.get(version)
        if layout is None:
            names = self.names(version)
            schema = self._version(version).renamed(names)
            kept: Any = "all"
            if self._kept is not None:
                kept = [name for name, id in zip(names, self._identities[version], strict=True) if id in self._kept]
            layout = self._layouts[version] = plain_layout(schema, self._fanout, kept)
        return layout

    def names(self, version: int) -> list[str]:
        """What the columns of a version are called, in their order, without the hidden one."""
        self._version(version)
        return [self._names.get(id, f"\x7f{id}") for id in self._identities[version]]

    def renamed(self, layout: Layout, version: int) -> Layout:
        """The layout in a file of a version, under the names of the one presented."""
        names = self.names(version)
        return layout if list(layout.schema.names) == names else layout.renamed(names)

    def read_rows(self, message: pa.Buffer, version: int) -> pa.RecordBatch:
        """Stored rows in an Arrow IPC message written under a version, as rows of the one presented."""
        stored = self.layout_of(version).stored
        rows = read_message(message, stored)
        return rows if version == self.version else presented(rows, self.layout.stored)

    def brought(self, batch: pa.RecordBatch, version: int) -> pa.RecordBatch:
        """A batch of a version's columns, without sequence numbers, as one of the version presented."""
        return presented(batch.rename_columns(self.names(version)), self.schema.arrow)

    def _version(self, version: int) -> Schema:
        if not 0 <= version < len(self.schemas):
            raise CorruptionError(
                f"found version {version} of a schema of which the manifest knows {len(self.schemas)}; restore both "
                "from the same backup"
            )
        return self.schemas[version]


def identities_of(manifest: Manifest, version: int) -> dict[str, int]:
    """What no renaming changes of the columns of a version, by their names in it."""
    identities = _identities(manifest.schemas, manifest.renames)[version]
    return dict(zip(manifest.schemas[version].names, identities, strict=True))


def _identities(schemas: Sequence[Schema], renames: Sequence[Renames]) -> list[list[int]]:
    """For each version the identities of its columns, in their order."""
    identities = [list(range(len(schemas[0])))]
    count = len(schemas[0])
    for before, after, step in zip(schemas, schemas[1:], renames, strict=False):
        moved = dict(step)
        known = {moved.get(name, name): identity for name, identity in zip(before.names, identities[-1], strict=True)}
        each = []
        for name in after.names:
            if name not in known:
                known[name] = count
                count += 1
            each.append(known[name])
        identities.append(each)
    return identities


def read_message(message: pa.Buffer, stored: pa.Schema) -> pa.RecordBatch:
    """The rows in an Arrow IPC message that was read from a file, all of whose values are looked at.

    Raises :class:`CorruptionError` for one that makes no sense: whoever used its rows could read any memory.
    """
    try:
        rows = pa.ipc.read_record_batch(message, stored)
        rows.validate(full=True)
        for field, column in zip(stored, rows.columns, strict=True):
            if column.null_count and not field.nullable:
                raise CorruptionError(f"column {field.name!r}, which has no nulls, has {column.null_count}")
    except (pa.ArrowException, ValueError, LookupError, OSError, MemoryError) as error:
        raise CorruptionError(f"found an Arrow message that makes no sense: {error}") from error
    return rows


def presented(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows of one version under the columns ``target`` of another: new columns are null, others are cast.

    Raises :class:`SchemaError` if a value does not fit, which can only be under an older version.
    """
    arrays = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"column {field.name!r} was widened to {type_name(column.type)}, and has values now that are no "
                    f"{type_name(field.type)} ({error}); start again with the new schema"
                ) from None
        if column.null_count and not field.nullable:
            raise SchemaError(
                f"column {field.name!r} was made nullable, and has nulls now; start again with the new schema"
            )
        arrays.append(column)
    return batch_of(arrays, target, batch.num_rows)


def version_notes(version: int) -> dict[str, Any]:
    """What the description of a container says of the version of its schema; nothing for the first."""
    return {_VERSION: version} if version else {}


def version_in(description: Mapping[str, Any]) -> int:
    """The version of the schema that a container was written under."""
    version = description["notes"].get(_VERSION, 0)
    if not isinstance(version, int):
        raise CorruptionError(f"found the version {version!r} of a schema in the description of a split")
    return version
