#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/source_groups.py SOURCE ... [-- SOURCE ...]: which sources can be compiled as one, a line for each group, its sources with `;`
between them; `--` stands between programs that share nothing, in what is asked and in what is printed.

Sources share a group where no two have the same name for themselves: most of the time of a small source goes into what it includes, and
that is read once for all of them. CMake asks for all targets whose sources it groups (folio_group_sources: with FOLIO_GROUPED=ON or
programs, some always), tools/tidy.py for what it looks at."""

import functools
import itertools
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
AT_ONCE = 12  # sources of a group, at most
MAIN = re.compile(r"^(?:int main\(|BENCHMARK_MAIN\()", re.MULTILINE)
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ", re.MULTILINE)
# A test's class, and what gives a suite its parameters or types.
TEST = re.compile(r"^(?:(?:TYPED_)?TEST(?:_[FP])?|RC_GTEST(?:_FIXTURE|_TYPED_FIXTURE)?_PROP|(?:INSTANTIATE_)?(?:TYPED_)?TEST_SUITE(?:_P)?)"
                  r"\(\s*(\w+),\s*(\w+)", re.MULTILINE)
# Literals and comments, which may look like anything.
OPAQUE = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.[^'\n]*|[^'\\\n])'| *//(?! namespace$)[^\n]*|/\*.*?\*/",
    re.DOTALL | re.MULTILINE,
)
# Names that others gave; what has none.
USING = re.compile(r"^using ([\w:]*::(\w+));", re.MULTILINE)
UNNAMED = re.compile(r"^static_assert", re.MULTILINE)
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


def read(path):
    """The text of `path`, and beside it the same without what may look like anything."""
    whole = path.read_text(encoding="utf-8", errors="replace")
    text, removed = OPAQUE.sub("", whole), 1
    while removed:
        text, removed = ASIDE.subn("", text)
    return whole, text


def included(whole, folder):
    """The headers beside it, and those of tests, that a file in `folder` with this text includes: what they declare, others call alike."""
    for name in INCLUDE.findall(whole):
        yield from [path for place in (folder, TESTS) if (path := place / name).suffix == ".h" and path.is_file()][:1]


@functools.cache
def names_of_header(path):
    """What `path` and what it includes declare."""
    whole, text = read(path)
    return set(declared(text)).union(*map(names_of_header, included(whole, path.parent)))


def names(source):
    """What names mean in `source` that may mean something else elsewhere: those in its unnamed namespaces, its aliases and `main` what is
    nowhere else, others what headers or a using-declaration say."""
    whole, text = read(pathlib.Path(source))
    theirs = {}
    for header in included(whole, pathlib.Path(source).parent):
        theirs |= dict.fromkeys(names_of_header(header), "headers")
    theirs |= {name: target for target, name in USING.findall(text) if name not in theirs}
    text = TEST.sub(r"struct \1_\2;\n(", UNNAMED.sub("", USING.sub("", text)))
    parts = text.split("\nnamespace {\n")[1:]
    own = {name for part in parts for name in declared(part.split("\n}  // namespace\n")[0])}
    own |= set(ALIAS.findall(text))
    own |= {"main"} if MAIN.search(text) else set()
    return theirs | dict.fromkeys(own, str(source))


def without_clashes(sources):
    """Lists of `sources`, no two of which have the same name for themselves."""
    units = []
    for source in sources:
        own = names(source)
        unit = next((unit for unit in units if len(unit[0]) < AT_ONCE and all(unit[1].get(name, own[name]) == own[name] for name in own)), None)
        if unit is None:
            unit = ([], {})
            units.append(unit)
        unit[0].append(source)
        unit[1].update(own)
    return [unit[0] for unit in units]


if __name__ == "__main__":
    try:
        programs = [list(words) for is_end, words in itertools.groupby(sys.argv[1:], "--".__eq__) if not is_end]
        for i, program in enumerate(programs):
            print(*["--"] * (i > 0), *map(";".join, without_clashes(program)), sep="\n")
    except OSError as error:
        print(f"tools/source_groups.py: expected sources that can be read, got {error}", file=sys.stderr)
        sys.exit(2)
