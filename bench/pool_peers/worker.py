# SPDX-License-Identifier: Apache-2.0
"""A process that serves requests with one contender's manager of pages: one line of JSON in, one out.

usage: worker.py NAME        vllm, vllm_hashed, sglang, sglang_unified, max_jenga or max_classic

{"setup": {"pages", "page_size", "request_pages", "operation"}} fills a manager with requests of random tokens. {"turn": seconds}
then serves more: `hit`, the same requests again with one token more, `miss`, others. Each is admitted, given room for what it
lacks, and given up: seconds a page, by request. {"trace": {"path", "pages"}} replays a request load of block ids, one id a page.
The tokens stand ready before the time begins.
"""

from __future__ import annotations

import json
import random
import sys
import time
from array import array
from pathlib import Path
from typing import Protocol

BEHIND = 1 << 30  # a token that is in no trace


class Manager(Protocol):
    """A contender: holds pages of `page_size` tokens, evicts the least recently used."""

    versions: dict[str, str]

    def prompt(self, tokens: list[int]) -> object:
        """Tokens in the form that it takes, made before the time begins."""

    def serve(self, prompt: object) -> int:
        """Admits, makes room, gives up. Returns the tokens that were cached."""


def make(name: str, pages: int, page_size: int) -> Manager:
    if name == "sglang":
        import sglang_radix

        return sglang_radix.Radix(pages, page_size)
    if name == "sglang_unified":
        import sglang_unified

        return sglang_unified.Unified(pages, page_size)
    if name.startswith("max_"):
        import max_manager

        return max_manager.Manager(pages, page_size, name == "max_jenga")
    import vllm_manager

    return vllm_manager.Manager(pages, page_size, name == "vllm_hashed")


def tokens_of(number: int, count: int) -> list[int]:
    return array("H", random.Random(number).randbytes(2 * count)).tolist()


class Load:
    """Requests of one length in a manager that is full of them."""

    def __init__(self, manager: Manager, setup: dict) -> None:
        self.manager = manager
        self.is_hit = setup["operation"] == "hit"
        self.pages, self.tokens = (
            setup["request_pages"],
            setup["request_pages"] * setup["page_size"],
        )
        # a request that is found takes a page for its one token more: two requests' room is left
        self.count = setup["pages"] // self.pages - (2 if self.is_hit else 0)
        self.next = 0 if self.is_hit else self.count
        for number in range(self.count):
            manager.serve(manager.prompt(tokens_of(number, self.tokens)))

    def serve_next(self) -> float:
        """Seconds a page."""
        number = self.next % self.count if self.is_hit else self.next
        self.next += 1
        prompt = self.manager.prompt(tokens_of(number, self.tokens) + [0] * self.is_hit)
        start = time.perf_counter()
        cached = self.manager.serve(prompt)
        seconds = time.perf_counter() - start
        if cached != (self.tokens if self.is_hit else 0):
            raise RuntimeError(f"request {number} found {cached} tokens")
        return seconds / self.pages

    def turn(self, seconds: float) -> list[float]:
        end, times = time.perf_counter() + seconds, []
        while not times or time.perf_counter() < end:
            times.append(self.serve_next())
        return times


def replay(name: str, path: str, pages: int) -> dict:
    """Each id of the trace a page of one token, and a token behind them that gets no room."""
    manager = make(name, pages, 1)
    requests = [json.loads(line)["hash_ids"] for line in Path(path).read_text().splitlines()]
    hits, seconds = 0, 0.0
    for ids in requests:
        prompt = manager.prompt([*ids, BEHIND])
        start = time.perf_counter()
        hits += manager.serve(prompt)
        seconds += time.perf_counter() - start
    return {"hit_pages": hits, "pages": sum(map(len, requests)), "seconds": seconds}


def main() -> None:
    name, load = sys.argv[1], None
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints is no answer
    for line in sys.stdin:
        message = json.loads(line)
        if "setup" in message:
            setup = message["setup"]
            manager = make(name, setup["pages"], setup["page_size"])
            load, answer = Load(manager, setup), {"versions": manager.versions}
        elif "trace" in message:
            answer = replay(name, message["trace"]["path"], message["trace"]["pages"])
        else:
            answer = {"seconds": load.turn(message["turn"])}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
