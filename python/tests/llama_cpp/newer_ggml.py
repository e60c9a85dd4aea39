# SPDX-License-Identifier: Apache-2.0
"""Libraries of llama.cpp that no release of llama-cpp-python carries yet: those of the package
llama-cpp-py-sync, from PyPI, with its own Python interface.

They are built on a newer system. Where this one's C library is older than theirs, the versions that
they ask of it are marked as dispensable, and the four functions that are new in it stand in a library
that is loaded before (`libisoc23.so`).
"""

from __future__ import annotations

import os
import pathlib
import platform
import struct
import subprocess
import sys

# llama-cpp-py-sync (0.N is llama.cpp's build N) -> ggml. Of 0.25.3 both: backend API 2 and 3.
NEWER = {"0.11327": "0.25.3", "0.11352": "0.25.3", "0.11548": "0.26.0", "0.11739": "0.27.0"}
PROGRAM = pathlib.Path(__file__).with_name("newer_ggml_run.py")
PROMPT, STEPS = (
    90,
    12,
)  # tokens of its prompt, and logits that it writes: behind that, and behind each step
REQUIREMENTS = ["cffi==2.1.1", "pycparser==3.12"]
THEIR_GLIBC = (2, 38)
NEW_FUNCTIONS = """
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
extern "C" {
long __isoc23_strtol(const char* s, char** e, int b) { return strtol(s, e, b); }
unsigned long __isoc23_strtoul(const char* s, char** e, int b) { return strtoul(s, e, b); }
unsigned long long __isoc23_strtoull(const char* s, char** e, int b) { return strtoull(s, e, b); }
int __isoc23_sscanf(const char* s, const char* f, ...) {
  va_list more;
  va_start(more, f);
  const int found = vsscanf(s, f, more);
  va_end(more);
  return found;
}
}
"""
SHT_GNU_VERNEED, VER_FLG_WEAK = 0x6FFFFFFE, 2


def install(version: str, folder: pathlib.Path) -> dict[str, str]:
    """Installs a version into a folder; the variables of a process that imports it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    packages = [f"llama-cpp-py-sync=={version}", *REQUIREMENTS]
    subprocess.run([*pip, "--target", folder, *packages], check=True)
    variables = {"PYTHONPATH": os.pathsep.join([str(folder), str(pathlib.Path(__file__).parent)])}
    if tuple(map(int, platform.libc_ver()[1].split("."))) >= THEIR_GLIBC:
        return variables
    for library in (folder / "llama_cpp_py_sync").glob("lib*.so*"):
        library.write_bytes(dispense(library.read_bytes(), "GLIBC_{}.{}".format(*THEIR_GLIBC)))
    source, preloaded = folder / "isoc23.cpp", folder / "libisoc23.so"
    source.write_text(NEW_FUNCTIONS)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", preloaded, source], check=True)
    return {**variables, "LD_PRELOAD": str(preloaded)}


def dispense(elf: bytes, version: str) -> bytes:
    """The library (ELF, 64 bits, little-endian), which no longer insists on a version of another."""
    data = bytearray(elf)
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + i * size) for i in range(count)]
    for _, kind, _, _, offset, _, link, needed, _, _ in headers:
        if kind != SHT_GNU_VERNEED:
            continue
        names = headers[link][4]
        for _ in range(needed):
            _, versions, _, at, to_next = struct.unpack_from("<HHIII", data, offset)
            at += offset
            for _ in range(versions):
                _, flags, _, name, step = struct.unpack_from("<IHHII", data, at)
                if data[names + name : data.index(0, names + name)] == version.encode():
                    struct.pack_into("<H", data, at + 4, flags | VER_FLG_WEAK)
                at += step
            offset += to_next
    return bytes(data)
