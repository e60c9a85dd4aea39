#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/report.py: tables of folio beside other libraries, from results of compare.py.

usage: report.py RESULTS.json ...      prints the tables of these
       report.py --update              puts those of bench/results/peers into docs: the short table of
                                       each machine into performance.md, all into performance_peers.md
       report.py --check               exit status 1 if these documents say something else
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, SHORT, PAGE = (
    ROOT / "bench/results/peers",
    ROOT / "docs/performance.md",
    ROOT / "docs/performance_peers.md",
)
NONE = "–"
DISTURBING = 0.2  # processors that others use, from which on a short table says so
LONG_TABLE_ONLY = {"dec_32k_b1", "pre_2k", "mla_h16_4k", "app_16"}
TITLES = {
    "decode": "Decode, bf16 caches",
    "prefill": "Prefill, bf16 caches",
    "latent": "Latent decode (MLA), bf16 caches",
    "eight_bit": "Decode, 8-bit caches",
    "four_bit": "Decode, 4-bit caches beside f16 and bf16",
    "append": "Append, bf16 input",
}


def machine() -> str:
    """E.g. "AMD EPYC, family 26, model 2, 2 processors"."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    words = [f"family {fields.get('cpu family', '?')}", f"model {fields.get('model', '?')}"]
    words.append(f"{len(os.sched_getaffinity(0))} processors")
    return ", ".join([" ".join(fields.get("model name", "unknown").split()), *words])


def merged(path: pathlib.Path | None, held: dict, part: dict) -> dict:
    """What is held, or the file, with a shape's part in place of an older one; written there."""
    if path and path.exists():
        name, held = held["machine"], json.loads(path.read_text())
        if held["machine"] != name:
            sys.exit(f"{path} holds results of another machine: {held['machine']}")
    parts = {(each["threads"], each["shape"]): each for each in [*held["shapes"], part]}
    results = {"machine": held["machine"], "shapes": list(parts.values())}
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")  # an error leaves the shapes that are held
        part.write_text(json.dumps(results, indent=1) + "\n")
        part.replace(path)
    return results


def ran(row: dict) -> bool:
    return "refused" not in row


def is_own(name: str) -> bool:
    return name.startswith("folio")


