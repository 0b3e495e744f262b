"""A store as users see it: a directory of streams."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from tidelog.engine.creating import Opening
from tidelog.engine.maintainer import Maintainer, MaintenanceMode, check_mode
from tidelog.engine.paths import directory, empty_directory
from tidelog.engine.replay import replay
from tidelog.engine.stream import Stream, writer_of
from tidelog.engine.writer import StreamWriter
from tidelog.model.arguments import flag, found, text
from tidelog.model.arguments import names as listed_names
from tidelog.model.closing import Closing
from tidelog.model.errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    InputError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from tidelog.model.schema import Schema
from tidelog.model.times.instants import shown
from tidelog.storage import FileMedium
from tidelog.storage.media.medium import Medium
from tidelog.storage.media.scratch import sweep_scratch
from tidelog.storage.read.check import Finding
from tidelog.store.backup import BackupReport, Progress, back_up, check_all
from tidelog.store.catalogue import Catalogue, StreamEntry
from tidelog.store.manifest.manifest import ManifestLog
from tidelog.store.manifest.options import StreamOptions, seconds
from tidelog.store.salvage import SalvageReport
from tidelog.store.salvage import salvage as salvage_store
from tidelog.store.split.removal import ORPHAN_AGE, orphans, remove_orphans, sweep
from tidelog.store.subscriptions import check_subscriptions, drop_subscription, subscription_names
from tidelog.store.tail.state import read_split_names
from tidelog.store.upkeep.maintenance import Maintained
from tidelog.threads import at_once

if TYPE_CHECKING:
    from tidelog.engine.online.flow import OnLate
    from tidelog.engine.online.merging.merging import Merging
    from tidelog.engine.online.subscribing import SubscriptionInfo, Subscriptions
    from tidelog.engine.online.subscription import Callback, Subscription, WhenBehind
    from tidelog.engine.sql import StoreSql
    from tidelog.sql.result import Result


class Store(Closing):
    """Streams in a directory. May be used from several threads; close it, or use it as a context manager.

    Other processes may use the same directory at the same time: any number read, and each stream has one writer, the
    first one that appends.
    """

    def __init__(
        self,
        medium: Medium,
        *,
        read_only: bool = False,
        maintenance: MaintenanceMode = "manual",
        sql_memory: int | None = None,
    ) -> None:
        """Use :func:`tidelog.open`."""
        check_mode(maintenance)
        self._sql_memory = sql_memory
        self._catalogue = Catalogue.open(medium) if read_only else Catalogue.create(medium)
        self._medium = medium
        self._read_only = read_only
        self._mutex = threading.RLock()
        self._streams: dict[str, Stream] = {}
        """By the id of the stream, which stays when it is renamed."""
        self._losses: list[Exception] = []
        """What is to be told of rows that are not stored, when the store is closed."""
        self._closed = False
        self._sql: StoreSql | None = None
        self._subscriptions: Subscriptions | None = None
        self._maintainer = Maintainer(self._writers) if maintenance == "auto" and not read_only else None
        self._process = os.getpid()
        self._at_exit = functools.partial(_close_at_exit, weakref.ref(self))
        if not read_only:
            sweep_scratch(medium)
            atexit.register(self._at_exit)
            _writing.add(self)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ", read only" if self._read_only else ""
        return f"<store {str(self._medium)!r}{state}>"

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        read_only: bool = False,
        maintenance: MaintenanceMode = "auto",
        sql_memory: str | int | None = None,
    ) -> Store:
        """The store in a directory; created there if there is none, unless ``read_only``.

        Streams that it writes are kept in order by a thread, unless ``maintenance`` is ``"manual"``; see
        :meth:`maintain`.
        """
        where = directory("a store", path)
        memory = None
        if sql_memory is not None:
            from tidelog.sql.database import memory_limit

            memory = memory_limit(sql_memory)
        is_reading = flag("read_only", read_only)
        return cls(FileMedium(where), read_only=is_reading, maintenance=maintenance, sql_memory=memory)

    def create_stream(
        self,
        name: str,
        schema: pa.Schema | Schema | None = None,
        time: str | None = None,
        *,
        data: Any = None,
        exist_ok: bool = False,
        **options: Any,
    ) -> Stream:
        """Create a stream; raises :class:`ExistsError` if there is one of that name.

        ``schema`` is an Arrow schema, of which ``time`` names the column of event times. Options are those of
        :class:`tidelog.store.manifest.options.StreamOptions`, e.g. ``split="1d"`` or ``durability="batch"``.

        ``data`` is appended, whatever :meth:`Stream.append` takes; without a schema, that of the data is taken (see
        :func:`tidelog.model.infer_schema`). If it does not fit, no stream is created; of a reader, the batches before
        what does not fit are kept.

        With ``exist_ok`` a stream that is there is returned, and the data is appended to it. Raises
        :class:`SchemaError` if it has other columns, :class:`InputError` if it has other values of the options given.
        """
        self._check_writable()
        may_exist = flag("exist_ok", exist_ok)
        rows = Opening(data, schema, time)
        wanted = StreamOptions.from_dict(options)
        if not (may_exist and self._has(name)):
            rows.check()
            try:
                self._catalogue.create_stream(name, rows.schema, wanted)
            except ExistsError:
                if not may_exist:
                    raise
        stream = self.stream(name)
        if may_exist:
            rows.refuse_other(name, stream.schema)
            _refuse_other_options(stream, {each: getattr(wanted, each) for each in options})
        if rows.data is not None:
            stream.append(rows.data)
        return stream

    def _has(self, name: object) -> bool:
        return isinstance(name, str) and self._catalogue.exists(name)

    def create_streams(
        self,
        names: Iterable[str],
        schema: pa.Schema | Schema,
        time: str | None = None,
        *,
        exist_ok: bool = False,
        **options: Any,
    ) -> list[str]:
        """Create streams of the same columns and options, all of them or none, by one commit.

        For many streams that takes a fraction of the time that :meth:`create_stream` takes for each. Raises
        :class:`ExistsError` if there is a stream of one of the names; with ``exist_ok`` it is left as it is. Returns
        the names of those that were created.
        """
        self._check_writable()
        wanted = listed_names("names", names)
        flag("exist_ok", exist_ok)
        full = Opening(None, schema, time).schema
        entries = self._catalogue.create_streams(wanted, full, StreamOptions.from_dict(options), exist_ok=exist_ok)
        return [entry.name for entry in entries]

    def stream(self, name: str) -> Stream:
        """The stream of a name; raises :class:`NotFoundError` if there is none."""
        self._check_open()
        entry = self._catalogue.find(name)
        with self._mutex:
            stream = self._streams.get(entry.id)
            if stream is not None and stream.is_closed:
                self._give_up(entry.id, stream)
                stream = None
            if stream is None:
                stream = Stream(
                    StreamWriter(
                        name,
                        self._catalogue.manifests(entry),
                        read_only=self._read_only,
                        open_aside=functools.partial(self._aside, entry.id),
                        find_aside=functools.partial(self._find_aside, entry.id),
                        is_dropped=functools.partial(self._is_dropped, entry),
                        on_writing=self._start_maintainer,
                    )
                )
                self._streams[entry.id] = stream
            writer_of(stream).name = name
            return stream

    def _give_up(self, stream_id: str, stream: Stream) -> None:
        """Forget a stream that was closed; what it has not told yet is told when the store is closed."""
        self._shut([writer_of(stream)])
        del self._streams[stream_id]

    def _shut(self, writers: list[StreamWriter]) -> None:
        """Close streams, several at a time, and take over what there is to tell."""
        at_once(StreamWriter.shut, writers)
        self._losses += [writer.untold_loss for writer in writers if writer.untold_loss is not None]
        for writer in writers:
            writer.untold_loss = None

    def _aside(self, stream_id: str) -> StreamWriter:
        """The stream for rows that are too late for another one; made if there is none.

        It has the same columns: where a change of these was interrupted it is completed. Raises :class:`SchemaError` if
        there is a stream of that name with other columns, :class:`InputError` if it has a limit of its own.
        """
        late_for, name = self._late_for(stream_id)
        try:
            aside = late_for.options.replace(lateness=None, too_late="accept", aside=None)
            return writer_of(self.create_stream(name, late_for.schema, **aside.to_dict()))
        except ExistsError:
            found = writer_of(self.stream(name))
        if found.options.too_late != "accept":  # itself, for example
            raise InputError(
                f"stream {name!r} is to take what is too late for {late_for.name!r}, but has a limit of its own "
                f"(too_late={found.options.too_late!r}); rename or drop it"
            )
        found.follow(late_for.manifests.load())
        return found

    def _find_aside(self, stream_id: str) -> StreamWriter | None:
        """The stream for rows that are too late for another one, if there is one."""
        _, name = self._late_for(stream_id)
        return writer_of(self.stream(name)) if name in self else None

    def _late_for(self, stream_id: str) -> tuple[StreamWriter, str]:
        """A stream that sets late events aside, and the name of the one that takes them."""
        with self._mutex:
            stream = writer_of(self._streams[stream_id])
        return stream, stream.options.aside or f"{stream.name}.late"

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        self._check_open()
        return [entry.name for entry in self._catalogue.streams()]

    def __contains__(self, name: object) -> bool:
        return self._has(name)

    def drop_stream(self, name: str) -> None:
        """Delete a stream with all its events. Its files stay for a grace period, so readers under way go on.

        Raises :class:`LockedError` while another process, or another store of this one, is writing it.
        """
        self._check_writable()
        with self._mutex:
            entry = self._catalogue.find(name)
            opened = self._streams.get(entry.id)
            if opened is not None and writer_of(opened).is_written:
                with suppress(StorageError):  # events that go need not be stored, on a full disk for example
                    opened.close()
                del self._streams[entry.id]
            self._catalogue.drop_stream(name)
            if opened is not None:
                self._streams.pop(entry.id, None)
                opened.close()

    def _is_dropped(self, entry: StreamEntry) -> bool:
        return not self._catalogue.is_current(entry)

    def rename_stream(self, old: str, new: str) -> None:
        """Give a stream another name; those who are using it do not notice."""
        self._check_writable()
        with self._mutex:
            entry = self._catalogue.rename_stream(old, new)
            if entry.id in self._streams:
                writer_of(self._streams[entry.id]).name = new

    def replay(
        self, names: Sequence[str], start: Any = None, end: Any = None, where: str | None = None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The events of several streams merged by time: batches, each with the name of its stream, in order of time.

        Events of equal time come in the order of ``names``. All streams need clocks of the same unit.
        """
        return replay([self.stream(name) for name in listed_names("names", names)], start, end, where)

    def sql(
        self,
        text: str,
        params: Any = None,
        *,
        tables: Mapping[str, Any] | None = None,
        as_of: int | None = None,
        timezone: str = "UTC",
    ) -> Result:
        """Run SQL, in DuckDB's dialect, over the streams of the store and over tables; see docs/sql.md.

        Streams are named as they are called, quoted where that is no plain name: ``FROM "sensors/1"``. ``tables`` are
        Arrow, pandas or Polars tables by name, or anything with ``__arrow_c_stream__``; ``params`` a list for ``?`` or
        a dict for ``$name``. ``as_of`` is a sequence number: only events with smaller ones count.

        What selects is run whenever its result is fetched, always of the streams as they are now; other statements are
        run at once. Of several statements the last one's result is returned. Raises
        :class:`tidelog.sql.errors.SqlError`.
        """
        return self._opened_sql().run(text, params, tables, as_of, timezone)

    def situations(
        self,
        asked: str,
        *,
        define: Mapping[str, str] | Sequence[str] | None = None,
        pattern: str | Sequence[str] | None = None,
        within: Any = None,
        returns: Mapping[str, str] | Sequence[str] | None = None,
        partition_by: str | Sequence[str] = (),
        mode: Literal["completed", "early"] = "completed",
        dialect: Literal["allen", "thesis"] = "allen",
        as_of: int | None = None,
        timezone: str = "UTC",
    ) -> Result:
        """The matches of a pattern of situations in a stream, or, without a pattern, the situations themselves.

        ``asked`` is a text of the language of situations, whose FROM names the stream; or the name of the stream, and
        the parts of the query are arguments, as for :func:`tidelog.situations`. See docs/situations.md; the rest is as
        for :meth:`sql`.
        """
        from tidelog.sql import situations

        parts: dict[str, Any] = {"pattern": pattern, "within": within, "returns": returns}
        parts |= {"partition_by": partition_by, "mode": mode, "dialect": dialect}
        question = (
            situations.asked(asked, **parts)
            if define is None
            else situations.asked(None, asked, define=define, **parts)
        )
        with question.placed():
            return self._opened_sql().run(question.statement, None, None, as_of, timezone)

    def _opened_sql(self) -> StoreSql:
        self._check_open()
        with self._mutex:
            if self._sql is None:
                from tidelog.engine.sql import StoreSql  # with DuckDB's part, which most do not need

                self._sql = StoreSql(self, None if self._read_only else self._medium, self._sql_memory)
            return self._sql

    def subscribe(
        self,
        sql: str,
        params: Any = None,
        *,
        tables: Mapping[str, Any] | None = None,
        start: Any = None,
        name: str | None = None,
        into: str | None = None,
        callback: Callback | None = None,
        lateness: Any = None,
        idle_timeout: float | None = None,
        on_late: OnLate | None = None,
        when_behind: WhenBehind = "wait",
        most_behind: int | None = None,
        follow: bool = True,
        workers: int | None = None,
    ) -> Subscription:
        """The rows of a continuous query, those that are there and those that come; see docs/continuous.md.

        Iterate over what is returned, ``async for``, or give a ``callback``, which is called with batches in another
        thread. ``start`` is None or ``"earliest"`` for all rows, ``"latest"`` for those that come from now on, or a
        time, before which rows that are there do not count. ``follow=False`` ends when all rows have been read.

        With a ``name`` it goes on where it was when it is begun again, here or in another process, and ``start`` counts
        for the first time only; ``into`` appends the rows to a stream, which is created if there is none, each exactly
        once, and is the name unless there is one. Both read only rows that are durable; others see rows that this
        process has appended at once, and those of other processes when they are flushed.

        ``tables`` are those that may be joined with streams, by name; they do not change while it runs.

        Rows are late if they are more than ``lateness`` behind the newest of their stream: that of the stream unless it
        is given, and none for plain selections. They are counted, and given to ``on_late``. An input that is silent for
        ``idle_timeout`` seconds holds back the others no longer.

        Rows that are not taken fast enough wait in the stream; with ``when_behind="block"`` appends of this process
        wait as soon as there are more than ``most_behind`` of them, with ``"drop"`` the oldest are passed over and
        counted. ``workers`` is how many threads divide the work of what takes long, such as joins of all pairs and
        user-defined aggregates; as many as there are processors, up to four, unless it is given.

        Raises :class:`tidelog.sql.errors.SqlError` for what is no continuous query, :class:`LockedError` if somebody
        runs a subscription of that name, :class:`InputError` if it has another query.
        """
        if name is not None or into is not None:
            self._check_writable()
        query = self._opened_sql().continuous(text("sql", sql, "a text of SQL"), params, tables)
        return self._opened_subscriptions().subscribe(
            query,
            start=start,
            name=name,
            into=into,
            lateness=lateness,
            idle_timeout=idle_timeout,
            callback=callback,
            on_late=on_late,
            when_behind=when_behind,
            most_behind=most_behind,
            follow=flag("follow", follow),
            workers=workers,
        )

    def merge_into(
        self,
        into: str,
        inputs: Sequence[Any] | Mapping[str, Any],
        *,
        key: bool | str | Sequence[str] | None = None,
        delay: Any = None,
        algorithm: str = "auto",
        policy: str = "lazy",
        output: Literal["events", "elements"] | None = None,
        name: str | None = None,
        start: Any = None,
        schema: pa.Schema | None = None,
        time: str | None = None,
        follow: bool = True,
    ) -> Merging:
        """Merge copies of one stream into a stream, which is created if there is none; see docs/merging.md.

        ``inputs``, by name or in a list, are streams of this store, continuous queries, or iterables of batches, all
        with the same columns; ``schema`` and ``time`` tell these where there are only iterables. What is returned can
        attach further ones and detach them while it runs. The output is as fast as the fastest of them.

        ``key`` has the columns that tell events of one time apart, True for all of them: events that agree in them
        are one. Without it equal events count as often as the input has them that has most. Rows of an input may
        be up to ``delay`` behind its newest one (by default the lateness of the stream; a mapping has one for each
        input): what is farther behind is late, and dropped. Without any, nothing that came is ever forgotten.

        Every row of a stream or query is taken exactly once, whatever happens: the state, the positions and the output
        are committed together, under the ``name``, by default that of the stream. Begun again it goes on with the
        inputs it had; iterables are to give the same rows again, and what was taken is passed over. An iterable that
        ends or fails leaves the merge, and the others go on.
        """
        self._check_writable()
        return self._opened_subscriptions().merge(
            into,
            inputs,
            asked={"algorithm": algorithm, "key": key, "policy": policy, "output": output},
            read=lambda sql: self._opened_sql().continuous(sql, None, None),
            name=name,
            delay=delay,
            start=start,
            schema=None if schema is None else Schema(schema, text("time", time, "a text, the column of time")),
            follow=flag("follow", follow),
        )

    def subscriptions(self) -> list[SubscriptionInfo]:
        """The subscriptions that have a name, whoever runs them, and how far they are behind."""
        self._check_open()
        return self._opened_subscriptions().infos()

    def drop_subscription(self, name: str) -> None:
        """Forget a subscription; the stream that its rows went to stays.

        Raises :class:`NotFoundError` if there is none of that name, :class:`LockedError` while somebody runs it.
        """
        self._check_writable()
        drop_subscription(self._medium, name)

    def _opened_subscriptions(self) -> Subscriptions:
        with self._mutex:
            self._check_open()
            if self._subscriptions is None:
                from tidelog.engine.online.subscribing import Subscriptions  # with DuckDB's part

                self._subscriptions = Subscriptions(self, self._medium)
                if self._read_only:
                    atexit.register(self._at_exit)  # their threads end before the interpreter does
            return self._subscriptions

    def interrupt(self) -> None:
        """Stop what DuckDB computes for statements of :meth:`sql`, from another thread; those calls raise.

        A statement that changes something is then done whole or not at all, as ever. Does nothing if none is under way.
        """
        if self._sql is not None:
            self._sql.interrupt()

    def flush(self) -> None:
        """Flush all streams that were appended to, several at a time: it is the disk that takes most of it."""
        self._check_open()
        # Without the lock, which streams ask for when they set rows aside.
        at_once(_flush, [writer for writer in self._writers() if writer.is_written])

    def stats(self) -> dict[str, Any]:
        """What each stream consists of, by name; ``subscriptions`` has how many rows those with a name are behind."""
        told = {name: self.stream(name).stats() | {"subscriptions": {}} for name in self.streams()}
        for each in self.subscriptions() if subscription_names(self._medium) else ():
            for name in set(each.streams) & told.keys():
                told[name]["subscriptions"][each.name] = {"behind": each.behind, "running": each.is_running}
        return told

    def check(self) -> list[Finding]:
        """Everything wrong with the store; an empty list means that all is well."""
        self._check_open()
        findings = self._catalogue.check()
        if not findings:
            for name in self.streams():
                findings += self.stream(name).check()
        return findings + check_subscriptions(self._medium)

    def backup(
        self,
        path: Path | str,
        *,
        streams: Sequence[str] | None = None,
        link: bool = False,
        verify: bool = True,
        progress: Progress | None = None,
    ) -> BackupReport:
        """Copy the store, or some ``streams`` of it, into a directory that is new or empty, while others go on.

        The copy is a store itself: open it, or :func:`tidelog.restore` it elsewhere. Each stream is copied as it is at
        one moment, all of them before anything is copied; what this process has appended is flushed first. Producers,
        streaming readers and writers can go on from the copy as from the original, and so can subscriptions whose
        streams are all copied. ``link=True`` shares the files of
        closed splits, which never change, instead of copying them (on one file system). ``verify=False`` leaves out
        reading the copy back. ``progress`` is told stream, bytes copied and bytes in all.

        Raises :class:`ExistsError` if the directory has something in it, :class:`CorruptionError` if what was copied is
        damaged. An interrupted backup cannot be opened: remove it.
        """
        self._check_open()
        for what, setting in (("link", link), ("verify", verify)):
            flag(what, setting)
        _check_progress(progress)
        root = self._medium.root if isinstance(self._medium, FileMedium) else None
        target = FileMedium(empty_directory("a copy of a store", path, root, "copy the store to"))
        return self._back_up(target, streams, link=link, verify=verify, progress=progress)

    def _back_up(
        self,
        target: Medium,
        streams: Sequence[str] | None = None,
        *,
        link: bool = False,
        verify: bool = True,
        progress: Progress | None = None,
    ) -> BackupReport:
        wanted = None if streams is None else listed_names("streams", streams)
        if not self._read_only:
            self.flush()
        names = self.streams() if wanted is None else list(dict.fromkeys(wanted))
        entries = [self._catalogue.find(name) for name in names]
        quiet = None if self._subscriptions is None else self._subscriptions.quiet()
        return back_up(self._catalogue, target, entries, link=link, verify=verify, progress=progress, quiet=quiet)

    def salvage(self, path: Path | str) -> SalvageReport:
        """Take what is whole into a new store, see :func:`tidelog.salvage`; what is in memory is not flushed before."""
        self._check_open()
        if not isinstance(self._medium, FileMedium):
            raise InputError("only a store in a directory can be salvaged")
        return salvage(self._medium.root, path)

    def orphans(self) -> list[str]:
        """Files that belong to no stream and no split, as interrupted writers leave them.

        Those of writers that have not committed yet look the same.
        """
        self._check_open()
        found = list(self._catalogue.orphans())
        for entry in self._catalogue.streams():
            log = self._catalogue.manifests(entry)
            found += [each.path for each in orphans(self._medium, log, keep=self._in_use(entry))]
        return found

    def remove_orphans(self, older_than: str | float = ORPHAN_AGE) -> list[str]:
        """Remove files that belong to nothing and are older than a duration such as ``"1d"``, or a number of seconds.

        Returns their names. Nobody may have been writing a file that long without having committed it. Directories of
        streams whose creation was interrupted go with a :meth:`sweep`, when their grace period is over.
        """
        self._check_writable()
        age = seconds("older_than", older_than)
        now = time.time()
        removed = self._catalogue.sweep(now, orphan_age=age)
        for entry in self._catalogue.streams():
            in_use = self._in_use(entry)
            removed += remove_orphans(self._medium, self._catalogue.manifests(entry), now, keep=in_use, older_than=age)
        return removed

    def maintain(self, max_bytes: int | None = None) -> dict[str, Maintained]:
        """Do for every stream what is due, see :meth:`Stream.maintain`; returns what was done, by name.

        For stores that nobody has open to write all the time, such as those that only Spark writes: call it now and
        then. ``max_bytes`` is for each stream.
        """
        self._check_writable()
        self._catalogue.sweep(time.time())
        return {name: self.stream(name).maintain(max_bytes) for name in self.streams()}

    def _start_maintainer(self) -> None:
        if self._maintainer is not None:
            self._maintainer.start()

    def _writers(self) -> list[StreamWriter]:
        """What stands behind the streams that are open, also behind those that are only read."""
        with self._mutex:
            return [writer_of(stream) for stream in self._streams.values()]

    def sweep(self) -> list[str]:
        """Remove files whose grace period is over; returns their names."""
        self._check_writable()
        now = time.time()
        removed = self._catalogue.sweep(now)
        for entry in self._catalogue.streams():
            log = self._catalogue.manifests(entry)
            swept = sweep(self._medium, log, now, keep=self._in_use(entry))
            removed += [*swept.deleted, *swept.pruned]
        return removed

    def _in_use(self, entry: StreamEntry) -> list[str]:
        """The splits that a tail is writing."""
        return read_split_names(self._medium, entry.directory)

    def close(self) -> None:
        """Flush and close all streams, several at a time.

        Raises :class:`NotStoredError`, once, if rows that a stream has accepted are not known to be stored; with notes
        about other streams. When this was interrupted, call it again: it goes on.
        """
        if self._subscriptions is not None:
            self._subscriptions.close()
        if self._maintainer is not None:
            self._maintainer.stop()
        with self._mutex:
            self._closed = True
            if self._sql is not None:
                self._sql.close()
            self._shut(self._writers())
            losses, self._losses, self._streams = self._losses, [], {}
            atexit.unregister(self._at_exit)
            if losses:
                for other in losses[1:]:
                    losses[0].add_note(str(other))
                raise losses[0]

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def __del__(self) -> None:
        """Tell of a store that was written and not closed. Its locks go with it; nothing can be stored any more here.

        Garbage is collected at any moment, in any thread, and flushing means to wait for others.
        """
        if os is None or not hasattr(self, "_at_exit") or self._process != os.getpid():
            return  # modules are emptied when Python ends: whatever is still there then was closed, or never begun
        atexit.unregister(self._at_exit)
        written = [writer for writer in map(writer_of, self._streams.values()) if writer.is_written]
        if not written:
            return
        rows = sum(writer.unstored for writer in written)
        text = f"the store {self._medium} was not closed, and nobody can any more"
        if rows:
            text += f": {rows} rows that were appended since the last flush are not stored"
            _log.warning("%s; close it, or use it in a with block", text)
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def forked(self) -> None:
        """In a child process: what is open belongs to the parent, and takes no rows here."""
        for stream in self._streams.values():
            writer_of(stream).forked()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the store was closed; open it again")

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise ReadOnlyError("the store was opened for reading; open it without read_only")


