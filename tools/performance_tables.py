#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/performance_tables.py: the tables of performance from the runs in bench/results.

usage: performance_tables.py [--results DIR] [--update]

Prints the table of docs/performance.md; --update puts it, and all tables of
docs/generated/performance_all.md, between the marker lines of these files. A file is BENCH-
MACHINE.json as bench/report.h writes it (BENCH: attention, append; pool: Google Benchmark's form)
and holds one process. A row of a table comes from one file. A row of two cores whose roof lies
below that of one core is left out: the host disturbed it.
"""
import argparse
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
NONE = "–"

# Rows of docs/performance.md: what, bench, shape, and tokens of a run. Append has as many as exceed
# a machine's caches: there the bytes of a token, read and written.
SUMMARY = [
    ("decode, 8 sequences of 8,192, 4 q heads to a KV head", "attention",
     "decode/bf16/d128/group4/8k/page64/token_major", 8),
    ("… head-major pages", "attention", "decode/bf16/d128/group4/8k/page64/head_major", 8),
    ("… i8 cache", "attention", "decode/i8/d128/group4/8k/page64/token_major", 8),
    ("decode, 8 sequences of 8,192, 8 q heads to a KV head", "attention",
     "decode/bf16/d128/group8/8k/page64/token_major", 8),
    ("… e4m3 cache", "attention", "decode/f8_e4m3/d128/group8/8k/page64/token_major", 8),
    ("… one sequence of 131,072", "attention", "decode/bf16/d128/group8/128k/page64/token_major",
     1),
    ("… one of 131,072 among 63 of 512", "attention",
     "skewed/bf16/d128/group8/128k_and_63_of_512/page64/token_major", 64),
    ("prefill, 4,096 tokens, causal", "attention", "prefill/bf16/d128/causal_4k", 4096),
    ("prefill, chunk of 512 over 4,096", "attention", "prefill/bf16/d128/512_over_4k", 512),
    ("… f32", "attention", "prefill/f32/d128/512_over_4k", 512),
    ("latent decode (MLA), 128 heads, 4 sequences of 8,192", "attention",
     "mla_decode/bf16/576_512/128_heads/8k/page64", 4),
    ("latent decode (MLA), 16 heads, 16 sequences of 8,192", "attention",
     "mla_decode/bf16/576_512/16_heads/8k/page64", 16),
    ("append with RoPE, bf16", "append", "append/rope/bf16_to_bf16", 8192.0),
    ("… to e4m3, scale per token and head", "append",
     "append/rope/bf16_to_e4m3/scale_per_token_and_head", 6144.0),
    ("copy of pages, bf16", "append", "copy_pages/bf16", 8192.0),
]

# Rows of the pool: what, name of the benchmark, counter.
POOL = [
    ("a page that is found, small pool", "all_hits/pages:4096/requests:4", "page_ns"),
    ("… 262,144 pages, requests all over it", "all_hits/pages:262144/requests:510", "page_ns"),
    ("a page that is not and evicts another, small pool", "all_misses/pages:4096", "page_ns"),
    ("… 262,144 pages", "all_misses/pages:262144", "page_ns"),
    ("a decoded token", "decode", "token_ns"),
    ("a page of random requests, 10,000 pages", "replay/pages:10000", "page_ns"),
    ("… 1,000,000 pages", "replay/pages:1000000", "page_ns"),
]


def roof_rate(row):
    """Of a row's roof, in 1e9 per second; None without one."""
    roof = row["roof"]
    return None if roof is None else roof.get("gflop_per_s", roof.get("gb_per_s"))


class Run:
    """One file of one process; `None` for a path: no rows."""

    def __init__(self, path):
        content = json.loads(path.read_text()) if path else {"context": {}}
        self.context = content["context"]
        self.ratios = {ratio["name"]: ratio["value"] for ratio in content.get("ratios", [])}
        self.rows = {(row["shape"], row["threads"]): row for row in content.get("rows", [])}
        self.counters = {row["name"]: row for row in content.get("benchmarks", [])}
        commits = {row["commit"] for row in self.rows.values()} - {self.context.get("commit")}
        if commits:
            raise SystemExit(f"{path}: rows of {', '.join(commits)}, expected one commit")

    def row(self, shape, threads):
        """None where it is absent, or held against less than one core can do."""
        row, one = self.rows.get((shape, threads)), self.rows.get((shape, 1))
        if row is None or one is None or roof_rate(row) is None or roof_rate(one) is None:
            return row
        return row if roof_rate(row) >= roof_rate(one) else None

    def rate(self, shape, threads=1):
        row = self.row(shape, threads)
        if row is None:
            return NONE
        roof = row["roof"]
        if roof is not None and "gflop_per_s" in roof:
            return f"{row['gflop_per_s']:.0f} GFLOP/s, {row['percent_of_roof']:.0f} %"
        share = "" if roof is None else f", {row['percent_of_roof']:.0f} %"
        return f"{row['gb_per_s']:.1f} GB/s{share}"

    def time(self, shape, amount, threads):
        """Microseconds of a token; `amount`: tokens of a run, or (float) bytes of a token."""
        row = self.row(shape, threads)
        if row is None:
            return NONE
        run_bytes = row["gb_per_s"] * row["ms"] * 1e6
        tokens = run_bytes / amount if isinstance(amount, float) else amount
        us = row["ms"] * 1e3 / tokens
        return f"{us:.{0 if us >= 100 else 1 if us >= 10 else 2}f} µs, {row['percent_of_roof']:.0f} %"

    def kernel(self, shape):
        row = self.rows.get((shape, 1)) or self.rows[shape, 2]
        return row["kernel"].removeprefix("attention_")

    def shapes(self, pattern):
        """In the order of the file, each once."""
        return list(dict.fromkeys(shape for shape, _ in self.rows if re.match(pattern, shape)))


class Machine:
    """The runs of one machine; those it has not are empty."""

    def __init__(self, slug, directory):
        self.slug = slug
        self.runs = {}
        for bench in ("attention", "append", "pool"):
            path = directory / f"{bench}-{slug}.json"
            self.runs[bench] = Run(path if path.exists() else None)

    def has_layers(self):
        return bool(self.runs["attention"].context or self.runs["append"].context)

    def describe(self):
        contexts = [run.context for run in self.runs.values() if run.context]
        first = contexts[0]
        parts = [first["machine"]]
        if "isa" in first:
            parts += [first["isa"], f"caches of {first['cache_mib']:.0f} MiB"]
        parts.append(f"g++ {first['compiler']}" if "compiler" in first else "g++")
        commits = {}
        for bench, run in self.runs.items():
            commits.setdefault(run.context.get("commit"), []).append(bench)
        commits.pop(None, None)
        measured = "; ".join(f"{', '.join(benches)} at commit {commit}"
                             for commit, benches in commits.items())
        notes = "".join(f" {context['note']}" for context in contexts if "note" in context)
        return f"**{self.slug}**: {'; '.join(parts)}. {measured[0].upper()}{measured[1:]}.{notes}"


def machines(directory):
    slugs = {re.sub(r"^\w+?-", "", path.stem) for path in directory.glob("*.json")}
    return [Machine(slug, directory) for slug in sorted(slugs)]


def table(head, lines, title=None):
    if not lines:
        return ""
    rows = [f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines]]
    return (f"\n{title}\n" if title else "") + "\n" + "".join(rows)


