"""Manifests and their changes as JSON values, as documents of a delta log have them.

The members are the fields of :class:`Manifest`, :class:`Change` and :class:`SplitInfo`; docs/format.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from tidelog.model.errors import InputError, NewerReleaseError, SchemaError, TimeError
from tidelog.model.schema import Schema
from tidelog.model.times.interval import Interval
from tidelog.store.log.delta_log import Ledger
from tidelog.store.log.file_names import FileName
from tidelog.store.log.members import Columns, Form, Forms, Record, form_of, keyed, refuse_unknown
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.manifest.split_info import SPLIT_KINDS, SplitInfo, SplitKind
from tidelog.store.manifest.state import Change, Deletion, Manifest, Removed

T = TypeVar("T")


def _understood(what: str, read: Callable[[Any], T], values: Any) -> T:
    """What was written on purpose, and is whole; if it makes no sense to this release, it does to a newer one."""
    try:
        return read(values)
    except (InputError, SchemaError, TimeError) as error:
        raise NewerReleaseError(f"{what} that this release does not understand: {error}") from error


def _schema(values: Any) -> Schema:
    return _understood("a schema", Schema.from_dict, values)


def _options(values: Any) -> StreamOptions:
    refuse_unknown("options", values, [each.name for each in fields(StreamOptions)])
    return _understood("options", StreamOptions.from_dict, values)


def _kind(value: str) -> str:
    if value not in SPLIT_KINDS:
        raise NewerReleaseError(f"a split of the kind {value!r}, which this release does not know")
    return value


_INTERVAL: Final = Form(lambda interval: [interval.start, interval.end], lambda bounds: Interval(*bounds))
_TIMES: Final = form_of(dict[FileName, float], {})

SPLITS: Final = Columns(SplitInfo, "splits", {SplitKind: Form(str, _kind), Interval: _INTERVAL})
"""Closed splits: there are thousands of them."""

_FORMS: Final[Forms] = {
    Schema: Form(Schema.to_dict, _schema),
    StreamOptions: Form(StreamOptions.to_dict, _options),
    SeqSet: Form(SeqSet.to_list, SeqSet.from_list),
    Deletion: Form(Deletion.to_list, Deletion.from_list),
    Removed: Form(dict, lambda values: Removed(_TIMES.read(values))),
    tuple[SplitInfo, ...]: SPLITS,
    Mapping[str, SplitInfo]: keyed("name", SPLITS),
}


class ManifestLedger(Ledger[Manifest, Change]):
    """Manifests and changes as JSON values."""

    kind = "tidelog stream manifest"
    states = Record(Manifest, "a state", _FORMS, apart=("number",))
    changes = Record(Change, "a delta", _FORMS, sparse=True)

    def empty(self) -> Manifest:
        """The manifest before the first commit."""
        return Manifest()

    def apply(self, state: Manifest, change: Change, number: int, at: float) -> Manifest:
        """See :meth:`Manifest.changed`."""
        return state.changed(change, number, at)

    def detached(self, state: Manifest) -> Manifest:
        """The same manifest with mappings of its own."""
        return replace(state, splits=dict(state.splits), removed=Removed(state.removed))

    def advance(self, state: Manifest, change: Change, number: int, at: float) -> Manifest:
        """See :meth:`Manifest.changed`: thousands of splits are not copied for each of a thousand deltas."""
        return state.changed(change, number, at, in_place=True)
