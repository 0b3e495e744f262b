"""What stands behind a stream: its tail, single events on their way there, rows that are too late, and its schema."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.engine.altering import attachment, evolution, next_version, refuse_strange
from tidelog.engine.too_late import AsideNeeded, Gate
from tidelog.index.states import States
from tidelog.model import to_batches
from tidelog.model.conversion.rows import Row, row_reader
from tidelog.model.errors import (
    ClosedError,
    ConflictError,
    LockedError,
    NotFoundError,
    ReadOnlyError,
)
from tidelog.model.evolution import Renames
from tidelog.model.schema import Schema
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.read.tail_status import is_unsettled, queued_rows
from tidelog.store.rows.stored import owned
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import AUTOMATIC, MergePolicy
from tidelog.store.tail.failures import not_stored
from tidelog.store.tail.late.lateness import LateCounters
from tidelog.store.tail.shares import Share, Shares
from tidelog.store.tail.tail import Numbered, Tail
from tidelog.store.upkeep.maintenance import Maintained, Maintenance

_GATHERED_ROWS: Final = 4096
"""Single events are gathered up to this number before they become a batch."""

_GATHERED_BYTES: Final = 4 << 20
"""The same limit in bytes of texts and other values of no fixed width."""

_EVENT_TIMES: Final = frozenset(
    {int, str, datetime.datetime, datetime.date, np.int64, np.datetime64, np.int32, np.uint64, np.uint32}
)
"""What the time of a single event is; a dict with anything else there is left to the conversion of columns."""


@dataclass(slots=True)
class Account:
    """What automatic maintenance has done for a stream, for ``stats``."""

    merges: int = 0
    bytes_read: int = 0
    files_removed: int = 0
    failures: int = 0
    last_failure: str | None = None
    paused_until: float = field(default=0.0, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "merges": self.merges,
            "bytes_read": self.bytes_read,
            "files_removed": self.files_removed,
            "failures": self.failures,
            "last_failure": self.last_failure,
        }


class Throttle(Protocol):
    """Holds those up who append to a stream."""

    def wait(self, writer: StreamWriter, is_over: Callable[[], bool] | None = None) -> None:
        """Return when the next may append, or whoever waits is to end."""


class StreamWriter:
    """Appends to a stream and changes it, by the version of its schema that counts. May be used from several threads.

    The tail, and with it the tail lock, is taken by the first append and held until :meth:`close`. Whoever only reads
    needs a writer too: in the process that appends, snapshots have what is in memory.
    """

    def __init__(
        self,
        name: str,
        manifests: ManifestLog,
        *,
        read_only: bool,
        open_aside: Callable[[], StreamWriter],
        find_aside: Callable[[], StreamWriter | None],
        is_dropped: Callable[[], bool],
        on_writing: Callable[[], None],
    ) -> None:
        """``open_aside`` gives the stream for rows that are too late, ``find_aside`` only if there is one.

        ``is_dropped`` tells whether the store has it no more; ``on_writing`` is called when it is about to be written.
        """
        self.name = name
        self.manifests = manifests
        self._read_only = read_only
        self._closed = False
        self._mutex = threading.RLock()
        context = StreamContext.of(manifests)
        self.snapshots = Snapshots(context, manifests)
        self._tail: Tail | None = None
        self._is_dropped = is_dropped
        self._on_writing = on_writing
        self._maintaining = threading.Lock()
        self.account = Account()
        """What automatic maintenance has done."""
        self._adopt(context)
        self._is_committed = self.options.durability == "batch"
        """Whether every append is."""
        self._is_gated = self.options.too_late != "accept"
        """Whether rows that are too late are kept out."""
        self._gate: Gate | None = None
        self._open_aside = open_aside
        self._find_aside = find_aside
        self._rows: list[Row] = []
        """Single events that were appended and are not in the tail yet."""
        self._long_bytes = 0
        """About how many bytes values of these that have no fixed width take."""
        self._most_waiting = 0
        """How many of them wait for others: none if the tail is to be asked each time, whether it takes any."""
        self._watchers: tuple[Callable[[], None], ...] = ()
        """Are called, by whatever thread, when there are rows, or durable ones, that were not there before."""
        self.throttles: tuple[Throttle, ...] = ()
        """Hold those up who append."""
        self._process = os.getpid()
        self.untold_loss: Exception | None = None
        """What there is to tell of rows that were accepted and are not stored, once the stream is closed."""

    # -- schema and options ---------------------------------------------------------------------------------------

    def _adopt(self, context: StreamContext) -> None:
        """Go on with a version of the schema. The context comes last: by it one knows whether that was done."""
        self._row_reader = row_reader(context.layout.schema)
        self._read_plain = self._row_reader.read_plain
        self._has_long = self._row_reader.has_long
        self._time = context.layout.schema.time
        self._maintenance = Maintenance(context, self.manifests)
        self.context = context
        """Where the splits are, and how they are laid out: by the newest schema that is known here. Every query looks
        for a newer one, and so does what opens the tail."""

    @property
    def schema(self) -> Schema:
        """The newest that is known here."""
        return self.context.layout.schema

    @property
    def options(self) -> StreamOptions:
        """Those that are known here."""
        return self.context.options

    def _adopt_newest(self) -> None:
        context = self.context.at(self.manifests.load())
        if context is not self.context:
            self._adopt(context)

    def change_options(self, change: Callable[[Manifest], Change | None]) -> None:
        """Commit a change of options, or of the aggregates that are kept, and go by them from now on."""
        with self._mutex:
            self._adopt(self.context.at(self.manifests.commit(change)))
            self.snapshots.renew(self.context)

    def attach(self, bindings: Sequence[Binding], *, new_split: bool) -> None:
        """Keep states of user-defined aggregates from the next split on; with ``new_split`` that begins at once."""
        with ExitStack() as resources:
            resources.enter_context(self._mutex)
            # The tail comes first: who cannot have it is refused before anything is changed.
            tail = resources.enter_context(self._holding_tail("the splits")) if new_split else None
            self._adopt_newest()
            # So is what cannot be computed.
            States.of(self.context.layout.stored, self.schema.time, bindings)
            self.change_options(partial(attachment, bindings))
            if tail is not None:
                self._append_rows()
                tail.new_split()

    def evolve(self, wanted_of: Callable[[Schema], tuple[Schema, Renames]]) -> None:
        """Go on with the schema that ``wanted_of`` makes of the one there is, and the renames to it.

        The stream for rows that are too late follows.
        """
        # Looked for before the stream's lock is taken: the store has one of its own, which comes first.
        aside = self._find_aside() if self.options.too_late == "aside" else None
        with ExitStack() as resources:
            if aside is not None:
                resources.enter_context(aside._holding_tail("the schema"))

            def step() -> tuple[Schema, Renames]:
                wanted, renames = wanted_of(self.schema)
                if aside is not None:
                    refuse_strange(aside.schema, aside.name, (*self.manifests.load().schemas, wanted))
                return wanted, renames

            self._change_schema(step)
            if aside is not None:
                # Second: what is behind can follow at any time, by what the stream's manifest knows of its versions.
                aside.follow(self.manifests.load())

    def follow(self, leader: Manifest) -> None:
        """Change the schema as that of another stream was changed, from the version on that both have in common.

        For a stream that takes what is too late for another one. Raises :class:`SchemaError` if its schema is none of
        the other one's.
        """

        def step() -> tuple[Schema, Renames]:
            return next_version(self.schema, self.name, leader)

        while self.schema != leader.schema:
            self._change_schema(step)

    def _change_schema(self, step: Callable[[], tuple[Schema, Renames]]) -> None:
        """Go on with the schema that ``step``, called when it cannot change any more, says, and the renames to it."""
        with self._mutex, self._holding_tail("the schema") as tail:
            self._append_rows()
            if self._gate is not None:
                self._gate.flush()
            wanted, renames = step()
            if wanted == self.schema and not renames:
                return
            options = self.options.with_renamed(dict(renames))
            # What could not be computed of the new columns is refused before anything is changed.
            options.check(wanted)
            lock = tail.evolve(partial(evolution, wanted, renames))
            try:
                self._tail = None
                self._adopt(self.context.at(self.manifests.load()))
                self._begin(Tail(self.context, self.manifests, lock))
            except BaseException:
                if self._tail is None:
                    lock.release()
                raise

    # -- the tail -------------------------------------------------------------------------------------------------

    def _opened(self) -> Tail:
        """The tail, opened if it is not yet."""
        self.check_writable()
        while self._tail is None:
            self._refuse_dropped()
            self._adopt_newest()
            try:
                tail = Tail(self.context, self.manifests)
            except ConflictError:
                if self.context.at(self.manifests.load()) is self.context:
                    raise
                continue  # somebody has changed the schema just now
            try:
                if self._is_dropped():  # before the lock was ours; from now on nobody can
                    tail.free()
                    continue
                self._begin(tail)
            except BaseException:
                if self._tail is not tail:
                    tail.free()
                raise
            self._on_writing()
        return self._tail

    def _begin(self, tail: Tail) -> None:
        """Go on with a tail that was opened just now; if that is interrupted, it is given up."""
        try:
            gate = Gate(self.context, tail, self._open_aside, self._find_aside) if self._is_gated else None
            self._tail, self._gate = tail, gate
            self._most_waiting = 0 if self._is_committed else _GATHERED_ROWS - 1
        except BaseException:
            self._tail = None
            tail.free()
            raise

    @contextmanager
    def _holding_tail(self, what: str) -> Iterator[Tail]:
        """Keep the tail lock; those who did not have it before give it up again.

        Raises :class:`LockedError`, which says that this cannot change, if another process has it.
        """
        with self._mutex:
            was_open = self._tail is not None
            try:
                tail = self._opened()
            except LockedError as error:
                raise LockedError(
                    f"{what} of stream {self.name!r} cannot change while another process writes it ({error}); let "
                    "that one do it, or close it there first"
                ) from error
        try:
            yield tail
        finally:
            with self._mutex:
                if not was_open and self._tail is not None:  # who does not write must not keep others from it
                    tail, self._tail = self._tail, None
                    self._most_waiting = 0
                    tail.close()

    @property
    def is_written(self) -> bool:
        """Whether this process appends to it, or has."""
        return self._tail is not None

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @property
    def was_dropped(self) -> bool:
        """Whether the stream is in the store no more; looked up."""
        return self._is_dropped()

    def check_open(self) -> None:
        """Raise :class:`ClosedError` if it was closed."""
        if self._closed:
            raise ClosedError(f"stream {self.name!r} was closed; open it again with store.stream({self.name!r})")

    def check_writable(self) -> None:
        """Raise :class:`ClosedError` or :class:`ReadOnlyError` if nothing can be changed."""
        self.check_open()
        if self._read_only:
            raise ReadOnlyError(f"stream {self.name!r} was opened for reading; open the store without read_only")

    def _refuse_dropped(self) -> None:
        if self._is_dropped():
            raise NotFoundError(
                f"stream {self.name!r} was dropped, so nothing that is appended to it is kept; open the stream of that "
                "name again, or create it"
            )

    # -- appending ------------------------------------------------------------------------------------------------

    def append(self, data: Any, numbered: Numbered | None = None) -> None:
        """Append events, with the producer and the number of the append if it has them."""
        tail = self._tail
        if tail is None:
            with self._mutex:
                tail = self._opened()  # with the newest schema, which then stays
        context = self.context
        if type(data) is dict and numbered is None and not self._is_gated:
            row = self._read_plain(data)
            if row is None and type(data.get(self._time)) in _EVENT_TIMES:
                row = self._row_reader.read(data)
            if row is not None:
                with self._mutex:
                    if self.context is not context:  # another thread has changed the schema
                        self.append(data)
                        return
                    rows = self._rows
                    if len(rows) >= self._most_waiting or tail.failure is not None:
                        self._append_last(row)
                    else:  # and is not committed: none waits then
                        rows.append(row)
                        if self._has_long:
                            self._long_bytes += self._row_reader.long_bytes(row)
                            if self._long_bytes >= _GATHERED_BYTES:
                                self._append_rows()
                        if self._watchers:
                            self._tell()
                        return
                if self._is_committed:
                    tail.commit()
                self._tell()
                return
        batches: Iterable[pa.RecordBatch] = to_batches(data, context.layout.schema)
        if _may_change(data):
            batches = [owned(batch) for batch in batches]
        if self._is_gated:
            tail = self._append_gated(batches, numbered, context)
        else:
            with self._mutex:
                tail = self._opened()
                if self.context is not context:  # another thread has changed the schema
                    batches = self._brought(batches, context)
                self._append_rows()
                tail.append(batches, numbered)
        if self._is_committed:
            tail.commit()  # without the lock: threads that come together share a sync
        self._tell()

    def append_whole(self, data: pa.Table) -> None:
        """:meth:`append` and :meth:`flush` at once: durable on return, and a crash leaves all of the rows, or none.

        Where rows that are too late are set aside, these come first: a crash may leave them alone.
        """
        with self._mutex:
            self._opened()
        context = self.context
        batches: Iterable[pa.RecordBatch] = list(to_batches(data, context.layout.schema))
        if self._is_gated:
            self._append_gated(batches, None, context, whole=True)
            self._tell()
            return
        with self._mutex:
            tail = self._opened()
            if self.context is not context:  # another thread has changed the schema
                batches = self._brought(batches, context)
            self._append_rows()
            tail.append_whole(list(batches))
        self._tell()

    def _append_gated(
        self,
        batches: Iterable[pa.RecordBatch],
        numbered: Numbered | None,
        context: StreamContext,
        *,
        whole: bool = False,
    ) -> Tail:
        """Append rows that are not too late, and do with others what the stream's options say."""
        while True:
            with self._mutex:
                tail, gate = self._opened(), self._gate
                assert gate is not None
                if self.context is not context:  # another thread has changed the schema
                    batches, context = self._brought(batches, context), self.context
                tail.check_open()  # before anything is set aside
                if numbered is not None:
                    if tail.has_append(numbered):
                        return tail
                    batches = list(batches)  # all of it fits before any of it counts
                is_reader = not isinstance(batches, list)
                is_ready = gate.is_ready(is_reader=is_reader, is_numbered=numbered is not None)
                if is_ready:
                    with suppress(AsideNeeded):
                        if whole:
                            passed = list(gate.sift(batches, None))
                            gate.flush()
                            gate.keep_newest()
                            tail.append_whole(passed)
                            return tail
                        tail.append(gate.sift(batches, numbered), numbered)
                        gate.keep_newest()
                        if self._is_committed:
                            gate.flush()
                        return tail
            gate.prepare(makes=is_ready or is_reader)

    def _brought(self, batches: Iterable[pa.RecordBatch], context: StreamContext) -> Iterable[pa.RecordBatch]:
        """Batches of the schema of a context as batches of the schema now."""
        history = self.context.history
        assert history is not None
        brought = (history.brought(batch, context.version) for batch in batches)
        return list(brought) if isinstance(batches, list) else brought

    def _append_last(self, row: Row) -> None:
        """Hand gathered events to the tail, and one more behind them."""
        tail = self._opened()
        tail.check_open()  # an event that is refused must not wait with the others
        self._rows.append(row)
        try:
            self._append_rows()
        except BaseException:
            if tail.failure is not None and self._rows:
                self._rows.pop()  # whoever appends it is told
            raise

    def _append_rows(self) -> None:
        """Hand gathered events to the tail. They go on waiting until it has taken them."""
        rows = self._rows
        if rows:
            tail = self._opened()
            before = tail.taken
            try:
                if len(rows) == 1:
                    tail.append_row(rows[0])
                else:
                    tail.append([self._row_reader.batch(rows)])
            finally:
                if tail.taken != before:  # and not if it was interrupted before; no call, so nothing comes in between
                    self._rows, self._long_bytes = [], 0

    def last_number(self, producer: str) -> int | None:
        """The number of a producer's last append, flushed or not; None if it has made none. Takes the tail lock."""
        with self._mutex:
            return self._opened().last_number(producer)

    def flush(self) -> None:
        """Return when everything appended before this call survives any crash, and other processes can see it."""
        with self._mutex:
            self.check_open()
            tail = self._tail
            if tail is None:
                return
            if self._gate is None and len(self._rows) == 1:
                before = tail.taken
                try:
                    tail.flush(self._rows[0])
                finally:
                    if tail.taken != before:  # as in _append_rows
                        self._rows, self._long_bytes = [], 0
                self._tell()
                return
            self._append_rows()
            if self._gate is not None:
                self._gate.flush()  # first: rows set aside are acknowledged with those of the same append
            tail.flush()
        self._tell()

    # -- telling others -------------------------------------------------------------------------------------------

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have a function, which must not wait for anything, called when there are rows that were not there before.

        It is called for what this process appends and flushes, and not for what others do.
        """
        with self._mutex:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        with self._mutex:
            self._watchers = tuple(each for each in self._watchers if each != watcher)

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher()

    def throttle(self, throttle: Throttle) -> None:
        """Have those who append wait for something."""
        with self._mutex:
            self.throttles = (*self.throttles, throttle)

    def unthrottle(self, throttle: Throttle) -> None:
        """Hold up nobody any more for that."""
        with self._mutex:
            self.throttles = tuple(each for each in self.throttles if each is not throttle)

    @property
    def next_number(self) -> int:
        """The sequence number that the next row of the tail is given; 0 if this process does not append."""
        tail = self._tail
        return 0 if tail is None else tail.next_number

    # -- taking rows that are too late for another stream ---------------------------------------------------------

    def append_share(self, data: pa.Table, sent_by: str, number: int, share: Share) -> int:
        """Append rows that are too late for another stream, durably: a share of one of its appends.

        Returns how many shares are known, those of before included.
        """
        with self._mutex:
            tail = self._opened()
            self._append_rows()
            tail.append_share(list(to_batches(data, self.schema)), sent_by, number, share)
            count = len(tail.shares)
        self._tell()
        return count

    def taken_shares(self) -> Shares:
        """What is here, durably, of appends to the stream that this one takes late rows of. Takes the tail lock."""
        with self._mutex:
            shares = Shares()
            shares.update(self._opened().shares.saved())
            return shares

    def settle_shares(self, numbers: Mapping[str, int]) -> int:
        """Forget shares of each sender's appends up to a number; returns how many are left."""
        with self._mutex:
            tail = self._opened()
            tail.settle_shares(numbers)
            return len(tail.shares)

    # -- putting in order -----------------------------------------------------------------------------------------

    def settle(self, policy: MergePolicy) -> None:
        """Have as many rows as possible in splits, see :meth:`Tail.settle`, unless another process writes."""
        with self._mutex:
            if self._tail is not None:
                self.flush()
                self._tail.settle(policy)
                return
            if not is_unsettled(self.context, self.snapshot(), policy):
                return
            with suppress(LockedError), self._holding_tail("the splits") as tail:
                tail.settle(policy)

    def maintain(self, max_bytes: int | None) -> Maintained:
        """Do at once what automatic maintenance would do in time; at most so many bytes of files are read."""
        with self._maintaining:
            if self._tail is not None:
                self._tail.settle_if_due(AUTOMATIC, now=True)
            return self._maintenance.run(max_bytes=max_bytes)

    def maintain_step(self, may_go_on: Callable[[], bool], is_over: Callable[[], bool]) -> Maintained | None:
        """:meth:`maintain` for the thread that does it automatically; None if the stream is not written."""
        with self._maintaining:
            tail = self._tail
            if tail is None or self._closed:
                return None
            tail.settle_if_due(AUTOMATIC)
            return self._maintenance.run(may_go_on=may_go_on, is_over=is_over)

    # -- reading --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The stream as it is now: in the process that writes it everything appended, elsewhere everything flushed."""
        with self._mutex:
            self.check_open()
            if self._tail is None:
                snapshot = self.snapshots.newest()
                if self.snapshots.context.version != self.context.version:
                    self._adopt(self.snapshots.context)
                return snapshot
            self._append_rows()
            return self.snapshots.of_tail(self._tail.view())

    def published(self, version: int | None = None) -> Snapshot:
        """The stream as any process can see it: everything flushed, even if this one writes it and has more.

        What queries that are to survive this process go by, such as the offsets of a streaming query. ``version`` is
        that of the schema it is presented under, the newest unless said otherwise.
        """
        self.check_open()
        return self.snapshots.newest() if version is None else self.snapshots.under(version)

    def late(self, snapshot: Snapshot) -> dict[str, Any]:
        """What has become of late rows, as of the last flush, which a snapshot has seen, if another process appends."""
        tail = self._tail
        return LateCounters.read(snapshot.late).to_dict(queued_rows(snapshot)) if tail is None else tail.late()

    # -- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush and free everything, and tell of rows that are not stored; see :meth:`Stream.close`."""
        self.shut()
        loss, self.untold_loss = self.untold_loss, None
        if loss is not None:
            raise loss

    def shut(self) -> None:
        """:meth:`close`, for who tells the :attr:`untold_loss` himself."""
        with self._mutex:
            tail = self._tail
            if not self._closed:
                if tail is not None and self._process == os.getpid():
                    self.untold_loss = self._store_all(tail)
                self._closed = True
                self._most_waiting = 0
            if tail is not None:
                tail.free()
            self.snapshots.close()
            self._maintenance.close()

    def _store_all(self, tail: Tail) -> Exception | None:
        """Store what was accepted, unless there was a failure; what there is to tell of rows that are not stored."""
        before, failure = tail.failure, None
        if before is None:
            try:
                self._append_rows()
                if self._gate is not None:
                    self._gate.flush()
                tail.close()
                self._refuse_dropped()
            except Exception as error:  # and not an interrupt: this is called again then
                failure = error
        rows = self.unstored
        return not_stored(self.name, rows, before or failure) if rows else failure

    @property
    def unstored(self) -> int:
        """How many rows were accepted that are not known to be stored."""
        return 0 if self._tail is None else self._tail.unstored + len(self._rows)

    def forked(self) -> None:
        """In a child process: the tail belongs to the parent, so single events are refused like everything else."""
        if self._tail is not None:
            self._tail.failure = ClosedError("the stream was opened before this process was forked")


def _may_change(data: Any) -> bool:
    """Whether memory of the caller's that he may write to could be shared with batches made from ``data``."""
    if isinstance(data, Mapping):
        return True
    return type(data).__module__.partition(".")[0] in ("pandas", "numpy")
