"""The tail of a stream as it can be read back: from its journal and the splits that were being written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.entries import Entries
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import Test
from tidelog.model.arrays import integers
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.storage import ContainerReader
from tidelog.storage.media.medium import Medium
from tidelog.store.manifest.manifest import Manifest, SplitInfo
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.rows.stored import Ints, concatenated, seqs, without
from tidelog.store.split.context import StreamContext
from tidelog.store.split.entry_bounds import with_numbers, with_times
from tidelog.store.split.open_split import closed_tree
from tidelog.store.tail.journal import (
    Entry,
    counted,
    journal_name,
    journal_numbers,
    kept_of,
    newest_entries,
    read_heads,
    rows_of,
)
from tidelog.store.tail.paths import published_path, tail_path
from tidelog.store.tail.record import Publications, TailRecord
from tidelog.store.tail.shares import Shares


@dataclass(frozen=True, slots=True)
class TailState:
    """What a journal says that still counts."""

    number: int = 0
    """Of the journal; 0 if there is none."""
    entries: list[Entry] = field(default_factory=list)
    splits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Splits being written, each with number and position of the commit that was acknowledged last."""
    producers: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)
    """What has become of late rows."""
    shares: Shares = field(default_factory=Shares)
    """Which of its rows are of appends to another stream."""
    newest: int | None = None
    """The latest time of all rows that were ever appended; None where it does not matter."""
    next_seq: int = 0
    """No row in the journal or in a split that the tail has closed has this number, or a greater one of the tail's."""

    @property
    def is_exact(self) -> bool:
        """Whether nothing may be left of what was not flushed: a part of an append could be sent again."""
        return bool(self.producers or self.shares)

    def rows(self, stored: pa.Schema) -> pa.RecordBatch:
        """The rows in the journal, of which splits may have some too."""
        return concatenated(rows_of(self.entries), stored)


def state_of(number: int, entries: list[Entry], manifest: Manifest) -> TailState:
    """What entries say, all of which count. Splits that the manifest has, or had, are closed."""
    head = entries[-1].head
    splits = {name: at for name, at in head.splits.items() if not is_closed(name, manifest)}
    next_seq = max(head.next_seq, _reached(manifest))
    return TailState(number, entries, splits, *kept_of(entries), next_seq)


def _reached(manifest: Manifest) -> int:
    """How far the manifest knows the tail's numbers to be used up."""
    return manifest.next_seq if manifest.tail_block is None else manifest.tail_seq


def read_state(context: StreamContext, manifest: Manifest) -> TailState:
    """The state after the writer has gone: what was acknowledged, and more if it is whole. Changes nothing.

    Raises :class:`CorruptionError` if something that was durable is not there any more.
    """
    _, durable = Publications(context.medium, published_path(context.directory)).newest()
    found = newest_entries(context.medium, tail_path(context.directory), context.read_rows)
    if durable is not None:
        _hold_journal_to(durable, tail_path(context.directory), found)
    if found is None:
        if manifest.tail_block is not None:
            raise CorruptionError(
                f"there is no journal in {tail_path(context.directory)}, although the stream was written to: what was "
                "flushed to it, and the last appends of producers, are lost; restore a backup, or salvage the store"
            )
        return TailState(next_seq=_reached(manifest))
    number, entries = found
    names = dict.fromkeys(name for entry in entries for name in entry.head.splits)
    commits = {name: _newest_commit(context, name) for name in names if not is_closed(name, manifest)}
    if durable is not None:
        _hold_splits_to(durable, commits)
    kept = counted(journal_name(tail_path(context.directory), number), entries, commits)
    return state_of(number, kept, manifest)


def _hold_journal_to(durable: TailRecord, directory: str, found: tuple[int, list[Entry]] | None) -> None:
    """Raise :class:`CorruptionError` unless the journal has what was published, or a newer one is there."""
    if found is None or journal_name(directory, found[0]) < durable.journal:
        raise CorruptionError(
            f"{durable.journal} is missing, or has lost its first record, and with it what was flushed to it; restore "
            "a backup, or salvage the store"
        )
    number, entries = found
    if journal_name(directory, number) == durable.journal and len(entries) < durable.records:
        raise CorruptionError(
            f"{durable.journal} has {len(entries)} whole records, {durable.records} were flushed: rows are lost; "
            "restore a backup, or salvage the store"
        )


