"""What changes of a manifest when options change, aggregates are attached or detached, or the schema evolves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.model.arguments import several as members
from tidelog.model.errors import InputError, NotFoundError, SchemaError, did_you_mean
from tidelog.model.evolution import Renames, check_evolution, evolved
from tidelog.model.schema import Schema
from tidelog.store.manifest.manifest import Change, Manifest
from tidelog.store.manifest.options import read_bindings

CHANGEABLE: Final = ("retention", "coarse_after", "coarse_grain", "grace")
"""Options that say how long what is kept; all that look after a stream look them up each time."""


def configuration(options: Mapping[str, Any], manifest: Manifest) -> Change | None:
    """Options have other values from now on; None if they have them already.

    Raises :class:`InputError` for options that cannot change, and :class:`TimeError` for values that are none.
    """
    for name in options:
        if name in CHANGEABLE:
            continue
        if name in {each.name for each in fields(manifest.options)}:
            raise InputError(
                f"the option {name!r} is fixed when a stream is created; {', '.join(CHANGEABLE)} can be changed"
            )
        raise InputError(f"there is no option {name!r}; {did_you_mean(name, CHANGEABLE)}")
    changed = manifest.options.replace(**options)
    return None if changed == manifest.options else Change(options=changed)


def several(aggregates: str | Binding | Sequence[str | Binding]) -> list[str | Binding]:
    """One or several aggregates as a list. Raises :class:`InputError` for what is neither."""
    if isinstance(aggregates, str | Binding):
        return [aggregates]
    calls: list[str | Binding] = members("aggregates", aggregates, "a call such as 'last(price)', or a list of them")
    return calls


def attachment(bindings: Sequence[Binding], manifest: Manifest) -> Change | None:
    """Aggregates are kept from now on; None if all of them are already."""
    known = manifest.options.user_aggregates
    new = tuple(each for each in bindings if each not in known)
    return Change(options=manifest.options.replace(user_aggregates=(*known, *new))) if new else None


def detachment(aggregates: Sequence[str | Binding], stream: str, manifest: Manifest) -> Change:
    """Aggregates, given by the names they have or by calls, are not kept any more.

    Raises :class:`NotFoundError` for one that is not kept.
    """
    kept = list(manifest.options.user_aggregates)
    for each in aggregates:
        names = [binding.name for binding in kept]
        if isinstance(each, str) and each in names:
            del kept[names.index(each)]
            continue
        (binding,) = read_bindings([each])
        if binding not in kept:
            raise NotFoundError(f"stream {stream!r} keeps no {binding.name}; {did_you_mean(binding.name, names)}")
        kept.remove(binding)
    return Change(options=manifest.options.replace(user_aggregates=tuple(kept)))


def evolution(schema: Schema, renames: Renames, manifest: Manifest) -> Change:
    """The schema changes, and with it options that name columns; those attached just now too."""
    return Change(schema=schema, renames=renames, options=manifest.options.with_renamed(dict(renames)))


def next_version(current: Schema, name: str, leader: Manifest) -> tuple[Schema, Renames]:
    """What follows on the schema of stream ``name`` in the history of another one, and which columns it renames.

    The last version has itself. Raises :class:`SchemaError` if the schema is none of the other one's.
    """
    refuse_strange(current, name, leader.schemas)
    at = max(place for place, version in enumerate(leader.schemas) if version == current)
    return (current, ()) if at == len(leader.renames) else (leader.schemas[at + 1], leader.renames[at])


def refuse_strange(current: Schema, name: str, versions: Sequence[Schema]) -> None:
    """Raise :class:`SchemaError` unless the schema of stream ``name``, which follows another one, is one of these."""
    if current not in versions:
        raise SchemaError(
            f"stream {name!r}, which takes the events that are too late, has the columns {', '.join(current.names)}, "
            f"which are not those of any version of the stream it belongs to, now {', '.join(versions[-1].names)}; "
            "change it likewise, or rename it, and another one is made"
        )


def wanted_schema(current: Schema, whole: pa.Schema | Schema | None, **changes: Any) -> tuple[Schema, Renames]:
    """The schema that is wanted, given as a whole or by changes of the current one, and which columns it renames.

    Raises :class:`SchemaError` for what events from before cannot be read through.
    """
    if whole is None:
        return evolved(current, **changes)
    if any(changes.values()):
        raise SchemaError("found a whole schema and changes of the one there is; give one of them")
    wanted = whole if isinstance(whole, Schema) else Schema(whole, current.time)
    check_evolution(current, wanted)
    return wanted, ()
