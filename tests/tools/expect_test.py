# SPDX-License-Identifier: Apache-2.0
"""tests/tools/expect_test.py: tests/support/expect.py fails for a wrong status as for a wrong text, and CMake's folio_expect with it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPECT = ROOT / "tests/support/expect.py"

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(planted NONE)
enable_testing()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include({root}/tests/support/expect.cmake)
folio_expect(right COMMAND sh -c "echo one && echo two && exit 3" STATUS 3 SAYS "one.*two" NEVER_SAYS three "fo+r")
folio_expect(wrong_status COMMAND sh -c "echo one && exit 1" SAYS one)
folio_expect(wrong_text COMMAND sh -c "echo two" SAYS one)
folio_expect(forbidden_text COMMAND sh -c "echo one, foor" SAYS one NEVER_SAYS three "fo+r")
folio_expect(crash COMMAND sh -c "echo one && kill -SEGV $$" STATUS 1 SAYS one)
folio_expect(gone COMMAND no_such_program STATUS 1)
folio_expect(skips COMMAND sh -c "echo skipped: no moon && exit 77" MAY_SKIP)
folio_expect(may_not_skip COMMAND sh -c "exit 77")
"""


class Expect(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run([sys.executable, EXPECT, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_the_status_and_the_text_must_be_right(self):
        says = ["--says", "a.*b", "--", "sh", "-c"]
        self.assertEqual(self.run_it(*says, "echo a; echo b"), (0, "a\nb\n"))
        code, text = self.run_it(*says, "echo a; echo b; exit 1")
        self.assertEqual((code, text.splitlines()[-1]), (1, "expect.py: it ended with status 1, expected status 0"))
        code, text = self.run_it(*says, "echo a")
        self.assertEqual((code, text.splitlines()[-1]), (1, "expect.py: it did not say a.*b"))

    def test_both_streams_are_heard(self):
        self.assertEqual(self.run_it("--says", "^a$", "--", "sh", "-c", "echo a >&2")[0], 0)

    def test_a_signal_is_no_status(self):
        code, text = self.run_it("--status", "1", "--", "sh", "-c", "kill -SEGV $$")
        self.assertEqual(code, 1)
        self.assertIn("by signal 11, expected status 1", text)

    def test_arguments_behind_the_first_dashes_are_the_commands(self):
        self.assertEqual(self.run_it("--", "echo", "--", "--says")[1], "-- --says\n")
        self.assertEqual(self.run_it("--says", "x")[0], 2)

    def test_a_skip_says_why(self):
        for said, why in (("no moon", "no moon"), ("skipped: no moon", "no moon"), ("", "it does not say why")):
            code, text = self.run_it("--may-skip", "--", "sh", "-c", f"echo first; echo '{said}'; exit 77" if said else "exit 77")
            self.assertEqual((code, text.splitlines()[-1]), (77, f"expect.py: skipped: {why}"))

    def test_tests_of_ctest_fail_as_they_should(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))
            subprocess.run(["cmake", "-S", root, "-B", root / "build"], check=True, capture_output=True)
            done = subprocess.run(["ctest"], cwd=root / "build", check=False, capture_output=True, text=True)
            failed = (root / "build/Testing/Temporary/LastTestsFailed.log").read_text().split()
            self.assertEqual({line.split(":")[1] for line in failed},
                             {"wrong_status", "wrong_text", "forbidden_text", "crash", "gone", "may_not_skip"}, done.stdout)
            self.assertIn("skips (Skipped)", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
