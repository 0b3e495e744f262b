"""Does the output go on evenly while its inputs stall? In simulated time, and as plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import Bench, Bound, Comparison, Figures, Question
from questions.merge.copies import Copies, revised
from tidelog.operators.merge.batches.engine import Keyed, Rows
from tidelog.operators.merge.codes import CAUSE, INSERT, KIND

BURSTS, CONGESTION = "bursts smoothed", "congestion masked"
STEADIEST = "the steadiest input"
INPUTS = 4
RATE = 5_000
"""Elements of each input in a second."""
ELEMENTS_OF_AN_EVENT = 1.57
"""So many with the adjusts, on average."""
BIN = 0.1
FULL_SECONDS = 30
SMOOTH = Bound(0.5, 0.25)
"""The coefficient of variation of elements in 100 ms, against that of any input."""
NO_DIP = Bound(0.9, 0.95)
"""The fewest elements of the output in a second, against their mean."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Inserts in each bin of time, of every input and of the output."""

    inputs: list[Floats]
    output: Floats

    def variation(self) -> tuple[float, list[float]]:
        """The coefficients of variation of the output and of the inputs."""
        return _variation(self.output), [_variation(each) for each in self.inputs]


def ask_bursts(bench: Bench, seconds: int) -> None:
    """Inputs stall for 20 ms now and then and catch up at once: 0.3 to 0.5 % of their elements are held up."""
    dice = np.random.default_rng(5)
    copies = revised(Copies(seconds * RATE, INPUTS, 0.2, delay=20))
    arrivals = []
    for number, copy in enumerate(copies):
        count = copy.shape[1]
        held = dice.random(count) < 0.003 + 0.002 * number / (INPUTS - 1)
        stalls = np.where(held, np.maximum(dice.normal(0.020, 0.005, count), 0), 0)
        arrivals.append(_queued(_sent(copy), stalls))
    rates = _rates(copies, arrivals)
    ours, inputs = rates.variation()
    bench.answer(
        Question(
            BURSTS,
            "variation of elements per 100 ms",
            seconds * RATE,
            Figures((ours,)),
            {STEADIEST: Figures((min(inputs),))},
            [Comparison(STEADIEST, (STEADIEST,), SMOOTH)],
            higher_is_better=False,
            note=f"inputs: {', '.join(f'{each:.2f}' for each in inputs)}; {seconds} s of simulated time",
        )
    )
    _plot(bench.plots, "merge-bursts.png", rates, "Four inputs that stall now and then, and what comes out")


def ask_congestion(bench: Bench, seconds: int) -> None:
    """Three of the inputs are congested at different times, two or all three of them at once for a while."""
    dice = np.random.default_rng(6)
    copies = revised(Copies(seconds * RATE, INPUTS, 0.2, delay=20))
    arrivals = []
    for number, copy in enumerate(copies):
        sent = _sent(copy)
        first = (0.15 + 0.2 * number) * seconds
        congested = (sent > first) & (sent < first + 0.3 * seconds) & (number < INPUTS - 1)
        delays = np.where(congested, np.maximum(dice.normal(1.5 / RATE, 0.5 / RATE, len(sent)), 0), 0)
        arrivals.append(_queued(sent, delays, 0.5 / RATE))
    rates = _rates(copies, arrivals)
    whole = len(rates.output) // 10 * 10
    by_second = rates.output[:whole].reshape(-1, 10).sum(axis=1)[1:-1]
    lowest = [float(each[:whole].reshape(-1, 10).sum(axis=1)[1:-1].min()) for each in rates.inputs]
    mean = float(by_second.mean())
    bench.answer(
        Question(
            CONGESTION,
            "fewest elements in a second of the output, of their mean",
            seconds * RATE,
            Figures((float(by_second.min()) / mean,)),
            {},
            [Comparison("the mean", (), NO_DIP)],
            note=f"inputs: {', '.join(f'{each / mean:.2f}' for each in lowest)}; {seconds} s of simulated time",
        )
    )
    _plot(bench.plots, "merge-congestion.png", rates, "Three of four inputs are congested, and what comes out")


def _sent(copy: Rows) -> Floats:
    """When elements are sent: those of an event together, events as far apart on all copies as gives the rate."""
    found: Floats = np.cumsum(copy[KIND] == INSERT) * (ELEMENTS_OF_AN_EVENT / RATE)
    return found


def _queued(sent: Floats, held: Floats, least: float = 0.0) -> Floats:
    """When elements arrive: in their order, held up one after the other, else as soon as they were sent.

    It is the running maximum of a queue: ``arrival[i] = max(arrival[i - 1] + work[i], sent[i])``.
    """
    work = np.cumsum(np.maximum(held, least))
    found: Floats = np.maximum.accumulate(sent - work) + work
    return found


def _rates(copies: Sequence[Rows], arrivals: Sequence[Floats]) -> Rates:
    """Merge in the order of arrival; an element comes out when the one arrives by which it does."""
    owners = np.concatenate([np.full(len(each), number) for number, each in enumerate(arrivals)])
    places = np.concatenate([np.arange(len(each)) for each in arrivals])
    times = np.concatenate(arrivals)
    order = np.argsort(times, kind="stable")
    owners, places = owners[order], places[order]
    merge = Keyed()
    for number in range(len(copies)):
        merge.attach(str(number))
    given: list[Floats] = []
    cuts = np.flatnonzero(np.diff(owners)) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(owners)], strict=True):
        number = int(owners[first])
        out = merge.push(str(number), copies[number][:, places[first] : places[last - 1] + 1])
        causes = out[CAUSE, out[KIND] == INSERT]
        given.append(arrivals[number][places[first] + causes])
    end = max(float(each[-1]) for each in arrivals)
    edges = np.arange(0, min(end, min(float(each[-1]) for each in arrivals)) + BIN, BIN)
    inputs = [
        np.histogram(each[copy[KIND] == INSERT], edges)[0].astype(float)
        for each, copy in zip(arrivals, copies, strict=True)
    ]
    return Rates(inputs, np.histogram(np.concatenate(given), edges)[0].astype(float))


def _variation(counts: Floats) -> float:
    counts = counts[1:-1]
    return float(counts.std() / counts.mean())


def _plot(directory: Path | None, name: str, rates: Rates, title: str) -> None:
    if directory is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, sharey=True)
    seconds = np.arange(len(rates.output)) * BIN
    for number, each in enumerate(rates.inputs):
        above.plot(seconds, each / BIN, linewidth=0.8, label=f"input {number + 1}")
    below.plot(seconds, rates.output / BIN, color="black", linewidth=1, label="output")
    for axes in (above, below):
        axes.set_ylabel("events a second")
        axes.legend(loc="upper right", fontsize="small")
    below.set_xlabel("seconds")
    figure.suptitle(title)
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / name, dpi=120)
