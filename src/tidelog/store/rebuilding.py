"""Rebuilding closed splits, so that their trees keep all user-defined aggregates of the stream.

One split at a time is written anew and swapped in by one commit (:mod:`tidelog.store.rewriting`). What is done stays
done: whoever is interrupted, by a crash too, begins again and finds less to do. (spec/event-store.md 3.7)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tidelog.index.entries import entry_dtype
from tidelog.index.layout import Layout
from tidelog.index.states import States, still_holds
from tidelog.model.errors import InputError, NotFoundError
from tidelog.model.interval import ALL_TIME, Interval
from tidelog.store.manifest import Manifest, ManifestLog
from tidelog.store.opensplit import Site, closed_tree, renewed
from tidelog.store.rewriting import Rewritten, rewrite, unless_overtaken
from tidelog.store.split_info import SplitInfo


def rebuild(site: Site, manifests: ManifestLog) -> Iterator[Rewritten]:
    """Rewrite the closed splits whose trees lack aggregates of the stream, oldest first; yields each when it is done.

    Takes no lock. Splits that leave the stream meanwhile are passed over; those that are closed meanwhile have what
    they need. Aggregates without code are not waited for: call it again where their code is.
    """
    manifest = manifests.load()
    site = renewed(site, manifest)
    for old in to_rebuild(site, manifest):
        done = rebuild_split(site, manifests, old.name)
        if done is not None:
            yield done


def to_rebuild(site: Site, manifest: Manifest, within: Interval = ALL_TIME) -> list[SplitInfo]:
    """The splits in an interval whose trees lack aggregates that new ones of a site would keep, oldest first."""
    lacks_code = _lacks_code(site)
    return [
        info
        for info in sorted(manifest.splits.values(), key=lambda info: (info.time_min, info.seq_min))
        if info.kind != "reduced"
        and within.overlaps(info.interval)
        and not is_complete(site, info)
        and not (lacks_code and _has_all(site, info))
    ]


def lacks_states(site: Site, info: SplitInfo) -> bool:
    """Whether the tree of a split lacks states that it would have if it was written anew.

    If the code of an aggregate is not here it does not, for that would cost it the states it has.
    """
    return not is_complete(site, info) and not _lacks_code(site) and not _has_all(site, info)


def rebuild_split(site: Site, manifests: ManifestLog, name: str) -> Rewritten | None:
    """Rewrite one split with the layout of the site; None if it has left the stream meanwhile."""
    width = site.options.split_ticks(site.layout.schema.clock)
    info = manifests.load().splits.get(name)
    if info is None:
        return None
    anew = partial(rewrite, site, manifests, [name], width=None if info.boundary is None else width)
    return unless_overtaken(manifests, [name], anew)


def is_complete(site: Site, info: SplitInfo) -> bool:
    """Whether queries find the states of all aggregates that new trees keep in the tree of a split, and no others."""
    states, layout = site.layout.states, site.layout
    if site.history is not None and info.schema != site.version:
        layout = site.history.layout_of(info.schema)
        if not all(still_holds(each, layout.stored, site.layout.stored) for each in states.kept):
            return False
        then = dict(zip(layout.schema.names, site.history.schemas[info.schema].names, strict=True))
        kept = [replace(each, binding=each.binding.renamed(then)) for each in states.kept]
        states = States(layout.stored, layout.schema.time, kept)
    return info.states == states.digest and _knows(info, layout, states, states)


def _knows(info: SplitInfo, layout: Layout, own: States, wanted: States) -> bool:
    """Whether the manifest knows some of a split's own states; then all of its tree does."""
    if not wanted.words:
        return True
    before = entry_dtype(len(layout.kinds)).itemsize
    if len(info.entry) != before + 8 * own.words:
        return False
    words = np.frombuffer(info.entry, np.uint64, own.words, before)
    return not wanted.is_unknown(words[own.words_of(wanted)].reshape(1, -1))[0]


def _lacks_code(site: Site) -> bool:
    """Whether new trees are without aggregates of the stream, because their code is not here."""
    layout = site.layout
    try:
        wanted = States.of(layout.stored, layout.schema.time, site.options.user_aggregates)
    except (InputError, NotFoundError):
        return True
    return not layout.states.has_all(wanted)


def _has_all(site: Site, info: SplitInfo) -> bool:
    """Whether the tree of a split has all states that new ones would keep, beside others."""
    try:
        tree, reader = closed_tree(site, info)
    except NotFoundError:  # it has left meanwhile
        return True
    with reader:
        own, wanted = tree.layout.states, site.layout.states
        hold = all(still_holds(each, tree.layout.stored, site.layout.stored) for each in wanted.kept)
        return hold and own.has_all(wanted) and _knows(info, tree.layout, own, wanted)
