#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/public_names.py: the names of namespace folio that the two umbrella headers bring in are those of a golden list.

usage: public_names.py ROOT [--write]     prints each difference; exit status 1 if there is one

Text alone: comments and directives are dropped, and what is declared between `namespace folio::inline v1 {` and its end counts, but
for what lies in an inner namespace (`detail`, `pool`, `tier`, `kv_buffer`, `mask`, `names`, `operand`, `static_cache`, `tma`, `emulator`)
and second names by `using`. A name is listed under the first of the two headers that has it.
"""
import pathlib
import re
import sys

UMBRELLAS = ["folio/folio.h", "folio/kernels.h"]
INCLUDE = re.compile(r'^#include "(folio/[^"]+)"', re.MULTILINE)
NAMESPACE = re.compile(r"(?:inline )?namespace\s*([\w:\s]*)$")
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(?:\[\[\w+\]\]\s*|alignas\(\w+\)\s*|FOLIO_\w+\s+)*(\w+)")
NO_NAMES = {"requires", "alignas", "noexcept", "sizeof", "decltype", "static_assert", "operator"}


def headers_of(include, name, seen):
    """`name` and what it includes of folio, each once."""
    if name in seen:
        return
    seen.append(name)
    for other in INCLUDE.findall((include / name).read_text()):
        headers_of(include, other, seen)


def without_comments(text):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])'", '""', text)


def balanced_end(text, begin, pair):
    """Behind the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += {pair[0]: 1, pair[1]: -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def flat(text, pair):
    """Without what stands between brackets."""
    out, depth = [], 0
    for c in text:
        depth -= c == pair[1] and depth > 0
        if depth == 0:
            out.append(c)
        depth += c == pair[0]
    return "".join(out)


def name_of(declaration):
    """The name that a declaration at namespace level brings in, or None."""
    text = " ".join(declaration.split())
    while text.startswith("template"):
        text = text[balanced_end(text, text.index("<"), "<>"):].lstrip()
    text = re.sub(r"^requires\s*\((?:[^()]|\([^()]*\))*\)\s*", "", text)
    if (found := re.match(r"(?:using|concept)\s+(\w+)\s*=", text)) is not None:
        return found.group(1)
    if text.startswith(("using", "namespace", "static_assert", "friend", "&&", "||")) or "operator" in text:
        return None  # the last two: a concept goes on behind the braces of its first requirement
    if (found := TYPE.match(text)) is not None:
        return found.group(1)
    head = flat(re.split(r"(?<![=!<>])=(?!=)", flat(text, "()"))[0], "<>")
    calls = [n for n in re.findall(r"(\w+)\s*\(", head) if n not in NO_NAMES and not n.startswith("__")]
    if calls:
        return calls[-1]
    words = re.findall(r"\w+", head)
    return words[-1] if len(words) > 1 else None


def names_of(text):
    """The names declared at the level of namespace folio itself."""
    names, level, i, begin = set(), [], 0, 0
    text = without_comments(text)
    while i < len(text):
        c = text[i]
        if c == "(":
            i = balanced_end(text, i, "()")
            continue
        if c == "{":
            head = text[begin:i].strip()
            opened = NAMESPACE.search(head)
            if opened is not None:
                level.append(opened.group(1).replace(" ", ""))
                i = begin = i + 1
                continue
            i = balanced_end(text, i, "{}")
            if level == ["folio::inlinev1"] and head:
                names.add(name_of(head))
            begin = i
            continue
        if c == "}":
            level.pop()
            i = begin = i + 1
            continue
        if c == ";":
            head = text[begin:i].strip()
            if level == ["folio::inlinev1"] and head:
                names.add(name_of(head))
            begin = i + 1
        i += 1
    return names - {None}


def listing(root):
    known, lines = set(), []
    for umbrella in UMBRELLAS:
        headers = []
        headers_of(root / "include", umbrella, headers)
        names = set().union(*(names_of((root / "include" / h).read_text()) for h in headers)) - known
        known |= names
        lines += [f"{umbrella} {len(names)}"] + [f"  {n}" for n in sorted(names)]
    return "\n".join(lines) + "\n"


def main():
    root = pathlib.Path(sys.argv[1])
    golden = root / "tests/package/public_names.txt"
    found = listing(root)
    if "--write" in sys.argv[2:]:
        golden.write_text(found)
        return 0
    expected, actual = golden.read_text().splitlines(), found.splitlines()
    missing, new = [n for n in expected if n not in actual], [n for n in actual if n not in expected]
    for sign, lines in (("-", missing), ("+", new)):
        for line in lines:
            print(f"{golden.relative_to(root)}: {sign} {line.strip()}")
    return 1 if missing or new else 0


if __name__ == "__main__":
    sys.exit(main())
