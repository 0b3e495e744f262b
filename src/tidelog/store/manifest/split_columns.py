"""Thousands of closed splits as JSON: a list for each thing that is known of them, not an object for each split.

Checkpoints of manifests have them so. What all splits have in common is said once, and lists of numbers and two long
texts are read in a tenth of the time that as many objects take. The members are in docs/format.md.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidelog.model.errors import InputError
from tidelog.model.times.interval import Interval
from tidelog.store.log.documents import refuse_unknown
from tidelog.store.manifest.split_info import SplitInfo, SplitStatistics, check_kind

_PLAIN: Final = ("name", "rows", "bytes", "time_min", "time_max", "seq_min", "seq_max", "kind", "created_at")
"""A value for each split."""
_MAYBE: Final[dict[str, Any]] = {"seq_base": 0, "clean_at": 0, "dead_bytes": 0, "schema": 0, "states": ""}
"""The same, but left out if all splits have this value."""
_BYTES: Final = ("root", "entry")
"""The bytes of all splits one behind the other in Base64, and how many each one has."""
_OBJECTS: Final = ("boundary", "sampled", "correlation")
"""A value, or null, for each split; left out if all are null. The last two are its statistics."""


def to_columns(splits: Iterable[SplitInfo]) -> dict[str, Any]:
    """Splits as JSON values."""
    infos = list(splits)
    columns: dict[str, Any] = {name: [getattr(info, name) for info in infos] for name in _PLAIN}
    for name, usual in _MAYBE.items():
        values = [getattr(info, name) for info in infos]
        if any(value != usual for value in values):
            columns[name] = values
    for name in _BYTES:
        contents = [getattr(info, name) for info in infos]
        text = base64.b64encode(b"".join(contents)).decode("ascii")
        columns[name] = {"sizes": [len(content) for content in contents], "bytes": text}
    bounds = [info.boundary for info in infos]
    if any(each is not None for each in bounds):
        columns["boundary"] = [None if each is None else (each.start, each.end) for each in bounds]
    known = [info.statistics for info in infos]
    if any(each is not None for each in known):
        columns["sampled"] = [None if each is None else each.sampled for each in known]
        columns["correlation"] = [None if each is None else each.correlation for each in known]
    return columns


def from_columns(columns: Mapping[str, Any]) -> Iterator[SplitInfo]:
    """The splits that :func:`to_columns` described.

    Raises :class:`NewerReleaseError` for what this release does not know, :class:`InputError` or :class:`KeyError` for
    what cannot be.
    """
    refuse_unknown("splits", columns, (*_PLAIN, *_MAYBE, *_BYTES, *_OBJECTS))
    count = len(columns["name"])
    for kind in set(columns["kind"]):
        check_kind(kind)
    plain = [columns[name] for name in _PLAIN]
    maybe = [columns.get(name, itertools.repeat(usual, count)) for name, usual in _MAYBE.items()]
    contents = [_pieces(columns[name]) for name in _BYTES]
    objects = [columns.get(name, itertools.repeat(None, count)) for name in _OBJECTS]
    # Spelled out, because a mapping for each of thousands of splits takes as long as the split itself.
    for (
        name, rows, size, time_min, time_max, seq_min, seq_max, kind, created_at,
        seq_base, clean_at, dead_bytes, schema, states, root, entry, boundary, sampled, correlation,
    ) in zip(*plain, *maybe, *contents, *objects, strict=True):  # fmt: skip
        yield SplitInfo(
            name=name,
            rows=rows,
            bytes=size,
            time_min=time_min,
            time_max=time_max,
            seq_min=seq_min,
            seq_max=seq_max,
            seq_base=seq_base,
            kind=kind,
            boundary=None if boundary is None else Interval(*boundary),
            root=root,
            entry=entry,
            states=states,
            created_at=created_at,
            clean_at=clean_at,
            dead_bytes=dead_bytes,
            schema=schema,
            statistics=None if sampled is None else SplitStatistics(sampled, tuple(correlation)),
        )


def _pieces(column: Mapping[str, Any]) -> Sequence[bytes]:
    """The bytes of each split."""
    whole = base64.b64decode(column["bytes"])
    ends = list(itertools.accumulate(column["sizes"], initial=0))
    if ends[-1] != len(whole):
        raise InputError(f"found {len(whole)} bytes for splits that have {ends[-1]}; expected as many")
    return [whole[start:end] for start, end in itertools.pairwise(ends)]
