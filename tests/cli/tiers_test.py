# SPDX-License-Identifier: Apache-2.0
"""tests/cli/tiers_test.py TRACE TOOL DAMAGED: replays over tiers: what is found where, and that it is what was stored.

DAMAGED is the tool with a bit of each load changed.
"""

import os
import pathlib
import random
import sys
import tempfile
import unittest

import oracle
import tier_oracle
import tool

BLOCKS = ("--sequential", "--page-per-block")
BLOCK_BYTES = 512 * 131072  # of llama-3-8b in bf16
PAGE_BYTES = 16 * 131072
ENDLESS = "1024TiB"
SOME = 400  # requests of the shipped trace
COUNTS = ("memory_tokens", "computed_tokens", "asked_tokens", "asked_pages", "found_pages", "loaded_pages", "lost_pages", "stored_pages",
          "unstored_pages", "checked_pages")
COUNTS_OF_TIER = ("hit_tokens", "stored_pages", "loaded_pages", "dropped_pages", "pages", "pages_before", "load_outcomes",
                  "store_outcomes", "not_loaded", "not_stored", "loads")


def counts_of(figures):
    """What must not depend on time."""
    tiers = figures["tiers"]
    return [{name: figures[name] for name in ("hit_tokens", "hit_pages", "evicted_pages", "computed_tokens")},
            {name: tiers[name] for name in COUNTS}, [{name: tier[name] for name in COUNTS_OF_TIER} for tier in tiers["below"]]]


def all_may_enter(*paths):
    """Whether any user comes to these."""
    folders = {folder for path in paths for folder in pathlib.Path(path).resolve().parents}
    return all(folder.stat().st_mode & 0o001 for folder in folders)


