#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/objects.py: what compiled objects may contain.

usage: objects.py --nm NM weak LIST                 no object of LIST defines a weak symbol
       objects.py --nm NM exported LIBRARY GOLDEN   the library exports exactly the names of GOLDEN (and --write makes GOLDEN)

LIST is a file of object paths, one per line. Breaches are printed, one per line; exit status 1 if there is one.

Weak symbols: an inline function compiled for a wider instruction set has the same name as its baseline twin, the linker keeps one of
them, and a machine without that instruction set may get the wrong one. So objects of ISA folders define none at all.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

# A pointer to the C++ run-time's unwinding routine, the same in every object and no code: `noexcept` needs it.
PERSONALITY = "DW.ref.__gxx_personality_v0"


def symbols(nm, path, *options):
    """(type, name) of every symbol that nm shows."""
    output = subprocess.run([nm, *options, path], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 2 and len(fields[-2]) == 1:
            yield fields[-2], fields[-1]


def read_list(path):
    objects = [os.path.normpath(line) for line in pathlib.Path(path).read_text().splitlines() if line]
    if not objects:
        sys.exit(f"{path} names no object")
    return objects


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return text.splitlines()


def weak(nm, objects):
    for path in objects:
        found = [name for kind, name in symbols(nm, path, "--defined-only") if kind in "WVu" and name != PERSONALITY]
        for name in demangled(found):
            yield f"{path}: weak symbol {name}"


def exported(nm, library):
    """Demangled names that folio itself exports. libstdc++'s own templates are visible by its choice and left out."""
    names = [name.split("@")[0] for _, name in symbols(nm, library, "-D", "--defined-only")]
    return sorted({name for name in demangled(names) if "folio::" in name.split("(")[0] or not is_standard(name)})


def is_standard(name):
    return re.match(r"(\w+ )*(std::|__gnu_cxx::|void std::|bool std::|(vtable|typeinfo|typeinfo name) for std::)", name) is not None


def compare_exported(names, golden_path):
    golden = golden_path.read_text().splitlines()
    for name in sorted(set(names) - set(golden)):
        yield f"exported, but not in {golden_path.name}: {name}"
    for name in sorted(set(golden) - set(names)):
        yield f"in {golden_path.name}, but no longer exported: {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("weak").add_argument("list")
    export = modes.add_parser("exported")
    export.add_argument("library")
    export.add_argument("golden", type=pathlib.Path)
    export.add_argument("--write", action="store_true")
    args = parser.parse_args()

    if args.mode == "weak":
        breaches = list(weak(args.nm, read_list(args.list)))
    else:
        names = exported(args.nm, args.library)
        if args.write:
            args.golden.write_text("\n".join(names) + "\n")
        breaches = list(compare_exported(names, args.golden))
    for breach in breaches:
        print(breach)
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
