"""Closed splits as parts of snapshots: their files are opened when they are needed, and some of them stay open."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from tidelog.index.layout import Layout
from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.store.manifest.manifest import Manifest, ManifestLog, SplitInfo
from tidelog.store.read.parts.coarse import CoarsePart, coarse_split
from tidelog.store.read.parts.evolved import under
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.tree import SplitPart
from tidelog.store.split.coarse import CoarseEntries
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_files import FILES
from tidelog.store.split.open_split import closed_tree

_KEPT_LEVELS: Final = 256
"""Coarse splits whose entries are kept in memory; their files are closed."""

_Key = tuple[str, int]
"""The name of a split and the number of versions of the schema, under whose names its columns are read."""


class SplitParts(NamedTuple):
    """The closed splits of a manifest as parts of a snapshot."""

    context: StreamContext
    splits: Mapping[str, SplitInfo]
    """Of the manifest."""
    parts: Mapping[str, Part]
    """By name."""


class SplitTrees:
    """The trees of closed splits of one stream. May be used from several threads."""

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        self._layouts: dict[int, dict[str, Layout]] = {context.version: _layouts(context)}
        self._lock = threading.Lock()
        self._trees: dict[_Key, TreeReader] = {}
        """Those whose files are open. Others close some of them, so each look at it is one step."""
        self._entries: OrderedDict[_Key, CoarseEntries] = OrderedDict()
        self._is_closed = False

    def parts(self, context: StreamContext, manifest: Manifest, last: SplitParts | None) -> SplitParts:
        """The splits of a manifest, read under the schema of a context; opens no file.

        But for splits from before a change of the schema that keep states of user-defined aggregates: of those that
        keep the same, the first one tells which.

        Most are those of the ``last`` call: a commit changes few of thousands. They are not kept here, because they
        refer to this: whoever asks keeps them, and files are closed as soon as nobody does.
        """
        known: Mapping[str, Part] = {}
        if last is not None and last.context is context:
            if last.splits is manifest.splits:
                return last
            known = last.parts
        if context is not self._context:
            learned = self._layouts if context.version == self._context.version else {}  # else columns have other names
            own = {**learned.get(context.version, {}), **_layouts(context)}
            self._context, self._layouts = context, {**learned, context.version: own}
        parts = {}
        for name, info in manifest.splits.items():
            part = known.get(name)
            parts[name] = part if part is not None and part.info is info else self._part(context, manifest, info)
        return SplitParts(context, manifest.splits, parts)

    def _part(self, context: StreamContext, manifest: Manifest, info: SplitInfo) -> Part:
        part: Part
        if info.kind == "coarse":
            part = CoarsePart(info, partial(self._coarse, context))
        else:
            layouts = self._layouts.setdefault(info.schema, {})
            part = SplitPart(info, partial(self.tree, context), context.known_layout(info), layouts)
        return under(part, context.layout) if len(manifest.schemas) > 1 else part

    def give_up(self, is_known: Callable[[str], bool]) -> None:
        """Keep open only files that are known: those removed from the disk take its space as long as they are open.

        Scans under way keep what they need; snapshots that are older than the grace period have nothing to ask for.
        """
        for key in list(self._trees):
            if not is_known(key[0]) and self._trees.pop(key, None) is not None:
                FILES.closed(self, key)
        with self._lock:
            for key in [key for key in self._entries if not is_known(key[0])]:
                del self._entries[key]

    def tree(self, context: StreamContext, info: SplitInfo) -> TreeReader:
        """The tree of a split that is not coarse."""
        key = _key(context, info)
        found = self._trees.get(key)
        if found is not None:
            FILES.used(self, key)
            return found
        with self._lock:
            found = self._trees.get(key)
            if found is None:
                with _explained(context, info):
                    found = closed_tree(context, info)[0]
                if self._is_closed:  # by a scan that goes on: it alone has use for it
                    return found
                self._trees[key] = found
        FILES.opened(self, key)
        return found

    def close(self) -> None:
        """Keep no file open from now on. Scans under way go on: each file is open for as long as one reads it."""
        with self._lock:
            self._is_closed = True
        self.give_up(lambda name: False)

    def let_go(self, key: _Key) -> bool:
        """Keep a tree no longer; whether its file is closed. Scans under way go on with the trees they have."""
        found = self._trees.pop(key, None)
        if found is None:
            return True
        reference = weakref.ref(found)
        del found
        found = reference()
        if found is None:
            return True
        self._trees.setdefault(key, found)
        return False

    def _coarse(self, context: StreamContext, info: SplitInfo) -> CoarseEntries:
        key = _key(context, info)
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                with _explained(context, info):
                    found = self._entries[key] = coarse_split(context, info)
                while len(self._entries) > _KEPT_LEVELS:
                    self._entries.popitem(last=False)
            self._entries.move_to_end(key)
            return found


@contextmanager
def _explained(context: StreamContext, info: SplitInfo) -> Iterator[None]:
    """Say why the file of a split is gone: the split has left the stream, or the file was lost."""
    try:
        yield
    except NotFoundError as error:
        if info.name in ManifestLog(context.medium, context.directory).load().splits:
            raise CorruptionError(
                f"{context.path(info.name)} is missing, but the manifest names it; restore it from a backup, or "
                "salvage the store"
            ) from error
        raise NotFoundError(
            f"{error}; files that have left the stream stay for its grace period, {context.options.grace:g} seconds: "
            "take a new snapshot, this one is older"
        ) from error


def _key(context: StreamContext, info: SplitInfo) -> _Key:
    return info.name, 0 if context.history is None else len(context.history.schemas)


def _layouts(context: StreamContext) -> dict[str, Layout]:
    """Layouts of splits that are known without a look at their files, by the digest of their states."""
    return {"": context.layout.with_states(()), context.layout.states.digest: context.layout}
