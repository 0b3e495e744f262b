"""What DuckDB says of single calls: the types of their results, and the values of constants."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pyarrow as pa

from tidelog.expr.database.connection import connection
from tidelog.expr.errors import EvaluationError, ExpressionError, UnsupportedError
from tidelog.expr.values.types import PLAIN, TIMESTAMPTZ, sql_name
from tidelog.model.errors import did_you_mean

UNITS = {
    alias: unit
    for unit, aliases in {
        "microsecond": ("microseconds", "us", "usec", "usecs", "usecond", "useconds"),
        "millisecond": ("milliseconds", "ms", "msec", "msecs", "msecond", "mseconds"),
        "second": ("seconds", "s", "sec", "secs"),
        "minute": ("minutes", "m", "min", "mins"),
        "hour": ("hours", "h", "hr", "hrs"),
        "day": ("days", "d"),
        "week": ("weeks", "w"),
        "month": ("months", "mon", "mons"),
        "quarter": ("quarters",),
        "year": ("years", "y", "yr", "yrs"),
        "decade": ("decades", "dec", "decs"),
        "century": ("centuries", "cent", "c"),
        "millennium": ("millennia", "millenium", "mil", "mils"),
    }.items()
    for alias in (unit, *aliases)
}
"""Units of time by all their names."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_NO_SUCH = re.compile(r"argument types '(.*?)'\.", re.DOTALL)
_NO_UNIT = re.compile(r'(?:specifier|part) "(.*?)" not recognized', re.DOTALL)
_KIND = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
_TRACE = re.compile(r"^Scalar function .*? threw an execution error, .*? Error: |\n\nStack Trace:.*", re.DOTALL)
_COLUMN = re.compile(r"\bc(\d+)\b")
_SHOWN = 300
_OTHER_NAMES = {"TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ, '"NULL"': PLAIN["NULL"], "BIT": None}


def arrow_type(name: str) -> pa.DataType | None:
    """The type of Arrow for a type as DuckDB writes it; None if expressions do not have it."""
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        return pa.decimal128(int(found[1]), int(found[2]))
    return PLAIN.get(name) or _OTHER_NAMES.get(name)


_SHORT = 1000
"""Characters of texts whose types are remembered."""


def type_of(text: str, types: tuple[tuple[str, pa.DataType], ...]) -> pa.DataType:
    """The type of an expression of columns of given names and types.

    Raises :class:`ExpressionError`, without a place, if DuckDB does not know it, or its type is none of ours.
    """
    return _known_type(text, types) if len(text) <= _SHORT else _type_of(text, types)


def _type_of(text: str, types: tuple[tuple[str, pa.DataType], ...]) -> pa.DataType:
    import duckdb

    source = ", ".join(f"NULL::{sql_name(type_)} AS {name}" for name, type_ in types) or "1"
    try:
        with connection() as own:
            name = str(own.cursor.sql(f"SELECT {text} AS x FROM (SELECT {source})").types[0])
    except (duckdb.Error, RuntimeError) as error:
        raise refused(error) from None
    found = arrow_type(name)
    if found is None:
        raise UnsupportedError(f"values of the type {name} are not supported in expressions; add a cast to another")
    return found


_known_type = functools.lru_cache(4096)(_type_of)


def refused(error: Exception) -> ExpressionError:
    """What DuckDB says about a text, in our words where we have any."""
    message = str(error)
    no_such = _NO_SUCH.search(message)
    if no_such is not None:
        call = no_such[1].replace("STRING_LITERAL", "VARCHAR").replace("INTEGER_LITERAL", "INTEGER")
        return ExpressionError(f"there is no {call}; expected other types. Perhaps add a cast")
    no_unit = _NO_UNIT.search(message)
    if no_unit is not None:
        return ExpressionError(f"there is no unit {no_unit[1]!r}; {did_you_mean(no_unit[1], list(UNITS))}")
    return ExpressionError(described(message))


def plain(message: str) -> str:
    """A message of DuckDB without the kind of the error, and without what its own developers look for."""
    return _TRACE.sub("", _KIND.sub("", message)).strip()


def described(message: str, names: Sequence[str] = ()) -> str:
    """The first lines of a message of DuckDB, without the place in a text that the user has not written."""
    message = plain(message.split("\n\nLINE ")[0].split("\nCandidate")[0].split("\n\tCandidate")[0])
    message = _COLUMN.sub(lambda found: repr(names[int(found[1])]) if int(found[1]) < len(names) else "it", message)
    return message if len(message) <= _SHOWN else f"{message[:_SHOWN]}..."


def constant(text: str, type_: pa.DataType) -> pa.Scalar:
    """The value of an expression without columns. Raises :class:`EvaluationError`."""
    import duckdb

    try:
        with connection() as own:
            found = own.cursor.sql(f"SELECT {text} AS x").to_arrow_table().column(0)[0]
    except (duckdb.Error, RuntimeError) as error:
        raise failed(error) from None
    return found if found.type == type_ else found.cast(type_)


def failed(error: Exception, names: Sequence[str] = ()) -> EvaluationError:
    """The error for values that DuckDB has no result for."""
    message = described(str(error), names)
    is_cast = str(error).startswith("Conversion Error: Could not") or "cast" in message
    return EvaluationError(f"{message}; use TRY_CAST to get NULL instead" if is_cast else message)
