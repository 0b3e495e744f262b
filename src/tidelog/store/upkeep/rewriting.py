"""Writing splits anew: their rows, merged and without those that are deleted, into splits that take their place.

The rows keep their sequence numbers, so those who go by them (offsets of streaming queries, the tail's journal, the
numbers of a snapshot) notice nothing. The new files are durable before one commit puts them in the place of the old
ones, and that commit fails if one of the old ones has left meanwhile: a crash, or a rival, leaves the one or the other
and never both. Needs no lock, and memory for a few batches of each split that is open at once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from tidelog.index.layout import Layout
from tidelog.model.errors import ClosedError, ConflictError, NotFoundError, StorageError
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet
from tidelog.store.manifest.split_info import SplitInfo, SplitKind
from tidelog.store.manifest.state import Removed
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot, numbers_in
from tidelog.store.split.context import StreamContext
from tidelog.store.split.removal import after_failed_commit, give_up
from tidelog.store.split.split_sink import SplitSink
from tidelog.store.upkeep.split_inputs import SplitInput, inputs_of

_MOST_SPANS: Final = 1000
"""Pieces of a set of numbers that a manifest is burdened with."""

_SLACK: Final = 4
"""A result may exceed the size of a split by this part of it, rather than leave a small rest."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Splits that are to be written anew, as they are in one manifest. Can be pickled, to be written elsewhere."""

    manifest: Manifest
    """What of the stream's manifest matters for that; of splits, only those to be written anew."""
    width: int | None = None
    """Results are cut at multiples of so many ticks of time, besides at the stream's ``split_bytes``."""
    edges: tuple[int, ...] = ()
    """And at these times, which rise."""

    @classmethod
    def of(
        cls, manifests: ManifestLog, names: Sequence[str], width: int | None = None, edges: tuple[int, ...] = ()
    ) -> Self:
        """Some splits of the newest manifest. Raises :class:`ConflictError` if one of them is not in it any more."""
        manifest = manifests.load()
        missing = [name for name in names if name not in manifest.splits]
        if missing:
            raise ConflictError(f"cannot write {', '.join(missing)} anew: not in the manifest any more; choose again")
        splits = {name: manifest.splits[name] for name in names}
        return cls(replace(manifest, splits=splits, transactions={}, removed=Removed()), width, edges)

    @property
    def inputs(self) -> tuple[SplitInfo, ...]:
        """The splits."""
        return tuple(self.manifest.splits.values())


@dataclass(frozen=True, slots=True)
class Written:
    """New files with the rows that some splits have in an interval of time; nobody can see them yet."""

    splits: tuple[SplitInfo, ...] = ()
    gone: SeqSet = EMPTY
    """The numbers of rows of these splits that ``deleted_before`` has deleted, told with the first interval."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of some splits."""

    removed: tuple[SplitInfo, ...]
    added: tuple[SplitInfo, ...]
    manifest: Manifest

    @property
    def bytes_read(self) -> int:
        """The bytes of the splits that left."""
        return sum(split.bytes for split in self.removed)


def rewrite(
    context: StreamContext,
    manifests: ManifestLog,
    names: Sequence[str],
    *,
    layout: Layout | None = None,
    width: int | None = None,
    edges: tuple[int, ...] = (),
    is_over: Callable[[], bool] = lambda: False,
) -> Rewritten:
    """Replace closed splits by new ones with the same rows, but for those that are deleted.

    The results have the layout given, else the stream's, and do not overlap; they are cut at the stream's
    ``split_bytes``, at multiples of ``width`` ticks of time if that is given, and at rising ``edges``. If no row is
    left there are none. Raises :class:`ConflictError` if one of the splits is not in the manifest any more; then
    nothing has changed, and no file is left. The same holds for :class:`ClosedError`, raised once ``is_over`` says so
    between two batches.
    """
    rewriting = Rewriting.of(manifests, names, width, edges)
    return swap(manifests, rewriting, [write_anew(context, rewriting, layout=layout, is_over=is_over)])


