# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_test.py TOOL: models whose layers differ: counts by hand and of a second program, little memory, refusals."""

import os
import random
import subprocess
import sys
import tempfile
import unittest

import hybrid_oracle
import tool

ORDINARY = ("--model", "llama-3-8b", "--compute", "none", "--sequential")
PAGE = 12 * 2 * 8 * 64 * 2 * 16  # bytes of either group of gpt-oss-20b

# options beside --model gpt-oss-20b -> words of the message
NOT_WITH_GROUPS = {
    ("--layers", 2): "--layers: not with --model gpt-oss-20b",
    ("--q-heads", 2): "--q-heads: not with",
    ("--kv-heads", 2): "--kv-heads: not with",
    ("--head-size", 8): "--head-size: not with",
    ("--v-head-size", 8): "--v-head-size: not with",
    ("--mla",): "--mla: not with",
    ("--verify", "--compute", "none"): "--verify: needs --compute attention",
    ("--page-per-block", "--sequential", "--compute", "none"): "--page-per-block: not with",
    ("--metrics", "metrics.prom", "--policy", "all"): "--metrics: needs one policy",
    ("--compute", "attention", "--gib", 1e4, "--page-size", 1024): "--gib: the step and 10737418240000 bytes of pages need",
    ("--partial", 16): "--partial: expected less than --page-size",
    ("--partial", -1): "--partial: got '-1', expected an integer from 0",
    ("--gib", 1, "--pages", 100): "--gib: not with --pages",
    ("--gib", 0): "--gib: got '0', expected a number from 1e-06 to 1000000000",
    ("--gib", "nan"): "--gib: got 'nan', expected a number",
    ("--gib", "1e-6"): "--gib: PagePool::create: arena_bytes is 1073, expected at least 393216",
    ("--gib", "1e9"): "--gib: PagePool::create: arena_bytes is 1073741824000000000, expected less",
    ("--pages", 2**31 - 1, "--page-size", 2**20): "expected at most 22369621",
    ("--pages", 1): "does not hold the 1024 tokens of the request in line 1",
    ("--gib", 0.01): "does not hold the 1024 tokens of the request in line 1",
    ("--checkpoint", 512): "--checkpoint: --model gpt-oss-20b has no states",
}


