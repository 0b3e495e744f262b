"""One stream as users see it: append, flush, maintain; what it is asked is in :mod:`tidelog.engine.queries`."""

from __future__ import annotations

import datetime
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.engine.altering import (
    attachment,
    configuration,
    detachment,
    evolution,
    next_version,
    refuse_strange,
    several,
    wanted_schema,
)
from tidelog.engine.maintainer import Account
from tidelog.engine.queries import Queries
from tidelog.engine.questions import Questions
from tidelog.engine.toolate import AsideNeeded, Gate
from tidelog.index.states import States
from tidelog.model import to_batches
from tidelog.model.arguments import one_of, text
from tidelog.model.conversion.rows import Row, row_reader
from tidelog.model.errors import (
    ClosedError,
    ConflictError,
    InputError,
    LockedError,
    NotFoundError,
    NotStoredError,
    ReadOnlyError,
)
from tidelog.model.evolution import Renames
from tidelog.model.schema import Schema
from tidelog.storage.read.check import Finding
from tidelog.store.check import check_stream
from tidelog.store.manifest.deletions import drop_deleted
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.options import StreamOptions, read_bindings
from tidelog.store.read.shape import describe
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.read.tail_files import is_unsettled, queued_rows, tail_files
from tidelog.store.rows.stored import owned
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import AUTOMATIC, THOROUGH, MergePolicy
from tidelog.store.tail.late.lateness import LateCounters
from tidelog.store.tail.shares import Share, Shares
from tidelog.store.tail.tail import Tail, told
from tidelog.store.upkeep.coarsening import Coarsened, coarsen, refuse_cut
from tidelog.store.upkeep.compaction import Compacted, compact
from tidelog.store.upkeep.maintenance import Maintained, Maintenance
from tidelog.store.upkeep.rebuilding import rebuild

AttachMode: TypeAlias = Literal["next_split", "new_split", "rebuild"]
ATTACH_MODES: Final = ("next_split", "new_split", "rebuild")

_GATHERED_ROWS: Final = 4096
"""Single events are gathered up to this number before they become a batch."""

_GATHERED_BYTES: Final = 4 << 20
"""The same limit in bytes of texts and other values of no fixed width."""


_EVENT_TIMES: Final = frozenset(
    {int, str, datetime.datetime, datetime.date, np.int64, np.datetime64, np.int32, np.uint64, np.uint32}
)
"""What the time of a single event is; a dict with anything else there is left to the conversion of columns."""


