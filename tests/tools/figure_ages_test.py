# SPDX-License-Identifier: Apache-2.0
"""tests/tools/figure_ages_test.py: which figures are old, in repositories made here."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/figure_ages.py"
sys.path.insert(0, str(TOOL.parent))

import figure_ages  # noqa: E402

PAGES = {"speed.md": ["src/fast"]}
BOUND = 4
figure_ages.EARLY = 2


class FigureAges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "project"
        self.root.mkdir()
        self.git("init", "-q")
        self.measured = self.commit("src/fast/a.cpp", "first")

    def git(self, *arguments):
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", "-C", self.root, *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, name, text):
        self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-qm", text)
        return self.git("rev-parse", "--short=8", "HEAD")

    def pass_commits(self, count, name="notes.txt"):
        for i in range(count):
            self.commit(name, f"{name} {i}")

    def page(self, text=None):
        self.write("docs/speed.md", f"# Speed\n\n{text or f'3 ns at commit {self.measured}.'}\n")

    def breaches(self, mark=False):
        return [breach for _, breach in figure_ages.breaches(self.root, PAGES, BOUND, mark)]

    def test_a_young_figure_needs_no_word(self):
        self.page()
        self.pass_commits(BOUND, "src/fast/a.cpp")
        self.assertEqual(self.breaches(), [])

    def test_an_old_figure_has_to_say_so(self):
        self.page()
        self.pass_commits(BOUND + 1, "src/fast/a.cpp")
        self.assertIn(f"not measured since {self.measured}, and says nothing", self.breaches()[0])
        self.page(f"*Not measured since {self.measured}; the code has changed.*\n\n3 ns at commit {self.measured}.")
        self.assertEqual(self.breaches(), [])

    def test_a_figure_may_be_called_old_a_little_early(self):
        self.page(f"*Not measured since {self.measured}; the code has changed.*\n\n3 ns at commit {self.measured}.")
        self.pass_commits(4, "src/fast/a.cpp")
        self.assertEqual(self.breaches(), [])

    def test_code_that_has_not_changed_keeps_its_figures_young(self):
        self.page()
        self.pass_commits(BOUND + 5)
        self.assertEqual(self.breaches(), [])

    def test_every_old_commit_is_named(self):
        second = self.commit("src/fast/a.cpp", "second")
        self.pass_commits(BOUND + 1, "src/fast/a.cpp")
        text = f"3 ns at {self.measured}, 2 ns at {second}."
        self.page(f"*Not measured since {second}; the code has changed.*\n\n{text}")
        self.assertIn(f"not measured since {self.measured}, {second}, and says {second}", self.breaches()[0])

    def test_a_word_that_has_become_untrue_has_to_go(self):
        self.page(f"*Not measured since {self.measured}; the code has changed.*\n\n3 ns at commit {self.measured}.")
        self.assertIn(f"since nothing, and says {self.measured}", self.breaches()[0])

    def test_marks_come_and_go(self):
        self.page()
        self.pass_commits(BOUND + 1, "src/fast/a.cpp")
        unmarked = (self.root / "docs/speed.md").read_text()
        self.assertEqual(self.breaches(mark=True), [])
        marked = (self.root / "docs/speed.md").read_text()
        self.assertEqual(marked.split("\n")[2], f"*Not measured since {self.measured}; the code has changed.*")
        self.assertEqual(self.breaches(), [])
        now = self.git("rev-parse", "--short=8", "HEAD")
        self.write("docs/speed.md", marked.replace(f"commit {self.measured}", f"commit {now}"))
        self.breaches(mark=True)
        self.assertEqual((self.root / "docs/speed.md").read_text(), unmarked.replace(self.measured, now))

    def test_a_page_that_nobody_knows_is_found(self):
        self.page()
        self.write("docs/new.md", f"# New\n\n1 ns at {self.measured}\n")
        self.assertIn("PAGES does not say", self.breaches()[0])
        self.write("docs/new.md", "# New\n\n61194628 tokens, deadbeef and 0123456789 are no commits\n")
        self.assertEqual(self.breaches(), [])

    def test_records_are_of_their_day(self):
        self.page()
        self.write("docs/records/ladder.md", f"# Ladder\n\n9 ns at {self.measured}\n")
        self.assertEqual(self.breaches(), [])

    def test_code_that_is_gone_is_found(self):
        self.page()
        self.git("rm", "-rq", "src/fast")
        self.assertIn("PAGES: src/fast does not exist", self.breaches())

    def test_nothing_is_checked_where_there_is_no_history(self):
        self.page()
        self.pass_commits(2)
        shallow = self.root.parent / "shallow"
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{self.root}", shallow], check=True)
        bare = self.root.parent / "archive"
        bare.mkdir()
        for folder, why in ((shallow, "the clone is shallow"), (bare, "no clone of the project")):
            done = subprocess.run([sys.executable, TOOL, folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 77, done.stderr)
            self.assertIn(why, done.stdout)


if __name__ == "__main__":
    unittest.main()
