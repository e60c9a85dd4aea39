# SPDX-License-Identifier: Apache-2.0
"""tests/tools/house_counts_test.py: tools/house_counts.py counts what it says, each once, and nothing that only looks like it."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests/tools"))

import house_counts  # noqa: E402
from script import run_script  # noqa: E402

TREE = {
    "src/pool/room.cpp": "if (groups.active()) a();\nif (group == 0 && state->groups.active()) b();\nif (group != 0) c();\n"
                         "if (groups == 0 || group == 01 || active()) d();\n",
    "src/pool/rooms/pool_state.h": "one\ntwo\nthree\n",
    "include/folio/pool/pool.h": "namespace folio::inline v1 {\nstruct Pool { int member(); };\nnamespace pool { struct Inner; }\n}\n",
    "include/folio/core/core.h": "namespace folio::inline v1 {\nstruct Pool;\nint free_function(int);\n}\n",
    "include/folio/c/core.h": "namespace folio::inline v1 {\nstruct OfC;\n}\n",
    "cli/main.cpp": "", "cli/load/trace.cpp": "", "cli/load/trace.h": "", "cli/page/page.html": "",
    "tests/a_test.cpp": "TEST(Suite, IsPascalCase) {}\nTEST_P(Suite, is_a_sentence) {}\nTEST_F(Suite, KVBuffer_is_one) {}\n"
                        "std::random_device device;\n",
    "clients/b_test.cpp": "TYPED_TEST(Suite, AlsoOne) {}\n",
    "docs/a.md": "three  words\nhere\n", "docs/more/b.md": "one\n",
    "README.md": "a\nb\n",
}
EXPECTED = {
    "pool: groups.active()": 2,
    "pool: comparisons of a group with 0": 2,
    "pool: lines of pool_state.h": 3,
    "cli: files in .": 1,
    "cli: files in load": 2,
    "names: flat in folio": 2,
    "tests: cases in PascalCase": 2,
    "tests: std::random_device": 1,
    "documents: words": 4,
    "documents: lines of README.md": 2,
}


class HouseCounts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in TREE.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def test_each_thing_is_counted_once_and_nothing_else(self):
        self.assertEqual({what: found for what, found, _ in house_counts.counts(self.root)}, EXPECTED)

    def test_names_are_those_of_the_flat_namespace(self):
        self.assertEqual(house_counts.flat_names(self.root), {"Pool", "free_function"})

    def test_the_report_has_a_line_for_each_count_and_its_goal(self):
        status, said = run_script(ROOT / "tools/house_counts.py", str(self.root))
        self.assertIn(status, (0, None))
        self.assertEqual(len(said.splitlines()), len(EXPECTED))
        self.assertIn("       2  pool: groups.active() (goal: at most 8)\n", said)
        self.assertIn("       4  documents: words\n", said)

    def test_what_cannot_be_read_is_an_error(self):
        (self.root / "README.md").unlink()
        with self.assertRaises(FileNotFoundError):
            house_counts.counts(self.root)


if __name__ == "__main__":
    unittest.main(verbosity=2)