def _hold_splits_to(durable: TailRecord, commits: Mapping[str, int]) -> None:
    """Raise :class:`CorruptionError` unless open splits have the commits that were published."""
    for name, (number, _) in durable.splits.items():
        if commits.get(name, number) < number:
            raise CorruptionError(
                f"{name} has {commits[name]} commits, {number} were flushed: it is an older file than the one that was "
                "written; restore a backup, or salvage the store"
            )


def is_closed(name: str, manifest: Manifest) -> bool:
    """Whether a split that the tail was writing is a matter of the manifest's: it has it, or had it."""
    return name in manifest.splits or name in manifest.removed


def _newest_commit(context: StreamContext, name: str) -> int:
    """The number of the newest commit of a split that is not closed.

    It is durable, name included, before a journal names it, and remembered as removed for as long as a journal does: so
    raises :class:`CorruptionError` if its file is not there.
    """
    path = context.path(name)
    try:
        with ContainerReader.open(context.medium, path, writer_at_work=False) as reader:
            return reader.commit.number
    except NotFoundError as error:
        raise CorruptionError(
            f"{path} is missing, although the journal names it as a split that is being written; restore a backup, or "
            "salvage the store"
        ) from error


def tail_splits(manifest: Manifest, rows: pa.RecordBatch) -> list[SplitInfo]:
    """The closed splits that may have some of the tail's rows: those with such numbers that the tail has written."""
    if not rows.num_rows:
        return []
    numbers = seqs(rows)
    low, high = int(numbers.min()), int(numbers.max())
    # Splits with a base were written by others, and none is coarsened as long as the journal may have rows of it.
    return [
        info
        for info in manifest.splits.values()
        if not info.seq_base and info.kind != "coarse" and info.seq_min <= high and info.seq_max >= low
    ]


def present(trees: Iterable[TreeReader], rows: pa.RecordBatch) -> Ints:
    """Sequence numbers of rows that trees have, as far as they can be those of ``rows``."""
    numbers = seqs(rows)
    if not len(numbers):
        return np.empty(0, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    found = [np.empty(0, np.int64)]
    for tree in trees:
        # Leaves that late rows were merged into have numbers from then and now, so times are looked at too.
        at = np.sort(integers(rows.column(tree.layout.schema.time)))
        has_numbers = with_numbers(tree.layout, SeqSet([(low, high + 1)]))
        has_times = with_times(tree.layout, at)

        def may_hold(entries: Entries, tests: tuple[Test, ...] = (has_numbers, has_times)) -> npt.NDArray[np.bool_]:
            return np.logical_and(*(test(entries) for test in tests))

        for batch in tree.scan(columns=[tree.layout.stored.names[tree.layout.sequence]], test=may_hold):
            each = seqs(batch)
            found.append(each[(each >= low) & (each <= high)])
    return np.concatenate(found)


def not_in(trees: Iterable[TreeReader], rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that no tree has."""
    return without(rows, present(trees, rows))


def unsealed_rows(
    context: StreamContext, manifest: Manifest, state: TailState, trees: Iterable[TreeReader]
) -> pa.RecordBatch:
    """The rows of the journal that are in no split: neither in these trees nor in a closed one."""
    rows = state.rows(context.layout.stored)
    if not rows.num_rows:
        return rows
    rows = not_in(trees, rows)
    for info in tail_splits(manifest, rows):
        tree, reader = closed_tree(context, info)
        with reader:
            rows = not_in([tree], rows)
    return rows


def check_all_there(context: StreamContext, manifest: Manifest) -> None:
    """Raise :class:`CorruptionError` if the file of a closed split is missing."""
    there = {name.rpartition("/")[2] for name in context.medium.names(context.path(""))}
    for name in manifest.splits:
        if name not in there:
            raise CorruptionError(
                f"{context.path(name)} is missing, but the manifest names it; restore it from a backup, or salvage the "
                "store"
            )


def read_split_names(medium: Medium, directory: str) -> list[str]:
    """The names of all splits that a tail is writing, or may have been."""
    names: dict[str, None] = {}
    tail = tail_path(directory)
    for number in journal_numbers(medium, tail):
        try:
            entries = read_heads(medium, journal_name(tail, number))
        except NotFoundError:  # replaced: a newer one names what counts
            continue
        names |= dict.fromkeys(name for head in entries for name in head.splits)
    return list(names)
