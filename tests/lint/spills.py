#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/spills.py: micro-kernels keep their vectors in registers.

usage: spills.py [--objdump OBJDUMP] [--all] LIST

Looks at every function of the objects of LIST (a file of object paths, one per line) for instructions that move a 512-bit register to
or from the stack. A vector that does not fit the register file is stored and loaded again in the hot loop, at a multiple of the cost of
the arithmetic, and nothing else shows it: results stay right.

Every function is a micro-kernel unless AROUND names it: what surrounds micro-kernels may spill. Hot loops of micro-kernels, the innermost
ones and the innermost ones around products, hold no such move but what ALLOWED_IN_LOOPS says, what lies around them at most OUTSIDE_LOOPS
or what ALLOWED says. Breaches are printed, one per line; exit status 1 if there is one, or if there was no micro-kernel. --all prints the
counts of all functions that spill.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

# Demangled names, template arguments removed. Runs once per task or span, seldom, or calls what is out of line where it matters.
AROUND = re.compile(
    r"::TaskRunner::"  # the walk over spans and tiles, with all that is inlined into it
    r"|::(\w+)::\1\("  # constructors
    r"|::(edge|mask|add_terms|redo)\("  # tiles that not every row sees whole, optional terms, a maximum that rises
    r"|::(load_row|write_row|attend|attend_rows|attend_few|weigh_few|attend_jobs|Compute::run)\("  # queries, output, calls
    r"|::LatentQueries::load\("  # once per task
    r"|::(gather|gather_scales)\("  # 64 words of a tile by way of an array
    r"|::end_of_row\("  # fewer elements than a vector has, by way of buffers
)

# Elsewhere than in hot loops, where nothing may move: a few, and more for functions that add 16 or 32 rows across lanes or
# transpose them, which takes all registers there are and some more, once per tile of keys and not per vector.
OUTSIDE_LOOPS = 8
ALLOWED = {
    r"::Compute::step_as\(": 56,
    r"::LatentSoftmax::spread\(": 32,
    r"::Queries::pack\(": 12,
    # sums of the first eight keys wait in memory for those of the others; requests are copied, 64 bytes at once
    r"::IntegerProducts::score_tile\(": 26,
    # eight rows of 8 bits keep their sums beside tables
    r"::FewRows::(line_)?tile\(": 13,
}

# In hot loops: values of i8 are looked up in eight registers of tables, for which one constant is read again for each two rows. The
# sums of eight rows with two groups or whole lines of keys of 8 bits leave too few registers to their tables.
# Eight rows of weights, the coefficients of their exponential and the mask of what exists are two vectors more than there are. Integers
# of all heads: the array of a call's rows is cleared, once for a head and 16 or 32 keys.
ALLOWED_IN_LOOPS = {r"::StagedPlane::use\(": 2, r"::FewSoftmax::weigh_rows\(": 2,
                    r"::IntegerHeads::attend_together\(": 1, r"::FewRows::(line_)?tile\(": 12}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s*(\S.*)$")
JUMP = re.compile(r"^(?:notrack )?j\w+\s+([0-9a-f]+)\b")
STACK = re.compile(r"%zmm\d+.*\(%(rsp|rbp)[,)]|\(%(rsp|rbp)[,)][^)]*\)?,?.*%zmm\d+")
ENDS = re.compile(r"(?:notrack )?(jmp|ret|ud2)")
PRODUCT = re.compile(r"vdpbf16ps|vfmadd|vfnmadd|vpdpbusd")
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


def predecessors(code):
    """Of each instruction, by index, those that it may follow. code: [(address, text)]."""
    index = {address: i for i, (address, _) in enumerate(code)}
    before = [[] for _ in code]
    for i, (_, text) in enumerate(code):
        jump = JUMP.match(text)
        if jump and int(jump.group(1), 16) in index:
            before[index[int(jump.group(1), 16)]].append(i)
        if i + 1 < len(code) and not ENDS.match(text):
            before[i + 1].append(i)
    return before


def natural_loops(code):
    """Bodies of the loops as sets of indices: whatever reaches a jump backwards from the place it goes to. Loops with one head are one;
    a jump backwards whose body could be entered elsewhere than at its head is no loop."""
    before, bodies = predecessors(code), {}
    for head in range(len(code)):
        for latch in before[head]:
            if latch < head:
                continue
            body, todo = {head, latch}, [latch] if latch != head else []
            while todo:
                for i in before[todo.pop()]:
                    if i not in body:
                        body.add(i)
                        todo.append(i)
            if 0 not in body or head == 0:
                bodies[head] = bodies.get(head, set()) | body
    return list(bodies.values())


def innermost(loops):
    return [a for a in loops if not any(b < a for b in loops)]


def hot_instructions(code):
    """Indices of the instructions in innermost loops, and in the innermost loops among those that hold a product: a loop without one
    inside them, of requests for memory or the like, makes them no less hot."""
    loops = natural_loops(code)
    products = {i for i, (_, text) in enumerate(code) if PRODUCT.match(text)}
    return set().union(*innermost(loops), *innermost([body for body in loops if body & products]))


def count_spills(lines):
    """Moves of 512-bit registers to and from the stack: (in hot loops, elsewhere). %rbp counts where it is the frame's pointer and no
    ordinary register."""
    has_frame = any(FRAME_POINTER.search(line) for line in lines)
    matches = [m for m in map(INSTRUCTION.match, lines) if m]
    code = [(int(m.group(1), 16), m.group(2)) for m in matches]
    moves = {i for i, (_, text) in enumerate(code) if STACK.search(text) and (has_frame or not TOUCHES_RBP.search(text))}
    if not moves:
        return 0, 0
    inside = len(moves & hot_instructions(code))
    return inside, len(moves) - inside


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
            inside, outside = count_spills(lines)
            if args.all and inside + outside > 0:
                print(f"{inside:5d} {outside:5d}  {name[:200]}")
            if AROUND.search(short):
                continue
            found += 1
            allowed = max((n for pattern, n in ALLOWED.items() if re.search(pattern, short)), default=OUTSIDE_LOOPS)
            allowed_inside = max((n for pattern, n in ALLOWED_IN_LOOPS.items() if re.search(pattern, short)), default=0)
            if inside > allowed_inside or outside > allowed:
                breaches += 1
                print(f"{path}: {inside} moves of vectors to and from the stack in hot loops, {outside} elsewhere "
                      f"(at most {allowed_inside} and {allowed}): {name}")
    if found == 0:
        print("no micro-kernel found")
    print(f"{found} micro-kernels, {breaches} breaches")
    return 1 if breaches or found == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
