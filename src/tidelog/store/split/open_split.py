"""A split that is being written: a container, the tree in it, and the interval of time it is for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tidelog.index.layout import Layout
from tidelog.index.tabtree.merging import Shares
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.root import Root
from tidelog.index.tabtree.writer import TreeWriter
from tidelog.model.errors import NONSENSE, CorruptionError
from tidelog.model.times.interval import Interval
from tidelog.storage import Container, ContainerReader, Options
from tidelog.storage.codec import Ints
from tidelog.storage.rows.ordered import AnyRows, OrderedRows
from tidelog.store.log.file_names import new_file_name
from tidelog.store.manifest.manifest import SplitInfo, SplitKind
from tidelog.store.manifest.schemas import version_in, version_notes
from tidelog.store.split.context import StreamContext
from tidelog.store.split.removal import remove_splits
from tidelog.store.split.statistics import measure

_BOUNDARY = "boundary"


class OpenSplit:
    """Takes sorted rows at its end. The caller sees to it that calls take turns."""

    def __init__(
        self,
        context: StreamContext,
        name: str,
        container: Container,
        tree: TreeWriter,
        boundary: Interval | None,
        version: int,
    ) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self._context = context
        self._container = container
        self._tree = tree
        self.name = name
        self.boundary = boundary
        self._key = object()
        """Names the tree in the cache of nodes: another one after each merge, for nodes have other entries then."""
        self._version = version
        self._next_commit: tuple[int, int] | None = None
        """What :meth:`next_commit` has said; None if rows came since."""

    @classmethod
    def create(cls, context: StreamContext, boundary: Interval | None, *, unseen: bool = False) -> OpenSplit:
        """A new split without rows, for times in ``boundary`` if given; nothing of it is left if that fails.

        An ``unseen`` one is told to nobody before it is closed, and durable only then.
        """
        name = new_file_name(context.now())
        notes: dict[str, Any] = context.layout.to_notes() | version_notes(context.version)
        if boundary is not None:
            notes[_BOUNDARY] = [boundary.start, boundary.end]
        options = Options(leaf_rows=context.options.leaf_rows)
        try:
            container = Container.create(
                context.medium, context.path(name), context.layout.stored, options, notes, unseen=unseen
            )
        except Exception:
            _remove(context, name)
            raise
        try:
            return cls(context, name, container, TreeWriter(container, context.layout), boundary, context.version)
        except BaseException:
            container.abandon()
            raise

    @classmethod
    def open(cls, context: StreamContext, name: str, at: tuple[int, int] | None) -> OpenSplit:
        """Go on with a split after its writer has gone, as it was at a commit if given, else with all that is whole."""
        options = Options(leaf_rows=context.options.leaf_rows)
        path = context.path(name)
        container = (
            Container.open(context.medium, path, options)
            if at is None
            else Container.open_at(context.medium, path, *at, options)
        )
        try:
            description = container.snapshot().description
            bounds = description["notes"].get(_BOUNDARY)
            boundary = None if bounds is None else _boundary(path, bounds)
            tree = TreeWriter.resume(container, Layout.of(description))
            return cls(context, name, container, tree, boundary, version_in(description))
        except BaseException:
            container.abandon()
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
    def dead_bytes(self) -> int:
        """How much of that late rows have left behind: leaves as they were before they took some."""
        return self._container.dead_bytes

    @property
    def is_closing(self) -> bool:
        """Whether a writer before this one ended while it closed the split: it takes no more rows."""
        return self._tree.is_closing

    def takes(self, time: int) -> bool:
        """Whether rows of a time belong here."""
        return self.boundary is None or self.boundary.contains(time)

    def extend(self, batch: AnyRows, *, in_order: bool = False, breaks: Ints | None = None) -> None:
        """Append sorted rows, none of which is before the last one; see :meth:`TreeWriter.extend`."""
        self._next_commit = None
        self._tree.extend(batch, in_order=in_order, breaks=breaks)

    def hasten(self) -> None:
        """Begin to encode everything appended so far; see :meth:`TreeWriter.hasten`."""
        self._tree.hasten()

    @property
    def first_time(self) -> int:
        """The time of the first row; there must be one."""
        return int(self._tree.leaf_bounds().lows[0])

    def shares(self, times: Ints) -> Shares:
        """Which leaves rows of sorted times belong to, see :meth:`TreeWriter.shares`."""
        return self._tree.shares(times)

    def room(self, leaves: Ints, rows: OrderedRows) -> Ints:
        """How many such rows as these leaves can still take."""
        return self._tree.room(leaves, rows)

    def merge(self, rows: OrderedRows) -> int:
        """Put sorted late rows where they belong, with effect from the next flush; see :meth:`TreeWriter.merge`."""
        self._key = object()
        self._next_commit = None
        return self._tree.merge(rows)

    def next_commit(self) -> tuple[int, int]:
        """Number and position of the commit that :meth:`flush` would make, or has made if nothing came since."""
        if self._next_commit is None:  # every flush of a single event asks, and most find nothing new
            self._next_commit = self._container.next_commit()
        return self._next_commit

    def flush(self) -> None:
        """Make all rows durable."""
        self._container.flush()

    def reader(self) -> TreeReader:
        """The tree as it is now, durable or not."""
        view = self._container.view()
        view.measure(self._context.meter)
        return TreeReader(view, self._tree.layout, self._tree.flank(), self._context.nodes, self._key)

    def close(self, kind: SplitKind = "regular") -> SplitInfo:
        """Close tree and file, durably; says what the manifest is to know of it. There must be rows."""
        root = self._tree.close()
        self._container.flush(root.to_bytes())
        self._container.sync_publication()  # nobody will open it for writing, and repair it, again
        whole = self._tree.entry()
        time, seq = self.layout.schema.time, self.layout.stored.names[self.layout.sequence]
        sampled, correlation = measure(self._container.view(), self.layout, root, whole)
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
            created_at=self._context.now(),
            schema=self._version,
            dead_bytes=self.dead_bytes,
            sampled=sampled,
            correlation=correlation,
        )
        self.abandon()
        return info

    def abandon(self) -> None:
        """Close the file and leave it as a crash would: what was not flushed is lost."""
        self._container.abandon()

    def discard(self) -> None:
        """Close and remove the file, of which nobody was told, after a failure; as far as that is possible."""
        with suppress(Exception):
            self.abandon()
        _remove(self._context, self.name)


def _boundary(path: str, bounds: Any) -> Interval:
    try:
        start, end = bounds
        if not isinstance(start, int) or not isinstance(end, int):
            raise TypeError(f"found {bounds!r} for its boundary")
        return Interval(start, end)
    except NONSENSE as error:
        raise CorruptionError(f"{path}: the notes make no sense: {error}; restore a backup") from error


def _remove(context: StreamContext, name: str) -> None:
    # What cannot be removed is an orphan, and goes with others. The error that led here is what matters.
    with suppress(Exception):
        remove_splits(context.medium, context.directory, [name])


def closed_tree(context: StreamContext, info: SplitInfo) -> tuple[TreeReader, ContainerReader]:
    """The tree of a closed split, and the reader of its file, to be closed by the caller."""
    path = context.path(info.name)
    reader = ContainerReader.open(context.medium, path)
    reader.measure(context.meter)
    try:
        if reader.commit.meta != info.root:
            raise CorruptionError(
                f"{path} is not as it was when it was closed: its last commit has another tree than the manifest says; "
                "restore it from a backup, or salvage the store"
            )
        layout = context.read_layout(reader)
        return TreeReader(reader, layout, Root.from_bytes(info.root), context.nodes, info.name), reader
    except BaseException:
        reader.close()
        raise
