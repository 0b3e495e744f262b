"""Options of the source and of the sink: read from Spark's texts, checked before any job is started.

Spark hands options over as texts and in lower case. Names count without regard to case and underscores, so that
``as_of``, ``asOf`` and ``ASOF`` are one option.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, TypeAlias, get_args
from urllib.parse import unquote, urlparse

from tidelog.model.arguments import found
from tidelog.model.errors import InputError, did_you_mean
from tidelog.model.times.clock import INT64_MAX
from tidelog.spark.datasource.types import NS_RULES, NsRule

NAME: Final = "tidelog"
"""What the source and the sink are called in ``format(...)`` and ``USING``."""

StartingOffset: TypeAlias = Literal["earliest", "latest"] | str
"""Where a stream starts: at all rows that are there, at none of them, or at those of a time."""

OutsideRule: TypeAlias = Literal["refuse", "append"]
"""What becomes of rows that are outside of the range that is overwritten."""

_TABLES: Final = (
    "Spark does not hand their options on to sources in Python. Use CREATE TEMPORARY VIEW name USING tidelog OPTIONS "
    "(path '...', stream '...'), and save(path) or start(path) instead of saveAsTable, writeTo or toTable"
)

_TICKS: Final = re.compile(r"[+-]?\d+")
_ADDED_BY_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""What streaming queries say to a sink besides its own options."""

_TRUE, _FALSE = frozenset({"true", "yes", "1", "on"}), frozenset({"false", "no", "0", "off"})


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What to read. Raises :class:`InputError` that names the option."""

    path: str
    """The directory of the store, on a disk that the driver and all workers see."""
    stream: str
    """The name of a stream, or a pattern with ``*`` for the names of many."""
    start: str | None = None
    """Event times from here on; ticks, or ISO 8601."""
    end: str | None = None
    """Event times before this."""
    where: str | None = None
    """A SQL condition over the stored columns, evaluated by the store."""
    columns: tuple[str, ...] | None = None
    """Only these columns, in this order; without any, rows are only counted."""
    as_of: str | None = None
    """A number: only rows that arrived before it count. Or a set of numbers, as JSON."""
    partition_size: int | None = None
    """Rows that one task reads, about."""
    seq: bool = False
    """Whether there is a column ``_seq``, the number of each row in the order of arrival."""
    ns: NsRule = "error"
    """What becomes of nanoseconds; see :data:`tidelog.spark.datasource.types.NS_RULES`."""
    push_filters: bool = False
    """Whether the store sees to filters that Spark offers; see :class:`tidelog.spark.datasource.source.FilteringReader`
    first."""
    stream_column: str | None = None
    """Of many streams, the column with the name of each row's; see :mod:`tidelog.spark.datasource.many_source`."""
    starting_offset: StartingOffset = "earliest"
    max_rows_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    fail_on_data_loss: bool = True
    """Whether a query stops when rows that it has not read yet were deleted."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """The options of a source from what Spark hands over."""
        return cls(**_values(cls, options, "the source", _SOURCE_READERS))


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Where and how to write. Raises :class:`InputError` that names the option."""

    path: str
    stream: str = ""
    stream_column: str | None = None
    """Instead of a stream: the column with the name of each row's; see :mod:`tidelog.spark.datasource.many_sink`."""
    time: str | None = None
    """The time column of a stream that is created; if the stream exists, it must be its time column."""
    create: bool = True
    """Whether a stream that does not exist is created; that needs ``time``."""
    overwrite_start: str | None = None
    """With mode ``overwrite``: events from this time on are replaced."""
    overwrite_end: str | None = None
    """With mode ``overwrite``: events before this time are replaced."""
    outside: OutsideRule | None = None
    """With mode ``overwrite``: what becomes of rows outside of the range; they are refused unless it is said."""
    transaction: str | None = None
    """The name of a producer whose jobs are numbered, so that one that is run again does not write twice."""
    transaction_number: int | None = None
    """The number of this job; one that is not above the last that was committed under the name writes nothing."""
    compact: bool = True
    """Whether the driver merges small splits after a commit that leaves many of them."""

    def __post_init__(self) -> None:
        if (self.stream_column is None) == (not self.stream):
            raise InputError(
                f"found stream {self.stream!r} with stream_column {self.stream_column!r}; expected one of them: a "
                "name, or a column that has names"
            )
        if (self.transaction is None) != (self.transaction_number is None):
            raise InputError(
                f"found transaction {self.transaction!r} with transaction_number {self.transaction_number}; expected "
                "both, a name and a number that rises from job to job, or neither"
            )

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """The options of a sink from what Spark hands over."""
        return cls(**_values(cls, options, "the sink", _SINK_READERS))

    @property
    def job(self) -> tuple[str, int] | None:
        """The name under which manifests keep the last job of the producer, and the number of this one."""
        if self.transaction is None or self.transaction_number is None:
            return None
        return f"job/{self.transaction}", self.transaction_number

    def check_mode(self, overwrite: bool) -> None:
        """Raise if something about overwriting was given to a write that only appends."""
        names = ("overwrite_start", "overwrite_end", "outside")
        given = [name for name in names if getattr(self, name) is not None]
        if given and not overwrite:
            raise InputError(
                f"option {given[0]!r} was given, but the mode is append; write with mode('overwrite') to replace events"
            )


