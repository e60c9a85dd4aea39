#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/report.py: tables of folio beside other libraries, from results of bench/peers/compare.py.

usage: report.py RESULTS.json ...      prints the tables of these
       report.py --update              puts those of bench/results/peers into docs/performance_peers.md
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "bench/results/peers", ROOT / "docs/performance_peers.md"
DISTURBED = 0.2  # processors that strangers used
TITLES = {
    "decode": "Decode, bf16 caches",
    "prefill": "Prefill, bf16 caches",
    "latent": "Latent decode (MLA), bf16",
    "eight_bit": "Decode, 8-bit caches",
    "append": "Append, bf16 input",
}


def machine() -> str:
    """E.g. "AMD EPYC, family 26, model 2, 2 processors"."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    fields = {
        k.strip(): v.strip() for k, v in (line.split(":", 1) for line in lines if ":" in line)
    }
    words = [" ".join(fields.get("model name", "unknown").split()), f"family {fields.get('cpu family', '?')}",
             f"model {fields.get('model', '?')}", f"{len(os.sched_getaffinity(0))} processors"]  # fmt: skip
    return ", ".join(words)


def slug(name: str) -> str:
    """A machine's file: "amd-epyc-26-2"."""
    brand, family, model, *_ = name.split(", ")
    brand = " ".join(re.sub(r"\(\w+\)|Processor|CPU", "", brand).split())
    return "-".join([*brand.lower().split()[:2], family.split()[1], model.split()[1]])


def merged(path: pathlib.Path, new: dict) -> dict:
    """What the file holds, with new shapes in place of old ones."""
    if not path.exists():
        return new
    old = json.loads(path.read_text())
    if old["machine"] != new["machine"]:
        sys.exit(f"{path} holds results of another machine: {old['machine']}")
    parts = {(part["threads"], part["shape"]): part for part in [*old["shapes"], *new["shapes"]]}
    return {"machine": new["machine"], "shapes": list(parts.values())}


