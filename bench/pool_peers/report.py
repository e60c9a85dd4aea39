#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/pool_peers/report.py: the tables of docs/pool_performance.md.

usage: report.py RESULTS.json ...      prints the tables of these: of run.py, or of pool_bench
       report.py --update              puts those of bench/results into docs/pool_performance.md
       report.py --check               exit status 1 if the document says something else

Read are bench/results/pool-MACHINE.json (tools/release_figures.py pool), where it has rows of options, and
bench/results/pool_peers/MACHINE.json (run.py).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "bench/results", ROOT / "docs/pool_performance.md"
NONE = "–"
NAMES = {
    "folio": "folio",
    "vllm": "vLLM `KVCacheManager`",
    "vllm_hashed": "… hashes given",
    "sglang": "SGLang `RadixCache`",
    "sglang_unified": "SGLang `UnifiedRadixCache`",
    "max_jenga": "MAX `JengaBlockManager`",
    "max_classic": "MAX `BlockManager`",
}
# options: what a pool of pool_options_bench.cpp is called in the table
OPTIONS = {
    "lru": "LRU, nothing else on",
    "s3_fifo": "S3-FIFO",
    "lfu": "LFU",
    "cost": "cost",
    "lru_retention": "LRU, retention",
    "lru_events": "LRU, events",
    "lru_partial_hits": "LRU, partial hits",
    "lru_statistics": "LRU, readers and histograms",
    "lru_items": "LRU, items of other kinds",
    "lru_everything": "LRU, all of these",
}
# groups: what a shape of pool_groups_bench.cpp is called in the table
GROUPS = {
    "no_groups": "none: a pool of equal pages",
    "full_alone": "full attention alone",
    "full_and_window_128": "full, window of 128",
    "full_and_window_1024": "full, window of 1,024",
    "full_and_chunked_8192": "full, chunks of 8,192",
    "full_and_states_512": "full, states each 512 tokens",
}
PLACES = [(1 << 12, 0), (1 << 18, 0), (1 << 20, 0), (1 << 20, 1)]


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def nanoseconds(value: float) -> str:
    """Three digits, in the unit that fits."""
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} ns"


