# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/tier_pages.py: names and pages that a test and the processes it starts know."""

import numpy as np

from folio_kv import tiers

MIB = 1 << 20
PAGE_BYTES = 16 << 10


def name_of(i):
    return b"n" + int(i).to_bytes(4, "big")


def page_of(i):
    return np.full(PAGE_BYTES, i % 251, np.uint8)


def say(*words):
    """To the test, at once."""
    print(*words, flush=True)


def check(tier, numbers):
    """Loads pages: the numbers of those that came; what came is right."""
    target = np.full((len(numbers), PAGE_BYTES), 255, np.uint8)
    pages = tiers.PageArrays([target])
    load = tier.load([name_of(i) for i in numbers], pages, np.arange(len(numbers)))
    assert load.wait(20_000)
    came = []
    for i, row, outcome in zip(numbers, target, load.outcomes):
        if outcome == "done":
            assert (row == page_of(i)).all(), i
            came.append(i)
        else:
            assert outcome in ("missing", "corrupt"), outcome
    return came
