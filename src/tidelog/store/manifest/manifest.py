"""The manifest of a stream: which closed splits it has, which events are deleted, and what else is common knowledge.

A :class:`Manifest` is a value, one for each commit; a :class:`Change` is what a commit does to it; :class:`ManifestLog`
keeps them in the directory ``manifest`` of a stream, as a :class:`~tidelog.store.log.delta_log.DeltaLog`. There is one
rule for those who add splits: the file is written, synced and its name synced *before* the commit that names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidelog.model.errors import NotFoundError
from tidelog.model.schema import Schema
from tidelog.storage.media.medium import Medium
from tidelog.storage.read.check import Finding
from tidelog.store.log.delta_log import Clock, DeltaLog
from tidelog.store.log.file_names import join, stem_of
from tidelog.store.manifest.ledger import ManifestLedger
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.split_info import SplitInfo, SplitKind
from tidelog.store.manifest.state import Change, Deletion, Manifest

__all__ = ["Change", "Deletion", "Manifest", "ManifestLog", "SplitInfo", "SplitKind", "split_path"]

MANIFESTS: Final = "manifest"
SPLITS: Final = "splits"
TAIL: Final = "tail"


def split_path(directory: str, name: str) -> str:
    """The name on the medium of a split's file; ``directory`` is the stream's."""
    return join(directory, f"{SPLITS}/{name}")


class ManifestLog:
    """The manifests of the stream in ``directory``; safe for any number of threads and processes, without a lock.

    ``clock`` tells the time of commits, in seconds since 1970.
    """

    def __init__(self, medium: Medium, directory: str, *, clock: Clock = time.time) -> None:
        self.medium = medium
        self.directory = directory
        self.clock = clock
        self._log = DeltaLog(medium, join(directory, MANIFESTS), ManifestLedger(), clock=clock)

    def create(self, schema: Schema, options: StreamOptions | None = None) -> Manifest:
        """Make the directories and the first manifest of a stream; :class:`ExistsError` if it has one.

        Options must fit the schema, see :meth:`StreamOptions.check`.
        """
        options = StreamOptions() if options is None else options
        options.check(schema)
        self.medium.make_directory(*(join(self.directory, name) for name in (SPLITS, MANIFESTS, TAIL)))
        return self._log.create(Change(schema=schema, options=options))

    def exists(self) -> bool:
        """Whether there is a manifest, and so a stream."""
        return self._log.exists()

    def load(self) -> Manifest:
        """The newest manifest; contains every commit acknowledged before, by whichever process. Writes nothing.

        Raises :class:`NotFoundError` if there is no stream, :class:`CorruptionError` if a file is damaged.
        """
        return self._log.load()

    def commit(self, change: Callable[[Manifest], Change | None], *, frees: bool = False) -> Manifest:
        """Let ``change`` say what to change of the newest manifest and commit it durably; returns the new manifest.

        Called again with a newer manifest whenever another commit came first. It returns None, or an empty change, to
        change nothing, and raises to refuse. Raises :class:`ConflictError` if the change does not fit the manifest, and
        :class:`NotFoundError` if the file of an added split is not there. A change that ``frees`` space is made on a
        full disk too, see :meth:`DeltaLog.commit`.
        """
        return self._log.commit(lambda manifest: self._checked(manifest, change(manifest)), frees=frees)

    def _checked(self, manifest: Manifest, change: Change | None) -> Change | None:
        if change is None or change.is_empty:
            return None
        if change.options is not None or change.schema is not None:
            (change.options or manifest.options).check(change.schema or manifest.schema)
        # A file given up by a sweep is in ``removed`` from before it leaves the disk until after. So a file that exists
        # and is not in ``removed`` stays: to give it up takes a commit, and ours would have to be rebased on that.
        for split in change.add:
            path = split_path(self.directory, split.name)
            if stem_of(split.name) not in manifest.removed.stems and not self.medium.exists(path):
                raise NotFoundError(f"cannot add split {split.name}: there is no file {path}; write and sync it first")
        return change

    def salvage(self) -> tuple[Manifest | None, list[str]]:
        """The newest manifest that can be put together, and what is wrong; see :meth:`DeltaLog.salvage`."""
        return self._log.salvage()

    def plant(self, manifest: Manifest) -> None:
        """Begin a log, in a directory that has none, with a manifest of another one, for those who copy a stream.

        It keeps its number. Raises :class:`ExistsError` if there is a log.
        """
        self._log.plant(manifest, manifest.at)

    def prune(self, now: float | None = None) -> list[str]:
        """Remove files of manifests that no reader can need, see :meth:`DeltaLog.prune`; returns their names.

        The grace period is the stream's own; ``now`` is the clock's unless given.
        """
        return self._log.prune(self.load().options.grace, now)

    def check(self) -> list[Finding]:
        """Everything wrong with the manifests, and splits without a file; an empty list means that all is well."""
        findings = self._log.check()
        if not findings:
            for name in self.load().splits:
                path = split_path(self.directory, name)
                # Looked up again: the split may have left, and its file with it, in the meantime.
                if not self.medium.exists(path) and name in self.load().splits:
                    findings.append(Finding(path, "is missing, but the manifest names it; restore it from a backup"))
        return findings
