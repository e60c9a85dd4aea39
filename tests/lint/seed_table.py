#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/seed_table.py: docs/seed_members.md, the table of the seeds' members with their headers and tests.

usage: seed_table.py write ROOT      writes the document from the list of headings, the headers and the tests
       seed_table.py check ROOT      exit status 1 if it would be written otherwise, or if a member is in no header or no test

A member's header is the first one of its type's in whose code its name stands. Parameters and constructors have no name of their own in
C++: theirs is the header of the type.
"""
import pathlib
import re
import sys

from seed_headings import suite_of

DOCUMENT = "docs/seed_members.md"
LIST = "tests/cache/seed_headings.txt"
TESTS = "tests/seed_members"
HEADERS = {
    "KVCacheT": ["folio/cache/kv_cache.h", "folio/cache/paged_kv_cache.h"],
    "PagedKVCache": ["folio/cache/paged_kv_cache.h", "folio/cache/step_members.h", "folio/cache/tma_members.h"],
    "PagedKVCacheCollection": ["folio/cache/paged_kv_cache_collection.h", "folio/cache/layer_caches.h"],
    "KVCacheScalesMHAOperand": ["folio/attention/operand/cache_operands.h"],
    "KVBuffer": ["folio/attention/kv_buffer/shape.h", "folio/attention/kv_buffer.h"],
}
KINDS = {"type": "type", "parameter": "template parameter", "field": "field", "constant": "constant", "method": "method",
         "tma": "TMA tile"}
INTRODUCTION = """# The seeds' members

Every heading of the seed documents' pages, with the header that has it and the tests that hold it to its page. Written by
`tests/lint/seed_table.py write .`; a lint compares. The headings themselves are `tests/cache/seed_headings.txt`.
What a page lists as not supported is a member that does not compile, and its test says so.
"""


def find_suites(root):
    """Suite -> the file of its tests."""
    return {suite: path.relative_to(root) for path in sorted((root / TESTS).glob("*.cpp"))
            for suite in re.findall(r"^TEST\w*\((\w+),", path.read_text(encoding="utf-8"), re.MULTILINE)}


def header_of(root, title, member, kind):
    if kind == "parameter" or member in ("", "__init__"):
        member = title
    for header in HEADERS[title]:
        code = re.sub(r'//.*|"[^"]*"', "", (root / "include" / header).read_text(encoding="utf-8"))
        if re.search(rf"\b{member}\b", code):
            return header
    return None


def rows(root, problems):
    suites = find_suites(root)
    for line in (root / LIST).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        heading, kind = line.split()
        title, _, member = heading.partition(".")
        suite, header = suite_of(heading, kind), header_of(root, title, member, kind)
        if header is None:
            problems.append(f"{heading}: in none of {', '.join(HEADERS[title])}")
        if suite not in suites:
            problems.append(f"{heading}: no suite {suite} in {TESTS}")
        yield title, member or title, KINDS[kind], header, f"`{suite}` in `{suites.get(suite)}`"


def table(root, problems):
    text, current = INTRODUCTION, None
    for title, member, kind, header, test in rows(root, problems):
        if title != current:
            text += f"\n## {title}\n\n| member | kind | header | test |\n| --- | --- | --- | --- |\n"
            current = title
        text += f"| `{member}` | {kind} | `{header}` | {test} |\n"
    return text


def main():
    root, problems = pathlib.Path(sys.argv[2]), []
    text = table(root, problems)
    document = root / DOCUMENT
    if sys.argv[1] == "write":
        document.write_text(text, encoding="utf-8")
    elif not document.exists() or document.read_text(encoding="utf-8") != text:
        problems.append(f"{DOCUMENT} is not what `tests/lint/seed_table.py write .` writes")
    print("\n".join([*problems, f"{text.count(chr(10) + '| `')} members, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
