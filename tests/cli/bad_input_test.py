# SPDX-License-Identifier: Apache-2.0
"""tests/cli/bad_input_test.py TOOL: bad input is an error with file, line and reason: no crash, no large allocation, no long run."""

import os
import resource
import subprocess
import tempfile
import unittest

import tool

GOOD = '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}'
IDS = '"timestamp": 0, "output_length": 2, "hash_ids": [1, 2]'

# line -> words of the reason
BAD_LINES = {
    GOOD[:50]: "not a JSON object",
    GOOD + GOOD: "not a JSON object",
    "[" * 100_000: "the line nests 100000 brackets, expected at most 64",
    "[" * 65 + "]" * 65: "the line nests 65 brackets, expected at most 64",
    "[" * 64 + "]" * 64: "expected a JSON object, got array",
    '{"input_length": %s}' % ("[" * 520_000 + "]" * 520_000): "the line nests 520001 brackets",
    '{"x": %s}' % ('{"y": ' * 100_000 + "1" + "}" * 100_000): "the line nests 100001 brackets",
    '{"input_length": "%s"}' % ("[" * 100_000): 'input_length is "[[[[',
    '{"input_length": %s}' % ("[" * 60 + "]" * 60): "input_length is an array of 1, expected an integer from 1 to 16777216",
    '{"input_length": {"a": 1}}': "input_length is an object, expected an integer",
    '{"input_length": %s}' % ("9" * 100_000): "not a JSON object",
    "[1, 2]": "expected a JSON object",
    "17": "expected a JSON object",
    '"\\ud800"': "not a JSON object",
    "{}": '"input_length" is missing',
    '{"timestamp": 0, "input_length": 600, "output_length": 2}': '"hash_ids" is missing',
    '{"timestamp": 0, "input_length": 600, "hash_ids": [1, 2]}': '"output_length" is missing',
    '{"input_length": 600, "output_length": 2, "hash_ids": [1, 2]}': '"timestamp" is missing',
    '{"input_length": "600", %s}' % IDS: 'input_length is "600"',
    '{"input_length": 600.0, %s}' % IDS: "input_length is 600.0",
    '{"input_length": null, %s}' % IDS: "input_length is null",
    '{"input_length": true, %s}' % IDS: "input_length is true",
    '{"input_length": -600, %s}' % IDS: "input_length is -600",
    '{"input_length": 0, %s}' % IDS: "input_length is 0",
    '{"input_length": 1e300, %s}' % IDS: "input_length is 1e+300",
    '{"input_length": 18446744073709551615, %s}' % IDS: "input_length is 18446744073709551615",
    '{"input_length": 16777217, %s}' % IDS: "input_length is 16777217",
    '{"input_length": 16777216, "timestamp": 0, "output_length": 0, "hash_ids": [1]}': "hash_ids has 1 ids, expected 32768",
    '{"input_length": 512, %s}' % IDS: "hash_ids has 2 ids, expected 1",
    '{"input_length": 1025, %s}' % IDS: "hash_ids has 2 ids, expected 3",
    '{"timestamp": 0, "input_length": 600, "output_length": 16777216, "hash_ids": [1, 2]}': "output_length is 16777216",
    '{"timestamp": 0, "input_length": 600, "output_length": -1, "hash_ids": [1, 2]}': "output_length is -1",
    '{"timestamp": -1, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}': "timestamp is -1",
    '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": 1}': "hash_ids is no array",
    '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": {"1": 2}}': "hash_ids is no array",
    '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, "2"]}': 'hash_ids[1] is "2"',
    '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, -2]}': "hash_ids[1] is -2",
    '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [2147483647, 2]}': "hash_ids[0] is 2147483647",
    '{"x": "' + "y" * (1 << 22) + '"}': "longer than",
}

