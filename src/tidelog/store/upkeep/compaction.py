"""Compaction: merging splits, one bounded step after the other, while others write and read.

See spec/event-store.md 5.1 and 6.6. Splits that are mostly dead are written anew by the way
(:mod:`tidelog.store.upkeep.reclaiming`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog.store.manifest.manifest import Manifest, ManifestLog
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.upkeep.compaction_plan import Merge, choose_merge
from tidelog.store.upkeep.reclaiming import DeadRows, choose_dead
from tidelog.store.upkeep.rewriting import rewrite, unless_overtaken

ATTEMPTS: Final = 20
"""How often in a row somebody else may be faster, before others are left to it."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction has done."""

    merges: int = 0
    """Splits written anew for their space count too."""
    splits_before: int = 0
    """Splits that were merged into others, or written anew."""
    splits_after: int = 0
    """Splits that took their place."""
    bytes_read: int = 0
    bytes_written: int = 0
    conflicts: int = 0
    """Merges in vain, because somebody else had changed or merged the same splits meanwhile."""
    is_done: bool = True
    """Whether nothing is left to do."""


def compact(
    context: StreamContext,
    manifests: ManifestLog,
    policy: MergePolicy,
    *,
    max_bytes: int | None = None,
    max_step: int | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
    is_over: Callable[[], bool] = lambda: False,
    dead: DeadRows | None = None,
) -> Compacted:
    """Merge splits as long as the policy finds it worth the work; returns what was done.

    At most ``max_bytes`` of files are read in all, ``max_step`` by one merge, and before each merge ``may_go_on`` is
    asked; ``is_over`` is asked all the time, and raises :class:`ClosedError` out of a merge. Each merge is one commit.
    Others may compact the same stream, append to it, delete from it, and read it. ``dead`` is what is known of splits
    from earlier calls.
    """
    dead = DeadRows() if dead is None else dead
    merges = before = after = read = written = collisions = conflicts = 0
    while may_go_on():
        left = None if max_bytes is None else max_bytes - read
        limits = [each for each in (left, max_step) if each is not None]
        manifest = manifests.load()
        merge = _choose(context, manifest, policy, min(limits, default=None), dead)
        if merge is None:
            # With more bytes to read there may be something left to do.
            done = left is None or _choose(context, manifest, policy, max_step, dead) is None
            return Compacted(merges, before, after, read, written, conflicts, done)
        names = [split.name for split in merge.inputs]
        here = context.at(manifest)
        anew = partial(rewrite, here, manifests, names, width=merge.width, edges=merge.edges, is_over=is_over)
        result = unless_overtaken(manifests, names, anew)
        if result is None:
            collisions += 1
            conflicts += 1
            if collisions == ATTEMPTS:
                break
            continue
        collisions = 0
        merges += 1
        before += len(result.removed)
        after += len(result.added)
        read += result.bytes_read
        written += sum(split.bytes for split in result.added)
    return Compacted(merges, before, after, read, written, conflicts, is_done=False)


def _choose(
    context: StreamContext, manifest: Manifest, policy: MergePolicy, most_bytes: int | None, dead: DeadRows
) -> Merge | None:
    """What to do next: merges come first, for they may take what is dead along."""
    merge = choose_merge(manifest, policy, most_bytes)
    if merge is not None:
        return merge
    return next(choose_dead(context.at(manifest), manifest, policy, dead, most_bytes), None)
