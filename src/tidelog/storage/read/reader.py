"""Reading a container, pinned to one of its commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import NotFoundError
from tidelog.storage.codec import Ints
from tidelog.storage.format.commit import Commit, Preface, all_relocations, commit_at, published_commits, read_preface
from tidelog.storage.format.description import schema_of
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.translation import Addresses, Translation, read_page
from tidelog.storage.format.value_range import ValueRange
from tidelog.storage.media.medium import File, Medium
from tidelog.storage.read.cache import Cache, CacheStatistics
from tidelog.storage.read.check import Finding, check_container
from tidelog.storage.read.leaf_pieces import Numbers
from tidelog.storage.read.recovery import find_commit, recover_translation
from tidelog.storage.read.source import BlockSource, RowTest

CACHE_BYTES = 64 << 20
"""Default budget of a block cache (decoded columns)."""

_PAGE_CACHE_BYTES = 4 << 20
_MOST_PAGES = 64
"""Pages whose addresses a reader has at hand: some 40 kB each."""


class PageLoader:
    """Reads and caches the entries of address pages."""

    def __init__(self, file: File, cache: Cache[Addresses] | None = None) -> None:
        self._file = file
        self._cache: Cache[Addresses] = Cache(_PAGE_CACHE_BYTES) if cache is None else cache

    def of(self, file: File) -> PageLoader:
        """One that reads the same pages by way of another object of the same file."""
        return PageLoader(file, self._cache)

    def __call__(self, position: int) -> Addresses:
        """The entries of the page at ``position``."""

        entries = self._cache.find(position)
        if entries is None:
            entries = read_page(self._file, position, self._file.size()).entries
            self._cache.put(position, entries, entries.nbytes)
        return entries


class PinnedAddresses:
    """Translates ids as a commit has them: by the tree, unless the block was replaced before that commit."""

    def __init__(self, translation: Translation, relocations: Mapping[int, int]) -> None:
        self._translation = translation
        order = sorted(relocations)
        self._moved = np.array(order, np.int64)
        self._targets = np.array([relocations[id] for id in order], np.uint64)
        self._pages: dict[int, list[int]] = {}
        """The addresses in pages that were asked about, as plain numbers."""

    def one(self, id: int) -> int:
        """The address of one id."""
        fanout = self._translation.fanout
        page, entry = divmod(id, fanout)
        addresses = self._pages.get(page)
        if addresses is None:
            first, last = page * fanout, min((page + 1) * fanout, self._translation.next_id)
            addresses = self._pages[page] = self(first, last).tolist()
            if len(self._pages) > _MOST_PAGES:
                self._pages.pop(next(iter(self._pages)), None)
        return addresses[entry]

    def __call__(self, first: int, last: int) -> Addresses:
        """The addresses of the ids ``first`` to ``last`` (exclusive)."""
        addresses = self._translation.lookup(first, last)
        if not len(self._moved):
            return addresses
        low, high = np.searchsorted(self._moved, (first, last)).tolist()
        if low < high:
            addresses = addresses.copy()
            addresses[self._moved[low:high] - first] = self._targets[low:high]
        return addresses


class ContainerReader:
    """The blocks of a container as of one commit; later commits and updates do not show.

    Never locks, truncates or repairs anything. May be used from several threads.
    """

    def __init__(
        self,
        file: File,
        preface: Preface,
        commit: Commit,
        translation: Translation,
        relocations: Mapping[int, int],
        cache: Cache[pa.Array],
        *,
        owns_file: bool,
    ) -> None:
        """Use :meth:`open`, or ``Container.snapshot``."""
        self._file = file
        self._preface = preface
        self._owns_file = owns_file
        self._cache = cache
        self.commit = commit
        self.schema: pa.Schema = schema_of(preface)
        addresses = PinnedAddresses(translation, relocations)
        self._source = BlockSource(file, self.schema, addresses, lambda: commit.end, cache, addresses.one)

    @classmethod
    def open(
        cls,
        medium: Medium,
        name: str,
        *,
        at: tuple[int, int] | None = None,
        writer_at_work: bool | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> ContainerReader:
        """Pin the newest commit, or the one whose number and position are given.

        While a writer is at work that is the newest one it published; otherwise also commits count whose publication
        was lost in a crash. Whether one is, its lock says, if the caller does not know better.
        """
        file = medium.open(name)
        try:
            preface = read_preface(file)
            if at is None:
                is_held = medium.is_locked(lock_name(name)) if writer_at_work is None else writer_at_work
                commit = _newest_commit(file, preface, writer_at_work=is_held)
            else:
                commit = commit_at(file, preface, *at)
            tree = recover_translation(file, preface, commit, PageLoader(file))
            relocations = all_relocations(file, commit)
            return cls(file, preface, commit, tree, relocations, Cache(cache_bytes), owns_file=True)
        except BaseException:
            file.close()
            raise

    def measure(self, meter: ReadMeter) -> None:
        """Let a meter count what is read from now on."""
        self._source.meter = meter

    def rename(self, names: Sequence[str]) -> None:
        """Call the columns of leaves something else, for all in their order; before anything was read."""
        fields = [field.with_name(name) for field, name in zip(self.schema, names, strict=True)]
        self.schema = self._source.schema = pa.schema(fields)

    @property
    def description(self) -> Mapping[str, Any]:
        """What the creator of the container wrote into its preface."""
        return self._preface.description

    @property
    def blocks(self) -> int:
        """How many blocks there are; their ids are 0 to ``blocks - 1``."""
        return self.commit.next_id

    @property
    def rows(self) -> int:
        """How many rows the leaves have together."""
        return self.commit.rows

    def read(
        self, id: int, columns: Sequence[str] | None = None, rows: tuple[int, int] | None = None
    ) -> pa.RecordBatch:
        """A leaf's columns (all for None); with ``rows`` only those ``[rows[0], rows[1])``, decoding little more."""
        return self._source.read(self._existing(id), columns, rows)

    def read_leaves(self, ids: Ints) -> tuple[pa.RecordBatch, Ints]:
        """All columns of a few leaves, given by rising ids, as one batch; where each begins, and the end."""
        for id in (int(ids[0]), int(ids[-1])):
            self._existing(id)
        return self._source.read_leaves(ids)

    def heads(self, ids: Ints, columns: Sequence[str], vectors: int) -> tuple[pa.RecordBatch, Ints]:
        """The first rows of leaves, given by rising ids, as one batch; where each begins, and the end.

        Of each at most so many vectors, which are 1,024 rows.
        """
        return self._source.heads(ids, columns, vectors)

    def numbers(self, ids: Sequence[int], columns: tuple[int, ...]) -> tuple[Numbers, list[int]] | None:
        """Columns of a few leaves, by position, with the rows of all of them, and how many each has.

        The arrays are valid until the thread's next call. Only numbers without nulls can be had like that, and not of
        all encodings: None means that :meth:`read` is needed.
        """
        for id in ids:
            self._existing(id)
        return self._source.numbers.whole(ids, columns)

    def numbers_between(
        self, ids: Sequence[int], columns: tuple[int, ...], ranges: Sequence[tuple[int, int]]
    ) -> tuple[Numbers, Ints] | None:
        """Columns of those rows of a few leaves whose values in the first column are in a range, and where these are.

        The first of the columns, given by position, has integers of 64 bits that rise in every leaf; ``ranges`` are the
        lowest and the highest of them that are wanted of each leaf. Returns arrays of the other columns, and ``cuts``:
        of leaf i, rows ``cuts[2 * i]`` to ``cuts[2 * i + 1]`` (exclusive) of them are wanted, and those between have no
        meaning. Valid until the thread's next call; None as for :meth:`numbers`.
        """
        for id in ids:
            self._existing(id)
        return self._source.numbers.between(ids, columns, ranges)

    def stored_bytes(self, ids: Ints) -> int:
        """The bytes that some blocks, given by rising ids, take in the file."""
        for id in (ids[0], ids[-1]):
            self._existing(int(id))
        return self._source.stored_bytes(ids)

    def read_node(self, id: int) -> bytes:
        """A node's bytes."""
        return self._source.read_node(self._existing(id))

    def scan(
        self, first: int = 0, last: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The leaves with ids from ``first`` to ``last`` (exclusive, None for all), in order, several to a batch.

        Lazy: a few batches are decoded ahead on other threads. An abandoned iterator frees everything.
        """
        last = self.blocks if last is None else min(last, self.blocks)
        first = max(first, 0)
        blocks = self._source.blocks_per_task(self.commit, columns, last - first)
        return self._source.scan(first, last, columns, blocks)

    def select(
        self,
        ids: Ints,
        columns: Sequence[str],
        tested: Sequence[str],
        test: RowTest,
        wanted: ValueRange | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of leaves, given by ascending ids, that pass a test, which sees the columns ``tested``.

        Lazy, like :meth:`scan`; ``columns`` that are not tested are decoded only around rows that pass. If a test is
        for a range of one column's values, ``wanted`` is that: it is told from encoded values where that can be.
        """
        blocks = self._source.blocks_per_task(self.commit, list(dict.fromkeys((*tested, *columns))), len(ids))
        return self._source.select(ids, columns, tested, test, wanted, blocks)

    def count(self, ids: Ints, wanted: ValueRange, test: RowTest) -> int:
        """How many rows of leaves, given by ascending ids, have a value in a range; ``test`` tells the same of batches.

        Counts encoded values where that can be.
        """
        blocks = self._source.blocks_per_task(self.commit, [wanted.column], len(ids))
        return self._source.count(ids, wanted, test, blocks)

    def summaries(self, first: int = 0, last: int | None = None) -> tuple[Ints, Ints, npt.NDArray[np.void]]:
        """Ids, row counts and per-column summaries of the leaves in a range of ids, read from frame heads."""
        last = self.blocks if last is None else min(last, self.blocks)
        return self._source.summaries(max(first, 0), last)

    def cache_statistics(self) -> CacheStatistics:
        """Hits, misses and content of the block cache."""
        return self._cache.statistics()

    def check(self, *, is_repaired: bool = True) -> list[Finding]:
        """Walk every structure up to the pinned commit; an empty list means that all is well.

        ``is_repaired`` is to be false where a writer may have crashed, and none has come since.
        """
        return check_container(self._file, self._preface, self.commit, is_repaired=is_repaired)

    def close(self) -> None:
        """Free the file; iterators still open fail."""
        if self._owns_file:
            self._file.close()

    def __enter__(self) -> ContainerReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _existing(self, id: int) -> int:
        if not 0 <= id < self.blocks:
            raise NotFoundError(f"no block {id}: the ids at this commit are 0 to {self.blocks - 1}")
        return id


def lock_name(name: str) -> str:
    """The name of the file whose lock a container's writer holds."""
    return name + ".lock"


def _newest_commit(file: File, preface: Preface, *, writer_at_work: bool) -> Commit:
    if writer_at_work:
        commits, findings = published_commits(file)
        if commits and not any(finding.names_lost_commit for finding in findings):
            return commits[0]
        if not findings:
            return Commit.empty(preface)
        # A torn slot and no other: a writer is about to repair what a crash left, in the way that follows.
    return find_commit(file, preface).commit
