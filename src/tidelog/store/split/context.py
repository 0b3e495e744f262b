"""What everything that works on a stream has to know of it: where its files are, and how its rows are laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidelog.index.layout import Layout
from tidelog.index.tabtree.nodes import NODE_CACHE_BYTES, NodeCache
from tidelog.model.errors import CorruptionError, SchemaError
from tidelog.storage import ContainerReader
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.media.medium import Medium
from tidelog.store.manifest.manifest import Manifest, ManifestLog, SplitInfo, split_path
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.schemas import SchemaHistory, read_message, version_in


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Where the splits of a stream are, and how they are laid out."""

    medium: Medium
    directory: str
    layout: Layout
    options: StreamOptions
    now: Callable[[], float]
    nodes: NodeCache
    meter: ReadMeter = field(default_factory=ReadMeter)
    """Counts what is read of all splits."""
    history: SchemaHistory | None = None
    """The versions of the schema; None stands for one, that of the layout."""

    @classmethod
    def of(cls, manifests: ManifestLog, version: int | None = None) -> StreamContext:
        """The place of a stream as its newest manifest describes it, under the newest or another schema."""
        manifest = manifests.load()
        options = manifest.options
        history = SchemaHistory(manifest, version)
        return cls(
            medium=manifests.medium if options.durability != "none" else manifests.medium.unsynced(),
            directory=manifests.directory,
            layout=history.layout,
            options=options,
            now=manifests.clock,
            nodes=NodeCache(NODE_CACHE_BYTES),
            history=history,
        )

    def at(self, manifest: Manifest, version: int | None = None) -> StreamContext:
        """The same place under the newest schema of a manifest, or another version of it."""
        wanted = len(manifest.schemas) - 1 if version is None else version
        history = self.history
        is_same = history is not None and len(history.schemas) == len(manifest.schemas) and self.version == wanted
        if is_same and self.options == manifest.options:
            return self
        history = SchemaHistory(manifest, version)
        return replace(self, layout=history.layout, options=manifest.options, history=history)

    @property
    def version(self) -> int:
        """The version of the schema that the layout is of."""
        return 0 if self.history is None else self.history.version

    def known_layout(self, info: SplitInfo) -> Layout | None:
        """The layout of the tree of a closed split, with the names of this schema; None if only its file knows."""
        if info.schema == self.version and info.states == self.layout.states.digest:
            return self.layout
        return None if info.states or self.history is None else self.history.layout_of(info.schema)

    def read_rows(self, message: pa.Buffer, version: int) -> pa.RecordBatch:
        """Stored rows in an Arrow IPC message written under a version of the schema, as rows of this one."""
        if self.history is None:
            return read_message(message, self.layout.stored)
        return self.history.read_rows(message, version)

    def read_layout(self, reader: ContainerReader) -> Layout:
        """The layout of the tree in a container, whose columns are called what they are called here."""
        layout = Layout.of(reader.description)
        try:
            layout.check_container(reader.schema)
        except SchemaError as error:
            raise CorruptionError(f"the description of a split makes no sense: {error}; restore a backup") from error
        if self.history is not None:
            layout = self.history.renamed(layout, version_in(reader.description))
            reader.rename(layout.stored.names)
        return layout

    def path(self, name: str) -> str:
        """The name of a split's file on the medium."""
        return split_path(self.directory, name)
