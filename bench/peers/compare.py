# SPDX-License-Identifier: Apache-2.0
"""folio beside other libraries, in turn: runs the shapes, checks everyone, writes results as JSON.

usage: compare.py [OPTION ...]         with the python of an environment that has torch and folio_kv

Each contender lives in a process of its own. For each shape all of them fill their caches with the same
numbers and compute once, which is compared with the formula in double; then they take turns. The roofs,
the best rate of reading such pages (R) and of arithmetic (P), are two more contenders.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import report
from contenders import ENTRIES, contenders_of
from problem import Problem, relative_rms
from shapes import SETS, SHAPES, Shape
from turns import Gone, Neighbours, Result, Worker, machine_seconds, set_up, take_turns

HERE = Path(__file__).resolve().parent
ROOFS = {"R": "read", "P": "arithmetic"}
RUN_TOKENS = 64  # what the read roof takes for a page
ROTATED_LEAST = 256 << 20


class Comparison:
    """The workers of one number of threads."""

    def __init__(self, options: argparse.Namespace, threads: int, folder: Path) -> None:
        self._options, self._threads, self._folder = options, threads, folder
        self._workers: dict[str, Worker] = {}
        self._neighbours = Neighbours(max(options.neighbours, default=0))

    def run(self, shape: Shape) -> dict:
        """The shape's part of the results."""
        names = [n for n in contenders_of(shape.kind) if chosen(n, self._options.contenders)]
        roofs = [self._worker(name) for name in ROOFS] if self._options.roofs else []
        workers = [self._worker(name) for name in names]
        self._drop()
        want = Problem(shape, 0).reference()
        results, errors = {}, {}
        for worker in roofs:
            results[worker.name] = set_up(worker, self._roof_message(shape))
        for worker in workers:
            results[worker.name] = self._set_up_checked(worker, shape, want, errors)
        before, begin = (machine_seconds(), self._own_seconds()), time.monotonic()
        take_turns(
            [*roofs, *workers], results, self._options.rounds, self._options.seconds,
            (self._neighbours, self._options.neighbours),
        )  # fmt: skip
        machine, own = machine_seconds() - before[0], self._own_seconds() - before[1]
        strangers = max(0.0, machine - own) / (time.monotonic() - begin)
        rows = [self._row(name, results[name], errors.get(name)) for name in names]
        return {
            "shape": shape.name, "what": shape.describe(), "kind": shape.kind, "tokens": shape.tokens,
            "threads": self._threads, "flops": shape.flops, "strangers": round(strangers, 2),
            "roofs": {w.name: self._roof(results[w.name]) for w in roofs}, "rows": rows,
            "neighbours": self._options.neighbours,
        }  # fmt: skip

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        self._neighbours.stop()

    def _worker(self, name: str) -> Worker:
        if name not in self._workers:
            command = [sys.executable, str(HERE / "worker.py"), name, str(self._threads)]
            if name in ROOFS:
                command = [self._options.roofs, ROOFS[name], str(self._threads)]
            surroundings = os.environ | {
                "OMP_NUM_THREADS": str(self._threads),
                "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # huge pages for everyone
            }
            self._workers[name] = Worker(name, command, surroundings)
        return self._workers[name]

    def _drop(self) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(Gone):
                worker.ask({"drop": True}, 60.0)

    def _own_seconds(self) -> float:
        workers = sum(worker.cpu_seconds() for worker in self._workers.values())
        return workers + self._neighbours.cpu_seconds() + time.process_time()

    def _roof_message(self, shape: Shape) -> dict:
        """Pages of one plane, whole or head by head, scattered, as many as others rotate through."""
        row = shape.row_elements * shape.cache_bits // (8 if shape.is_latent else 16)
        run_bytes = min(RUN_TOKENS, shape.context) * row
        runs = max(8, self._options.rotate_bytes // run_bytes)
        return {"run_bytes": run_bytes, "runs": runs, "parts": shape.kv_heads}

    def _set_up_checked(self, worker: Worker, shape: Shape, want, errors: dict) -> Result:
        sample = self._folder / "sample"
        sample.unlink(missing_ok=True)
        message = {"shape": shape.name, "rotate_bytes": self._options.rotate_bytes}
        result = set_up(worker, message | {"sample": str(sample)})
        if not result.refused:
            got = torch.frombuffer(bytearray(sample.read_bytes()), dtype=torch.float32)
            errors[worker.name] = relative_rms(got.view(want.shape), want)
        state = result.refused or f"relative RMS {errors[worker.name]:.2g}"
        print(f"  {worker.name}: {state}", file=sys.stderr, flush=True)
        return result

    def _row(self, name: str, result: Result, error: float | None) -> dict:
        row = {"contender": name, "versions": result.answer.get("versions", {})}
        if result.refused or not result.rounds:
            return row | {"refused": result.refused or "no turn"}
        calls = sorted(result.calls)
        return row | {
            "best_ms": result.best() * 1e3, "median_ms": calls[len(calls) // 2] * 1e3,
            "calls": len(calls), "bytes": result.answer["bytes"], "relative_rms": error,
            "wrong": ENTRIES[name].is_wrong(error),
            "mean_ms": statistics.fmean(calls) * 1e3,
            "beside": {str(count): timed(beside) for count, beside in result.beside.items() if beside},
        }  # fmt: skip

    def _roof(self, result: Result) -> dict:
        if result.refused or not result.rounds:
            return {"refused": result.refused or "no turn"}
        calls = sorted(result.calls)
        return {"best": calls[-1], "median": calls[len(calls) // 2],
                "how": result.answer["how"]}  # fmt: skip


def timed(calls: list[float]) -> dict:
    """Of calls beside neighbours."""
    return {"mean_ms": statistics.fmean(calls) * 1e3, "median_ms": statistics.median(calls) * 1e3}


def chosen(name: str, prefixes: list[str]) -> bool:
    return not prefixes or any(name.lower().startswith(prefix.lower()) for prefix in prefixes)


def rotated_bytes() -> int:
    """Four times the caches that one processor reaches."""
    total = 0
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index[23]"):
        with contextlib.suppress(OSError, ValueError):
            total += int((index / "size").read_text().strip().removesuffix("K")) << 10
    return max(4 * total, ROTATED_LEAST)


def shapes_of(words: list[str]) -> Iterator[Shape]:
    for word in words:
        for name in SETS.get(word, [word]):
            yield SHAPES[name]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    words = lambda text: [word for word in text.split(",") if word]
    parser.add_argument(
        "--shapes", type=words, default=["all"], help=f"of {', '.join([*SETS, *SHAPES])}"
    )
    parser.add_argument(
        "--contenders", type=words, default=[], help="beginnings of their names; all"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn")
    parser.add_argument(
        "--rotate-mib", type=int, default=rotated_bytes() >> 20, help="of caches in decode"
    )
    counts = lambda text: [int(word) for word in words(text)]
    parser.add_argument(
        "--neighbours",
        type=counts,
        default=[],
        help="each round again beside so many busy processes, e.g. 1,2",
    )
    parser.add_argument("--roofs", help="the program roof_worker")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument(
        "--json", type=Path, help="results; shapes that it holds already are replaced"
    )
    options = parser.parse_args()
    unknown = [word for word in options.shapes if word not in SETS and word not in SHAPES]
    least = min(options.threads, options.rounds, *options.neighbours)
    if unknown or least < 1 or options.seconds <= 0:
        parser.error(
            f"unknown shapes: {', '.join(unknown)}" if unknown else "expected positive numbers"
        )
    options.rotate_bytes = options.rotate_mib << 20
    return options


def main() -> None:
    options = parse()
    began = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    stamp = {"commit": options.commit, "began": began, "rounds": options.rounds, "seconds": options.seconds,
             "rotate_mib": options.rotate_mib}  # fmt: skip
    results, parts = {"machine": report.machine(), "shapes": []}, set()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, options.threads, Path(folder))
        try:
            for shape in shapes_of(options.shapes):
                print(f"{shape.name}: {shape.describe()}", file=sys.stderr, flush=True)
                part = comparison.run(shape) | stamp
                parts.add((part["shape"], part["threads"]))
                results = report.merged(options.json, results, part)
        finally:
            comparison.stop()
    print(report.tables(results, parts))


if __name__ == "__main__":
    main()
