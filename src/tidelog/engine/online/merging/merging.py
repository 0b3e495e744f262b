"""A merge that runs: a subscription whose inputs come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.engine.online.keeping import Keeping
from tidelog.engine.online.merging.flow import MergeFlow
from tidelog.engine.online.merging.ordering import in_order
from tidelog.engine.online.merging.sources import check_name
from tidelog.engine.online.subscription import Subscription
from tidelog.model.errors import ClosedError, InputError
from tidelog.operators.base import Batches
from tidelog.operators.merge.ports import InputState

if TYPE_CHECKING:
    from tidelog.engine.online.merging.beginning import Sources

_PATIENCE = 0.05


def _nothing() -> None:
    """What was not begun needs no undoing."""


class Merging(Subscription):
    """A merge into a stream, made by ``Store.merge_into``. Close it, or use it in a with block.

    It works by itself, in another thread; :meth:`wait` waits for its end. Inputs can be attached and detached while it
    runs: when these calls return, that survives any crash.
    """

    def __init__(
        self,
        flow: MergeFlow,
        keeping: Keeping,
        sources: Sources,
        *,
        follow: bool,
        on_end: Callable[[Subscription], None],
    ) -> None:
        """Use ``Store.merge_into``."""
        super().__init__(flow, keeping, None, follow=follow, block_at=None, on_end=on_end)
        self._merge = flow
        self._sources = sources
        sources.on_news = self._bell.ring

    def _keep_beginning(self) -> None:
        """Inputs that have come since it ran last begin where they do now, too, and others have left for good."""
        assert self._keeping is not None
        kept = self._keeping.log.kept
        if kept is not None and kept.values["sources"].keys() != self._merge.sources.keys():
            self._give_again()  # what is kept next has it no more
            self._keep()
        super()._keep_beginning()

    @property
    def inputs(self) -> list[InputState]:
        """The inputs that have not left: whether they have joined, how far they are, and what does not fit."""
        return self._merge.operator.states

    @property
    def failures(self) -> dict[str, BaseException]:
        """Why inputs have left whose batches failed."""
        return dict(self._merge.failures)

    def attach(self, name: str, source: Any = None, *, join: Any = None, delay: Any = None, start: Any = None) -> None:
        """Merge another input: a stream or a query (by default the stream of that name), or an iterable of batches.

        It has all events that end at ``join`` or later, by default all there are: it has *joined* as soon as the output
        is there, and then all others may go. A name is used once: an input that comes back needs another one. Without a
        ``delay`` it has that of all inputs, or else the lateness of the stream.
        """
        self._check_running()
        check_name(name)
        source = name if source is None else source
        time = None if join is None else self._sources.clock.instant(join)
        ticks = self._sources.delay_of(source, delay)
        shape = self._sources.shape
        made = in_order(self._sources.made(name, source, start), self._merge.operator, shape, ticks)

        def attached() -> Batches:
            try:
                self._merge.operator.attach(name, join=time, delay=ticks)
            except BaseException:
                made.close()
                raise
            self._merge.add(name, made)
            for each in made.inputs:
                if each.writer not in self._watched:
                    self._watched.append(each.writer)
                    each.writer.watch(self._bell.ring)
            return []

        self._ordered(attached, made.close)

    def detach(self, name: str) -> None:
        """Let an input go. Whatever it still sends is dropped; another one must have joined to go on."""

        def detached() -> Batches:
            self._merge.detach(name)
            return []

        self._ordered(detached)

    def force_join(self, name: str) -> None:
        """Have an input that waits for its join time join now; events before that time may be missing then."""
        self._ordered(lambda: self._merge.operator.force_join(name))

    def _check_running(self) -> None:
        if not self.is_running:
            raise ClosedError("the merge has ended; begin it again with store.merge_into")
        if self._thread is not None and self._thread.is_mine:
            raise InputError("inputs come and go by calls from other threads than the merge's own")

    def _ordered(self, call: Callable[[], Batches], refused: Callable[[], None] = _nothing) -> None:
        try:
            self._check_running()
        except BaseException:
            refused()
            raise
        order = self._merge.order(call, refused)
        self._bell.ring()
        while not order.reply.is_done:
            if not self.is_running and not order.reply.is_done:
                self._merge.refuse_orders()
            order.reply.wait(_PATIENCE)
        order.reply.result()

    def _deliver(self, batches: Batches) -> bool:
        """Hand rows over and keep that; what was ordered is kept before who ordered it is told."""
        is_open = super()._deliver(batches)
        if self._merge.has_obeyed:
            self._keep_if_dirty()
            self._merge.settle()
        return is_open
