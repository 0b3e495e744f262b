"""Continuous queries composed at random: history, what arrives, what is begun again by its name, and tables agree."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import tidelog

NAMES: Final = {"names": pa.table({"k": ["u", "v", None], "weight": [1.5, -0.5, 9.0]})}
TIMES: Final = [pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("s"), pa.int64()]
_PARTS: Final = {"s": "seconds", "us": "microseconds"}
LATER: Final = 2000
"""A time behind all that a query may give of the rows before it."""


class _Queries:
    """Makes queries whose rows are ``ts, k, x``. Where rows of one time have no order, nothing asks for one."""

    def __init__(self, dice: np.random.Generator, time: pa.DataType) -> None:
        self._dice = dice
        self._is_number = pa.types.is_integer(time)
        self._unit = "ticks" if self._is_number else time.unit
        self._aliases = 0

    def query(self, depth: int, *, has_ties: bool = True) -> str:
        """With ``has_ties``, the order of rows of one time may depend on who asks."""
        kinds = [self._selected, self._windows, self._sessions, self._grouped, self._rows]
        if not depth:
            kinds += [self._counted, self._situations, self._derived]
        else:
            kinds += [self._united, self._beside, self._paired, *([self._looked_up, self._merged] if has_ties else [])]
        return str(self._one(*kinds)(depth, has_ties))

    def _one(self, *choices: Any) -> Any:
        return choices[int(self._dice.integers(len(choices)))]

    def _length(self, ticks: int) -> str:
        return str(ticks) if self._is_number else f"'{ticks} {self._unit}'"

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _stream(self) -> str:
        return str(self._one("a", "b", "c"))

    def _source(self, depth: int, has_ties: bool) -> str:
        return f"({self.query(depth - 1, has_ties=has_ties)})" if depth else self._stream()

    def _table(self, depth: int, has_ties: bool) -> str:
        source = self._source(depth, has_ties)
        return source if depth else f"TABLE {source}"

    def _where(self) -> str:
        return str(self._one("", "", " WHERE x > 0", " WHERE k IS NOT NULL", " WHERE x IS NULL OR NOT isnan(x)"))

    def _aggregate(self) -> str:
        return str(self._one("max(x)", "sum(x)", "avg(x)", "CAST(count(*) FILTER (WHERE x > 0) AS DOUBLE)"))

    def _keys(self) -> tuple[str, str]:
        return ("k", ", k") if self._dice.random() < 0.5 else ("max(k)", "")

    def _selected(self, depth: int, has_ties: bool) -> str:
        value = self._one("x * 2", "coalesce(x, 0.25)", "abs(x)")
        return f"SELECT ts, k, {value} AS x FROM {self._source(depth, has_ties)} {self._alias()}{self._where()}"

    def _by(self, window: str, depth: int, has_ties: bool) -> str:
        (key, more), source = self._keys(), f"{self._source(depth, has_ties)} {self._alias()}{self._where()}"
        return f"SELECT window_end AS ts, {key} AS k, {self._aggregate()} AS x FROM {source} GROUP BY {window}{more}"

    def _windows(self, depth: int, has_ties: bool) -> str:
        sizes = self._one((7,), (9, 4), (3, 5))
        return self._by(f"window(ts, {', '.join(map(self._length, sizes))})", depth, has_ties)

    def _sessions(self, depth: int, has_ties: bool) -> str:
        return self._by(f"session_window(ts, {self._length(2)})", depth, has_ties)

    def _counted(self, depth: int, has_ties: bool) -> str:
        return self._by(f"count_window({self._one('2, 1', '3, 3', '2, 5')}, ts)", depth, has_ties)

    def _hop(self, depth: int, has_ties: bool) -> str:
        lengths = self._one(("TUMBLE", 5, 2), ("HOP", 3, 6))
        told = ", ".join(map(self._length, lengths[1:]))
        return f"{lengths[0]}({self._table(depth, has_ties)}, DESCRIPTOR(ts), {told})"

    def _grouped(self, depth: int, has_ties: bool) -> str:
        (key, more), rows = self._keys(), self._hop(depth, has_ties)
        items = f"window_end AS ts, {key} AS k, {self._aggregate()} AS x"
        return f"SELECT {items} FROM {rows} GROUP BY window_start, window_end{more}"

    def _rows(self, depth: int, has_ties: bool) -> str:
        return f"SELECT ts, k, x FROM {self._hop(depth, has_ties)}{self._where()}"

    def _united(self, depth: int, has_ties: bool) -> str:
        return " UNION ALL ".join(f"SELECT ts, k, x FROM {self._source(at, has_ties)} u" for at in (depth, 0))

    def _beside(self, depth: int, _: bool) -> str:
        left, right, outer = self._alias(), self._alias(), self._one("", "LEFT ")
        asof, how = self._one(("ASOF NEAREST", ">="), ("ASOF", ">"), ("ASOF", "<="))
        sides = f"{self._source(depth, False)} {left} {asof} {outer}JOIN {self._source(0, False)} {right}"
        on = f"{left}.k = {right}.k AND {left}.ts {how} {right}.ts TOLERANCE {self._length(6)}"
        return f"SELECT {left}.ts, {left}.k, {right}.x FROM {sides} ON {on}"

    def _paired(self, depth: int, _: bool) -> str:
        left, right = self._alias(), self._alias()
        sides = [f"{self._table(at, False)} AS {name} DESCRIPTOR(ts)" for at, name in ((depth, left), (0, right))]
        on = self._one(f"{left}.k = {right}.k", f"{left}.x BETWEEN {right}.x - 1 AND {right}.x")
        windows = f"LEFT => {self._length(3)}, RIGHT => {self._one('2 ROWS', self._length(2))}"
        join = f"WINDOW_JOIN({', '.join(sides)}, ON => {on}, {windows})"
        return f"SELECT time AS ts, {left}.k, {left}.x + {right}.x AS x FROM {join}"

    def _looked_up(self, depth: int, _: bool) -> str:
        at, outer = self._alias(), self._one("", "LEFT ")
        joined = f"{self._source(depth, True)} {at} {outer}JOIN names ON {at}.k = names.k"
        return f"SELECT ts, {at}.k, x * weight AS x FROM {joined}"

    def _merged(self, depth: int, _: bool) -> str:
        sides = [f"{self._table(at, True)} DESCRIPTOR(ts)" for at in (depth, 0)]
        return f"SELECT ts, k, x FROM LOGICAL_MERGE({', '.join(sides)}{self._one('', ', KEY => *')})"

    def _found(self, clause: str, returned: str) -> str:
        lasts = "2 ticks" if self._is_number else self._length(2)
        defined = f"PARTITION BY k ORDER BY ts DEFINE P AS x > 0, Q AS x <= 1 AT LEAST {lasts}"
        return f"FROM {self._stream()} {clause} ({defined} {returned})"

    def _situations(self, *_: Any) -> str:
        within = "30 ticks" if self._is_number else self._length(30)
        pattern = f"PATTERN P overlaps | meets | before Q WITHIN {within} RETURN max(P.x) AS x"
        return f"SELECT match_time AS ts, k, x {self._found('SITUATIONS', pattern)}"

    def _derived(self, *_: Any) -> str:
        return f"SELECT end_time AS ts, k, x {self._found('DERIVE', 'RETURN sum(x) AS x')}"


def _table(dice: np.random.Generator, time: pa.DataType, times: Any, keys: Any) -> pa.Table:
    x = np.where(dice.random(len(times)) < 0.06, np.nan, dice.integers(-8, 9, len(times)) / 4)
    ts = pa.array(np.asarray(times, np.int64)).cast(time)
    x = pa.array(x, pa.float64(), mask=dice.random(len(times)) < 0.1)
    return pa.table({"ts": ts, "k": pa.array(keys, pa.string()), "x": x})


def _arriving(dice: np.random.Generator, time: pa.DataType, lateness: int) -> pa.Table:
    """Rows with ties, of which none is later than it may be; now and then none."""
    times = np.sort(dice.integers(0, 40, int(dice.choice([0, 15, 30]))))
    order = np.argsort(times + dice.random(len(times)) * lateness * 0.99, kind="stable")
    return _table(dice, time, times[order], dice.choice(np.array(["u", "v", "w", None]), len(times)))


def _counts(batches: Iterable[Any], before: int | None = None) -> Counter[str]:
    """Rows, those before a time alone, and how often each is there."""
    found: Counter[str] = Counter()
    for batch in batches:
        times = batch["ts"].cast(pa.int64()).to_pylist()
        rows = zip(times, batch["k"].to_pylist(), batch["x"].to_pylist(), strict=True)
        found.update(repr(row) for row in rows if before is None or row[0] < before)
    return found


def _check(directory: Path, seed: int) -> int:
    """Ask one query everywhere; how many rows it has."""
    dice = np.random.default_rng(seed)
    time, lateness = TIMES[int(dice.integers(len(TIMES)))], int(dice.choice([0, 3]))
    text = _Queries(dice, time).query(int(dice.integers(3)))
    ticks: Any = lateness if pa.types.is_integer(time) else datetime.timedelta(**{_PARTS[time.unit]: lateness})
    own, said = ({"lateness": ticks}, {}) if dice.random() < 0.5 else ({}, {"lateness": ticks})
    rows = {name: _arriving(dice, time, lateness) for name in "abc"}
    asked: dict[str, Any] = {"tables": NAMES} if "names" in text else {}
    with tidelog.open(directory, maintenance="manual") as store:
        streams = {name: store.create_stream(name, rows["a"].schema, "ts", **own) for name in rows}
        live = store.subscribe(text, **asked, **said)
        for share in range(2):
            for name, table in rows.items():
                half = table.num_rows // 2
                streams[name].append(table.slice(0, half) if not share else table.slice(half))
                streams[name].flush()
            with store.subscribe(text, into="found", follow=False, **asked, **said) as kept:
                kept.wait()
        live.finish()
        expected = _counts([store.sql(text, **asked).arrow()])
        assert _counts(live) == expected, f"seed {seed}, what arrives: {text}"
        of_tables = tidelog.sql(text, tables={**rows, **NAMES}).arrow()
        assert _counts([of_tables]) == expected, f"seed {seed}, tables: {text}"
        for name in rows:  # what would wait for more rows has them
            for far in (LATER, 2 * LATER):
                streams[name].append(_table(dice, time, [far] * 4, ["u", "v", "w", None]))
            streams[name].flush()
        with store.subscribe(text, into="found", follow=False, **asked, **said) as kept:
            kept.wait()
        past = _counts([store.sql(text, **asked).arrow()], LATER)
        assert _counts([store.sql("FROM found").arrow()], LATER) == past, f"seed {seed}, into: {text}"
    return sum(expected.values())


def test_composed_queries_give_the_same_rows_everywhere(tmp_path: Path) -> None:
    assert sum(_check(tmp_path / str(seed), seed) > 0 for seed in range(6)) > 3


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 2100, 100))
def test_many_composed_queries_give_the_same_rows_everywhere(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 100):
        _check(tmp_path / str(seed), seed)
