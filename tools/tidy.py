#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py [--share K/N] [BUILD]: clang-tidy-16 over the library, its headers, the tool and the benches with the compile commands of
BUILD (default build/tidy: cmake --preset tidy); no warning passes. Only what BUILD compiles: not the other executor, nor other
architectures' sources.

--share K/N: part K, from 0, of N, and beside it what commits of the last six hours have changed. Sources of a folder that are compiled
alike and share no name of their own are read as one (tools/source_groups.py)."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import source_groups

TOOL = "clang-tidy-16"
SOURCES = ("src/*.cpp", "cli/*.cpp", "bench/*.cpp")
WARNINGS = ("-Wno-everything", "-Wreserved-identifier")  # builds have the others
# clang compiles these nowhere else.
ALL_WARNINGS = ("-Wall", "-Wextra", "-Wreserved-identifier")
MOST_SECONDS = 300  # for them


def flags(command, source):
    """The compiler's flags of a command that compiles `source`."""
    words = shlex.split(command)[1:]
    output = words.index("-o")
    del words[output : output + 2]
    return tuple(word for word in words if word not in ("-c", source))


def chosen(root, share):
    """The sources to look at."""
    listed = subprocess.run(["git", "ls-files", "--", *SOURCES], cwd=root, check=True, capture_output=True, text=True)
    sources = listed.stdout.split()
    log = ["git", "log", "--since=6.hours", "--name-only", "--format="]
    changed = set(subprocess.run(log, cwd=root, check=True, capture_output=True, text=True).stdout.split())
    part, parts = share
    return {str(root / source) for i, source in enumerate(sources) if i % parts == part or source in changed}


def groups(build, left):
    """Lists of the sources in `left`, each with the flags that they share."""
    alike = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = entry["file"]
        if source in left:  # the first command of several
            left.remove(source)
            alike.setdefault((os.path.dirname(source), flags(entry["command"], source)), []).append(source)
    return [(unit, shared) for (_, shared), sources in alike.items() for unit in source_groups.without_clashes(sources)]


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
    is_bench = "/bench/" in sources[0]
    command = [TOOL, "--quiet", unit, "--", *shared, *(ALL_WARNINGS if is_bench else WARNINGS)]
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


def share(text):
    numbers = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    part, parts = map(int, numbers.groups()) if numbers else (0, 0)
    if part >= parts:
        raise argparse.ArgumentTypeError(f"expected K/N with 0 <= K < N, got {text!r}")
    return part, parts


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--share", type=share, default=(0, 1))
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=root / "build" / "tidy")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not (build / "compile_commands.json").is_file():
        print(f"tidy: no {build}/compile_commands.json; expected a configured build folder", file=sys.stderr)
        sys.exit(2)
    sources = chosen(root, arguments.share)
    longest_first = sorted(groups(build, set(sources)), key=lambda group: -len(group[0]))
    if sources and not longest_first:
        sys.exit(f"tidy: {build}/compile_commands.json has no source of {root}")
    print(f"tidy: {sum(len(group[0]) for group in longest_first)} sources in {len(longest_first)} groups", flush=True)
    folder = build / "units"
    folder.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = "".join(pool.map(lambda group: look_at(folder, *group), longest_first))
    print(found, end="")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
