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
# Names before `(`, `{`, `=` or `;` on lines that begin at the margin: those of functions, types and constants, declared or defined.
NAME = re.compile(r"^\w[^(={;\n]*?(\w+)(?:\[\w*\])?(?: final)?(?: : [^{\n]*)? ?[({=;]", re.MULTILINE)
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ", re.MULTILINE)


def names(source):
    """What `source` has for itself: names in its unnamed namespaces, aliases of the whole file, and `main`."""
    text = pathlib.Path(source).read_text()
    parts = text.split("\nnamespace {\n")[1:]
    own = {name for part in parts for name in NAME.findall(part.split("\n}  // namespace\n")[0])}
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
    for group in without_clashes(sys.argv[1:]):
        print(";".join(group))
