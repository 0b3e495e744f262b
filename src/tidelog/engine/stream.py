"""One stream as users see it: append, flush, maintain; what it is asked is in :mod:`tidelog.engine.queries`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.engine.altering import configuration, detachment, several, wanted_schema
from tidelog.engine.queries import Queries
from tidelog.engine.writer import StreamWriter
from tidelog.model.arguments import one_of, text
from tidelog.model.errors import InputError
from tidelog.model.schema import Schema
from tidelog.storage.read.check import Finding
from tidelog.store.check import check_stream
from tidelog.store.manifest.deletions import drop_deleted
from tidelog.store.manifest.manifest import Change, Manifest
from tidelog.store.manifest.options import read_bindings
from tidelog.store.read.stats import describe
from tidelog.store.read.tail_status import tail_files
from tidelog.store.split.merge_policy import THOROUGH
from tidelog.store.tail.tail import Numbered
from tidelog.store.upkeep.coarsening import Coarsened, coarsen, refuse_cut
from tidelog.store.upkeep.compaction import Compacted, compact
from tidelog.store.upkeep.maintenance import Maintained
from tidelog.store.upkeep.rebuilding import rebuild

AttachMode: TypeAlias = Literal["next_split", "new_split", "rebuild"]
ATTACH_MODES: Final = ("next_split", "new_split", "rebuild")


class Stream(Queries):
    """A stream of a store. May be used from several threads; made by ``Store.stream`` and ``Store.create_stream``.

    Times are ints in ticks of the stream's clock, datetimes or ISO strings; ranges are half-open, ``[start, end)``,
    None is unbounded. The first append takes the stream's tail lock, which is held until :meth:`close`.
    """

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
        if producer is None and number is None:
            self._writer.append(data)
        else:
            self._writer.append(data, _checked(producer, number))
        if self._writer.throttles:
            for throttle in self._writer.throttles:
                throttle.wait(self._writer)

    def last_number(self, producer: str) -> int | None:
        """The number of a producer's last append, so that it can go on from there; None if it has made none.

        Takes the tail lock, as an append would: what another process appends could make the answer wrong.
        """
        text("the producer", producer, "a text, its name")
        return self._writer.last_number(producer)

    def flush(self) -> None:
        """Return when everything appended before this call survives any crash, and other processes can see it."""
        self._writer.flush()

    def delete_before(self, time: Any) -> None:
        """Delete the events before a time, at once and for good; those that still arrive with such a time too.

        Raises :class:`GrainError` for a time inside of an entry of coarse events (:meth:`coarsen`).
        """
        writer = self._writer
        writer.check_writable()
        bound = self.schema.clock.bound(time)
        if bound is None:
            raise InputError("delete_before needs a time; to delete everything, drop the stream")
        writer.flush()
        seen = writer.snapshots.newest().visible

        def change(manifest: Manifest) -> Change:
            refuse_cut(writer.context, manifest, bound)
            return Change(deleted_before=bound, deleted_seen=seen)

        writer.manifests.commit(change, frees=True)
        drop_deleted(writer.manifests)

    def coarsen(self, before: Any, grain: Any = None) -> Coarsened:
        """Keep of events before a time only aggregates, of whole splits at once; returns what became of them.

        Splits all of whose events are before it keep the entries of one level of their tree: those of the leaves, some
        thousand events each, or, with a ``grain`` such as ``"1h"``, the highest one of which none is longer. ``count``,
        ``sum``, ``min``, ``max`` and ``avg`` of ranges that cut no entry stay exact; whatever needs more raises
        :class:`GrainError`. There is no way back. (spec/event-store.md 5.4)
        """
        writer = self._writer
        writer.check_writable()
        clock = self.schema.clock
        bound = clock.bound(before)
        if bound is None:
            raise InputError("coarsen needs a time; it keeps only aggregates of what is before it")
        ticks = None if grain is None else clock.duration(grain, positive=True)
        writer.flush()
        return coarsen(writer.context, writer.manifests, bound, ticks, writer.snapshots.newest)

    def compact(self, max_bytes: int | None = None) -> Compacted:
        """Merge late rows, small splits and overlapping ones until reading is as fast as it gets; returns what it did.

        Writing and reading, here and elsewhere, go on. Late rows, and others that wait in the journal, belong to the
        writer: if that is another process they stay where they are, if there is none this one is it for a moment. At
        most ``max_bytes`` of closed splits are read; what is left is for the next call. Files that were merged into
        others stay for the grace period.
        """
        writer = self._writer
        writer.check_writable()
        _check_bytes(max_bytes)
        writer.settle(THOROUGH)
        done = compact(writer.context, writer.manifests, THOROUGH, max_bytes=max_bytes)
        drop_deleted(writer.manifests, writer.snapshots.newest().unlisted)
        return done

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
        writer = self._writer
        writer.check_writable()
        writer.attach(read_bindings(several(aggregates)), new_split=mode != "next_split")
        if mode != "rebuild":
            return []
        return [info.name for done in rebuild(writer.context, writer.manifests) for info in done.added]

    def detach(self, aggregates: str | Binding | Sequence[str | Binding]) -> None:
        """Keep no states of some user-defined aggregates any more, from the next split on.

        A text is the name that ``options.user_aggregates`` tells, or a call such as ``"second_largest(price)"``; of
        aggregates without code it is the former. They can still be asked for. Raises :class:`NotFoundError` for those
        that are not kept.
        """
        self._writer.check_writable()
        self._writer.change_options(partial(detachment, several(aggregates), self.name))

    def configure(self, **options: Any) -> None:
        """Change ``retention``, ``coarse_after``, ``coarse_grain`` or ``grace``, durably, for all processes.

        They take effect when the stream is looked after the next time (:meth:`maintain`), by whomever. What was deleted
        or coarsened stays so; what is under way by the old ones ends. Other options are fixed when a stream is created.
        Raises :class:`InputError` for these, and :class:`TimeError` for values that make no sense, and has changed
        nothing.
        """
        self._writer.check_writable()
        self._writer.change_options(partial(configuration, options))

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
        self._writer.evolve(lambda current: wanted_schema(current, schema, **changes))
        return self.schema

    def maintain(self, max_bytes: int | None = None) -> Maintained:
        """Do at once what automatic maintenance would do in time; returns what was done.

        Deletes what is beyond the stream's ``retention``, merges splits where that pays, and removes files whose grace
        period is over; where this process writes the stream, merges late rows too if they are many. Takes no lock. At
        most ``max_bytes`` of files are read for merging.
        """
        self._writer.check_writable()
        _check_bytes(max_bytes)
        return self._writer.maintain(max_bytes)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._writer.is_closed

    def close(self) -> None:
        """Flush and free everything. Scans under way go on; other calls are refused from now on.

        No file is left open but those that such scans need, each until it is read or the scan is dropped.
        ``Store.stream`` opens the stream again, also after a failure. Raises :class:`NotStoredError`, once, if rows
        that were accepted are not known to be stored. When this was interrupted, call it again: it goes on, or tells.
        """
        self._writer.close()

    # -- looking at it --------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Rows, bytes and the shape of the trees, as plain values.

        ``late`` has what became of rows that came late: how many, where they went, and by how many ticks they were late
        (:class:`~tidelog.store.tail.late.lateness.LateCounters`), as of the last flush if another process appends.
        ``maintenance`` has what automatic maintenance has done in this process, and its last failure.
        """
        writer, snapshot = self._writer, self.snapshot()
        files = tail_files(writer.context, snapshot.manifest)
        described = describe(self.name, snapshot, writer.context, writer.late(snapshot), files)
        return described | {"maintenance": writer.account.to_dict()}

    def check(self) -> list[Finding]:
        """Everything wrong with the stream's files; empty when all is well. Looks at what was flushed."""
        self.flush()
        return check_stream(self._writer.context, self._writer.manifests)


def writer_of(stream: Stream) -> StreamWriter:
    """What stands behind a stream: for other parts of tidelog, and no part of what users may rely on."""
    return stream._writer


def _check_bytes(max_bytes: object) -> None:
    """Raise :class:`InputError` for what is no limit of the bytes that merges read."""
    if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 1):
        raise InputError(f"found {max_bytes!r} bytes to read at most; expected an int from 1 on, or None for no limit")


def _checked(producer: str | None, number: int | None) -> Numbered:
    """The number of an append, as a plain int; raises :class:`InputError` for what cannot identify one."""
    if producer is None or number is None:
        raise InputError("found one of producer and number; give both, to make an append repeatable, or none")
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
    return Numbered(producer, plain)
