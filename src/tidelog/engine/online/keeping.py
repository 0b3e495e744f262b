"""What makes a subscription go on where it was, and how it knows the stream again that its rows go to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.engine.online.inputs import identity
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.operators.state import State
from tidelog.store.subscriptions import Kept, SubscriptionLog

if TYPE_CHECKING:
    from tidelog.engine.store import Store


@dataclass(frozen=True)
class Keeping:
    """What makes a subscription go on where it was: what is kept of it, and the stream that its rows go to."""

    log: SubscriptionLog
    about: dict[str, Any]
    """What is told of the subscription besides how far it is."""
    into: Stream | None
    producer: str
    first: int = 0
    """The number that its first step comes behind, if nothing is kept."""

    @classmethod
    def of(cls, log: SubscriptionLog, about: dict[str, Any], into: Stream | None) -> Keeping:
        """What is kept of a subscription by ``about["name"]``; takes the lock of the stream, or is refused.

        A stream passes numbers over that it has had. It may have had some of one with this name that was dropped, so
        steps are counted on from there. Raises :class:`CorruptionError` if it has had some of later steps than what is
        kept: the next ones would be passed over.
        """
        producer = f"subscription {about['name']}"
        if into is None:
            return cls(log, about, None, producer)
        last = into.last_number(producer)
        if log.kept is not None and last is not None and last > log.kept.number:
            raise CorruptionError(
                f"what is kept of subscription {about['name']!r} ends with step {log.kept.number}, but stream "
                f"{into.name!r} has rows of step {last}: the end of what was kept is damaged or lost; restore a "
                f"backup, or drop the subscription (store.drop_subscription({about['name']!r})) and begin it anew"
            )
        return cls(log, {**about, "target": identity(writer_of(into))}, into, producer, last or 0)


def check_target(store: Store, name: str, into: str | None, kept: Kept | None) -> None:
    """Raise :class:`NotFoundError` if the stream that rows go to is not the one that earlier rows have gone to."""
    known = None if kept is None else kept.values.get("target")
    if into is None or known is None:
        return
    is_there = into in store
    if is_there and identity(writer_of(store.stream(into))) == known:
        return
    what = "there is another one of its name" if is_there else "there is none of its name"
    raise NotFoundError(
        f"stream {into!r}, to which subscription {name!r} has given its rows, was dropped or renamed, and {what}; drop "
        f"the subscription (store.drop_subscription({name!r})), and begin it anew"
    )


def kept_state(kept: Kept) -> State:
    """What a plan knew when something was kept."""
    return State(kept.values["core"], {name: pa.py_buffer(content) for name, content in kept.chunks.items()})
