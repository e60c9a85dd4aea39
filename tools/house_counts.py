#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/house_counts.py [ROOT]: how the house stands, in counts that can only be read from the whole tree; beside each its goal, where it
has one. A report: it fails for nothing but what it cannot read.

Text alone; each count is of what a reader would find by searching:

  pool         places that ask whether a pool has groups (`groups.active()`), and comparisons of a group's number with 0 (`group`, `g`,
               `owner` or `number` beside `== 0` or `!= 0`), in src/pool and include/folio/pool; lines of pool_state.h
  cli          sources and headers in each folder of cli/, the folder itself as `.`
  names        what the public headers declare in namespace folio itself, each name once: the names that tests/lint/public_names.py
               sees, of all of include/folio but `c` (names of C) and `testing`
  tests        cases (`TEST`, `TEST_F`, `TEST_P`, `TYPED_TEST`) whose name is PascalCase: it begins with a capital and has no `_`;
               lines with `std::random_device` in sources of tests/ and clients/
  documents    words of docs/ (Markdown, as `wc -w`), and lines of README.md"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/lint"))

import public_names  # noqa: E402

SOURCES = {".h", ".cpp", ".cuh", ".cu"}
ACTIVE = re.compile(r"\bgroups(?:\.|->)active\(\)")
GROUP_IS_0 = re.compile(r"\b(?:group|g|owner|number) *[=!]= *0\b")
CASE = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*\w+,\s*([A-Z][A-Za-z0-9]*)\)", re.MULTILINE)
RANDOM_DEVICE = re.compile(r"^.*\bstd::random_device\b", re.MULTILINE)


def sources(root, *folders):
    """Text by path."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES:
                found[path.relative_to(root)] = path.read_text()
    return found


def count(pattern, texts):
    return sum(len(pattern.findall(text)) for text in texts.values())


def pool_state_lines(root):
    return sum(len(path.read_text().splitlines()) for path in sorted((root / "src/pool").rglob("pool_state.h")))


def rooms_of_cli(root):
    """Files by folder."""
    return collections.Counter(str(path.relative_to("cli").parent) for path in sources(root, "cli"))


def flat_names(root):
    headers = sources(root, "include/folio")
    kept = [text for path, text in headers.items() if path.parts[2] not in ("c", "testing")]
    return set().union(*(public_names.names_of(text) for text in kept)) if kept else set()


def words(root):
    return sum(len(path.read_text().split()) for path in sorted((root / "docs").rglob("*.md")))


def counts(root):
    """(what, how many, its goal or None)"""
    pool, tests = sources(root, "src/pool", "include/folio/pool"), sources(root, "tests", "clients")
    rooms = sorted(rooms_of_cli(root).items())
    return [
        ("pool: groups.active()", count(ACTIVE, pool), 8),
        ("pool: comparisons of a group with 0", count(GROUP_IS_0, pool), 4),
        ("pool: lines of pool_state.h", pool_state_lines(root), 150),
        *((f"cli: files in {folder}", files, None) for folder, files in rooms),
        ("names: flat in folio", len(flat_names(root)), 120),
        ("tests: cases in PascalCase", count(CASE, tests), 0),
        ("tests: std::random_device", count(RANDOM_DEVICE, tests), 0),
        ("documents: words", words(root), None),
        ("documents: lines of README.md", len((root / "README.md").read_text().splitlines()), 90),
    ]


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for what, found, goal in counts(root):
        print(f"{found:8,}  {what}" + ("" if goal is None else f" (goal: at most {goal})"))


if __name__ == "__main__":
    main()
