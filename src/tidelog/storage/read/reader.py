"""Reading a container, pinned to one of its commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidelog.model.closing import Closing
from tidelog.storage.format.commit import Commit, Preface, all_relocations, commit_at, published_commits, read_preface
from tidelog.storage.format.description import schema_of
from tidelog.storage.format.translation import Translation
from tidelog.storage.media.medium import File, Medium
from tidelog.storage.read.addresses import PageLoader, PinnedAddresses
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.check import Finding, check_container
from tidelog.storage.read.recovery import find_commit, recover_translation
from tidelog.storage.read.source import BlockReader

CACHE_BYTES = 64 << 20
"""Default budget of a block cache (decoded columns)."""


class ContainerReader(BlockReader, Closing):
    """The blocks of a container as of one commit; later commits and updates do not show.

    Never locks, truncates or repairs anything. May be used from several threads.
    """

    def __init__(
        self,
        file: File,
        preface: Preface,
        commit: Commit,
        translation: Translation,
        relocations: Mapping[int, int],
        cache: Cache[pa.Array],
        *,
        owns_file: bool,
    ) -> None:
        """Use :meth:`open`, or ``Container.snapshot``."""
        addresses = PinnedAddresses(translation, relocations, commit.next_id)
        super().__init__(file, schema_of(preface), commit, addresses, cache)
        self._preface = preface
        self._owns_file = owns_file

    @classmethod
    def open(
        cls,
        medium: Medium,
        name: str,
        *,
        at: tuple[int, int] | None = None,
        writer_at_work: bool | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> ContainerReader:
        """Pin the newest commit, or the one whose number and position are given.

        While a writer is at work that is the newest one it published; otherwise also commits count whose publication
        was lost in a crash. Whether one is, its lock says, if the caller does not know better.
        """
        file = medium.open(name)
        try:
            preface = read_preface(file)
            if at is None:
                is_held = medium.is_locked(lock_name(name)) if writer_at_work is None else writer_at_work
                commit = _newest_commit(file, preface, writer_at_work=is_held)
            else:
                commit = commit_at(file, preface, *at)
            tree = recover_translation(file, preface, commit, PageLoader(file))
            relocations = all_relocations(file, commit)
            return cls(file, preface, commit, tree, relocations, Cache(cache_bytes), owns_file=True)
        except BaseException:
            file.close()
            raise

    @property
    def description(self) -> Mapping[str, Any]:
        """What the creator of the container wrote into its preface."""
        return self._preface.description

    def check(self, *, is_repaired: bool = True) -> list[Finding]:
        """Walk every structure up to the pinned commit; an empty list means that all is well.

        ``is_repaired`` is to be false where a writer may have crashed, and none has come since.
        """
        return check_container(self._file, self._preface, self.commit, is_repaired=is_repaired)

    def close(self) -> None:
        """Free the file; iterators still open fail."""
        if self._owns_file:
            self._file.close()


def lock_name(name: str) -> str:
    """The name of the file whose lock a container's writer holds."""
    return name + ".lock"


def _newest_commit(file: File, preface: Preface, *, writer_at_work: bool) -> Commit:
    if writer_at_work:
        commits, findings = published_commits(file)
        if commits and not any(finding.names_lost_commit for finding in findings):
            return commits[0]
        if not findings:
            return Commit.empty(preface)
        # A torn slot and no other: a writer is about to repair what a crash left, in the way that follows.
    return find_commit(file, preface).commit
