"""Rebuilding closed splits, so that their trees keep all user-defined aggregates of the stream.

One split at a time is written anew and swapped in by one commit (:mod:`tidelog.store.upkeep.rewriting`). What is done
stays done: whoever is interrupted, by a crash too, begins again and finds less to do. (spec/event-store.md 3.7)
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
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.store.manifest.manifest import Manifest, ManifestLog
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import closed_tree
from tidelog.store.upkeep.rewriting import Rewritten, rewrite, unless_overtaken


def rebuild(context: StreamContext, manifests: ManifestLog) -> Iterator[Rewritten]:
    """Rewrite the closed splits whose trees lack aggregates of the stream, oldest first; yields each when it is done.

    Takes no lock. Splits that leave the stream meanwhile are passed over; those that are closed meanwhile have what
    they need. Aggregates without code are not waited for: call it again where their code is.
    """
    manifest = manifests.load()
    context = context.at(manifest)
    for old in to_rebuild(context, manifest):
        done = rebuild_split(context, manifests, old.name)
        if done is not None:
            yield done


def to_rebuild(context: StreamContext, manifest: Manifest, within: Interval = ALL_TIME) -> list[SplitInfo]:
    """The splits in an interval whose trees lack aggregates that new ones of a context would keep, oldest first."""
    lacks_code = _lacks_code(context)
    return [
        info
        for info in sorted(manifest.splits.values(), key=lambda info: (info.time_min, info.seq_min))
        if info.kind != "coarse"
        and within.overlaps(info.interval)
        and not is_complete(context, info)
        and not (lacks_code and _has_all(context, info))
    ]


def lacks_states(context: StreamContext, info: SplitInfo) -> bool:
    """Whether the tree of a split lacks states that it would have if it was written anew.

    If the code of an aggregate is not here it does not, for that would cost it the states it has.
    """
    return not is_complete(context, info) and not _lacks_code(context) and not _has_all(context, info)


def rebuild_split(context: StreamContext, manifests: ManifestLog, name: str) -> Rewritten | None:
    """Rewrite one split with the layout of the context; None if it has left the stream meanwhile."""
    width = context.options.split_ticks(context.layout.schema.clock)
    info = manifests.load().splits.get(name)
    if info is None:
        return None
    anew = partial(rewrite, context, manifests, [name], width=None if info.boundary is None else width)
    return unless_overtaken(manifests, [name], anew)


def is_complete(context: StreamContext, info: SplitInfo) -> bool:
    """Whether queries find the states of all aggregates that new trees keep in the tree of a split, and no others."""
    states, layout = context.layout.states, context.layout
    if context.history is not None and info.schema != context.version:
        layout = context.history.layout_of(info.schema)
        if not all(still_holds(each, layout.stored, context.layout.stored) for each in states.kept):
            return False
        then = dict(zip(layout.schema.names, context.history.schemas[info.schema].names, strict=True))
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


def _lacks_code(context: StreamContext) -> bool:
    """Whether new trees are without aggregates of the stream, because their code is not here."""
    layout = context.layout
    try:
        wanted = States.of(layout.stored, layout.schema.time, context.options.user_aggregates)
    except (InputError, NotFoundError):
        return True
    return not layout.states.has_all(wanted)


def _has_all(context: StreamContext, info: SplitInfo) -> bool:
    """Whether the tree of a split has all states that new ones would keep, beside others."""
    try:
        tree, reader = closed_tree(context, info)
    except NotFoundError:  # it has left meanwhile
        return True
    with reader:
        own, wanted = tree.layout.states, context.layout.states
        hold = all(still_holds(each, tree.layout.stored, context.layout.stored) for each in wanted.kept)
        return hold and own.has_all(wanted) and _knows(info, tree.layout, own, wanted)