# The same behind a line of kvcache-simulator's form.
GOOD_BLOCKS = '{"block_size": 64, "hash_ids": [1, "two"], "input_length": 100}'
BAD_BLOCKS = {
    '{"block_size": 32, "hash_ids": [1, 2], "input_length": 64}': "block_size is 32, expected 64 as in line 1",
    '{"block_size": 0, "hash_ids": [1, 2], "input_length": 100}': "block_size is 0, expected an integer from 1 to 1048576",
    '{"block_size": -64, "hash_ids": [1, 2], "input_length": 100}': "block_size is -64, expected",
    '{"block_size": 64.0, "hash_ids": [1, 2], "input_length": 100}': "block_size is 64.0, expected",
    '{"block_size": "64", "hash_ids": [1, 2], "input_length": 100}': 'block_size is "64", expected',
    '{"block_size": 1048577, "hash_ids": [1, 2], "input_length": 100}': "block_size is 1048577, expected",
    '{"block_size": 64, "hash_ids": [1, 2, 3], "input_length": 100}': "hash_ids has 3 ids, expected 2 for an input_length of 100 at 64",
    '{"hash_ids": [1], "input_length": 100}': "hash_ids has 1 ids, expected 2 for an input_length of 100 at 64",
    '{"block_size": 64, "hash_ids": [1, 1.5], "input_length": 100}': "hash_ids[1] is 1.5, expected an integer of 64 bits or a string",
    '{"block_size": 64, "hash_ids": [1, 18446744073709551616], "input_length": 100}': "hash_ids[1] is 1.84",
    '{"block_size": 64, "hash_ids": [true, 1], "input_length": 100}': "hash_ids[0] is true, expected an integer",
    '{"block_size": 64, "hash_ids": [null, 1], "input_length": 100}': "hash_ids[0] is null, expected an integer",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "timestamp": -0.5}': "timestamp is -0.5, expected a number from 0",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "timestamp": "now"}': 'timestamp is "now", expected',
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "timestamp": 1e300}': "timestamp is 1e+300, expected",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "output_length": 1.5}': "output_length is 1.5, expected",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "block_tokens": 64}': "block_tokens is no array",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "block_tokens": [64]}': "block_tokens has 1 numbers, expected 2",
    '{"block_size": 64, "hash_ids": [1, 2], "input_length": 100, "block_tokens": [50, 50]}': "block_tokens[0] is 50, expected 64",
}