def summary(all_machines):
    """The tables of docs/performance.md: a row of a machine that lacks it is a dash."""
    text = "".join(f"* {machine.describe()}\n" for machine in all_machines)
    of_layers = [machine for machine in all_machines if machine.has_layers()]
    head = ["one layer, per token"]
    head += [f"{machine.slug}, {cores}" for machine in of_layers for cores in ("one core", "two")]
    lines = [[what, *(machine.runs[bench].time(shape, amount, threads)
                      for machine in of_layers for threads in (1, 2))]
             for what, bench, shape, amount in SUMMARY]
    text += table(head, lines)

    def counter(machine, name, key):
        row = machine.runs["pool"].counters.get(name)
        return NONE if row is None else f"{row[key]:.0f} ns"

    lines = [[what, *(counter(machine, name, key) for machine in all_machines)]
             for what, name, key in POOL]
    return text + table(["the page pool, one core", *(m.slug for m in all_machines)], lines)


def roofs(run):
    lines = []
    for shape in run.shapes("roof/"):
        def rate(threads, shape=shape):
            row = run.rows.get((shape, threads))
            if row is None:
                return NONE
            is_arithmetic = row["gflop_per_s"] > 0
            return f"{row['gflop_per_s']:.0f} GFLOP/s" if is_arithmetic else f"{row['gb_per_s']:.1f} GB/s"

        lines.append([shape.removeprefix("roof/"), rate(1), rate(2), run.kernel(shape)])
    return table(["what", "one core", "two cores", "how"], lines, "### Roofs")


def decode(run):
    lines = []
    for shape in run.shapes("decode/.*/token_major$"):
        dtype, _, group, context, page, _ = shape.split("/")[1:]
        other = shape.replace("token_major", "head_major")
        name = ", ".join([dtype, group.replace("group", "group "), context.replace("_", ", "),
                          page.replace("page", "pages of ")])
        lines.append([name, run.kernel(shape), run.rate(shape), run.rate(other), run.rate(shape, 2)])
    return table(["case", "kernel", "token-major", "head-major", "token-major, two cores"], lines,
                 "### Decode, 8 KV heads of 128: bytes of K and V read")


def others(run):
    titles = {"prefill": "Prefill", "mla_decode": "Latent decode", "skewed": "Skewed batch",
              "append": "Append", "rotate": "Rotate", "copy": "Copy"}
    text = ""
    for key, title in titles.items():
        lines = [[shape.removeprefix(key + "/"), run.kernel(shape), run.rate(shape), run.rate(shape, 2)]
                 for shape in run.shapes(f"{key}[/_]")]
        text += table(["case", "kernel", "one core", "two cores"], lines, f"### {title}")
    return text


def ratios(run):
    return table(["what", "value"], [[name, f"{value:.2f}"] for name, value in run.ratios.items()],
                 "### Ratios")


def all_tables(all_machines):
    text = ""
    for machine in all_machines:
        text += f"\n## {machine.slug}\n\n{machine.describe()}\n"
        attention, append = machine.runs["attention"], machine.runs["append"]
        text += roofs(attention) + decode(attention) + others(attention) + ratios(attention)
        text += others(append)
    return text


def between_markers(path, text):
    """The document with `text` between its marker lines."""
    begin, end = "<!-- figures: begin -->\n", "<!-- figures: end -->"
    before, rest = path.read_text().split(begin)
    return f"{before}{begin}{text}{end}{rest.split(end)[1]}"


def documents(directory=RESULTS):
    """{path: what it should be} of the documents that quote runs."""
    found = machines(directory)
    texts = {"docs/performance.md": summary(found), "docs/generated/performance_all.md": all_tables(found)}
    return {ROOT / name: between_markers(ROOT / name, text) for name, text in texts.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if not any(args.results.glob("*.json")):
        parser.error(f"{args.results} holds no *.json, expected a folder of runs")
    if not args.update:
        print(summary(machines(args.results)))
        return
    for path, text in documents(args.results).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
