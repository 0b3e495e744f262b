"""The table a benchmark prints, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.judging import Judgement, Verdict
from harness.question import Figures, Question

_STYLES = {
    Verdict.TARGET: "green",
    Verdict.FLOOR: "yellow",
    Verdict.BELOW: "bold red",
    Verdict.MISSING: "bold red",
    Verdict.NOT_JUDGED: "dim",
    Verdict.INFORMATION: "dim",
}


def table(title: str, questions: Sequence[Question]) -> Table:
    """One table of all questions: ours, each peer, ratio, floor, target, verdict."""
    result = Table(title=title, title_justify="left", show_lines=True, pad_edge=False)
    result.add_column("question")
    result.add_column("ours", justify="right")
    result.add_column("peers (best first)")
    result.add_column("against")
    result.add_column(Text("ratio [quartiles]"), justify="right")
    result.add_column("floor", justify="right")
    result.add_column("target", justify="right")
    result.add_column("verdict")
    for question in questions:
        judgements = question.judgements()
        result.add_row(
            _heading(question),
            _stack([_ours(question)]),
            _stack(_peer_lines(question)),
            _stack([_against(judgement) for judgement in judgements]),
            _stack([_ratio(judgement) for judgement in judgements]),
            _stack([_bound(judgement, "floor") for judgement in judgements]),
            _stack([_bound(judgement, "target") for judgement in judgements]),
            _stack([_verdict(judgement) for judgement in judgements]),
        )
    return result


def print_report(console: Console, title: str, questions: Sequence[Question], environment: dict[str, Any]) -> None:
    """Print the table and what there is to know about the run."""
    printed = table(title, questions)
    if not console.is_terminal:
        # A pipe or a file has no width to respect; folded cells would only be hard to read.
        wide = Console(file=console.file, width=10_000)
        console = Console(file=console.file, width=max(80, wide.measure(printed).maximum))
    console.print(printed)
    console.print(
        f"wall and CPU seconds are medians; ratios are ours/peer of the same repetition; "
        f"{environment['cpus']} CPUs, {environment['file_system']}, Python {environment['python']}",
        style="dim",
    )
    runs = [sample for question in questions for f in _all_figures(question) for sample in f.samples]
    disturbed = sum(sample.disturbed for sample in runs)
    if disturbed:
        console.print(
            f"{disturbed} of {len(runs)} runs were disturbed by other processes (marked *): "
            "repeat on a quiet machine before drawing conclusions",
            style="yellow",
        )


def write_json(path: Path, title: str, questions: Sequence[Question], environment: dict[str, Any]) -> None:
    """Write every repetition's figures and all judgements."""
    content = {
        "benchmark": title,
        "environment": environment,
        "questions": [question.as_json() for question in questions],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def environment(file_system: str, options: dict[str, Any]) -> dict[str, Any]:
    """What the figures depend on besides the code: machine, versions, options."""
    versions = {}
    for name in ("tidelog", "numpy", "pyarrow", "numba", "duckdb", "arcticdb", "rocksdict", "lz4", "pandas"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "file_system": file_system,
        "versions": versions,
        "options": options,
    }


def _heading(question: Question) -> Text:
    text = Text(question.name, style="bold")
    text.append(f"\n{question.unit}", style="not bold")
    if question.events:
        text.append(f"\n{question.events:,} events", style="dim")
    if question.note:
        text.append(f"\n{question.note}", style="dim")
    return text


def _ours(question: Question) -> Text:
    if question.ours is None:
        return Text("missing", style="bold red")
    return _figures(question.ours)


def _peer_lines(question: Question) -> list[Text]:
    ranked = sorted(question.peers.items(), key=lambda item: item[1].median, reverse=question.higher_is_better)
    width = max((len(name) for name in question.peers), default=0)
    lines = [Text(f"{name:<{width}}  ").append_text(_figures(figures)) for name, figures in ranked]
    lines += [
        Text(f"{name} missing: {reason}", style="bold red")
        for name, reason in question.missing.items()
        if name not in question.peers
    ]
    return lines


def _figures(figures: Figures) -> Text:
    text = Text(f"{significant(figures.median):>6}")
    if figures.samples:
        wall = statistics.median(sample.wall for sample in figures.samples)
        cpu = statistics.median(sample.cpu for sample in figures.samples)
        mark = f" *{figures.disturbed}" if figures.disturbed else ""
        text.append(f"  {_seconds(wall)} wall {_seconds(cpu)} cpu{mark}", style="dim")
    return text


def _against(judgement: Judgement) -> Text:
    label = judgement.comparison.label
    return Text(label if judgement.peer in (None, label) else f"{label}: {judgement.peer}")


def _ratio(judgement: Judgement) -> Text:
    if not judgement.ratios:
        return Text("-")
    lower, upper = judgement.quartiles
    text = Text(significant(judgement.median))
    return text.append(f" [{significant(lower)} - {significant(upper)}]", style="dim")


def _bound(judgement: Judgement, which: str) -> Text:
    bound = judgement.comparison.bound
    return Text("-" if bound is None else f"{getattr(bound, which):g}")


def _verdict(judgement: Judgement) -> Text:
    text = judgement.verdict.value
    if judgement.verdict is Verdict.NOT_JUDGED and judgement.comparison.bound is not None:
        text += f" below {judgement.comparison.bound.judged_at:,}"
    return Text(text, style=_STYLES[judgement.verdict])


def _all_figures(question: Question) -> list[Figures]:
    return [*([question.ours] if question.ours else []), *question.peers.values()]


def _stack(lines: Sequence[Text]) -> Text:
    return Text("\n").join(lines)


def significant(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _seconds(value: float) -> str:
    return f"{value:.2f}s" if value >= 1 else f"{value * 1000:.3g}ms"
