"""Seeded event streams as Arrow tables: *sensor*, *stock*, *sine*, *ticks*, *log*, *devops*, *readings*, *diagnostics*.

A stream is made in chunks of :data:`CHUNK_ROWS` rows, each from a generator seeded with (seed, stream,
chunk); whatever goes on over a chunk's end (a walk's position, the clock) is carried along. So the same seed
gives the same rows whatever the length asked for (``table(s, n)`` is a prefix of ``table(s, m)`` for n < m),
and :func:`batches` makes streams longer than memory one batch at a time. Columns have no nulls.

========================  ======  ====================================================================
stream                    B/row   columns
========================  ======  ====================================================================
``sensor``                56      ts int64 (us, steps of 1000 +- 50), six doubles: reflected random walks
                                  of readings with one to three decimals
``stock``                 28      ts int64 (us, exponential gaps), seq int64, symbol int32, price float32
                                  (a walk in cents for each symbol), volume int32
``stock_strings``         ~32     the same with ticker symbols as strings
``sine``                  56      ts int64 (the row number), six doubles sin(2 pi i / 10^6 + k pi / 6)
``ticks``                 16      ts int64 (ms, one every 10), a double: a reflected random walk in sixteenths
``wide_ticks``            80      the same with nine doubles
``log``                   ~150    see :mod:`loglines`
``devops``                ~115    see :mod:`machines`, as for the next two: ts timestamp, two texts, ten doubles
``readings``              ~105    ts timestamp, four texts, eight doubles
``diagnostics``           ~75     ts timestamp, four texts, four doubles, status int64
========================  ======  ====================================================================
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loglines import LogLines
from machines import START_MICROS, Diagnostics, Hosts, Readings

CHUNK_ROWS = 1 << 17
"""Rows made at a time, and rows of each batch of a stream but its last."""

Ints = npt.NDArray[np.int64]


class Stream(Protocol):
    """One endless event stream: a schema and chunks that follow one another."""

    schema: pa.Schema

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """The columns of the next ``rows`` rows; ``first`` is the number of the first of them."""
        ...


class Sensor:
    """A machine's six readings about every millisecond, as a field bus reports them: decimal numbers.

    Each reading is a Gaussian random walk, reflected at the ends of its range and rounded to its number of
    decimals; a value is the double nearest to the decimal, as if it had been parsed from text.
    """

    READINGS = (
        # name, lowest, highest, decimals, standard deviation of a step
        ("temperature", -20.0, 80.0, 2, 0.05),
        ("humidity", 10.0, 90.0, 1, 0.1),
        ("pressure", 950.0, 1050.0, 2, 0.05),
        ("voltage", 210.0, 250.0, 1, 0.2),
        ("current", 0.0, 16.0, 3, 0.01),
        ("speed", 0.0, 3000.0, 1, 0.5),
    )
    schema = pa.schema([("ts", pa.int64()), *((name, pa.float64()) for name, *_ in READINGS)])

    def __init__(self) -> None:
        self._clock = START_MICROS
        self._positions = [(lowest + highest) / 2 for _, lowest, highest, *_ in self.READINGS]

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`Stream.chunk`."""
        ts = self._clock + np.cumsum(rng.integers(950, 1051, rows))
        self._clock = int(ts[-1])
        columns: list[Any] = [ts]
        for k, (_, lowest, highest, decimals, deviation) in enumerate(self.READINGS):
            walk = rng.standard_normal(rows)
            walk *= deviation
            np.cumsum(walk, out=walk)
            walk += self._positions[k]
            self._positions[k] = float(walk[-1])
            columns.append(_decimal(_reflect(walk, lowest, highest), decimals))
        return columns


class Stock:
    """Trades of 500 symbols, the popular ones far more often, each price walking by whole cents."""

    SYMBOLS = 500
    LOWEST_CENTS = 100
    schema = pa.schema(
        [
            ("ts", pa.int64()),
            ("seq", pa.int64()),
            ("symbol", pa.int32()),
            ("price", pa.float32()),
            ("volume", pa.int32()),
        ]
    )

    def __init__(self) -> None:
        fixed = np.random.default_rng(500)
        popularity = 1.0 / np.arange(1, self.SYMBOLS + 1) ** 0.8
        self._popularity = np.cumsum(popularity) / popularity.sum()
        self._by_rank = fixed.permutation(self.SYMBOLS).astype(np.int32)
        self._cents = np.exp(fixed.uniform(np.log(500), np.log(50_000), self.SYMBOLS)).astype(np.int64)
        self._clock = START_MICROS

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`Stream.chunk`."""
        ts = self._clock + np.cumsum(rng.exponential(120.0, rows).astype(np.int64))
        self._clock = int(ts[-1])
        symbol = self._by_rank[np.searchsorted(self._popularity, rng.random(rows))]
        price = (self._walk(symbol, rng) / 100).astype(np.float32)
        # Round lots for the most part, odd lots for the rest.
        volume = np.where(
            rng.random(rows) < 0.6,
            100 * rng.geometric(0.4, rows),
            rng.integers(1, 100, rows),
        ).astype(np.int32)
        return [ts, np.arange(first, first + rows), symbol, price, volume]

    def _walk(self, symbol: npt.NDArray[np.int32], rng: np.random.Generator) -> Ints:
        """Prices in cents: the running sum of the steps of each row's own symbol."""
        rows = len(symbol)
        steps = rng.choice(np.array([-2, -1, 0, 1, 2], np.int64), rows, p=[0.05, 0.2, 0.5, 0.2, 0.05])
        order = np.argsort(symbol.astype(np.uint16), kind="stable")
        grouped = symbol[order]
        sums = np.cumsum(steps[order])
        firsts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
        before = np.r_[0, sums[firsts[1:] - 1]]
        lengths = np.diff(np.r_[firsts, rows])
        sums += np.repeat(self._cents[grouped[firsts]] - before, lengths)
        self._cents[grouped[firsts]] = sums[firsts + lengths - 1]
        cents = np.empty_like(sums)
        cents[order] = sums
        return np.abs(cents - self.LOWEST_CENTS) + self.LOWEST_CENTS