class Stream(Queries):
    """A stream of a store. May be used from several threads; made by ``Store.stream`` and ``Store.create_stream``.

    Times are ints in ticks of the stream's clock, datetimes or ISO strings; ranges are half-open, ``[start, end)``,
    None is unbounded. The first append takes the stream's tail lock, which is held until :meth:`close`.
    """

    def __init__(
        self,
        name: str,
        manifests: ManifestLog,
        *,
        read_only: bool,
        open_aside: Callable[[], Stream],
        find_aside: Callable[[], Stream | None],
        is_dropped: Callable[[], bool] = lambda: False,
        on_writing: Callable[[], None] = lambda: None,
    ) -> None:
        """Use ``Store.stream``.

        ``open_aside`` gives the stream for rows that are too late, ``find_aside`` only if there is one; ``is_dropped``
        tells whether the store has it no more; ``on_writing`` is called when the stream is about to be written.
        """
        self.name = name
        self._manifests = manifests
        self._read_only = read_only
        self._closed = False
        self._mutex = threading.RLock()
        context = StreamContext.of(manifests)
        self._snapshots = Snapshots(context, manifests)
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
        self._gathering = 1
        """How many of them are gathered: one if the tail is to be asked each time, whether it takes any."""
        self._process = os.getpid()
        self.untold_loss: Exception | None = None
        """What there is to tell of rows that were accepted and are not stored, once the stream is closed."""

    def _adopt(self, context: StreamContext) -> None:
        """Go on with a version of the schema. The context comes last: by it one knows whether that was done."""
        self.schema: Schema = context.layout.schema
        """The newest that is known here: every query looks for a newer one, and so does what opens the tail."""
        self.options: StreamOptions = context.options
        self._row_reader = row_reader(self.schema)
        self._read_plain = self._row_reader.read_plain
        self._time = self.schema.time
        self._questions = Questions(context.layout, context.options)
        self._maintenance = Maintenance(context, self._manifests)
        self._context = context

    def __repr__(self) -> str:
        return f"<stream {self.name!r}: {', '.join(self.schema.names)}>"

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, data: Any, *, producer: str | None = None, number: int | None = None) -> None:
        """Append events, in any order of time: whatever :func:`tidelog.model.to_batches` takes, or one event as a dict.

        They are durable after the next :meth:`flush` (with ``durability="batch"``, when this returns). Nothing is
        appended if something does not fit, or is later than the stream allows (``too_late="reject"``), except from a
        reader, of which the batches before are kept.

        A ``producer`` that numbers its appends may send one again without harm: an append whose ``number`` is not
        greater than that of the producer's last one is passed over. Its rows survive a crash together or not at all.
        One that sets rows aside (``too_late="aside"``) must have the same rows in the same order when it is sent again.
        """
        tail = self._tail
        if tail is None:
            with self._mutex:
                tail = self._writer()  # with the newest schema, which then stays
        context = self._context
        if type(data) is dict and producer is None and number is None and not self._is_gated:
            row = self._read_plain(data)
            if row is None and type(data.get(self._time)) in _EVENT_TIMES:
                row = self._row_reader.read(data)
            if row is not None:
                with self._mutex:
                    if self._context is not context:  # another thread has changed the schema
                        self.append(data)
                        return
                    if tail.failure is not None or len(self._rows) + 1 >= self._gathering:
                        self._append_last(row)
                    else:
                        self._rows.append(row)
                        if self._row_reader.has_long:
                            self._long_bytes += self._row_reader.long_bytes(row)
                            if self._long_bytes >= _GATHERED_BYTES:
                                self._append_rows()
                if self._is_committed:
                    tail.commit()
                return
        number = _checked(producer, number)
        batches: Iterable[pa.RecordBatch] = to_batches(data, context.layout.schema)
        if _may_change(data):
            batches = [owned(batch) for batch in batches]
        if self._is_gated:
            tail = self._append_gated(batches, producer, number, context)
        else:
            with self._mutex:
                tail = self._writer()
                if self._context is not context:  # another thread has changed the schema
                    batches = self._brought(batches, context)
                self._append_rows()
                tail.append(batches, producer=producer, number=number)
        if self._is_committed:
            tail.commit()  # without the lock: threads that come together share a sync

    def _append_gated(
        self, batches: Iterable[pa.RecordBatch], producer: str | None, number: int | None, context: StreamContext
    ) -> Tail:
        """Append rows that are not too late, and do with others what the stream's options say."""
        while True:
            with self._mutex:
                tail, gate = self._writer(), self._gate
                assert gate is not None
                if self._context is not context:  # another thread has changed the schema
                    batches, context = self._brought(batches, context), self._context
                tail.check_open()  # before anything is set aside
                if producer is not None and number is not None:
                    last = tail.last_number(producer)
                    if last is not None and number <= last:
                        return tail
                    batches = list(batches)  # all of it fits before any of it counts
                is_reader = not isinstance(batches, list)
                is_ready = gate.is_ready(is_reader=is_reader, is_numbered=producer is not None)
                if is_ready:
                    with suppress(AsideNeeded):
                        tail.append(gate.sift(batches, producer, number), producer=producer, number=number)
                        gate.keep_newest()
                        if self._is_committed:
                            gate.flush()
                        return tail
            gate.prepare(makes=is_ready or is_reader)

    def append_share(self, data: pa.Table, sent_by: str, number: int, share: Share) -> int:
        """Append rows that are too late for another stream, durably: a share of one of its appends.

        Returns how many shares are known, those of before included.
        """
        with self._mutex:
            tail = self._writer()
            self._append_rows()
            tail.append_share(list(to_batches(data, self.schema)), sent_by, number, share)
            return len(tail.shares)

    def taken_shares(self) -> Shares:
        """What is here, durably, of appends to the stream that this one takes late rows of. Takes the tail lock."""
        with self._mutex:
            shares = Shares()
            shares.update(self._writer().shares.saved())
            return shares

    def settle_shares(self, numbers: Mapping[str, int]) -> int:
        """Forget shares of each sender's appends up to a number; returns how many are left."""
        with self._mutex:
            tail = self._writer()
            tail.settle_shares(numbers)
            return len(tail.shares)

    def _brought(self, batches: Iterable[pa.RecordBatch], context: StreamContext) -> Iterable[pa.RecordBatch]:
        """Batches of the schema of a context as batches of the schema now."""
        history = self._context.history
        assert history is not None
        brought = (history.brought(batch, context.version) for batch in batches)
        return list(brought) if isinstance(batches, list) else brought

    def _append_last(self, row: Row) -> None:
        """Hand gathered events to the tail, and one more behind them."""
        tail = self._writer()
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
            tail = self._writer()
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
        """The number of a producer's last append, so that it can go on from there; None if it has made none.

        Takes the tail lock, as an append would: what another process appends could make the answer wrong.
        """
        text("the producer", producer, "a text, its name")
        with self._mutex:
            return self._writer().last_number(producer)

    def flush(self) -> None:
        """Return when everything appended before this call survives any crash, and other processes can see it."""
        with self._mutex:
            self._check_open()
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
                return
            self._append_rows()
            if self._gate is not None:
                self._gate.flush()  # first: rows set aside are acknowledged with those of the same append
            tail.flush()

    def delete_before(self, time: Any) -> None:
        """Delete the events before a time, at once and for good; those that still arrive with such a time too.

        Raises :class:`GrainError` for a time inside of an entry of reduced events (:meth:`coarsen`).
        """
        self._check_writable()
        bound = self.schema.clock.bound(time)
        if bound is None:
            raise InputError("delete_before needs a time; to delete everything, drop the stream")
        self.flush()
        seen = self._snapshots.newest().visible

        def change(manifest: Manifest) -> Change:
            refuse_cut(self._context, manifest, bound)
            return Change(deleted_before=bound, deleted_seen=seen)

        self._manifests.commit(change, frees=True)
        drop_deleted(self._manifests)

    def coarsen(self, before: Any, grain: Any = None) -> Coarsened:
        """Keep of events before a time only aggregates, of whole splits at once; returns what became of them.

        Splits all of whose events are before it keep the entries of one level of their tree: those of the leaves, some
        thousand events each, or, with a ``grain`` such as ``"1h"``, the highest one of which none is longer. ``count``,
        ``sum``, ``min``, ``max`` and ``avg`` of ranges that cut no entry stay exact; whatever needs more raises
        :class:`GrainError`. There is no way back. (spec/event-store.md 5.4)
        """
        self._check_writable()
        clock = self.schema.clock
        bound = clock.bound(before)
        if bound is None:
            raise InputError("coarsen needs a time; it keeps only aggregates of what is before it")
        ticks = None if grain is None else clock.duration(grain, positive=True)
        self.flush()
        return coarsen(self._context, self._manifests, bound, ticks, self._snapshots.newest)

    def compact(self, max_bytes: int | None = None) -> Compacted:
        """Merge late rows, small splits and overlapping ones until reading is as fast as it gets; returns what it did.

        Writing and reading, here and elsewhere, go on. Late rows, and others that wait in the journal, belong to the
        writer: if that is another process they stay where they are, if there is none this one is it for a moment. At
        most ``max_bytes`` of closed splits are read; what is left is for the next call. Files that were merged into
        others stay for the grace period.
        """
        self._check_writable()
        _check_bytes(max_bytes)
        self._settle(THOROUGH)
        done = compact(self._context, self._manifests, THOROUGH, max_bytes=max_bytes)
        drop_deleted(self._manifests, self._snapshots.newest().unlisted)
        return done

    def _settle(self, policy: MergePolicy) -> None:
        """Have as many rows as possible in splits, see :meth:`Tail.settle`, unless another process writes."""
        with self._mutex:
            if self._tail is not None:
                self.flush()
                self._tail.settle(policy)
                return
            if not is_unsettled(self._context, self.snapshot(), policy):
                return
            with suppress(LockedError), self._holding_tail("the splits") as tail:
                tail.settle(policy)

    def attach(self, aggregates: str | Binding | Sequence[str | Binding], mode: AttachMode = "next_split") -> list[str]:
        """Keep states of user-defined aggregates, e.g. ``"second_largest(price)"``, from now on (docs/aggregates.md).

        They are kept from the next split on; with ``mode="new_split"`` the open split is closed for that, so that it
        begins at once; with ``mode="rebuild"`` closed splits are written anew besides, one after the other. To go on
        with a rebuilding that was interrupted, call this again. Queries are right at all times: where states are not
        kept they read events. Returns the names of the splits that were written anew.

        Raises :class:`InputError` for what cannot be computed of the columns, and, but for ``"next_split"``,
        :class:`LockedError` if another process is writing the stream.
        """
        one_of("mode", mode, ATTACH_MODES)
        self._check_writable()
        bindings = read_bindings(several(aggregates))
        if mode == "next_split":
            with self._mutex:
                self._attach(bindings)
            return []
        # The tail comes first: who cannot have it is refused before anything is changed.
        with self._mutex, self._holding_tail("the splits") as tail:
            self._attach(bindings)
            self._append_rows()
            tail.new_split()
        if mode == "new_split":
            return []
        return [info.name for done in rebuild(self._context, self._manifests) for info in done.added]

    def _attach(self, bindings: Sequence[Binding]) -> None:
        self._adopt_newest()
        # What cannot be computed is refused before anything is changed.
        States.of(self._context.layout.stored, self.schema.time, bindings)
        self._renew(self._manifests.commit(partial(attachment, bindings)))

    def detach(self, aggregates: str | Binding | Sequence[str | Binding]) -> None:
        """Keep no states of some user-defined aggregates any more, from the next split on.

        A text is the name that ``options.user_aggregates`` tells, or a call such as ``"second_largest(price)"``; of
        aggregates without code it is the former. They can still be asked for. Raises :class:`NotFoundError` for those
        that are not kept.
        """
        self._check_writable()
        with self._mutex:
            self._renew(self._manifests.commit(partial(detachment, several(aggregates), self.name)))

    def configure(self, **options: Any) -> None:
        """Change ``retention``, ``coarse_after``, ``coarse_grain`` or ``grace``, durably, for all processes.

        They take effect when the stream is looked after the next time (:meth:`maintain`), by whomever. What was deleted
        or reduced stays so; what is under way by the old ones ends. Other options are fixed when a stream is created.
        Raises :class:`InputError` for these, and :class:`TimeError` for values that make no sense, and has changed
        nothing.
        """
        self._check_writable()
        with self._mutex:
            self._renew(self._manifests.commit(partial(configuration, options)))

    def _renew(self, manifest: Manifest) -> None:
        """Take over options that were changed, and aggregates that were attached or detached."""
        self._adopt(self._context.at(manifest))
        self._snapshots.renew(self._context)

    def evolve(
        self,
        schema: pa.Schema | Schema | None = None,
        *,
        add: pa.Schema | Mapping[str, pa.DataType] | Sequence[Any] = (),
        widen: Mapping[str, pa.DataType | str] | None = None,
        rename: Mapping[str, str] | None = None,
        loosen: Sequence[str] = (),
    ) -> Schema:
        """Change the schema, at once and durably, for all who open the stream or ask it next; returns the new one.

        ``add`` new nullable columns (what ``pyarrow.schema`` takes), ``widen`` types (``{"x": pa.int64()}``),
        ``rename`` columns (``{"old": "new"}``), and ``loosen`` those that may have nulls from now on; names are those
        from before. Or give the new ``schema`` as a whole, in which nothing may have another name. Events from before
        are read through the new schema; snapshots keep theirs.

        Takes the tail lock: raises :class:`LockedError` while another process writes the stream. Raises
        :class:`SchemaError`, with nothing changed, for what events from before cannot be read through.
        """
        changes = {"add": add, "widen": widen, "rename": rename, "loosen": loosen}
        # Looked for before the stream's lock is taken: the store has one of its own, which comes first.
        aside = self._find_aside() if self.options.too_late == "aside" else None
        with ExitStack() as resources:
            if aside is not None:
                resources.enter_context(aside._holding_tail("the schema"))

            def step() -> tuple[Schema, Renames]:
                wanted, renames = wanted_schema(self.schema, schema, **changes)
                if aside is not None:
                    refuse_strange(aside.schema, aside.name, (*self._manifests.load().schemas, wanted))
                return wanted, renames

            self._change_schema(step)
            if aside is not None:
                # Second: what is behind can follow at any time, by what the stream's manifest knows of its versions.
                aside.follow(self._manifests.load())
        return self.schema

    def follow(self, leader: Manifest) -> None:
        """Change the schema as that of another stream was changed, from the version on that both have in common.

        For a stream that takes what is too late for another one. Raises :class:`SchemaError` if its schema is none of
        the other one's.
        """

        def step() -> tuple[Schema, Renames]:
            return next_version(self.schema, self.name, leader)

        while self.schema != leader.schema:
            self._change_schema(step)

    @contextmanager
    def _holding_tail(self, what: str) -> Iterator[Tail]:
        """Keep the tail lock; those who did not have it before give it up again.

        Raises :class:`LockedError`, which says that this cannot change, if another process has it.
        """
        with self._mutex:
            was_open = self._tail is not None
            try:
                tail = self._writer()
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
                    self._gathering = 1
                    tail.close()

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
                self._adopt(self._context.at(self._manifests.load()))
                self._begin(Tail(self._context, self._manifests, lock))
            except BaseException:
                if self._tail is None:
                    lock.release()
                raise

    def maintain(self, max_bytes: int | None = None) -> Maintained:
        """Do at once what automatic maintenance would do in time; returns what was done.

        Deletes what is beyond the stream's ``retention``, merges splits where that pays, and removes files whose grace
        period is over; where this process writes the stream, merges late rows too if they are many. Takes no lock. At
        most ``max_bytes`` of files are read for merging.
        """
        self._check_writable()
        _check_bytes(max_bytes)
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

    def _writer(self) -> Tail:
        self._check_writable()
        while self._tail is None:
            self._refuse_dropped()
            self._adopt_newest()
            try:
                tail = Tail(self._context, self._manifests)
            except ConflictError:
                if self._context.at(self._manifests.load()) is self._context:
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
            gate = Gate(self._context, tail, self._open_aside, self._find_aside) if self._is_gated else None
            self._tail, self._gate = tail, gate
            self._gathering = 1 if self._is_committed else _GATHERED_ROWS
        except BaseException:
            self._tail = None
            tail.free()
            raise

    @property
    def is_written(self) -> bool:
        """Whether this process appends to it, or has."""
        return self._tail is not None

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def _adopt_newest(self) -> None:
        context = self._context.at(self._manifests.load())
        if context is not self._context:
            self._adopt(context)

    def close(self) -> None:
        """Flush and free everything. Scans under way go on; other calls are refused from now on.

        No file is left open but those that such scans need, each until it is read or the scan is dropped.
        ``Store.stream`` opens the stream again, also after a failure. Raises :class:`NotStoredError`, once, if rows
        that were accepted are not known to be stored. When this was interrupted, call it again: it goes on, or tells.
        """
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
                self._gathering = 1
            if tail is not None:
                tail.free()
            self._snapshots.close()
            self._maintenance.close()

    @property
    def unstored(self) -> int:
        """How many rows were accepted that are not known to be stored."""
        return 0 if self._tail is None else self._tail.unstored + len(self._rows)

    def forked(self) -> None:
        """In a child process: the tail belongs to the parent, so single events are refused like everything else."""
        if self._tail is not None:
            self._tail.failure = ClosedError("the stream was opened before this process was forked")

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

    # -- for what works beside the tail ---------------------------------------------------------------------------

    @property
    def manifests(self) -> ManifestLog:
        """The stream's manifests."""
        return self._manifests

    @property
    def context(self) -> StreamContext:
        """Where the stream's splits are, and how they are laid out."""
        return self._context

    def published(self, version: int | None = None) -> Snapshot:
        """The stream as any process can see it: everything flushed, even if this one writes it and has more.

        What queries that are to survive this process go by, such as the offsets of a streaming query. ``version`` is
        that of the schema it is presented under, the newest unless said otherwise.
        """
        self._check_open()
        return self._snapshots.newest() if version is None else self._snapshots.under(version)

    # -- reading --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The stream as it is now: in the process that writes it everything appended, elsewhere everything flushed.

        Can be given to queries as ``as_of``, so that all of them see the same rows.
        """
        with self._mutex:
            self._check_open()
            if self._tail is None:
                snapshot = self._snapshots.newest()
                if self._snapshots.context.version != self._context.version:
                    self._adopt(self._snapshots.context)
                return snapshot
            self._append_rows()
            return self._snapshots.of_tail(self._tail.view())

    def stats(self) -> dict[str, Any]:
        """Rows, bytes and the shape of the trees, as plain values.

        ``late`` has what became of rows that came late: how many, where they went, and by how many ticks they were late
        (:class:`~tidelog.store.tail.late.lateness.LateCounters`), as of the last flush if another process appends.
        ``maintenance`` has what automatic maintenance has done in this process, and its last failure.
        """
        tail, snapshot = self._tail, self.snapshot()
        late = LateCounters.read(snapshot.late).to_dict(queued_rows(snapshot)) if tail is None else tail.late()
        described = describe(self.name, snapshot, self._context, late, tail_files(self._context, snapshot.manifest))
        return described | {"maintenance": self.account.to_dict()}

    def check(self) -> list[Finding]:
        """Everything wrong with the stream's files; empty when all is well. Looks at what was flushed."""
        self.flush()
        return check_stream(self._context, self._manifests)

    def _refuse_dropped(self) -> None:
        if self._is_dropped():
            raise NotFoundError(
                f"stream {self.name!r} was dropped, so nothing that is appended to it is kept; open the stream of that "
                "name again, or create it"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"stream {self.name!r} was closed; open it again with store.stream({self.name!r})")

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise ReadOnlyError(f"stream {self.name!r} was opened for reading; open the store without read_only")