def number(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(ms: float) -> str:
    return f"{number(ms)} ms" if ms >= 0.1 else f"{number(ms * 1e3)} µs"


def least_seconds(part: dict, row: dict) -> tuple[float, str] | None:
    """How long the machine needs at least, and which roof says so."""
    candidates = []
    for roof, amount in ("R", row["bytes"]), ("P", part["flops"]):
        rate = part["roofs"].get(roof, {}).get("best")
        if rate:
            candidates.append((amount / rate, roof))
    return max(candidates) if candidates and part["kind"] != "append" else None


def share(part: dict, row: dict) -> str:
    """ "88 % R"; empty without a roof."""
    found = least_seconds(part, row)
    return f"{1e5 * found[0] / row['best_ms']:.0f} % {found[1]}" if found else ""


def rate(part: dict, row: dict) -> str:
    """By the roof that limits: bytes, or operations."""
    found = least_seconds(part, row)
    if found[1] == "P" if found else part["kind"] == "prefill":
        return f"{number(part['flops'] / row['best_ms'] / 1e6)} GFLOP/s"
    return f"{number(row['bytes'] / row['best_ms'] / 1e6)} GB/s"


def cell(part: dict, name: str) -> str:
    row = next((row for row in part["rows"] if row["contender"] == name and ran(row)), None)
    if row is None:
        return NONE
    words = [f"{duration(row['best_ms'])} ({number_like(row)})", rate(part, row), share(part, row)]
    text = " · ".join(filter(None, words))
    return f"~~{text}~~ wrong" if row["wrong"] else text


def number_like(row: dict) -> str:
    """The median in the unit of the best round."""
    return number(row["median_ms"] if row["best_ms"] >= 0.1 else row["median_ms"] * 1e3)


def roof_cell(part: dict, roof: str) -> str:
    values = part["roofs"].get(roof, {})
    if "best" not in values:
        return NONE
    unit = "GB/s" if roof == "R" else "GFLOP/s"
    return f"*{number(values['best'] / 1e9)} ({number(values['median'] / 1e9)}) {unit}*"


def best_of(part: dict, own: bool) -> dict | None:
    """folio's fastest row, or everyone else's."""
    rows = [r for r in part["rows"] if ran(r) and not r["wrong"] and is_own(r["contender"]) == own]
    return min(rows, key=lambda row: row["best_ms"], default=None)


def ratio_cell(part: dict, own: str) -> str:
    """How many times faster than the best peer folio is, best rounds of both."""
    mine = next((r for r in part["rows"] if r["contender"] == own and ran(r)), None)
    peer = best_of(part, own=False)
    if mine is None or mine["wrong"] or peer is None:
        return NONE
    return f"**{peer['best_ms'] / mine['best_ms']:.2f}** ({peer['contender']})"


def with_one_arithmetic(parts: list[dict]) -> list[dict]:
    """Parts with P the best that any of as many threads has seen: it depends on no shape."""
    best = {}
    for part in parts:
        threads, here = part["threads"], part["roofs"].get("P", {})
        if here.get("best", 0) > best.get(threads, {}).get("best", 0):
            best[threads] = here
    return [
        part | {"roofs": part["roofs"] | {"P": best[part["threads"]]}}
        if "P" in part["roofs"] and part["threads"] in best
        else part
        for part in parts
    ]


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def table(parts: list[dict]) -> str:
    """A column for each shape, a row for each contender that took part anywhere."""
    names = list(dict.fromkeys(r["contender"] for p in parts for r in p["rows"] if ran(r)))
    text = line("best round (median)", *(part["shape"] for part in parts))
    text += line(*["---"] * (len(parts) + 1))
    for name in names:
        text += line(name, *(cell(part, name) for part in parts))
    for roof in "RP":
        if parts[0]["kind"] != "append" and any(roof in part["roofs"] for part in parts):
            text += line(f"*{roof}*", *(roof_cell(part, roof) for part in parts))
    text += line("*used by others, processors*", *(f"*{part['strangers']}*" for part in parts))
    for own in filter(is_own, names):
        text += line(f"best peer / {own}", *(ratio_cell(part, own) for part in parts))
    return text


def beside_cell(row: dict, count: str) -> str:
    """The mean beside so many neighbours, in brackets mean and median over those of a quiet machine."""
    there = row.get("beside", {}).get(count)
    if there is None:
        return NONE
    ratios = [there[key] / row[key] for key in ("mean_ms", "median_ms")]
    return f"{duration(there['mean_ms'])} ({ratios[0]:.1f}, {ratios[1]:.1f})"


def beside_table(parts: list[dict], count: str) -> str:
    """A column for each shape, a row for each contender that ran beside `count` neighbours."""
    names = [r["contender"] for p in parts for r in p["rows"] if count in r.get("beside", {})]
    text = line("mean (over quiet: mean, median)", *(part["shape"] for part in parts))
    text += line(*["---"] * (len(parts) + 1))
    for name in dict.fromkeys(names):
        rows = [next((r for r in p["rows"] if r["contender"] == name), {}) for p in parts]
        text += line(name, *(beside_cell(row, count) for row in rows))
    return text


def beside_tables(parts: list[dict]) -> str:
    """For each number of threads, and of busy processes beside."""
    text = ""
    for threads in sorted({part["threads"] for part in parts}, reverse=True):
        here = [part for part in parts if part["threads"] == threads]
        for count in sorted({str(n) for part in here for n in part.get("neighbours", [])}):
            shapes = [p for p in here if any(count in r.get("beside", {}) for r in p["rows"])]
            processes = f"{count} busy process{'es' if count != '1' else ''}"
            text += f"\n### Beside {processes}, {threads_word(threads)}\n\n"
            text += beside_table(shapes, count)
    return text


def notes(parts: list[dict]) -> str:
    """Accuracy, versions, and who is missing and why."""
    errors, reasons, versions, kernels = {}, {}, {}, {}
    for part in parts:
        for row in part["rows"]:
            versions |= row["versions"]
            if "kernel" in row["versions"]:
                kernels.setdefault(row["versions"]["kernel"], []).append(part["shape"])
            if ran(row):
                errors.setdefault(row["contender"], []).append(row["relative_rms"])
            else:
                reason = (row["contender"], row["refused"])
                reasons.setdefault(reason, []).append(part["shape"])
    text = ""
    for (name, reason), shapes in reasons.items():
        text += f"* Missing: {name} ({', '.join(dict.fromkeys(shapes))}): {reason}\n"
    for kernel, shapes in kernels.items():
        text += f"* Kernel {kernel}: {', '.join(dict.fromkeys(shapes))}.\n"
    largest = "; ".join(f"{name} {max(values):.1e}" for name, values in errors.items())
    text += f"* Relative RMS against double, the largest: {largest}.\n"
    executor = versions.pop("executor", None)
    text += f"* folio runs on threads of {executor}.\n" if executor else ""
    versions.pop("kernel", None)
    return text + f"* Versions: {', '.join(f'{n} {v}' for n, v in sorted(versions.items()))}.\n"


def origin(results: dict, parts: list[dict]) -> str:
    """Machine, commits, days and settings."""
    commits = ", ".join(sorted({part["commit"] for part in parts}))
    days = ", ".join(sorted({part["began"][:10] for part in parts}))
    settings = {
        f"{part['rounds']} rounds of {part['seconds']} s, caches of {part['rotate_mib']} MiB"
        for part in parts
    }
    return f"{results['machine']}; folio at {commits}; {days}; {'; '.join(sorted(settings))}."


def disturbance(parts: list[dict]) -> str:
    """What stands behind the origin of a table that does not show what others used."""
    most = max((part["strangers"] for part in parts), default=0)
    if most < DISTURBING:
        return ""
    return f" Others used up to {most} processors meanwhile: times are too long, ratios uncertain."


def threads_word(threads: int) -> str:
    return f"{threads} threads" if threads > 1 else "one thread"


def tables(results: dict, only: set | None = None) -> str:
    """All tables of a machine; `only` some (shape, threads)."""
    chosen = [p for p in results["shapes"] if only is None or (p["shape"], p["threads"]) in only]
    parts = with_one_arithmetic(chosen)
    text = f"{origin(results, parts)}\n"
    for threads in sorted({part["threads"] for part in parts}, reverse=True):
        for kind, title in TITLES.items():
            here = [p for p in parts if p["kind"] == kind and p["threads"] == threads]
            if here:
                text += f"\n### {title}, {threads_word(threads)}\n\n{table(here)}"
    return f"{text}{beside_tables(parts)}\n{notes(parts)}"


def behind(parts: list[dict]) -> str:
    """What is below 1.3 times the best peer and below 88 % of its roof, of either storage order."""
    found = []
    for part in parts:
        peer = best_of(part, own=False)
        for row in part["rows"] if peer else []:
            if not ran(row) or row["wrong"] or not is_own(row["contender"]):
                continue
            ratio, percent = peer["best_ms"] / row["best_ms"], re.match(r"\d+", share(part, row))
            if ratio < 1.3 and (percent is None or int(percent[0]) < 88):
                name = row["contender"].removeprefix("folio ")
                found.append(
                    f"{part['shape']} {name} on {threads_word(part['threads'])} ({ratio:.2f})"
                )
    return (
        f"Below 1.3 times the best peer and 88 % of the roof: {', '.join(found)}.\n"
        if found
        else ""
    )


def short_table(results: dict) -> str:
    """A row for each shape: folio's faster storage order and the fastest of the others."""
    every = with_one_arithmetic(results["shapes"])
    most = max(part["threads"] for part in every)
    parts = [p for p in every if p["threads"] == most and p["shape"] not in LONG_TABLE_ONLY]
    text = f"{origin(results, parts)}{disturbance(parts)}\n\n"
    text += line("shape", "threads", "folio", "of the roof", "best peer", "", "peer / folio")
    text += line(*["---"] * 7)
    for part in parts:
        mine, peer = best_of(part, own=True), best_of(part, own=False)
        if mine is None or peer is None:
            continue
        mine_cell = f"{duration(mine['best_ms'])} ({mine['contender'].removeprefix('folio ')})"
        ratio = f"{peer['best_ms'] / mine['best_ms']:.2f}"
        text += line(
            f"{part['shape']}: {part['what']}", str(part["threads"]), mine_cell,
            share(part, mine) or NONE, duration(peer["best_ms"]), peer["contender"], ratio,
        )  # fmt: skip
    return f"{text}\n{behind(every)}"


def between(path: pathlib.Path, text: str) -> str:
    """The document with `text` between its marker lines of peers."""
    begin, end = "<!-- peers: begin -->\n", "<!-- peers: end -->"
    before, rest = path.read_text().split(begin)
    return f"{before}{begin}{text}{end}{rest.split(end)[1]}"


def documents() -> dict[pathlib.Path, str]:
    """Both documents as the results say."""
    results = {p.stem: json.loads(p.read_text()) for p in sorted(RESULTS.glob("*.json"))}
    short = "\n".join(f"**{name}**: {short_table(r)}" for name, r in results.items())
    every = "\n".join(f"## {name}\n\n{tables(r)}" for name, r in results.items())
    return {SHORT: between(SHORT, short), PAGE: between(PAGE, every)}


def check() -> int:
    """How many documents differ; names them."""
    old = [path for path, text in documents().items() if path.read_text() != text]
    for path in old:
        print(f"{path.relative_to(ROOT)}: differs from bench/results/peers (--update)")
    return len(old)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.update + options.check + bool(options.results) != 1:
        parser.error("expected files of results, --update or --check")
    if options.check:
        sys.exit(1 if check() else 0)
    if options.update:
        for path, text in documents().items():
            path.write_text(text)
    for path in options.results:
        print(tables(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