def as_time(text: str | None) -> str | int | None:
    """A point in time as an option tells it: a whole number is ticks of the stream's clock, anything else ISO text."""
    return int(text) if text is not None and _TICKS.fullmatch(text.strip()) else text


def shared_path(path: str | os.PathLike[str], *, is_remote: bool) -> str:
    """The path of a store as all processes of Spark will understand it, none of which need be in our directory.

    Raises :class:`InputError` for a relative one with a remote server: see :func:`absolute`.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise found("a store", path, "the path of a directory, as text or pathlib.Path")
    if "://" in text or text.startswith("file:"):
        return text
    here = os.path.abspath(os.path.expanduser(text))
    if is_remote and not os.path.isabs(text):
        raise InputError(f"{_relative(text)}, such as {here} if the server is on this machine")
    return here


def absolute(text: str) -> str:
    """A path, found by a process of Spark, as all others will understand it.

    In sessions of Spark Connect such a process is in a directory of the session's own, which is removed with it: a
    store would be made there, and be gone. So relative paths raise :class:`InputError` in these.
    """
    own = os.environ.get("SPARK_JOB_ARTIFACT_UUID", "default")
    if not os.path.isabs(text) and own != "default" and own in os.getcwd().split(os.sep):
        raise InputError(f"{_relative(text)} on the server's machine")
    return os.path.abspath(os.path.expanduser(text))


def _relative(text: str) -> str:
    return (
        f"the path {text!r} is relative, and processes of a Spark Connect server are in a directory that is removed "
        "with the session; expected an absolute path"
    )


def option_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Python values as the texts that options are; those that are None are left out."""
    texts: dict[str, str] = {}
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif isinstance(value, list | tuple):
            texts[name] = json.dumps(list(value))
        elif hasattr(value, "isoformat"):
            texts[name] = value.isoformat()
        else:
            texts[name] = str(value)
    return texts


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _values(
    cls: type[Any], options: Mapping[str, str], what: str, readers: Mapping[str, Callable[[str, str], Any]]
) -> dict[str, Any]:
    """The values of a class of options."""
    known = {_folded(field.name): field.name for field in fields(cls)}
    if "option.stream" in options or "provider" in options:
        raise InputError(f"tables in Spark's catalogue cannot stand for streams: {_TABLES}")
    if not options:
        raise InputError(
            f"{what} was told nothing, as happens with tables in Spark's catalogue: {_TABLES}. Such a table can be "
            "used if every query says it again: SELECT ... FROM name WITH (path = '...', stream = '...'), or "
            "spark.read.options(path=..., stream=...).table(name). What was written when it was made is in its stream"
        )
    if "paths" in options:
        raise InputError(f"{what} takes one path, found {options['paths']}; read the stores one by one, and unite them")
    found: dict[str, Any] = {}
    for name, text in options.items():
        folded = _folded(name)
        if folded in _ADDED_BY_SPARK:
            continue
        if folded not in known:
            raise InputError(f"{what} has no option {name!r}; {did_you_mean(name, known.values())}")
        own = known[folded]
        if own in found:
            raise InputError(f"option {own!r} was given twice, in two spellings; give it once")
        found[own] = readers.get(own, _text)(own, text)
    for name, hint in (("path", "the directory of the store, e.g. load('/data/events')"), ("stream", "its name")):
        if name not in found and not (name == "stream" and cls is SinkOptions and "stream_column" in found):
            raise InputError(f"{what} was not told the {name}; expected option {name!r}, {hint}")
    return found


