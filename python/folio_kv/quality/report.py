# SPDX-License-Identifier: Apache-2.0
"""Outcomes as a table, for a terminal or a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .outcome import Outcome

__all__ = ["as_json", "markdown", "text"]

_COLUMNS = ("cache", "bytes/token", "perplexity", "change", "KL", "flips", "tokens/s")
_OF_SPARSE = {"keys": "keys_read", "weights": "weights_left_out"}  # where an outcome has them


def _columns(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        *_COLUMNS,
        *(x for x, name in _OF_SPARSE.items() if any(name in y.figures for y in outcomes)),
    ]


def _cells(outcome: Outcome, columns: Sequence[str]) -> list[str]:
    figures = outcome.figures

    def cell(name: str, form: str) -> str:
        return format(figures[name], form) if name in figures else "–"

    change = "–"
    if "change" in figures and outcome.name not in ("reference", "llama-reference"):
        change = f"{math.expm1(figures['change']):+.2%} ± {cell('change_error', '.2%')}"
    return [
        outcome.name,
        cell("bytes_per_token", ",.0f"),
        cell("perplexity", ".4f"),
        change,
        cell("kl", ".2e"),
        cell("flips", ".2%"),
        cell("tokens_per_second", ".1f"),
        *(cell(_OF_SPARSE[x], ".1%") for x in columns[len(_COLUMNS) :]),
    ]


def markdown(outcomes: Sequence[Outcome]) -> str:
    columns = _columns(outcomes)
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(_cells(x, columns)) + " |" for x in outcomes if not x.refused]
    return "\n".join([*lines, "", *_refusals(outcomes, "* ")]).strip() + "\n"


def text(outcomes: Sequence[Outcome]) -> str:
    columns = _columns(outcomes)
    table = [columns, *(_cells(x, columns) for x in outcomes if not x.refused)]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]

    def line(row: list[str]) -> str:
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([*map(line, table), *_refusals(outcomes, "")]) + "\n"


def _refusals(outcomes: Sequence[Outcome], mark: str) -> list[str]:
    return [f"{mark}{x.name}: not measured: {x.refused}" for x in outcomes if x.refused]


def as_json(context: dict[str, Any], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    rows = [
        {"name": x.name, "engine": x.engine}
        | ({"refused": x.refused} if x.refused else {"figures": x.figures})
        for x in outcomes
    ]
    return {"context": context, "rows": rows}
