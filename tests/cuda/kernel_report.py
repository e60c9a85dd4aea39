#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/kernel_report.py: what became of each CUDA kernel, as a table; fails where one spills or touches local memory.

usage: kernel_report.py TABLE CUBIN ...      each CUBIN, NAME.ARCHITECTURE.cubin, has ptxas' words beside it (.log)

TABLE, a Markdown file, is written whatever is found. Exit status 1 if anything is amiss.
"""
import pathlib
import re
import sys

from check_kernels import LOCAL_MEMORY, instructions, sections

COLUMNS = ["kernel", "architecture", "registers", "stack", "spilled", "barriers", "code KiB", "nvcc CPU s"]


def number(pattern, text, default=None):
    found = re.search(pattern, text)
    if found is None and default is None:
        raise ValueError(f"no `{pattern}` in what ptxas said")
    return float(found[1]) if found else default


def read(cubin):
    """One row of the table, and what is amiss."""
    name, architecture = cubin.stem.rsplit(".", 1)
    log = pathlib.Path(f"{cubin}.log").read_text()
    code = {part.removeprefix(".text."): body for part, body in sections(cubin.read_bytes()) if part.startswith(".text.")}
    stack = number(r"(\d+) bytes stack frame", log)
    spilled = number(r"(\d+) bytes spill stores", log) + number(r"(\d+) bytes spill loads", log)
    row = [name, architecture, number(r"Used (\d+) registers", log), stack, spilled, number(r"used (\d+) barriers", log, 0),
           sum(map(len, code.values())) / 1024, number(r"seconds: ([\d.]+)", log) if "seconds: cached" not in log else "cached"]
    problems = []
    if set(code) != {name}:
        problems.append(f"holds {sorted(code)}, expected the kernel alone")
    if spilled:
        problems.append(f"spills {spilled:.0f} bytes")
    local = sorted(set().union(*map(instructions, code.values())) & set(LOCAL_MEMORY.values()))
    if stack or local:
        problems.append(f"touches local memory: {stack:.0f} bytes of stack, {' '.join(local) or 'no instruction found'}")
    return row, [f"{name} {architecture}: {problem}" for problem in problems]


def table(rows):
    def cells(row):
        return [value if isinstance(value, str) else f"{value:.1f}" if i >= 6 else f"{value:.0f}" for i, value in enumerate(row)]

    lines = [COLUMNS, ["---", "---"] + ["---:"] * (len(COLUMNS) - 2), *map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main():
    path, *cubins = map(pathlib.Path, sys.argv[1:])
    rows, problems = [], []
    for cubin in cubins:
        row, found = read(cubin)
        rows.append(row)
        problems += found
    path.write_text(table(sorted(rows, key=lambda row: row[:2])))
    taken = [row[-1] for row in rows if row[-1] != "cached"]
    cached = f" and {len(rows) - len(taken)} had from a cache" if len(taken) < len(rows) else ""
    print("\n".join([*problems, f"{len(taken)} kernels compiled in {sum(taken):.0f} s of processor time{cached}, "
                                f"{len(problems)} problems: {path}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
