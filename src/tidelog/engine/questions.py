"""What users ask of a stream, read and checked: texts of aggregates and conditions, names of columns, moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from tidelog.aggregates import find
from tidelog.aggregates.binding import revision
from tidelog.expr import Predicate, parse_aggregate, predicate
from tidelog.index.layout import Layout
from tidelog.model.arguments import flag, found, instance, several
from tidelog.model.arguments import names as listed_names
from tidelog.model.errors import InputError, NotFoundError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.model.times.instants import shown
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.aggregation import Question
from tidelog.store.read.snapshot import Snapshot

_KNOWN_TEXTS: Final = 256
_CALLS: Final = "a text such as 'avg(price)', or a list of them"
_LONGEST_KNOWN: Final = 1 << 16
"""How many texts are kept with what they mean, and how many characters of each at the most."""

Moment: TypeAlias = Snapshot | SeqSet | int | None
"""What ``as_of`` may be: a snapshot, a sequence number that only smaller ones count before, a set of them, or now."""


class Questions:
    """What texts mean for a layout. The same are asked again and again, and reading takes longest."""

    def __init__(self, layout: Layout, options: StreamOptions) -> None:
        self.layout = layout
        self._bindings = options.user_aggregates
        self._question = lru_cache(_KNOWN_TEXTS)(self._read_question)
        self._condition = lru_cache(_KNOWN_TEXTS)(self._read_condition)

    def question(self, texts: tuple[str, ...]) -> Question:
        """Aggregates, given by their texts."""
        return self._question(texts, revision())

    def condition(self, where: str | None) -> Predicate | None:
        """A condition, if one is given that is not true of every row anyway."""
        if where is None:
            return None
        if not isinstance(where, str):
            raise found("where", where, "a SQL condition as text, such as 'price > 10'")
        # Texts of any length are keys of the cache: those with long lists would fill the memory.
        is_short = len(where) <= _LONGEST_KNOWN
        return self._condition(where) if is_short else self._read_condition(where)

    def _read_condition(self, where: str) -> Predicate | None:
        condition = predicate(where, self.layout.stored)
        return None if condition.is_always else condition

    def _read_question(self, texts: tuple[str, ...], _: int) -> Question:
        """What texts mean with the code that is registered at a revision."""
        stored, time = self.layout.stored, self.layout.schema.time
        absent = {each.id.rpartition(":")[2]: each.id for each in self._bindings if find(each.id) is None}
        return Question(self.layout, [parse_aggregate(text, stored, time, absent) for text in texts])


def texts_of(aggregates: Sequence[str] | str) -> tuple[str, ...]:
    """The texts of one or several aggregates. Raises :class:`InputError` for what is neither."""
    if isinstance(aggregates, str):
        return (aggregates,)
    texts = tuple(aggregates if isinstance(aggregates, list | tuple) else several("aggregates", aggregates, _CALLS))
    for text in texts:
        if not isinstance(text, str):
            raise found("an aggregate", text, "a text such as 'avg(price)'")
    return texts


def range_asked(
    asked: tuple[Any, ...], start: Any, end: Any, aggregates: Any, where: str | None
) -> tuple[Any, Any, tuple[str, ...], str | None]:
    """Start, end, aggregates and condition of a question, given in order, by name, or partly so.

    In order are the aggregates alone, or start, end, aggregates and a condition.
    """
    if len(asked) == 3 and start is end is aggregates is None:
        return asked[0], asked[1], texts_of(asked[2]), where
    names = ("aggregates",) if len(asked) == 1 else ("start", "end", "aggregates", "where")
    named = {"start": start, "end": end, "aggregates": aggregates, "where": where}
    if len(asked) > len(names):
        raise InputError(f"found {len(asked)} arguments without a name; expected at most {', '.join(names)}")
    for name, value in zip(names, asked, strict=False):
        if named[name] is not None:
            raise InputError(f"found {name} twice, as {shown(value)} and as {shown(named[name])}; give it once")
        named[name] = value
    if named["aggregates"] is None:
        given = ", ".join(map(shown, asked)) or "nothing"
        raise InputError(
            f"found {given} and no aggregates; expected them alone, such as aggregate(['count(*)']), or behind start "
            "and end, such as aggregate('2026-01-01', None, ['count(*)'])"
        )
    return named["start"], named["end"], texts_of(named["aggregates"]), named["where"]


def pairs_of(intervals: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Time ranges, each a pair of start and end. Raises :class:`InputError` for what is none."""
    expected = "pairs of start and end such as [('2026-01-01', '2026-02-01'), ('2026-02-01', None)]"
    pairs = []
    for each in several("intervals", intervals, expected):
        if isinstance(each, str | bytes | Mapping) or not isinstance(each, Iterable) or len(pair := tuple(each)) != 2:
            raise found("a time range", each, expected)
        pairs.append(pair)
    return pairs


def column_names(columns: Sequence[str] | None, seq: bool, schema: Schema, stream: str) -> list[str]:
    """The columns that were asked for, all if None, and ``_seq`` if wanted.

    Raises :class:`NotFoundError` for those that the stream does not have, :class:`InputError` if one comes twice.
    """
    names = list(schema.names) if columns is None else listed_names("columns", columns)
    if flag("seq", seq) and SEQUENCE_COLUMN not in names:
        names.append(SEQUENCE_COLUMN)
    known = (*schema.names, SEQUENCE_COLUMN)
    for index, name in enumerate(names):
        if name not in known:
            raise NotFoundError(f"no column {name!r} in stream {stream!r}; {did_you_mean(name, known)}")
        if name in names[:index]:
            raise InputError(f"column {name!r} was asked for twice; name it once")
    return names


def moment(as_of: Moment, now: Callable[[], Snapshot]) -> tuple[Snapshot, SeqSet | None]:
    """The snapshot to look at, and the sequence numbers that count, if not all do."""
    if as_of is None:
        return now(), None
    if isinstance(as_of, Snapshot):
        return as_of, None
    if isinstance(as_of, SeqSet):
        return now(), as_of
    if isinstance(as_of, bool) or not isinstance(as_of, int) or as_of < 0:
        raise found("as_of", as_of, "a snapshot, a sequence number from 0, or a set of them")
    return now(), SeqSet.below(as_of)


def frozen(as_of: Snapshot | None, now: Callable[[], Snapshot]) -> Snapshot:
    """The snapshot to look at, where numbers cannot say which."""
    return now() if as_of is None else instance("as_of", as_of, Snapshot, "a snapshot, or None for now")
