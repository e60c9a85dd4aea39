# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/tier_engine.py: an engine without a model: K and V of a token tell the token."""

from __future__ import annotations

import time

import numpy as np

import folio_kv
from folio_kv import tiers

PAGE = 4


def until(happens, what="it", seconds=20.0):
    """Asks again and again; fails behind so long."""
    end = time.monotonic() + seconds
    while not (answer := happens()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.001)
    return answer


class Engine:
    """A pool, its planes, and a manager over tiers."""

    def __init__(self, below, pages=16, layers=2, pool_options=None, **options):
        self.arguments = {
            "pages": pages, "layers": layers, "pool_options": pool_options, **options
        }  # fmt: skip
        names = folio_kv.Sha256Names()
        self.pool = folio_kv.PagePool(
            pages, PAGE, **{"name": names, "max_io_pins": 2 * pages, **(pool_options or {})}
        )
        self.cache = folio_kv.KVCache(layers, pages, PAGE, kv_heads=1, head_size=8, dtype="f32")
        self.planes = [
            np.from_dlpack(plane) for layer in self.cache for plane in (layer.key, layer.value)
        ]
        for plane in self.planes:
            plane[:] = np.nan
        self.manager = tiers.CacheManager(self.pool, self.cache, below, **options)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.manager.close(1000 if failure[0] else 30_000)

    def restart(self, below):
        """Another pool and memory, as of another process, over other tiers or the same."""
        self.manager.close()
        self.__init__(below, **self.arguments)

    def rows(self, sequence, first, last):
        """(page, slot) of tokens."""
        table = np.asarray(self.pool.table()).reshape(-1)
        start = self.pool.row_start(sequence)
        return [(table[start + t // PAGE], t % PAGE) for t in range(first, last)]

    def compute(self, sequence, prompt, first):
        for (page, slot), token in zip(self.rows(sequence, first, len(prompt)), prompt[first:]):
            for i, plane in enumerate(self.planes):
                plane[page, slot] = token + i / 8

    def check(self, sequence, prompt, length):
        for (page, slot), token in zip(self.rows(sequence, 0, length), prompt):
            for i, plane in enumerate(self.planes):
                assert (plane[page, slot] == token + i / 8).all(), (token, i)

    def load(self, prompt, **options):
        """The sequence of a prompt, and how many tokens of it are there."""
        admitted = self.manager.admit(prompt, **options)
        while self.manager.load_state(admitted.id) == "loading":
            self.manager.wait(1000)
            self.manager.poll()
        length = self.pool.length(admitted.id)
        self.check(admitted.id, prompt, length)
        return admitted.id, length

    def room(self, sequence, tokens):
        def reserved():
            try:
                self.pool.reserve(sequence, tokens)
                return True
            except folio_kv.OutOfPages:
                self.manager.poll()
                return False

        until(reserved, "room")

    def serve(self, prompt, **options):
        """Tokens that had not to be computed."""
        sequence, length = self.load(prompt, **options)
        self.room(sequence, len(prompt) - length)
        self.compute(sequence, prompt, length)
        self.manager.commit(sequence, prompt[length:])
        self.manager.release(sequence)
        self.manager.poll()
        return length

    def settle(self):
        """Until nothing is under way."""
        while self.manager.wait(1000):
            self.manager.poll()
        self.manager.poll()
        assert self.manager.figures()["stores"] == 0


def hybrid():
    """A pool of full layers, of layers with a window, and of states; where their pages are, as
    managers and ends of handovers are told; the bytes of each group's pages; the arena."""
    rules = [
        {"page_bytes": 256},
        {"rule": "window", "window": 2 * PAGE, "page_bytes": 256},
        {"rule": "state", "checkpoint": PAGE, "page_bytes": 64},
    ]
    arena = np.zeros(256 * 64, np.uint8)
    pool = folio_kv.PagePool(
        0,
        PAGE,
        groups=rules,
        arena_bytes=arena.nbytes,
        max_pages_per_sequence=16,
        max_io_pins=128,
        name=folio_kv.Sha256Names(),
    )

    def pages_of(group):
        sizes = pool.group(group)
        shape = sizes["num_pages"], rules[group]["page_bytes"]
        return np.lib.stride_tricks.as_strided(arena, shape, (sizes["page_bytes"], 1))

    def planes(group):
        kv = pages_of(group).view(np.float32).reshape(-1, 2, PAGE, 1, 8)
        return folio_kv.Pages(kv[:, 0], kv[:, 1])

    groups = [
        {"planes": [planes(0)], "layers": [1]},
        {"planes": [planes(1)], "layers": [0]},
        {"states": [pages_of(2)], "layers": [2]},
    ]
    return pool, groups, [pages_of(group) for group in range(3)], arena
