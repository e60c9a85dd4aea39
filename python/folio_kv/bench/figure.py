# SPDX-License-Identifier: Apache-2.0
"""A result as bars: how many times faster folio is, on a logarithmic axis around 1. Plain SVG."""

from __future__ import annotations

import html
import math

_BAR, _GAP, _HEAD = 11, 7, 34  # heights: of a bar, between cases, of a group's title
_LEFT, _WIDTH, _RIGHT = 330, 430, 90  # of the names, the axis, the numbers
_COLOURS = ("#4878a8", "#e0913d", "#5a9a68", "#9b6fb0")
_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 13px }
.tick { font-size: 10px; fill: #6e7781 }
.grid { stroke: #d0d7de; stroke-width: 0.5 }
.one { stroke: #24292f; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .tick { fill: #8b949e } .grid { stroke: #30363d } .one { stroke: #e6edf3 }
}"""


def draw(result: dict) -> str:
    """The SVG of a result as the bench writes it."""
    groups = dict.fromkeys(row["group"] for row in result["rows"] if row["ratios"])
    ratios = [ratio for row in result["rows"] for ratio in row["ratios"].values()]
    low = min(-1, math.floor(math.log2(min(ratios, default=1.0))))
    high = max(1, math.ceil(math.log2(max(ratios, default=1.0))))

    def x(ratio: float) -> float:
        return _LEFT + _WIDTH * (math.log2(ratio) - low) / (high - low)

    parts, y = [], 8.0
    for group in groups:
        rows = [row for row in result["rows"] if row["group"] == group and row["ratios"]]
        y = _group(parts, group, rows, x, range(low, high + 1), y)
    total = _LEFT + _WIDTH + _RIGHT
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {y:.0f}" role="img" '
        f'aria-label="how many times faster folio is">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
    )


def _group(parts: list[str], group: str, rows: list[dict], x, powers: range, y: float) -> float:
    """Title, legend, grid and bars of one group from `y` on; returns where it ends."""
    names = list(dict.fromkeys(name for row in rows for name in row["ratios"]))
    title = html.escape(f"{group}: times faster than")
    parts.append(f'<text class="title" x="8" y="{y + 14:.0f}">{title}</text>')
    for i, name in enumerate(names):
        left = _LEFT + i * 135
        parts.append(
            f'<rect x="{left}" y="{y + 5:.0f}" width="10" height="10" fill="{_COLOURS[i]}"/>'
            f'<text x="{left + 15}" y="{y + 14:.0f}">{html.escape(name)}</text>'
        )
    top = y + _HEAD
    bottom = top + sum(len(row["ratios"]) * _BAR + _GAP for row in rows)
    for power in powers:
        at, kind = x(2.0**power), "one" if power == 0 else "grid"
        label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        parts.append(
            f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 4:.0f}" '
            f'y2="{bottom:.0f}"/><text class="tick" text-anchor="middle" x="{at:.1f}" '
            f'y="{top - 7:.0f}">{label}</text>'
        )
    y = top
    for row in rows:
        middle = y + len(row["ratios"]) * _BAR / 2 + 4
        label = html.escape(row["name"])
        parts.append(f'<text text-anchor="end" x="{_LEFT - 10}" y="{middle:.1f}">{label}</text>')
        for name, ratio in row["ratios"].items():
            left, right = sorted((x(1.0), x(ratio)))
            colour = _COLOURS[names.index(name)]
            parts.append(
                f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 0.5):.1f}" '
                f'height="{_BAR - 2}" fill="{colour}"/>'
                f'<text class="tick" x="{right + 4:.1f}" y="{y + 8:.1f}">{ratio:.2f}</text>'
            )
            y += _BAR
        y += _GAP
    return y + 10
