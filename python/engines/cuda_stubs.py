#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python/engines/cuda_stubs.py: lets PyPI's torch be imported where no CUDA library is installed.

usage: PYTHON python/engines/cuda_stubs.py
    PYTHON: that of an environment with torch and nvidia-cuda-runtime

Test equipment for machines without a GPU; never do this to an environment that is to use one.
torch's libraries name libraries of CUDA that the loader insists on, with every function, although a
program on a CPU calls none. For each one that cannot be found this writes a stand-in into
torch/lib, where the loader looks first: same name, same symbol versions, and functions that return
an error. The CUDA runtime alone is real, as torch calls it while it is loaded.
"""

from __future__ import annotations

import collections
import ctypes
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

SITE = pathlib.Path(sysconfig.get_paths()["platlib"])
TORCH = SITE / "torch" / "lib"
# cudaErrorUnknown, CUBLAS_STATUS_... and so on: success for none of the libraries.
ERROR = 999


class Symbol(NamedTuple):
    name: str
    version: str
    is_defined: bool
    is_weak: bool


def readelf(option: str, path: pathlib.Path) -> list[str]:
    command = ["readelf", "--wide", option, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needed(path: pathlib.Path) -> list[str]:
    """The names of the libraries that `path` asks the loader for."""
    found = (re.search(r"\(NEEDED\).*\[(.+)\]", line) for line in readelf("--dynamic", path))
    return [match.group(1) for match in found if match]


def symbols(path: pathlib.Path) -> Iterator[Symbol]:
    for line in readelf("--dyn-syms", path):
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = fields[7].partition("@")
        yield Symbol(name, version.lstrip("@"), fields[6] != "UND", fields[4] == "WEAK")


def version_owners(path: pathlib.Path) -> dict[str, str]:
    """Which library `path` expects each symbol version from."""
    owners, library = {}, ""
    for line in readelf("--version-info", path):
        if match := re.search(r"\bFile: (\S+)", line):
            library = match.group(1)
        elif library and (match := re.search(r"\bName: (\S+)\s+Flags: ", line)):
            owners[match.group(1)] = library
    return owners


def can_be_loaded(name: str) -> bool:
    """Whether the loader finds a library by itself: the system's."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class Missing:
    """What torch's libraries ask for and nobody has: stand-in -> version -> function names."""

    def __init__(self) -> None:
        self.libraries = sorted(TORCH.glob("*.so*"))
        others = {path.name: path for path in SITE.glob("nvidia/*/lib/*.so*")}
        asked = {name for path in self.libraries for name in needed(path)}
        # No stand-in for the driver: its absence says that there is no GPU.
        asked -= {path.name for path in self.libraries} | {"libcuda.so.1"}
        self.names = {name for name in asked - others.keys() if not can_be_loaded(name)}
        present = self.libraries + [others[name] for name in asked & others.keys()]
        self.defined = {s.name for path in present for s in symbols(path) if s.is_defined}
        self.functions: dict[str, dict[str, set[str]]] = {
            name: collections.defaultdict(set) for name in self.names
        }
        for path in self.libraries:
            self.add(path)

    def add(self, path: pathlib.Path) -> None:
        stand_ins = sorted(self.names.intersection(needed(path)))
        if not stand_ins:
            return
        owners = version_owners(path)
        process = ctypes.CDLL(None)
        for symbol in symbols(path):
            if symbol.is_defined or symbol.is_weak:
                continue
            if symbol.version:
                owner = owners.get(symbol.version)
                if owner in self.names:
                    self.functions[owner][symbol.version].add(symbol.name)
            # Symbols without a version are found wherever they are: one stand-in serves.
            # Python's own come with the interpreter.
            elif symbol.name not in self.defined and not hasattr(process, symbol.name):
                self.functions[stand_ins[0]][""].add(symbol.name)


def write_library(name: str, functions: dict[str, set[str]]) -> None:
    """Compiles the stand-in `name` into torch/lib."""
    bodies = "".join(
        f"int {function}(void) {{ return {ERROR}; }}\n"
        for function in sorted(set().union(*functions.values()))
    )
    nodes = "".join(
        f"{version} {{ global: {' '.join(f'{function};' for function in sorted(names))} }};\n"
        for version, names in sorted(functions.items())
        if version
    )
    with tempfile.TemporaryDirectory() as folder:
        source, versions = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "stub.map")
        source.write_text(bodies or "typedef int nothing;\n")
        versions.write_text(nodes)
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
        command += ["-o", str(TORCH / name), str(source)]
        if nodes:
            command.append(f"-Wl,--version-script,{versions}")
        subprocess.run(command, check=True)


def main() -> None:
    if not TORCH.is_dir():
        sys.exit(f"cuda_stubs: no torch in {SITE}")
    missing = Missing()
    if any(name.startswith("libcudart.") for name in missing.names):
        sys.exit("cuda_stubs: the CUDA runtime must be real; install nvidia-cuda-runtime")
    for name, functions in sorted(missing.functions.items()):
        write_library(name, functions)
        print(f"{name}: {sum(map(len, functions.values()))} functions")


if __name__ == "__main__":
    main()
