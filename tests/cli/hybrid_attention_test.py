# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_attention_test.py TOOL WRONG_HIT SKIP_APPEND: layers that differ verify over the memory that they share, and two
test builds of the tool do not."""

import os
import random
import sys
import tempfile
import unittest

import tool

BYTES = 12 * 2 * 8 * 64 * 2  # of a token in either group of gpt-oss-20b
POOL = ("hit_tokens", "hit_tokens_partial", "computed_tokens", "computed_again_tokens", "preemptions", "steps", "used", "groups")
SHARE = ("--verify-share", 0.0005)


def request(ids, tokens, outputs):
    return {"block_size": 64, "hash_ids": ids, "input_length": tokens, "output_length": outputs}


class HybridAttention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        # A prefix longer than the window of 128 tokens, which all share, and what differs behind it.
        cls.requests = [request([0, 1, 2, 3 + i % 3, 10 + i], 257 + rng.randrange(64), rng.randint(1, 20)) for i in range(6)]
        cls.trace = tool.write_trace(os.path.join(cls.folder.name, "trace.jsonl"), cls.requests)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def verified(self, *options, model="gpt-oss-20b", trace=None):
        outcome = tool.replay(TOOLS[0], trace or self.trace, "--verify", "--model", model, *SHARE, *options)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(outcome.figures["mismatches"], 0)
        self.assertLess(outcome.figures["max_relative_rms"], 1e-4)
        return outcome.figures

    def test_every_layer_with_attention_verifies(self):
        figures = self.verified("--gib", 1)
        # First and last query of each request, all 64 heads of 24 layers.
        self.assertGreaterEqual(figures["verified_outputs"], 2 * 64 * 24 * len(self.requests))
        self.assertGreater(figures["hit_tokens"], 0)
        self.assertGreater(figures["groups"][1]["given_back_pages"], 0)

    def test_slabs_that_pass_between_groups_verify(self):
        # 57 pages for requests of 24 each at their ends, of which two or three run: one gives up its pages and begins again,
        # and the groups use more at their peaks than there is, so what one of them left the other has written.
        requests = [request([0, 1, 2, 3 + i % 3, 10 + i], 300, 80) for i in range(6)]
        trace = tool.write_trace(os.path.join(self.folder.name, "little.jsonl"), requests)
        figures = self.verified("--gib", 460 * 2 * BYTES / 2**30, "--max-batch", 3, "--step-tokens", 100, "--threads", 1, trace=trace)
        full, window = figures["groups"]
        self.assertGreater(full["peak_pages"] + window["peak_pages"], full["pages"])
        self.assertGreater(full["evicted_pages"] * window["evicted_pages"], 0)
        self.assertGreater(figures["preemptions"], 0)
        self.assertGreater(figures["hit_tokens"], 0)

    def test_copies_and_scales_verify(self):
        figures = self.verified("--gib", 1, "--partial", 1, "--page-size", 48, "--kv-dtype", "i8", "--sequential")
        self.assertGreater(sum(group["copied_pages"] for group in figures["groups"]), 0)

    def test_the_attention_beside_states_verifies(self):
        figures = self.verified("--gib", 2, "--checkpoint", 64, "--sequential", model="jamba-1.5-mini")
        self.assertGreaterEqual(figures["verified_outputs"], 2 * 32 * 4 * len(self.requests))
        self.assertGreater(figures["hit_tokens"], 0)

    def test_pages_are_the_same_with_and_without_attention(self):
        options = ("--gib", 0.1, "--limit", 4)
        figures = self.verified(*options)
        without = tool.replay(TOOLS[0], self.trace, "--model", "gpt-oss-20b", *options).figures
        self.assertNotIn("mismatches", without)
        for name in POOL:
            self.assertEqual(figures[name], without[name], name)

    def test_attention_alone_verifies_nothing(self):
        outcome = tool.replay(TOOLS[0], self.trace, "--model", "gpt-oss-20b", "--compute", "attention", "--gib", 0.2, "--limit", 1)
        self.assertEqual((outcome.code, outcome.figures["verified_outputs"]), (0, 0), outcome.err)
        self.assertTrue(outcome.figures["kernel"])

    def test_a_pool_with_a_wrong_hit_fails(self):
        self.expect_mismatch(TOOLS[1])

    def test_a_step_without_an_append_fails(self):
        self.expect_mismatch(TOOLS[2])

    def expect_mismatch(self, mutant):
        options = ("--sequential", "--gib", 1, "--step-tokens", 200)
        outcome = tool.replay(mutant, self.trace, "--verify", "--model", "gpt-oss-20b", *SHARE, *options)
        self.assertEqual(outcome.code, 1, outcome.err)
        self.assertRegex(outcome.err, "outputs are wrong|which its layers see")


if __name__ == "__main__":
    tool.main(number_of_tools=3)