def _text(name: str, text: str) -> str:
    if not text:
        raise InputError(f"option {name!r} is empty; leave it out, or give it a value")
    return text


def _path(name: str, text: str) -> str:
    """A directory; Spark turns paths into ``file:`` addresses here and there."""
    address = urlparse(_text(name, text))
    if address.scheme == "file":
        return unquote(address.path)
    if address.scheme and "://" in text:
        raise InputError(f"option {name!r} is {text!r}; expected a directory on a disk, not an address")
    return absolute(text)


def _flag(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise InputError(f"option {name!r} is {text!r}; expected true or false")
    return word in _TRUE


def _positive(name: str, text: str) -> int:
    try:
        number = int(text.strip().replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise InputError(f"option {name!r} is {text!r}; expected a whole number from 1 on")
    return number


def _number(name: str, text: str) -> int:
    try:
        number = int(text.strip().replace("_", ""))
    except ValueError:
        number = -1
    if not 0 <= number <= INT64_MAX:
        raise InputError(f"option {name!r} is {text!r}; expected a whole number from 0 on")
    return number


def _names(name: str, text: str) -> tuple[str, ...]:
    """Names with commas between them, or a JSON list, which may hold any names."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(f"option {name!r} is {text!r}, which is no JSON list: {error}") from None
    else:
        found = [part.strip() for part in text.split(",")]
    if not found or not all(isinstance(each, str) and each for each in found):
        raise InputError(
            f"""option {name!r} is {text!r}; expected names such as a, b or a JSON list such as ["a", "b"]"""
        )
    return tuple(found)


def _columns(name: str, text: str) -> tuple[str, ...]:
    """Names, or none at all: an empty JSON list."""
    return () if "".join(text.split()) == "[]" else _names(name, text)


def _choice(choices: Iterable[str]) -> Callable[[str, str], str]:
    known = tuple(choices)

    def read(name: str, text: str) -> str:
        word = text.strip().lower()
        if word not in known:
            raise InputError(f"option {name!r} is {text!r}; expected one of {', '.join(map(repr, known))}")
        return word

    return read


def _as_of(name: str, text: str) -> str:
    """Checked for its form only: what it means is the store's business."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | list) or (isinstance(value, int) and value < 0):
        raise InputError(
            f"option {name!r} is {text!r}; expected a sequence number from 0, or a set of them such as [[0, 100]]"
        )
    return text


def _starting_offset(name: str, text: str) -> StartingOffset:
    word = _text(name, text).strip()
    return word.lower() if word.lower() in ("earliest", "latest") else word


_SOURCE_READERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "path": _path,
    "columns": _columns,
    "as_of": _as_of,
    "partition_size": _positive,
    "seq": _flag,
    "ns": _choice(NS_RULES),
    "push_filters": _flag,
    "starting_offset": _starting_offset,
    "max_rows_per_batch": _positive,
    "max_bytes_per_batch": _positive,
    "fail_on_data_loss": _flag,
}

_SINK_READERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "path": _path,
    "create": _flag,
    "outside": _choice(get_args(OutsideRule)),
    "compact": _flag,
    "transaction_number": _number,
}