def digits(value: float) -> str:
    """Three of them, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def medians(benchmarks: list[dict]) -> dict[str, dict[str, float]]:
    """Name of a benchmark, without iterations -> its counters, each the median of its repetitions."""
    runs: dict[str, list[dict]] = {}
    for row in benchmarks:
        if row.get("run_type") == "iteration" and "error_message" not in row:
            name = re.sub(r"/iterations:\d+$", "", row["run_name"])
            runs.setdefault(name, []).append(row)
    return {
        name: {
            key: statistics.median(row[key] for row in rows)
            for key, value in rows[0].items()
            if isinstance(value, float)
        }
        for name, rows in runs.items()
    }


def option_rows(found: dict, what: str) -> str:
    text = ""
    for key, name in OPTIONS.items():
        rows = [
            found.get(f"{what}/{key}/pages:{pages}/scattered:{scattered}")
            for pages, scattered in PLACES
        ]
        if any(rows):
            text += line(name, *(f"{row['page_ns']:.0f}" if row else NONE for row in rows))
    if not text:
        return ""
    head = [f"{pages:,}{', scattered' if scattered else ''}" for pages, scattered in PLACES]
    return line("", *head) + line(*["---"] * (1 + len(PLACES))) + text


def group_rows(found: dict) -> str:
    text = ""
    for key, name in GROUPS.items():
        hit, miss = found.get(f"group_hits/{key}"), found.get(f"group_misses/{key}")
        if hit and miss:
            figures = f"{hit['page_ns']:.0f}", f"{miss['page_ns']:.0f}", f"{miss['evicted']:,.0f}"
            text += line(name, *figures)
    head = line("", "found", "not found", "pages evicted for a request")
    return head + line(*["---"] * 4) + text if text else ""


def bytes_rows(found: dict) -> str:
    text = "".join(
        line(name, f"{row['least_bytes']:.0f} … {row['most_bytes']:.0f}")
        for key, name in OPTIONS.items()
        if (row := found.get(f"bytes/{key}"))
    )
    return line("", "bytes") + line("---", "---") + text if text else ""


def growth_rows(found: dict) -> str:
    text = ""
    for is_found, what in ((1, "found"), (0, "not found, evicts another")):
        for pages in (100_000, 1_000_000, 10_000_000):
            if row := found.get(f"growth/pages:{pages}/found:{is_found}"):
                text += line(
                    f"{what}, {pages:,} pages",
                    *(f"{row[f'{size}_{kind}_ns']:.0f}" for kind in ("page", "load")
                      for size in ("small", "large")),
                    f"{row['growth']:.2f}", f"{row['chase_growth']:.2f}",
                    f"**{row['beyond_chase']:.2f}**", f"{row['loads_more']:.2f}",
                )  # fmt: skip
    if not text:
        return ""
    head = ["page at 10,000", "page at this size", "load at 10,000", "load at this size"]
    more = ["growth", "of the chase", "beyond it", "loads more"]
    return line("", *head, *more) + line(*["---"] * 9) + text


def prompt_rows(found: dict) -> str:
    text = ""
    for pages, prompts in ((1 << 14, 1), (1 << 20, 120)):
        if row := found.get(f"cached_128k_prompt/pages:{pages}/prompts:{prompts}"):
            what = f"{pages:,} pages, {'the same prompt' if prompts == 1 else f'{prompts} in turn'}"
            text += line(what, f"{row['admit_ms']:.2f} ms", f"{row['served_ms']:.2f} ms")
    return line("", "admitted", "… and given up") + line("---", "---", "---") + text if text else ""


def name_rows(found: dict) -> str:
    text = ""
    for pages in (1 << 12, 1 << 18):
        rows = [found.get(f"names_by_{by}/pages:{pages}") for by in ("sha256", "nothing")]
        if all(rows):
            text += line(f"{pages:,} pages", *(f"{row['name_ns']:.0f} ns" for row in rows))
    head = line("", "SHA-256", "a function that does nothing")
    return head + line("---", "---", "---") + text if text else ""


def asked(found: dict) -> list[tuple[str, str, float, float]]:
    """What is asked, its unit, the most that it may be, and what it is."""
    large, last = "pages:1048576", "pages:10000000"
    wanted = [
        (
            f"{how}, {name}, 2^20 pages{place}",
            "ns",
            most,
            f"{what}/{key}/{large}/scattered:{where}",
            "page_ns",
        )
        for what, how, most in (("hits", "found", 50), ("misses", "not found, evicts another", 80))
        for key, name in (("lru", "LRU"), ("lru_everything", "everything on"))
        for where, place in ((0, ""), (1, ", scattered"))
    ]
    wanted += [
        ("growth from 10^4 to 10^7 pages beyond the chase's, found", "", 1.5, f"growth/{last}/found:1", "beyond_chase"),
        ("… not found, evicts another", "", 1.5, f"growth/{last}/found:0", "beyond_chase"),
        ("a cached prompt of 131,072 tokens admitted, 2^20 pages", "ms", 1, f"cached_128k_prompt/{large}/prompts:120", "admit_ms"),
        ("a name by SHA-256, 2^18 pages", "ns", 150, "names_by_sha256/pages:262144", "name_ns"),
    ]  # fmt: skip
    wanted += [
        (f"bytes beside tokens: {name}", "", 96, f"bytes/{key}", "most_bytes")
        for key, name in OPTIONS.items()
    ]
    return [
        (what, unit, most, found[name][key])
        for what, unit, most, name, key in wanted
        if name in found
    ]


def asked_rows(found: dict) -> str:
    text = "".join(
        line(
            what, f"{most:g} {unit}".rstrip(), f"{digits(value)} {unit}".rstrip(),
            "yes" if value <= most + 0.01 else f"no, {digits(value / most)} ×",
        )
        for what, unit, most, value in asked(found)
    )  # fmt: skip
    return line("", "at most", "is", "met") + line(*["---"] * 4) + text if text else ""


def pool_tables(results: dict) -> str:
    """Of pool_bench: each figure the median of the repetitions; empty without rows of options."""
    found, context = medians(results["benchmarks"]), results["context"]
    parts = [
        ("As asked", asked_rows(found)),
        ("A page that is found, ns", option_rows(found, "hits")),
        ("A page that is not found and evicts another, ns", option_rows(found, "misses")),
        ("Groups of hybrid models, ns a leading page", group_rows(found)),
        ("Growth, ns", growth_rows(found)),
        ("A cached prompt of 131,072 tokens", prompt_rows(found)),
        ("Bytes of a page beside its tokens", bytes_rows(found)),
        ("A name, ns a page", name_rows(found)),
    ]
    text = "".join(f"### {title}\n\n{rows}\n" for title, rows in parts if rows)
    origin = f"Machine: {context.get('machine', 'unknown')}; commit {context.get('commit')}; "
    times = max((row.get("repetitions", 1) for row in results["benchmarks"]), default=1)
    origin += f"{context.get('began', context.get('date'))}; medians of {times} runs."
    return f"{origin} {context.get('note', '')}".rstrip() + f"\n\n{text}" if text else ""


def row_of(rows: list[dict], name: str) -> dict:
    return next((row for row in rows if row["contender"] == name), {})


def peer_cell(rows: list[dict], name: str) -> str:
    """Time a page, and how many times folio's it is."""
    row, own = row_of(rows, name), row_of(rows, "folio")
    if "page_ns" not in row:
        return NONE
    text = nanoseconds(row["page_ns"])
    if name == "folio" or "page_ns" not in own:
        return text
    ratio = row["page_ns"] / own["page_ns"]
    return f"{text} ({ratio:,.0f} ×)" if ratio >= 10 else f"{text} ({ratio:.1f} ×)"