_log = logging.getLogger("tidelog.store")
_writing: Final[weakref.WeakSet[Store]] = weakref.WeakSet()
"""Stores that were opened for writing."""


def _close_at_exit(reference: weakref.ref[Store]) -> None:
    """Close a store when Python ends; not in a forked child. What was begun on top of it is closed before."""
    store = reference()
    if store is not None and store._process == os.getpid():
        store.close()


def _forked() -> None:
    for store in _writing:
        store.forked()


os.register_at_fork(after_in_child=_forked)


def manifests_of(store: Store, name: str) -> ManifestLog:
    """The manifests of a stream, for other parts of tidelog that need no more: a fraction of what opening it takes.

    Raises :class:`NotFoundError` if there is no stream of that name.
    """
    store._check_open()
    return store._catalogue.manifests(store._catalogue.find(name))


def refuse_read_only(store: Store) -> None:
    """Raise :class:`ReadOnlyError` if a store was opened for reading, :class:`ClosedError` if it was closed."""
    store._check_writable()


def create_whole(
    store: Store, name: str, schema: Schema, options: StreamOptions, fill: Callable[[ManifestLog], None]
) -> None:
    """Create a stream with events that ``fill`` commits to its manifests: it is there with all of them, or not."""
    store._check_writable()
    store._catalogue.create_stream(name, schema, options, fill)


