# SPDX-License-Identifier: Apache-2.0
"""tests/cli/tier_bad_input_test.py TOOL: bad options of tiers are named, and so are directories and servers that cannot be used."""

import fcntl
import os
import socket
import tempfile
import unittest

import bad_input_test
import tool

GOOD = bad_input_test.GOOD
PAGE_BYTES = 16 * 131072

# options -> words of the message
BAD_OPTIONS = {
    ("--disk-bytes", "1GiB"): "--disk-bytes: needs --disk",
    ("--disk", "DIR"): "--disk: needs --disk-bytes",
    ("--redis-bytes", "1GiB"): "--redis-bytes: needs --redis",
    ("--host-gbps", "1"): "--host-gbps: needs --host-bytes",
    ("--disk-gbps", "1", "--host-bytes", "1GiB"): "--disk-gbps: needs --disk",
    ("--redis-gbps", "1", "--host-bytes", "1GiB"): "--redis-gbps: needs --redis",
    ("--payload-bytes", "4096"): "--payload-bytes: needs --host-bytes, --disk or --redis",
    ("--load-deadline-ms", "5"): "--load-deadline-ms: needs --host-bytes, --disk or --redis",
    ("--store", "write-back"): "--store: needs --host-bytes, --disk or --redis",
    ("--min-hits", "1"): "--min-hits: needs a tier, and --store write-through",
    ("--min-hits", "1", "--host-bytes", "1GiB", "--store", "write-back"): "--min-hits: needs a tier, and --store write-through",
    ("--promote", "--host-bytes", "1GiB"): "--promote: needs two tiers or more",
    ("--host-bytes", "1GiB", "--payload-bytes", "1000"): "--payload-bytes: got '1000', expected a multiple of the 16 tokens of a page",
    ("--host-bytes", str(PAGE_BYTES - 1)): f"--host-bytes: {PAGE_BYTES - 1} bytes hold 0 pages of {PAGE_BYTES} bytes, expected at least 1",
    ("--disk", "DIR", "--disk-bytes", str(511 * PAGE_BYTES)): "hold 511 pages of 2097152 bytes, expected at least 512",
    ("--redis", "redis://127.0.0.1:1", "--redis-bytes", "1"): "--redis-bytes: 1 bytes hold 0 pages",
    ("--host-bytes", "1024TiB", "--layers", "1", "--kv-heads", "1", "--head-size", "8", "--page-size", "1", "--payload-bytes",
     "1073741824"): "--host-bytes: 1125899906842624 bytes hold 35184372088832 pages, too many for payloads of 1073741824 bytes",
    ("--host-bytes", "1GiB", "--compute", "attention"): "--compute attention: not with --host-bytes",
    ("--host-bytes", "1GiB", "--verify"): "--verify: not with --host-bytes",
    ("--host-bytes", "1GiB", "--partial", "4"): "--partial: not with --host-bytes",
    ("--host-bytes", "1GiB", "--policy", "all", "--page-per-block", "--sequential"): "--policy all: not with --host-bytes",
    ("--spare-pages", "4"): "--spare-pages: needs a tier, and --store at-eviction",
    ("--host-bytes", "1GiB", "--spare-pages", "4"): "--spare-pages: needs a tier, and --store at-eviction",
    ("--host-bytes", "1GiB", "--store", "at-eviction", "--min-hits", "1"): "--min-hits: needs a tier, and --store write-through",
    ("--host-bytes", "1GiB", "--store", "at-eviction", "--pages", "64"): "hold fewer than the 601 tokens of the request in line 1",
    ("--host-bytes", "1GiB", "--store", "always"): "--store: got 'always', expected write-through|write-back|at-eviction|none",
    ("--host-bytes", "1GiB", "--hit-interval", "512"): "--hit-interval: needs a --model with windows or chunks",
    # models whose layers differ
    ("--model", "gpt-oss-20b", "--hit-interval", "512"): "--hit-interval: needs a tier, and --store write-through or write-back",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--store", "at-eviction", "--hit-interval", "512"):
        "--hit-interval: needs a tier, and --store write-through or write-back",
    ("--host-bytes", "1GiB", "--model", "jamba-1.5-mini", "--hit-interval", "512"):
        "--hit-interval: --model jamba-1.5-mini has no windows or chunks",
    ("--host-bytes", "1GiB", "--model", "gemma-3-12b", "--hit-interval", "500"):
        "--hit-interval: got '500', expected a multiple of the 16 tokens of a page",
    ("--host-bytes", "6000000", "--model", "gemma-3-27b"): "--host-bytes: 6000000 bytes hold 4 pages of 1310720 bytes, expected at least 6",
    ("--disk", "DIR", "--disk-bytes", "10MiB", "--model", "gpt-oss-20b"): "hold 26 pages of 393216 bytes, expected at least 512",
    ("--disk-bytes", "1GiB", "--model", "gpt-oss-20b"): "--disk-bytes: needs --disk",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--compute", "attention"): "--compute attention: not with --host-bytes",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--verify"): "--verify: not with --host-bytes",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--partial", "4"): "--partial: not with --host-bytes",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--policy", "all"): "--policy all: not with --host-bytes",
    ("--host-bytes", "1GiB", "--model", "gpt-oss-20b", "--store", "at-eviction", "--gib", "0.02", "--spare-pages", "4096"):
        "--spare-pages: the pool has no 4096 pages of each kind to spare",
    ("--host-bytes", "1GiB", "--model", "jamba-1.5-mini", "--payload-bytes", "1073741824"): "GiB, this machine has",
    ("--host-bytes", "1GiB", "--store", "1"): "--store: got '1', expected write-through|",
    ("--disk", ""): "--disk: got '', expected a directory",
    ("--redis", ""): "--redis: got '', expected an address like redis://host:6379",
    ("--redis", "http://localhost"): "--redis: make_redis_tier: url",
    ("--redis", "redis://localhost:99999"): "--redis: make_redis_tier: url",
    ("--host-bytes", "1GiB", "--pages", "1"): "line 1",
}
SIZES = ("--host-bytes", "--disk-bytes", "--redis-bytes")
NO_SIZES = (*bad_input_test.NO_INTEGERS, "0", "5KB", "5 KiB", "5kib", "5KiBB", "KiB", "-5KiB", "1.5GiB", "1048577TiB", "9999999999999TiB",
            "1152921504606846977")


class TierBadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = self.path("trace.jsonl")
        with open(self.trace, "w", encoding="utf-8") as file:
            file.write(GOOD + "\n")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def expect_refusal(self, *options, words, code=2):
        outcome = tool.replay(TOOLS[0], self.trace, *options)
        if "this build has no hiredis" in outcome.err:
            self.skipTest(outcome.err)
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, code, outcome.err)
        for word in words:
            self.assertIn(word, outcome.err)
        return outcome

    def test_bad_options_are_named(self):
        for options, word in BAD_OPTIONS.items():
            with self.subTest(options=options):
                self.expect_refusal(*[self.path("tier") if option == "DIR" else option for option in options], words=[word])
                self.assertFalse(os.path.exists(self.path("tier")))

    def test_what_is_no_size_is_named_with_the_range(self):
        for option in SIZES:
            for word in NO_SIZES:
                with self.subTest(option=option, word=word[:40]):
                    self.expect_refusal(f"{option}={word}" if word else option, *([] if word else [word]), words=[
                        f"{option}: got '", "expected bytes from 1 to 1152921504606846976, as a number, or one with KiB, MiB, GiB or TiB"])

    def test_other_numbers_are_named_with_the_range(self):
        ranges = {"--payload-bytes": "an integer from 1 to 1073741824", "--load-deadline-ms": "an integer from 1 to 1099511627776",
                  "--min-hits": "an integer from 1 to 2147483647",
                  "--hit-interval": "an integer from 1 to 2147483647", "--host-gbps": "a number from 1e-06 to 1000000"}
        for option, expected in ranges.items():
            for word in ("", "0", "-1", "x", "nan", "inf", "1e300", 400 * "9"):
                with self.subTest(option=option, word=word[:40]):
                    self.expect_refusal("--host-bytes", "1GiB", f"{option}={word}" if word else option, *([] if word else [word]),
                                        words=[f"{option}: got '", "expected " + expected])

    def test_sizes_may_have_units(self):
        for word, pages in ((str(3 * PAGE_BYTES), 3), ("2048KiB", 1), ("5MiB", 2), ("1GiB", 512), ("1TiB", 524288), ("0001GiB", 512)):
            outcome = tool.replay(TOOLS[0], self.trace, "--host-bytes", word)
            self.assertEqual(outcome.code, 0, outcome.err)
            self.assertEqual(outcome.figures["tiers"]["below"][0]["room_pages"], pages)

    def test_more_payload_than_the_machine_has_memory_is_refused(self):
        self.expect_refusal("--pages", 1 << 20, "--host-bytes", "1GiB", "--payload-bytes", 1 << 30, words=["GiB, this machine has"])

    def disk(self, path):
        return ("--disk", path, "--disk-bytes", "1GiB")

    def test_a_directory_that_cannot_be_made_is_named(self):
        path = os.path.join(self.trace, "below")
        self.expect_refusal(*self.disk(path), words=["--disk: ", path])
        self.expect_refusal(*self.disk(self.trace), words=["--disk: ", self.trace])

    def test_a_directory_of_another_tier_is_refused(self):
        path = self.path("tier")
        self.assertEqual(tool.replay(TOOLS[0], self.trace, *self.disk(path)).code, 0)
        with open(os.path.join(path, "lock"), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.expect_refusal(*self.disk(path), words=["--disk: ", path])
        self.assertEqual(tool.replay(TOOLS[0], self.trace, *self.disk(path)).code, 0)

    def test_a_directory_of_a_newer_version_is_refused(self):
        path = self.path("tier")
        os.mkdir(path)
        with open(os.path.join(path, "format"), "wb") as file:
            file.write(b"folio disk tier 999\n" + bytes(32))
        self.expect_refusal(*self.disk(path), words=["--disk: ", path])

    def test_a_server_that_is_not_there_is_named_without_its_password(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody listens
            for url in (f"redis://secret-user:secret-word@127.0.0.1:{taken.getsockname()[1]}", f"unix://{self.path('no.socket')}"):
                outcome = self.expect_refusal("--redis", url, words=["--redis: no answer: "])
                self.assertNotIn("secret", outcome.err)


if __name__ == "__main__":
    tool.main()
