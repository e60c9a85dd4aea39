# SPDX-License-Identifier: Apache-2.0
"""tests/tools/step_test.py: .ci/step.py counts what a step compiles and tests, and fails where it failed, has grown or cannot know."""

import json
import os
import pathlib
import shutil
import tempfile
import time
import unittest
from unittest import mock

from script import run_script

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = "0\t1\t2\t{}\tabc\n"


class Step(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in (".ci", "build/a", "build/b/c"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(ROOT / ".ci/step.py", self.root / ".ci")
        self.kept = self.root / ".ci/steps.txt"
        self.done = self.root / "build/ci_steps.json"

    def run_it(self, *words, share=""):
        """(exit status, what it says)"""
        return run_script(self.root / ".ci/step.py", *words, CI_SHARE=share)

    def shell(self, script, name="some", **share):
        return self.run_it(name, "sh", "-c", script, **share)

    def log(self, folder, *outputs):
        """ninja's log, and the command that writes it."""
        text = "# ninja log v5\n" + "".join(map(LOG.format, outputs))
        (self.root / "log").write_text(text)
        return f"cp log build/{folder}/.ninja_log"

    def row(self, name="some"):
        return {key: value for key, value in json.loads(self.done.read_text())[name].items() if key in ("units", "tests")}

    def grow(self, units, tests, **options):
        """A step that does this much."""
        done = f"{self.log('a', *(f'{i}.o' for i in range(units)))}; echo '100% tests passed, 0 tests failed out of {tests}'"
        (self.root / "build/a/.ninja_log").unlink(missing_ok=True)
        return self.shell(done, **options)

    def assert_refused(self, result, *texts):
        status, said = result
        self.assertEqual(status, 2, said)
        self.assertTrue(said.splitlines()[-1].startswith(".ci/step.py: "), said)
        for text in texts:
            self.assertIn(text, said)

    def test_objects_and_tests_of_this_step_are_counted(self):
        self.shell(self.log("a", "x.o"), name="before")
        self.assertEqual(self.row("before"), {"units": 1, "tests": 0})
        ends = "99% tests passed, 1 tests failed out of 30", "===== 1 failed, 5 passed, 2 skipped in 0.10s =====", "7 passed by chance"
        echoes = "; ".join(f"echo '{end}'" for end in ends)
        status, said = self.shell(f"{self.log('a', 'x.o', 'y.o', 'y.o', 'l.a')}; cp log build/b/c/.ninja_log; {echoes} >&2")
        self.assertEqual((status, self.row()), (0, {"units": 3, "tests": 35}), said)
        self.assertIn("---- some: 0.0 min, 3 units compiled, 0 found in the cache, 35 tests\n", said)
        self.assertEqual(list(json.loads(self.done.read_text())), ["before", "some"])

    def test_what_the_command_says_is_said(self):
        status, said = self.shell("echo one; echo two >&2; printf '\\377 three'")
        self.assertEqual(status, 0)
        self.assertIn("one\ntwo\n\N{REPLACEMENT CHARACTER} three", said)

    def test_a_line_that_ninja_did_not_finish_is_none(self):
        self.assertEqual(self.shell(f"{self.log('a', 'x.o')}; printf '0\\t1' >> build/a/.ninja_log")[0], 0)
        self.assertEqual(self.row()["units"], 1)

    def test_a_step_fails_as_its_command_fails(self):
        self.kept.write_text("some 0 0\n")
        grown = "echo '0 tests failed out of 9'; "
        for script, reason in (("exit 3", "failed with status 3"), ("kill -KILL $$", "killed by signal 9")):
            status, said = self.shell(grown + script)
            self.assertEqual((status, said.splitlines()[-1]), (1, f"some: {reason}"))
            self.assertEqual(self.row(), {"units": 0, "tests": 9})

    def test_a_quarter_more_passes_and_one_beyond_does_not(self):
        self.kept.write_text("# of a clean clone\n\nother 1 1\nsome 4 100\n")
        for units, tests in ((4, 100), (5, 125), (0, 0)):
            self.assertEqual(self.grow(units, tests)[0], 0)
        for units, tests, reason in (
            (6, 100, "6 units compiled, 4 in"),
            (4, 126, "126 tests run, 100 in"),
            (6, 126, "6 units compiled, 4 in"),
        ):
            status, said = self.grow(units, tests)
            self.assertEqual(status, 1, said)
            self.assertTrue(said.splitlines()[-1].startswith(f"some: {reason} .ci/steps.txt: more than a quarter more"), said)
            self.assertEqual(self.grow(units, tests, share="all")[0], 0)

    def test_the_first_test_of_a_step_is_growth(self):
        self.kept.write_text("some 4 0\n")
        self.assertEqual(self.grow(4, 1)[0], 1)

    def test_a_step_that_nobody_has_kept_is_named(self):
        self.assertNotIn("steps.txt", self.grow(6, 11)[1])  # there is none at all
        self.kept.write_text("other 1 1\nsom 1 1\n")
        status, said = self.grow(6, 11)
        self.assertEqual(status, 0)
        self.assertIn("some: not in .ci/steps.txt", said)

    def test_a_malformed_list_is_refused_before_the_command_runs(self):
        for line in ("some", "some 1", "some 1 2 3", "some one 2", "some 1 -2", "some 1 2.5", " some 1 2", "good 3 4"):
            self.kept.write_text(f"# units tests\ngood 1 2\n{line}\n")
            self.assert_refused(self.shell("touch ran"), "steps.txt, line 3: expected a step's name, its units and its tests", repr(line))
        self.assertFalse((self.root / "ran").exists())

    def test_a_damaged_record_is_refused(self):
        self.done.write_text('{"some": ')
        for result in (self.shell("touch ran"), self.run_it("--table"), self.run_it("--keep")):
            self.assert_refused(result, "build/ci_steps.json: expected what .ci/step.py has written")
        self.assertFalse((self.root / "ran").exists())

    def test_a_command_that_is_not_there_is_refused(self):
        self.assert_refused(self.run_it("some", "no_such_program"), "some: expected a command that can be run, got 'no_such_program'")

    def test_other_arguments_are_refused(self):
        for words in ((), ("some",), ("--tabel",), ("--keep", "touch ran"), ("--cached",), ("--cached", "some"), ("--cached", "--table"), ("--by", "some", "true"), ("--by", "50", "some"), ("--by",), ("two words", "true"), ("#", "true"), ("", "true")):
            self.assert_refused(self.run_it(*words), "expected NAME COMMAND ..., --table or --keep, got", " ".join(words))
        self.assertEqual((self.done.exists(), self.kept.exists()), (False, False))

    def test_what_is_kept_is_what_has_run(self):
        self.grow(4, 8)
        self.shell("true", name="a-name-of-many-letters")
        self.assertEqual(self.run_it("--keep"), (0, ""))
        rows = [line.split() for line in self.kept.read_text().splitlines() if not line.startswith("#")]
        self.assertEqual(rows, [["some", "4", "8"], ["a-name-of-many-letters", "0", "0"]])
        self.done.unlink()
        self.grow(3, 8)
        self.run_it("--keep")
        self.assertEqual(self.kept.read_text().split()[-6:], ["some", "3", "8", "a-name-of-many-letters", "0", "0"])
        self.grow(4, 8)
        self.run_it("--keep")
        self.assertEqual([self.grow(4, 8)[0], self.grow(4, 11)[0]], [0, 1])

    def test_the_table_has_every_step(self):
        one = {"seconds": 90, "cpu_seconds": 150, "units": 4, "hits": 3, "tests": 8}
        two = {"seconds": 30, "cpu_seconds": 30, "units": 0, "hits": 0, "tests": 1}
        self.done.write_text(json.dumps({"one": one, "two": two}))
        status, said = self.run_it("--table")
        rows = ["step minutes of CPU units cached tests", "one 1.5 2.5 4 3 8", "two 0.5 0.5 0 0 1", "all 2.0 3.0"]
        self.assertEqual((status, [line.split() for line in said.splitlines()]), (0, [row.split() for row in rows]))

    def test_what_shall_come_from_the_cache_does(self):
        ccache = self.root / "ccache"
        ccache.write_text(f"#!/bin/sh\ncat {self.root}/stats\n")
        ccache.chmod(0o755)

        def compile_of(asked, hits):
            stats = "cache_miss\\t%d\\ndirect_cache_hit\\t%d\\npreprocessed_cache_hit\\t2\\n"
            (self.root / "stats").write_text("cache_miss\t7\ndirect_cache_hit\t9\npreprocessed_cache_hit\t2\n")
            with mock.patch.dict(os.environ, PATH=f"{self.root}:{os.environ['PATH']}"):
                return self.run_it("--cached", "some", "sh", "-c", f"printf '{stats}' {7 + asked - hits} {9 + hits} > stats")

        for asked, hits in ((0, 0), (4, 4), (4, 3)):
            status, said = compile_of(asked, hits)
            self.assertEqual(status, 0, said)
            self.assertIn(f"{hits} found in the cache", said)
        status, said = compile_of(4, 2)
        self.assertEqual(status, 1)
        self.assertIn("some: ccache had 2 of 4 units", said)

    def test_a_step_is_left_out_where_ci_is_late(self):
        def run_after(minutes, *words, share=""):
            with mock.patch.dict(os.environ, CI_BEGAN=str(int(time.time()) - 60 * minutes)):
                return self.run_it(*words, share=share)

        words = "--by", "50", "some", "sh", "-c", "echo ran; touch ran"
        status, said = run_after(52, *words)
        self.assertEqual((status, said), (0, "\n==== some: left out: CI is older than 50 minutes\n"))
        self.assertFalse((self.root / "ran").exists())
        self.grow(4, 8, name="other")
        self.assertEqual(self.run_it("--table")[1].splitlines()[1], "some           left out")
        self.run_it("--keep")
        self.assertNotIn("some", self.kept.read_text())
        for result in (run_after(48, *words), run_after(52, *words, share="all"), self.run_it(*words)):
            self.assertEqual(result[0], 0, result[1])
            self.assertIn("\nran\n", result[1])
        self.assertNotIn("left out", self.run_it("--table")[1])
        with mock.patch.dict(os.environ, CI_BEGAN="noon"):
            self.assert_refused(self.run_it(*words), "CI_BEGAN: expected seconds since 1970, got 'noon'")

    def test_nothing_that_ran_is_neither_shown_nor_kept(self):
        for option in ("--table", "--keep"):
            self.assert_refused(self.run_it(option), f"{option}: expected steps that have run, got none")
        self.assertFalse(self.kept.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