def restore(source: Path | str, target: Path | str, *, progress: Progress | None = None) -> BackupReport:
    """Make a store in a new or empty directory of a backup, all of whose checksums are verified before and after.

    The backup stays as it is. Raises :class:`CorruptionError` if it is damaged, :class:`ExistsError` if the target has
    something in it.
    """
    directory("a store", target)
    _check_progress(progress)
    with Store.open(source, read_only=True) as store:
        findings = check_all(store._catalogue)
        if findings:
            raise CorruptionError(f"{source} is damaged, for example: {findings[0]}; restore another backup")
        return store.backup(target, progress=progress)


def salvage(source: Path | str, target: Path | str) -> SalvageReport:
    """Make a store in a new or empty directory of what is whole in a damaged one, which is left as it is.

    See :func:`tidelog.salvage`.
    """
    medium = FileMedium(directory("a store", source))
    if not os.path.isdir(medium.root):
        raise NotFoundError(f"there is no directory {medium.root}; check the path")
    return salvage_store(medium, FileMedium(empty_directory("a store", target, medium.root, "salvage to")))


def _refuse_other_options(stream: Stream, options: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` if a stream that was there has other values of options that are asked for."""
    for option, value in options.items():
        if (known := getattr(stream.options, option)) != value:
            raise InputError(
                f"stream {stream.name!r} exists with {option}={shown(known)}, found {shown(value)}; leave it out, or "
                "drop the stream first"
            )


def _check_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise found("progress", progress, "a function that is told the stream, bytes copied and bytes in all")


def _flush(writer: StreamWriter) -> None:
    try:
        writer.flush()
    except ClosedError:
        if not writer.is_closed:  # dropped just now
            raise
