#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/check_kernels.py: compiles a .cu for an architecture and looks at the machine code.

usage: check_kernels.py EXPECT CUBIN -- NVCC ARGUMENT ...     NVCC writes CUBIN; exit status 1 if anything is amiss

EXPECT is a file of lines `architecture kernel instruction ...`: every kernel whose linker name contains `kernel` holds each of these
instructions, and so does at least one kernel. No kernel spills registers, has a stack or touches local memory.

The instructions are read from the cubin itself, an ELF file with a section of 16-byte instructions per kernel, so no disassembler
is needed. Bits 0-11 are the opcode; a copy by tensor map has its rank - 1 in bits 79-81 and gather4 in bit 84. This is so on
sm_90 and sm_100; that the kernels' instructions are found at all is part of the check.
"""
import pathlib
import re
import struct
import subprocess
import sys

TENSOR_COPIES = {0x5B4: "UTMALDG", 0x3B5: "UTMASTG"}
OTHERS = {0xFAE: "LDGSTS", 0x83B: "LDSM", 0x23C: "HMMA"}  # cp.async, ldmatrix, mma.sync
LOCAL_MEMORY = {0x983: "LDL", 0x387: "STL"}


def sections(elf):
    """(name, contents) of every section of a 64-bit little-endian ELF file."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, kind, _, _, at, length in headers:
        end = elf.index(b"\0", names + name)
        if kind == 1:  # SHT_PROGBITS
            yield elf[names + name : end].decode(), elf[at : at + length]


def instructions(code):
    for at in range(0, len(code) - 15, 16):
        low, high = struct.unpack_from("<QQ", code, at)
        opcode = low & 0xFFF
        if opcode in TENSOR_COPIES:
            gather = ".GATHER4" if high >> 20 & 1 else ""
            yield f"{TENSOR_COPIES[opcode]}.{(high >> 15 & 7) + 1}D{gather}"
        elif opcode in OTHERS | LOCAL_MEMORY:
            yield (OTHERS | LOCAL_MEMORY)[opcode]


def check_spills(log):
    found = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    if not found:
        yield "ptxas reported no kernel"
    for stack in re.findall(r"(\d+) bytes stack frame", log):
        if int(stack) != 0:
            yield f"a kernel has {stack} bytes of stack"
    for stores, loads in found:
        if int(stores) + int(loads) != 0:
            yield f"a kernel spills: {stores} bytes of stores, {loads} bytes of loads"


def check_instructions(cubin, expected):
    kernels = {name.removeprefix(".text."): set(instructions(code)) for name, code in sections(cubin) if name.startswith(".text.")}
    for name, found in sorted(kernels.items()):
        for local in sorted(found & set(LOCAL_MEMORY.values())):
            yield f"{name}: touches local memory ({local})"
    for part, wanted in expected:
        matching = {name: found for name, found in kernels.items() if part in name}
        if not matching:
            yield f"no kernel is named {part}"
        for name, found in sorted(matching.items()):
            yield from (f"{name}: no {instruction}, has {sorted(found)}" for instruction in wanted if instruction not in found)
    copies = sum(len(found) for found in kernels.values())
    print(f"{len(kernels)} kernels, {copies} kinds of instruction looked for in them")


def main():
    separator = sys.argv.index("--")
    expect, cubin = map(pathlib.Path, sys.argv[1:separator])
    command = sys.argv[separator + 1 :]
    architecture = next(a.removeprefix("-arch=") for a in command if a.startswith("-arch="))
    lines = [line.split() for line in expect.read_text().splitlines() if line and not line.startswith("#")]
    expected = [(kernel, wanted) for arch, kernel, *wanted in lines if arch in (architecture, "all")]
    compiled = subprocess.run([*command, "-cubin", "-Xptxas", "-v", "-o", cubin], capture_output=True, text=True)
    if compiled.returncode != 0:
        sys.exit(compiled.stdout + compiled.stderr)
    problems = [*check_spills(compiled.stderr), *check_instructions(cubin.read_bytes(), expected)]
    print("\n".join([*problems, f"{architecture}: {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