# options -> words of the message
BAD_OPTIONS = {
    ("--no-such-option",): "--no-such-option",
    ("surplus",): "surplus",
    ("--pages", "3"): "line 1",
    ("--pages", "2147483647", "--layers", "61", "--page-size", "1024"): "GiB",
    ("--q-heads", "9", "--kv-heads", "2"): "--q-heads",
    ("--head-size", "12"): "--head-size: got '12', expected a multiple of 8",
    ("--head-size", "64", "--mla", "--v-head-size", "12"): "--v-head-size: got '12', expected a multiple of 8",
    ("--head-size", "64", "--v-head-size", "32"): "--v-head-size: needs --mla",
    ("--head-size", "64", "--mla", "--v-head-size", "72"): "--v-head-size",
    ("--mla",): "--mla",
    ("--model", "gpt-2"): "--model: got 'gpt-2', expected llama-3-8b or deepseek-v3",
    ("--model", ""): "--model: got '', expected llama-3-8b or deepseek-v3",
    ("--kv-dtype", "i3"): "--kv-dtype: got 'i3', expected bf16|f16|f32|f8_e4m3|f8_e5m2|i8|i4|u4|f4_e2m1|i4_halves|u4_halves",
    ("--kv-dtype", "i4_halves", "--head-size", "48"): "--kv-dtype i4_halves: needs heads of a multiple of 32 elements, not 48",
    ("--scale-dtype", "i8", "--kv-dtype", "i4"): "--scale-dtype: got 'i8', expected f32|f16|bf16|f8_e4m3|f8_e8m0",
    ("--scale-dtype", "f32"): "--scale-dtype: needs a --kv-dtype of 8 or 4 bits",
    ("--granularity", "32"): "--granularity: needs a --kv-dtype of 8 or 4 bits",
    ("--zeros", "least", "--kv-dtype", "u4"): "--zeros: got 'least', expected none|patterns|minimum|in-scale",
    ("--zeros", "patterns", "--kv-dtype", "i4"): "--zeros: needs --kv-dtype u4 or u4_halves",
    ("--zeros", "in-scale", "--kv-dtype", "u4", "--scale-dtype", "f16"): "--zeros in-scale: needs --scale-dtype f32",
    ("--zeros", "minimum", "--kv-dtype", "u4", "--scale-dtype", "f8_e4m3"): "--zeros minimum: needs --scale-dtype f32, f16 or bf16",
    ("--hadamard", "48"): "--hadamard: got '48', expected 16|32|64|128|256|512",
    ("--hadamard", "256"): "--hadamard: got '256', expected a divisor of the 128 elements of a head",
    ("--hadamard", "64", "--head-size", "128", "--mla", "--v-head-size", "96"): "--hadamard: got '64', expected a divisor of the 96",
    ("--sign-seed", "3"): "--sign-seed: needs --hadamard",
    ("--model", "gpt-oss-20b", "--hadamard", "128"): "--hadamard: got '128', expected a divisor of the 64 elements of a head",
    ("--kv-dtype", "3"): "--kv-dtype: got '3', expected bf16|",
    ("--kv-dtype", ""): "--kv-dtype: got '', expected bf16|",
    ("--policy", "mru"): "--policy: got 'mru', expected lru|s3-fifo|lfu|",
    ("--policy", "0"): "--policy: got '0', expected lru|",
    ("--policy", ""): "--policy: got '', expected lru|",
    ("--policy", "all"): "--policy all: needs --page-per-block",
    ("--policy", "all", "--page-per-block"): "--sequential",
    ("--policy", "all", "--page-per-block", "--sequential", "--compute", "none", "--pages", "1"): "line 1",
    ("--compute", "some"): "--compute: got 'some', expected attention|none",
    ("--compute", "1"): "--compute: got '1', expected attention|none",
    ("--json", ""): "--json: got '', expected the name of a file",
    ("--mla=no",): "mla was given a",
    ("--verify=2",): "verify was given a",
    ("--seed", "1", "--seed", "2"): "--seed",
    ("--pages", "2147483647", "--layers", "1024", "--q-heads", "1024", "--kv-heads", "1024", "--head-size", "576",
     "--page-size", "1048576", "--max-batch", "4096", "--step-tokens", "1048576", "--threads", "4096"): "GiB",
    ("--step-tokens", "1048576", "--max-batch", "4096", "--q-heads", "1024", "--head-size", "576"): "GiB",
    ("--verify", "--compute", "none"): "--verify",
    ("--page-per-block", "--compute", "none"): "--sequential",
    ("--page-per-block", "--sequential"): "--compute none",
    ("--page-per-block", "--sequential", "--compute", "none", "--pages", "1"): "line 1",
}

