"""The container's writer: a stream of blocks becomes a log that is compressed, addressable and crash-proof."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads
from tidelog.model.errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    InputError,
    NotFoundError,
    StorageError,
)
from tidelog.storage.codec import Ints
from tidelog.storage.format import block
from tidelog.storage.format.commit import (
    Commit,
    Preface,
    commit_at,
    read_preface,
    write_preface,
)
from tidelog.storage.format.description import describe, schema_of
from tidelog.storage.format.macro_block import DATA, MOVED
from tidelog.storage.format.translation import FANOUT, Translation, TranslationTree
from tidelog.storage.format.units import STRIDE
from tidelog.storage.media.medium import File, Lock, Medium
from tidelog.storage.read.addresses import AddressBook, PageLoader
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.frame_source import FrameSource
from tidelog.storage.read.reader import CACHE_BYTES, ContainerReader, lock_name
from tidelog.storage.read.recovery import Recovery, find_commit, recover_translation
from tidelog.storage.rows.ordered import AnyRows
from tidelog.storage.write.commits import Commits
from tidelog.storage.write.encoding import RUN_ROWS, RUNS_AHEAD, EncodingLine
from tidelog.storage.write.leaf_rules import LeafRules
from tidelog.storage.write.placement import Placement
from tidelog.storage.write.repair import cut_back, repair
from tidelog.storage.write.updates import LeafUpdate, Leaves, PendingUpdates, changed_leaves

LEAF_ROWS = 8192
"""Rows of a leaf cut by ``extend``: eight vectors, which can be decoded one by one (docs/design/001-container.md)."""

MACRO_SIZE = 1 << 20
COMMIT_EVERY = 16 << 20
"""Bytes written after which a commit is made in the background."""


@dataclass(frozen=True)
class Options:
    """How a container is written; only ``macro_size`` and ``fanout`` are properties of the file."""

    leaf_rows: int = LEAF_ROWS
    run_rows: int = RUN_ROWS
    macro_size: int = MACRO_SIZE
    fanout: int = FANOUT
    commit_every: int = COMMIT_EVERY
    cache_bytes: int = CACHE_BYTES

    def __post_init__(self) -> None:
        if self.macro_size < 2 * STRIDE or self.macro_size % STRIDE or self.macro_size > 1 << 30:
            raise InputError(f"macro_size is {self.macro_size}, expected a multiple of {STRIDE} from {2 * STRIDE} on")
        if not 2 <= self.fanout <= 1 << 20:
            raise InputError(f"fanout is {self.fanout}, expected 2 to {1 << 20} entries of an address page")
        for name in ("leaf_rows", "run_rows", "commit_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected a positive number")


class Container:
    """One file of blocks with dense ids from 0 on. One writer at a time, guarded by a lock.

    Data is encoded on other threads after ``append`` and ``extend`` have returned, so the buffers of a batch must not
    be changed afterwards (Arrow data is immutable by contract; memory shared with a NumPy array is the caller's care).
    Methods may be called from several threads; they take turns. After a failed write or sync the container
    refuses to go on, because what is on disk is unknown: close it and open it again.
    """

    def __init__(
        self,
        file: File,
        lock: Lock,
        preface: Preface,
        recovery: Recovery,
        tree: TranslationTree,
        pages: PageLoader,
        options: Options,
    ) -> None:
        """Use :meth:`create` or :meth:`open`. ``pages`` is what the tree loads pages by."""
        commit = recovery.commit
        self._file = file
        self._file_lock = lock
        self._preface = preface
        self._options = options
        self.recovery = recovery
        self.schema: pa.Schema = schema_of(preface)
        self._leaves = LeafRules(self.schema, options.leaf_rows)
        self.on_leaves: Callable[[int, Ints, npt.NDArray[np.void]], None] | None = None
        """Told of every run of leaves when it has been placed, in order: first id, rows of each, summaries by leaf and
        column. Called by a thread that appends, flushes or reads; must not use the container."""
        self._mutex = threading.RLock()
        self._closed = False
        self._pages = pages
        self._viewed: weakref.ref[File] | None = None
        """The file as views have it, which go on when this is closed: it goes with the last of them."""
        self._failure: BaseException | None = None
        self._unseen_on: Medium | None = None
        """Of a container that nobody is told of yet: where it is."""
        self._placement = Placement(file, preface.macro_size, commit.place, tree)
        self._line = EncodingLine(commit.next_id, options.run_rows, self._place)
        self._commits = Commits(file, commit, self._placement, options.commit_every)
        self._cache: Cache[pa.Array] = Cache(options.cache_bytes)
        self._frames = FrameSource(file, _Latest(tree, self._commits.relocations), commit.end)

    # -- opening and closing -------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        medium: Medium,
        name: str,
        schema: pa.Schema,
        options: Options | None = None,
        description: Mapping[str, Any] | None = None,
        *,
        unseen: bool = False,
    ) -> Container:
        """Create an empty container; it is durable, name included, when this returns.

        ``description`` is kept with the schema in the preface and must be JSON. The file appears under its name
        complete or not at all.

        An ``unseen`` one is for somebody who tells nobody of it before it is complete: a crash may leave anything of
        it, its flushes wait for no disk, and :meth:`sync_publication` makes all of it durable, name included. So it
        takes two syncs where others take four.
        """
        options = options or Options()
        text = describe(schema, description)
        lock = medium.lock(lock_name(name))
        try:
            if medium.exists(name):
                raise _exists(name)
            draft = name + ".new"
            if medium.exists(draft):
                medium.remove(draft)  # left by a creation that did not finish
            file = medium.create(draft)
            try:
                preface = write_preface(file, name, options.macro_size, options.fanout, text)
                if not unseen:
                    file.sync()
                if not medium.link(draft, name):
                    raise _exists(name)
                if not unseen:
                    medium.sync_names(_directory_of(name))
                medium.remove(draft)
                file.name = name
                recovery = Recovery(Commit.empty(preface), 0, 0, "")
                pages = PageLoader(file)
                tree = TranslationTree(options.fanout, pages)
                container = cls(file, lock, preface, recovery, tree, pages, options)
                if unseen:
                    container._unseen_on = medium
                    container._commits.waits = False
                return container
            except BaseException:
                file.close()
                raise
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, medium: Medium, name: str, options: Options | None = None) -> Container:
        """Open for writing, after a crash too: what no flush acknowledged is cut off and told in ``recovery``."""
        return cls._open(medium, name, options or Options(), roll_back=False)

    @classmethod
    def recover(cls, medium: Medium, name: str, options: Options | None = None) -> Container:
        """Open a file that :meth:`open` refuses as corrupt, going back to its newest intact commit.

        Committed data behind that is lost; ``recovery`` tells how much.
        """
        return cls._open(medium, name, options or Options(), roll_back=True)

    @classmethod
    def open_at(
        cls, medium: Medium, name: str, number: int, position: int, options: Options | None = None
    ) -> Container:
        """Open a container as it was at a commit, given as :meth:`next_commit` does; later commits are cut off.

        Raises :class:`CorruptionError` if the commit is not there.
        """
        return cls._open(medium, name, options or Options(), roll_back=False, at=(number, position))

    @classmethod
    def _open(
        cls, medium: Medium, name: str, options: Options, *, roll_back: bool, at: tuple[int, int] | None = None
    ) -> Container:
        lock = medium.lock(lock_name(name))
        try:
            file = medium.open(name, writable=True)
            try:
                preface = read_preface(file)
                recovery = find_commit(file, preface, roll_back=roll_back)
                if at is not None and at[0] < recovery.commit.number:
                    recovery = cut_back(file, recovery, commit_at(file, preface, *at))
                commit = recovery.commit
                pages = PageLoader(file)
                tree = recover_translation(file, preface, commit, pages)
                container = cls(file, lock, preface, recovery, tree, pages, options)
                if commit.number == 0:  # its creator may have been killed before it made the name durable
                    medium.sync_names(_directory_of(name))
                if not recovery.is_clean:
                    repair(file, recovery)
                return container
            except BaseException:
                file.close()
                raise
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Flush and free the file and its lock. After a failure it frees them without flushing."""
        with self._mutex:
            try:
                if not self._closed and self._failure is None:
                    self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Free the file and its lock and leave the file as a crash would: what no commit has is lost.

        For whoever is in the middle of a change, which must not be committed by half. Does nothing the second time, and
        goes on where it was interrupted.
        """
        with self._mutex:
            self._closed = True
            self._line.cancel()
            self._commits.abandon()
            self._file.close()
            self._file_lock.release()

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    # -- writing --------------------------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """How many blocks were appended, whether durable or not."""
        return self._line.next_id

    @property
    def size(self) -> int:
        """Bytes of the file so far, without blocks that are being encoded or wait in the open macro block."""
        return self._placement.place.offset

    @property
    def dead_bytes(self) -> int:
        """Bytes of the file that are of images which others have replaced, or will with the next commit."""
        return self._commits.dead_bytes + self._commits.pending.dead_bytes

    def append(self, content: pa.RecordBatch | bytes) -> int:
        """Append one block, a leaf (a batch of the container's schema) or a node (bytes); returns its id.

        It is durable after the next ``flush``.
        """
        with self._mutex, self._guard():
            if not isinstance(content, pa.RecordBatch):
                return self._line.add_node(content)
            self._leaves.check_one(content)
            return self._line.add_leaf(content)

    def extend(self, batch: AnyRows) -> range:
        """Cut rows into leaves and append them; returns their ids. An empty batch appends nothing."""
        return self.extend_up_to(batch, None)[0]

    def extend_up_to(self, batch: AnyRows, most: int | None, breaks: Ints | None = None) -> tuple[range, int]:
        """Cut the first rows of a batch into at most so many leaves (None: all rows) and append them.

        A leaf ends at each of the ``breaks``, rising places behind the first row. Returns the ids of the leaves and how
        many rows there are in them.
        """
        with self._mutex, self._guard():
            self._leaves.check(batch)
            if not batch.num_rows:
                return range(self.blocks, self.blocks), 0
            batch, rows, size = self._leaves.cut(batch, most, breaks)
            if breaks is not None:
                breaks = breaks[breaks < batch.num_rows]
            return self._line.add_leaves(batch, rows, size, breaks), batch.num_rows

    def append_later(self, make: Callable[[], bytes]) -> int:
        """Append a node whose bytes are not known yet; returns its id.

        ``make`` is called when every block before it has been encoded and placed, by a thread that appends, flushes or
        reads; it must not use the container.
        """
        with self._mutex, self._guard():
            return self._line.add_later(make)

    def leaf_rows(self, batch: AnyRows) -> int:
        """Rows of the leaves that :meth:`extend` would cut a batch into."""
        return self._leaves.rows_of(batch)[0]

    def update(self, id: int, content: pa.RecordBatch | bytes) -> None:
        """Replace a block: append a new image under the same id. Readers of earlier commits keep the old one.

        Updates take effect together at the next ``flush``; a crash before that undoes all of them.
        """
        with self._mutex, self._guard():
            if not 0 <= id < self.blocks:
                raise NotFoundError(f"no block {id} to update: the ids are 0 to {self.blocks - 1}")
            self._settle(id)
            old_rows, old_bytes = self._frames.measure(id)
            if isinstance(content, pa.RecordBatch):
                self._leaves.check_one(content)
                frames = block.encode_leaves(content, np.array([0, content.num_rows], np.int64), id)
            else:
                frames = block.encode_node(content, id)
            (address,) = self._placement.put_run([id], frames.content, frames.bounds, MOVED, frames.digests)
            self._commits.update(PendingUpdates({id: address}, frames.rows - old_rows, old_bytes))

    def update_leaves(self, updates: Sequence[LeafUpdate]) -> list[Leaves]:
        """Replace leaves by what is made of them, on the encoding threads; returns rows and summaries of the new ones.

        Like :meth:`update` for each of them. New images are placed while others are made, and count when all are
        placed: if a change raises :class:`InputError` nothing has happened, but for bytes in the file that are dead.
        """
        with self._mutex, self._guard():
            before = self._view()  # the threads cannot ask this container, whose turn it is
            jobs = [partial(changed_leaves, before, update) for update in updates]
            moved, leaves, placed = PendingUpdates(), list[Leaves](), 0
            changed = threads.in_order(jobs, ahead=threads.THREADS + RUNS_AHEAD)
            try:
                for update, (frames, old_rows, old_bytes) in zip(updates, changed, strict=True):
                    ids = update.ids.tolist()
                    addresses = self._placement.put_run(ids, frames.content, frames.bounds, MOVED, frames.digests)
                    self._placement.settle()
                    placed += frames.bounds[-1]
                    moved.addresses.update(zip(ids, addresses, strict=True))
                    moved.rows += frames.rows - old_rows
                    moved.dead_bytes += old_bytes
                    leaves.append((frames.leaf_rows, frames.summaries))
            except InputError:
                self._commits.dead_bytes += placed
                raise
            self._commits.update(moved)
            return leaves

    def hasten(self) -> None:
        """Begin to encode everything appended so far, for somebody who needs it soon."""
        with self._mutex, self._guard():
            self._line.hasten()

    def settle(self) -> None:
        """Encode and place everything appended so far."""
        with self._mutex, self._guard():
            self._line.drain()

    def flush(self, meta: bytes | None = None) -> Commit:
        """Make everything appended and updated so far durable and visible to readers; returns the commit.

        ``meta`` is kept in the commit for the caller (None keeps that of the commit before).
        """
        with self._mutex, self._guard():
            self._line.drain()
            return self._commits.flush(meta)

    def sync_publication(self) -> None:
        """Make the slot of the newest commit durable too, so that no crash leaves it damaged.

        After ``flush`` alone that does no harm, as the next writer repairs it; this is for files that get no other.
        """
        with self._mutex, self._guard():
            self._file.sync()
            if self._unseen_on is not None:
                self._unseen_on.sync_names(_directory_of(self._file.name))

    def next_commit(self) -> tuple[int, int]:
        """Number and position of the commit that ``flush`` would make or return now, if nothing is appended before it.

        Encodes, places and writes everything appended so far.
        """
        with self._mutex, self._guard():
            self._line.drain()
            return self._commits.following()

    def _place(self, frames: block.Frames) -> None:
        """Take the frames of a run, the next ones, into the file."""
        ids = range(frames.first_id, frames.first_id + len(frames.digests))
        self._placement.put_run(ids, frames.content, frames.bounds, DATA, frames.digests)
        self._placement.settle()
        if self.on_leaves is not None and len(frames.leaf_rows):
            self.on_leaves(frames.first_id, frames.leaf_rows, frames.summaries)
        self._commits.rows += frames.rows
        self._commits.begin()

    # -- reading --------------------------------------------------------------------------------------------------

    def snapshot(self) -> ContainerReader:
        """A reader pinned to the newest durable commit, sharing this container's file and cache."""
        with self._mutex, self._guard():
            return self._reader(self._file, *self._commits.newest())

    def view(self) -> ContainerReader:
        """A reader of everything appended and updated so far, durable or not, sharing this container's file and cache.

        Its commit is none that was written: it has the number of the last one and ends where the file ends now. It can
        be used for as long as anybody likes, also when the container has been closed.
        """
        with self._mutex, self._guard():
            return self._view()

    def _view(self) -> ContainerReader:
        self._line.drain()
        self._placement.seal()
        end = self._placement.place
        commits = self._commits
        rows = commits.rows + commits.pending.rows
        now = replace(commits.written, end=end.offset, place=end, next_id=self._placement.tree.next_id, rows=rows)
        # By weak reference: what keeps this container in memory does not keep a file open that nobody reads.
        file = None if self._viewed is None else self._viewed()
        if file is None:
            file = self._file.shared()
            self._viewed = weakref.ref(file)
        return self._reader(file, now, commits.relocations)

    def _reader(self, file: File, commit: Commit, relocations: Mapping[int, int]) -> ContainerReader:
        translation: Translation = self._placement.tree.freeze(self._pages.of(file))
        return ContainerReader(file, self._preface, commit, translation, relocations, self._cache, owns_file=False)

    def read_node(self, id: int) -> bytes:
        """A node as appended or updated last, durable or not."""
        with self._mutex, self._guard():
            if not 0 <= id < self.blocks:
                raise NotFoundError(f"no block {id}: the ids are 0 to {self.blocks - 1}")
            self._settle(id)
            return self._frames.read_node(id)

    def _settle(self, id: int) -> None:
        """See to it that a block can be read from the file."""
        if id >= self._placement.tree.next_id:
            self._line.drain()
        if self._placement.holds(id):
            self._placement.seal()
        self._frames.limit = self._placement.place.offset

    # -- guarding -------------------------------------------------------------------------------------------------

    def _guard(self) -> _Guard:
        if self._closed:
            raise ClosedError(f"{self._file.name} is closed; open it again to go on")
        if self._failure is not None:
            raise StorageError(
                f"{self._file.name} had a failed write before ({self._failure}); what is on disk is unknown: "
                "close the container and open it again"
            ) from self._failure
        return _Guard(self)


class _Latest(AddressBook):
    """The addresses of blocks as they were placed or updated last."""

    def __init__(self, tree: TranslationTree, relocations: Mapping[int, int]) -> None:
        self._tree = tree
        self._relocations = relocations

    def one(self, id: int) -> int:
        moved = self._relocations.get(id)
        return int(self._tree.lookup(id, id + 1)[0]) if moved is None else moved


class _Guard:
    """Remembers an error that leaves the file in an unknown state; refused input is not one."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        refused = (InputError, NotFoundError, ClosedError, CorruptionError)
        if error is not None and not isinstance(error, refused) and self._container._failure is None:
            self._container._failure = error


def _directory_of(name: str) -> str:
    return name.rpartition("/")[0]


def _exists(name: str) -> ExistsError:
    return ExistsError(f"{name} exists already; open it, or choose another name")
