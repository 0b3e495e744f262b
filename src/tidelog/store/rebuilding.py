"""Rebuilding closed splits, so that their trees keep all user-defined aggregates of the stream.

One split at a time is written anew and swapped in by one commit (:mod:`tidelog.store.rewriting`). What is done stays
done: whoever is interrupted, by a crash too, begins again and finds less to do. (spec/event-store.md 3.7)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tidelog.index.entries import entry_dtype
from tidelog.index.layout import Layout
from tidelog.model.interval import ALL_TIME, Interval
from tidelog.store.manifest import Manifest, ManifestLog
from tidelog.store.opensplit import Site, renewed
from tidelog.store.rewriting import Rewritten, rewrite, unless_overtaken
from tidelog.store.split_info import SplitInfo


def rebuild(site: Site, manifests: ManifestLog) -> Iterator[Rewritten]:
    """Rewrite the closed splits whose trees lack aggregates of the stream, oldest first; yields each when it is done.

    Takes no lock. Splits that leave the stream meanwhile are passed over; those that are closed meanwhile have what
    they need. Aggregates without code are not waited for: call it again where their code is.
    """
    manifest = manifests.load()
    site = renewed(site, manifest)
    for old in to_rebuild(manifest, site.layout):
        done = rebuild_split(site, manifests, old.name)
        if done is not None:
            yield done


def to_rebuild(manifest: Manifest, layout: Layout, within: Interval = ALL_TIME) -> list[SplitInfo]:
    """The splits in an interval whose trees lack aggregates that a layout keeps, oldest first."""
    return [
        info
        for info in sorted(manifest.splits.values(), key=lambda info: (info.time_min, info.seq_min))
        if info.kind != "reduced" and within.overlaps(info.interval) and not is_complete(info, layout)
    ]


def rebuild_split(site: Site, manifests: ManifestLog, name: str) -> Rewritten | None:
    """Rewrite one split with the layout of the site; None if it has left the stream meanwhile."""
    width = site.options.split_ticks(site.layout.schema.clock)
    info = manifests.load().splits.get(name)
    if info is None:
        return None
    anew = partial(rewrite, site, manifests, [name], width=None if info.boundary is None else width)
    return unless_overtaken(manifests, [name], anew)


def is_complete(info: SplitInfo, layout: Layout) -> bool:
    """Whether the tree of a split knows the states of all aggregates that a layout keeps, and keeps no others."""
    states = layout.states
    if info.states != states.digest:
        return False
    if not states.words:
        return True
    before = entry_dtype(len(layout.kinds)).itemsize
    if len(info.entry) != before + 8 * states.words:
        return False
    return not states.is_unknown(np.frombuffer(info.entry, np.uint64, states.words, before).reshape(1, -1))[0]
