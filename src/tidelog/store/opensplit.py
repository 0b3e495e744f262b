"""A split that is being written: a container, the tree in it, and the interval of time it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tidelog.index.layout import Layout
from tidelog.index.states import available
from tidelog.index.tabtree.merging import Shares
from tidelog.index.tabtree.nodes import NODE_CACHE_BYTES, NodeCache
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.root import Root
from tidelog.index.tabtree.writer import TreeWriter
from tidelog.model.interval import Interval
from tidelog.storage import Container, ContainerReader, Options
from tidelog.storage.codec import Ints
from tidelog.storage.media import Medium
from tidelog.storage.meter import ReadMeter
from tidelog.storage.numbered import Rows
from tidelog.store.filenames import new_file_name
from tidelog.store.manifest import Manifest, ManifestLog, SplitInfo, SplitKind, split_path
from tidelog.store.options import StreamOptions

_BOUNDARY = "boundary"


@dataclass(frozen=True, slots=True)
class Site:
    """Where the splits of a stream are, and how they are laid out."""

    medium: Medium
    directory: str
    layout: Layout
    options: StreamOptions
    now: Callable[[], float]
    nodes: NodeCache
    meter: ReadMeter = field(default_factory=ReadMeter)
    """Counts what is read of all splits."""

    @classmethod
    def of(cls, manifests: ManifestLog) -> Site:
        """The place of a stream as its newest manifest describes it."""
        manifest = manifests.load()
        options = manifest.options
        return cls(
            medium=manifests.medium if options.durability != "none" else manifests.medium.unsynced(),
            directory=manifests.directory,
            layout=layout_of(manifest),
            options=options,
            now=manifests.clock,
            nodes=NodeCache(NODE_CACHE_BYTES),
        )

    def path(self, name: str) -> str:
        """The name of a split's file on the medium."""
        return split_path(self.directory, name)


def layout_of(manifest: Manifest) -> Layout:
    """How new splits of a stream are laid out; without user-defined aggregates whose code is not here."""
    options = manifest.options
    layout = Layout(manifest.schema, options.fanout, options.aggregates)
    if not options.user_aggregates:
        return layout
    return layout.with_states(available(layout.stored, manifest.schema.time, options.user_aggregates).kept)


def renewed(site: Site, manifest: Manifest) -> Site:
    """The place of a stream after user-defined aggregates were attached to it: new splits keep these too."""
    wanted = manifest.options.user_aggregates
    if site.options.user_aggregates == wanted:
        return site
    return replace(site, layout=layout_of(manifest), options=site.options.replace(user_aggregates=wanted))


