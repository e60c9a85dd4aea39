#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/documents.py: what the documents say exists.

usage: documents.py ROOT     prints `file: breach`; exit status 1 if there is one

  links     every relative link of a Markdown file leads to a file
  paths     every path from the root that stands between backquotes exists, but in docs/records, a record
  index     docs/index.md, or the index of its folder, leads to every document
  example   the README's C++ block is the marked part of examples/readme.cpp
  length    the README has at most 90 lines
  merges    no text file of the project, source or document, holds a line that an unfinished merge has left
"""
import pathlib
import re
import sys
import textwrap

LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
MERGE = re.compile(r"^(<{7}|>{7}) \S", re.MULTILINE)
FOLDERS = "bench", "cli", "clients", "cmake", "docs", "examples", "findings", "fuzz", "include", "python", "src", "tests", "tools"
TEXTS = {".cpp", ".h", ".cu", ".cuh", ".c", ".py", ".pyi", ".sh", ".md", ".txt", ".cmake", ".toml", ".json"}
PATH = re.compile(r"`((?:src|include|tests|tools|bench|cli|examples|findings|cmake|docs|python)/[\w./-]+)`")


def check_links(root):
    files = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "python/README.md", "findings/README.md")]
    for path in files + sorted((root / "docs").rglob("*.md")):
        for target, _ in LINK.findall(path.read_text()):
            if not (path.parent / target).exists():
                yield path.relative_to(root), f"links: {target} does not exist"


def check_paths(root):
    files = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    files += [path for path in sorted((root / "docs").rglob("*.md")) if path.parent.name != "records"]
    for path in files:
        for name in PATH.findall(path.read_text()):
            if not (root / name).exists():
                yield path.relative_to(root), f"paths: {name} does not exist"


def check_index(root):
    docs = root / "docs"
    linked = set()
    for index in docs.rglob("index.md"):
        linked |= {(index.parent / target).resolve() for target, _ in LINK.findall(index.read_text())}
    for path in sorted(docs.rglob("*.md")):
        if path != docs / "index.md" and path.resolve() not in linked:
            yield path.relative_to(root), "index: docs/index.md does not lead to it"


def check_example(root):
    block = re.search(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.DOTALL).group(1)
    program = (root / "examples/readme.cpp").read_text()
    part = re.search(r"README: begin\n(.*?)[^\n]*README: end", program, re.DOTALL).group(1)
    if textwrap.dedent(part).strip() != block.strip():
        yield "README.md", "example: differs from examples/readme.cpp"


def check_length(root):
    lines = len((root / "README.md").read_text().splitlines())
    if lines > 90:
        yield "README.md", f"length: {lines} lines, at most 90"


def check_merges(root):
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.suffix in TEXTS and path.is_file() and MERGE.search(path.read_text()):
            yield path.relative_to(root), "merges: a line of an unfinished merge"


def main():
    root = pathlib.Path(sys.argv[1])
    checks = (check_links, check_paths, check_index, check_example, check_length, check_merges)
    breaches = [breach for check in checks for breach in check(root)]
    for path, breach in breaches:
        print(f"{path}: {breach}")
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