def number(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def roof_seconds(part: dict, row: dict) -> tuple[float, str] | None:
    """How long the machine needs at least, and which roof says so."""
    candidates = []
    for roof, amount in ("R", row["bytes"]), ("P", part["flops"]):
        rate = part["roofs"].get(roof, {}).get("best")
        if rate:
            candidates.append((amount / rate, roof))
    return max(candidates) if candidates and part["kind"] != "append" else None


def rate(part: dict, row: dict, roof: str) -> str:
    seconds = row["best_ms"] / 1e3
    if roof == "P":
        return f"{part['flops'] / seconds / 1e9:,.0f} GFLOP/s"
    return f"{number(row['bytes'] / seconds / 1e9)} GB/s"


def cell(part: dict, row: dict | None) -> str:
    if row is None or "refused" in row:
        return "–"
    found = roof_seconds(part, row)
    roof = found[1] if found else "P" if part["kind"] == "prefill" else "R"
    words = [f"{number(row['best_ms'])} ({number(row['median_ms'])})", rate(part, row, roof)]
    if found:
        words.append(f"{100 * found[0] / (row['best_ms'] / 1e3):.0f} % {roof}")
    text = " · ".join(words)
    return f"~~{text}~~ wrong" if row["wrong"] else text


def roof_cell(part: dict, roof: str) -> str:
    values = part["roofs"].get(roof, {})
    if "best" not in values:
        return "–"
    unit = "GB/s" if roof == "R" else "GFLOP/s"
    return f"{number(values['best'] / 1e9)} ({number(values['median'] / 1e9)}) {unit}"


def ratio_cell(part: dict, own: str) -> str:
    """The best peer's best round over folio's."""
    rows = {
        row["contender"]: row for row in part["rows"] if "refused" not in row and not row["wrong"]
    }
    peers = {name: row["best_ms"] for name, row in rows.items() if not name.startswith("folio")}
    if own not in rows or not peers:
        return "–"
    best = min(peers, key=peers.get)
    ratio = peers[best] / rows[own]["best_ms"]
    return f"**{ratio:.2f}** ({best})"


def table(parts: list[dict]) -> str:
    names = list(dict.fromkeys(row["contender"] for part in parts for row in part["rows"]))
    present = [
        n
        for n in names
        if any("refused" not in r for p in parts for r in p["rows"] if r["contender"] == n)
    ]
    lines = ["| best round ms (median) | " + " | ".join(disturbed_name(part) for part in parts) + " |",
             "| --- " * (len(parts) + 1) + "|"]  # fmt: skip
    for name in present:
        rows = [next((r for r in part["rows"] if r["contender"] == name), None) for part in parts]
        lines.append(f"| {name} | " + " | ".join(map(cell, parts, rows)) + " |")
    for roof in ("R", "P"):
        if parts[0]["kind"] != "append" and any(roof in part["roofs"] for part in parts):
            lines.append(
                f"| *{roof}* | " + " | ".join(f"*{roof_cell(part, roof)}*" for part in parts) + " |"
            )
    for own in [name for name in present if name.startswith("folio")]:
        lines.append(
            f"| best peer / {own} | " + " | ".join(ratio_cell(part, own) for part in parts) + " |"
        )
    return "\n".join(lines) + "\n"


def disturbed_name(part: dict) -> str:
    return part["shape"] + ("!" if part["strangers"] > DISTURBED else "")


def notes(parts: list[dict]) -> str:
    """Accuracy, and who is missing and why."""
    errors, reasons, versions = {}, {}, {}
    for part in parts:
        for row in part["rows"]:
            versions |= {k: v for k, v in row["versions"].items() if k != "kernel"}
            if "refused" in row:
                reasons.setdefault((row["contender"], row["refused"]), []).append(part["shape"])
            else:
                errors.setdefault(row["contender"], []).append(row["relative_rms"])
    lines = []
    if reasons:
        lines += [
            f"* {name}, {', '.join(shapes)}: {reason}" for (name, reason), shapes in reasons.items()
        ]
    span = lambda values: (
        f"{min(values):.1e}" + (f"–{max(values):.1e}" if max(values) > min(values) else "")
    )
    lines.append(
        "* Relative RMS against double: "
        + "; ".join(f"{n} {span(v)}" for n, v in errors.items())
        + "."
    )
    lines.append("* Versions: " + ", ".join(f"{n} {v}" for n, v in sorted(versions.items())) + ".")
    return "\n".join(lines) + "\n"


def tables(results: dict, only: set | None = None) -> str:
    """All tables of a machine; `only` some (shape, threads)."""
    parts = [p for p in results["shapes"] if only is None or (p["shape"], p["threads"]) in only]
    commits = ", ".join(sorted({part["commit"] for part in parts}))
    dates = sorted({part["began"][:10] for part in parts})
    settings = sorted(
        {
            f"{p['rounds']} rounds of {p['seconds']} s, caches of {p['rotate_mib']} MiB"
            for p in parts
        }
    )
    text = f"{results['machine']}; folio at {commits}; {', '.join(dates)}; {'; '.join(settings)}.\n"
    for threads in sorted({part["threads"] for part in parts}, reverse=True):
        for kind, title in TITLES.items():
            here = [p for p in parts if p["kind"] == kind and p["threads"] == threads]
            if here:
                many = f"{threads} threads" if threads > 1 else "one thread"
                text += f"\n### {title}, {many}\n\n{table(here)}"
    return f"{text}\n{notes(parts)}"


def update() -> None:
    text = ""
    for path in sorted(RESULTS.glob("*.json")):
        results = json.loads(path.read_text())
        text += f"## {path.stem}\n\n{tables(results)}\n"
    begin, end = "<!-- figures: begin -->\n", "<!-- figures: end -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}{text}{end}{rest.split(end)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if options.update == bool(options.results):
        parser.error("expected files of results, or --update")
    if options.update:
        update()
    for path in options.results:
        print(tables(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