class StockStrings(Stock):
    """The trades of :class:`Stock` with ticker symbols (two to five letters) for the symbols' numbers."""

    schema = Stock.schema.set(2, pa.field("symbol", pa.string()))

    def __init__(self) -> None:
        super().__init__()
        fixed = np.random.default_rng(501)
        tickers: dict[str, None] = {}
        while len(tickers) < self.SYMBOLS:
            tickers["".join(map(chr, fixed.integers(65, 91, fixed.integers(2, 6))))] = None
        self._tickers = pa.array(tickers, pa.string())

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`Stream.chunk`."""
        columns = super().chunk(rng, first, rows)
        columns[2] = self._tickers.take(pa.array(columns[2]))
        return columns


class Sine:
    """Six full-precision sines of period one million rows, column k shifted by k pi / 6."""

    PERIOD = 1_000_000
    schema = pa.schema([("ts", pa.int64()), *((f"s{k}", pa.float64()) for k in range(6))])

    def __init__(self) -> None:
        turn = np.arange(self.PERIOD) / self.PERIOD * 2 * np.pi
        self._periods = [np.sin(turn + k * np.pi / 6) for k in range(6)]

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`Stream.chunk`."""
        ts = np.arange(first, first + rows)
        phase = ts % self.PERIOD
        return [ts, *(period[phase] for period in self._periods)]


class Ticks:
    """A hundred events a second, each with a reading that walks by sixteenths: sums of these are exact."""

    STEP_MILLIS = 10
    COLUMNS = 1
    HIGHEST = 1024.0

    def __init__(self) -> None:
        self.schema = pa.schema([("ts", pa.int64()), *((f"v{k}", pa.float64()) for k in range(self.COLUMNS))])
        self._positions = [self.HIGHEST / 2] * self.COLUMNS

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`Stream.chunk`."""
        columns: list[Any] = [np.arange(first, first + rows) * self.STEP_MILLIS]
        for k in range(self.COLUMNS):
            walk = np.cumsum(rng.integers(-8, 9, rows)) / 16 + self._positions[k]
            self._positions[k] = float(walk[-1])
            columns.append(_reflect(walk, 0.0, self.HIGHEST))
        return columns


class WideTicks(Ticks):
    """The same with nine readings."""

    COLUMNS = 9


STREAMS: dict[str, Callable[[], Stream]] = {
    "sensor": Sensor,
    "stock": Stock,
    "stock_strings": StockStrings,
    "sine": Sine,
    "ticks": Ticks,
    "wide_ticks": WideTicks,
    "log": LogLines,
    "devops": Hosts,
    "readings": Readings,
    "diagnostics": Diagnostics,
}


def batches(stream: str, rows: int, *, seed: int = 1) -> Iterator[pa.RecordBatch]:
    """The first ``rows`` events of a stream, in batches of ``CHUNK_ROWS`` (the last one may be shorter)."""
    if stream not in STREAMS:
        raise KeyError(f"no event stream {stream!r}; there are {', '.join(STREAMS)}")
    source = STREAMS[stream]()
    # StockStrings is to be Stock with other symbols, so both draw the same numbers.
    family = zlib.crc32(stream.split("_")[0].encode())
    for number, first in enumerate(range(0, rows, CHUNK_ROWS)):
        rng = np.random.default_rng([seed, family, number])
        columns = source.chunk(rng, first, CHUNK_ROWS)
        arrays = [_array(c, f.type) for c, f in zip(columns, source.schema, strict=True)]
        yield pa.record_batch(arrays, source.schema).slice(0, min(CHUNK_ROWS, rows - first))


def table(stream: str, rows: int, *, seed: int = 1) -> pa.Table:
    """The first ``rows`` events of a stream as one table, a chunk per batch of :func:`batches`."""
    first, *others = batches(stream, max(rows, 1), seed=seed)
    return pa.Table.from_batches([first, *others]).slice(0, rows)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """An Arrow array without validity bits, which functions that make strings leave behind all set."""
    array = pa.array(values, kind)
    validity, *others = array.buffers()
    if validity is None:
        return array
    if array.null_count:
        raise ValueError(f"a column of type {kind} has {array.null_count} nulls, expected none")
    return pa.Array.from_buffers(kind, len(array), [None, *others], 0, array.offset)


def _reflect(walk: npt.NDArray[np.float64], lowest: float, highest: float) -> npt.NDArray[np.float64]:
    """The walk folded back into [lowest, highest] at both ends, as often as it takes."""
    span = highest - lowest
    walk -= lowest
    np.mod(walk, 2 * span, out=walk)
    walk -= span
    np.abs(walk, out=walk)
    np.subtract(highest, walk, out=walk)
    return walk


def _decimal(values: npt.NDArray[np.float64], decimals: int) -> npt.NDArray[np.float64]:
    """The doubles nearest to the values' decimal roundings (a quotient of integers is rounded correctly)."""
    scale = 10.0**decimals
    values *= scale
    np.rint(values, out=values)
    values /= scale
    values += 0.0  # a reading of zero has no sign
    return values
