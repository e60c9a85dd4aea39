#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/performance_tables.py: the tables of docs/performance.md from the JSON of a run of the benchmarks.

usage: performance_tables.py [--update DOCUMENT] FILE ...

FILE: attention.json, append.json: {context, rows, ratios} as bench/report.h writes them. Later rows replace earlier ones of the same
shape. Prints Markdown, or puts it between the two marker lines of DOCUMENT. A cell is the rate and, behind it, its share of the roof
that was measured next to it.
"""
import argparse
import contextlib
import io
import json
import pathlib
import re

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


class Run:
    def __init__(self, paths):
        self.rows, self.ratios, self.contexts = {}, {}, []
        for path in paths:
            with open(path) as file:
                content = json.load(file)
            self.contexts.append(content["context"])
            self.ratios.update((ratio["name"], ratio["value"]) for ratio in content["ratios"])
            for row in content["rows"]:
                self.rows[row["shape"], row["threads"]] = row

    def cell(self, shape, threads=1):
        row = self.rows.get((shape, threads))
        if row is None:
            return "–"
        roof = row["roof"]
        if roof is not None and "gflop_per_s" in roof:
            return f"{row['gflop_per_s']:.0f} GFLOP/s, {row['percent_of_roof']:.0f} %"
        share = "" if roof is None else f", {row['percent_of_roof']:.0f} %"
        return f"{row['gb_per_s']:.1f} GB/s{share}"

    def kernel(self, shape, threads=1):
        row = self.rows.get((shape, threads))
        return "–" if row is None else row["kernel"].removeprefix("attention_")

    def shapes(self, pattern, threads=1):
        return [shape for shape, t in self.rows if t == threads and re.match(pattern, shape)]


def table(title, head, lines):
    if not lines:
        return
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def roofs(run):
    lines = []
    for shape in run.shapes("roof/"):
        one, two = run.rows[shape, 1], run.rows.get((shape, 2))

        def rate(row):
            if row is None:
                return "–"
            return f"{row['gflop_per_s']:.0f} GFLOP/s" if row["gflop_per_s"] > 0 else f"{row['gb_per_s']:.1f} GB/s"

        lines.append([shape.removeprefix("roof/"), rate(one), rate(two), one["kernel"]])
    table("### Roofs", ["what", "one core", "two cores", "how"], lines)


def decode(run):
    lines = []
    for shape in run.shapes("decode/.*/token_major$"):
        dtype, _, group, context, page, _ = shape.split("/")[1:]
        other = shape.replace("token_major", "head_major")
        lines.append([f"{dtype}, {group.replace('group', 'group ')}, {context.replace('_', ', ')}, {page.replace('page', 'pages of ')}",
                      run.kernel(shape), run.cell(shape), run.cell(other), run.cell(shape, 2)])
    table("### Decode, 8 KV heads of 128: bytes of K and V read",
          ["case", "kernel", "token-major", "head-major", "token-major, two cores"], lines)


def others(run):
    names = {"prefill": "### Prefill", "mla_decode": "### Latent decode", "skewed": "### Skewed batch", "append": "### Append",
             "rotate": "### Rotate", "copy": "### Copy"}
    for key, title in names.items():
        shapes = list(dict.fromkeys(run.shapes(f"{key}[/_]|{key}$") + run.shapes(f"{key}[/_]|{key}$", 2)))
        lines = [[shape.removeprefix(key + "/"), run.kernel(shape, 1 if (shape, 1) in run.rows else 2), run.cell(shape), run.cell(shape, 2)]
                 for shape in shapes]
        table(title, ["case", "kernel", "one core", "two cores"], lines)


def ratios(run):
    table("### Ratios", ["what", "value"], [[name, f"{value:.2f}"] for name, value in run.ratios.items()])


def print_all(run):
    context = run.contexts[0]
    print(f"{context['machine']}; {context['isa']}; caches of {context['cache_mib']:.0f} MiB; compiler {context['compiler']}; "
          f"commit {context['commit']}.")
    for part in (roofs, decode, others, ratios):
        part(run)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", type=pathlib.Path)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    run = Run(args.files)
    if args.update is None:
        print_all(run)
        return
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_all(run)
    before, rest = args.update.read_text().split(BEGIN)
    after = rest.split(END)[1]
    args.update.write_text(f"{before}{BEGIN}\n{text.getvalue()}{END}{after}")


if __name__ == "__main__":
    main()
