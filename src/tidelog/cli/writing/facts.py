"""Facts about streams, as tables or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import typer

from tidelog.cli.telling.saying import say
from tidelog.cli.writing.table import Column, print_table


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(_finite(value), ensure_ascii=False, indent=2))


def _finite(value: Any) -> Any:
    """Values without NaN and infinities, which JSON does not have: null stands for them."""
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_facts(values: Mapping[str, Any]) -> None:
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