class Tiers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def replay(self, trace, *options, code=0, tool_path=None, **how):
        outcome = tool.replay(tool_path or TOOL, trace, *options, **how)
        if "this build has no tiers" in outcome.err:
            self.skipTest(outcome.err)
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, code, outcome.err)
        return outcome

    def random_trace(self, rng, requests=150):
        trace = tool.random_trace(rng, rng.randint(1, requests))
        return tool.write_trace(self.path("random.jsonl"), trace), trace

    def seeded(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        return random.Random(seed)

    def compare(self, trace, requests, memory, host):
        options = ("--pages", memory, "--host-bytes", ENDLESS if host is None else host * BLOCK_BYTES)
        figures = self.replay(trace, *BLOCKS, *options).figures
        expected = tier_oracle.replay(requests, memory, host)
        tiers, below = figures["tiers"], figures["tiers"]["below"][0]
        found = {"memory_tokens": tiers["memory_tokens"], "tier_tokens": below["hit_tokens"], "evicted_pages": figures["evicted_pages"]}
        found |= {name: below[name] for name in ("loaded_pages", "stored_pages", "dropped_pages", "pages")}
        self.assertEqual(found, expected)
        self.assertEqual(tiers["asked_tokens"], sum(r["input_length"] for r in requests))
        self.assertEqual(tiers["computed_tokens"], tiers["asked_tokens"] - tiers["memory_tokens"] - below["hit_tokens"])
        self.assertEqual(tiers["checked_pages"], figures["hit_pages"] + below["loaded_pages"])

    def test_memory_and_a_bounded_host_tier_give_the_oracles_counts(self):
        requests = oracle.read(SHIPPED_TRACE)
        for memory, host in ((1000, 3000), (1000, 500), (3000, 10), (3000, None)):
            with self.subTest(memory=memory, host=host):
                self.compare(SHIPPED_TRACE, requests, memory, host)

    def test_random_traces_give_the_oracles_counts(self):
        rng = self.seeded()
        for _ in range(6):
            trace, requests = self.random_trace(rng)
            longest = max(len(r["hash_ids"]) for r in requests)
            for host in (1, rng.randint(1, 4 * longest), None):
                memory = rng.randint(longest, 3 * longest)
                with self.subTest(memory=memory, host=host):
                    self.compare(trace, requests, memory, host)

    def test_memory_evicts_as_without_tiers_though_stores_outlive_sequences(self):
        expected = oracle.replay(oracle.read(SHIPPED_TRACE), 1000)
        for store in ("write-through", "write-back"):
            figures = self.replay(SHIPPED_TRACE, *BLOCKS, "--pages", 1000, "--host-bytes", 10 * BLOCK_BYTES, "--store", store).figures
            self.assertEqual([figures[name] for name in ("hit_tokens", "hit_pages", "evicted_pages")],
                             [expected[name] for name in ("hit_tokens", "hit_pages", "evicted_pages")], store)

    def test_a_large_tier_finds_what_an_endless_cache_finds(self):
        endless = oracle.replay(oracle.read(SHIPPED_TRACE, SOME))["hit_tokens"]
        disk = ("--disk", self.path("disk"), "--disk-bytes", ENDLESS)
        for below in (("--host-bytes", ENDLESS), disk, ("--host-bytes", 100 * BLOCK_BYTES, *disk[:1], self.path("other"), *disk[2:])):
            with self.subTest(below=below):
                tiers = self.replay(SHIPPED_TRACE, *BLOCKS, "--limit", SOME, "--pages", 300, *below).figures["tiers"]
                self.assertEqual(tiers["memory_tokens"] + sum(tier["hit_tokens"] for tier in tiers["below"]), endless)
                self.assertEqual(tiers["lost_pages"], 0)
                self.assertGreater(tiers["below"][-1]["hit_tokens"], 0)

    def test_steps_find_in_a_large_tier_what_an_endless_cache_finds(self):
        rng = self.seeded()
        for page_size in (16, 48, 512):
            trace, requests = self.random_trace(rng, 40)
            longest = max((r["input_length"] + r["output_length"]) // page_size + 1 for r in requests)
            steps = ("--page-size", page_size, "--compute", "none", "--sequential")
            endless = self.replay(trace, *steps).figures
            tiers = self.replay(trace, *steps, "--pages", longest, "--host-bytes", ENDLESS).figures["tiers"]
            self.assertEqual(tiers["memory_tokens"] + tiers["below"][0]["hit_tokens"], endless["hit_tokens"])
            self.assertEqual(tiers["asked_tokens"], endless["prompt_tokens"])

    def test_counts_do_not_depend_on_time(self):
        rng = self.seeded()
        trace, requests = self.random_trace(rng, 40)
        longest = max((r["input_length"] + r["output_length"]) // 16 + 1 for r in requests)
        modes = {"blocks": (*BLOCKS, "--limit", SOME, "--pages", 300, "--host-bytes", 500 * BLOCK_BYTES, "--disk-bytes", 9000 * BLOCK_BYTES),
                 "steps": ("--pages", longest + 50, "--max-batch", 4, "--host-bytes", 2 * longest * PAGE_BYTES, "--disk-bytes",
                           (512 + 4 * longest) * PAGE_BYTES)}
        for name, options in modes.items():
            for store in ("write-through", "write-back"):
                counts = []
                for i in range(2):
                    disk = self.path(f"{name}-{store}-{i}")
                    used = SHIPPED_TRACE if name == "blocks" else trace
                    counts.append(counts_of(self.replay(used, *options, "--store", store, "--disk", disk).figures))
                self.assertEqual(counts[0], counts[1], (name, store))
                if used == SHIPPED_TRACE:  # a random one may have a single request
                    self.assertGreater(sum(tier["hit_tokens"] for tier in counts[0][2]), 0, (name, store))

    def test_a_directory_is_found_again(self):
        options = (*BLOCKS, "--limit", SOME, "--pages", 300, "--disk", self.path("disk"), "--disk-bytes", ENDLESS)
        first = self.replay(SHIPPED_TRACE, *options).figures["tiers"]
        second = self.replay(SHIPPED_TRACE, *options).figures["tiers"]
        self.assertEqual(second["below"][0]["pages_before"], first["below"][0]["pages"])
        self.assertEqual(second["computed_tokens"], 0)
        self.assertEqual(second["below"][0]["stored_pages"], 0)
        # Another payload is another engine's page.
        third = self.replay(SHIPPED_TRACE, *options, "--payload-bytes", 2048).figures["tiers"]
        self.assertEqual(third["computed_tokens"], first["computed_tokens"])

    def test_a_directory_that_cannot_be_written_is_found_again(self):
        options = (*BLOCKS, "--pages", 300, "--disk", self.path("disk"), "--disk-bytes", ENDLESS)
        self.replay(SHIPPED_TRACE, *options, "--limit", SOME)
        options = (*options, "--limit", 2 * SOME)
        expected = self.replay(SHIPPED_TRACE, *options, "--store", "none").figures["tiers"]
        os.chmod(self.folder.name, 0o777)
        os.chmod(self.path("disk"), 0o555)
        nobody = 65534 if os.geteuid() == 0 else None  # root may write everything
        if nobody is not None and (os.stat(TOOL).st_mode & 0o005 == 0 or not all_may_enter(TOOL, SHIPPED_TRACE, self.folder.name)):
            self.skipTest("root's, and no other user comes to the tool")
        tiers = self.replay(SHIPPED_TRACE, *options, user=nobody, json_path=self.path("figures.json")).figures["tiers"]
        disk = tiers["below"][0]
        self.assertGreater(disk["hit_tokens"], 0)
        self.assertEqual(disk["hit_tokens"], expected["below"][0]["hit_tokens"])
        self.assertGreater(disk["store_outcomes"]["failed"], 0)
        self.assertGreater(disk["store_rests"]["failed"], 0)
        self.assertEqual(set(disk["load_rests"].values()), {0})
        self.assertIn("is read-only", disk["last_fault"])

    def test_a_directory_has_room_for_as_many_pages_as_it_was_given_whatever_their_payloads(self):
        pages = 4096
        for payload in (3888, 3904):  # a block, or two
            options = ("--limit", 40, "--pages", 9000, "--sequential", "--disk", self.path(str(payload)), "--payload-bytes", payload)
            disk = self.replay(SHIPPED_TRACE, *options, "--disk-bytes", pages * PAGE_BYTES).figures["tiers"]["below"][0]
            self.assertGreater(disk["stored_pages"], 2 * pages, payload)
            self.assertGreater(disk["pages"], 3 * pages // 4, payload)  # files go as a whole
            self.assertLessEqual(disk["pages"], pages, payload)

    def test_damaged_files_are_misses(self):
        options = (*BLOCKS, "--limit", SOME, "--pages", 300, "--disk", self.path("disk"), "--disk-bytes", ENDLESS)
        first = self.replay(SHIPPED_TRACE, *options).figures["tiers"]
        for name in os.listdir(self.path("disk")):
            if not name.endswith(".pages"):
                continue
            with open(os.path.join(self.path("disk"), name), "r+b") as file:
                for at in range(0, os.path.getsize(file.name), 40960):
                    file.seek(at + 500)
                    file.write(b"\xff\xee\xdd\xcc")
        second = self.replay(SHIPPED_TRACE, *options).figures["tiers"]
        self.assertGreater(second["lost_pages"], 0)
        self.assertGreater(second["below"][0]["load_outcomes"]["corrupt"], 0)
        self.assertGreater(second["computed_tokens"], 0)
        self.assertLess(second["computed_tokens"], first["computed_tokens"])

    def test_wrong_bytes_fail_the_replay(self):
        options = (*BLOCKS, "--limit", SOME, "--pages", 300, "--host-bytes", ENDLESS)
        outcome = self.replay(SHIPPED_TRACE, *options, code=1, tool_path=DAMAGED)
        self.assertRegex(outcome.err, r"page \d+ of \d+ that a prompt found has wrong bytes; it was loaded")
        steps = ("--limit", 200, "--pages", 9000, "--sequential", "--host-bytes", ENDLESS)
        self.assertIn("has wrong bytes", self.replay(SHIPPED_TRACE, *steps, code=1, tool_path=DAMAGED).err)

    def test_nothing_is_stored_where_none_is_asked_for(self):
        figures = self.replay(SHIPPED_TRACE, *BLOCKS, "--pages", 1000, "--host-bytes", ENDLESS, "--store", "none").figures
        self.assertEqual(figures["tiers"]["below"][0]["stored_pages"], 0)
        self.assertEqual(figures["hit_tokens"], oracle.replay(oracle.read(SHIPPED_TRACE), 1000)["hit_tokens"])

    def test_bytes_are_those_of_the_model_and_times_of_what_was_asked(self):
        tiers = self.replay(SHIPPED_TRACE, *BLOCKS, "--pages", 300, "--host-bytes", "64GiB", "--host-gbps", 10).figures["tiers"]
        host = tiers["below"][0]
        self.assertEqual(tiers["page_bytes"], BLOCK_BYTES)
        self.assertEqual(host["room_pages"], 1024)
        self.assertEqual(host["pages"], 1024)
        self.assertEqual(host["model_bytes_loaded"], host["loaded_pages"] * BLOCK_BYTES)
        self.assertEqual(host["payload_bytes_loaded"], host["loaded_pages"] * tiers["payload_bytes"])
        self.assertAlmostEqual(host["modelled_load_seconds"], host["loaded_pages"] * BLOCK_BYTES / 10e9, places=6)
        self.assertGreater(host["load_seconds"], 0)


if __name__ == "__main__":
    SHIPPED_TRACE, TOOL, DAMAGED = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
