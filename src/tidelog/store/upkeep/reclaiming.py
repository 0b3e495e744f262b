"""Splits that are mostly dead: what is deleted, or was written again for late rows, is on disk until it is not.

A split all of whose events are deleted leaves at once. One that the bound cuts stays, and readers skip what is dead in
it without reading it; all it costs is space. When enough of it is dead, it is written anew without that, by the same
swap as a merge. At half dead, writing what is left costs less than it frees, so a bound that moves through a split has
it written again about once in all: a half, a quarter, and so on. The manifest does not know how many events are before
the bound; the split's tree does, for the price of a few nodes. How many bytes of a split are of leaves that were
written again when late rows were merged into them, the manifest knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from tidelog.model.errors import NotFoundError
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.split.open_split import closed_tree
from tidelog.store.upkeep.compaction_plan import Merge, cut_width


class DeadRows:
    """How many events of splits are before the time up to which all are deleted. One thread at a time.

    Trees are asked once for each time.
    """

    def __init__(self) -> None:
        self._bound: int | None = None
        self._known: dict[str, int] = {}

    def count(self, context: StreamContext, split: SplitInfo, bound: int) -> int:
        """How many events of a split are before ``bound``; 0 if its file has gone, for it is being replaced."""
        if bound != self._bound:
            self._bound, self._known = bound, {}
        known = self._known.get(split.name)
        if known is None:
            try:
                tree, reader = closed_tree(context, split)
            except NotFoundError:
                return 0
            with closing(reader):
                known = self._known[split.name] = tree.rank(bound)
        return known


def cut_splits(manifest: Manifest, policy: MergePolicy) -> Iterator[SplitInfo]:
    """Splits, of those that ``deleted_before`` cuts, that are large enough to be written anew for their space."""
    bound = manifest.deleted_before
    if bound is not None:
        for split in manifest.splits.values():
            is_cut = split.time_min < bound <= split.time_max
            if is_cut and split.kind != "coarse" and split.bytes >= policy.dead_bytes:
                yield split


def worn_splits(manifest: Manifest, policy: MergePolicy) -> Iterator[SplitInfo]:
    """Splits so many of whose bytes were replaced by others that they are to be written anew."""
    for split in manifest.splits.values():
        if split.dead_bytes and split.kind != "coarse" and policy.is_worn(split.bytes, split.dead_bytes):
            yield split


def choose_dead(
    context: StreamContext, manifest: Manifest, policy: MergePolicy, dead: DeadRows, most_bytes: int | None = None
) -> Iterator[Merge]:
    """Splits with so many dead events, or bytes, that they are to be written anew, each as a merge of one.

    None has more than ``most_bytes``.
    """
    bound = manifest.deleted_before
    width = manifest.options.split_ticks(manifest.schema.clock)
    worn = {split.name: split for split in worn_splits(manifest, policy)}
    for split in (*worn.values(), *cut_splits(manifest, policy)):
        if most_bytes is not None and split.bytes > most_bytes:
            continue
        if split.name not in worn:
            assert bound is not None
            share = dead.count(context, split, bound) / split.rows
            if not policy.is_worn(split.bytes, share * split.bytes):
                continue
        yield Merge((split,), cut_width((split,), width))
