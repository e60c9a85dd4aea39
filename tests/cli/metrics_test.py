# SPDX-License-Identifier: Apache-2.0
"""tests/cli/metrics_test.py TOOL TRACE: what --metrics writes is read by Prometheus's own client and agrees with the figures."""

import os
import sys
import tempfile
import unittest

import tool

try:
    from prometheus_client.parser import text_string_to_metric_families as families_of
except ImportError:  # Debian: python3-prometheus-client
    families_of = None

BLOCKS = ("--page-per-block", "--sequential", "--compute", "none", "--pages", 1000)


class Metrics(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "metrics.txt")

    def replay(self, *options):
        return tool.replay(TOOL, TRACE, *options, "--metrics", self.path)

    @unittest.skipIf(families_of is None, "no python3-prometheus-client")
    def test_the_exposition_parses_and_agrees_with_the_figures(self):
        outcome = self.replay(*BLOCKS)
        if "has no prometheus-cpp" in outcome.err:
            self.skipTest(outcome.err)
        self.assertEqual(outcome.code, 0, outcome.err)
        with open(self.path, encoding="utf-8") as file:
            families = {family.name: family for family in families_of(file.read())}

        def value(family, **labels):
            return sum(s.value for s in families[family].samples if labels.items() <= s.labels.items())

        figures = outcome.figures
        self.assertEqual(value("folio_hit_pages"), figures["hit_pages"])
        self.assertEqual(value("folio_hit_tokens"), figures["hit_pages"])  # a token a page, and a kind each
        self.assertEqual(value("folio_evicted_pages"), figures["evicted_pages"])
        self.assertGreater(figures["evicted_pages"], 0)
        self.assertEqual(value("folio_pages"), 1000)
        for family, count in (("folio_evicted_lifetime_pages", "evicted_pages"), ("folio_evicted_idle_pages", "evicted_pages"),
                              ("folio_reuse_pages", "hit_pages")):
            samples = families[family].samples
            self.assertEqual(families[family].type, "histogram")
            self.assertEqual([s.value for s in samples if s.name.endswith("_count")], [figures[count]])
            buckets = [s.value for s in samples if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], figures[count])

    @unittest.skipIf(families_of is None, "no python3-prometheus-client")
    def test_groups_have_figures_of_their_own(self):
        outcome = self.replay("--limit", 60, "--model", "gemma-3-27b", "--gib", 40)
        if "has no prometheus-cpp" in outcome.err:
            self.skipTest(outcome.err)
        self.assertEqual(outcome.code, 0, outcome.err)
        with open(self.path, encoding="utf-8") as file:
            families = {family.name: family for family in families_of(file.read())}
        for family, count in (("folio_group_evicted_pages", "evicted_pages"), ("folio_group_given_back_pages", "given_back_pages"),
                              ("folio_group_cached_pages", "cached_pages"), ("folio_group_peak_used_pages", "peak_pages")):
            values = {s.labels["group"]: s.value for s in families[family].samples}
            full, window = outcome.figures["groups"]
            self.assertEqual(values, {"full": full[count], "window 1024": window[count]}, family)
        self.assertGreater(outcome.figures["groups"][1]["evicted_pages"], 0)

    def test_files_that_cannot_be_written_are_refused(self):
        for path, options in ((os.path.join(self.folder.name, "none", "x"), BLOCKS), (self.path, (*BLOCKS, "--policy", "all"))):
            self.path = path
            outcome = self.replay(*options)
            self.assertIn(outcome.code, (1, 2))
            self.assertIn("--metrics", outcome.err)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    TOOL, TRACE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
