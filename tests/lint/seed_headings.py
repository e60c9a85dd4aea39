#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/seed_headings.py: every heading of the seed documents' pages has its test.

usage: seed_headings.py list PAGES              prints the headings of the pages (*.txt) in a folder: `Type.member kind`
       seed_headings.py signatures PAGES       prints every overload with its parameters: `Type.member [parameters](arguments)`
       seed_headings.py check LIST TEST ...     compares a list with the tests; with FOLIO_SEED_PAGES set, the list with the pages too

Kinds are type, parameter, field, constant, method, tma.
The tests of `Type.member` are the suite Type_member (a parameter's: Type_member_parameter; outer underscores are dropped), and each
suite holds a static_assert.
"""
import os
import pathlib
import re
import sys

SECTIONS = {"Parameters": "parameter", "Fields": "field", "comptime members": "constant", "Methods": "method",
            "Required methods": "method", "Provided methods": "method"}


def split_parameters(text):
    """The names before the colons of a bracketed parameter list."""
    depth, names, current = 0, [], ""
    for character in text + ",":
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            name = current.split(":")[0].strip()
            if re.fullmatch(r"\w+", name):
                names.append(name)
            current = ""
        else:
            current += character
    return names


def bracketed(text):
    """What stands in the brackets that `text` begins with."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return text[1:at]
    return ""


def page_headings(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    title = next(lines[i + 1] for i, line in enumerate(lines) if re.match(r"Mojo (struct|trait)", line))
    yield title, "", "type"
    section, seen = None, set()
    for here, after in zip(lines, lines[1:] + [""]):
        if here.startswith(f"struct {title}["):
            for name in split_parameters(bracketed(here.removeprefix(f"struct {title}"))):
                yield title, name, "parameter"
        section = SECTIONS.get(here, section)
        bullet = re.match(r"• (\w+) \(", here)
        name = here
        if bullet and section == "field":
            name = bullet.group(1)
        elif not re.fullmatch(r"\w+", here) or section in (None, "parameter", "field") or here in SECTIONS:
            continue
        elif not re.match(rf"(comptime |static def |static |def )?{here}\b", after):
            # A heading without text below it stands right before the next one.
            follows = lines.index(here) + 2
            if not (here[0].islower() and after[0].islower() and follows < len(lines) and lines[follows].startswith(f"{after}(")):
                continue
        if name not in seen:
            seen.add(name)
            yield title, name, section


def headings(folder):
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        for title, name, kind in page_headings(path.read_text(encoding="utf-8")):
            if re.fullmatch(r"create_\w*tma_tile", name):
                kind = "tma"
            yield f"{title}.{name}".rstrip("."), kind


def inside(text, brackets):
    """The text in the brackets that `text` begins with, and what follows them."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if depth == 0:
            return (text[1:at], text[at + 1:]) if text[:1] == brackets[0] else ("", text)
    return "", text


def parameter_names(text):
    """Names before colons; what the language itself adds (self, out, ctx, stars and slashes) is left out."""
    depth, names, current = 0, [], ""
    for character in text + ",":
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            name = current.split(":")[0].split("=")[0].split()
            if name and re.fullmatch(r"\w+", name[-1]) and name[0] != "out" and name[-1] not in ("self", "ctx"):
                names.append(name[-1])
            current = ""
        else:
            current += character
    return names


def signatures(folder):
    """(heading, template parameters, arguments) of every overload on the pages."""
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        listed = list(page_headings(text))
        title, methods = listed[0][0], {name for _, name, kind in listed if kind == "method"}
        for line in map(str.strip, text.splitlines()):
            found = re.match(r"(?:static )?(?:def )?(\w+)(?=[\[(])", line)
            if not found or found.group(1) not in methods or not re.search(r"self\b|->", line):
                continue
            parameters, rest = inside(line[found.end():], "[]") if line[found.end()] == "[" else ("", line[found.end():])
            yield f"{title}.{found.group(1)}", parameter_names(parameters), parameter_names(inside(rest, "()")[0])


def suite_of(heading, kind):
    title, _, name = heading.partition(".")
    return "_".join(filter(None, [title, name.strip("_"), "parameter" if kind == "parameter" else ""]))


def suites(paths):
    """Suite -> whether one of its tests has a compile-time line."""
    found = {}
    for path in paths:
        for test in re.split(r"^(?=TEST)", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name = re.match(r"TEST\w*\((\w+),", test).group(1)
            found[name] = found.get(name, False) or "static_assert(" in test.split("\n}\n")[0]
    return found


def check(listed, paths):
    expected = {suite_of(heading, kind) for heading, kind in listed}
    found = suites(paths)
    yield from (f"no test: {name}" for name in sorted(expected - set(found)))
    yield from (f"no heading: {name}" for name in sorted(set(found) - expected))
    yield from (f"no compile-time line: {name}" for name in sorted(found) if not found[name])
    pages = os.environ.get("FOLIO_SEED_PAGES")
    if pages:
        yield from (f"list and pages differ: {line}" for line in sorted(set(listed) ^ set(headings(pages))))


def main():
    if sys.argv[1] == "signatures":
        for heading, parameters, arguments in signatures(sys.argv[2]):
            print(f"{heading} [{', '.join(parameters)}]({', '.join(arguments)})")
        return 0
    if sys.argv[1] == "list":
        for line in headings(sys.argv[2]):
            print(*line)
        return 0
    listed = [tuple(line.split()) for line in pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    problems = list(check(listed, sys.argv[3:]))
    print("\n".join(problems + [f"{len(listed)} headings, {len(problems)} problems"]))
    return 1 if problems or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
