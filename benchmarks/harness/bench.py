"""The command line of a benchmark and the object its questions are asked through."""

from __future__ import annotations

import argparse
import fnmatch
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from harness import report
from harness.judging import Verdict
from harness.question import Question
from harness.racing import SHORTEST_SECONDS, Case, Outcome, race
from harness.workspace import Workspace
from tidelog.lazy import load_kernels

LEAST_REPETITIONS = 5


@dataclass
class Bench:
    """One run of a benchmark: its options, its workspace, and what was found out so far."""

    workspace: Workspace
    quick: bool = False
    events: int | None = None
    """The number of events the user asked for, instead of the benchmark's own."""
    only: Sequence[str] = ()
    repetitions: int = LEAST_REPETITIONS
    questions: list[Question] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Required contestants that could not take part, and why."""
    plots: Path | None = None
    """Where plots are put, if the user wants them."""
    on_progress: Callable[[str], None] = lambda _: None
    on_answer: Callable[[str], None] = lambda _: None

    def size(self, full: int, quick: int) -> int:
        """How many events to use: what the user asked for, else the full or the quick size."""
        if self.events is not None:
            return self.events
        return quick if self.quick else full

    def wants(self, name: str) -> bool:
        """Whether the user wants a question (or group of questions) of this name answered."""
        return not self.only or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in self.only)

    def race(
        self,
        title: str,
        cases: Sequence[Case],
        *,
        writes: bool = False,
        keep_last: bool = False,
        rehearsed: bool = True,
    ) -> dict[str, Outcome]:
        """Race some cases in this workspace (see :func:`harness.racing.race`)."""
        return race(
            cases,
            self.workspace,
            self.repetitions,
            writes=writes,
            keep_last=keep_last,
            rehearsed=rehearsed,
            shortest=SHORTEST_SECONDS / 10 if self.quick else SHORTEST_SECONDS,
            on_progress=lambda what: self.on_progress(f"{title}: {what}"),
        )

    def answer(self, question: Question) -> None:
        """Add an answered question to the table."""
        concerned = {peer for comparison in question.comparisons for peer in comparison.peers}
        question.missing = {name: why for name, why in self.missing.items() if name in concerned}
        self.questions.append(question)
        self.on_answer(question.name)

    def failures(self) -> list[str]:
        """Why ``--strict`` would fail, one sentence each."""
        found = [f"{name} is required but missing: {reason}" for name, reason in self.missing.items()]
        for question in self.questions:
            for judgement in question.judgements():
                against = f"{question.name} against {judgement.comparison.label}"
                if judgement.verdict is Verdict.BELOW and judgement.comparison.bound is not None:
                    lower, upper = judgement.quartiles
                    better = upper if question.higher_is_better else lower
                    found.append(
                        f"{against}: the better quartile is {report.significant(better)}, "
                        f"the floor {judgement.comparison.bound.floor:g}"
                    )
                elif judgement.verdict is Verdict.MISSING and not self.missing:
                    found.append(f"{against}: there is nothing to compare")
        return found


def main(
    title: str,
    ask: Callable[[Bench], None],
    arguments: Sequence[str] | None = None,
    *,
    console: Console | None = None,
    quick_repetitions: int = LEAST_REPETITIONS,
) -> int:
    """Run a benchmark from the command line; returns the exit status.

    ``ask`` asks all questions of the benchmark through the :class:`Bench` it is given. A benchmark that judges nothing
    in quick runs may repeat less in them, unless the user asks for more.
    """
    options = _parser(title).parse_args(arguments)
    if options.repetitions is None:
        options.repetitions = quick_repetitions if options.quick else LEAST_REPETITIONS
    console = console or Console()
    signal.signal(signal.SIGTERM, _exit_orderly)
    aside = Console(stderr=True)
    with Workspace(options.dir) as workspace, Status("starting", console=aside) as status:
        bench = Bench(
            workspace,
            quick=options.quick,
            events=options.events,
            only=options.only,
            repetitions=options.repetitions,
            plots=options.plots,
            on_progress=lambda text: status.update(escape(text)),
        )
        if not aside.is_terminal:  # where a status shows nothing
            began = time.monotonic()
            bench.on_answer = lambda name: print(
                f"{time.monotonic() - began:7.1f} s  {name}", file=sys.stderr, flush=True
            )
        load_kernels()  # the memory that a warm-up takes is measured
        ask(bench)
        status.stop()
        facts = report.environment(workspace.file_system(), {**vars(options), "dir": None, "json": None, "plots": None})
        report.print_report(console, title, bench.questions, facts)
        if options.json is not None:
            report.write_json(options.json, title, bench.questions, facts)
    failures = bench.failures()
    for failure in failures:
        console.print(f"{'FAILED: ' if options.strict else ''}{failure}", style="red", soft_wrap=True, markup=False)
    return 1 if options.strict and failures else 0


def _parser(title: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute; floors are not judged")
    parser.add_argument("--events", type=_positive, metavar="N", help="use N events instead of the usual sizes")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every repetition's figures to PATH")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a floor is missed or a required peer is missing"
    )
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="work in a fresh directory below DIR, on the disk to test"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="only questions with TEXT in the name"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="put plots into DIR, where a benchmark has some")
    parser.add_argument("--repetitions", type=_repetitions, metavar="N", help="repetitions after the warm-up")
    return parser


def _positive(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of events of 1 or more, found {text}")
    return value


def _repetitions(text: str) -> int:
    value = int(text)
    if value < LEAST_REPETITIONS:
        raise argparse.ArgumentTypeError(f"a ratio needs {LEAST_REPETITIONS} repetitions or more, found {text}")
    return value


def _exit_orderly(signum: int, _frame: object) -> NoReturn:
    """Let the workspace be removed when the process is asked to end."""
    sys.exit(128 + signum)
