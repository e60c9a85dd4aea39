# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_reports_test.py TOOL: policies, sizes and pages of models whose layers differ say what single replays say."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import hybrid_oracle
import policies_oracle
import tool

GIB = 2**30
MODEL = ("--model", "gpt-oss-20b")
BLOCK = 2 * 12 * 2 * 8 * 64 * 2 * 512  # bytes of 512 tokens of gpt-oss-20b, all layers

# options of plan-capacity -> words of the message
BAD_OPTIONS = {
    ("--gib", "0.01"): "--gib: 0.010 GiB are less than the 0.02",
    ("--pages", "1,300"): "--pages: 0.023 GiB are less than the 0.02",
    ("--gib", "80,40"): "--gib: got '40' behind '80', expected sizes that rise",
    ("--pages", "300,300"): "--pages: got '300' behind '300'",
    ("--pages", "300", "--gib", "40"): "--gib: not with --pages",
    ("--gib", "1e9"): "--gib: PagePool::create: arena_bytes is 1073741824000000000, expected less",
    ("--pages", "2147483647"): "--pages: PagePool::create: arena_bytes is ",
    ("--policy", "all"): "--policy: got 'all', expected one policy",
    ("--page-size", "7"): "--page-size: got '7', expected a divisor of the 512 tokens",
    ("--layers", "2"): "--layers: not with --model gpt-oss-20b",
    ("--checkpoint", "512"): "--checkpoint: --model gpt-oss-20b has no states",
    ("--mla",): "--mla: not with",
    ("--metrics", "metrics.prom"): "not expected: metrics.prom --metrics",
    ("--json", "/no/such/folder/x.json"): "--json: cannot write /no/such/folder/x.json",
    ("--report", "/no/such/folder/x.html"): "--report: cannot write /no/such/folder/x.html",
}


def without_times(figures):
    """Counts alone, of both pools."""
    kept = {key: value for key, value in figures.items() if key not in ("pool_seconds", "evicted_bytes")}
    if kept.get("uniform"):
        kept["uniform"] = without_times(kept["uniform"])
    return kept


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def random_trace(self, requests=40, **options):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        trace = tool.random_trace(random.Random(seed), requests, **options)
        return tool.write_trace(self.path("trace.jsonl"), trace), trace

    def random_repeats(self):
        """Each request comes twice: the second time all but its last token can be found."""
        trace, requests = self.random_trace()
        tool.write_trace(trace, requests + requests)
        return trace, requests

    def run_tool(self, *arguments):
        return subprocess.run([TOOLS[0], *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600,
                              cwd=self.folder.name)

    def run_well(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def page_data(self, *arguments):
        self.run_well(*arguments, "--quiet", "--report", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as file:
            return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.DOTALL)[1])

    def expect_evicted_bytes(self, run):
        self.assertEqual(run["evicted_bytes"], sum(g["evicted_pages"] * g["page_bytes"] for g in run["groups"]))


class Policies(Case):
    def test_each_policy_counts_what_it_counts_alone(self):
        for model, gib, partial in (("gemma-3-12b", 6, 0), ("llama-4-scout", 3, 4), ("jamba-1.5-mini", 0.5, 1)):
            trace, _ = self.random_trace(60)
            options = ("--model", model, "--gib", gib, "--partial", partial)
            with self.subTest(model=model):
                all_of_them = tool.replay(TOOLS[0], trace, *options, "--policy", "all").figures
                self.assertEqual(all_of_them["policy"], "all")
                self.assertEqual([row["policy"] for row in all_of_them["policies"]], list(policies_oracle.POLICIES))
                for row in all_of_them["policies"]:
                    alone = without_times(tool.replay(TOOLS[0], trace, *options, "--policy", row["policy"]).figures)
                    self.assertEqual({**alone, **without_times(row)}, alone, row["policy"])
                    self.expect_evicted_bytes(row)
                    self.assertGreater(row["evicted_bytes"], 0, "a memory in which nothing is to be chosen")

    def test_the_table_has_all_policies_and_says_why_no_optimum(self):
        trace, _ = self.random_trace()
        text = self.run_well("replay", trace, *MODEL, "--policy", "all", "--gib", 0.5, "--json", "figures.json")
        lines = {line.split()[0]: line.split() for line in text.splitlines()}
        self.assertEqual(lines["policy"], "policy hit tokens of tokens all kept evicted full evicted window 128 evicted GiB peak GiB steps "
                         "preemptions".split())
        for row in self.read_json("figures.json")["policies"]:
            cells = [row["hit_tokens"], f"{row['hit_rate_tokens']:.4f}", f"{row['uniform']['hit_rate_tokens']:.4f}",
                     *[group["evicted_pages"] for group in row["groups"]], f"{row['evicted_bytes'] / GIB:.3f}",
                     f"{row['used']['peak_bytes'] / GIB:.3f}", row["steps"], row["preemptions"]]
            self.assertEqual(lines[row["policy"]][1:], list(map(str, cells)))
        self.assertIn("optimum     none: it is defined for pages of one size and one rule", text)

    def test_hits_inside_pages_are_a_column(self):
        trace, _ = self.random_repeats()
        text = self.run_well("replay", trace, *MODEL, "--policy", "all", "--partial", 1, "--json", "figures.json")
        figures = self.read_json("figures.json")
        self.assertEqual(figures["partial"], 1)
        lines = {line.split()[0]: line.split() for line in text.splitlines()}
        self.assertEqual(" ".join(lines["policy"][1:9]), "hit tokens of tokens in pages all kept")
        for row in figures["policies"]:
            self.assertGreater(row["hit_tokens_partial"], 0)
            self.assertEqual(lines[row["policy"]][3], str(row["hit_tokens_partial"]))

    def test_a_memory_too_small_for_full_layers_says_none(self):
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request([1, 2], 1024)] * 2)
        text = self.run_well("replay", trace, *MODEL, "--policy", "all", "--pages", 63, "--json", "figures.json", "--report", "page.html")
        self.assertIn(" none ", text)
        self.assertEqual([row["uniform"] for row in self.read_json("figures.json")["policies"]], [None] * 4)


