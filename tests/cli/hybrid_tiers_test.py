# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_tiers_test.py TOOL DAMAGED: tiers below models whose layers differ: what is found where, and that it is what was stored.

DAMAGED is the tool with a bit of each load changed.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import hybrid_oracle
import tool

ENDLESS = "1024TiB"
COUNTS = ("hit_tokens", "computed_tokens", "computed_again_tokens", "preemptions", "steps")
COUNTS_OF_TIERS = ("asked_tokens", "memory_tokens", "completed_tokens", "computed_tokens", "asked_pages", "found_pages", "loaded_pages",
                   "lost_pages", "stored_pages", "unstored_pages", "checked_pages")
COUNTS_OF_TIER = ("hit_tokens", "stored_pages", "loaded_pages", "dropped_pages", "pages", "pages_before", "load_outcomes",
                  "store_outcomes", "not_loaded", "not_stored", "loads", "groups")
# Of each model: GiB that hold the longest request of `conversations` and little else.
MODELS = {"gpt-oss-20b": 0.4, "gemma-3-12b": 1.2, "llama-4-scout": 1.25, "jamba-1.5-mini": 0.4}


def counts_of(figures):
    """What must not depend on time."""
    tiers = figures["tiers"]
    return [{name: figures[name] for name in COUNTS}, {name: tiers[name] for name in COUNTS_OF_TIERS},
            [{name: tier[name] for name in COUNTS_OF_TIER} for tier in tiers["below"]]]


def conversations(rng, count=9, turns=4, most_blocks=3):
    """Each turn goes on behind the whole prompt before; turns of all take place in a random order."""
    talks = [[[1, 100 * (talk + 1)]] for talk in range(count)]
    for talk, prompts in enumerate(talks):
        for _ in range(turns - 1):
            more = rng.randint(1, most_blocks)
            prompts.append(prompts[-1] + [100 * (talk + 1) + len(prompts[-1]) + i for i in range(more)])
    order = [talk for talk in range(count) for _ in range(turns)]
    rng.shuffle(order)
    trace = []
    for timestamp, talk in enumerate(order):
        ids = talks[talk].pop(0)
        trace.append(tool.request(ids, len(ids) * tool.TOKENS_PER_BLOCK, rng.randint(0, 20), timestamp))
    return trace


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.seed = random.randrange(2**32)
        print(f"seed {self.seed}", file=sys.stderr)
        self.rng = random.Random(self.seed)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def trace(self, requests):
        return tool.write_trace(self.path("trace.jsonl"), requests)

    def replay(self, requests, model, *options, code=0, tool_path=None):
        outcome = tool.replay(tool_path or TOOL, self.trace(requests), "--model", model, *options)
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, code, outcome.err)
        return outcome if code else outcome.figures

    def disk(self, name="disk", size=ENDLESS):
        return ("--disk", self.path(name), "--disk-bytes", size)

    def expect_sums(self, figures, requests):
        """Every token of a prompt comes from one place, every page of a tier from one group."""
        prompts = sum(r["input_length"] for r in requests)
        for run in filter(None, (figures, figures["uniform"])):
            tiers = run["tiers"]
            self.assertEqual(tiers["asked_tokens"], prompts)
            self.assertEqual(tiers["memory_tokens"] + sum(t["hit_tokens"] for t in tiers["below"]), run["hit_tokens"])
            self.assertEqual(tiers["asked_tokens"], run["hit_tokens"] + tiers["computed_tokens"])
            self.assertEqual(tiers["loaded_pages"], sum(t["loaded_pages"] for t in tiers["below"]))
        for tier in figures["tiers"]["below"]:
            for name in ("stored_pages", "loaded_pages", "model_bytes_stored", "model_bytes_loaded"):
                self.assertEqual(tier[name], sum(group[name] for group in tier["groups"]), name)
        self.assertLessEqual(figures["tiers"]["completed_tokens"], figures["tiers"]["memory_tokens"])


