# SPDX-License-Identifier: Apache-2.0
"""tests/cli/replay_test.py TOOL WRONG_HIT SKIP_APPEND: replays with attention verify; two test builds of the tool do not."""

import os
import random
import sys
import tempfile
import unittest

import tool

SMALL = ("--layers", 2, "--q-heads", 4, "--kv-heads", 2, "--head-size", 16)
WIDE = (*SMALL[:-1], 64)
LATENT = ("--layers", 2, "--q-heads", 4, "--mla", "--head-size", 48, "--v-head-size", 32)
FIELDS = ("requests", "lookup_pages", "hit_pages", "evicted_pages", "peak_pages", "hit_tokens", "prompt_tokens", "output_tokens",
          "seconds", "verified_outputs", "max_relative_rms")


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        # Requests one after the other with a long common prefix, so that there are hits, and a few others.
        cls.requests = [tool.request([0, 1, i + 2], 1200 + i, 5) for i in range(4)]
        cls.requests += tool.random_trace(random.Random(seed), 6, most_blocks=3)
        cls.trace = tool.write_trace(os.path.join(cls.folder.name, "trace.jsonl"), cls.requests)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def verified(self, *options, model=SMALL):
        outcome = tool.replay(TOOLS[0], self.trace, "--verify", *model, *options)
        self.assertEqual(outcome.code, 0, outcome.err)
        figures = outcome.figures
        # First and last query of each request, all 4 heads of 2 layers: 16 rows, 8 where the two are one.
        self.assertGreaterEqual(figures["verified_outputs"], 8 * figures["requests"])
        self.assertEqual(figures["mismatches"], 0)
        self.assertLess(figures["max_relative_rms"], 1e-4)
        return figures

    def test_every_element_type_verifies(self):
        for dtype in ("f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "i8"):
            with self.subTest(dtype=dtype):
                self.assertEqual(self.verified("--kv-dtype", dtype)["kv_dtype"], dtype)

    def test_latent_caches_verify(self):
        for dtype in ("bf16", "f8_e4m3"):
            with self.subTest(dtype=dtype):
                self.verified("--kv-dtype", dtype, model=LATENT)
        self.verified("--kv-dtype", "i4", "--hadamard", 16, model=LATENT)

    def test_four_bits_with_scales_zero_points_and_rotations_verify(self):
        for options, said in {
            ("i4",): "i4, f16 scales of 32",
            ("i4_halves", "--hadamard", 32, "--sign-seed", 7): "i4_halves, f16 scales of 32, hadamard 32, signs 7",
            ("u4", "--granularity", 16): "u4, f16 scales of 16",
            ("u4", "--zeros", "patterns", "--scale-dtype", "bf16"): "u4, bf16 scales of 32, zeros patterns",
            ("u4", "--zeros", "minimum", "--hadamard", 64): "u4, f16 scales of 32, zeros minimum, hadamard 64",
            ("u4_halves", "--zeros", "in-scale"): "u4_halves, f32 scales of 32, zeros in-scale",
            ("f4_e2m1", "--scale-dtype", "f8_e8m0"): "f4_e2m1, f8_e8m0 scales of 32",
            ("f4_e2m1", "--scale-dtype", "f8_e4m3", "--granularity", 16, "--hadamard", 16): "f4_e2m1, f8_e4m3 scales of 16, hadamard 16",
            ("i8", "--hadamard", 64): "i8, hadamard 64",
            ("i8", "--scale-dtype", "f16", "--granularity", 32): "i8, f16 scales of 32",
            ("f32", "--hadamard", 32): "f32, hadamard 32",
        }.items():
            with self.subTest(options=options):
                figures = self.verified("--kv-dtype", *options, "--limit", 4, model=WIDE)
                self.assertEqual((figures["kv_dtype"], figures["kv_format"]), (options[0], said))

    def test_steps_batches_and_pages_of_any_size_verify(self):
        for options in (("--step-tokens", 1, "--limit", 2), ("--step-tokens", 7), ("--step-tokens", 10000), ("--max-batch", 1),
                        ("--sequential",), ("--page-size", 1), ("--page-size", 33), ("--page-size", 4096), ("--threads", 1),
                        ("--threads", 3), ("--verify-share", 0), ("--verify-share", 1, "--limit", 2)):
            with self.subTest(options=options):
                self.verified(*options)

    def test_no_request_is_lost_when_the_pool_is_just_large_enough_for_one(self):
        longest = max(-(-(r["input_length"] + max(r["output_length"], 1) - 1) // 16) for r in self.requests)
        figures = self.verified("--pages", longest)
        self.assertEqual(figures["requests"], len(self.requests))
        self.assertGreater(figures["evicted_pages"], 0)
        self.assertLessEqual(figures["peak_pages"], longest)
        computed = sum(r["input_length"] + max(r["output_length"], 1) - 1 for r in self.requests) - figures["hit_tokens"]
        self.assertEqual(figures["computed_tokens"], computed)

    def test_one_after_the_other_finds_the_common_prefix(self):
        figures = self.verified("--sequential", "--limit", 4)
        self.assertEqual(figures["hit_tokens"], 3 * 1024)  # blocks 0 and 1, whole pages of 16
        self.assertEqual(figures["prompt_tokens"], sum(r["input_length"] for r in self.requests[:4]))
        self.assertEqual(figures["output_tokens"], 20)

    def test_blocks_of_another_size_verify(self):
        blocks = [{"block_size": 20, "hash_ids": ["a", 2**63, i], "input_length": 50 + i, "output_length": 3} for i in range(8)]
        trace = tool.write_trace(os.path.join(self.folder.name, "blocks.jsonl"), blocks)
        outcome = tool.replay(TOOLS[0], trace, "--verify", "--sequential", "--page-size", 8, *SMALL)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(outcome.figures["hit_tokens"], 7 * 40)  # two blocks, five pages

    def test_a_block_size_of_512_changes_nothing(self):
        trace = tool.write_trace(os.path.join(self.folder.name, "512.jsonl"), [{**r, "block_size": 512} for r in self.requests])
        said, unsaid = (tool.replay(TOOLS[0], t, "--sequential", "--compute", "none").figures for t in (trace, self.trace))
        for name in ("prompt_tokens", "output_tokens", "lookup_pages", "hit_tokens", "computed_tokens"):
            self.assertEqual(said[name], unsaid[name], name)

    def test_pages_are_the_same_with_and_without_attention(self):
        with_attention = self.verified("--sequential")
        without = tool.replay(TOOLS[0], self.trace, "--sequential", "--compute", "none").figures
        for name in ("lookup_pages", "hit_pages", "hit_tokens", "evicted_pages", "peak_pages", "computed_tokens", "steps"):
            self.assertEqual(with_attention[name], without[name], name)

    def test_the_json_has_the_promised_fields(self):
        figures = self.verified()
        for name in FIELDS:
            self.assertIn(name, figures)

    def test_the_seed_chooses_what_is_verified(self):
        counts = {self.verified("--verify-share", 0.1, "--seed", seed)["verified_outputs"] for seed in (1, 1, 2, 3, 4)}
        self.assertGreater(len(counts), 1)
        self.assertEqual(self.verified("--seed", 5)["verified_outputs"], self.verified("--seed", 5)["verified_outputs"])

    def test_a_pool_with_a_wrong_hit_fails(self):
        self.expect_mismatch(TOOLS[1])

    def test_a_step_without_an_append_fails(self):
        self.expect_mismatch(TOOLS[2])

    def expect_mismatch(self, mutant):
        for share in (0, 0.01):
            with self.subTest(share=share):
                outcome = tool.replay(mutant, self.trace, "--verify", *SMALL, "--sequential", "--verify-share", share)
                self.assertEqual(outcome.code, 1, outcome.err)
                self.assertIn("outputs are wrong", outcome.err)
                self.assertGreater(outcome.figures["mismatches"], 0)


if __name__ == "__main__":
    tool.main(number_of_tools=3)
