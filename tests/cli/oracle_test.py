# SPDX-License-Identifier: Apache-2.0
"""tests/cli/oracle_test.py TRACE TOOL: the page-per-block mode gives the oracle's counts, on the shipped trace and on random ones."""

import os
import random
import sys
import tempfile
import unittest

import oracle
import tool

MODE = ("--sequential", "--page-per-block", "--compute", "none")


class PagePerBlock(unittest.TestCase):
    def compare(self, trace, requests, capacity):
        options = [*MODE] + ([] if capacity is None else ["--pages", capacity])
        outcome = tool.replay(TOOLS[0], trace, *options)
        self.assertEqual(outcome.code, 0, outcome.err)
        expected = oracle.replay(requests, capacity)
        self.assertEqual({name: outcome.figures[name] for name in expected}, expected)

    def test_the_shipped_trace_gives_the_oracles_counts(self):
        requests = oracle.read(SHIPPED_TRACE)
        self.assertEqual(len(requests), 1000)
        longest = max(len(r["hash_ids"]) for r in requests)
        for capacity in (longest, 1000, 3000, 10000, None):
            with self.subTest(capacity=capacity):
                self.compare(SHIPPED_TRACE, requests, capacity)

    def test_random_traces_give_the_oracles_counts(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for _ in range(20):
            requests = tool.random_trace(rng, rng.randint(1, 200))
            longest = max(len(r["hash_ids"]) for r in requests)
            with tempfile.TemporaryDirectory() as folder:
                trace = tool.write_trace(os.path.join(folder, "random.jsonl"), requests)
                for capacity in (longest, longest + 1, rng.randint(longest, 4 * longest), 10 * longest, None):
                    with self.subTest(seed=seed, capacity=capacity):
                        self.compare(trace, requests, capacity)

    def test_traces_with_a_block_size_give_the_oracles_counts(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for block_size in (1, 16, 64, 1000):
            # An id is a 64-bit hash here, or a string; lengths are those of whole blocks, but for the last.
            requests = [
                {
                    "block_size": block_size,
                    "hash_ids": [f"hash {i}" if i % 3 == 0 else i * 0x9E3779B97F4A7C15 % 2**64 for i in made["hash_ids"]],
                    "input_length": (len(made["hash_ids"]) - 1) * block_size + 1 + made["hash_ids"][-1] % block_size,
                }
                for made in tool.random_trace(rng, 100)
            ]
            longest = max(len(r["hash_ids"]) for r in requests)
            with tempfile.TemporaryDirectory() as folder:
                trace = tool.write_trace(os.path.join(folder, "blocks.jsonl"), requests)
                for capacity in (longest, 2 * longest, None):
                    with self.subTest(seed=seed, block_size=block_size, capacity=capacity):
                        self.compare(trace, requests, capacity)

    def test_the_oracle_counts_a_small_trace_as_by_hand(self):
        # Capacity 3: [0 1] misses; [0 2] hits 0; [0 1] hits both; [3 4] misses and evicts 2, the least recently used, and the tail
        # of [0 1] before its head; so [0 1] then hits 0 alone.
        requests = [tool.request(ids, 1024) for ids in ([0, 1], [0, 2], [0, 1], [3, 4], [0, 1])]
        counts = oracle.replay(requests, 3)
        self.assertEqual((counts["lookup_pages"], counts["hit_pages"], counts["evicted_pages"]), (10, 4, 3))


if __name__ == "__main__":
    SHIPPED_TRACE = sys.argv.pop(1)
    tool.main()
