"""Manifests and their changes as JSON values, as documents of a delta log have them; docs/format.md lists the members.

What is empty or absent is left out. What this release does not know is refused: a member that is ignored could mean
that rows are elsewhere, or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from tidelog.model.errors import InputError, NewerReleaseError, SchemaError, TimeError
from tidelog.model.evolution import Renames
from tidelog.model.schema import Schema
from tidelog.store.log.delta_log import Ledger
from tidelog.store.log.documents import refuse_unknown
from tidelog.store.log.file_names import check_plain_name
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet, Span
from tidelog.store.manifest.split_columns import from_columns, to_columns
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.manifest.values import Change, Deletion, Manifest, Removed

_CHANGE: Final = (
    "add",
    "remove",
    "condemn",
    "forget",
    "schema",
    "renames",
    "options",
    "deleted_before",
    "deleted_seen",
    "gone",
    "delete",
    "undelete",
    "next_seq",
    "tail_block",
    "transactions",
)
_STATE: Final = (
    "at",
    "schemas",
    "renames",
    "options",
    "splits",
    "deleted_before",
    "deleted_seen",
    "gone",
    "deletions",
    "next_seq",
    "tail_block",
    "tail_seq",
    "transactions",
    "removed",
)

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


def _pairs(values: Iterable[Iterable[str]]) -> Renames:
    return tuple((old, new) for old, new in values)


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(check_plain_name, values))


def _whole(value: int | None) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError(f"found {value!r:.80}; expected an integer")
    return value


def _span(values: Sequence[int] | None) -> Span | None:
    return None if values is None else (values[0], values[1])


class ManifestLedger(Ledger[Manifest, Change]):
    """Manifests and changes as JSON values."""

    kind = "tidelog stream manifest"

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

    def change_to_dict(self, change: Change) -> dict[str, Any]:
        """A change as JSON values."""
        values = {
            "add": [split.to_dict() for split in change.add],
            "remove": list(change.remove),
            "condemn": list(change.condemn),
            "forget": list(change.forget),
            "schema": None if change.schema is None else change.schema.to_dict(),
            "renames": [list(pair) for pair in change.renames],
            "options": None if change.options is None else change.options.to_dict(),
            "deleted_before": change.deleted_before,
            "gone": change.gone.to_list(),
            "delete": [deletion.to_list() for deletion in change.delete],
            "undelete": [deletion.to_list() for deletion in change.undelete],
            "next_seq": change.next_seq,
            "tail_block": None if change.tail_block is None else list(change.tail_block),
            "transactions": dict(change.transactions),
        }
        said = {name: value for name, value in values.items() if value not in (None, [], {})}
        if change.deleted_seen is not None:  # nothing seen is something else than nothing said
            said["deleted_seen"] = change.deleted_seen.to_list()
        return said

    def change_from_dict(self, values: dict[str, Any]) -> Change:
        """The change that :meth:`change_to_dict` described."""
        refuse_unknown("a delta", values, _CHANGE)
        schema, options, seen = values.get("schema"), values.get("options"), values.get("deleted_seen")
        return Change(
            add=tuple(map(SplitInfo.from_dict, values.get("add", ()))),
            remove=_names(values.get("remove", ())),
            condemn=_names(values.get("condemn", ())),
            forget=_names(values.get("forget", ())),
            schema=None if schema is None else _schema(schema),
            renames=_pairs(values.get("renames", ())),
            options=None if options is None else _options(options),
            deleted_before=_whole(values.get("deleted_before")),
            deleted_seen=None if seen is None else SeqSet.from_list(seen),
            gone=SeqSet.from_list(values.get("gone", [])),
            delete=tuple(map(Deletion.from_list, values.get("delete", ()))),
            undelete=tuple(map(Deletion.from_list, values.get("undelete", ()))),
            next_seq=_whole(values.get("next_seq")),
            tail_block=_span(values.get("tail_block")),
            transactions=values.get("transactions", {}),
        )

    def state_to_dict(self, state: Manifest) -> dict[str, Any]:
        """A manifest, but for its number, as JSON values."""
        return {
            "at": state.at,
            "schemas": [schema.to_dict() for schema in state.schemas],
            "renames": [[list(pair) for pair in step] for step in state.renames],
            "options": state.options.to_dict(),
            "splits": to_columns(state.splits.values()),
            "deleted_before": state.deleted_before,
            "deleted_seen": state.deleted_seen.to_list(),
            "gone": state.gone.to_list(),
            "deletions": [deletion.to_list() for deletion in state.deletions],
            "next_seq": state.next_seq,
            "tail_block": None if state.tail_block is None else list(state.tail_block),
            "tail_seq": state.tail_seq,
            "transactions": dict(state.transactions),
            "removed": dict(state.removed),
        }

    def state_from_dict(self, values: dict[str, Any], number: int) -> Manifest:
        """The manifest that :meth:`state_to_dict` described."""
        refuse_unknown("a state", values, _STATE)
        splits = values["splits"]
        # Until format 2 of documents it was a list of objects.
        infos = from_columns(splits) if isinstance(splits, Mapping) else map(SplitInfo.from_dict, splits)
        return Manifest(
            number=number,
            at=values["at"],
            schemas=tuple(map(_schema, values["schemas"])),
            # What was written before columns could be renamed does not mention it.
            renames=tuple(map(_pairs, values.get("renames", [[]] * (len(values["schemas"]) - 1)))),
            options=_options(values["options"]),
            splits={info.name: info for info in infos},
            deleted_before=_whole(values["deleted_before"]),
            deleted_seen=SeqSet.from_list(values.get("deleted_seen", [])),
            gone=SeqSet.from_list(values.get("gone", [])),
            deletions=tuple(map(Deletion.from_list, values["deletions"])),
            next_seq=values["next_seq"],
            tail_block=_span(values.get("tail_block")),
            tail_seq=values.get("tail_seq", 0),
            transactions=values["transactions"],
            removed=Removed(zip(_names(values["removed"]), values["removed"].values(), strict=True)),
        )
