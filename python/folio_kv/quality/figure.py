# SPDX-License-Identifier: Apache-2.0
"""Outcomes as a plot: KL divergence over bytes of a token, both logarithmic. Plain SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from .outcome import Outcome

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 20, 50
_COLOURS = {"folio": "#4878a8", "llama.cpp": "#e0913d", "vllm": "#5a9a68"}
_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.tick { font-size: 10px; fill: #6e7781 }
.grid { stroke: #d0d7de; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .tick { fill: #8b949e } .grid { stroke: #30363d }
}"""


def draw(outcomes: Sequence[Outcome]) -> str:
    """The SVG; a point for each type that has a divergence above 0."""
    points = [x for x in outcomes if x.figures.get("kl", 0) > 0]
    across = _Axis([x.figures["bytes_per_token"] for x in points], 2, _LEFT, _WIDTH - _RIGHT)
    up = _Axis([x.figures["kl"] for x in points], 10, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_grid(across, up), *_legend(points), *_points(points, across, up)]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="KL divergence over bytes of a token, by type of cache">\n'
        f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )


class _Axis:
    """Powers of `base` around the values, between two places."""

    def __init__(self, values: Sequence[float], base: int, begin: int, end: int):
        logs = [math.log(x, base) for x in values] or [0.0]
        self.base, self.begin, self.end = base, begin, end
        self.low, self.high = math.floor(min(logs)), math.ceil(max(logs))
        self.high = max(self.high, self.low + 1)

    def at(self, value: float) -> float:
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        return [float(self.base) ** power for power in range(self.low, self.high + 1)]


def _grid(across: _Axis, up: _Axis) -> list[str]:
    parts = []
    for value in across.ticks():
        x = across.at(value)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
            f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}">'
            f"{value:,.0f}</text>"
        )
    for value in up.ticks():
        y = up.at(value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" text-anchor="end" x="{_LEFT - 6}" y="{y + 3:.1f}">{value:.0e}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) // 2
    parts.append(
        f'<text text-anchor="middle" x="{middle}" y="{_HEIGHT - 10}">bytes of a token</text>'
        f'<text text-anchor="middle" transform="translate(16 {_HEIGHT // 2}) rotate(-90)">'
        "KL divergence</text>"
    )
    return parts


def _legend(points: Sequence[Outcome]) -> list[str]:
    engines = [engine for engine in _COLOURS if any(x.engine == engine for x in points)]
    return [
        f'<circle cx="{_WIDTH - 90}" cy="{_TOP + 6 + 18 * i}" r="4" fill="{_COLOURS[engine]}"/>'
        f'<text x="{_WIDTH - 80}" y="{_TOP + 10 + 18 * i}">{engine}</text>'
        for i, engine in enumerate(engines)
    ]


def _points(points: Sequence[Outcome], across: _Axis, up: _Axis) -> list[str]:
    """Names stand beside their points, lower where another one is in the way."""
    parts: list[str] = []
    names: list[tuple[float, float, float]] = []  # where they begin, end and stand
    places = [(up.at(x.figures["kl"]), across.at(x.figures["bytes_per_token"]), x) for x in points]
    for y, x, point in sorted(places, key=lambda place: place[:2]):
        begin, end, line = x + 7, x + 7 + 7 * len(point.name), y + 4
        while any(b < end and begin < e and abs(line - at) < 12 for b, e, at in names):
            line += 3
        names.append((begin, end, line))
        parts.append(
            f'<circle class="type" cx="{x:.1f}" cy="{y:.1f}" r="4" '
            f'fill="{_COLOURS.get(point.engine, "#9b6fb0")}"/>'
            f'<text x="{begin:.1f}" y="{line:.1f}">{html.escape(point.name)}</text>'
        )
    return parts
