"""The streams of a store: ``alter``, ``configure``, ``streams``, ``stats``, ``check``, ``drop`` and ``rename``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import typer

import tidelog
from tidelog.cli.saying import say
from tidelog.cli.streamoptions import option_text
from tidelog.cli.writing.table import Column, print_table
from tidelog.engine.altering import CHANGEABLE
from tidelog.model.types import type_name

NO_STREAMS: Final = "the store has no streams yet; `tidelog ingest` makes them of files"


def streams(store_path: Path, *, details: bool, as_json: bool) -> None:
    """Print the names of all streams, or their schemas."""
    with tidelog.open(store_path, read_only=True) as store:
        names = store.streams()
        schemas = {name: store.stream(name).schema for name in names} if details or as_json else {}
    if as_json:
        _print_json({name: schema.to_dict() for name, schema in schemas.items()})
    elif details:
        rows = [
            (name, field.name, type_name(field.type), "time" if field.name == schema.time else _nullability(field))
            for name, schema in schemas.items()
            for field in schema
        ]
        _print_rows(("stream", "column", "type", ""), rows)
    else:
        for name in names:
            say(name)
    if not names and not as_json:
        say(NO_STREAMS, err=True)


def stats(store_path: Path, stream: str | None, *, columns: bool, as_json: bool) -> None:
    """Print what streams consist of: all, or one; with what is known of the ``columns`` of each split."""
    with tidelog.open(store_path, read_only=True) as store:
        found = {name: store.stream(name).stats() for name in (store.streams() if stream is None else [stream])}
    if as_json:
        _print_json(found if stream is None else found[stream])
        return
    if not found:
        say(NO_STREAMS, err=True)
    for index, values in enumerate(found.values()):
        if not columns:
            values.pop("statistics", None)
        if index:
            say()
        _print_facts(values)


def alter(
    store_path: Path,
    stream: str,
    *,
    add: Mapping[str, pa.DataType],
    widen: Mapping[str, pa.DataType],
    rename: Mapping[str, str],
    loosen: Sequence[str],
) -> None:
    """Change the columns of a stream, and print what they are now."""
    with existing(store_path, read_only=False) as store:
        schema = store.stream(stream).evolve(add=add, widen=widen, rename=rename, loosen=loosen)
    columns = (f"{field.name} {type_name(field.type)}" for field in schema)
    say(f"{stream!r} has the columns {', '.join(columns)}")


def configure(store_path: Path, stream: str, options: Mapping[str, str | None]) -> None:
    """Change how long what is kept of a stream, and print what holds now."""
    with existing(store_path, read_only=False) as store:
        found = store.stream(stream)
        found.configure(**options)
        values = {name: getattr(found.options, name) for name in CHANGEABLE}
    say(f"{stream!r} has {', '.join(f'{name} {option_text(value)}' for name, value in values.items())}")


def check(store_path: Path, *, orphans: bool, remove: bool, age: str) -> bool:
    """Print everything that is wrong; True if nothing is. Orphans are told and removed, and are no fault."""
    with existing(store_path, read_only=not remove) as store:
        findings = store.check()
        names = store.streams()
        removed = store.remove_orphans(age) if remove else []
        left_over = store.orphans() if orphans else []
    for finding in findings:
        say(str(finding))
    for word, files in (("removed", removed), ("orphan", left_over)):
        for file in files:
            say(f"{word}: {file}")
    if findings:
        say(f"{len(findings)} found", err=True)
    else:
        say(f"{len(names)} {'stream' if len(names) == 1 else 'streams'} checked, nothing is wrong")
    return not findings


def drop(store_path: Path, stream: str, *, is_sure: bool) -> None:
    """Delete a stream, after a question unless ``is_sure``."""
    with existing(store_path) as store:
        grace = store.stream(stream).options.grace  # also: a name that does not exist should not be asked about
        if not is_sure:
            typer.confirm(f"delete stream {stream!r} of {store_path} with all its events?", abort=True)
        store.drop_stream(stream)
    say(f"dropped {stream!r}; the first `tidelog maintain` in {option_text(grace)} or later removes its files")


def rename(store_path: Path, old: str, new: str) -> None:
    """Give a stream another name."""
    with existing(store_path) as store:
        store.rename_stream(old, new)
    say(f"renamed {old!r} to {new!r}")


def existing(store_path: Path, *, read_only: bool = False) -> Any:
    """A store that is there; opening for writing would create one, which nobody wants who has mistyped a path."""
    if not read_only:
        tidelog.open(store_path, read_only=True).close()
    return tidelog.open(store_path, read_only=read_only)


def _nullability(field: Any) -> str:
    return "" if field.nullable else "not null"


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(_finite(value), ensure_ascii=False, indent=2))


def _finite(value: Any) -> Any:
    """Values without NaN and infinities, which JSON does not have: null stands for them."""
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_facts(values: Mapping[str, Any]) -> None:
    """Plain values as a table of two columns, each list of mappings as a table of its own."""
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping | list)}
    _print_pairs(plain)
    for name, value in values.items():
        if isinstance(value, Mapping):
            say(f"\n{_words(name)}")
            _print_pairs(value)
        elif isinstance(value, list) and value:
            say(f"\n{_words(name)}")
            keys = list(dict.fromkeys(key for each in value for key in each))
            columns = [
                Column(
                    _words(key),
                    [_shown(each.get(key)) for each in value],
                    is_number=all(isinstance(each.get(key), int | float | None) for each in value),
                )
                for key in keys
            ]
            print_table(columns)


def _print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table([Column(name, [row[index] for row in rows]) for index, name in enumerate(header)])


def _print_pairs(values: Mapping[str, Any]) -> None:
    names, texts = [_words(name) for name in values], [_shown(value) for value in values.values()]
    print_table([Column("", names), Column("", texts)], header=False)


def _words(name: str) -> str:
    return str(name).replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
