"""Options of streams as the command line says them: ``--option split=1d``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.model.errors import InputError, did_you_mean
from tidelog.store.manifest.options import StreamOptions

_DEFAULTS: Final = {field.name: getattr(StreamOptions(), field.name) for field in dataclasses.fields(StreamOptions)}


def parsed_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options as ``name=value``; those that are lists may be repeated. Raises :class:`TidelogError` for others."""
    options: dict[str, Any] = {}
    for text in texts:
        given, equals, value = text.partition("=")
        name = given.strip().replace("-", "_")
        if not equals or not name:
            raise InputError(f"found {text!r}; expected NAME=VALUE, such as split=1d")
        if name not in _DEFAULTS:
            raise InputError(f"there is no option {given!r}; {did_you_mean(name, _DEFAULTS)}")
        read = _value(name, value.strip())
        if name in options and not isinstance(read, list):
            raise InputError(f"found option {name!r} twice; name it once")
        options[name] = [*options[name], *read] if name in options and isinstance(read, list) else read
    StreamOptions.from_dict(options)  # what cannot be is refused before anything is read
    return options


def refuse_other_options(stream: str, given: Mapping[str, Any], has: StreamOptions) -> None:
    """Raise :class:`InputError` for options that a stream has other values of."""
    wanted = StreamOptions.from_dict(given)
    for name in given:
        if getattr(wanted, name) != getattr(has, name):
            raise InputError(
                f"stream {stream!r} exists and has {name}={option_text(getattr(has, name))}, not "
                f"{option_text(getattr(wanted, name))}; leave out --option {name}, or name another stream. `tidelog "
                "configure` changes how long what is kept"
            )


def option_text(value: Any) -> str:
    """The value of an option as people write it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else f"{value:g}s" if isinstance(value, float) else str(value)


def _value(name: str, text: str) -> Any:
    if name == "user_aggregates":
        return [text]
    if name == "aggregates":
        return "all" if text == "all" else [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(_DEFAULTS[name], int):
        try:
            return int(text.replace("_", "").replace(",", ""))
        except ValueError:
            raise InputError(f"option {name}: found {text!r}; expected a whole number") from None
    if name == "grace":
        try:
            return float(text)
        except ValueError:
            return text
    return None if text == "none" else text
