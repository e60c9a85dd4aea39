# SPDX-License-Identifier: Apache-2.0
"""tests/cli/cache_test.py TOOL MAKER: `folio cache` shows, checks and compacts directories that MAKER's disk tier has written."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.directory = os.path.join(self.folder.name, "cache")

    def make(self, *arguments):
        """MAKER: store FIRST END, drop FIRST END, expect FIRST END (all of these and no others up to 1000)."""
        subprocess.run([MAKER, self.directory, *map(str, arguments)], check=True, timeout=600)

    def run_tool(self, command, *options, directory=None):
        path = os.path.join(self.folder.name, "figures.json")
        if os.path.exists(path):
            os.remove(path)
        line = [TOOL, "cache", command, directory or self.directory, "--json", path, *map(str, options)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
        figures = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                figures = json.load(file)
        return done, figures

    def segments(self):
        return sorted(name for name in os.listdir(self.directory) if name.endswith(".pages"))

    def test_ls_shows_what_is_there(self):
        self.make("store", 0, 40)
        self.make("drop", 10, 20)
        done, listing = self.run_tool("ls", "--names")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(listing["pages"]), 30)
        numbers = {int.from_bytes(bytes.fromhex(page["name"])[:4], "little") for page in listing["pages"]}
        self.assertEqual(numbers, set(range(10)) | set(range(20, 40)))
        self.assertEqual(listing["bytes"], sum(os.path.getsize(os.path.join(self.directory, name)) for name in self.segments()))
        self.assertLess(listing["live_bytes"], listing["bytes"])
        self.assertIn("30 pages in", done.stdout)
        for page in listing["pages"]:
            self.assertIn(page["name"], done.stdout)
            self.assertEqual(page["bytes"], 60000)
        self.assertEqual(sum(segment["pages"] for segment in listing["segments"]), 30)

    def test_check_counts_and_changes_nothing(self):
        self.make("store", 0, 40)
        self.make("drop", 0, 5)
        before = {name: os.path.getsize(os.path.join(self.directory, name)) for name in self.segments()}
        done, check = self.run_tool("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({k: check[k] for k in ("sound", "pages", "corrupt", "damaged", "unreadable", "unfinished", "dropped")},
                         {"sound": True, "pages": 35, "corrupt": 0, "damaged": 0, "unreadable": 0, "unfinished": 0, "dropped": 5})
        self.assertEqual(before, {name: os.path.getsize(os.path.join(self.directory, name)) for name in self.segments()})

    def test_check_finds_each_bit_that_changed(self):
        self.make("store", 0, 10)
        _, listing = self.run_tool("ls")
        seed = random.randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        rng = random.Random(seed)
        for _ in range(20):
            page = rng.choice(listing["pages"])
            path = os.path.join(self.directory, f"{page['segment']}.pages")
            at = page["offset"] + rng.randrange(192 + page["bytes"])
            with open(path, "r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << rng.randrange(8)]))
            done, check = self.run_tool("check")
            self.assertEqual(done.returncode, 1, (seed, at, done.stdout))
            self.assertEqual((check["pages"], check["corrupt"] + check["damaged"]), (9, 1))
            self.assertIn(path, done.stdout)
            self.assertIn("is damaged", done.stderr)
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([byte]))
        self.assertEqual(self.run_tool("check")[0].returncode, 0)

    def test_compact_keeps_what_lives_and_nothing_else(self):
        for first in range(0, 60, 12):
            self.make("store", first, first + 12)
        self.make("drop", 10, 50)
        done, figures = self.run_tool("compact", "--segment-mib", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((figures["pages"], figures["lost"]), (20, 0))
        _, listing = self.run_tool("ls")
        self.assertEqual(listing["bytes"], figures["bytes_after"])
        self.assertEqual(listing["bytes"], listing["live_bytes"])
        self.assertLess(figures["bytes_after"], figures["bytes_before"] / 2)
        self.make("expect", 0, 10, 50, 60)
        names = self.segments()
        done, figures = self.run_tool("compact", "--segment-mib", 1)
        self.assertEqual(self.run_tool("check")[1]["pages"], 20)
        self.assertLessEqual(len(self.segments()), len(names))

    def test_compact_drops_what_is_corrupt_and_says_so(self):
        self.make("store", 0, 10)
        _, listing = self.run_tool("ls")
        page = listing["pages"][3]
        with open(os.path.join(self.directory, f"{page['segment']}.pages"), "r+b") as file:
            file.seek(page["offset"] + 5000)
            file.write(b"damage")
        self.make("drop", 0, 1)
        done, figures = self.run_tool("compact")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((figures["pages"], figures["lost"]), (8, 1))
        self.assertEqual(self.run_tool("check")[0].returncode, 0)

    def test_a_directory_in_use_is_refused(self):
        self.make("store", 0, 3)
        with subprocess.Popen([MAKER, self.directory, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            self.assertEqual(holder.stdout.read(5), b"held\n")
            for command in ("ls", "check", "compact"):
                done, _ = self.run_tool(command)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{self.directory} belongs to another", done.stderr)
            holder.stdin.close()
        self.assertEqual(self.run_tool("ls")[0].returncode, 0)

    def test_other_directories_are_refused_and_left_as_they_are(self):
        foreign = os.path.join(self.folder.name, "foreign")
        os.mkdir(foreign)
        with open(os.path.join(foreign, "1.pages"), "w", encoding="utf-8") as file:
            file.write("mine")
        newer = os.path.join(self.folder.name, "newer")
        self.make("store", 0, 3)
        shutil.copytree(self.directory, newer)
        with open(os.path.join(newer, "format"), "wb") as file:
            file.write(b"folio disk tier 2\n" + b"x" * 32)
        file_path = os.path.join(self.folder.name, "file")
        shutil.copy(os.path.join(self.directory, "format"), file_path)
        for directory, words in {foreign: "is no directory of a disk tier", newer: "is of version 2, expected 1",
                                 file_path: "cannot open", os.path.join(self.folder.name, "absent"): "cannot open"}.items():
            for command in ("ls", "check", "compact"):
                done, figures = self.run_tool(command, directory=directory)
                self.assertEqual(done.returncode, 2, (directory, done.stdout))
                self.assertIn(words, done.stderr)
                self.assertIn(directory, done.stderr)
                self.assertIsNone(figures)
        self.assertEqual(os.listdir(foreign), ["1.pages"])

    def test_bad_options_are_named(self):
        for options, words in {("ls", "--segment-mib", "1"): "--segment-mib", ("compact", "--segment-mib", "0"): "got '0'",
                               ("compact", "--segment-mib", "9999999999"): "--segment-mib", ("ls", "--json", ""): "--json: got ''",
                               ("fix",): "A subcommand is required", (): "subcommand"}.items():
            line = [TOOL, "cache", *options[:1], *([self.directory] if options else []), *options[1:]]
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    TOOL, MAKER = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
