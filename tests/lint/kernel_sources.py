#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/kernel_sources.py: CUDA kernels are plain C++ over a Thread; instructions stand in src/cuda/primitives alone.

usage: kernel_sources.py ROOT        prints `file:line: rule` for each breach; exit status 1 if there is one

  asm           no inline assembly
  intrinsic     no name that begins with two underscores (__shfl_sync, __syncthreads, __ldg, __global__, ...), but for built-ins of the compilers
  index         no threadIdx, blockIdx, blockDim, gridDim, warpSize
  include       no header of CUDA, and none of src/cuda/primitives but those that are plain C++ (device.h, machine.h, debug.h)
  fused         no fma but the Thread's: std::fma and fmaf, which the two sides would fuse differently

Looked at are the sources under src/cuda/ but for src/cuda/primitives/ (the machine itself) and src/cuda/runtime/ (the host's side).
Comments and strings do not count.
"""
import pathlib
import re
import sys

FOLDER = "src/cuda"
APART = {"primitives", "runtime"}
PLAIN_PRIMITIVES = {"cuda/primitives/device.h", "cuda/primitives/machine.h", "cuda/primitives/debug.h"}
# What g++, clang and nvcc all have, on both sides; macros that tell the sides apart.
ALLOWED = re.compile(r"__builtin_\w+|__CUDACC__|__CUDA_ARCH__|__asm__")
RULES = [
    ("asm", re.compile(r"\b(asm|__asm__)\b")),
    ("index", re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|warpSize)\b")),
    ("fused", re.compile(r"(\bstd\s*::\s*fmaf?\b|(?<![\w.>:])fmaf?\s*\()")),
]
INTRINSIC = re.compile(r"\b__\w+")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def code_of(text):
    """The text without comments and strings, line by line as before; what is included stays."""
    def blank(match):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if match.group(0).startswith('"') and re.match(r"\s*#\s*include\s*$", before):
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', blank, text, flags=re.DOTALL)


def breaches_of(line):
    include = INCLUDE.match(line)
    if include:
        name = include.group(2)
        is_cuda = include.group(1) == "<" and re.match(r"(cuda|cub|thrust|cooperative_groups|mma|sm_\d+)", name)
        is_machine = name.startswith("cuda/primitives/") and name not in PLAIN_PRIMITIVES
        if is_cuda or is_machine or name.endswith(".cuh"):
            yield f"include: {name} is of one side alone"
        return
    for rule, pattern in RULES:
        for match in pattern.finditer(line):
            yield f"{rule}: {match.group(0).strip(' (')}: ask the Thread"
    for match in INTRINSIC.finditer(line):
        word = match.group(0)
        if not ALLOWED.fullmatch(word):
            yield f"intrinsic: {word}: ask the Thread"


def check(root):
    for path in sorted((root / FOLDER).rglob("*")):
        name = path.relative_to(root)
        if path.suffix not in {".h", ".cuh", ".cu", ".cpp"} or (len(name.parts) > 2 and name.parts[2] in APART):
            continue
        for number, line in enumerate(code_of(path.read_text(encoding="utf-8")).splitlines(), 1):
            yield from (f"{name}:{number}: {breach}" for breach in breaches_of(line))


def main():
    breaches = list(check(pathlib.Path(sys.argv[1])))
    print("\n".join([*breaches, f"{len(breaches)} breaches"]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