def peer_tables(results: dict) -> str:
    """Of run.py."""
    context = results["context"]
    every = [row for part in [*results["cases"], *results["traces"]] for row in part["rows"]]
    names = [name for name in NAMES if any(row["contender"] == name for row in every)]
    versions: dict[str, str] = {}
    for row in every:
        versions |= row.get("versions", {})
    how = sorted({f"{part['rounds']} rounds of {part['seconds']} s" for part in results["cases"]})
    how += sorted({f"{part['rounds']} of each trace" for part in results["traces"]})
    text = (
        f"Machine: {context['machine']}; folio at commit {context['commit']}; {context['began']}; "
        f"{', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}; "
        f"{', '.join(how)}.\n\n"
    )
    if results["cases"]:
        text += line("time a page", *(NAMES[name] for name in names))
        text += line(*["---"] * (1 + len(names)))
    for case in results["cases"]:
        what = "found" if case["operation"] == "hit" else "not found, evicts another"
        where = f"{case['pages']:,} pages, requests of {case['request_pages']}"
        text += line(f"{what}; {where}", *(peer_cell(case["rows"], name) for name in names))
    if results["traces"]:
        text += "\n" + line("hits of a trace", *(NAMES[name] for name in names))
        text += line(*["---"] * (1 + len(names)))
    for trace in results["traces"]:
        cells = []
        for name in names:
            row = row_of(trace["rows"], name)
            hits = f"{row['hit_pages']:,} of {row['pages']:,}; " if "hit_pages" in row else ""
            cells.append(hits + peer_cell(trace["rows"], name))
        text += line(f"`{trace['trace']}`, {trace['pages']:,} pages", *cells)
    missing = [
        f"{NAMES[row['contender']]} ({part.get('case', part.get('trace'))}): {row['refused']}"
        for part in [*results["cases"], *results["traces"]]
        for row in part["rows"]
        if "refused" in row
    ]
    return text + (f"\nMissing: {'; '.join(missing)}.\n" if missing else "")


def tables(results: dict) -> str:
    return pool_tables(results) if "benchmarks" in results else peer_tables(results)


def between(text: str, mark: str, content: str) -> str:
    """`text` with `content` between the lines that mark it."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}{content}{end}{rest.split(end)[1]}"


def document() -> str:
    """docs/pool_performance.md as the results say."""
    text = PAGE.read_text()
    for mark, files in (
        ("pool", sorted(RESULTS.glob("pool-*.json"))),
        ("peers", sorted((RESULTS / "pool_peers").glob("*.json"))),
    ):
        each = [tables(json.loads(file.read_text())) for file in files]
        text = between(text, mark, "\n".join(filter(None, each)))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.update + options.check + bool(options.results) != 1:
        parser.error("expected files of results, --update or --check")
    if options.update:
        PAGE.write_text(document())
    if options.check and document() != PAGE.read_text():
        sys.exit(f"{PAGE.relative_to(ROOT)}: differs from bench/results (--update)")
    for path in options.results:
        print(tables(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
