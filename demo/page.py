"""A page of results that needs nothing but itself: a table, and plots drawn as SVG."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 900, 180, 34

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2a33; --faint: #7b8a93; --line: #0b6e8f; }
:root { --band: #0b6e8f40; --paper: #fbfcfc; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe8ec; --faint: #8c9aa2; --line: #5fc3e4; --band: #5fc3e440; --paper: #12181c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
body { max-width: 920px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; width: 100%; }
td { border-bottom: 1px solid var(--band); padding: .35em .6em; vertical-align: top; }
td:first-child { color: var(--faint); }
svg { width: 100%; height: auto; } text { fill: var(--faint); font-size: 11px; }
.band { fill: var(--band); } .mean { fill: none; stroke: var(--line); stroke-width: 1.5; }
.axis { stroke: var(--band); }
"""


@dataclass(frozen=True)
class Level:
    """A range of time at one zoom level: of each of its intervals the lowest, highest and mean value, None if empty."""

    events: int
    low: Sequence[float | None]
    high: Sequence[float | None]
    mean: Sequence[float | None]
    seconds: float
    blocks: int


def write_page(
    path: Path, said: Mapping[str, str], levels: Sequence[Level], growth: Sequence[tuple[float, int]]
) -> None:
    """Write the page."""
    cells = ((html.escape(what), html.escape(found)) for what, found in said.items())
    rows = "".join(f"<tr><td>{what}</td><td>{found}</td></tr>" for what, found in cells)
    plots = "".join(
        f"<h2>{_zoom(levels[0], level)}: {level.events:,} events in {len(level.mean)} points, "
        f"{level.seconds * 1e3:.1f} ms, {level.blocks} blocks read</h2>{_band(level)}"
        for level in levels
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>tidelog: a pipeline</title>'
        f"<style>{_STYLE}</style><h1>A pipeline into a log that is its own index</h1><table>{rows}</table>"
        f"<h2>Events in the stream, by seconds since the start</h2>{_growth(growth)}"
        "<p>Lowest, highest and mean level of each interval, from the aggregates that the tree holds; "
        f"no event was read but at the ends of intervals.</p>{plots}</html>\n"
    )


def _zoom(whole: Level, level: Level) -> str:
    times = whole.events // max(1, level.events)
    return "Everything" if times == 1 else f"{times} times closer"


def _band(level: Level) -> str:
    known = [index for index, value in enumerate(level.mean) if value is not None]
    lows, highs = [level.low[i] or 0.0 for i in known], [level.high[i] or 0.0 for i in known]
    bottom, top = min(lows), max(highs)
    xs = [_x(index, len(level.mean) - 1) for index in known]
    upper = [f"{x:.1f},{_y(value, bottom, top):.1f}" for x, value in zip(xs, highs, strict=True)]
    lower = [f"{x:.1f},{_y(value, bottom, top):.1f}" for x, value in zip(xs, lows, strict=True)]
    mean = [f"{x:.1f},{_y(level.mean[i] or 0.0, bottom, top):.1f}" for x, i in zip(xs, known, strict=True)]
    shapes = (
        f'<polygon class="band" points="{" ".join(upper + lower[::-1])}"/>'
        f'<polyline class="mean" points="{" ".join(mean)}"/>'
    )
    return _frame(shapes, bottom, top)


def _growth(growth: Sequence[tuple[float, int]]) -> str:
    last, most = growth[-1][0], max(count for _, count in growth)
    points = [f"{_x(seconds, last):.1f},{_y(count, 0, most):.1f}" for seconds, count in growth]
    line = f'<polyline class="mean" points="{" ".join(points)}"/>'
    end = f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{last:.0f} s</text>'
    return _frame(line + end, 0, most)


def _frame(shapes: str, bottom: float, top: float) -> str:
    marks = []
    for value in (bottom, top):
        y = _y(value, bottom, top)
        marks.append(f'<text x="0" y="{y + 4:.1f}">{value:,.4g}</text>')
        marks.append(f'<line class="axis" x1="{MARGIN}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(marks)}{shapes}</svg>'


def _x(value: float, most: float) -> float:
    return MARGIN + (WIDTH - MARGIN) * value / max(most, 1e-9)


def _y(value: float, bottom: float, top: float) -> float:
    return HEIGHT - 18 - (HEIGHT - 28) * (value - bottom) / max(top - bottom, 1e-9)
