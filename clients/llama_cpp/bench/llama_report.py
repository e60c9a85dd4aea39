# SPDX-License-Identifier: Apache-2.0
"""Results of bench.py: a file for each machine, and the tables of docs/llama_cpp.md."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESULTS = ROOT / "bench/results/llama_cpp"
PAGE = ROOT / "docs/llama_cpp.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
CELLS = ["tg@0", "tg@4096", "tg@16384", "tg@32768", "pp512", "pp4096"]
CACHES = ["f16", "bf16", "q8_0"]
TITLES = {"tg@0": "step, empty cache", "pp512": "prompt of 512", "pp4096": "prompt of 4,096"}
TITLES |= {f"tg@{depth}": f"step at {depth:,}" for depth in (4096, 16384, 32768)}


def machine() -> str:
    """E.g. "AMD EPYC family 25 model 17, 2 processors"."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    fields = {
        k.strip(): v.strip() for k, v in (line.split(":", 1) for line in lines if ":" in line)
    }
    name = " ".join(fields.get("model name", "unknown").split())
    place = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{name} {place}, {len(os.sched_getaffinity(0))} processors"


def own_file() -> pathlib.Path:
    words = re.sub(r"[^a-z0-9]+", "-", machine().lower().replace("family", "").replace("model", ""))
    return RESULTS / f"{words.strip('-')}.json"


def commit() -> str:
    """Of the working tree, "-dirty" where what is measured differs from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    paths = ["include", "src", "clients/llama_cpp/src"]
    status = [*git, "status", "--porcelain", "--", *paths]
    changed = subprocess.run(status, capture_output=True, text=True)
    name = found.stdout.strip() or "unknown"
    return name + ("-dirty" if changed.stdout.strip() else "")


def keep(path: pathlib.Path, found: dict[str, Any]) -> None:
    """Puts a cell into the file, in place of an older one."""
    held = json.loads(path.read_text()) if path.exists() else {"machine": machine(), "cells": []}
    if held["machine"] != machine():
        raise SystemExit(f"{path} holds results of another machine: {held['machine']}")
    cells = {key(each): each for each in [*held["cells"], found]}
    held["cells"] = [cells[each] for each in sorted(cells)]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")  # an error leaves the cells that are held
    part.write_text(json.dumps(held, indent=1) + "\n")
    part.replace(path)


def key(cell: dict[str, Any]) -> tuple[int, int, int]:
    place = CACHES.index(cell["cache"]) if cell["cache"] in CACHES else len(CACHES)
    return cell["threads"], place, CELLS.index(cell["cell"])


def factor(cell: dict[str, Any]) -> float:
    """folio's rate over that of the better of stock's paths."""
    rates = cell["tokens_per_second"]
    return float(rates["folio"] / max(rate for name, rate in rates.items() if name != "folio"))


def line(cell: dict[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.2f}" for name, rate in cell["tokens_per_second"].items())
    place = f"{cell['threads']} threads, {cell['cache']}, {cell['cell']}"
    return f"{place}: {rates} tokens/s; folio {factor(cell):.2f} x the better"


def rate_text(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def table(held: dict[str, Any]) -> str:
    """Markdown; a row for each cell."""
    cells = held["cells"]
    commits = ", ".join(f"`{name}`" for name in sorted({cell["commit"] for cell in cells}))
    rows = [f"**{held['machine']}**, commit {commits}:", ""]
    rows += ["| threads | cache | what | stock `-fa off` | stock `-fa on` | folio | factor |"]
    rows += ["| ---: | --- | --- | ---: | ---: | ---: | ---: |"]
    for cell in cells:
        rates = [rate_text(cell["tokens_per_second"].get(name)) for name in ("off", "on", "folio")]
        start = [str(cell["threads"]), cell["cache"], TITLES[cell["cell"]]]
        rows.append("| " + " | ".join([*start, *rates, f"{factor(cell):.2f} ×"]) + " |")
    return "\n".join(rows)


def update(is_check: bool) -> int:
    """Writes the tables between the document's marks, or says whether they stand there."""
    tables = [table(json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json"))]
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    wanted = text[:begin] + "\n" + "\n\n".join(tables) + "\n" + text[end:]
    if is_check:
        return 0 if wanted == text else 1
    PAGE.write_text(wanted)
    return 0
