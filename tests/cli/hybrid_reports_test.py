# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_reports_test.py TOOL: policies and pages of models whose layers differ say what single replays say."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import policies_oracle
import tool

GIB = 2**30
MODEL = ("--model", "gpt-oss-20b")


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
        for model, gib in (("gemma-3-12b", 6), ("llama-4-scout", 3), ("jamba-1.5-mini", 0.5)):
            trace, _ = self.random_trace(60)
            options = ("--model", model, "--gib", gib)
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

    def test_a_memory_too_small_for_full_layers_says_none(self):
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request([1, 2], 1024)] * 2)
        text = self.run_well("replay", trace, *MODEL, "--policy", "all", "--pages", 63, "--json", "figures.json", "--report", "page.html")
        self.assertIn(" none ", text)
        self.assertEqual([row["uniform"] for row in self.read_json("figures.json")["policies"]], [None] * 4)


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
                         [[g["given_back_pages"], g["evicted_pages"], g["cached_pages"]] for g in figures["groups"]])
        self.assertEqual([row[2] for row in pools["rows"]], [figures["hit_tokens"], figures["uniform"]["hit_tokens"]])
        self.assertIn("Ages and finds of evicted pages are left out", data["left_out"])
        self.assertTrue({"idle-seconds", "idle-requests", "finds"}.isdisjoint(self.charts(data["runs"][0]["charts"])))

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


if __name__ == "__main__":
    tool.main()
