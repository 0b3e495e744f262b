"""The catalogue of a store: which streams there are, what they are called, and where each of them lives.

.. code-block:: text

    tidelog.json                the marker, made last: where it is, the rest is complete
    reserve                     space for what is committed on a full disk, see tidelog.storage.media.reserve
    catalogue/                  a delta log (tidelog.store.log.delta_log) that maps names to the ids of streams
    streams/<id>/manifest/      a stream, see tidelog.store.manifest.manifest; its id never changes
    streams/<id>/splits/
    streams/<id>/...            the tail
    tmp/                        what queries write that does not fit into memory, see tidelog.storage.media.scratch

So renaming, dropping and creating again are commits to the catalogue and touch no stream. A new stream is complete on
disk, its manifest included, before a commit gives it its name. A dropped one stays on disk for its grace period, for
the sake of those who are reading it, and its name is free at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Final

from tidelog.model.errors import (
    ConflictError,
    ExistsError,
    InputError,
    LockedError,
    NotFoundError,
    StorageError,
    TidelogError,
    did_you_mean,
)
from tidelog.model.schema import Schema
from tidelog.storage.media.medium import Lock, Medium
from tidelog.storage.media.scratch import sweep_scratch
from tidelog.storage.read.check import Finding
from tidelog.store.log.delta_log import Clock, DeltaLog, Ledger
from tidelog.store.log.file_names import FileName
from tidelog.store.log.members import Forms, Record, form_of, keyed
from tidelog.store.log.stream_names import check_stream_name, new_stream_id, stream_born_at, unescape_name
from tidelog.store.manifest.manifest import ManifestLog
from tidelog.store.manifest.options import GRACE_SECONDS, StreamOptions
from tidelog.store.marker import MARKER, check_marker, refuse_incomplete, sweep_markers, write_marker
from tidelog.store.split.removal import ORPHAN_AGE
from tidelog.store.tail.paths import lock_path, tail_path
from tidelog.threads import at_once

CATALOGUE: Final = "catalogue"
STREAMS: Final = "streams"


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """A stream as the catalogue knows it."""

    name: str
    id: FileName
    """The name of its directory; the same for ever."""
    created_at: float
    """Seconds since 1970."""

    @property
    def directory(self) -> str:
        """Where it lives on the medium."""
        return f"{STREAMS}/{self.id}"


@dataclass(frozen=True, slots=True)
class DroppedStream:
    """A stream that is no longer in the catalogue, but still on disk."""

    name: str | None
    """What it was called; None for what is left of a creation that was interrupted."""
    id: FileName
    at: float
    """When it was dropped, in seconds since 1970."""
    grace: float
    """How many seconds its files stay."""


@dataclass(frozen=True, kw_only=True)
class CatalogueChange:
    """What a commit does to the catalogue."""

    add: tuple[StreamEntry, ...] = ()
    drop: tuple[tuple[str, float], ...] = ()
    """Names of streams, and the seconds that their files stay."""
    rename: tuple[tuple[str, str], ...] = ()
    """Old names and new ones."""
    condemn: tuple[FileName, ...] = ()
    """Ids of directories that no stream will ever have."""
    forget: tuple[FileName, ...] = ()
    """Ids of dropped streams that are no longer on disk."""


@dataclass(frozen=True, kw_only=True)
class CatalogueState:
    """The catalogue after some commit. Never changes; the mappings must not be written to."""

    number: int = 0
    streams: Mapping[str, StreamEntry] = field(default_factory=dict)
    """By name."""
    dropped: Mapping[str, DroppedStream] = field(default_factory=dict)
    """By id."""

    def find(self, name: str) -> StreamEntry:
        """The stream of a name; :class:`NotFoundError` if there is none."""
        try:
            return self.streams[name]
        except (KeyError, TypeError):
            raise NotFoundError(f"there is no stream {name!r}; {did_you_mean(str(name), self.streams)}") from None

    def refuse_taken(self, name: str) -> None:
        """Raise :class:`ExistsError` if a stream has that name."""
        if name in self.streams:
            raise ExistsError(f"there is a stream {name!r} already; open it, drop it, or choose another name")

    def changed(self, change: CatalogueChange, number: int, at: float) -> CatalogueState:
        """The catalogue after a change committed at time ``at``; raises if the change does not fit."""
        streams, dropped = dict(self.streams), dict(self.dropped)
        state = CatalogueState(number=number, streams=streams, dropped=dropped)  # sees what is changed below
        for name, grace in change.drop:
            entry = state.find(name)
            del streams[name]
            dropped[entry.id] = DroppedStream(name, entry.id, at, grace)
        living = {entry.id for entry in streams.values()} if change.condemn else set()
        for id in change.condemn:
            if id in living:
                raise ConflictError(f"cannot give up the directory {id}: a stream lives in it")
            dropped.setdefault(id, DroppedStream(None, id, at, GRACE_SECONDS))
        for old, new in change.rename:
            entry = state.find(old)
            if new != old:
                state.refuse_taken(new)
            del streams[old]
            streams[new] = StreamEntry(new, entry.id, entry.created_at)
        for id in change.forget:
            dropped.pop(id, None)
        for entry in change.add:
            state.refuse_taken(entry.name)
            if entry.id in dropped:
                raise _given_up(entry.name)
            streams[entry.name] = entry
        return state


class Catalogue:
    """The streams of the store on a medium; safe for any number of threads and processes, without a lock."""

    def __init__(self, medium: Medium, *, clock: Clock = time.time) -> None:
        self.medium = medium
        self.clock = clock
        self._log = DeltaLog(medium, CATALOGUE, _CatalogueLedger(), clock=clock)

    @classmethod
    def create(cls, medium: Medium, *, clock: Clock = time.time) -> Catalogue:
        """The catalogue of the store on a medium, which is made if there is none. Several may do so at once."""
        catalogue = cls(medium, clock=clock)
        if not medium.exists(MARKER):
            refuse_incomplete(medium)
            medium.make_directory(STREAMS, CATALOGUE)
            try:
                catalogue._log.create(CatalogueChange())
            except ExistsError:
                medium.sync_names(CATALOGUE)  # the first commit is somebody else's, and may not be durable yet
            write_marker(medium, clock())
        check_marker(medium)
        medium.set_aside()
        return catalogue

    @classmethod
    def create_copy(cls, medium: Medium, entries: Sequence[StreamEntry], *, clock: Clock = time.time) -> Catalogue:
        """The catalogue of a copy, on a medium that has streams of another store under the same ids; not yet a store.

        See :func:`tidelog.store.marker.end_copy`.
        """
        catalogue = cls(medium, clock=clock)
        medium.make_directory(STREAMS, CATALOGUE)
        catalogue._log.create(CatalogueChange(add=tuple(entries)))
        return catalogue

    @classmethod
    def open(cls, medium: Medium, *, clock: Clock = time.time) -> Catalogue:
        """The catalogue of an existing store; writes nothing.

        Raises :class:`NotFoundError` if the medium holds no store, :class:`StorageError` if a newer release made it.
        """
        check_marker(medium)
        return cls(medium, clock=clock)

    def load(self) -> CatalogueState:
        """The newest state of the catalogue."""
        return self._log.load()

    def salvage(self) -> tuple[CatalogueState, list[str]]:
        """The newest state that can be put together, and what is wrong; with directories that nothing names any more.

        Those of streams that documents must have named which are lost are called what they were called first.
        """
        state, wrong = self._log.salvage()
        if state is None:
            state, wrong = CatalogueState(), wrong or [f"there is no {_CatalogueLedger.kind}"]
        if not wrong:
            return state, []
        known = {entry.id for entry in state.streams.values()} | set(state.dropped)
        streams = dict(state.streams)
        for id in self._stream_ids():
            born = stream_born_at(id)
            if id not in known and born is not None:
                hint = id.rpartition("~")[0]
                with suppress(InputError):
                    hint = unescape_name(hint)
                names = chain([hint], (f"{hint}.{number}" for number in count(2)))
                name = next(each for each in names if each not in streams)
                streams[name] = StreamEntry(name, id, born)
        return replace(state, streams=streams), wrong

    def streams(self) -> list[StreamEntry]:
        """All streams, by name."""
        return sorted(self.load().streams.values(), key=lambda entry: entry.name)

    def exists(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        return name in self.load().streams

    def find(self, name: str) -> StreamEntry:
        """The stream of that name; raises :class:`NotFoundError`, with the closest name, if there is none."""
        return self.load().find(name)

    def manifests(self, entry: StreamEntry) -> ManifestLog:
        """The manifests of a stream, dropped ones included as long as they are on disk."""
        return ManifestLog(self.medium, entry.directory, clock=self.clock)

    def create_stream(
        self,
        name: str,
        schema: Schema,
        options: StreamOptions | None = None,
        fill: Callable[[ManifestLog], None] | None = None,
    ) -> StreamEntry:
        """Create a stream, complete or not at all; raises :class:`ExistsError` if the name is taken.

        ``fill`` commits events to its manifests before anybody can see it. If that raises, there is no stream.
        """
        [entry] = self.create_streams([name], schema, options, fill=fill)
        return entry

    def create_streams(
        self,
        names: Iterable[str],
        schema: Schema,
        options: StreamOptions | None = None,
        *,
        exist_ok: bool = False,
        fill: Callable[[ManifestLog], None] | None = None,
    ) -> list[StreamEntry]:
        """Create streams with the same schema and options by one commit: all of them, complete, or none at all.

        Raises :class:`ExistsError` if a name is taken; with ``exist_ok`` such a stream is left as it is, whatever its
        schema. Returns those that were created, in the order of their names as given, which may be repeated. ``fill``
        commits the first events of each.

        A crash leaves directories that nothing names; :meth:`sweep` removes what is in them.
        """
        wanted = list(dict.fromkeys(check_stream_name(name) for name in names))
        wanted = _free(self.load(), wanted, exist_ok=exist_ok)
        options = StreamOptions() if options is None else options
        options.check(schema)
        now = self.clock()
        entries = {name: StreamEntry(name, new_stream_id(name, now), now) for name in wanted}
        logs = {name: self.manifests(entry) for name, entry in entries.items()}
        created: list[str] = []

        def change(state: CatalogueState) -> CatalogueChange | None:
            created[:] = _free(state, wanted, exist_ok=exist_ok)
            for name in created:
                # Given up directories are known as such until they are gone, so one that is there and unknown stays.
                if entries[name].id not in state.dropped and not logs[name].exists():
                    raise _given_up(name)
            return CatalogueChange(add=tuple(entries[name] for name in created)) if created else None

        try:
            # Made first, so that the one above them is synced once.
            self.medium.make_directory(*(entry.directory for entry in entries.values()))
            at_once(lambda log: log.create(schema, options), logs.values())
        except TidelogError:
            self._remove_all(entries.values())
            raise
        if fill is not None:
            try:
                for log in logs.values():
                    fill(log)
            except BaseException:
                self._remove_all(entries.values())
                raise
        try:
            self._log.commit(change)
        except (ExistsError, ConflictError):  # by the change, so nothing names our directories
            self._remove_all(entries.values())
            raise
        made = set(created)
        self._remove_all(entries[name] for name in wanted if name not in made)
        return [entries[name] for name in created]

    def drop_stream(self, name: str) -> StreamEntry:
        """Take a stream out of the catalogue; its files stay for its grace period. The name is free at once.

        Holds the tail lock meanwhile, so that whoever takes it afterwards finds the stream gone. Returns what was
        dropped; raises :class:`NotFoundError` if there is no stream of that name, :class:`LockedError` if somebody is
        writing it.
        """
        entry = self.find(name)

        def change(state: CatalogueState) -> CatalogueChange:
            if state.find(name) != entry:
                raise ConflictError(
                    f"stream {name!r} is another one than a moment ago; drop it again if that one is meant"
                )
            return CatalogueChange(drop=((name, self._grace(entry)),))

        with self._unwritten(entry):
            self._log.commit(change, frees=True)
        return entry

    @contextmanager
    def _unwritten(self, entry: StreamEntry) -> Iterator[None]:
        """Keep everybody from writing a stream; raises :class:`LockedError` if somebody is writing it."""
        lock: Lock | None = None
        try:
            self.medium.make_directory(tail_path(entry.directory))
            lock = self.medium.lock(lock_path(entry.directory))
        except LockedError as error:
            raise LockedError(
                f"stream {entry.name!r} cannot be dropped while it is written ({error}); close it there first"
            ) from error
        except StorageError:
            # On a full or damaged disk a stream that was never written has no place for a lock, nor for a writer.
            if self.medium.exists(lock_path(entry.directory)):
                raise
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def is_current(self, entry: StreamEntry) -> bool:
        """Whether a stream is in the catalogue, under whatever name."""
        state = self.load()
        known = state.streams.get(entry.name)
        return (known is not None and known.id == entry.id) or any(
            each.id == entry.id for each in state.streams.values()
        )

    def rename_stream(self, old: str, new: str) -> StreamEntry:
        """Give a stream another name; those who are using it do not notice.

        Raises :class:`NotFoundError` if there is no stream ``old``, :class:`ExistsError` if there is a stream ``new``.
        """
        check_stream_name(new)

        def change(state: CatalogueState) -> CatalogueChange | None:
            entry = state.find(old)
            return None if entry.name == new else CatalogueChange(rename=((old, new),))

        return self._log.commit(change).find(new)

    def sweep(self, now: float, *, orphan_age: float = ORPHAN_AGE) -> list[str]:
        """Remove what dropped streams and interrupted creations left on disk and may go at ``now``; returns the names.

        Like files of a stream (:mod:`tidelog.store.split.removal`), what was never named by the catalogue is given up
        first and removed when a grace period is over. Streams whose lock somebody holds stay until the next time.
        Directories stay, empty: a medium does not remove them.
        """
        found = self._stream_ids()
        state = self.load()
        due = [each.id for each in state.dropped.values() if each.at + each.grace <= now]
        removed: list[str] = []
        forget = []
        for id in due:
            gone, all_gone = self._remove_files(id)
            removed += gone
            if all_gone:
                forget.append(id)
        lost = [id for id in found if (born := stream_born_at(id)) is not None and born + orphan_age <= now]

        def change(newest: CatalogueState) -> CatalogueChange | None:
            known = {entry.id for entry in newest.streams.values()} | {*newest.dropped, *state.dropped}
            condemn = tuple(id for id in lost if id not in known)
            done = tuple(id for id in forget if id in newest.dropped)
            return CatalogueChange(condemn=condemn, forget=done) if condemn or done else None

        self._log.commit(change, frees=True)
        removed += sweep_markers(self.medium, now - GRACE_SECONDS)
        removed += sweep_scratch(self.medium)
        return removed + self._log.prune(GRACE_SECONDS, now)

    def orphans(self) -> list[str]:
        """Directories of streams, on the medium, that the catalogue does not know; one being created is among them."""
        found = self._stream_ids()
        state = self.load()
        known = {entry.id for entry in state.streams.values()} | set(state.dropped)
        return [f"{STREAMS}/{id}" for id in found if id not in known]

    def check(self) -> list[Finding]:
        """Everything wrong with the catalogue and with the manifests of its streams; empty when all is well."""
        findings = self._log.check()
        if not findings:
            for entry in self.streams():
                findings += self.manifests(entry).check()
        return findings

    def _stream_ids(self) -> list[str]:
        prefix = f"{STREAMS}/"
        paths = [name[len(prefix) :] for name in self.medium.names(prefix)]
        return sorted({id for id, separator, _ in (path.partition("/") for path in paths) if separator})

    def _grace(self, entry: StreamEntry) -> float:
        try:
            return self.manifests(entry).load().options.grace
        except (StorageError, NotFoundError):  # a damaged stream must be possible to drop
            return GRACE_SECONDS

    def _remove_all(self, entries: Iterable[StreamEntry]) -> None:
        """Remove the files of streams that no commit has named, nor ever will; what cannot go now is swept some day."""
        with suppress(StorageError):
            at_once(self._remove_files, [entry.id for entry in entries])

    def _remove_files(self, id: str) -> tuple[list[str], bool]:
        """Remove the files of a stream, none if it has a writer; returns which, and whether that was all."""
        names = self.medium.names(f"{STREAMS}/{id}/")
        if any(name.endswith((".lock", "/lock")) and self.medium.is_locked(name) for name in names):
            return [], False
        removed = []
        for name in names:
            try:
                self.medium.remove(name)
                removed.append(name)
            except NotFoundError:
                continue
            except LockedError:
                return removed, False
        for directory in sorted({name.rpartition("/")[0] for name in removed}):
            self.medium.sync_names(directory)
        return removed, True


def _free(state: CatalogueState, names: Sequence[str], *, exist_ok: bool) -> list[str]:
    """The names that no stream has; raises :class:`ExistsError` for others, unless these are passed over."""
    if not exist_ok:
        for name in names:
            state.refuse_taken(name)
    return [name for name in names if name not in state.streams]


def _given_up(name: str) -> ConflictError:
    return ConflictError(f"creating stream {name!r} took so long that it was given up; try again")


_ENTRIES: Final[Forms] = {
    StreamEntry: Record(StreamEntry, "a stream"),
    DroppedStream: Record(DroppedStream, "a stream"),
}
_FORMS: Final[Forms] = {
    **_ENTRIES,
    Mapping[str, StreamEntry]: keyed("name", form_of(tuple[StreamEntry, ...], _ENTRIES)),
    Mapping[str, DroppedStream]: keyed("id", form_of(tuple[DroppedStream, ...], _ENTRIES)),
}


class _CatalogueLedger(Ledger[CatalogueState, CatalogueChange]):
    """Catalogues and their changes as JSON values."""

    kind = "tidelog catalogue"
    states = Record(CatalogueState, "a state", _FORMS, apart=("number",))
    changes = Record(CatalogueChange, "a delta", _FORMS, sparse=True)

    def empty(self) -> CatalogueState:
        return CatalogueState()

    def apply(self, state: CatalogueState, change: CatalogueChange, number: int, at: float) -> CatalogueState:
        return state.changed(change, number, at)