# option -> (least, most): every other word is refused, and named with this range
INTEGERS = {
    "--limit": (1, 1099511627776),
    "--layers": (1, 1024),
    "--q-heads": (1, 1024),
    "--kv-heads": (1, 1024),
    "--head-size": (8, 576),
    "--v-head-size": (8, 576),
    "--pages": (1, 2147483647),
    "--page-size": (1, 1048576),
    "--granularity": (1, 1048576),
    "--sign-seed": (0, 4294967295),
    "--max-batch": (1, 4096),
    "--step-tokens": (1, 1048576),
    "--threads": (1, 4096),
    "--seed": (0, 18446744073709551615),
}
NO_INTEGERS = ("", " ", "many", "5x", "x5", " 5", "5 ", "+5", "0x10", "1e1", "5.0", "5,0", "nan", "inf", "-inf", "-", "--", "5\n",
               "-1", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" + 22 * "0", 10_000 * "9", "\xff")
NO_SHARES = ("", " ", "x", "0.5x", " 0.5", "0,5", "nan", "-nan", "inf", "-inf", "1e400", "-1e-400", "1.0000001", "-0.1", "0x1p-1",
             "9" * 400)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace_of(self, *lines):
        path = os.path.join(self.folder.name, "trace.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def expect_refusal(self, outcome, *words):
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, 2, outcome.err)
        for word in words:
            self.assertIn(word, outcome.err)

    def test_a_bad_line_is_named_with_its_reason(self):
        for line, reason in BAD_LINES.items():
            with self.subTest(line=line[:100]):
                trace = self.trace_of(GOOD, "", line, GOOD)
                self.expect_refusal(tool.replay(TOOLS[0], trace, "--compute", "none"), f"{trace}:3: ", reason)

    def test_a_bad_line_of_blocks_is_named_with_its_reason(self):
        for line, reason in BAD_BLOCKS.items():
            with self.subTest(line=line):
                trace = self.trace_of(GOOD_BLOCKS, "", line, GOOD_BLOCKS)
                self.expect_refusal(tool.replay(TOOLS[0], trace, "--compute", "none"), f"{trace}:3: ", reason)

    def test_a_block_size_behind_lines_without_is_that_of_these_lines(self):
        trace = self.trace_of(GOOD, '{"timestamp": 0, "input_length": 64, "output_length": 2, "hash_ids": [1], "block_size": 64}')
        self.expect_refusal(tool.replay(TOOLS[0], trace, "--compute", "none"), f"{trace}:2: ",
                            "block_size is 64, expected 512 as in line 1, which has none")

    def test_bytes_that_are_no_text_are_refused(self):
        trace = os.path.join(self.folder.name, "bytes.jsonl")
        for content in (b"\xff\xfe\x00\x00", b"\x00", GOOD.encode() + b"\x00", b'{"timestamp": "\xff"}', bytes(range(256)) * 100):
            with self.subTest(content=content[:40]):
                with open(trace, "wb") as file:
                    file.write(content)
                self.expect_refusal(tool.replay(TOOLS[0], trace, "--compute", "none"), f"{trace}:1: ")

    def test_lines_behind_the_limit_are_not_read(self):
        trace = self.trace_of(GOOD, "{")
        self.assertEqual(tool.replay(TOOLS[0], trace, "--compute", "none", "--limit", 1).code, 0)

    def test_windows_line_ends_and_a_missing_last_one_are_fine(self):
        trace = os.path.join(self.folder.name, "dos.jsonl")
        with open(trace, "wb") as file:
            file.write((GOOD + "\r\n\r\n" + GOOD).encode())
        outcome = tool.replay(TOOLS[0], trace, "--compute", "none")
        self.assertEqual((outcome.code, outcome.figures["requests"]), (0, 2))

    def test_a_trace_that_cannot_be_read_is_named(self):
        absent = os.path.join(self.folder.name, "absent.jsonl")
        self.expect_refusal(tool.replay(TOOLS[0], absent), absent)
        self.expect_refusal(tool.replay(TOOLS[0], ""), "trace: got '', expected the name of a file")
        self.expect_refusal(tool.replay(TOOLS[0], self.folder.name), self.folder.name)
        self.expect_refusal(tool.replay(TOOLS[0], self.trace_of("", "")), "no requests")

    def test_bad_options_are_named(self):
        trace = self.trace_of(GOOD)
        for options, word in BAD_OPTIONS.items():
            with self.subTest(options=options):
                self.expect_refusal(tool.replay(TOOLS[0], trace, *options), word)

    def test_what_is_no_integer_in_range_is_named_with_the_range(self):
        trace = self.trace_of(GOOD)
        for option, (least, most) in INTEGERS.items():
            for word in (*NO_INTEGERS, str(least - 1), str(most + 1)):
                with self.subTest(option=option, word=word[:40]):
                    shown = "".join(c if " " <= c <= "~" else "?" for c in word.encode().decode("latin-1"))
                    shown = shown if len(shown) <= 40 else shown[:40] + "..."
                    self.expect_refusal(tool.replay(TOOLS[0], trace, f"{option}={word}" if word else option, *([] if word else [word])),
                                        f"{option}: got '{shown}', expected an integer from {least} to {most}")

    def test_what_is_no_share_is_named_with_the_range(self):
        trace = self.trace_of(GOOD)
        for word in NO_SHARES:
            with self.subTest(word=word[:40]):
                self.expect_refusal(tool.replay(TOOLS[0], trace, "--verify-share", word),
                                    "--verify-share: got '", "expected a number from 0 to 1")

    def test_the_ends_of_the_ranges_are_taken(self):
        trace = self.trace_of(GOOD)
        for options in (("--seed", 0), ("--seed", 2**64 - 1), ("--seed", "007"), ("--limit", 1), ("--limit", 2**40), ("--page-size", 1),
                        ("--page-size", 2**20), ("--max-batch", 4096), ("--step-tokens", 2**20), ("--threads", 4096),
                        ("--verify-share", 0), ("--verify-share", 1), ("--verify-share", "1e-300")):
            with self.subTest(options=options):
                outcome = tool.replay(TOOLS[0], trace, "--compute", "none", *options)
                self.assertEqual(outcome.code, 0, outcome.err)

    def test_no_command_and_an_unknown_command_are_errors(self):
        for arguments in ([], ["play"], ["replay"]):
            with self.subTest(arguments=arguments):
                done = subprocess.run([TOOLS[0], *arguments], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_json_file_that_cannot_be_written_is_refused_before_the_run(self):
        # 16 requests of 16 million tokens: the run would take days.
        ids = list(range(32767))
        trace = tool.write_trace(os.path.join(self.folder.name, "long.jsonl"), [tool.request(ids, 32767 * 512)] * 16)
        path = os.path.join(self.folder.name, "no", "such", "folder.json")
        options = ("--layers", 1, "--q-heads", 1, "--kv-heads", 1, "--head-size", 8)
        self.expect_refusal(tool.replay(TOOLS[0], trace, *options, json_path=path), "--json", path)
        self.expect_refusal(tool.replay(TOOLS[0], trace, *options, json_path=self.folder.name), "--json")

    def test_figures_do_not_overwrite_the_trace(self):
        trace = self.trace_of(GOOD)
        with open(trace, encoding="utf-8") as file:
            before = file.read()
        hard, soft = (os.path.join(self.folder.name, name) for name in ("hard.jsonl", "soft.jsonl"))
        os.link(trace, hard)
        os.symlink(trace, soft)
        around = os.path.join(self.folder.name, "..", os.path.basename(self.folder.name), "trace.jsonl")
        for path in (trace, hard, soft, around):
            with self.subTest(path=path):
                self.expect_refusal(tool.replay(TOOLS[0], trace, "--compute", "none", json_path=path), f"--json: {path} is the trace",
                                    "expected another file")
                with open(trace, encoding="utf-8") as file:
                    self.assertEqual(file.read(), before)
        other = os.path.join(self.folder.name, "other.json")
        with open(other, "w", encoding="utf-8") as file:
            file.write("older figures")
        self.assertEqual(tool.replay(TOOLS[0], trace, "--compute", "none", json_path=other).figures["requests"], 1)

    def test_a_full_disk_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("this system has no /dev/full")
        self.expect_refusal(tool.replay(TOOLS[0], self.trace_of(GOOD), "--compute", "none", json_path="/dev/full"), "--json")

    def test_refusals_take_little_memory(self):
        # The largest child of this program so far; only refusals and tiny runs have happened.
        self.test_bad_options_are_named()
        self.test_a_bad_line_is_named_with_its_reason()
        kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(kib, 512 * 1024)


if __name__ == "__main__":
    tool.main()
