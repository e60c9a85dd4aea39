#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/seed_table.py: docs/generated/seed_members.md, the table of the seeds' members with their headers and tests.

usage: seed_table.py write ROOT      writes the document from the lists of headings and overloads, the headers and the tests
       seed_table.py check ROOT      exit status 1 if it would be written otherwise, or if a member is in no header or no test

A member's header is the first one of its type's in whose code its name stands. Parameters and constructors have no name of their own in
C++: theirs is the header of the type.
"""
import os
import pathlib
import re
import sys

from seed_headings import signatures, suite_of

DOCUMENT = "docs/generated/seed_members.md"
LIST = "tests/cache/seed_headings.txt"
SIGNATURES = "tests/cache/seed_signatures.txt"
TESTS = "tests/seed_members"
HEADERS = {
    "KVCacheT": ["folio/cache/kv_cache.h", "folio/cache/paged_kv_cache.h", "folio/cache/step_members.h",
                 "folio/cache/tma_members.h"],
    "PagedKVCache": ["folio/cache/paged_kv_cache.h", "folio/cache/step_members.h", "folio/cache/tma_members.h"],
    "PagedKVCacheCollection": ["folio/cache/paged_kv_cache_collection.h", "folio/cache/layer_caches.h"],
    "KVCacheScalesMHAOperand": ["folio/attention/operand/cache_operands.h"],
    "KVBuffer": ["folio/attention/kv_buffer/shape.h", "folio/attention/kv_buffer.h"],
}
KINDS = {"type": "type", "parameter": "template parameter", "field": "field", "constant": "constant", "method": "method",
         "tma": "TMA tile"}
# Parameters whose name here is neither the page's nor that in PascalCase; None: C++ needs none, as the table's head says.
RENAMED = {"output_dtype": "OutputDType", "swizzle_mode": "Mode", "tma_dtype": "TmaType", "l2_promotion": "L2",
           "smem_tile": "smem", "warp_id": "warp", "lookup_table": "table", "max_seq_length": "max_seq", "max_cache_length": "max_cache", "blocks": "blocks_view",
           "cache_lengths": "lengths", "copy": None, "take": None, "scales_origin": None}
RENAMED_IN = {"store_scale": {"scales": "values"}, "__init__": {"scales": "scales_view"}}
# Tiles that a page lists as not supported: declared with any parameters, constrained never to be called.
NO_TILES = "KVCacheScalesMHAOperand.create_"
INTRODUCTION = """# The seeds' members

Every heading of the seed documents' pages, with the header that has it and the tests that hold it to its page. Written by
`tests/lint/seed_table.py write .`; a lint compares. The headings themselves are `tests/cache/seed_headings.txt`.
What a page lists as not supported is a member that does not compile, and its test says so.
Every overload has a row of its own behind them, each parameter with its name here, template parameters first
(`tests/cache/seed_signatures.txt`). `self` and the device context have none: descriptions are made without a device.
Nor have origins of memory, and what copies and moves a value: views own nothing, and C++ copies them.
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


def counterpart(code, heading, parameter):
    """The parameter's name in folio's headers, or why there is none; None if it should be there and is not."""
    if heading.startswith(NO_TILES):
        return "any"
    member = heading.partition(".")[2]
    renamed = {**RENAMED, **RENAMED_IN.get(member, {})}
    if parameter in renamed and renamed[parameter] is None:
        return "none"
    pascal = "".join(part[:1].upper() + part[1:] for part in parameter.split("_"))
    names = [renamed[parameter]] if parameter in renamed else [parameter, pascal]
    return next((name for name in names if re.search(rf"\b{name}\b", code)), None)


def overloads(root, problems):
    """Title -> rows: member, its parameters as `page: here`, the suite that tests it."""
    suites, found = find_suites(root), {}
    path = root / SIGNATURES
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith("#"):
            continue
        heading, parameters, arguments = re.fullmatch(r"(\S+) \[(.*)\]\((.*)\)", line).groups()
        title, _, member = heading.partition(".")
        code = "".join((root / "include" / header).read_text(encoding="utf-8") for header in HEADERS[title])
        code = re.sub(r'//.*|"[^"]*"', "", code)
        cells = []
        for names in (parameters, arguments):
            pairs = [(name, counterpart(code, heading, name)) for name in filter(None, names.split(", "))]
            problems.extend(f"{heading}: no counterpart of {name}" for name, here in pairs if here is None)
            cells.append(", ".join(f"`{name}`" if name == here else f"`{name}`: {here and f'`{here}`'}" for name, here in pairs))
        suite = suite_of(heading, "method")
        if suite not in suites:
            problems.append(f"{heading}: no suite {suite} in {TESTS}")
        found.setdefault(title, []).append(f"| `{member}` | {cells[0]} | {cells[1]} | `{suite}` |\n")
    return found


def table(root, problems):
    text, current = INTRODUCTION, None
    for title, member, kind, header, test in rows(root, problems):
        if title != current:
            text += f"\n## {title}\n\n| member | kind | header | test |\n| --- | --- | --- | --- |\n"
            current = title
        text += f"| `{member}` | {kind} | `{header}` | {test} |\n"
    for title, lines in overloads(root, problems).items():
        text += f"\n## {title}: overloads\n\n| overload of | template parameters | parameters | test |\n| --- | --- | --- | --- |\n"
        text += "".join(lines)
    return text


def main():
    root, problems = pathlib.Path(sys.argv[2]), []
    text = table(root, problems)
    document = root / DOCUMENT
    pages = os.environ.get("FOLIO_SEED_PAGES")
    if pages:
        listed = {line for line in (root / SIGNATURES).read_text(encoding="utf-8").splitlines() if line[:1] != "#"}
        there = {f"{heading} [{', '.join(own)}]({', '.join(given)})" for heading, own, given in signatures(pages)}
        problems.extend(f"list and pages differ: {line}" for line in sorted(listed ^ there))
    if sys.argv[1] == "write":
        document.write_text(text, encoding="utf-8")
    elif not document.exists() or document.read_text(encoding="utf-8") != text:
        problems.append(f"{DOCUMENT} is not what `tests/lint/seed_table.py write .` writes")
    print("\n".join([*problems, f"{text.count(chr(10) + '| `')} members and overloads, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
