#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""folio's page pool beside vLLM's KVCacheManager, SGLang's RadixCache and UnifiedRadixCache, and MAX's managers, in turns.

usage: run.py [--json FILE] [--rounds N] [--seconds S] [--only CASE,...] [--contenders NAME,...] [--traces FOLDER]

Each contender is a process of its own that serves the same requests (worker.py, folio_worker.cpp); in each round each serves some
for S seconds, every other round in reverse. A figure is the median of the rounds' medians. With --traces, each also
replays the request loads of that folder through 10,000 pages. A FILE of this machine and commit keeps its cases and traces that
are not measured anew; any other is replaced. Needs build/release/bench/pool_worker, and
`tools/engines.py make vllm sglang max`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tools")]

import release_figures  # noqa: E402
import turns  # noqa: E402

WORKER = Path(__file__).with_name("worker.py")
NAMES = {
    "folio": "folio",
    "vllm": "vLLM KVCacheManager",
    "vllm_hashed": "vLLM KVCacheManager, hashes given",
    "sglang": "SGLang RadixCache",
    "sglang_unified": "SGLang UnifiedRadixCache",
    "max_jenga": "MAX JengaBlockManager",
    "max_classic": "MAX BlockManager",
}
TRACES = ["conversation_trace.jsonl", "synthetic_trace.jsonl"]
TRACE_PAGES = 10_000


@dataclasses.dataclass(frozen=True)
class Case:
    operation: str  # hit or miss
    pages: int
    request_pages: int

    @property
    def name(self) -> str:
        return f"{self.operation}/pages:{self.pages}/request_pages:{self.request_pages}"

    def setup(self) -> dict:
        return {"setup": {"page_size": 16, **dataclasses.asdict(self)}}


CASES = [
    Case(operation, pages, length)
    for operation in ("hit", "miss")
    for pages, length in ((4096, 512), (1 << 18, 512), (1 << 18, 8))
]


def workers(names: list[str]) -> list[turns.Worker]:
    """Of these contenders; those of Python in the environments that tools/engines.py makes."""
    pythons = made({environment_of(name) for name in names if name != "folio"})
    wheel = ""
    if "sglang" in pythons:
        wheel = str(next(Path(pythons["sglang"]).parents[1].glob("lib/python*/site-packages")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SGLANG_WHEEL": wheel}

    def command(name: str) -> list[str]:
        if name == "folio":
            return [str(ROOT / "build/release/bench/pool_worker")]
        # SGLang's trees need nothing of its wheel but the sources, and run beside vLLM's packages
        python = pythons["max" if environment_of(name) == "max" else "vllm"]
        return [python, str(WORKER), name]

    return [turns.Worker(name, command(name), environment) for name in names]


def environment_of(name: str) -> str:
    return name.partition("_")[0]


def made(environments: set[str]) -> dict[str, str]:
    """The pythons of tools/engines.py."""
    if not environments:
        return {}
    needed = sorted(environments | ({"vllm"} if "sglang" in environments else set()))
    command = [sys.executable, ROOT / "tools/engines.py", "make", *needed]
    paths = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(needed, paths, strict=True))


def nanoseconds(result: turns.Result) -> float:
    return statistics.median(statistics.median(calls) for calls in result.rounds) * 1e9


def measure_case(each: list[turns.Worker], case: Case, rounds: int, seconds: float) -> dict:
    """A row for each contender: ns a page, or why it has none."""
    results = {worker.name: turns.set_up(worker, case.setup()) for worker in each}
    turns.take_turns(each, results, rounds, seconds)
    rows = []
    for worker in each:
        result = results[worker.name]
        row = {"contender": worker.name, "versions": result.answer.get("versions", {})}
        if result.refused or not result.rounds:
            row["refused"] = result.refused
        else:
            row |= {"page_ns": nanoseconds(result), "requests": len(result.calls)}
        rows.append(row)
    how = {"rounds": rounds, "seconds": seconds}
    return {"case": case.name, **dataclasses.asdict(case), **how, "rows": rows}


def measure_trace(each: list[turns.Worker], path: Path, rounds: int) -> dict:
    """Replays in turn: hits, and the median of the rounds in ns a page."""
    rows = {worker.name: {"contender": worker.name} for worker in each}
    times: dict[str, list[float]] = {worker.name: [] for worker in each}
    for number in range(rounds):
        for worker in each if number % 2 == 0 else reversed(each):
            message = {"trace": {"path": str(path), "pages": TRACE_PAGES}}
            try:
                answer = worker.ask(message, turns.SETUP_SECONDS)
            except turns.Gone as reason:
                rows[worker.name]["refused"] = str(reason)
                continue
            times[worker.name].append(answer["seconds"] / answer["pages"] * 1e9)
            rows[worker.name] |= {"hit_pages": answer["hit_pages"], "pages": answer["pages"]}
    for name, ns in times.items():
        if ns:
            rows[name]["page_ns"] = statistics.median(ns)
    return {
        "trace": path.name,
        "pages": TRACE_PAGES,
        "rounds": rounds,
        "rows": list(rows.values()),
    }


def merged(held: dict, new: dict) -> dict:
    """What was measured now, in place of what was held, or beside it: in the order that tables have."""
    if any(held["context"][key] != new["context"][key] for key in ("machine", "commit")):
        return new
    cases = {part["case"]: part for part in [*held["cases"], *new["cases"]]}
    traces = {part["trace"]: part for part in [*held["traces"], *new["traces"]]}
    order = [case.name for case in CASES]
    return {
        "context": new["context"],
        "cases": sorted(cases.values(), key=lambda part: order.index(part["case"])),
        "traces": sorted(traces.values(), key=lambda part: TRACES.index(part["trace"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--only", default=",".join(case.name for case in CASES))
    parser.add_argument("--contenders", default=",".join(NAMES))
    parser.add_argument("--traces", type=Path)
    options = parser.parse_args()
    names, wanted = options.contenders.split(","), options.only.split(",")
    if unknown := set(names) - NAMES.keys():
        parser.error(f"--contenders: expected {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    if unknown := set(wanted) - {case.name for case in CASES} - {""}:
        parser.error(f"--only: no case {', '.join(sorted(unknown))}")
    began = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    each = workers(names)
    try:
        cases = [
            measure_case(each, case, options.rounds, options.seconds)
            for case in CASES
            if case.name in wanted
        ]
        traces = [
            measure_trace(each, options.traces / name, min(options.rounds, 3))
            for name in (TRACES if options.traces else [])
        ]
    finally:
        for worker in each:
            worker.stop()
    context = {
        "machine": release_figures.machine()[0],
        "commit": release_figures.stamp(),
        "began": began,
    }
    results = {"context": context, "cases": cases, "traces": traces}
    if not options.json:
        print(json.dumps(results, indent=1))
        return
    if options.json.exists():
        results = merged(json.loads(options.json.read_text()), results)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    part = options.json.with_name(options.json.name + ".part")  # an error leaves what is held
    part.write_text(json.dumps(results, indent=1) + "\n")
    part.replace(options.json)


if __name__ == "__main__":
    main()
