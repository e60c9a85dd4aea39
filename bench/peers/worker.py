# SPDX-License-Identifier: Apache-2.0
"""One contender in a process of its own, told line by line what to do.

usage: worker.py NAME THREADS        a line of JSON in, a line of JSON out

    {"shape": NAME, "rotate_bytes": N, "sample": FILE}
        makes the contender, runs it once, writes the sampled rows of its output (f32) to FILE.
        {"bytes": N, "versions": {...}}, or {"refused": reason}
    {"turn": SECONDS}   calls it for about that long: {"seconds": [of each call]}
    {"drop": true}      gives its memory back: {}
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time

import torch

from contenders import ENTRIES, Refused
from problem import Problem
from shapes import SHAPES


class Runner:
    """The contender at hand."""

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._threads = name, threads
        self._drop()

    def answer(self, message: dict) -> dict:
        if "shape" in message:
            try:
                return self._prepare(message)
            except Exception as error:  # of any library's kind
                self._drop()
                return {"refused": reason(error)}
        if "turn" in message:
            return {"seconds": self._turn(message["turn"])}
        self._drop()
        return {}

    def _drop(self) -> None:
        self._contender = self._call = None
        self._copies, self._next, self._last = 1, 0, 0.0
        gc.collect()

    def _prepare(self, message: dict) -> dict:
        self._drop()
        problem = Problem(SHAPES[message["shape"]], message["rotate_bytes"])
        contender = ENTRIES[self._name].make(problem, self._threads)
        if problem.shape.kind == "append":
            for copy in range(problem.copies):
                contender.append(copy)
        last = problem.copies - 1
        contender.attend(last)
        rows = contender.output().float()[problem.sampled_rows()].contiguous()
        rows.numpy().tofile(message["sample"])
        self._contender, self._copies = contender, problem.copies
        self._call = contender.append if problem.shape.kind == "append" else contender.attend
        begin = time.perf_counter()
        self._call(last)
        self._last = time.perf_counter() - begin
        return {"bytes": contender.bytes, "versions": contender.versions}

    def _turn(self, seconds: float) -> list[float]:
        """The first call wakes threads up, and is not counted unless it is long."""
        times, call = [], self._call
        if self._last < seconds:
            self._step(call)
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(self._step(call))
        self._last = times[-1]
        return times

    def _step(self, call) -> float:
        copy, self._next = self._next, (self._next + 1) % self._copies
        begin = time.perf_counter()
        call(copy)
        return time.perf_counter() - begin


def reason(error: Exception) -> str:
    """Its first line, for a document: no folder of this machine."""
    first = (str(error).splitlines() or [""])[0].replace(os.path.expanduser("~"), "~")
    return first if isinstance(error, Refused) else f"{type(error).__name__}: {first}"


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    # Libraries print; only answers go where the answers are read.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    runner = Runner(name, threads)
    for line in sys.stdin:
        print(json.dumps(runner.answer(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
