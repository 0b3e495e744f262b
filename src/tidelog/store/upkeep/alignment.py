"""Entries of coarse splits that lie over one another, cut at the same times.

A range can be asked for if it cuts no entry of any split. Late rows are few and far between: thirty of them over a
week, coarsened to the one leaf they fill, would make an entry as long as that week, and no shorter range in it could be
asked for any more, however fine the entries are of the splits that came in time. So a split that lies over coarse ones
gets entries that end where theirs do, and that never reach across a boundary of the stream's ``split``: computed from
its events where its tree has none like that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tidelog.index.entries import Entries, blank, empty, from_batch, joined, states_of, words_of
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.arrays import distinct
from tidelog.model.times.clock import INT64_MAX
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.rows.stored import Ints, times
from tidelog.store.split.coarse import CoarseEntries, read_coarse
from tidelog.store.split.context import StreamContext

_NONE = np.empty(0, np.int64)


def bounds_over(context: StreamContext, manifest: Manifest, split: SplitInfo) -> Ints:
    """The times inside of a split at which entries of coarse ones begin, or are over; ascending."""
    found = [_NONE]
    for other in manifest.splits.values():
        if other.kind == "coarse" and other.time_min <= split.time_max and other.time_max >= split.time_min:
            coarse = read_coarse(context.medium, context.path(other.name))
            highs = coarse.highs
            found += [coarse.lows, highs[highs < INT64_MAX] + 1]
    bounds = distinct(np.concatenate(found))
    return bounds[(bounds > split.time_min) & (bounds <= split.time_max)]


def aligned(coarse: CoarseEntries, tree: TreeReader, bounds: Ints, width: int | None) -> CoarseEntries:
    """The entries of a tree, none of which goes on across one of some times, or a multiple of ``width``."""
    crossed = np.searchsorted(bounds, coarse.highs, "right") > np.searchsorted(bounds, coarse.lows, "right")
    if width is not None:
        crossed |= coarse.lows // width != coarse.highs // width
    if not crossed.any():
        return coarse
    pieces, begins = zip(*_pieces(coarse, tree, bounds, width), strict=True)
    return replace(coarse, entries=_merged(tree.layout, joined(pieces), np.concatenate(begins)))


def _pieces(
    coarse: CoarseEntries, tree: TreeReader, bounds: Ints, width: int | None
) -> Iterator[tuple[Entries, npt.NDArray[np.bool_]]]:
    """Entries of runs of rows, batch by batch, and which of them are not part of the run before."""
    layout = tree.layout
    columns = np.arange(len(layout.kinds), dtype=np.int64)
    done, last = 0, None
    for batch in tree.scan(columns=layout.stored.names):
        at, rows = times(batch, layout.schema), batch.num_rows
        before = at[:1] if last is None else last
        places = coarse.before - done  # where entries begin, by number of row: several may have the same time
        is_begin = np.zeros(rows, np.bool_)
        is_begin[places[(places >= 0) & (places < rows)]] = True
        classes = [np.searchsorted(bounds, np.concatenate([before, at]), "right")]
        if width is not None:
            classes.append(np.concatenate([before, at]) // width)
        for each in classes:
            is_begin |= each[1:] != each[:-1]
        cuts = np.flatnonzero(is_begin)
        if not len(cuts) or cuts[0]:
            cuts = np.concatenate([[0], cuts])
        ends = np.append(cuts, rows).astype(np.int64)
        plain = from_batch(layout, batch, ends, columns)
        entries = empty(layout, len(cuts))
        words_of(entries)[:, : plain.dtype.itemsize // 8] = words_of(plain)
        if layout.states.words:
            states_of(layout, entries)[:] = layout.states.of_rows(batch, ends)
        yield entries, is_begin[cuts]
        done, last = done + rows, at[-1:]


def _merged(layout: Layout, pieces: Entries, begins: npt.NDArray[np.bool_]) -> Entries:
    """One entry for each run of pieces."""
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(pieces))
    plain = blank(layout, len(firsts))
    merge_all(layout, np.arange(len(layout.kinds), dtype=np.int64), pieces, firsts, lasts, plain)
    plain["child"] = -1
    entries = empty(layout, len(firsts))
    words_of(entries)[:, : plain.dtype.itemsize // 8] = words_of(plain)
    if layout.states.words:
        states = layout.states.merge(states_of(layout, pieces), np.append(firsts, len(pieces)).astype(np.int64))
        states_of(layout, entries)[:] = states
    return entries
