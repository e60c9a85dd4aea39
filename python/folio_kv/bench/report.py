# SPDX-License-Identifier: Apache-2.0
"""Writes the page of results: tables, one figure for each result, and what folio loses.

    python -m folio_kv.bench.report RESULTS.json .. --document PAGE.md --figures FOLDER

RESULTS.json is what `python -m folio_kv.bench --json` writes; parts of one machine may come in
files of their own.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from .figure import draw

Result = dict
_HEAD = """\
# Performance in Python

folio beside torch's scaled_dot_product_attention (SDPA), and beside the attention that transformers
and vLLM have themselves, with random weights, each pair in the same run of `python -m
folio_kv.bench`. A ratio says how many times faster folio is; **below 1 it is slower**, and those
rows are listed. Medians of what takes turns; of contexts beyond 1k under an engine, and of vLLM's
processes, there is one run each.

This page is written by `python -m folio_kv.bench.report`; `python -m folio_kv.bench` measures your
machine.
"""
_GROUPS = {
    "attention": """\
Attention alone, one layer, bf16, 32 q heads over 8 KV heads of 128 unless a row says otherwise; µs
for all tokens of the batch. folio reads scattered pages of 16 tokens and makes its step and plan
anew in each call. *sdpa as called*, as engines do it: pages gathered into a padded batch (each
sequence alone where new tokens differ in number), K and V repeated for each q head, a mask. *sdpa
dense*: K and V lie dense already, nothing is gathered, repeated or padded, no mask where none is
needed. *sdpa folded*: the same, with the q heads of a KV head as rows of one matrix.""",
    "generate": """\
`generate` of transformers: attention "sdpa" and its own cache beside "folio_flash" and
`FolioCache`. {model}""",
    "generate_batch": """\
`generate_batch` of transformers (continuous batching, pages of 256 tokens, 512 tokens a step):
attention "sdpa" beside "folio_flash". Prefill is the time until each request has its first token,
earlier requests decoding meanwhile; decode is the median step after that. {model}""",
    "vllm": """\
vLLM's engine in steps (eager, blocks of 128 tokens, 2,048 tokens a step): its own CPU attention
beside folio. Decode is the median step once every request has its first token. {model}""",
}
_MODEL = (
    "Tokens a second of a Llama with 8 layers, hidden 2,048, 32 q heads over 8 KV heads of "
    "{head_size}, bf16."
)


def page(results: list[Result], figures: list[str]) -> str:
    """The Markdown of results (as the bench writes them) with the paths of their figures."""
    parts = [_HEAD]
    for result, figure in zip(results, figures, strict=True):
        parts += _section(result, figure)
    return "\n".join(parts)


def _section(result: Result, figure: str) -> Iterator[str]:
    context = result["context"]
    packages = ", ".join(f"{name} {version}" for name, version in context["versions"].items())
    yield f"## {context['machine']}\n"
    yield (
        f"Commit {context['commit']}, {context['began'][:10]}; {packages}; "
        f"{context['torch_threads']} threads of torch, {context['folio_threads']} of folio; "
        f"kernel `{context['folio_kernel']}`{'; quick' * context['quick']}.\n"
    )
    yield f"![how many times faster folio is, by case]({figure})\n"
    model = _MODEL.format(head_size=context["head_size_of_engines"])
    for group, text in _GROUPS.items():
        rows = [row for row in result["rows"] if row["group"] == group]
        if rows:
            yield f"### {group}\n\n{text.format(model=model)}\n"
            yield from _table(rows)
    for part, reason in result.get("failed", {}).items():
        yield f"`{part}` failed on this machine: {reason}.\n"
    yield "### Where folio is slower\n"
    yield from _losses(result["rows"])


def _table(rows: list[dict]) -> Iterator[str]:
    others = list(dict.fromkeys(name for row in rows for name in row["values"] if name != "folio"))
    columns = ["folio", *(cell for name in others for cell in (name, "ratio"))]
    yield f"| {rows[0]['unit'].replace('us', 'µs')} | " + " | ".join(columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    for row in rows:
        cells = [_number(row["values"].get("folio"))]
        for name in others:
            ratio = row["ratios"].get(name)
            cells += [_number(row["values"].get(name)), f"{ratio:.2f}" if ratio else "–"]
        yield f"| {row['name']} | " + " | ".join(cells) + " |"
    yield ""


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _losses(rows: list[dict]) -> Iterator[str]:
    """One line for each row and contestant that beats folio, the worst first."""
    losses = [
        (ratio, row, name) for row in rows for name, ratio in row["ratios"].items() if ratio < 1.0
    ]
    if not losses:
        yield "Nowhere in these rows.\n"
        return
    for ratio, row, name in sorted(losses, key=lambda loss: loss[0]):
        yield f"* {row['group']}, {row['name']}: {ratio:.2f} of {name}."
    yield ""


def main(command_line: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m folio_kv.bench.report", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    arguments = parser.parse_args(command_line)
    merged: dict[str, tuple[str, Result]] = {}
    for path in arguments.results:
        result = json.loads(path.read_text())
        _, whole = merged.setdefault(result["context"]["machine"], (path.stem, result))
        if whole is not result:
            whole["rows"] += result["rows"]
            versions = whole["context"]["versions"]
            for name, version in result["context"]["versions"].items():
                if version not in versions.setdefault(name, version).split(" and "):
                    versions[name] += f" and {version}"
            whole["failed"] = whole.get("failed", {}) | result.get("failed", {})
    results = [result for _, result in merged.values()]
    figures = [arguments.figures / f"{stem}.svg" for stem, _ in merged.values()]
    arguments.figures.mkdir(parents=True, exist_ok=True)
    for result, path in zip(results, figures):
        path.write_text(draw(result))
    links = [os.path.relpath(path, arguments.document.parent) for path in figures]
    arguments.document.write_text(page(results, links))


if __name__ == "__main__":
    main()
