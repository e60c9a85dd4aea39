#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clients/llama_cpp/bench/bench.py: llama.cpp's tokens a second, stock and with folio's device.

usage: tools/engines.py run llama_cpp clients/llama_cpp/bench/bench.py [OPTION ...]
       bench.py --update       puts the results of bench/results/llama_cpp into docs/llama_cpp.md
       bench.py --check        exit status 1 if the document says something else

A model of random weights (8 layers, 32 query heads over 8, head size 128: llama_models.py), in three
processes: stock llama.cpp with `-fa on`, stock with `-fa off`, and folio's device with `-fa auto`.
They take turns, step by step of the same run, each with the whole machine; a figure is the median
of its turns. Each cell is put into the results as soon as it stands, so that a run may be made of
several with some of --threads, --caches, --cells each.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(ROOT / "tools")]
import llama_models  # noqa: E402
import llama_report as report  # noqa: E402
from llama_runner import Runner  # noqa: E402

BLOCK = 512  # tokens of the prompt that fills deep caches; run/timing.h
CELLS = ["tg@0", "tg@4096", "tg@16384", "tg@32768", "pp512", "pp4096"]
CONTENDERS = {"on": "on", "off": "off", "folio": "auto"}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--caches", default="f16,bf16,q8_0")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--sittings", type=int, default=3, help="fresh processes")
    parser.add_argument(
        "--rounds", type=int, default=2, help="turns of each contender in a sitting"
    )
    parser.add_argument("--steps", type=int, default=6, help="decode steps of a turn")
    parser.add_argument("--results", type=pathlib.Path, help="a file, otherwise the machine's own")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for name in "threads", "caches", "cells":
        setattr(args, name, getattr(args, name).split(","))
    if set(args.cells) - set(CELLS):
        parser.error(f"--cells: expected some of {', '.join(CELLS)}, got {','.join(args.cells)}")
    if min(args.sittings, args.rounds, args.steps) < 1:
        parser.error("--sittings, --rounds, --steps: expected at least 1")
    return args


def build() -> pathlib.Path:
    """The folder of the device and the programs."""
    tool = [sys.executable, ROOT / "tools/llama_cpp.py", "make", "llama_run", "ggml-folio"]
    made = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(made.stdout.split()[-1])


def runners(folder: pathlib.Path, model: pathlib.Path, cache: str) -> dict[str, Runner]:
    """The contenders that can have this cache: llama.cpp has no quantised values with `-fa off`."""
    program, device = folder / "llama_run", folder / "libggml-folio.so"
    names = [name for name in CONTENDERS if name != "off" or not cache.startswith("q")]
    return {n: Runner(program, model, device if n == "folio" else None, {}) for n in names}


def open_all(contenders: dict[str, Runner], cell: str, cache: str, threads: int) -> None:
    kind, _, depth = cell.partition("@")
    tokens = int(depth) + 2 * BLOCK if kind == "tg" else int(cell[2:]) + 64
    sequences = max(1, int(depth or 0) // BLOCK)
    for name, runner in contenders.items():
        runner(
            "open",
            tokens=tokens,
            sequences=sequences,
            unified=True,
            keys=cache,
            values=cache,
            attention=CONTENDERS[name],
            threads=threads,
            watched=False,
        )


def turn(runner: Runner, cell: str, steps: int) -> list[float]:
    """Tokens a second of each step, or of the prompt."""
    if cell.startswith("pp"):
        tokens = int(cell[2:])
        return [tokens / runner("prompt", tokens=tokens)["seconds"]]
    position = BLOCK if cell != "tg@0" else 0
    return [1 / each for each in runner("steps", position=position, steps=steps)["seconds"]]


def sitting(
    contenders: dict[str, Runner], cell: str, cache: str, threads: int, args: argparse.Namespace
) -> dict[str, list[float]]:
    """Tokens a second of the contenders' turns; name -> rates."""
    open_all(contenders, cell, cache, threads)
    for runner in contenders.values():
        if cell.startswith("tg"):
            runner("deepen", depth=int(cell[3:]), block=BLOCK)
        turn(runner, cell if cell != "pp4096" else "pp512", 2)  # warm
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, runner in contenders.items():
            rates[name] += turn(runner, cell, args.steps)
    return rates


def measure(
    start: Callable[[], dict[str, Runner]],
    cell: str,
    cache: str,
    threads: int,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """A cell of the results. Each sitting has processes of its own: where a process's memory comes
    to lie makes up to a fifth of a step in an empty cache, for its whole life."""
    rates: dict[str, list[float]] = {}
    for _ in range(args.sittings):
        contenders = start()
        try:
            for name, found in sitting(contenders, cell, cache, threads, args).items():
                rates.setdefault(name, []).extend(found)
        finally:
            for runner in contenders.values():
                runner.close()
    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    return {"threads": threads, "cache": cache, "cell": cell, "tokens_per_second": medians}


def run(args: argparse.Namespace) -> None:
    folder = build()
    with tempfile.TemporaryDirectory() as models:
        model = pathlib.Path(models) / "bench.gguf"
        llama_models.write(model, "bench")
        for cache, threads, cell in itertools.product(args.caches, args.threads, args.cells):
            start = functools.partial(runners, folder, model, cache)
            found = measure(start, cell, cache, int(threads), args)
            found["commit"] = report.commit()
            report.keep(args.results or report.own_file(), found)
            print(report.line(found), flush=True)


def main() -> None:
    args = options()
    if args.update or args.check:
        sys.exit(report.update(is_check=args.check))
    run(args)


if __name__ == "__main__":
    main()