class OpenSplit:
    """Takes sorted rows at its end. The caller sees to it that calls take turns."""

    def __init__(
        self, site: Site, name: str, container: Container, tree: TreeWriter, boundary: Interval | None
    ) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self._site = site
        self._container = container
        self._tree = tree
        self.name = name
        self.boundary = boundary
        self._key = object()
        """Names the tree in the cache of nodes: another one after each merge, for nodes have other entries then."""

    @classmethod
    def create(cls, site: Site, boundary: Interval | None) -> OpenSplit:
        """A new split without rows, for times in ``boundary`` if given."""
        name = new_file_name(site.now())
        notes: dict[str, Any] = site.layout.to_notes()
        if boundary is not None:
            notes[_BOUNDARY] = [boundary.start, boundary.end]
        container = Container.create(
            site.medium, site.path(name), site.layout.stored, Options(leaf_rows=site.options.leaf_rows), notes
        )
        try:
            return cls(site, name, container, TreeWriter(container, site.layout), boundary)
        except BaseException:
            container.close()
            raise

    @classmethod
    def open(cls, site: Site, name: str, at: tuple[int, int] | None) -> OpenSplit:
        """Go on with a split after its writer has gone, as it was at a commit if given, else with all that is whole."""
        options = Options(leaf_rows=site.options.leaf_rows)
        path = site.path(name)
        container = (
            Container.open(site.medium, path, options)
            if at is None
            else Container.open_at(site.medium, path, *at, options)
        )
        try:
            notes = container.snapshot().description["notes"]
            bounds = notes.get(_BOUNDARY)
            boundary = None if bounds is None else Interval(*bounds)
            return cls(site, name, container, TreeWriter.resume(container, Layout.of({"notes": notes})), boundary)
        except BaseException:
            container.close()
            raise

    @property
    def layout(self) -> Layout:
        """The layout of its tree."""
        return self._tree.layout

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._tree.rows

    @property
    def last_time(self) -> int | None:
        """The time of the last row."""
        return None if self._tree.last is None else self._tree.last[0]

    @property
    def bytes(self) -> int:
        """The length of the file, as far as it is written."""
        return self._container.size

    @property
    def is_closing(self) -> bool:
        """Whether a writer before this one ended while it closed the split: it takes no more rows."""
        return self._tree.is_closing

    def takes(self, time: int) -> bool:
        """Whether rows of a time belong here."""
        return self.boundary is None or self.boundary.contains(time)

    def extend(self, batch: Rows, *, in_order: bool = False) -> None:
        """Append sorted rows, none of which is before the last one; see :meth:`TreeWriter.extend`."""
        self._tree.extend(batch, in_order=in_order)

    @property
    def first_time(self) -> int:
        """The time of the first row; there must be one."""
        return int(self._tree.leaf_bounds().lows[0])

    def shares(self, times: Ints) -> Shares:
        """Which leaves rows of sorted times belong to, see :meth:`TreeWriter.shares`."""
        return self._tree.shares(times)

    def room(self, leaves: Ints, rows: pa.RecordBatch) -> Ints:
        """How many such rows as these leaves can still take."""
        return self._tree.room(leaves, rows)

    def merge(self, rows: pa.RecordBatch) -> int:
        """Put sorted late rows where they belong, with effect from the next flush; see :meth:`TreeWriter.merge`."""
        self._key = object()
        return self._tree.merge(rows)

    def next_commit(self) -> tuple[int, int]:
        """Number and position of the commit that :meth:`flush` would make."""
        return self._container.next_commit()

    def flush(self) -> None:
        """Make all rows durable."""
        self._container.flush()

    def reader(self) -> TreeReader:
        """The tree as it is now, durable or not."""
        view = self._container.view()
        view.measure(self._site.meter)
        return TreeReader(view, self._tree.layout, self._tree.flank(), self._site.nodes, self._key)

    def close(self, kind: SplitKind = "regular") -> SplitInfo:
        """Close tree and file, durably; says what the manifest is to know of it. There must be rows."""
        root = self._tree.close()
        self._container.flush(root.to_bytes())
        self._container.sync_publication()  # nobody will open it for writing, and repair it, again
        whole = self._tree.entry()
        time, seq = self.layout.schema.time, self.layout.stored.names[self.layout.sequence]
        info = SplitInfo(
            name=self.name,
            rows=root.rows,
            bytes=self.bytes,
            time_min=int(whole[time].minimum()),
            time_max=int(whole[time].maximum()),
            seq_min=int(whole[seq].minimum()),
            seq_max=int(whole[seq].maximum()),
            kind=kind,
            boundary=self.boundary,
            root=root.to_bytes(),
            entry=whole.entry.tobytes(),
            states=self.layout.states.digest,
            created_at=self._site.now(),
        )
        self._container.close()
        return info

    def abandon(self) -> None:
        """Close the file; what was not flushed is flushed."""
        self._container.close()


def closed_tree(site: Site, info: SplitInfo) -> tuple[TreeReader, ContainerReader]:
    """The tree of a closed split, and the reader of its file, to be closed by the caller."""
    reader = ContainerReader.open(site.medium, site.path(info.name))
    reader.measure(site.meter)
    try:
        layout = Layout.of(reader.description)
        return TreeReader(reader, layout, Root.from_bytes(info.root), site.nodes, info.name), reader
    except BaseException:
        reader.close()
        raise
