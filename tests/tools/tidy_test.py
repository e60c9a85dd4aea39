# SPDX-License-Identifier: Apache-2.0
"""tests/tools/tidy_test.py: the shares of tools/tidy.py are all sources together, changed ones are in each, and what a stand-in of
clang-tidy says is said and fails."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from script import run_script

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

# Writes down the sources that it is given, one by one or in a source that includes them.
STAND_IN = r"""#!/bin/sh
case $2 in
  */build/tidy/units/*) unit=$(cat "$2") ;;
  *) unit="#include \"$2\"" ;;
esac
echo "$unit" >> "$0.seen/$$"
case $unit in *FAULTY*) echo "SAYS"; exit 1 ;; esac
"""
SOURCES = [*(f"src/a/{i}.cpp" for i in range(5)), "src/b/0.cpp", "src/b/1.cpp", "cli/0.cpp", "cli/main.cpp", "bench/0.cpp"]
OTHERS = ["tests/0.cpp", "src/a/0.h"]  # nobody asks for these


class Tidy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.committed = pathlib.Path(folder.name) / "tree"
        for name in ("src/a", "src/b", "cli", "bench", "tests", "tools", "build/tidy", "bin/clang-tidy-16.seen"):
            (cls.committed / name).mkdir(parents=True)
        shutil.copy(ROOT / "tools/tidy.py", cls.committed / "tools")
        for name in (*SOURCES, *OTHERS):
            (cls.committed / name).touch()
        cls.git(cls.committed, "init", "--quiet", "--template=")
        cls.commit(cls.committed, "2001-01-01T00:00:00Z")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "tree"
        shutil.copytree(self.committed, self.root)
        self.stand_in("none", "")
        self.compiled(SOURCES)

    @staticmethod
    def git(root, *words, **environment):
        who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        none = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", *words], cwd=root, env={**os.environ, **who, **none, **environment}, check=True)

    @classmethod
    def commit(cls, root, date=None):
        cls.git(root, "add", *SOURCES, *OTHERS)
        cls.git(root, "commit", "--quiet", "--message=x", **({"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}))

    def compiled(self, sources):
        """These are what the build compiles."""
        rows = [{"file": str(self.root / source), "command": f"c++ -Iinclude -o {source}.o -c {self.root / source}"} for source in sources]
        (self.root / "build/tidy/compile_commands.json").write_text(json.dumps(rows))

    def stand_in(self, faulty, says):
        """A clang-tidy that says this of one source."""
        tool = self.root / "bin/clang-tidy-16"
        tool.write_text(STAND_IN.replace("FAULTY", faulty).replace("SAYS", says))
        tool.chmod(0o755)

    def run_it(self, *words):
        """(exit status, what it says, the sources that clang-tidy was given)"""
        folder = self.root / "bin/clang-tidy-16.seen"  # a file of each process
        for file in folder.iterdir():
            file.unlink()
        path = f"{self.root}/bin:{os.environ['PATH']}"
        status, said = run_script(self.root / "tools/tidy.py", *words, PATH=path)
        seen = re.findall(r'^#include "(.*?)"', "".join(file.read_text() for file in folder.iterdir()), re.MULTILINE)
        return status, said, sorted(str(pathlib.Path(path).relative_to(self.root)) for path in seen)

    def shares(self, parts):
        """The sources of each share."""
        found = []
        for part in range(parts):
            status, said, seen = self.run_it("--share", f"{part}/{parts}")
            self.assertEqual(status, 0, said)
            found.append(seen)
        return found

    def test_without_a_share_every_source_is_looked_at_once(self):
        self.assertEqual(self.run_it(), (0, "tidy: 10 sources in 4 groups\n", sorted(SOURCES)))

    def test_shares_together_are_every_source_once(self):
        for parts in (1, 3):
            shares = self.shares(parts)
            self.assertEqual(sorted(sum(shares, [])), sorted(SOURCES))
            self.assertLessEqual(max(map(len, shares)) - min(map(len, shares)), 1)

    def test_a_share_without_a_source_passes(self):
        self.assertEqual(self.run_it("--share", "10/11"), (0, "tidy: 0 sources in 0 groups\n", []))

    def test_what_has_just_changed_is_in_every_share(self):
        changed = SOURCES[3]
        for name in (changed, OTHERS[0]):
            (self.root / name).write_text("// changed\n")
        self.commit(self.root)
        shares = self.shares(2)
        self.assertTrue(all(changed in share for share in shares))
        self.assertEqual(sorted([*SOURCES, changed]), sorted(sum(shares, [])))

    def test_what_the_build_does_not_compile_is_left_out(self):
        self.compiled(SOURCES[1:])
        self.assertEqual(self.run_it()[2], sorted(SOURCES[1:]))
        self.compiled(OTHERS)
        status, said, seen = self.run_it()
        self.assertEqual((status, seen), (1, []))
        self.assertIn("compile_commands.json has no source of", said)

    def test_other_shares_are_refused(self):
        for share in ("3/3", "4/3", "0/0", "-1/3", "1", "1/", "/3", "1/2/3", "a/b", "1.0/3", "", "1 /3", "1_0/20", "\N{SUPERSCRIPT ONE}/3"):
            status, said, seen = self.run_it(f"--share={share}")
            self.assertEqual((status, seen), (2, []), said)
            self.assertIn(f"argument --share: expected K/N with 0 <= K < N, got {share!r}\n", said)

    def test_a_folder_without_commands_is_refused(self):
        status, said, seen = self.run_it(str(self.root / "src"))
        self.assertEqual((status, seen), (2, []))
        self.assertIn(f"tidy: no {self.root}/src/compile_commands.json; expected a configured build folder", said)

    def test_what_clang_tidy_finds_is_said_and_fails(self):
        self.stand_in(SOURCES[3], "a warning")
        status, said, seen = self.run_it()
        self.assertEqual((status, seen), (1, sorted(SOURCES)))
        self.assertEqual(said.count("a warning\n"), 1)

    def test_sources_that_do_not_compile_together_are_looked_at_in_halves(self):
        self.stand_in(SOURCES[3], "error: [clang-diagnostic-error]")
        status, said, seen = self.run_it("--share=0/1")
        self.assertEqual((status, said.count("error: ")), (1, 1))
        # Five of its folder, then two and three, one and two, one and one; the other folders' five stay together.
        self.assertEqual([seen.count(source) for source in SOURCES], [2, 2, 3, 4, 4, 1, 1, 1, 1, 1])

    def test_a_tool_that_ends_without_a_word_fails(self):
        (self.root / "bin/clang-tidy-16").write_text("#!/bin/sh\nexit 3\n")
        status, said, _ = self.run_it()
        self.assertEqual((status, said.count("tidy: clang-tidy-16 ended with 3 at ")), (1, 4))


if __name__ == "__main__":
    unittest.main(verbosity=2)
