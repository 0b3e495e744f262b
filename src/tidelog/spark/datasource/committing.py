"""What becomes of splits that tasks have written: they are made visible, by one commit for each stream, or removed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.engine.store import Store, manifests_of
from tidelog.model.errors import TidelogError
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.options import SinkOptions
from tidelog.spark.datasource.overwriting import NONE_OUTSIDE, Outside
from tidelog.store.bulk import commit_bulk, remove_files
from tidelog.store.manifest.manifest import ManifestLog, SplitInfo
from tidelog.store.split.context import StreamContext
from tidelog.store.upkeep.maintenance import Maintenance
from tidelog.threads import at_once

TIDY_BYTES: Final = 256 << 20
"""What the driver reads at most to merge splits after a commit."""

_log = logging.getLogger("tidelog.maintenance")

Splits: TypeAlias = Mapping[str, Sequence[SplitInfo]]
"""Of streams, by their names."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written."""

    splits: Splits = field(default_factory=dict)
    outside: Outside = NONE_OUTSIDE
    """Rows that are not in the range to overwrite: there are no splits then."""
    query: str | None = None
    """The streaming query that the task is of."""


def splits_of(messages: Sequence[WriterCommitMessage | None]) -> dict[str, list[SplitInfo]]:
    """The splits of all tasks; tasks that failed say nothing."""
    found: dict[str, list[SplitInfo]] = defaultdict(list)
    for message in messages:
        if isinstance(message, Written):
            for name, splits in message.splits.items():
                found[name] += splits
    return found


def commit_splits(
    options: SinkOptions, splits: Splits, transaction: tuple[str, int] | None, overwrite: Interval | None = None
) -> None:
    """Make splits visible, stream by stream, several streams at a time, and delete what they replace.

    A stream that fails does not keep the others from theirs; afterwards the first error, by the names of streams, is
    raised, and says of how many streams rows are missing.
    """

    def commit(name: str) -> TidelogError | None:
        try:
            manifests = manifests_of(store, name)
            commit_bulk(
                manifests,
                splits[name],
                transaction=transaction,
                overwrite=overwrite,
                outside=options.outside or "refuse",
            )
            if options.compact:
                _tidy(name, manifests)
        except TidelogError as error:
            return error
        return None

    names = sorted(splits)
    with Store.open(options.path, maintenance="manual") as store:
        outcomes = zip(names, at_once(commit, names), strict=True)
        failures = {name: error for name, error in outcomes if error is not None}
    for name, failure in failures.items():
        if len(splits) > 1:
            failure.add_note(
                f"Of {len(splits)} streams {len(failures)} did not get their rows, {name!r} first; the others have "
                "theirs. With a transaction's number the job can be run again"
            )
        raise failure


def _tidy(name: str, manifests: ManifestLog) -> None:
    """Do what is due for a stream after a commit, as far as that takes little: many commits must not ruin reading.

    The rows are committed, so a failure is logged and nothing more.
    """
    try:
        Maintenance(StreamContext.of(manifests), manifests).run(max_bytes=TIDY_BYTES)
    except TidelogError as error:
        _log.warning("maintenance of stream %r failed after a commit, which is through: %s", name, error)


def remove_splits(options: SinkOptions, splits: Splits) -> None:
    """Remove the files of splits that will not be committed, unless they were."""
    with Store.open(options.path, maintenance="manual") as store:
        there = [name for name in splits if name in store]
        at_once(lambda name: remove_files(manifests_of(store, name), splits[name]), there)
