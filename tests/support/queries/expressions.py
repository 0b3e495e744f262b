"""Random expressions over the columns that a query can see, with the types of DuckDB."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from support.queries.world import BEGIN, DAYS, MAKERS, WORDS

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")
INTERVALS = (
    "15 minutes",
    "1 hour",
    "6 hours",
    "1 day",
    "2 days",
    "7 days",
    "1 month",
    "3 months",
    "1 year",
    "90 seconds",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")


@dataclass(frozen=True)
class Column:
    """A column as it is written, and its type."""

    text: str
    type: pa.DataType

    @property
    def is_integer(self) -> bool:
        return pa.types.is_integer(self.type)

    @property
    def is_float(self) -> bool:
        return pa.types.is_floating(self.type)

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or pa.types.is_decimal(self.type)

    @property
    def is_text(self) -> bool:
        return pa.types.is_string(self.type) or pa.types.is_large_string(self.type)

    @property
    def is_time(self) -> bool:
        return pa.types.is_timestamp(self.type)


def quoted(name: str) -> str:
    plain = name.isidentifier() and name.islower() and name not in ("select",)
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass
class Writer:
    """Writes expressions with dice. Values become parameters now and then."""

    dice: random.Random
    params: dict[str, Any] = field(default_factory=dict)
    parameters: float = 0.0
    """How many of the constants are parameters."""

    def pick(self, columns: Sequence[Column], *kinds: str) -> Column | None:
        """A column of one of some kinds, such as ``is_text``."""
        fitting = [each for each in columns if any(getattr(each, kind) for kind in kinds)]
        return self.dice.choice(fitting) if fitting else None

    # -- constants --------------------------------------------------------------------------------------------

    def constant(self, kind: pa.DataType) -> str:
        """A constant to compare a column of a type with, seldom of another type."""
        dice = self.dice
        value = MAKERS[kind](dice)
        while value is None:
            value = MAKERS[kind](dice)
        if pa.types.is_timestamp(kind):
            return self._time(kind, value)
        if self.parameters > dice.random() and not isinstance(value, bytes):
            return self.given(value)
        if pa.types.is_integer(kind):
            return dice.choice([str(value), str(value), f"{value}.5", f"{value}.0", f"{value}e0", f"'{value}'"])
        if pa.types.is_floating(kind):
            if not math.isfinite(value):
                return f"'{value}'::{dice.choice(['DOUBLE', 'FLOAT'])}"
            return dice.choice([repr(value), f"{value}e0", f"{value}::FLOAT", f"{int(value)}"])
        if pa.types.is_decimal(kind):
            texts = [f"{value:f}", f"{value:f}", str(int(value)), f"CAST({value:f} AS DECIMAL(38, 6))"]
            return dice.choice(texts if kind.precision < 38 else texts[:-1])
        if pa.types.is_boolean(kind):
            return str(value)
        if pa.types.is_binary(kind):
            return "'" + "".join(f"\\x{each:02X}" for each in value) + "'::BLOB"
        if pa.types.is_date(kind):
            return dice.choice([f"DATE '{value}'", f"'{value}'", f"TIMESTAMP '{value} 12:00'"])
        return "'" + str(value).replace("'", "''") + "'"

    def given(self, value: Any) -> str:
        """A parameter."""
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f"${name}"

    def _time(self, kind: pa.DataType, value: int) -> str:
        """A point in time, near those of the rows."""
        dice = self.dice
        moment = BEGIN + datetime.timedelta(seconds=dice.randrange(DAYS * 24) * 3600)
        if dice.random() < 0.4:
            moment += datetime.timedelta(seconds=dice.randrange(3600), microseconds=dice.choice([0, 500_000, 123_456]))
        zoned = kind.tz is not None
        if self.parameters > dice.random():
            if zoned and dice.random() < 0.5:
                return self.given(moment.replace(tzinfo=datetime.UTC))
            return self.given(moment if dice.random() < 0.7 else moment.date())
        texts = [
            f"TIMESTAMP '{moment}'",
            f"'{moment}'",
            f"DATE '{moment.date()}'",
            f"TIMESTAMP_NS '{moment}.000000001'",
        ]
        if "." in str(moment):
            texts.pop()
        if zoned:
            texts += [f"TIMESTAMPTZ '{moment}+00'", f"TIMESTAMPTZ '{moment}+05:30'", f"TIMESTAMPTZ '{moment}'"] * 2
        elif kind.unit != "us":
            exact = pa.scalar(value, pa.timestamp(kind.unit))
            texts.append(f"CAST('{exact}' AS TIMESTAMP{'_NS' if kind.unit == 'ns' else ''})")
        else:
            texts.append(f"TIMESTAMPTZ '{moment}+02'")
            texts.append(f"TIMESTAMP '{moment}' + INTERVAL '1 day'")
        return dice.choice(texts)

    # -- conditions ---------------------------------------------------------------------------------------------

    def condition(self, columns: Sequence[Column], depth: int = 2) -> str:
        """A condition about columns."""
        dice = self.dice
        if depth and dice.random() < 0.45:
            one, other = self.condition(columns, depth - 1), self.condition(columns, depth - 1)
            return dice.choice([f"{one} AND {other}", f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
        column = dice.choice(columns)
        if dice.random() < 0.3:  # the time is what matters most
            column = columns[0]
        if dice.random() < 0.4:
            special = self._special(column, columns)
            if special is not None:
                return special
        name, operator = column.text, dice.choice(OPERATORS)
        value = lambda: self.constant(column.type)  # noqa: E731  # one per use
        return dice.choice(
            [
                lambda: f"{name} {operator} {value()}",
                lambda: f"{name} {operator} {value()}",
                lambda: f"{value()} {operator} {name}",
                lambda: f"{name} {dice.choice(['', 'NOT '])}BETWEEN {value()} AND {value()}",
                lambda: (
                    f"{name} {dice.choice(['', 'NOT '])}IN ({', '.join(value() for _ in range(dice.randint(1, 5)))})"
                ),
                lambda: f"{name} IN ({value()}, NULL)",
                lambda: f"{name} IS {dice.choice(['', 'NOT '])}NULL",
                lambda: f"{name} IS {dice.choice(['', 'NOT '])}DISTINCT FROM {value()}",
                lambda: f"({name} {operator} {value()} OR {name} IS NULL)",
                lambda: f"({name} = {value()} OR {name} = {value()} OR {name} > {value()})",
                lambda: f"coalesce({name} {operator} {value()}, {dice.choice(['TRUE', 'FALSE'])})",
                lambda: f"CASE WHEN {name} {operator} {value()} THEN {dice.choice(['TRUE', 'NULL'])} ELSE FALSE END",
                lambda: f"({name} {operator} {value()}) = ({name} {dice.choice(OPERATORS)} {value()})",
            ]
        )()

    def _special(self, column: Column, columns: Sequence[Column]) -> str | None:
        dice, name, operator = self.dice, column.text, self.dice.choice(OPERATORS)
        if column.is_text:
            pattern = dice.choice(["a%", "%b", "%b%", "_b%", "a_", "%", "", "it''s", "AB%", "é%", "z%\\_t%"])
            word = "'" + dice.choice(WORDS).replace("'", "''") + "'"
            return dice.choice(
                [
                    f"{name} {dice.choice(['', 'NOT '])}LIKE '{pattern}'",
                    f"{name} ILIKE '{pattern}'",
                    f"starts_with({name}, {word})",
                    f"contains({name}, {word})",
                    f"length({name}) {operator} {dice.randrange(4)}",
                    f"lower({name}) {operator} {word}",
                    f"{name} || 'x' {operator} {word}",
                    f"regexp_matches({name}, '^[ab]')",
                    f"TRY_CAST({name} AS INTEGER) {operator} 10",
                    f"{name} = ANY(['a', 'b'])",
                ]
            )
        if column.is_time:
            return self.time_condition(column, operator)
        if column.is_number:
            other = self.pick(columns, "is_number")
            assert other is not None
            value = dice.randrange(-9, 20)
            return dice.choice(
                [
                    f"{name} {operator} {other.text}",
                    f"CAST({name} AS DOUBLE) {operator} {value}.5",
                    f"CAST({name} AS VARCHAR) {operator} '{value}'",
                    f"CAST({name} AS DOUBLE) + 1 {operator} {value}",
                    f"abs(CAST({name} AS DOUBLE)) {operator} {value}",
                    f"TRY_CAST({name} AS TINYINT) {operator} {value}",
                    f"CAST({name} AS DOUBLE) * 2 {operator} {value} - 1",
                    f"{name} {operator} {value} + 3",
                    f"{name} IN (SELECT unnest([{value}, {value + 1}]))",
                ]
            )
        if pa.types.is_boolean(column.type):
            return dice.choice([name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"])
        return None

    def time_condition(self, column: Column, operator: str) -> str:
        """A condition about a point in time that is computed."""
        dice, name, value = self.dice, column.text, self.constant(column.type)
        return dice.choice(
            [
                f"date_trunc('{dice.choice(UNITS)}', {name}) {operator} {value}",
                f"time_bucket(INTERVAL '{dice.choice(INTERVALS)}', {name}) {operator} {value}",
                f"CAST({name} AS DATE) {operator} DATE '2026-03-{dice.randrange(26, 33 - 1)}'",
                f"{name} + INTERVAL '{dice.choice(INTERVALS)}' {operator} {value}",
                f"hour({name}) {operator} {dice.randrange(24)}",
                f"extract('dow' FROM {name}) = {dice.randrange(7)}",
                f"epoch({name}) {operator} {1774569600 + dice.randrange(DAYS * 86_400)}",
                f"{name} >= {value} AND {name} < {self.constant(column.type)}",
                f"{name} BETWEEN {value} AND {self.constant(column.type)}",
            ]
        )

    # -- values -------------------------------------------------------------------------------------------------

    def value(self, columns: Sequence[Column]) -> str:
        """An expression of whatever type."""
        dice, column = self.dice, self.dice.choice(columns)
        name = column.text
        if dice.random() < 0.4:
            return name
        if column.is_number:
            number = f"CAST({name} AS DOUBLE)" if dice.random() < 0.5 else f"CAST({name} AS HUGEINT)"
            if not column.is_integer:
                number = f"CAST({name} AS DOUBLE)"
            return dice.choice(
                [
                    f"{number} + {dice.randrange(9)}",
                    f"-{number}",
                    f"abs({number})",
                    f"{number} * 2 - 1",
                    f"CAST({name} AS VARCHAR)",
                    f"CASE WHEN {name} > 3 THEN 'more' WHEN {name} IS NULL THEN NULL ELSE 'less' END",
                    f"coalesce({name}, 7)",
                    f"nullif({name}, 3)",
                    f"{name} IS NULL",
                    f"greatest({name}, 5)",
                    f"hash({name})",
                    f"typeof({name})",
                ]
            )
        if column.is_text:
            return dice.choice(
                [
                    f"upper({name})",
                    f"length({name})",
                    f"{name} || '!'",
                    f"{name}[1:2]",
                    f"coalesce({name}, 'none')",
                    f"TRY_CAST({name} AS INTEGER)",
                    f"strlen({name}) + 1",
                ]
            )
        if column.is_time:
            return dice.choice(
                [
                    self.bucket(column),
                    f"CAST({name} AS DATE)",
                    f"year({name})",
                    f"epoch_us({name})",
                    f"CAST({name} AS VARCHAR)",
                    f"strftime({name}, '%d %H:%M')",
                    f"{name} + INTERVAL 1 HOUR",
                ]
            )
        return dice.choice([name, f"{name} IS NULL", f"CAST({name} AS VARCHAR)", f"typeof({name})"])

    def bucket(self, time: Column) -> str:
        """The bucket of a point in time."""
        dice, name = self.dice, time.text
        if not time.is_time:
            size = dice.choice([1000, 3600, 100_000, 7])
            return dice.choice([f"{name} // {size} * {size}", f"{name} - {name} % {size}", f"{name} // {size}"])
        length, offset = dice.choice(INTERVALS), dice.choice(["30 minutes", "-1 hour", "3 hours", "10 days"])
        zone = dice.choice(ZONES)
        texts = [
            f"date_trunc('{dice.choice(UNITS)}', {name})",
            f"time_bucket(INTERVAL '{length}', {name})",
            f"time_bucket(INTERVAL '{length}', {name}, INTERVAL '{offset}')",
            f"CAST({name} AS DATE)",
        ]
        begin = dice.choice(["2026-01-01", "2026-03-29 01:30:00", "1999-12-31 23:00:00", "2030-06-01"])
        texts.append(
            f"time_bucket(INTERVAL '{length}', {name}, {'TIMESTAMPTZ' if time.type.tz else 'TIMESTAMP'} '{begin}')"
        )
        if time.type.tz:
            texts += [
                f"time_bucket(INTERVAL '{length}', {name}, '{zone}')",
                f"time_bucket(INTERVAL '{length}', {name} AT TIME ZONE '{zone}')",
                f"date_trunc('{dice.choice(UNITS)}', {name} AT TIME ZONE '{zone}')",
            ]
        return dice.choice(texts)

    def aggregate(self, columns: Sequence[Column], unique: str) -> str:
        """An aggregate whose value does not depend on the order of the rows; ``unique`` is a column without ties."""
        dice, column = self.dice, self.dice.choice(columns)
        number, name = self.pick(columns, "is_number"), column.text
        assert number is not None
        total = number.text
        if pa.types.is_decimal(number.type) and number.type.precision > 18:
            total = columns[1].text  # their sum may be too large
        text = dice.choice(
            [
                "count(*)",
                "count()",
                f"count({name})",
                f"count(DISTINCT {name})",
                f"sum({total})",
                f"sum({total})",
                f"avg({total})",
                f"min({name})",
                f"max({name})",
                f"min({columns[0].text})",
                f"max({columns[0].text})",
                f"sum(DISTINCT {columns[1].text})",
                f"sum(CAST({columns[1].text} AS HUGEINT) * 2)",
                f"count_if({self.condition(columns, 0)})",
                f"bool_or({self.condition(columns, 0)})",
                f"arg_min({name}, {unique})",
                f"arg_max({name}, {unique})",
                f"first({name} ORDER BY {columns[0].text}, {unique})",
                f"last({name} ORDER BY {columns[0].text}, {unique})",
                f"list({name} ORDER BY {unique})",
                f"median({columns[1].text})",
                f"max({columns[0].text}) - min({columns[0].text})",
                f"sum({total}) + count(*)",
                f"round(avg({columns[1].text}), 2)",
                f"product(CASE WHEN {unique} % 2 = 0 THEN 2 ELSE 1 END) IS NULL",
            ]
        )
        if dice.random() < 0.15 and text.endswith(")") and text.count("(") == 1:
            text += f" FILTER (WHERE {self.condition(columns, 1)})"
        return text
