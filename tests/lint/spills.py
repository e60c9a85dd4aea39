#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/spills.py: micro-kernels keep their vectors in registers.

usage: spills.py [--objdump OBJDUMP] [--all] LIST

Looks at every function of the objects of LIST (a file of object paths, one per line) and counts the instructions that move a 512-bit
register to or from the stack. A vector that does not fit the register file is stored and loaded again in the innermost loop, at a
multiple of the cost of the arithmetic, and nothing else shows it: results stay right.

Every function is a micro-kernel unless AROUND names it: what surrounds micro-kernels may spill. ALLOWED gives some of them room for a
few moves. Breaches are printed, one per line; exit status 1 if there is one, or if there was no micro-kernel. --all prints the counts
of all functions that spill.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

# Demangled names, template arguments removed. Runs once per task or tile, or calls what is out of line where it matters.
AROUND = re.compile(
    r"::TaskRunner::"  # the walk over spans and tiles, with all that is inlined into it
    r"|::(\w+)::\1\("  # constructors
    r"|::(edge|mask|add_terms|load_row)\("  # tiles that not every row sees whole; optional terms; queries
)

# Pattern: how many moves. Each has a reason.
ALLOWED = {
    r"::Softmax::rescale\(": 2,  # an argument that the caller keeps
    r"::Engine::attend_rows\(": 8,  # outside its loops
    r"::GroupedEngine::weigh\(": 2,  # outside its loops
}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
STACK = re.compile(r"%zmm\d+.*\(%(rsp|rbp)[,)]|\(%(rsp|rbp)[,)][^)]*\)?,?.*%zmm\d+")
FRAME_POINTER = re.compile(r"\bmov\s+%rsp,%rbp")
TOUCHES_RBP = re.compile(r"\(%rbp[,)]")


def without_arguments(name):
    """The name without what stands between angle brackets: Products<A, B<4> >::f(int) -> Products::f(int)."""
    depth, kept = 0, []
    for c in name:
        if c == "<":
            depth += 1
        elif c == ">":
            depth -= 1
        elif depth == 0:
            kept.append(c)
    return "".join(kept)


def functions(objdump, path):
    """(demangled name, lines of assembly) of each function of an object."""
    text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    name, lines = None, []
    for line in text.splitlines():
        found = FUNCTION.match(line)
        if found:
            if name is not None:
                yield name, lines
            name, lines = found.group(1), []
        elif name is not None:
            lines.append(line)
    if name is not None:
        yield name, lines


def count_spills(lines):
    """Moves of 512-bit registers to and from the stack. %rbp counts where it is the frame's pointer and no ordinary register."""
    has_frame = any(FRAME_POINTER.search(line) for line in lines)
    return sum(1 for line in lines if STACK.search(line) and (has_frame or not TOUCHES_RBP.search(line)))


def read_list(path):
    objects = [os.path.normpath(line) for line in pathlib.Path(path).read_text().splitlines() if line]
    if not objects:
        sys.exit(f"{path} names no object")
    return objects


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("list")
    args = parser.parse_args()

    found = breaches = 0
    for path in read_list(args.list):
        for name, lines in functions(args.objdump, path):
            short = without_arguments(name)
            spills = count_spills(lines)
            if args.all and spills:
                print(f"{spills:5d}  {name[:200]}")
            if AROUND.search(short):
                continue
            found += 1
            allowed = max((n for pattern, n in ALLOWED.items() if re.search(pattern, short)), default=0)
            if spills > allowed:
                breaches += 1
                print(f"{path}: {spills} moves of vectors to and from the stack, at most {allowed} allowed: {name}")
    if found == 0:
        print("no micro-kernel found")
    print(f"{found} micro-kernels, {breaches} breaches")
    return 1 if breaches or found == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
