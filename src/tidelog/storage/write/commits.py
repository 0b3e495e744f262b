"""The commits of a container: writing them, making them durable, in the background too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tidelog import threads
from tidelog.storage.format.commit import Commit, all_relocations, publish
from tidelog.storage.format.units import NIL, STRIDE
from tidelog.storage.media.medium import File
from tidelog.storage.write.placement import Placement
from tidelog.storage.write.updates import PendingUpdates

_LONGEST_CHAIN = 32
"""Commits with relocations after which one carries the full table."""


class Commits:
    """Keeps what commits say besides what is placed: rows, dead bytes, and where blocks that were updated have gone.

    The caller sees to it that calls take turns, and that everything appended is placed before :meth:`flush` and
    :meth:`following`.
    """

    def __init__(self, file: File, commit: Commit, placement: Placement, every: int) -> None:
        """``commit`` is the newest one; after ``every`` bytes one is made in the background."""
        self._file = file
        self._placement = placement
        self._every = every
        self.rows = commit.rows
        """Rows of all leaves that are placed, without pending updates."""
        self.dead_bytes = commit.dead_bytes
        """The same of bytes of images that others have replaced."""
        self.relocations = all_relocations(file, commit)
        """Where blocks that were updated have gone, pending updates among them."""
        self.pending = PendingUpdates()
        self.waits = True
        """Whether a flush waits for the disk."""
        self.written = commit
        """The newest commit in the file."""
        self._durable = commit
        self._durable_relocations = dict(self.relocations)
        # How long the chain of tables on disk is does not matter: the next table will be a full one.
        self._chain_length = _LONGEST_CHAIN
        self._last_with_relocations = commit.position if commit.relocations else commit.relocations_before
        self._syncing: threads.Task[None] | None = None

    def update(self, updates: PendingUpdates) -> None:
        """Let blocks have new images, with the next flush."""
        self.relocations.update(updates.addresses)
        self.pending.add(updates)

    def flush(self, meta: bytes | None) -> Commit:
        """Commit everything placed and updated, and make it durable; see ``Container.flush``."""
        self.wait()
        meta = self.written.meta if meta is None else meta
        moved = self.pending
        if self._has_changed() or meta != self.written.meta or self._durable is not self.written:
            self.pending = PendingUpdates()
            self.rows += moved.rows
            self.dead_bytes += moved.dead_bytes
            self._make_durable(self._write(meta, moved.addresses), waits=self.waits)
            self._durable_relocations = dict(self.relocations)
        return self._durable

    def following(self) -> tuple[int, int]:
        """Number and position of the commit that :meth:`flush` would make or return now."""
        self.wait()
        self._placement.seal()
        if not self._has_changed():
            return self.written.number, self.written.position
        return self.written.number + 1, self._placement.place.offset // STRIDE

    def newest(self) -> tuple[Commit, Mapping[int, int]]:
        """The newest commit that is durable, and where blocks that were updated before it have gone."""
        self.wait()
        return self._durable, self._durable_relocations

    def begin(self) -> None:
        """Commit what is placed, in the background, when enough has been written and no such commit is being synced.

        Not while updates are pending: they belong to the next flush, and nodes appended meanwhile may speak of them.
        """
        if self.pending.addresses or self._placement.place.offset - self.written.end < self._every:
            return
        if self._syncing is not None and not self._syncing.is_done:
            return
        self.wait()
        commit = self._write(self.written.meta, {})
        try:
            self._syncing = threads.start(partial(self._make_durable, commit))
        except RuntimeError:  # the system has no more threads
            self._make_durable(commit)

    def wait(self) -> None:
        """Wait for what is being synced in the background, and raise what that has raised."""
        if self._syncing is not None:
            self._syncing.wait()
            syncing, self._syncing = self._syncing, None
            syncing.result()

    def abandon(self) -> None:
        """Wait until nothing is being synced any more, however that ends. Goes on where it was interrupted."""
        if self._syncing is not None:
            self._syncing.wait()

    def _has_changed(self) -> bool:
        """Whether there is something to commit."""
        return self._placement.has_grown_since(self.written) or bool(self.pending.addresses)

    def _write(self, meta: bytes, moved: Mapping[int, int]) -> Commit:
        """Write the record of a commit that includes the relocations ``moved``; not synced."""
        before = self._last_with_relocations
        if moved and self._chain_length >= _LONGEST_CHAIN:
            moved, before, self._chain_length = self.relocations, NIL, 0
        self.written = self._placement.commit(
            number=self.written.number + 1,
            rows=self.rows,
            dead_bytes=self.dead_bytes,
            relocations_before=before,
            relocations=dict(moved),
            meta=meta,
        )
        if moved:
            self._last_with_relocations = self.written.position
            self._chain_length += 1
        return self.written

    def _make_durable(self, commit: Commit, *, waits: bool = True) -> None:
        if waits:
            self._file.sync()
        publish(self._file, commit)
        self._durable = commit
