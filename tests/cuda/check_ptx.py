#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/check_ptx.py: compiles a .cu to PTX and counts what its kernels are made of.

usage: check_ptx.py EXPECT -- NVCC ARGUMENT ...     exit status 1 if anything is amiss

EXPECT is a file of lines `architecture kernel instruction=count ...`: a kernel whose name contains `kernel` has so many lines with an
instruction that begins with `instruction`. `loops` counts branches back. An architecture is a name or `all`; every kernel is named.
"""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"\.entry\s+(\w+)")


def kernels_of(ptx):
    """Name -> text: each kernel's goes to the next one's beginning."""
    parts = ENTRY.split(ptx)
    return dict(zip(parts[1::2], parts[2::2]))


def loops(body):
    """Branches to a label that stands before them."""
    seen, count = set(), 0
    for line in body.splitlines():
        if label := re.match(r"\s*(\$\w+):", line):
            seen.add(label[1])
        if branch := re.search(r"\bbra(?:\.uni)?\s+(\$\w+)", line):
            count += branch[1] in seen
    return count


def count(body, instruction):
    if instruction == "loops":
        return loops(body)
    return len(re.findall(rf"^\s*(?:@!?%\w+\s+)?{re.escape(instruction)}[.\s]", body, re.MULTILINE))


def check(kernels, expected):
    named = set()
    for part, wanted in expected:
        matching = [name for name in kernels if part in name]
        named.update(matching)
        if not matching:
            yield f"no kernel is named {part}"
        for name in matching:
            for pair in wanted:
                instruction, _, number = pair.partition("=")
                found = count(kernels[name], instruction)
                if found != int(number):
                    yield f"{name}: {instruction} {found} times, expected {number}"
    yield from (f"{name}: nothing is expected of it" for name in kernels if name not in named)


def main():
    separator = sys.argv.index("--")
    lines = [line.split() for line in pathlib.Path(sys.argv[1]).read_text().splitlines() if line and not line.startswith("#")]
    command = sys.argv[separator + 1 :]
    architecture = next(a.removeprefix("-arch=") for a in command if a.startswith("-arch="))
    expected = [(kernel, wanted) for arch, kernel, *wanted in lines if arch in (architecture, "all")]
    compiled = subprocess.run([*command, "-ptx", "-o", "-"], capture_output=True, text=True)
    if compiled.returncode != 0:
        sys.exit(compiled.stdout + compiled.stderr)
    kernels = kernels_of(compiled.stdout)
    problems = list(check(kernels, expected))
    print("\n".join([*problems, f"{architecture}: {len(kernels)} kernels, {len(problems)} problems"]))
    return 1 if problems or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