class PlanCapacity(Case):
    def plan(self, trace, *options):
        text = self.run_well("plan-capacity", trace, "--json", self.path("plan.json"), *options)
        return self.read_json("plan.json"), text

    def test_each_size_counts_what_its_replay_counts(self):
        for model in hybrid_oracle.MODELS:
            trace, requests = self.random_trace(most_blocks=20)
            for policy in ("lru", "cost"):
                with self.subTest(model=model, policy=policy):
                    plan, _ = self.plan(trace, "--model", model, "--policy", policy, "--gib", "10,20,40")
                    self.assertEqual((plan["policy"], plan["method"]), (policy, "replays"))
                    no_outputs = tool.write_trace(self.path("prompts.jsonl"), [dict(r, output_length=0) for r in requests])
                    for row in plan["sizes"]:
                        self.assertEqual(row["memory_bytes"], row["gib"] * GIB)
                        self.assertEqual(row["blocks"], row["memory_bytes"] // plan["bytes_per_block"])
                        figures = without_times(tool.replay(TOOLS[0], no_outputs, "--model", model, "--sequential", "--policy", policy, "--gib",
                                                            row["gib"]).figures)
                        self.assertEqual({**figures, **without_times(row["groups"])}, figures)
                        self.assertEqual(without_times(row["uniform"]), figures["uniform"])
                        self.expect_evicted_bytes(row["groups"])

    def test_states_are_kept_as_often_as_it_is_said(self):
        # 1,536 of the second prompt's tokens are found with a state every 512 tokens, 1,024 of them with one every 1,024.
        model = ("--model", "jamba-1.5-mini")
        requests = [tool.request([1, 2, 3, 4], 2048, 0), tool.request([1, 2, 3, 5], 2048, 0)]
        trace = tool.write_trace(self.path("trace.jsonl"), requests)
        state, keys = 28 * 8192 * 19 * 2, 4 * 2 * 8 * 128 * 2  # bytes of a state, and of a token
        for checkpoint, found in ((256, 1536), (512, 1536), (768, 1536), (1024, 1024), (4096, 0)):
            with self.subTest(checkpoint=checkpoint):
                plan, text = self.plan(trace, *model, "--checkpoint", checkpoint, "--gib", 8)
                (row,) = plan["sizes"]
                self.assertEqual(row["groups"]["hit_tokens"], found)
                self.assertEqual(row["groups"]["groups"][1]["span"], checkpoint)
                self.assertEqual(plan["checkpoint"], checkpoint)
                self.assertEqual(plan["bytes_per_block"], -(-(keys * checkpoint + state) * 512 // checkpoint))
                self.assertIn(f"a state every {checkpoint} tokens", text)
                figures = tool.replay(TOOLS[0], trace, *model, "--sequential", "--checkpoint", checkpoint, "--gib", 8).figures
                self.assertEqual(without_times(row["groups"]), {key: figures[key] for key in without_times(row["groups"])})
        usual, _ = self.plan(trace, *model, "--gib", 8)
        self.assertEqual((usual["checkpoint"], usual["sizes"][0]["groups"]["hit_tokens"]), (512, 1536))
        for checkpoint, words in ((500, "expected a multiple of the 16 tokens"), (0, "expected an integer from 1 to 1048576")):
            done = self.run_tool("plan-capacity", trace, *model, "--checkpoint", checkpoint)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--checkpoint: got '{checkpoint}', {words}", done.stderr)
        done = self.run_tool("plan-capacity", trace, "--checkpoint", 512)
        self.assertIn("--checkpoint: needs a --model with states", done.stderr)

    def test_sizes_in_blocks_and_in_memory_say_the_same(self):
        trace, _ = self.random_trace()
        by_blocks, _ = self.plan(trace, *MODEL, "--pages", "64,128")
        by_memory, _ = self.plan(trace, *MODEL, "--gib", "1.5,3")
        self.assertEqual(by_blocks["bytes_per_block"], BLOCK)
        for a, b in zip(by_blocks["sizes"], by_memory["sizes"], strict=True):
            self.assertEqual((a["blocks"], a["memory_bytes"], without_times(a["groups"])),
                             (b["blocks"], b["memory_bytes"], without_times(b["groups"])))

    def test_usual_sizes_double_until_the_whole_trace_has_room(self):
        trace, requests = self.random_trace(80)
        plan, text = self.plan(trace, *MODEL)
        longest = max(r["input_length"] for r in requests)
        pages = -(-longest // 16) + -(-min(longest, 128) // 16)
        self.assertEqual(plan["need_bytes"], pages * BLOCK // 2 // 32)
        self.assertEqual(plan["longest_request_bytes"], -(-longest // 16) * BLOCK // 32)
        self.assertEqual(plan["distinct_blocks"], len({i for r in requests for i in r["hash_ids"]}))
        sizes = [row["memory_bytes"] for row in plan["sizes"]]
        self.assertEqual(sizes[0], plan["need_bytes"] // 4 * 5)
        self.assertEqual(sizes[1:], [2 * size for size in sizes[:-1]])
        self.assertTrue(len(sizes) == 8 or sizes[-2] < plan["distinct_blocks"] * BLOCK <= sizes[-1])
        self.assertEqual([row["uniform"] is None for row in plan["sizes"]], [size < plan["longest_request_bytes"] for size in sizes])
        self.assertIn("none", text)
        self.assertIn("no stack distance", text)
        self.assertEqual(len(text.splitlines()), 4 + len(sizes) + 3)

    def test_a_memory_whose_slabs_leave_no_room_says_none(self):
        # 9,216 tokens in slabs of three full pages or one chunked page: what the longest request holds at its end is not enough
        # while its chunk is full.
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request(list(range(18)), 9216)])
        plan, text = self.plan(trace, "--model", "llama-4-scout", "--gib", "0.7,40")
        small, large = plan["sizes"]
        self.assertIsNone(small["groups"])
        self.assertIsNone(small["uniform"])
        self.assertIsNotNone(large["groups"])
        self.assertRegex(text, r"(?m)^ +0\.7 +\d+ +none +none *$")

    def test_bad_options_are_named(self):
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request([1, 2], 1024)])
        for options, words in BAD_OPTIONS.items():
            with self.subTest(options=options):
                done = self.run_tool("plan-capacity", trace, *MODEL, *options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
        for option in ("--json", "--report"):
            done = self.run_tool("plan-capacity", trace, *MODEL, option, trace)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{option}: {trace} is the trace", done.stderr)
        self.assertEqual(os.listdir(self.folder.name), ["trace.jsonl"])


class PageData(Case):
    """What the page draws, beside the JSON of the same replay."""

    def charts(self, charts):
        return {chart["id"]: chart for chart in charts}

    def test_charts_add_up_to_the_figures(self):
        trace, _ = self.random_trace()
        options = ("replay", trace, *MODEL, "--gib", 0.5, "--sequential", "--json", "figures.json")
        data = self.page_data(*options)
        figures = self.read_json("figures.json")
        charts = self.charts(data["runs"][0]["charts"])
        occupancy = charts["occupancy"]["series"]
        self.assertEqual([s["name"] for s in occupancy], ["full, used", "window 128, used", "full, cached", "window 128, cached", "free"])
        for values in zip(*(s["values"] for s in occupancy), strict=True):
            self.assertAlmostEqual(sum(values), 0.5, delta=0.001)
        held, everything, saved = (s["values"] for s in charts["saved"]["series"])
        for a, b, c in zip(held, everything, saved, strict=True):
            self.assertAlmostEqual(b - a, c, delta=0.001)
        self.assertAlmostEqual(max(everything) * GIB, figures["everything"]["peak_bytes"], delta=1e-3 * GIB)
        self.assertAlmostEqual(charts["hit-rate"]["series"][0]["values"][-1], 100 * figures["hit_rate_tokens"], delta=0.01)
        self.assertEqual(charts["occupancy"]["x"]["values"][-1], figures["steps"])
        for series, group in zip(charts["evictions"]["series"], figures["groups"], strict=True):
            self.assertEqual(sum(series["values"]), group["evicted_pages"])  # a sample is a step
        self.assertEqual([layer["name"] for layer in charts["heat"]["layers"]],
                         ["found: full", "written: full", "found: window 128", "written: window 128"])

    def test_tables_have_groups_and_pools_and_what_is_left_out_is_said(self):
        trace, _ = self.random_trace()
        data = self.page_data("replay", trace, *MODEL, "--gib", 0.5, "--json", "figures.json")
        figures = self.read_json("figures.json")
        groups, use, pools = data["tables"]
        self.assertEqual(groups["rows"], [[title, 12, 16, g["page_bytes"], g["pages"]]
                                          for title, g in zip(("full", "window 128"), figures["groups"], strict=True)])
        self.assertEqual([row[3:] for row in use["rows"][:2]],
                         [[g["given_back_pages"], g["copied_pages"], g["evicted_pages"], g["cached_pages"]] for g in figures["groups"]])
        self.assertEqual([row[2] for row in pools["rows"]], [figures["hit_tokens"], figures["uniform"]["hit_tokens"]])
        self.assertIn("Ages and finds of evicted pages are left out", data["left_out"])
        self.assertTrue({"idle-seconds", "idle-requests", "finds"}.isdisjoint(self.charts(data["runs"][0]["charts"])))

    def test_what_is_found_inside_pages_is_told(self):
        trace, _ = self.random_repeats()
        data = self.page_data("replay", trace, *MODEL, "--partial", 2, "--json", "figures.json")
        figures = self.read_json("figures.json")
        self.assertGreater(figures["hit_tokens_partial"], 0)
        self.assertIn("hits inside them from 2 on", dict(data["facts"])["cache"])
        _, use, pools = data["tables"]
        self.assertEqual([row[4] for row in use["rows"][:2]], [g["copied_pages"] for g in figures["groups"]])
        self.assertEqual([row[3] for row in pools["rows"]], [run["hit_tokens_partial"] for run in (figures, figures["uniform"])])
        self.assertEqual([len(row) for row in pools["rows"]], [len(pools["columns"])] * 2)

    def test_policies_stand_side_by_side(self):
        trace, _ = self.random_trace()
        data = self.page_data("replay", trace, *MODEL, "--gib", 0.5, "--policy", "all", "--json", "figures.json")
        policies = self.read_json("figures.json")["policies"]
        self.assertIn("The offline optimum: none", data["lead"])
        self.assertEqual([run["name"] for run in data["runs"]], [p["policy"] for p in policies])
        self.assertEqual([row[2] for row in data["tables"][0]["rows"]], [p["hit_tokens"] for p in policies])
        charts = self.charts(data["charts"])
        for series, pool in zip(charts["policies"]["series"], ("groups", "uniform"), strict=True):
            for value, policy in zip(series["values"], policies, strict=True):
                rate = policy["hit_rate_tokens"] if pool == "groups" else policy["uniform"]["hit_rate_tokens"]
                self.assertAlmostEqual(value, 100 * rate, delta=0.01)
        self.assertEqual(len(charts["policies-evicted"]["series"]), 2)

    def test_sizes_are_drawn_and_listed(self):
        trace, _ = self.random_trace()
        data = self.page_data("plan-capacity", trace, *MODEL, "--json", "plan.json")
        plan = self.read_json("plan.json")
        self.assertIn("stack distances", data["lead"])
        sizes, groups = data["tables"]
        self.assertEqual([row[3] for row in sizes["rows"]], [row["groups"]["hit_tokens"] for row in plan["sizes"]])
        self.assertEqual([row[0] for row in groups["rows"]], ["full", "window 128"])
        charts = self.charts(data["charts"])
        for series, pool in zip(charts["capacity-hits"]["series"], ("groups", "uniform"), strict=True):
            for value, row in zip(series["values"], plan["sizes"], strict=True):
                self.assertEqual(value is None, row[pool] is None)
                if value is not None:
                    self.assertAlmostEqual(value, 100 * row[pool]["hit_rate_tokens"], delta=0.01)


if __name__ == "__main__":
    tool.main()
