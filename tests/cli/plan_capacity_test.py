# SPDX-License-Identifier: Apache-2.0
"""tests/cli/plan_capacity_test.py TRACE TOOL: `folio plan-capacity` finds what replays of each size find, and refuses bad sizes."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import oracle
import policies_oracle
import tool

MODE = ("--sequential", "--page-per-block", "--compute", "none")
GIB = 2**30

# options -> words of the message
BAD_OPTIONS = {
    ("--pages", "0"): "--pages: got '0', expected an integer from 1 to 2147483647",
    ("--pages", "-1"): "--pages: got '-1'",
    ("--pages", "2147483648"): "--pages: got '2147483648'",
    ("--pages", "9" * 40): "--pages: got '9999",
    ("--pages", "300,x"): "--pages: got 'x'",
    ("--pages", "400,300"): "--pages: got '300' behind '400', expected sizes that rise",
    ("--pages", "300,300"): "--pages: got '300' behind '300'",
    ("--pages", "1,300"): "--pages: 1 blocks are fewer than the 239 of the request in line 611",
    ("--pages", "300", "--gib", "40"): "--gib: not with --pages",
    ("--gib", "0"): "--gib: got '0', expected a number from",
    ("--gib", "-4"): "--gib: got '-4'",
    ("--gib", "nan"): "--gib: got 'nan'",
    ("--gib", "inf"): "--gib: got 'inf'",
    ("--gib", "1e400"): "--gib: got '1e400'",
    ("--gib", "80,40"): "--gib: got '40' behind '80'",
    ("--gib", "0.001"): "--gib: 0 blocks are fewer than the 239",
    ("--gib", "1e9"): "expected at most 2147483647",
    ("--model", "gpt-2"): "--model: got 'gpt-2', expected ",
    ("--policy", "all"): "--policy: got 'all', expected one policy",
    ("--policy", "mru"): "--policy: got 'mru'",
    ("--page-size", "7"): "--page-size: got '7', expected a divisor of the 512 tokens",
    ("--page-size", "1024"): "--page-size: got '1024'",
    ("--kv-dtype", "i3"): "--kv-dtype: got 'i3'",
    ("--zeros", "patterns"): "--zeros: needs --kv-dtype u4",
    ("--limit", "0"): "--limit: got '0'",
    ("--max-batch", "4"): "--max-batch",
    ("--json", "/no/such/folder/x.json"): "--json: cannot write /no/such/folder/x.json",
    ("--json", ""): "--json: got ''",
}


class PlanCapacity(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_tool(self, *options):
        return subprocess.run([TOOLS[0], "plan-capacity", *map(str, options)], capture_output=True, text=True, check=False, timeout=600)

    def plan(self, trace, *options):
        path = os.path.join(self.folder.name, "plan.json")
        done = self.run_tool(trace, "--json", path, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file), done.stdout

    def compare(self, trace, requests, sizes):
        for name, policy in policies_oracle.POLICIES.items():
            plan, _ = self.plan(trace, "--policy", name, "--pages", ",".join(map(str, sizes)))
            self.assertEqual([row["blocks"] for row in plan["sizes"]], sizes)
            self.assertEqual(plan["method"], "stack distances" if name == "lru" else "replays")
            for row in plan["sizes"]:
                expected = policies_oracle.replay(requests, row["blocks"], policy)
                found = {"lookup_pages": row["lookup_blocks"], "hit_pages": row["hit_blocks"], "hit_tokens": row["hit_tokens"],
                         "evicted_pages": row["evicted_blocks"], "saved_work": row["saved_work"]}
                self.assertEqual({field: found[field] for field in expected}, expected, (name, row["blocks"]))
                self.assertEqual(row["tokens_computed_again"], plan["most_hit_tokens"] - row["hit_tokens"])
                self.assertLessEqual(row["hit_blocks"], row["optimum_hit_blocks"])

    def test_the_shipped_trace_gives_the_oracles_counts(self):
        self.compare(SHIPPED_TRACE, oracle.read(SHIPPED_TRACE), [300, 3000, 30000])

    def test_random_traces_give_the_oracles_counts(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for _ in range(5):
            requests = tool.random_trace(rng, rng.randint(1, 300))
            trace = tool.write_trace(os.path.join(self.folder.name, "random.jsonl"), requests)
            longest = max(len(r["hash_ids"]) for r in requests)
            with self.subTest(seed=seed):
                self.compare(trace, requests, sorted({longest, longest + 1, rng.randint(longest, 4 * longest), 10 * longest}))

    def test_blocks_are_as_large_as_the_trace_says(self):
        made = tool.random_trace(random.Random(5), 200)
        requests = [{"block_size": 64, "hash_ids": r["hash_ids"], "input_length": 64 * len(r["hash_ids"])} for r in made]
        trace = tool.write_trace(os.path.join(self.folder.name, "blocks.jsonl"), requests)
        longest = max(len(r["hash_ids"]) for r in requests)
        self.compare(trace, requests, [longest, 3 * longest])
        plan, text = self.plan(trace, "--page-size", 32, "--pages", "100")
        self.assertEqual((plan["tokens_per_block"], plan["bytes_per_block"]), (64, 64 * plan["bytes_per_token"]))
        self.assertEqual(plan["sizes"][0]["pages"], 200)
        self.assertIn("a block of 64 tokens", text)
        refused = self.run_tool(trace, "--page-size", 128)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--page-size: got '128', expected a divisor of the 64 tokens of a block", refused.stderr)

    def test_replays_find_as_much_even_where_ids_mean_different_blocks(self):
        rng = random.Random(3)
        ids = [[rng.randrange(6) for _ in range(rng.randint(1, 5))] for _ in range(300)]
        trace = tool.write_trace(os.path.join(self.folder.name, "odd.jsonl"), [tool.request(i, 512 * len(i)) for i in ids])
        plan, _ = self.plan(trace, "--pages", "5,9,40,200,9000")
        for row in plan["sizes"]:
            figures = tool.replay(TOOLS[0], trace, *MODE, "--pages", row["blocks"]).figures
            self.assertEqual((row["hit_blocks"], row["evicted_blocks"]), (figures["hit_pages"], figures["evicted_pages"]), row["blocks"])

    def test_bytes_follow_from_model_and_dtype(self):
        for options, expected in {("--kv-dtype", "bf16"): 32 * 2 * 8 * 128 * 2, ("--kv-dtype", "i8"): 32 * 2 * 8 * (128 + 4),
                                  ("--kv-dtype", "i4"): 32 * 2 * 8 * (64 + 2 * 4), ("--kv-dtype", "u4", "--zeros", "in-scale"): 32 * 2 * 8 * (64 + 4 * 4),
                                  ("--kv-dtype", "f4_e2m1", "--scale-dtype", "f8_e4m3", "--granularity", 16): 32 * 2 * 8 * (64 + 8),
                                  ("--model", "deepseek-v3"): 61 * 576 * 2, ("--layers", "1"): 2 * 8 * 128 * 2}.items():
            plan, _ = self.plan(SHIPPED_TRACE, *options, "--pages", "300,600", "--page-size", 64)
            self.assertEqual(plan["bytes_per_token"], expected, options)
            self.assertEqual(plan["bytes_per_block"], 512 * expected)
            for row in plan["sizes"]:
                self.assertEqual(row["gib"], row["blocks"] * 512 * expected / GIB)
                self.assertEqual(row["pages"], row["blocks"] * 8)

    def test_memory_and_blocks_say_the_same(self):
        by_memory, _ = self.plan(SHIPPED_TRACE, "--gib", "40,80.01")
        by_blocks, _ = self.plan(SHIPPED_TRACE, "--pages", "640,1280")
        self.assertEqual(by_memory, by_blocks)

    def test_shares_and_knee_are_where_the_curve_says(self):
        plan, text = self.plan(SHIPPED_TRACE)
        requests = oracle.read(SHIPPED_TRACE)
        self.assertEqual([share["percent"] for share in plan["shares"]], [50, 80, 90, 95, 99, 100])
        for share in plan["shares"][::2]:
            wanted = plan["most_hit_tokens"] * share["percent"] / 100
            hits = [policies_oracle.replay(requests, share["blocks"] + more, policies_oracle.Lru)["hit_tokens"] for more in (-1, 0)]
            self.assertLess(hits[0], wanted)
            self.assertGreaterEqual(hits[1], wanted)

        def above(blocks):
            hits = policies_oracle.replay(requests, blocks, policies_oracle.Lru)["hit_tokens"]
            return hits / plan["most_hit_tokens"] - blocks / plan["distinct_blocks"]

        for other in (plan["knee_blocks"] // 2, plan["knee_blocks"] - 1, plan["knee_blocks"] + 1, plan["knee_blocks"] + 2000):
            self.assertGreaterEqual(above(plan["knee_blocks"]), above(other))
        self.assertIn("exact", text)
        self.assertIn(f"{plan['knee_blocks']} blocks", text)
        rates = [row["hit_tokens"] for row in plan["sizes"]]
        self.assertEqual(rates, sorted(rates))
        self.assertEqual(rates[-1], plan["most_hit_tokens"])

    def test_a_trace_without_hits_has_no_knee(self):
        trace = tool.write_trace(os.path.join(self.folder.name, "one.jsonl"), [tool.request([1, 2], 600)])
        for policy in policies_oracle.POLICIES:
            plan, text = self.plan(trace, "--policy", policy)
            self.assertEqual((plan["knee_blocks"], plan["shares"], plan["most_hit_tokens"]), (None, [], 0))
            self.assertIn("nothing is found", text)

    def test_bad_options_are_named(self):
        for options, words in BAD_OPTIONS.items():
            with self.subTest(options=options):
                done = self.run_tool(SHIPPED_TRACE, *options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)

    def test_sizes_may_stand_before_the_trace(self):
        self.assertEqual(self.run_tool("--pages", "300,600", SHIPPED_TRACE).returncode, 0)

    def test_bad_traces_are_named(self):
        trace = os.path.join(self.folder.name, "trace.jsonl")
        for text, words in {"": "the trace has no requests", "\n\n": "the trace has no requests", "{}\n": ":1: ", '{"a"': ":1: not a JSON",
                            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}': "hash_ids has 1 ids"}.items():
            with open(trace, "w", encoding="utf-8") as file:
                file.write(text)
            done = self.run_tool(trace)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"folio plan-capacity: {trace}", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.run_tool(trace + ".absent").returncode, 2)
        self.assertEqual(self.run_tool().returncode, 2)

    def test_the_trace_is_not_overwritten(self):
        trace = tool.write_trace(os.path.join(self.folder.name, "trace.jsonl"), [tool.request([1, 2], 600)])
        for option in ("--json", "--report"):
            done = self.run_tool(trace, option, trace)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option}: {trace} is the trace", done.stderr)


if __name__ == "__main__":
    SHIPPED_TRACE = sys.argv.pop(1)
    tool.main()
