"""Random statements, each as tidelog reads it and as plain DuckDB does."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from support.queries.expressions import OPERATORS, ZONES, Column, Writer, quoted
from support.queries.plain import Query
from support.queries.world import World

_STAR = re.compile(r"\x01([^\x02]*)\x02")
_AT = re.compile(r"\x03(.*?)\x04(.*?)\x05(\d+)\x06")
_WRITTEN = re.compile(r"\x07(.*?)\x08(.*?)\x0e")
_PARAMETER = re.compile(r"\$(p\d+)\b")


@dataclass
class Mention:
    """A stream in a statement: how it is written, and the columns that it has."""

    text: str
    alias: str
    name: str
    columns: list[Column]

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.text.rsplit(".", 1)[-1] == name)

    @property
    def time(self) -> Column:
        return self.columns[0]


def _written(ours: str, plain: str) -> str:
    """What is written in one way for tidelog, and in another one for DuckDB."""
    return f"\x07{ours}\x08{plain}\x0e"


def _is_wide(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and kind.precision > 18  # whose sum may be too large


class Maker:
    """Makes the query of a seed."""

    def __init__(self, world: World, versions: dict[str, list[int]], seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.world = world
        self._versions = versions
        self.write = Writer(dice, parameters=dice.choice([0, 0, 0, 0.5]))
        self._numbered = dice.random() < 0.12
        self._reduced = dice.random() < 0.05
        self._used: set[str] = set()

    def query(self) -> Query:
        """The query."""
        shapes: list[tuple[int, Callable[[], Query]]] = [
            (6, self._rows),
            (4, self._newest),
            (2, self._some),
            (8, self._aggregated),
            (7, self._grouped),
            (8, self._indexed),
            (6, self._bucketed),
            (8, self._put_together),
            (1, self._own),
            (2, self._distinct),
            (3, self._window),
            (4, self._joined),
            (2, self._joined_tables),
            (2, self._asof),
            (2, self._inner),
            (4, self._named),
            (3, self._united),
            (2, self._odd),
        ]
        made = self.dice.choices([each for _, each in shapes], [weight for weight, _ in shapes])[0]
        query = made()
        query.features = (made.__name__,)
        return query

    # -- parts ------------------------------------------------------------------------------------------------------

    def _mention(self, alias: str | None = None, *, names: Sequence[str] = (), plain: bool = False) -> Mention:
        dice = self.dice
        usual = [each for each, one in self.world.plain.items() if not one.reduced]
        weights = [3 if each == "wide" else 1 for each in usual]
        name = dice.choice(names) if names else "reduced" if self._reduced else dice.choices(usual, weights)[0]
        self._used.add(name)
        written = quoted(name)
        if "_" not in name and "/" not in name and dice.random() < 0.1:
            written = name.upper()
        if alias is None and dice.random() < 0.3:
            alias = "w"
        text = written if alias is None else f"{written} {dice.choice(['AS ', ''])}{alias}"
        if not plain and dice.random() < 0.06:
            alias = alias or "w"
            text = f"\x03{name}\x04{alias}\x05{dice.choice(self._versions[name])}\x06"
        prefix = (
            ""
            if alias is None or (not plain and dice.random() < 0.5 and len(alias) == 1 and alias == "w")
            else f"{alias}."
        )
        schema = self.world.plain[name].schema
        order = ["ts", "x", "id", "k", "s"]
        order += [each for each in schema.names if each not in order]
        if name == "wide" and dice.random() < 0.5:
            dice.shuffle(rest := order[5:])
            order = order[:5] + rest[:6]
        columns = [Column(prefix + quoted(each), schema.field(each).type) for each in order]
        if self._numbered:
            columns.append(Column(f"{prefix}_seq", pa.int64()))
        return Mention(text, alias or quoted(name), name, columns)

    def _where(self, columns: Sequence[Column], often: float = 0.75) -> str:
        return f" WHERE {self.write.condition(columns)}" if self.dice.random() < often else ""

    def _star(self, relation: str = "") -> str:
        """What tidelog calls ``*``, where ``_seq`` is not among the columns."""
        return f"\x01{relation}\x02"

    def _made(self, text: str, *, ordered: bool = False, whole: str | None = None, keys: int = 0) -> Query:
        dice = self.dice
        params: dict[str, object] | list[object] | None = None
        texts = [text, whole or ""]
        renamed = _WRITTEN.search(text) is not None
        if self.write.params:
            used = list(dict.fromkeys(_PARAMETER.findall(text)))
            params = {name: self.write.params[name] for name in used} or None
            mentioned = _PARAMETER.findall(text)
            if whole is None and mentioned and dice.random() < 0.5:
                params = [self.write.params[name] for name in mentioned]
                texts[0] = _PARAMETER.sub("?", text)
        ours = _WRITTEN.sub(lambda found: found[1], texts[0])
        ours = _STAR.sub(lambda found: f"{found[1]}.*" if found[1] else "*", ours)
        ours = _AT.sub(lambda found: f"{quoted(found[1])} {found[2]} AT (VERSION => {found[3]})", ours)
        numbered = "_seq" in ours

        def plain(text: str) -> str:
            text = _WRITTEN.sub(lambda found: found[2], text)
            hidden = " EXCLUDE (_seq)" if numbered else ""
            text = _STAR.sub(lambda found: (f"{found[1]}.*" if found[1] else "*") + hidden, text)
            return _AT.sub(lambda found: f'"{found[1]}@{found[3]}" {found[2]}', text)

        zone = dice.choice(["UTC", "UTC", "UTC", *ZONES])
        return Query(
            ours,
            plain(texts[0]),
            params,
            zone,
            ordered=ordered,
            whole=None if whole is None else plain(whole),
            keys=keys,
            reduced=self._reduced,
            renamed=renamed,
        )

    def _outputs(self, columns: Sequence[Column], most: int = 4) -> list[str]:
        outputs = []
        for index in range(self.dice.randint(1, most)):
            text = self.write.value(columns)
            outputs.append(f"{text} AS c{index}" if self.dice.random() < 0.3 else text)
        return outputs

    # -- shapes -----------------------------------------------------------------------------------------------------

    def _rows(self) -> Query:
        """Rows, perhaps in order, perhaps the first of them."""
        dice, one = self.dice, self._mention()
        outputs = [self._star()] if dice.random() < 0.2 else self._outputs(one.columns)
        text = f"SELECT {', '.join(outputs)} FROM {one.text}{self._where(one.columns)}"
        if dice.random() < 0.1:
            text = f"FROM {one.text} SELECT {', '.join(outputs)}{self._where(one.columns)}"
        unique = one.column("id").text
        if dice.random() < 0.5:
            keys = [
                f"{dice.choice(one.columns).text}{dice.choice(['', ' DESC', ' NULLS FIRST'])}"
                for _ in range(dice.choice([0, 1, 1, 2]))
            ]
            text += " ORDER BY " + ", ".join([*keys, unique + dice.choice(["", " DESC"])])
            if dice.random() < 0.7:
                text += f" LIMIT {dice.choice([0, 1, 5, 30])}"
                text += f" OFFSET {dice.choice([0, 3, 1000])}" if dice.random() < 0.3 else ""
            return self._made(text, ordered=True)
        return self._made(text)

    def _newest(self) -> Query:
        """One end of a stream, by its time; which of the rows of one time are taken is open."""
        dice, one = self.dice, self._mention()
        down = dice.choice(["", " ASC", " DESC", " DESC", " DESC NULLS LAST"])
        outputs = [one.time.text, *self._outputs(one.columns, 2)]
        if dice.random() < 0.3:
            outputs = [one.time.text, self._star()]
        text = f"SELECT {', '.join(outputs)} FROM {one.text}{self._where(one.columns, 0.5)}"
        by = dice.choice([one.time.text, "1"])
        limit = f" ORDER BY {by}{down} LIMIT {dice.choice([1, 2, 5, 20])}"
        if dice.random() < 0.2:
            limit += f" OFFSET {dice.choice([1, 7])}"
        if self.world.plain[one.name].unique_times:
            return self._made(text + limit, ordered=True)
        return self._made(text + limit, whole=text, keys=1)

    def _some(self) -> Query:
        """So many rows, whichever."""
        one = self._mention()
        text = f"SELECT {', '.join(self._outputs(one.columns))} FROM {one.text}{self._where(one.columns)}"
        return self._made(f"{text} LIMIT {self.dice.choice([0, 1, 5, 100])}", whole=text)

    def _aggregates(self, one: Mention, most: int = 4) -> list[str]:
        unique = one.column("id").text
        return [
            self._by_time(one) if self.dice.random() < 0.12 else self.write.aggregate(one.columns, unique)
            for _ in range(self.dice.randint(1, most))
        ]

    def _by_time(self, one: Mention, *, filtered: float = 0.15) -> str:
        """The value of one event, by its time; the order of (time, ``_seq``) is that of (time, id)."""
        dice, value = self.dice, self.dice.choice(one.columns).text
        ts, order = one.time.text, f"{one.time.text}, {one.column('id').text}"
        skipping = f"any_value({value} ORDER BY {order})"
        skipping_down = f"any_value({value} ORDER BY {ts} DESC, {one.column('id').text} DESC)"
        first, last = f"first({value} ORDER BY {order})", f"last({value} ORDER BY {order})"
        ours, plain = dice.choice(
            [
                (f"first({value})", first),
                (f"last({value})", last),
                (f"any_value({value})", skipping),
                (f"first({value} ORDER BY {ts})", first),
                (f"last({value} ORDER BY {ts} DESC)", first),
                (f"last({value} ORDER BY {ts})", last),
                (f"{dice.choice(['arg_min', 'min_by', 'argmin'])}({value}, {ts})", skipping),
                (f"{dice.choice(['arg_max', 'max_by', 'argmax'])}({value}, {ts})", skipping_down),
                (f"arg_min_null({value}, {ts})", first),
                (f"arg_max_null({value}, {ts})", last),
            ]
        )
        filter = f" FILTER (WHERE {self.write.condition(one.columns, 1)})" if dice.random() < filtered else ""
        return _written(ours, plain) + filter

    def _aggregated(self) -> Query:
        """One row of aggregates."""
        one = self._mention()
        text = f"SELECT {', '.join(self._aggregates(one))} FROM {one.text}{self._where(one.columns)}"
        if self.dice.random() < 0.1:
            text += f" HAVING count(*) {self.dice.choice(OPERATORS)} {self.dice.choice([0, 1, 100])}"
        return self._made(text)

    def _grouped(self) -> Query:
        """Aggregates of groups, the keys of which are written in one of the ways there are."""
        dice, one = self.dice, self._mention()
        keys = [
            self.write.value([each for each in one.columns if each.text != one.column("id").text])
            for _ in range(dice.choice([1, 1, 2]))
        ]
        if dice.random() < 0.4:
            keys = [one.column(dice.choice("ks")).text]
        return self._groups(one, keys)

    def _bucketed(self) -> Query:
        """Aggregates of buckets of time."""
        dice, one = self.dice, self._mention()
        keys = [self.write.bucket(one.time)]
        if dice.random() < 0.3:
            keys.insert(dice.randrange(2), one.column(dice.choice("ks")).text)
        return self._groups(one, keys)

    def _groups(self, one: Mention, keys: list[str]) -> Query:
        dice = self.dice
        aggregates = self._aggregates(one, 3)
        way = dice.choice(["keys", "all", "ordinals", "aliases", "sets"])
        shown = [f"{key} AS g{index}" if way == "aliases" else key for index, key in enumerate(keys)]
        group = {
            "keys": ", ".join(keys),
            "all": "ALL",
            "ordinals": ", ".join(str(index + 1) for index in range(len(keys))),
            "aliases": ", ".join(f"g{index}" for index in range(len(keys))),
            "sets": dice.choice([f"ROLLUP ({', '.join(keys)})", f"GROUPING SETS (({', '.join(keys)}), ())"]),
        }[way]
        text = f"SELECT {', '.join([*shown, *aggregates])} FROM {one.text}{self._where(one.columns)} GROUP BY {group}"
        if dice.random() < 0.2:
            tested = self.write.aggregate(one.columns, one.column("id").text)
            text += f" HAVING {tested} IS NOT NULL AND count(*) > {dice.choice([0, 1, 3])}"
        if way != "sets" and dice.random() < 0.5:
            text += " ORDER BY " + dice.choice([", ".join(str(index + 1) for index in range(len(keys))), "ALL"])
            text += dice.choice(["", f" LIMIT {dice.choice([1, 3, 10])}"])
            return self._made(text, ordered=True)
        return self._made(text)

    def _indexed(self) -> Query:
        """What an index may know: few aggregates, of all events or of buckets, of a range of time or without end."""
        dice, one = self.dice, self._mention()
        numbers = [each for each in one.columns if each.is_number and not _is_wide(each.type)]

        def call() -> str:
            name = dice.choice(["count(*)", "count", "sum", "avg", "min", "max", "min", "max", "mean", "end"])
            if name == "count(*)":
                return name
            if name == "end":
                return self._by_time(one)
            column = dice.choice(numbers if name in ("sum", "avg", "mean") else one.columns)
            return f"{name}({column.text})"

        def item() -> str:
            return dice.choice(
                [
                    call,
                    call,
                    call,
                    lambda: f"{call()} AS v{dice.randrange(99)}",
                    lambda: f"count(*) + count({dice.choice(one.columns).text})",
                    lambda: f"CAST({call()} AS VARCHAR)",
                    lambda: f"median({one.column('x').text})",
                    lambda: f"{call()} FILTER (WHERE {one.time.text} {dice.choice(OPERATORS)} {bounds[0]})",
                    lambda: f"coalesce(sum({one.column('x').text}), 0) / count(*)",
                    lambda: f"max({one.time.text}) - min({one.time.text})",
                    lambda: f"round(avg({one.column('x').text}), 1) AS mean",
                ]
            )()

        kind, bounds = one.time.type, [self.write.constant(one.time.type) for _ in range(2)]
        items = [item() for _ in range(dice.randint(1, 3))]
        text = f" FROM {one.text}"
        if dice.random() < 0.7:
            text += " WHERE " + dice.choice(
                [
                    f"{one.time.text} >= {bounds[0]}",
                    f"{one.time.text} < {bounds[0]}",
                    f"{bounds[0]} <= {one.time.text} AND {one.time.text} < {bounds[1]}",
                    f"{one.time.text} BETWEEN {bounds[0]} AND {bounds[1]}",
                    f"NOT {one.time.text} > {bounds[0]}",
                    f"{one.time.text} >= {bounds[0]} OR {one.time.text} < {bounds[1]}",
                    f"{one.time.text} > {bounds[0]} AND {one.column('x').text} > 1",
                    self.write.time_condition(one.time, dice.choice(OPERATORS)) if one.time.is_time else "TRUE",
                    "TRUE",
                    "1 = 2",
                ]
            )
        if dice.random() < 0.55:
            bucket = self.write.bucket(one.time)
            if dice.random() < 0.4 and pa.types.is_timestamp(kind):
                bucket = dice.choice(
                    [f"date_trunc('day', {one.time.text})", f"time_bucket('12 hours', {one.time.text})"]
                )
            at = dice.randint(0, len(items))
            way = dice.choice(["keys", "all", "ordinal", "alias", "hidden"])
            if way != "hidden":
                items.insert(at, f"{bucket} AS bucket" if way == "alias" else bucket)
            group = {"keys": bucket, "all": "ALL", "ordinal": str(at + 1), "alias": "bucket", "hidden": bucket}[way]
            text += f" GROUP BY {group}"
        if dice.random() < 0.2:
            text += f" HAVING {call()} {dice.choice(['IS NOT NULL', 'IS NULL'])}"
        if dice.random() < 0.3:
            text += " ORDER BY ALL" + dice.choice(["", " DESC", " LIMIT 3", " LIMIT 2 OFFSET 1"])
            return self._made(f"SELECT {', '.join(items)}{text}", ordered=True)
        text = f"SELECT {', '.join(items)}{text}"
        if dice.random() < 0.1:
            text = dice.choice([f"SELECT * FROM ({text}) t", f"WITH c AS ({text}) FROM c", f"{text} UNION ALL {text}"])
        return self._made(text)

    def _put_together(self) -> Query:
        """Groups by columns and buckets, with aggregates that can be put together from those of parts."""
        dice, one = self.dice, self._mention()
        numbers = [each for each in one.columns if each.is_number and not pa.types.is_decimal(each.type)]
        floats = [each.text for each in numbers if each.is_float]

        def call() -> str:
            name = dice.choice(["count(*)", "count", "sum", "avg", "min", "max", "end", "computed"])
            if name == "end":
                return self._by_time(one, filtered=0.3)
            argument = dice.choice(numbers if name in ("sum", "avg") else one.columns).text
            if name == "computed":
                name = dice.choice(["sum", "avg", "max", "min", "count"])
                argument = f"{dice.choice(floats)} {dice.choice(['* 2', '+ 0.25', '/ 4', '- ' + dice.choice(floats)])}"
            text = name if name == "count(*)" else f"{name}({argument})"
            filter = dice.random() < 0.3
            return text + (f" FILTER (WHERE {self.write.condition(one.columns, 1)})" if filter else "")

        keys = [
            self.write.bucket(one.time) if dice.random() < 0.2 else dice.choice(one.columns).text
            for _ in range(dice.choice([0, 1, 1, 1, 2, 2, 3]))
        ]
        calls = [call() for _ in range(dice.choice([1, 2, 3] if not keys else [0, 1, 1, 2, 4]))]
        shown = [f"{key} AS g{at}" for at, key in enumerate(keys)]
        shown += [f"{each} AS v{at}" for at, each in enumerate(calls)]
        if keys and dice.random() < 0.15:
            shown.append("row_number() OVER (ORDER BY count(*), " + ", ".join(keys) + ") AS n")
        group = f" GROUP BY {dice.choice([', '.join(keys), 'ALL'])}" if keys else ""
        if any(" OVER " in each for each in shown):
            group = group.replace("ALL", ", ".join(keys))
        text = f"SELECT {', '.join(shown)} FROM {one.text}{self._where(one.columns, 0.5)}{group}"
        if dice.random() < 0.2:
            text += f" HAVING {call()} IS {dice.choice(['', 'NOT '])}NULL"
        if keys and dice.random() < 0.1:
            text += f" QUALIFY rank() OVER (ORDER BY {', '.join(keys)}) < 5"
        around = dice.random()
        if around < 0.1 and keys:
            return self._made(f"SELECT * FROM ({text}) t WHERE g0 IS {dice.choice(['', 'NOT '])}NULL")
        if around < 0.2 and keys:
            return self._made(f"WITH c AS ({text}) SELECT count(*), count(g0) FROM c")
        if around < 0.25:
            return self._made(f"{text} UNION ALL {text}")
        return self._made(text)

    def _own(self) -> Query:
        """Aggregates that DuckDB does not know, which compute what some of its own do."""
        dice = self.dice  # conditions that DuckDB refuses are answered, and those it computes in a zone are refused
        one = self._mention(names=[name for name in self.world.plain if name not in ("Nanoz", "reduced")])
        whole = [each for each in one.columns if each.is_integer]

        def call() -> str:
            column, others = dice.choice(whole).text, dice.choice(one.columns[:5]).text
            ours, plain = dice.choice(
                [
                    (f"largest({column})", f"max({column})"),
                    (f"smallest({column})", f"min({column})"),
                    (f"row_count({others})", f"nullif(count({others}), 0)"),
                ]
            )
            return _written(ours, plain)

        items = [
            call(),
            *(dice.choice([call, lambda: "count(*)", lambda: self._by_time(one, filtered=0)])() for _ in "12"),
        ]
        if dice.random() < 0.3:
            items.append(f"median({one.column('x').text})")
        k = one.column("k").text
        text = f" FROM {one.text}" + dice.choice(
            [
                "",
                f" WHERE {one.time.text} >= {self.write.constant(one.time.type)}",
                f" WHERE {k} > {dice.randrange(9)}",
                f" WHERE {k} IS NULL OR {one.column('x').text} < 2",
            ]
        )
        if dice.random() < 0.6 and one.time.is_time and one.time.type.unit != "ns":
            items.insert(
                0, dice.choice([f"date_trunc('day', {one.time.text})", f"time_bucket('12h', {one.time.text})"])
            )
            text += " GROUP BY 1"
        query = self._made(f"SELECT {', '.join(items)}{text}")
        query.timezone = "UTC"
        return query

    def _distinct(self) -> Query:
        dice, one = self.dice, self._mention()
        if dice.random() < 0.3:
            key = one.column("k").text
            text = f"SELECT DISTINCT ON ({key}) {key}, {self.write.value(one.columns)} AS v FROM {one.text}"
            return self._made(f"{text}{self._where(one.columns)} ORDER BY {key}, {one.column('id').text}", ordered=True)
        return self._made(
            f"SELECT DISTINCT {', '.join(self._outputs(one.columns, 2))} FROM {one.text}{self._where(one.columns)}"
        )

    def _window(self) -> Query:
        dice, one = self.dice, self._mention()
        unique, x = one.column("id").text, one.column("x").text
        part = dice.choice(
            ["", f"PARTITION BY {one.column('k').text} ", f"PARTITION BY {self.write.bucket(one.time)} "]
        )
        order = f"ORDER BY {one.time.text}{dice.choice(['', ' DESC'])}, {unique}"
        frame = dice.choice(
            [
                "",
                " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            ]
        )
        call = dice.choice(
            [
                "row_number()",
                f"lag({x})",
                f"lead({x}, 2, 0)",
                f"sum({x})",
                f"first_value({x})",
                "rank()",
                f"count({x})",
                f"max({one.time.text})",
                "ntile(3)",
            ]
        )
        frame = frame if call[:3] in ("sum", "fir", "cou", "max") else ""
        text = f"SELECT {unique}, {call} OVER ({part}{order}{frame}) AS v FROM {one.text}{self._where(one.columns)}"
        if dice.random() < 0.4:
            text += dice.choice([" QUALIFY v IS NOT NULL", f" QUALIFY row_number() OVER ({part}{order}) <= 2"])
        return self._made(text)

    def _joined(self) -> Query:
        """A stream with a stream."""
        dice, one = self.dice, self._mention("a", plain=False)
        other = self._mention("b")
        self._prefixed(one, other)
        kind = dice.choice(
            ["JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", ","]
        )
        key = dice.choice(["id", "id", "id", "k", "s"])
        on = f"a.{key} = b.{key}"
        both = [*one.columns, *other.columns]
        if kind in ("SEMI JOIN", "ANTI JOIN"):
            both = one.columns
        if dice.random() < 0.2 and kind not in ("SEMI JOIN", "ANTI JOIN"):
            on += f" AND {self.write.condition(other.columns, 0)}"
        condition = f"USING ({key})" if dice.random() < 0.2 else f"ON {on}"
        if kind == ",":
            tables, where = f"{one.text}, {other.text}", f" WHERE {on} AND {self.write.condition(both, 1)}"
        else:
            tables, where = f"{one.text} {kind} {other.text} {condition}", self._where(both, 0.6)
        if key != "id" or dice.random() < 0.4:
            outputs = [self.write.aggregate(both, "a.id") for _ in range(2)]
            outputs = [
                each
                if "arg_" not in each and "first" not in each and "last" not in each and "list" not in each
                else "count(*)"
                for each in outputs
            ]
            return self._made(f"SELECT {', '.join(outputs)} FROM {tables}{where}")
        outputs = self._outputs(both)
        if dice.random() < 0.2:
            outputs = [self._star("a")]
        return self._made(f"SELECT {', '.join(outputs)} FROM {tables}{where}")

    def _prefixed(self, *mentions: Mention) -> None:
        for each in mentions:
            each.columns = [
                Column(each.alias + "." + one.text.removeprefix(each.alias + "."), one.type) for one in each.columns
            ]

    def _joined_tables(self) -> Query:
        """A stream with a table that is given."""
        dice, one = self.dice, self._mention("a")
        self._prefixed(one)
        key = dice.choice("ks")
        kind = dice.choice(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
        tables = f"{one.text} {kind} sites ON a.{key} = sites.{key}"
        if dice.random() < 0.2:
            tables = f"sites JOIN {one.text} USING ({key})"
            kind = "JOIN"
        both = (
            one.columns
            if "I JOIN" in kind
            else [*one.columns, Column("sites.city", pa.string()), Column("sites.factor", pa.float64())]
        )
        if dice.random() < 0.5:
            return self._made(f"SELECT {', '.join(self._outputs(both))} FROM {tables}{self._where(both)}")
        key = "a.k" if "I JOIN" in kind else "city"
        return self._made(
            f"SELECT {key}, count(*), sum(a.x), max(a.ts) FROM {tables}{self._where(both)} GROUP BY {key}"
        )

    def _asof(self) -> Query:
        dice = self.dice
        one = self._mention("a", names=["wide", "memory", "evolved", "calm", "sensors/secs"])
        other = self._mention("b", names=["calm"])
        self._prefixed(one, other)
        kind = dice.choice(["ASOF JOIN", "ASOF LEFT JOIN"])
        on = f"a.ts {dice.choice(['>=', '>', '<', '<='])} b.ts"
        if dice.random() < 0.3:
            on += " AND a.k = b.k"
        both = [*one.columns, *other.columns]
        return self._made(
            f"SELECT {', '.join(self._outputs(both))} FROM {one.text} {kind} {other.text} ON {on}{self._where(both)}"
        )

    def _inner(self) -> Query:
        """Queries inside of expressions."""
        dice, one = self.dice, self._mention("a")
        self._prefixed(one)
        inner = self._mention("i")
        self._prefixed(inner)
        where = self._where(inner.columns)
        also = f"{where} AND" if where else " WHERE"
        condition = dice.choice(
            [
                f"a.k {dice.choice(['', 'NOT '])}IN (SELECT i.k FROM {inner.text}{also} i.k IS NOT NULL)",
                f"a.x > (SELECT avg(i.x) FROM {inner.text}{where})",
                f"{dice.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {inner.text}{also} i.id = a.id)",
                f"{dice.choice(['', 'NOT '])}EXISTS (FROM {inner.text}{also} i.k = a.k AND i.x > a.x)",
                f"a.x = (SELECT max(i.x) FROM {inner.text}{also} i.k = a.k)",
                f"a.id < ALL (SELECT i.id + 50 FROM {inner.text}{where})",
                f"a.s = ANY (SELECT i.s FROM {inner.text}{where})",
            ]
        )
        outputs = self._outputs(one.columns, 3)
        if dice.random() < 0.3:
            outputs.append(f"(SELECT count(*) FROM {inner.text}{also} i.k = a.k)")
        if dice.random() < 0.2:
            self._mention()
            return self._made(f"SELECT {', '.join(outputs)} FROM {one.text} WHERE a.id < 30 AND {condition}")
        return self._made(f"SELECT {', '.join(outputs)} FROM {one.text} WHERE {condition}")

    def _named(self) -> Query:
        """Queries with a name, and such in FROM."""
        dice = self.dice
        one = self._mention(plain=True)
        where = self._where(one.columns)
        outer = [
            Column("ts", one.time.type),
            Column("x", pa.float64()),
            Column("id", pa.int64()),
            Column("k", pa.int32()),
        ]
        names = [f"{one.column(each).text} AS {each}" for each in ("x", "id", "k")]
        inside = f"SELECT {', '.join([f'{one.time.text} AS ts', *names])} FROM {one.text}{where}"
        name = dice.choice(["c", "calm", one.name if one.name.islower() and "/" not in one.name else "c"])
        ask = dice.choice(
            [
                lambda: f"SELECT {', '.join(self._outputs(outer, 3))} FROM {name}{self._where(outer)}",
                lambda: f"SELECT count(*), sum(x), min(ts), max(ts) FROM {name}{self._where(outer)}",
                lambda: (
                    f"SELECT {self.write.bucket(outer[0])} AS g, count(*) FROM {name}{self._where(outer)} GROUP BY g"
                ),
                lambda: f"SELECT l.id, r.x FROM {name} l JOIN {name} r ON l.id = r.id + 1",
                lambda: f"SELECT * FROM {name} WHERE x = (SELECT max(x) FROM {name})",
                lambda: f"SELECT count(*) FROM {name} WHERE id IN (SELECT id FROM nanos)",
            ]
        )()
        way = dice.randrange(7)
        materialized = dice.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
        if way == 0 and " l JOIN" not in ask and "SELECT max" not in ask:
            return self._made(ask.replace(f"FROM {name}", f"FROM ({inside}) {name}", 1))
        if way == 1:
            ask = ask.replace(
                f"FROM {name}", f"FROM (WITH {name} AS (SELECT * FROM {name} WHERE id % 2 = 0) FROM {name}) {name}", 1
            )
        if way == 2:
            return self._made(
                f"WITH d AS (SELECT 1 AS one), {name}(ts, x, id, k) AS {materialized}({inside}), e AS ({ask}) "
                "SELECT * FROM e, d"
            )
        if way == 3:
            return self._made(
                f"WITH {name} AS {materialized}({inside}) "
                f"SELECT count(*) FROM ({ask}) UNION ALL SELECT count(*) FROM {name}"
            )
        if way == 4:
            return self._made(
                f"SELECT (WITH {name} AS ({inside}) SELECT count(*) FROM {name}), (SELECT count(*) FROM calm)"
            )
        return self._made(f"WITH {name} AS {materialized}({inside}) {ask}")

    def _united(self) -> Query:
        dice = self.dice
        parts = []
        for _ in range(dice.choice([2, 2, 3])):
            one = self._mention()
            star = "id, k, s, x" if dice.random() < 0.5 else "k, s"
            names = ", ".join(one.column(each).text for each in star.split(", "))
            parts.append((star, f"SELECT {names} FROM {one.text}{self._where(one.columns)}"))
        columns = parts[0][0]
        same = [text for star, text in parts if star == columns]
        between = f" {dice.choice(['UNION ALL', 'UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT', 'UNION ALL BY NAME'])} "
        text = between.join(same)
        if dice.random() < 0.4:
            text = f"SELECT {columns.split(', ')[0]}, count(*) FROM ({text}) u GROUP BY 1"
        elif dice.random() < 0.3:
            text = f"SELECT * FROM ({text}) u WHERE k {dice.choice(OPERATORS)} {dice.randrange(10)}"
        return self._made(text)

    def _odd(self) -> Query:
        """What is seldom written, and what is wrong."""
        dice, one = self.dice, self._mention("a")
        self._prefixed(one)
        column = dice.choice(one.columns).text
        number, s = one.column("id").text, one.column("s").text
        texts = [
            f"SELECT {s}::INTEGER FROM {one.text}",
            f"SELECT sum({s}) FROM {one.text}",
            f"SELECT a.nope FROM {one.text}",
            f"SELECT * FROM {one.text} WHERE nope > 3",
            f"SELECT {column} FROM {one.text} GROUP BY {number}",
            f"SELECT count(*) FROM {one.text} WHERE {column} > {self.write.constant(dice.choice(one.columns).type)}",
            f"SELECT {column}, {column}, {column} AS {quoted('a b')} FROM {one.text}",
            f"SELECT 1 / 0, {number} // 0 FROM {one.text}",
            f"SELECT count(*) FROM {one.text} TABLESAMPLE 100%",
            f"SELECT unnest([1, {number}]) AS u FROM {one.text}",
            f"SELECT [x FOR x IN [1, {number}] IF x > 3] FROM {one.text}",
            f"SELECT {{'k': a.k, 's': a.s}} AS pair FROM {one.text}",
            f"SELECT a.k.abs() FROM {one.text}",
            f"SELECT {self._star()} FROM {one.text}, range(2) r(i) WHERE a.id % 2 = i",
            f"SELECT l.v FROM {one.text}, LATERAL (SELECT a.id + 1 AS v) l",
            f"SELECT COLUMNS('^[ks]$') FROM {one.text}",
            f"SELECT max(COLUMNS([c FOR c IN ['k', 'x']])) FROM {one.text}",
            f"SELECT * EXCLUDE (ts) REPLACE (k + 1 AS k) FROM (SELECT ts, k, s FROM {one.text})",
            f"PIVOT (SELECT k, s, x FROM {one.text}) ON k IN (1, 2) USING count(*) GROUP BY s",
            f"SELECT count(*) FROM {one.text} WHERE {self.write.condition(one.columns)} GROUP BY ()",
            f"SELECT k, CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS t FROM {one.text}",
            f"SELECT sum(CAST(k AS UTINYINT)) FROM {one.text} WHERE k > -1",
            f"WITH RECURSIVE r AS (SELECT min(id) AS i FROM {one.text} UNION SELECT i + 1 FROM r WHERE i < 9) FROM r",
            f"SELECT a.k AS s, count(*) FROM {one.text} GROUP BY s",
            f"SELECT count(*) FROM {one.text} WHERE a.id::VARCHAR LIKE '1%' AND a.id BETWEEN 10 AND 20",
        ]
        return self._made(dice.choice(texts))
