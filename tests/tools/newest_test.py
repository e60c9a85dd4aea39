#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/tools/newest_test.py: tools/newest.sh lets pass what is served or refused by name, says why the rest fails, and takes an older
release only where the newest cannot be installed. Packages, releases and what serves them are the test's own.
"""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import newest  # noqa: E402


def outcome(answers):
    """What serves a package: version -> words, or the exception that it raises."""

    def serve(package, version):
        answer = answers[version]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return serve


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patches = contextlib.ExitStack()
        self.addCleanup(patches.close)
        patches.enter_context(mock.patch.object(newest, "SCRATCH", pathlib.Path(folder.name)))

    def table(self, packages, *arguments):
        """(exit status, lines) for packages whose releases are 3.0, 2.0, 1.0 and 0.9"""
        said = io.StringIO()
        with mock.patch.object(newest, "PACKAGES", packages), mock.patch.object(sys, "argv", ["newest.sh", *arguments]), \
                mock.patch.object(newest, "releases", lambda package: ["3.0", "2.0", "1.0", "0.9"]), contextlib.redirect_stdout(said), \
                contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            newest.main()
        return end.exception.code, said.getvalue().splitlines()

    def run_with(self, answers, *arguments):
        """(exit status, the last line, which is the row) for one package"""
        status, lines = self.table([newest.Package("one", outcome(answers), "numpy")], *arguments)
        return status, lines[-1]

    def test_what_is_served_or_refused_by_name_passes(self):
        for words in ("served whole (3 passed)", "in part: FolioCache is refused: it lacks x", "refused: too old"):
            self.assertEqual(self.run_with({"3.0": words}), (0, f"| one | 3.0 | {words} |"))

    def test_what_fails_is_named_and_the_status_says_so(self):
        status, row = self.run_with({"3.0": newest.Failed("2 tests fail, test_a")})
        self.assertEqual((status, row), (1, "| one | 3.0 | FAILS: 2 tests fail, test_a |"))

    def test_an_older_release_is_tried_where_the_newest_cannot_be_installed(self):
        why = newest.NotInstallable("no two==3.0")
        status, row = self.run_with({"3.0": why, "2.0": "served whole"})
        self.assertEqual((status, row), (0, "| one | 3.0 | not installable here: no two==3.0; 2.0: served whole |"))
        status, row = self.run_with({"3.0": why, "2.0": newest.NotInstallable("no two==2.0"), "1.0": newest.NotInstallable("none")})
        self.assertEqual((status, row), (1, "| one | 3.0 | FAILS: not installable here: no two==3.0 |"))
        status, row = self.run_with({"3.0": why, "2.0": newest.Failed("test_a")})
        self.assertEqual((status, row), (1, "| one | 3.0 | FAILS: not installable here: no two==3.0; 2.0: test_a |"))

    def test_whatever_fails_in_one_row_the_others_have_theirs(self):
        for failure, words in (
            (ValueError("no\nJSON | here"), "ValueError: no JSON / here"),
            (SystemExit(4), "tools/engines.py ends with status 4, its words are above"),
        ):
            other = newest.Package("other", outcome({"3.0": "served whole"}), "numpy")
            status, rows = self.table([newest.Package("one", outcome({"3.0": failure}), "numpy"), other])
            self.assertEqual((status, rows[-2:]), (1, [f"| one | 3.0 | FAILS: {words} |", "| other | 3.0 | served whole |"]))

    def test_an_unknown_package_is_refused(self):
        status, words = self.run_with({}, "two")
        self.assertEqual(status, 2)
        self.assertIn("PACKAGE: expected some of one, got 'two'", words)

    def test_capabilities_become_words(self):
        self.assertEqual(newest.verdict({}, 2), "served whole")
        self.assertEqual(newest.verdict({"a": "it lacks x"}, 2), "in part: a is refused: it lacks x")
        self.assertEqual(newest.verdict({"a": "too old", "b": "too old"}, 2), "refused: too old")


if __name__ == "__main__":
    unittest.main()
