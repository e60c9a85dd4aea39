# SPDX-License-Identifier: Apache-2.0
"""tests/cli/policies_test.py TRACE TOOL: --policy gives the oracle's counts, on the shipped trace and on random ones."""

import os
import random
import sys
import tempfile
import unittest

import oracle
import policies_oracle
import tool

MODE = ("--sequential", "--page-per-block", "--compute", "none")


class Policies(unittest.TestCase):
    def compare(self, trace, requests, capacity):
        outcome = tool.replay(TOOLS[0], trace, *MODE, "--pages", capacity, "--policy", "all")
        self.assertEqual(outcome.code, 0, outcome.err)
        rows = {row["policy"]: row for row in outcome.figures["policies"]}
        self.assertEqual(list(rows), [*policies_oracle.POLICIES, "optimum"])
        for name, policy in policies_oracle.POLICIES.items():
            expected = policies_oracle.replay(requests, capacity, policy)
            self.assertEqual({field: rows[name][field] for field in expected}, expected, name)
            self.assertLessEqual(rows[name]["hit_pages"], rows["optimum"]["hit_pages"])
            alone = tool.replay(TOOLS[0], trace, *MODE, "--pages", capacity, "--policy", name)
            self.assertEqual({field: alone.figures[field] for field in expected}, expected, name)
            self.assertEqual(alone.figures["policy"], name)
        return rows

    def test_the_shipped_trace_gives_the_oracles_counts(self):
        requests = oracle.read(SHIPPED_TRACE)
        for capacity in (300, 3000):
            with self.subTest(capacity=capacity):
                rows = self.compare(SHIPPED_TRACE, requests, capacity)
        self.assertEqual(len({row["hit_pages"] for row in rows.values()}), len(rows), "policies that do not differ")

    def test_random_traces_give_the_oracles_counts(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for _ in range(10):
            requests = tool.random_trace(rng, rng.randint(1, 300))
            longest = max(len(r["hash_ids"]) for r in requests)
            with tempfile.TemporaryDirectory() as folder:
                trace = tool.write_trace(os.path.join(folder, "random.jsonl"), requests)
                for capacity in (longest, longest + 1, rng.randint(longest, 4 * longest), 10 * longest):
                    with self.subTest(seed=seed, capacity=capacity):
                        self.compare(trace, requests, capacity)

    def test_the_oracles_of_lru_agree(self):
        requests = oracle.read(SHIPPED_TRACE)
        for capacity in (300, 3000):
            other = oracle.replay(requests, capacity)
            counts = policies_oracle.replay(requests, capacity, policies_oracle.Lru)
            for field in ("hit_pages", "hit_tokens", "evicted_pages"):
                self.assertEqual(counts[field], other[field], field)

    def test_a_cache_for_everything_finds_the_optimum_under_every_policy(self):
        outcome = tool.replay(TOOLS[0], SHIPPED_TRACE, *MODE, "--policy", "all")
        self.assertEqual(len({row["hit_pages"] for row in outcome.figures["policies"]}), 1)
        self.assertEqual({row["evicted_pages"] for row in outcome.figures["policies"]}, {0})
        self.assertEqual({row["share_of_optimum"] for row in outcome.figures["policies"]}, {1.0})

    def test_steps_take_a_policy_too(self):
        hits = set()
        for policy in policies_oracle.POLICIES:
            outcome = tool.replay(TOOLS[0], SHIPPED_TRACE, "--compute", "none", "--pages", 40_000, "--policy", policy)
            self.assertEqual(outcome.code, 0, outcome.err)
            hits.add(outcome.figures["hit_pages"])
        self.assertGreater(len(hits), 1, "the policy does not reach the pool")


if __name__ == "__main__":
    SHIPPED_TRACE = sys.argv.pop(1)
    tool.main()
