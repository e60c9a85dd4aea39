#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py [BUILD]: clang-tidy-16 over the library, its headers, the tool and the benches with the compile commands of BUILD (default
build/asan, the build by clang); no warning passes. Only what BUILD compiles: not the other executor, nor other architectures' sources.

Sources of a folder that are compiled alike and share no name of their own are read as one: most of the time goes into what they include,
and that is read once."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

TOOL = "clang-tidy-16"
SOURCES = ("src/*.cpp", "cli/*.cpp", "bench/*.cpp")
WARNINGS = ("-Wno-everything", "-Wreserved-identifier")  # builds have the others
AT_ONCE = 12  # sources read as one, at most
MOST_SECONDS = 300  # for them
MAIN = re.compile(r"^(?:int main\(|BENCHMARK_MAIN\()", re.MULTILINE)
# Names before `(`, `{`, `=` or `;` on lines that begin at the margin: those of functions, types and constants, declared or defined.
NAME = re.compile(r"^\w[^(={;]*?(\w+)(?:\[\w*\])?(?: final)?(?: : [^{]*)? ?[({=;]", re.MULTILINE)


def flags(command, source):
    """The compiler's flags of a command that compiles `source`."""
    words = shlex.split(command)[1:]
    output = words.index("-o")
    del words[output : output + 2]
    return tuple(word for word in words if word not in ("-c", source))


def names(source):
    """What `source` has for itself: names in its unnamed namespaces, and `main`."""
    text = pathlib.Path(source).read_text()
    parts = text.split("\nnamespace {\n")[1:]
    own = {name for part in parts for name in NAME.findall(part.split("\n}  // namespace\n")[0])}
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


def groups(root, build):
    """Lists of sources, each with the flags that they share."""
    listed = subprocess.run(["git", "ls-files", "--", *SOURCES], cwd=root, check=True, capture_output=True, text=True)
    left = {str(root / source) for source in listed.stdout.split()}
    alike = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = entry["file"]
        if source in left:  # the first command of several
            left.remove(source)
            alike.setdefault((os.path.dirname(source), flags(entry["command"], source)), []).append(source)
    return [(unit, shared) for (_, shared), sources in alike.items() for unit in without_clashes(sources)]


def together(folder, sources):
    """A source that includes `sources`."""
    first = pathlib.Path(sources[0])
    unit = folder / f"{first.parent.name}_{first.stem}_{len(sources)}.cpp"
    unit.write_text("".join(f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n' for source in sources))
    return unit


def look_at(folder, sources, shared):
    """What clang-tidy says of `sources`; empty where nothing."""
    alone = len(sources) == 1
    unit = sources[0] if alone else together(folder, sources)
    command = [TOOL, "--quiet", unit, "--", *shared, *WARNINGS]
    try:
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=None if alone else MOST_SECONDS)
        if run.returncode == 0:
            return ""
        if alone or "[clang-diagnostic-error]" not in run.stdout:
            return run.stdout or run.stderr or f"tidy: {TOOL} ended with {run.returncode} at {unit}\n"
    except subprocess.TimeoutExpired:  # some checks take the longer the more there is
        pass
    half = len(sources) // 2
    return look_at(folder, sources[:half], shared) + look_at(folder, sources[half:], shared)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    build = (pathlib.Path.cwd() / sys.argv[1]) if len(sys.argv) > 1 else root / "build" / "asan"
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"tidy: no {build}/compile_commands.json; expected a configured build folder")
    longest_first = sorted(groups(root, build), key=lambda group: -len(group[0]))
    if not longest_first:
        sys.exit(f"tidy: {build}/compile_commands.json has no source of {root}")
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = "".join(pool.map(lambda group: look_at(folder, *group), longest_first))
    print(found, end="")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
