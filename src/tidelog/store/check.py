"""Checking a stream: its manifests, the containers and trees of its splits, its tail."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.check import check_tree
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.root import Root
from tidelog.model.errors import TidelogError
from tidelog.storage import ContainerReader
from tidelog.storage.read.check import Finding
from tidelog.store.manifest.manifest import ManifestLog, SplitInfo
from tidelog.store.read.parts.part import Part
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.rows.stored import Ints, seqs
from tidelog.store.split.coarse import read_coarse
from tidelog.store.split.context import StreamContext
from tidelog.store.split.entry_bounds import tree_numbers
from tidelog.store.tail.state import read_state

_NUMBERS_AT_ONCE: Final = 1 << 22


def check_stream(context: StreamContext, manifests: ManifestLog) -> list[Finding]:
    """Everything wrong with a stream as it was flushed; an empty list means that all is well. Changes nothing."""
    findings = check_files(context, manifests)
    if not findings:
        try:
            findings += _check_numbers(context, manifests)
        except TidelogError as error:
            findings.append(Finding(context.directory, f"the rows cannot be read: {error}"))
    return findings


def check_files(context: StreamContext, manifests: ManifestLog) -> list[Finding]:
    """Everything wrong with the files of a stream, each for itself; memory does not grow with the stream."""
    findings = manifests.check()
    if findings:
        return findings
    manifest = manifests.load()
    for info in manifest.splits.values():
        found = check_split(context, info)
        if found and info.name not in manifests.load().splits:
            continue  # it has left meanwhile, and maybe its file with it
        findings += found
    try:
        state = read_state(context, manifest)
        for name in state.splits:
            with ContainerReader.open(context.medium, context.path(name)) as reader:
                findings += reader.check(is_repaired=False)
                if not findings:
                    findings += check_tree(context.path(name), reader, Layout.of(reader.description))
    except TidelogError as error:
        findings.append(Finding(context.directory, f"the tail cannot be read: {error}"))
    return findings


def check_split(context: StreamContext, info: SplitInfo) -> list[Finding]:
    """Everything wrong with the file of a closed split."""
    path = context.path(info.name)
    try:
        if info.kind == "coarse":
            return _check_coarse(context, info)
        with ContainerReader.open(context.medium, path) as reader:
            findings = reader.check()
            if findings:
                return findings
            layout = Layout.of(reader.description)
            root = Root.from_bytes(info.root)
            findings += check_tree(path, reader, layout, root)
            tree = TreeReader(reader, layout, root)
            low, high = tree_numbers(tree)
            if (low + info.seq_base, high + info.seq_base) != (info.seq_min, info.seq_max):
                findings.append(
                    Finding(
                        path,
                        f"has sequence numbers {low} to {high}, to which {info.seq_base} is added, but the manifest "
                        f"says {info.seq_min} to {info.seq_max}",
                    )
                )
            if (tree.rows, tree.time_bounds) != (info.rows, (info.time_min, info.time_max)):
                findings.append(
                    Finding(
                        path,
                        f"has {tree.rows} rows of times {tree.time_bounds}, but the manifest says {info.rows} rows of "
                        f"times {(info.time_min, info.time_max)}",
                    )
                )
            return findings
    except TidelogError as error:
        return [Finding(path, str(error))]


def _check_coarse(context: StreamContext, info: SplitInfo) -> list[Finding]:
    path = context.path(info.name)
    coarse = read_coarse(context.medium, path)
    findings = []
    bounds = int(coarse.lows[0]), int(coarse.highs[-1])
    if (int(coarse.before[-1]), bounds) != (info.rows, (info.time_min, info.time_max)):
        findings.append(
            Finding(
                path,
                f"stands for {int(coarse.before[-1])} rows of times {bounds}, but the manifest says {info.rows} rows "
                f"of times {(info.time_min, info.time_max)}",
            )
        )
    if any((np.diff(each) < 0).any() for each in (coarse.lows, coarse.highs)) or (coarse.lows > coarse.highs).any():
        findings.append(Finding(path, "has entries that are not in order of time"))
    return findings


def _check_numbers(context: StreamContext, manifests: ManifestLog) -> list[Finding]:
    """No row may be in two places. Looks at so many numbers at once that memory does not grow with the stream.

    Numbers are reserved in large blocks, few of which are used up: what no row has is passed over.
    """
    parts = [part for part in Snapshots(context, manifests).newest().parts if part.has_rows]
    start = min((part.numbers[0] for part in parts), default=None)
    while start is not None:
        windows = [_Window(part, start, start + _NUMBERS_AT_ONCE) for part in parts]
        numbers = np.concatenate([window.numbers() for window in windows])
        numbers.sort()
        twice = numbers[1:][numbers[1:] == numbers[:-1]]
        if len(twice):
            return [
                Finding(context.directory, f"the row with sequence number {int(twice[0])} is stored more than once")
            ]
        start = min((window.next for window in windows if window.next is not None), default=None)
    return []


class _Window:
    """The sequence numbers of a part's rows that are in ``[start, stop)``, and the next one after them."""

    def __init__(self, part: Part, start: int, stop: int) -> None:
        self._part = part
        self._start, self._stop = start, stop
        self.next: int | None = None
        """The smallest number of a row from ``stop`` on, when those before it were read; None if there is none."""

    def numbers(self) -> Ints:
        """The numbers in the window, in no order."""
        part, start, stop = self._part, self._start, self._stop
        low, high = part.numbers
        found = [np.empty(0, np.int64)]
        if low >= stop:
            self.next = low
        elif high >= start:
            layout = part.layout
            for batch in part.scan(None, None, [layout.stored.names[layout.sequence]], self._test, ReadCounters()):
                each = seqs(batch)
                found.append(each[(each >= start) & (each < stop)])
                self._note(each)
        return np.concatenate(found)

    def _test(self, entries: Entries) -> npt.NDArray[np.bool_]:
        """Which entries may have rows in the window. Below each of the others, all are before or all behind it."""
        bounds, base = entries["columns"][:, self._part.layout.sequence], self._part.base
        lows, highs = (bounds[name].astype(np.int64) + base for name in ("min", "max"))
        self._note(lows)
        is_near: npt.NDArray[np.bool_] = (lows < self._stop) & (highs >= self._start)
        return is_near

    def _note(self, numbers: Ints) -> None:
        later = numbers[numbers >= self._stop]
        if len(later):
            smallest = int(later.min())
            self.next = smallest if self.next is None else min(self.next, smallest)