class Hybrid(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace(self, requests):
        return tool.write_trace(os.path.join(self.folder.name, "trace.jsonl"), requests)

    def replay(self, requests, model, *options):
        outcome = tool.replay(TOOLS[0], self.trace(requests), "--model", model, *options)
        self.assertEqual(outcome.code, 0, outcome.err)
        return outcome.figures

    def test_two_chunks_of_a_prompt_leave_a_window(self):
        # 64 pages in two steps of 32. After 512 tokens the next one needs those from 385 on: 24 pages go back, 8 stay;
        # the second step has these and 32 more; after it 56 have gone.
        figures = self.replay([tool.request([1, 2], 1024)], "gpt-oss-20b", "--sequential")
        full, window = figures["groups"]
        self.assertEqual((full["rule"], full["page_bytes"], full["peak_pages"], full["mean_pages"]), ("full", PAGE, 64, 48))
        self.assertEqual((window["rule"], window["span"], window["page_bytes"]), ("window", 128, PAGE))
        self.assertEqual((window["peak_pages"], window["mean_pages"]), (40, 36))
        self.assertEqual((full["given_back_pages"], window["given_back_pages"]), (0, 56))
        self.assertEqual((full["evicted_pages"], window["evicted_pages"]), (0, 0))
        self.assertEqual((figures["steps"], figures["computed_tokens"], figures["preemptions"]), (2, 1024, 0))
        self.assertEqual(figures["used"], {"mean_bytes": 84 * PAGE, "peak_bytes": 104 * PAGE})
        self.assertEqual(figures["everything"], {"mean_bytes": 96 * PAGE, "peak_bytes": 128 * PAGE})
        self.assertEqual((figures["saved_mean_bytes"], figures["saved_mean_share"]), (12 * PAGE, 0.125))
        self.assertEqual((figures["saved_peak_bytes"], figures["saved_peak_share"]), (24 * PAGE, 24 / 128))
        (uniform,) = figures["uniform"]["groups"]
        self.assertEqual((uniform["page_bytes"], uniform["peak_pages"], uniform["mean_pages"]), (2 * PAGE, 64, 48))
        self.assertEqual(figures["uniform"]["used"], figures["everything"])
        self.assertEqual(figures["memory_bytes"], 64 << 30)

    def test_the_same_prompt_again_is_found_with_its_window_alone(self):
        # 1,008 of 1,024 tokens: 63 pages; the last token needs those of 881 on: 8 pages of the window are held, and one is new.
        figures = self.replay([tool.request([1, 2], 1024)] * 2, "gpt-oss-20b", "--sequential")
        self.assertEqual((figures["hit_tokens"], figures["uniform"]["hit_tokens"]), (1008, 1008))
        full, window = figures["groups"]
        self.assertEqual((full["mean_pages"], window["mean_pages"]), ((32 + 64 + 64) / 3, (32 + 40 + 9) / 3))
        self.assertEqual(window["given_back_pages"], 56 + 1)

    def test_states_are_found_where_they_were_kept(self):
        # Steps of jamba end at 512, 1,024, and at the last whole page 1,088; the state goes on from there to 1,100. The second
        # prompt shares 1,024 tokens and the state behind them.
        requests = [tool.request([1, 2, 3], 1100), tool.request([1, 2, 4], 1100)]
        figures = self.replay(requests, "jamba-1.5-mini", "--sequential", "--step-tokens", 600)
        self.assertEqual((figures["hit_tokens"], figures["steps"]), (1024, 4 + 2))
        state = figures["groups"][1]
        self.assertEqual((state["rule"], state["page_size"], state["page_bytes"]), ("state", 512, 28 * 8192 * 19 * 2))
        # 1; 1 behind it and 1 new; the same; 1 in place. Then the one that was found and 1 new; 1 in place.
        self.assertEqual((state["peak_pages"], state["mean_pages"]), (2, (1 + 2 + 2 + 1 + 2 + 1) / 6))
        self.assertEqual(state["given_back_pages"], 2 + 1)
        (uniform,) = figures["uniform"]["groups"]  # pages of 512 tokens and the state behind them
        self.assertEqual((uniform["page_size"], uniform["page_bytes"]), (512, 4 * 2 * 8 * 128 * 2 * 512 + state["page_bytes"]))
        self.assertEqual(figures["uniform"]["hit_tokens"], 1024)

    def test_a_hit_ends_inside_a_page_where_enough_of_it_matches(self):
        # 999 of 1,000 tokens: 62 pages and 7 of the next, which each group copies.
        requests = [tool.request([1, 2], 1000)] * 2
        for partial, tokens in ((1, 7), (7, 7), (8, 0)):
            with self.subTest(partial=partial):
                figures = self.replay(requests, "gpt-oss-20b", "--sequential", "--partial", partial)
                self.assertEqual(figures["partial"], partial)
                for run in (figures, figures["uniform"]):
                    self.assertEqual((run["hit_tokens"], run["hit_tokens_partial"]), (992 + tokens, tokens))
                    self.assertEqual([g["copied_pages"] for g in run["groups"]], [tokens // 7] * len(run["groups"]))
        self.assertEqual(self.replay(requests, "gpt-oss-20b", "--sequential")["hit_tokens_partial"], 0)

    def test_a_copy_and_what_it_is_of_are_held_in_each_group(self):
        # The third step computes one token behind 999, the last of 63 pages; one page more is what the last is copied from.
        figures = self.replay([tool.request([1, 2], 1000)] * 2, "gpt-oss-20b", "--sequential", "--partial", 1)
        full, window = figures["groups"]
        self.assertEqual((full["peak_pages"], full["mean_pages"]), (64, (32 + 63 + 64) / 3))
        # 31 pages and 8 of the tokens from 385 on; the token behind 999 needs those from 872 on: 9 pages
        self.assertEqual((window["peak_pages"], window["mean_pages"]), (8 + 31, (32 + 39 + 9 + 1) / 3))

    def test_a_state_serves_behind_the_last_token_of_a_request_alone(self):
        # 43 pages, and 12 tokens that the state is behind. Of 699 tokens 698 may be found: there is no state behind these.
        first = tool.request([1, 2], 700)
        for partial, second, whole, inside in ((0, 1024, 512, 0), (1, 1024, 688, 12), (12, 1024, 688, 12), (13, 1024, 512, 0),
                                               (1, 699, 512, 0), (1, 700, 512, 0)):
            with self.subTest(partial=partial, second=second):
                figures = self.replay([first, tool.request([1, 2], second)], "jamba-1.5-mini", "--sequential", "--partial", partial)
                self.assertEqual((figures["hit_tokens"], figures["hit_tokens_partial"]), (whole + inside, inside))
                self.assertEqual(figures["groups"][0]["copied_pages"], inside // 12)
                self.assertEqual(figures["groups"][1]["copied_pages"], 0)  # the state goes on where it lies
                # pages with a state behind them cannot be cut
                self.assertEqual((figures["uniform"]["hit_tokens"], figures["uniform"]["hit_tokens_partial"]), (512, 0))

    def test_random_traces_with_hits_inside_pages_give_the_ordinary_replays_counts(self):
        # A page of 48 or 80 tokens ends inside a block; memory that evicts nothing.
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        inside = 0
        for model, groups in hybrid_oracle.MODELS.items():
            if groups[1][0] == "state":
                continue
            requests = tool.random_trace(rng, 20, most_blocks=40, most_outputs=300)
            requests += rng.sample(requests, 5)
            for page_size in (16, 48, 80):
                partial = rng.randint(1, page_size - 1)
                options = ("--page-size", page_size, "--partial", partial)
                with self.subTest(seed=seed, model=model, options=options):
                    figures = self.replay(requests, model, "--sequential", "--gib", 300, *options)
                    ordinary = tool.replay(TOOLS[0], self.trace(requests), *ORDINARY, *options).figures
                    for run in (figures, figures["uniform"]):
                        for name in ("hit_tokens", "hit_tokens_partial"):
                            self.assertEqual(run[name], ordinary[name])
                        self.assertEqual(len({g["copied_pages"] for g in run["groups"]}), 1)
                    inside += figures["hit_tokens_partial"]
        self.assertGreater(inside, 0)

    def expect_oracle(self, figures, requests, model, step_tokens):
        groups = hybrid_oracle.MODELS[model]
        steps, hits, given_back = hybrid_oracle.replay(requests, groups, step_tokens)
        self.assertEqual((figures["steps"], figures["hit_tokens"]), (len(steps), hits))
        self.assertEqual(figures["layers"], [layers for _, _, layers, _ in groups])
        for g, row in enumerate(figures["groups"]):
            rule, tokens, _, page_bytes = groups[g]
            self.assertEqual((row["rule"], row["span"]), (rule, tokens))
            if model != "jamba-1.5-large":
                self.assertEqual(row["page_bytes"], page_bytes)
            else:
                self.assertEqual(row["page_bytes"] // page_bytes, 1)
            self.assertEqual(row["peak_pages"], max(step[g] for step in steps), rule)
            self.assertAlmostEqual(row["mean_pages"], sum(step[g] for step in steps) / len(steps), places=6)
            self.assertEqual((row["given_back_pages"], row["evicted_pages"]), (given_back[g], 0), rule)
        page_bytes = [row["page_bytes"] for row in figures["groups"]]
        used = [sum(n * b for n, b in zip(step, page_bytes, strict=True)) for step in steps]
        self.assertEqual(figures["used"]["peak_bytes"], max(used))
        self.assertAlmostEqual(figures["used"]["mean_bytes"] / (sum(used) / len(used)), 1, places=9)

    def test_random_traces_give_the_oracles_counts(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for model, groups in hybrid_oracle.MODELS.items():
            requests = tool.random_trace(rng, 20, most_blocks=40, most_outputs=300)
            if groups[1][0] == "state":  # which states can be found is not the oracle's matter: nothing is shared
                requests = [dict(r, hash_ids=[1000 * i + k for k in range(len(r["hash_ids"]))]) for i, r in enumerate(requests)]
            for step_tokens in (512, rng.randint(1, 3000)):
                with self.subTest(seed=seed, model=model, step_tokens=step_tokens):
                    figures = self.replay(requests, model, "--sequential", "--gib", 300, "--step-tokens", step_tokens)
                    self.expect_oracle(figures, requests, model, step_tokens)
                    if groups[1][0] != "state":
                        ordinary = tool.replay(TOOLS[0], self.trace(requests), *ORDINARY).figures
                        self.assertEqual(figures["hit_tokens"], ordinary["hit_tokens"])
                        self.assertEqual(figures["uniform"]["hit_tokens"], ordinary["hit_tokens"])

    def test_every_request_runs_to_its_end_in_little_memory(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        requests = tool.random_trace(random.Random(seed), 60, most_blocks=20, most_outputs=100)
        total = sum(r["input_length"] + max(r["output_length"], 1) - 1 for r in requests)
        longest = max(r["input_length"] + max(r["output_length"], 1) - 1 for r in requests)
        preemptions = 0
        for model, groups in hybrid_oracle.MODELS.items():
            size = hybrid_oracle.CHECKPOINT if groups[1][0] == "state" else hybrid_oracle.PAGE
            for policy, partial in (("lru", 0), ("lru", 1), ("s3-fifo", 8), ("lfu", 0)):
                with self.subTest(seed=seed, model=model, policy=policy, partial=partial):
                    # Two groups that keep nearly everything may have a slab for each page.
                    pages = -(-longest // size) * (2 if groups[1][0] == "chunked" else 1) + 1
                    figures = self.replay(requests, model, "--policy", policy, "--pages", pages, "--partial", partial)
                    for run in (figures, figures["uniform"]):
                        preemptions += run["preemptions"]
                        once = run["computed_tokens"] - run["computed_again_tokens"] + run["hit_tokens"]
                        self.assertEqual(once, total)
                        self.assertTrue(run["preemptions"] > 0 or run["computed_again_tokens"] == 0)
                        self.assertLessEqual(run["used"]["peak_bytes"], figures["memory_bytes"])
        self.assertGreater(preemptions, 0, "memory that is not little")

    def test_a_pool_of_full_pages_too_small_for_a_request_is_left_out(self):
        requests = [tool.request([1, 2], 1024)]
        figures = self.replay(requests, "gpt-oss-20b", "--pages", 63)
        self.assertIsNone(figures["uniform"])
        self.assertEqual((figures["groups"][0]["peak_pages"], figures["longest_request_bytes"]), (64, 128 * PAGE))
        self.assertIsNotNone(self.replay(requests, "gpt-oss-20b", "--pages", 64)["uniform"])

    def test_the_summary_says_what_is_saved(self):
        command = [TOOLS[0], "replay", self.trace([tool.request([1, 2], 1024)]), "--model", "gpt-oss-20b", "--sequential"]
        out = subprocess.run([*command, "--pages", "63"], capture_output=True, text=True, check=True).stdout
        self.assertIn("(12.5 %) in the mean", out)
        self.assertIn("(18.8 %) between the peaks", out)
        self.assertIn("none: the request in line 1 needs", out)
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertIn("keeping everything: 0.0000 (0)", out)
        self.assertNotIn("in pages", out)

    def test_the_summary_says_what_was_found_inside_pages(self):
        def summary(model, *options):
            command = [TOOLS[0], "replay", self.trace([tool.request([1, 2], 1000)] * 2), "--model", model, "--sequential", *options]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        out = summary("gpt-oss-20b", "--partial", "4")
        self.assertIn("pages of 16 tokens, hits inside them from 4 on, eviction by lru", out)
        self.assertIn("in pages    7 of these tokens; every layer keeping everything: 7", out)
        out = summary("gpt-oss-20b", "--partial", "4", "--pages", "62")
        self.assertRegex(out, r"(?m)^in pages    7 of these tokens$")
        self.assertIn("0 of these tokens, behind the last token of an earlier request: a state cannot be cut",
                      summary("jamba-1.5-mini", "--partial", "4"))

    def refused(self, word, *options):
        outcome = tool.replay(TOOLS[0], self.trace([tool.request([1, 2], 1024)]), *options)
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, 2, outcome.err)
        self.assertIn(word, outcome.err)

    def test_options_that_do_not_go_with_groups_are_named(self):
        for options, word in NOT_WITH_GROUPS.items():
            with self.subTest(options=options):
                self.refused(word, "--model", "gpt-oss-20b", *options)

    def test_options_of_groups_need_a_model_with_groups(self):
        self.refused("--gib: needs a --model whose layers differ", "--gib", 1)
        self.refused("--checkpoint: needs a --model with states", "--checkpoint", 512)
        for checkpoint in (8, 500, 1048575):
            self.refused(f"--checkpoint: got '{checkpoint}', expected a multiple of the 16 tokens", "--model", "jamba-1.5-mini",
                         "--checkpoint", checkpoint)
        self.refused("--checkpoint: got '512', expected a multiple of the 48 tokens", "--model", "jamba-1.5-mini", "--page-size", 48)
        self.refused("--checkpoint: got '0', expected an integer from 1 to 1048576", "--checkpoint", 0)

    def test_an_unknown_model_is_told_all_known_ones(self):
        self.refused("--model: got 'gemma-4', expected llama-3-8b or deepseek-v3, or gemma-3-27b,", "--model", "gemma-4")
        for model in hybrid_oracle.MODELS:
            self.refused(model, "--model", "gpt-2")


if __name__ == "__main__":
    tool.main()