def write_anew(
    context: StreamContext,
    rewriting: Rewriting,
    interval: Interval = ALL_TIME,
    *,
    layout: Layout | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Written:
    """Write the rows that splits have in an interval into new files, durably; :func:`swap` puts them in their place.

    Any number of processes may do so at once, each with an interval of its own. If an error is raised no file is left.
    """
    manifest = rewriting.manifest
    context = context.at(manifest)
    if layout is not None:
        context = replace(context, layout=layout)
    snapshot = Snapshot(manifest, context.layout, tuple(inputs_of(context, rewriting.inputs)), manifest.next_seq)
    expected = sum(info.bytes * _share(info, interval) for info in rewriting.inputs)
    # What is about as large as one split becomes one: a small rest would have to be merged again.
    most = context.options.split_bytes
    most = most if expected > most + most // _SLACK else 2 * most
    with SplitSink(context, "compacted", width=rewriting.width, edges=rewriting.edges, split_bytes=most) as results:
        for batch in scan(snapshot, Intervals((interval,)), context.layout.stored.names):
            results.append(batch)
            if is_over():  # behind each batch, for all rows of small splits may come as one
                raise ClosedError("the merge of splits was stopped; nothing has changed")
        gone = _leaving(context, rewriting) if interval.start is None else EMPTY
        return Written(tuple(results.finish()), gone)


def _share(info: SplitInfo, interval: Interval) -> float:
    """About which part of its rows a split has in an interval."""
    inside = interval.intersect(info.interval)
    assert inside.start is not None
    assert inside.end is not None
    return max(inside.end - inside.start, 0) / (info.time_max + 1 - info.time_min)


def swap(manifests: ManifestLog, rewriting: Rewriting, written: Iterable[Written]) -> Rewritten:
    """Put new splits, for intervals that together are all time, in the place of the old ones, in one commit.

    Raises :class:`ConflictError` if one of the old ones has left the manifest; then the new files are removed. So they
    are if a file among them was removed before, because it was not committed in time, and after an error of the
    storage if nothing was committed.
    """
    old, manifest = rewriting.inputs, rewriting.manifest
    kind: SplitKind = "regular" if all(info.kind in ("regular", "late") for info in old) else "compacted"
    done = list(written)
    new = tuple(replace(info, kind=kind, clean_at=manifest.number) for each in done for info in each.splits)
    gone = functools.reduce(operator.or_, (each.gone for each in done), EMPTY)
    names = tuple(info.name for info in old)
    try:
        committed = manifests.commit(lambda _: Change(remove=names, add=new, gone=gone))
    except ConflictError:
        give_up(manifests, [info.name for info in new])
        raise
    except StorageError as error:
        after_failed_commit(manifests, [info.name for info in new], error)
        raise
    return Rewritten(old, new, committed)


def _leaving(context: StreamContext, rewriting: Rewriting) -> SeqSet:
    """The numbers of rows that could be seen and leave because of ``deleted_before``.

    If they are in very many pieces, all from the smallest to the greatest of these; see ``Manifest.gone``.
    """
    manifest = rewriting.manifest
    bound = manifest.deleted_before
    leaving = EMPTY
    for info in rewriting.inputs:
        if bound is not None and info.time_min < bound and manifest.deleted_seen.overlaps(info.seq_min, info.seq_max):
            part = SplitInput(context, info)
            for numbers in numbers_in(part, bound, manifest.deleted_seen, manifest.deletions):
                leaving |= SeqSet.of(numbers)
                if len(leaving.spans) > _MOST_SPANS:
                    leaving = manifest.deleted_seen & SeqSet([(leaving.spans[0][0], leaving.stop)])
    return leaving


def unless_overtaken(manifests: ManifestLog, names: Iterable[str], work: Callable[[], Rewritten]) -> Rewritten | None:
    """Do some work on splits; None if it failed because somebody else merged or deleted one of them meanwhile.

    Their files may have gone with them. What else goes wrong is raised.
    """
    try:
        return work()
    except (ConflictError, NotFoundError):
        known = manifests.load().splits
        if all(name in known for name in names):
            raise
        return None
