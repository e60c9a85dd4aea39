#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/source_groups.py SOURCE ...: which sources can be compiled as one, a line for each group, its sources with `;` between them.

Sources share a group where no two have the same name for themselves: most of the time of a small source goes into what it includes, and
that is read once for all of them. CMake asks with FOLIO_GROUPED=ON, tools/tidy.py for what it looks at."""

import pathlib
import re
import sys

AT_ONCE = 12  # sources of a group, at most
MAIN = re.compile(r"^(?:int main\(|BENCHMARK_MAIN\()", re.MULTILINE)
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ", re.MULTILINE)
# Literals and comments, which may look like anything.
OPAQUE = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.[^'\n]*|[^'\\\n])'| *//(?! namespace$)[^\n]*|/\*.*?\*/",
    re.DOTALL | re.MULTILINE,
)
# What stands between a line's first word and its name.
ASIDE = re.compile(r"<[^<>;{}]*>|\[\[[^\n]*?\]\] ?|alignas\([^)\n]*\) ?")
# On lines that begin at the margin: types, pointers to functions, and what has its name before `(`, `{`, `=`, `;` or `,`.
NAME = re.compile(
    r"^(?:(?:template +)?(?:struct|class|union|enum)(?: class)?(?: (?P<type>\w+))?(?: final)?\s*(?:[{;]|:(?!:))"
    r"|(?:\} |::)?(?=[A-Za-z_])[^(={;,\n]*?(?:\b(?P<name>\w+)(?:\[[^\]\n]*\])* ?(?P<end>[={;,]|\((?!\*))|\(\*(?P<pointer>\w+)\)))",
    re.MULTILINE,
)
NEXT_NAME = re.compile(r",\s*[*&]*(\w+)(?:\[[^\]\n]*\])* ?[={;,]")
ENUMERATORS = re.compile(r"^enum(?! class)[^{;(]*\{([^}]*)\}", re.MULTILINE)
ENUMERATOR = re.compile(r"(?:^|,)\s*(\w+)")


def next_names(text, start):
    """Names of one declaration behind its first, after which `start` is."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0 and text[i : i + 2] == "}\n":  # of a function
                return
        elif depth == 0 and text[i] == ";":
            return
        elif depth == 0 and text[i] == "," and (found := NEXT_NAME.match(text, i)):
            yield found[1]


def declared(text):
    """Names of functions, types, constants and enumerators that `text`, of an unnamed namespace, declares or defines."""
    for found in NAME.finditer(text):
        if name := found["type"] or found["name"] or found["pointer"]:
            yield name
        if found["end"] in ("=", "{", ","):
            yield from next_names(text, found.end() - 1)
    for enumerators in ENUMERATORS.findall(text):
        yield from ENUMERATOR.findall(enumerators)


def names(source):
    """What `source` has for itself: names in its unnamed namespaces, aliases of the whole file, and `main`."""
    text = OPAQUE.sub("", pathlib.Path(source).read_text(encoding="utf-8", errors="replace"))
    removed = 1
    while removed:
        text, removed = ASIDE.subn("", text)
    parts = text.split("\nnamespace {\n")[1:]
    own = {name for part in parts for name in declared(part.split("\n}  // namespace\n")[0])}
    own |= set(ALIAS.findall(text))
    return own | {"main"} if MAIN.search(text) else own


def without_clashes(sources):
    """Lists of `sources`, no two of which have the same name for themselves."""
    units = []
    for source in sources:
        own = names(source)
        unit = next((unit for unit in units if len(unit[0]) < AT_ONCE and not unit[1] & own), None)
        if unit is None:
            unit = ([], set())
            units.append(unit)
        unit[0].append(source)
        unit[1].update(own)
    return [unit[0] for unit in units]


if __name__ == "__main__":
    try:
        for group in without_clashes(sys.argv[1:]):
            print(";".join(group))
    except OSError as error:
        print(f"tools/source_groups.py: expected sources that can be read, got {error}", file=sys.stderr)
        sys.exit(2)