class Found(Case):
    def test_a_large_tier_finds_what_a_large_memory_finds(self):
        for model, gib in MODELS.items():
            requests = conversations(self.rng)
            # Where several run there is some more memory, since slabs of few requests may leave no room for a load; and what a window
            # has left, and one of the others has evicted before the request's end, is not written back: a hit or two of this trace.
            share = {"write-through": 0.98, "write-back": 0.9}
            for steps, memory in ((("--sequential",), gib), (("--max-batch", 3), 2 * gib)):
                large = self.replay(requests, model, *steps, "--gib", 300)
                for store in ("write-through", "write-back"):
                    with self.subTest(seed=self.seed, model=model, steps=steps, store=store):
                        figures = self.replay(requests, model, *steps, "--gib", memory, "--host-bytes", ENDLESS, "--store", store)
                        self.expect_sums(figures, requests)
                        self.assertGreaterEqual(figures["hit_tokens"], share[store] * large["hit_tokens"])
                        self.assertEqual((figures["tiers"]["lost_pages"], figures["tiers"]["unstored_pages"]), (0, 0))
                        if steps != ("--sequential",):
                            continue
                        self.assertEqual(figures["hit_tokens"], large["hit_tokens"])
                        self.assertLess(self.replay(requests, model, *steps, "--gib", memory)["hit_tokens"], large["hit_tokens"])
                        for group in figures["tiers"]["below"][0]["groups"]:
                            self.assertGreater(group["loaded_pages"], 0, group)

    def test_what_windows_have_passed_is_not_stored(self):
        requests = [tool.request(list(range(1, 21)), 20 * 512)]
        for model in ("gpt-oss-20b", "jamba-1.5-mini"):
            host = self.replay(requests, model, "--sequential", "--host-bytes", ENDLESS)["tiers"]["below"][0]
            full, other = host["groups"]
            self.assertEqual((full["group"], full["stored_pages"]), ("full", 640))
            # the last 512 tokens and the window in front of them; a state at its end and at the checkpoint before
            self.assertIn(other["stored_pages"], range(1, 32 + 8 + 1))

    def test_a_first_branch_finds_what_hits_at_an_interval_need(self):
        # Of a prompt of 20 blocks the first 10 come again, with other blocks behind; in between, others.
        fillers = [tool.request([1000 * i + k for k in range(1, 21)], 10240, 1, i) for i in range(1, 8)]
        requests = [tool.request(list(range(1, 21)), 10240), *fillers, tool.request([*range(1, 11), 60, 61], 6144)]
        for model, gib, found in (("gpt-oss-20b", 0.5, 5120), ("gemma-3-12b", 4.5, 5120), ("llama-4-scout", 2.5, 5120)):
            for store in ("write-through", "write-back"):
                options = ("--sequential", "--gib", gib, "--host-bytes", ENDLESS, "--store", store)
                hits = {interval: self.replay(requests, model, *options, *(("--hit-interval", interval) if interval else ()))
                        for interval in (0, 512, 4096)}
                with self.subTest(model=model, store=store):
                    self.assertEqual(self.replay(requests, model, "--sequential", "--gib", gib)["hit_tokens"], 0)
                    self.assertEqual(hits[0]["hit_tokens"], 0)
                    self.assertEqual(hits[512]["hit_tokens"], found)
                    self.assertEqual(hits[4096]["hit_tokens"], 4096)
                    stored = [hits[i]["tiers"]["below"][0]["groups"][1]["stored_pages"] for i in (0, 4096, 512)]
                    self.assertEqual(stored, sorted(set(stored)))
                    self.assertEqual([hits[i]["tiers"]["hit_interval"] for i in hits], list(hits))

    def test_a_first_branch_finds_the_state_of_its_checkpoint(self):
        fillers = [tool.request([1000 * i + k for k in range(1, 9)], 4096, 1, i) for i in range(1, 8)]
        requests = [tool.request(list(range(1, 11)), 5120), *fillers, tool.request([1, 2, 3, 4, 5, 60, 61], 3584)]
        for store in ("write-through", "write-back"):
            figures = self.replay(requests, "jamba-1.5-mini", "--sequential", "--gib", 0.4, "--host-bytes", ENDLESS, "--store", store)
            self.assertEqual(figures["hit_tokens"], 2560, store)
            self.assertEqual(self.replay(requests, "jamba-1.5-mini", "--sequential", "--gib", 0.4)["hit_tokens"], 0)

    def test_random_traces_find_no_more_than_endless_memory_and_count_every_token(self):
        for model, gib in MODELS.items():
            requests = tool.random_trace(self.rng, 40, most_blocks=10, most_outputs=60)
            for steps in (("--sequential",), ("--max-batch", 4, "--step-tokens", 300)):
                with self.subTest(seed=self.seed, model=model, steps=steps):
                    options = (*steps, "--gib", gib, "--host-bytes", "2GiB", *self.disk(f"{model}-{len(steps)}", "1TiB"), "--promote")
                    figures = self.replay(requests, model, *options)
                    self.expect_sums(figures, requests)
                    endless = self.replay(requests, model, *steps, "--gib", 300)
                    # a tier may keep the state of a page's end, which memory writes over as the sequence goes on
                    if len(steps) == 1 and model != "jamba-1.5-mini":
                        self.assertLessEqual(figures["hit_tokens"], endless["hit_tokens"])
                    self.assertGreater(figures["tiers"]["checked_pages"], 0)

    def test_requests_that_give_up_their_pages_are_counted_once(self):
        requests = conversations(self.rng, count=8)
        for model, gib in (("gpt-oss-20b", 0.25), ("gemma-3-12b", 2)):
            with self.subTest(seed=self.seed, model=model):
                figures = self.replay(requests, model, "--gib", gib, "--host-bytes", ENDLESS, "--max-batch", 8, "--step-tokens", 4096)
                self.expect_sums(figures, requests)

    def test_counts_do_not_depend_on_time(self):
        for model, gib in MODELS.items():
            requests = tool.random_trace(self.rng, 30, most_blocks=8)
            for store in ("write-through", "write-back", "at-eviction"):
                with self.subTest(seed=self.seed, model=model, store=store):
                    options = ("--gib", 2 * gib, "--host-bytes", "1GiB", "--max-batch", 4, "--store", store)
                    spare = ("--spare-pages", 8) if store == "at-eviction" else ()
                    runs = [counts_of(self.replay(requests, model, *options, *spare, *self.disk(f"{model}{store}{i}", "16GiB")))
                            for i in range(2)]
                    self.assertEqual(*runs)

    def test_pages_that_the_pool_evicts_go_down(self):
        requests = conversations(self.rng)
        options = ("--sequential", "--gib", 0.6, "--host-bytes", ENDLESS, "--store", "at-eviction", "--spare-pages")
        figures = self.replay(requests, "gpt-oss-20b", *options, 256)
        self.expect_sums(figures, requests)
        self.assertGreater(figures["tiers"]["below"][0]["stored_pages"], 0)
        self.assertGreater(figures["tiers"]["below"][0]["hit_tokens"], 0)
        little = self.replay(requests, "gpt-oss-20b", *options, 1)
        self.assertGreater(little["tiers"]["below"][0]["not_stored"]["no_spare"], 0)

    def test_nothing_is_stored_where_none_is_asked_for(self):
        requests = conversations(self.rng)
        figures = self.replay(requests, "gpt-oss-20b", "--sequential", "--gib", 0.4, "--host-bytes", ENDLESS, "--store", "none")
        self.assertEqual(figures["tiers"]["below"][0]["stored_pages"], 0)
        self.assertEqual(figures["hit_tokens"], self.replay(requests, "gpt-oss-20b", "--sequential", "--gib", 0.4)["hit_tokens"])

    def test_pages_are_stored_once_they_have_been_found(self):
        requests = conversations(self.rng)
        stored = [self.replay(requests, "gpt-oss-20b", "--sequential", "--gib", 20, "--host-bytes", ENDLESS, *hits)["tiers"]["below"][0]
                  ["stored_pages"] for hits in ((), ("--min-hits", 1), ("--min-hits", 1000))]
        self.assertGreater(stored[0], stored[1])
        self.assertGreater(stored[1], stored[2])
        self.assertEqual(stored[2], 0)

    def test_a_tier_has_room_for_its_bytes_of_the_model(self):
        # A hundred prompts, each stored with its windows, or its states: more than the tier holds.
        requests = [tool.request([10 * i + k for k in range(4)], 2048, 1, i) for i in range(100)]
        for model, pages in (("gemma-3-12b", (8 * 2 * 8 * 256 * 2 * 16, 40 * 2 * 8 * 256 * 2 * 16)),
                             ("jamba-1.5-mini", (4 * 2 * 8 * 128 * 2 * 16, 28 * 8192 * 19 * 2))):
            for tier, room in (("host", ("--host-bytes", "3GiB")), ("disk", self.disk(model, "3GiB"))):
                with self.subTest(model=model, tier=tier):
                    tiers = self.replay(requests, model, "--sequential", *room)["tiers"]
                    self.assertEqual([group["page_bytes"] for group in tiers["groups"]], list(pages))
                    below = tiers["below"][0]
                    self.assertEqual(below["room_pages"], (3 << 30) // pages[0])
                    # all was stored alike, so what is left is a share of it
                    left = below["model_bytes_stored"] * below["pages"] / below["stored_pages"] / (3 << 30)
                    self.assertGreater(below["dropped_pages"], 0)
                    self.assertGreater(left, 0.85)
                    self.assertLess(left, 1.08)


class Kept(Case):
    def test_a_directory_is_found_again_by_both_pools_and_by_no_other_model(self):
        requests = conversations(self.rng)
        for model, gib in (("gpt-oss-20b", 0.8), ("jamba-1.5-mini", 0.8)):
            with self.subTest(seed=self.seed, model=model):
                options = ("--sequential", "--gib", gib, *self.disk(model))
                first, second = (self.replay(requests, model, *options) for _ in range(2))
                for run in ("groups", "uniform"):
                    before, after = (f["tiers"] if run == "groups" else f["uniform"]["tiers"] for f in (first, second))
                    self.assertEqual(after["below"][0]["pages_before"], before["below"][0]["pages"])
                    self.assertGreater(after["below"][0]["hit_tokens"], before["below"][0]["hit_tokens"])
                    self.assertEqual(after["lost_pages"], 0)
                third = self.replay(requests, model, *options, "--kv-dtype", "f32", "--payload-bytes", 64)
                self.assertEqual(third["tiers"]["lost_pages"], 0)
                self.assertEqual(third["hit_tokens"], self.replay(requests, model, *options[:3], *self.disk("fresh" + model), "--kv-dtype",
                                                                  "f32")["hit_tokens"])

    def test_damaged_files_shorten_hits(self):
        for model, stride in (("gpt-oss-20b", 37), ("jamba-1.5-mini", 101)):  # a state has 33 blocks
            with self.subTest(seed=self.seed, model=model):
                requests = conversations(self.rng)
                options = ("--sequential", "--gib", 0.4, *self.disk(model), "--store")
                self.replay(requests, model, *options, "write-through")
                whole = self.replay(requests, model, *options, "none")
                self.assertEqual(whole["tiers"]["lost_pages"], 0)
                for name in sorted(os.listdir(self.path(model))):
                    if not name.endswith(".pages"):
                        continue
                    with open(os.path.join(self.path(model), name), "r+b") as file:
                        for at in range(0, os.path.getsize(file.name), 4096 * stride):
                            file.seek(at + 500)
                            file.write(b"\xff\xee\xdd\xcc")
                damaged = self.replay(requests, model, *options, "none")
                self.expect_sums(damaged, requests)
                self.assertGreater(damaged["tiers"]["below"][0]["load_outcomes"]["corrupt"], 0)
                self.assertGreater(damaged["tiers"]["lost_pages"], 0)
                self.assertLess(damaged["hit_tokens"], whole["hit_tokens"])
                self.assertGreater(damaged["tiers"]["below"][0]["hit_tokens"], 0)

    def test_wrong_bytes_fail_the_replay(self):
        requests = conversations(self.rng)
        for model, gib in MODELS.items():
            outcome = self.replay(requests, model, "--sequential", "--gib", gib, "--host-bytes", ENDLESS, code=1, tool_path=DAMAGED)
            self.assertRegex(outcome.err, r"page \d+ of \d+, of group 1, that a prompt found has wrong bytes; it was loaded")


class Reports(Case):
    def run_tool(self, *arguments):
        done = subprocess.run([TOOL, "replay", self.trace(conversations(self.rng)), "--sequential", *map(str, arguments)],
                              capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_text_and_json_say_the_same(self):
        text = self.run_tool("--model", "gemma-3-12b", "--gib", 3, "--host-bytes", "300MiB", *self.disk(), "--disk-gbps", 4, "--json",
                             self.path("figures.json"))
        with open(self.path("figures.json"), encoding="utf-8") as file:
            figures = json.load(file)
        tiers = figures["tiers"]
        self.assertEqual([g["group"] for g in tiers["groups"]], ["full", "window 1024"])
        self.assertEqual([g["page_bytes"] for g in tiers["groups"]], [g["page_bytes"] for g in figures["groups"]])
        host, disk = tiers["below"]
        lines = [" ".join(line.split()) for line in text.splitlines()]
        self.assertTrue(any(line.startswith(f"memory {tiers['memory_tokens']} tokens") for line in lines), text)
        for tier in (host, disk):
            self.assertTrue(any(line.startswith(f"{tier['name']} {tier['hit_tokens']} tokens") for line in lines), text)
            by_group = "; ".join(f"of {g['group']}: {g['stored_pages']} stored, {g['loaded_pages']} loaded" for g in tier["groups"])
            self.assertIn("pages " + by_group, lines)
            for group, sizes in zip(tier["groups"], tiers["groups"], strict=True):
                self.assertEqual(group["model_bytes_stored"], group["stored_pages"] * sizes["page_bytes"])
        self.assertAlmostEqual(disk["modelled_load_seconds"], disk["model_bytes_loaded"] / 4e9, places=6)
        self.assertIn(f"({figures['hit_tokens']}) in memory and below; with as much memory and tiers, but every layer keeping everything: "
                      f"{figures['uniform']['hit_rate_tokens']:.4f}", text)
        self.assertNotIn("groups", figures["uniform"]["tiers"])
        self.assertTrue(os.path.isdir(os.path.join(self.path("disk"), "everything")))

    def test_a_tier_too_small_for_pages_of_all_layers_is_said(self):
        text = self.run_tool("--model", "gemma-3-12b", "--gib", 10, "--host-bytes", 6 << 20, "--json", self.path("figures.json"))
        with open(self.path("figures.json"), encoding="utf-8") as file:
            figures = json.load(file)
        self.assertIsNotNone(figures["uniform"])
        text = self.run_tool("--model", "gemma-3-12b", "--gib", 10, *self.disk("small", 1 << 30), "--json", self.path("figures.json"))
        with open(self.path("figures.json"), encoding="utf-8") as file:
            figures = json.load(file)
        self.assertIsNone(figures["uniform"])
        self.assertIn("--disk-bytes: 1073741824 bytes hold 170 pages of 6291456 bytes, expected at least 512", figures["no_uniform"])
        self.assertIn("none: --disk-bytes", text)

    def test_the_page_has_tiers_and_groups(self):
        try:
            self.run_tool("--model", "jamba-1.5-mini", "--gib", 0.5, "--host-bytes", ENDLESS, "--report", self.path("page.html"))
        except AssertionError as error:
            if "Chart.js" in str(error):
                self.skipTest(str(error))
            raise
        with open(self.path("page.html"), encoding="utf-8") as file:
            data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.DOTALL)[1])
        self.assertEqual([table["title"] for table in data["tables"]][:2], ["By tier", "By tier and group"])
        self.assertIn("Groups", [table["title"] for table in data["tables"]])
        self.assertEqual([row[:2] for row in data["tables"][1]["rows"]], [["host", "full"], ["host", "state 512"]])
        self.assertEqual([chart["id"] for chart in data["charts"]], ["sources", "load-times"])
        shares = [series["values"] for series in data["charts"][0]["series"]]
        for at in zip(*shares, strict=True):
            self.assertAlmostEqual(sum(at), 100, places=1)
        self.assertIn("below", data["tiles"][0]["note"])
        self.assertIn("Ages and finds", data["left_out"])
        self.assertIn("what was loaded counts there as not found", data["left_out"])

    def test_metrics_are_of_the_pool(self):
        done = subprocess.run([TOOL, "replay", self.trace(conversations(self.rng)), "--quiet", "--model", "gpt-oss-20b", "--gib", "0.4",
                               "--host-bytes", "1GiB", "--metrics", self.path("metrics.prom")], capture_output=True, text=True, check=False)
        if "prometheus" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("metrics.prom"), encoding="utf-8") as file:
            self.assertIn('folio_group_evicted_pages_total{group="window 128"}', file.read())

    def test_the_oracles_models_all_have_tiers(self):
        requests = conversations(self.rng, count=2, turns=2)
        for model in hybrid_oracle.MODELS:
            with self.subTest(model=model):
                self.expect_sums(self.replay(requests, model, "--host-bytes", ENDLESS), requests)


if __name__ == "__main__":
    TOOL, DAMAGED = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
