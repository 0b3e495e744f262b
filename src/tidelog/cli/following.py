"""Rows of a subscription, written as they come, until somebody asks to stop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from tidelog.cli.formats import Output
from tidelog.cli.interrupts import interrupts_held

if TYPE_CHECKING:
    from tidelog.engine.online.subscription import Subscription

_LOOK: Final = 0.5
"""Seconds between two looks at whether a subscription without output has failed."""
FOLLOWED: Final = (Output.CSV, Output.JSON, Output.ARROW)
"""What can be read while it is written."""


def checked_form(form: Output | None) -> Output:
    """The format to write; raises for those that end before they can be read."""
    chosen = form or Output.CSV
    if chosen not in FOLLOWED:
        raise typer.BadParameter(
            f"{chosen} cannot be read while it is written; expected csv, json or arrow", param_hint="--format"
        )
    if chosen is Output.ARROW and sys.stdout.isatty():
        raise typer.BadParameter("arrow is no text; send standard output elsewhere", param_hint="--format")
    return chosen


def follow(
    subscription: Subscription, form: Output, *, columns: Sequence[str] | None = None, limit: int | None = None
) -> None:
    """Write rows to standard output as they come. Ctrl-C, and other signals that ask to stop, are its usual end.

    A batch is written whole, and counts as taken when it was.
    """
    import pyarrow as pa

    from tidelog.cli.writing.formats import writer
    from tidelog.cli.writing.target import opened

    names = subscription.schema.names if columns is None else list(columns)
    schema = pa.schema([subscription.schema.field(name) for name in names])
    left = limit
    with (
        subscription,
        suppress(KeyboardInterrupt),
        opened(None) as file,
        writer(form, file, schema, is_stream=True) as sink,
    ):
        file.flush()
        while left is None or left > 0:
            batch = next(subscription, None)
            if batch is None:
                break
            batch = batch.select(names) if left is None else batch.select(names).slice(0, left)
            with interrupts_held():
                sink.write(batch)
                file.flush()
                if subscription.name is not None:
                    subscription.commit()
            left = None if left is None else left - batch.num_rows


def work(subscription: Subscription) -> None:
    """Let a subscription that needs nobody work until it ends, or somebody asks to stop."""
    with subscription, suppress(KeyboardInterrupt):
        while not subscription.wait(_LOOK):
            pass
