# SPDX-License-Identifier: Apache-2.0
"""tests/tools/show_skipped_test.py: tools/show_skipped.sh counts and names all that skipped itself in a run of ctest, and no more."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(planted NONE)
enable_testing()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include({root}/tests/support/expect.cmake)
folio_expect(whole COMMAND sh -c "echo first && echo no moon && exit 77" MAY_SKIP)
folio_expect(not_this_time COMMAND sh -c "echo skipped: says one that passes" MAY_SKIP)
add_test(NAME says_so COMMAND sh -c "echo skipped: says another")
add_test(NAME by_text COMMAND sh -c "echo no sun")
set_tests_properties(by_text PROPERTIES SKIP_REGULAR_EXPRESSION "no sun")
add_test(NAME google COMMAND cat ${{CMAKE_SOURCE_DIR}}/google)
add_test(NAME loud COMMAND Python3::Interpreter ${{CMAKE_SOURCE_DIR}}/unit.py -v)
add_test(NAME quiet COMMAND Python3::Interpreter ${{CMAKE_SOURCE_DIR}}/unit.py)
add_test(NAME fails COMMAND false)
"""
# As GoogleTest says it: what skips itself is named again at the end.
GOOGLE = """[ RUN      ] Suite.passes
some output
[       OK ] Suite.passes (0 ms)
[ RUN      ] Suite.skips
/a/b_test.cpp:12: Skipped
no stars here

[  SKIPPED ] Suite.skips (0 ms)
[ RUN      ] Suite/Each.skips/0
/a/b_test.cpp:14: Skipped


[  SKIPPED ] Suite/Each.skips/0 (12 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Suite.skips
[  SKIPPED ] Suite/Each.skips/0
"""
UNIT = """
import unittest
class Case(unittest.TestCase):
    def test_passes(self): pass
    @unittest.skip("no wind")
    def test_skips(self): pass
    def test_skips_itself(self): self.skipTest("no rain")
unittest.main()
"""


class ShowSkipped(unittest.TestCase):
    def test_every_kind_is_counted_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("CMakeLists.txt", PROJECT.format(root=ROOT)), ("google", GOOGLE), ("unit.py", UNIT)):
                (root / name).write_text(text)
            subprocess.run(["cmake", "-S", root, "-B", root / "build"], check=True, capture_output=True)
            subprocess.run(["ctest"], cwd=root / "build", check=False, capture_output=True)
            shown = subprocess.run([ROOT / "tools/show_skipped.sh", root / "build"], check=True, capture_output=True, text=True).stdout
        first, *lines = shown.splitlines()
        self.assertEqual(first, "8 tests skipped")
        expected = [
            "whole: no moon",
            "by_text: no sun",
            "google: Suite.skips: no stars here",
            "google: Suite/Each.skips/0",
            "loud: test_skips (__main__.Case): no wind",
            "loud: test_skips_itself (__main__.Case): no rain",
            "quiet: a case that does not say why",
            "quiet: a case that does not say why",
        ]
        # later Pythons name the function once more
        self.assertEqual([line.strip().replace("Case.test_skips_itself", "Case").replace("Case.test_skips", "Case") for line in lines],
                         expected)

    def test_where_nothing_ran_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ROOT / "tools/show_skipped.sh", folder], check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("expected a build folder in which ctest ran", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
