# SPDX-License-Identifier: Apache-2.0
"""tests/cli/transfer_bench_test.py TOOL: `folio transfer-bench` moves pages between two processes, says how fast, and refuses nonsense."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import tool

LINE = re.compile(r"^(write|read) +(\d+) pages of +(\d+) bytes, (\d+) transfers: +(\d+\.\d{3}) GB/s, bytes are right$")


class TransferBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "figures.json")

    def bench(self, *options):
        line = [TOOLS[0], "transfer-bench", *map(str, options)]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)

    def expect_figures(self, transport, page_bytes, pages, rounds):
        done = self.bench("--transport", transport, "--page-bytes", page_bytes, "--pages", pages, "--rounds", rounds, "--json", self.json)
        if "folio transfer-bench: make_ucx_transport" in done.stderr or "UCX: it does not start: No such device" in done.stderr:
            self.skipTest(done.stderr.strip())  # built without it; no /sys that lists a device
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [LINE.match(line) for line in done.stdout.splitlines()]
        self.assertTrue(all(lines), done.stdout)
        self.assertEqual([line[1] for line in lines], ["write", "read"])
        for line in lines:
            self.assertEqual([int(line[i]) for i in (2, 3, 4)], [pages, page_bytes, rounds])
        with open(self.json, encoding="utf-8") as file:
            figures = json.load(file)
        self.assertEqual(list(figures), ["transport", "page_bytes", "pages", "transfers", "write", "read"])
        self.assertEqual([figures[k] for k in ("transport", "page_bytes", "pages", "transfers")], [transport, page_bytes, pages, rounds])
        for line in lines:
            of = figures[line[1]]
            self.assertAlmostEqual(of["bytes_per_second"] * of["seconds"], page_bytes * pages * rounds, delta=1)
            self.assertAlmostEqual(of["bytes_per_second"] / 1e9, float(line[5]), delta=0.001)

    def test_shared_memory(self):
        self.expect_figures("shared-memory", 4096, 64, 3)

    def test_a_page_and_a_transfer_alone(self):
        self.expect_figures("shared-memory", 8, 1, 1)

    def test_pages_that_are_no_whole_words(self):
        self.expect_figures("shared-memory", 1021, 37, 2)

    def test_ucx(self):
        self.expect_figures("ucx", 65536, 16, 2)

    def expect_refused(self, options, *words):
        done = self.bench(*options, "--json", self.json)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse([line for line in done.stdout.splitlines() if LINE.match(line)])  # UCX prints lines of its own
        self.assertFalse(os.path.exists(self.json))

    def test_what_it_refuses(self):
        self.expect_refused(["--transport", "pigeon"], "--transport is pigeon, expected shared-memory, ucx or nixl")
        self.expect_refused(["--transport", ""], "--transport is , expected shared-memory, ucx or nixl")
        self.expect_refused(["--page-bytes", 7], "--page-bytes", "7 not in range")
        self.expect_refused(["--page-bytes", "x"], "--page-bytes")
        self.expect_refused(["--pages", 0], "--pages", "0 not in range")
        self.expect_refused(["--pages", 1 << 21], "--pages")
        self.expect_refused(["--rounds", 0], "--rounds", "0 not in range")
        self.expect_refused(["--rounds", -1], "--rounds")
        self.expect_refused(["--transport", "ucx", "--ucx-transports", "carrier"], "folio transfer-bench: ")
        self.expect_refused(["more"], "more")

    def test_a_file_that_cannot_be_written_is_known_before_the_work(self):
        done = self.bench("--json", os.path.join(self.json, "not", "there"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--json", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    tool.main()
