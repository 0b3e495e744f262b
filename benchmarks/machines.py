"""Machines that report in turns: the CPUs of a thousand hosts (*devops*), and what five hundred trucks tell of where
they are (*readings*) and how they do (*diagnostics*).

Every machine reports every ten seconds, one after the other within a tick, all with the tick's time. Columns have the
meaning of those of the public benchmark for time series (TSBS, ``cpu-only`` and ``iot``); the values are our own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

START_MICROS = 1_767_225_600_000_000
"""The first time stamp of a stream: 2026-01-01T00:00:00Z."""

TICK_MICROS = 10_000_000
"""Between two reports of a machine."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Machines:
    """Machines that report in turns, and the texts that each of them has in every row."""

    COUNT: int
    schema: pa.Schema

    def __init__(self, texts: list[list[str]]) -> None:
        self._texts = [pa.array(values, pa.string()) for values in texts]

    def _rows(self, first: int, rows: int) -> tuple[Ints, Ints, list[pa.Array]]:
        """Time and machine of each row, and the texts of its machine."""
        numbers = np.arange(first, first + rows)
        machine = numbers % self.COUNT
        times = START_MICROS + numbers // self.COUNT * TICK_MICROS
        return times, machine, [text.take(pa.array(machine)) for text in self._texts]


class Walks:
    """A random walk for each of some machines that report in turns, reflected at the ends of its range."""

    def __init__(self, count: int, low: float, high: float, deviation: float, *, seed: int) -> None:
        self._low, self._high, self._deviation = low, high, deviation
        self._positions = np.random.default_rng(seed).uniform(low, high, count)

    def step(self, rng: np.random.Generator, first: int, rows: int, decimals: int) -> Floats:
        """The next position of the machine of each row, as the double nearest to a decimal."""
        count = len(self._positions)
        before = first % count
        ticks = -(-(before + rows) // count)
        steps = np.zeros(ticks * count)
        steps[before : before + rows] = rng.normal(0, self._deviation, rows)
        walks = np.cumsum(steps.reshape(ticks, count), axis=0) + self._positions
        self._positions = walks[-1].copy()
        span = self._high - self._low
        folded = self._high - np.abs(np.mod(walks.ravel()[before : before + rows] - self._low, 2 * span) - span)
        scale = 10.0**decimals
        return np.rint(folded * scale) / scale + 0.0


class Hosts(_Machines):
    """Ten shares of the CPU, in percent with one decimal, of each host; and where the host stands."""

    COUNT = 1000
    USAGES = ("user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
    REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2", "ap-southeast-1")
    schema = pa.schema(
        [
            ("ts", pa.timestamp("us")),
            ("hostname", pa.string()),
            ("region", pa.string()),
            *((f"usage_{name}", pa.float64()) for name in USAGES),
        ]
    )

    def __init__(self) -> None:
        names = range(self.COUNT)
        super().__init__([[f"host_{k}" for k in names], [self.REGIONS[k % len(self.REGIONS)] for k in names]])
        self._usages = [Walks(self.COUNT, 0, 100, 1, seed=k) for k in range(len(self.USAGES))]

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`data.Stream.chunk`."""
        times, _, texts = self._rows(first, rows)
        return [times, *texts, *(each.step(rng, first, rows, 1) for each in self._usages)]


class _Trucks(_Machines):
    COUNT = 500
    FLEETS = ("East", "West", "North", "South")
    DRIVERS = ("Derek", "Rodney", "Albert", "Andy", "Seth", "Trish")
    MODELS = ("F-150", "G-2000", "H-2")
    TEXTS = (("name", pa.string()), ("fleet", pa.string()), ("driver", pa.string()), ("model", pa.string()))

    def __init__(self) -> None:
        kinds = (self.FLEETS, self.DRIVERS, self.MODELS)
        fixed = np.random.default_rng(502)
        chosen = [fixed.integers(0, len(each), self.COUNT) for each in kinds]
        names = [f"truck_{k}" for k in range(self.COUNT)]
        super().__init__([names, *([each[k] for k in of] for each, of in zip(kinds, chosen, strict=True))])
        self._model = chosen[-1]

    def _by_model(self, machine: Ints, values: tuple[float, ...]) -> Floats:
        return np.array(values)[self._model[machine]]


class Readings(_Trucks):
    """Where a truck is, how fast it drives (it stands about a third of the time) and what it burns."""

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us")),
            *_Trucks.TEXTS,
            ("nominal_fuel_consumption", pa.float64()),
            ("latitude", pa.float64()),
            ("longitude", pa.float64()),
            ("elevation", pa.float64()),
            ("velocity", pa.float64()),
            ("heading", pa.float64()),
            ("grade", pa.float64()),
            ("fuel_consumption", pa.float64()),
        ]
    )
    _WALKS = (
        # lowest, highest, standard deviation of a step, decimals
        (-90.0, 90.0, 0.005, 5),
        (-180.0, 180.0, 0.005, 5),
        (0.0, 5000.0, 2.0, 0),
        (-50.0, 100.0, 3.0, 0),
        (0.0, 360.0, 5.0, 0),
        (0.0, 100.0, 2.0, 0),
        (0.0, 50.0, 1.0, 1),
    )

    def __init__(self) -> None:
        super().__init__()
        self._walks = [
            Walks(self.COUNT, low, high, deviation, seed=100 + k)
            for k, (low, high, deviation, _) in enumerate(self._WALKS)
        ]

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`data.Stream.chunk`."""
        times, machine, texts = self._rows(first, rows)
        values = [w.step(rng, first, rows, each[3]) for w, each in zip(self._walks, self._WALKS, strict=True)]
        values[3] = np.maximum(values[3], 0.0)
        return [times, *texts, self._by_model(machine, (15.0, 19.0, 12.0)), *values]


class Diagnostics(_Trucks):
    """How full a truck's tank is, what it carries, and whether it is broken (its status is not 0)."""

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us")),
            *_Trucks.TEXTS,
            ("load_capacity", pa.float64()),
            ("fuel_capacity", pa.float64()),
            ("fuel_state", pa.float64()),
            ("current_load", pa.float64()),
            ("status", pa.int64()),
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self._fuel = Walks(self.COUNT, 0, 1, 0.01, seed=200)
        self._load = Walks(self.COUNT, 0, 1, 0.005, seed=201)
        self._health = Walks(self.COUNT, -3, 1, 0.05, seed=202)

    def chunk(self, rng: np.random.Generator, first: int, rows: int) -> list[Any]:
        """See :meth:`data.Stream.chunk`."""
        times, machine, texts = self._rows(first, rows)
        capacity = self._by_model(machine, (2000.0, 5000.0, 1500.0))
        fuel = self._fuel.step(rng, first, rows, 2)
        load = np.rint(self._load.step(rng, first, rows, 4) * capacity)
        status = np.maximum(np.ceil(self._health.step(rng, first, rows, 2) * 3), 0).astype(np.int64)
        return [times, *texts, capacity, self._by_model(machine, (300.0, 400.0, 150.0)), fuel, load, status]
