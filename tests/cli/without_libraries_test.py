# SPDX-License-Identifier: Apache-2.0
"""tests/cli/without_libraries_test.py TRACE WITHOUT_TIERS [WITHOUT_MEDIA]: the tool where libraries are missing says which.

WITHOUT_TIERS is the tool without ISA-L, OpenSSL and prometheus-cpp; WITHOUT_MEDIA has tiers, without hiredis, UCX liburing, ZeroMQ,
libcurl and CivetWeb.
"""

import os
import subprocess
import sys
import tempfile
import unittest

import tool

BLOCKS = ("--sequential", "--page-per-block", "--compute", "none", "--limit", 200, "--pages", 300)


class WithoutLibraries(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def expect_refused(self, command, *words):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

    def expect_replay_refused(self, path, options, *words):
        self.expect_refused((path, "replay", SHIPPED_TRACE, *BLOCKS, *options), *words)


class WithoutTiers(WithoutLibraries):
    def test_tiers_below_a_replay_are_refused(self):
        disk = ("--disk", self.path("disk"), "--disk-bytes", "1TiB")
        redis = ("--redis", "redis://localhost", "--redis-bytes", "1TiB")
        for options in (("--host-bytes", "1TiB"), disk, redis):
            with self.subTest(options=options):
                self.expect_replay_refused(TOOL, options, f"folio replay: {options[0]}: this build has no tiers", "libisal-dev, libssl-dev")

    def test_the_metrics_are_refused(self):
        self.expect_replay_refused(TOOL, ("--metrics", self.path("metrics")), "--metrics: this build has no prometheus-cpp",
                                   "prometheus-cpp-dev")

    def test_other_commands_are_refused(self):
        for command in ("ls", "check", "compact"):
            self.expect_refused((TOOL, "cache", command, self.folder.name), "folio cache: this build has no tiers", "libisal-dev")
        self.expect_refused((TOOL, "transfer-bench"), "folio transfer-bench: this build has no tiers", "libisal-dev")
        self.expect_refused((TOOL, "watch", "tcp://127.0.0.1:1"), "folio watch: this build has no tiers", "libisal-dev")

    def test_a_replay_in_memory_needs_none(self):
        outcome = tool.replay(TOOL, SHIPPED_TRACE, *BLOCKS)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertGreater(outcome.figures["hit_pages"], 0)


class WithoutMedia(WithoutLibraries):
    def setUp(self):
        super().setUp()
        if WITHOUT_MEDIA is None:
            self.skipTest("this build has no tiers")

    def test_redis_is_refused(self):
        options = ("--redis", "redis://localhost", "--redis-bytes", "1TiB")
        self.expect_replay_refused(WITHOUT_MEDIA, options, "--redis: make_redis_tier: this build has no hiredis", "libhiredis-dev")

    def test_ucx_is_refused(self):
        self.expect_refused((WITHOUT_MEDIA, "transfer-bench", "--transport", "ucx", "--pages", 1),
                            "transfer-bench: make_ucx_transport: this build has no UCX", "libucx-dev")

    def test_what_watches_is_refused_part_by_part(self):
        for options, words in (
            (("tcp://127.0.0.1:1",), ("folio watch: EventSubscriber::create: this build has no ZeroMQ", "libzmq3-dev")),
            (("--metrics", "http://127.0.0.1:1/"), ("folio watch: --metrics: this build has no libcurl", "libcurl4-openssl-dev")),
            (("tcp://127.0.0.1:1", "--page"), ("folio watch: --page: ", "libcivetweb-dev")),
        ):
            with self.subTest(options=options):
                self.expect_refused((WITHOUT_MEDIA, "watch", *options), *words)

    def test_a_disk_is_used_without_io_uring(self):
        disk = ("--disk", self.path("disk"), "--disk-bytes", "1024TiB")
        for _ in range(2):
            outcome = tool.replay(WITHOUT_MEDIA, SHIPPED_TRACE, *BLOCKS, *disk)
            self.assertEqual(outcome.code, 0, outcome.err)
        below = outcome.figures["tiers"]["below"][0]
        self.assertGreater(below["loaded_pages"], 0)
        self.assertEqual(below["pages"], below["pages_before"])
        self.assertEqual([outcome.figures["tiers"][name] for name in ("lost_pages", "computed_tokens")], [0, 0])


if __name__ == "__main__":
    SHIPPED_TRACE, TOOL = sys.argv[1:3]
    WITHOUT_MEDIA = sys.argv[3] if len(sys.argv) > 3 else None
    unittest.main(argv=sys.argv[:1], verbosity=2)