def not_stored(name: str, rows: int, failure: BaseException | None) -> NotStoredError:
    """What is said of rows that were accepted and are not known to be stored."""
    reason = "its rows were given up" if failure is None else told(failure)
    error = NotStoredError(
        f"{rows} rows that were appended to stream {name!r} since the last flush are not known to be stored "
        f"({reason}); what was flushed is safe. Open the stream again (store.stream({name!r})), look what it has, and "
        "append the others once more",
        rows=rows,
    )
    error.errno = getattr(failure, "errno", None)
    error.__cause__ = failure
    return error


def _check_bytes(max_bytes: object) -> None:
    """Raise :class:`InputError` for what is no limit of the bytes that merges read."""
    if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 1):
        raise InputError(f"found {max_bytes!r} bytes to read at most; expected an int from 1 on, or None for no limit")


def _checked(producer: str | None, number: int | None) -> int | None:
    """The number of an append, as a plain int; raises :class:`InputError` for what cannot identify one."""
    if (producer is None) != (number is None):
        raise InputError("found one of producer and number; give both, to make an append repeatable, or none")
    if producer is None or number is None:
        return None
    if not isinstance(producer, str):
        raise InputError(f"found the producer {producer!r}, a {type(producer).__name__}; expected a text, its name")
    try:
        plain = operator.index(number)
    except TypeError:
        raise InputError(
            f"found the number {number!r}, a {type(number).__name__}, for an append of {producer!r}; expected an int"
        ) from None
    if plain < 0:
        raise InputError(f"found the number {plain} for an append of {producer!r}; numbers start at 0")
    return plain


def _may_change(data: Any) -> bool:
    """Whether memory of the caller's that he may write to could be shared with batches made from ``data``."""
    if isinstance(data, Mapping):
        return True
    return type(data).__module__.partition(".")[0] in ("pandas", "numpy")
