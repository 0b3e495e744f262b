"""Rebuilding closed splits, so that their trees keep all user-defined aggregates of the stream.

One split at a time is written anew and swapped in by one commit (:mod:`tidelog.store.rewriting`). What is done stays
done: whoever is interrupted, by a crash too, begins again and finds less to do. (spec/event-store.md 3.7)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelog.index.entries import entry_dtype
from tidelog.index.layout import Layout
from tidelog.model.errors import ConflictError, NotFoundError
from tidelog.store.manifest import ManifestLog
from tidelog.store.opensplit import Site, renewed
from tidelog.store.rewriting import Rewritten, rewrite
from tidelog.store.split_info import SplitInfo


def rebuild(site: Site, manifests: ManifestLog) -> Iterator[Rewritten]:
    """Rewrite the closed splits whose trees lack aggregates of the stream, oldest first; yields each when it is done.

    Takes no lock. Splits that leave the stream meanwhile are passed over; those that are closed meanwhile have what
    they need. Aggregates without code are not waited for: call it again where their code is.
    """
    manifest = manifests.load()
    site = renewed(site, manifest)
    width = site.options.split_ticks(site.layout.schema.clock)
    for old in sorted(manifest.splits.values(), key=lambda info: (info.time_min, info.seq_min)):
        if old.kind == "reduced" or is_complete(old, site.layout):
            continue
        try:
            yield rewrite(site, manifests, [old.name], width=None if old.boundary is None else width)
        except (ConflictError, NotFoundError):
            if old.name in manifests.load().splits:
                raise


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
