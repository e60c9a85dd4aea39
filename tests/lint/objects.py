#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/objects.py: what compiled objects may contain.

usage: objects.py --nm NM weak LIST                 no object of LIST defines a weak symbol
       objects.py --nm NM run-path LIST SOURCE ...  the objects of these sources refer to no allocator, no lock and no throw
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

# Of the run path: what it allocates with, locks with or throws with, by linker name. Allowed are std::terminate and the personality
# routine, which `noexcept` itself needs.
FORBIDDEN = {
    "allocates": r"_Zn[wa]\w*|_Zd[la]\w*|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup",
    "locks": r"pthread_(mutex|rwlock|spin|cond|once)\w*|sem_\w+|__cxa_guard_\w+|GOMP_\w+|_ZNSt(6thread|5mutex|18condition_variable)\w*",
    "throws": r"__cxa_throw|__cxa_rethrow|__cxa_allocate_exception|_ZSt\d+__throw_\w+",
    "reads the environment": r"getenv|secure_getenv",
    "prints": r"(v?f?printf|puts|fputs|fwrite|putchar)(_chk)?|_ZSt4(cout|cerr|clog)",
}

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


def run_path(nm, objects, sources):
    for source in sources:
        matching = [o for o in objects if re.search(rf"(^|/){re.escape(source)}\.o(bj)?$", o)]
        if not matching:
            yield f"{source}: no object of it was built"
        for path in matching:
            undefined = [name.split("@")[0] for _, name in symbols(nm, path, "--undefined-only")]
            for verb, pattern in FORBIDDEN.items():
                for name in demangled([name for name in undefined if re.fullmatch(pattern, name)]):
                    yield f"{path}: {verb}: {name}"


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
    run = modes.add_parser("run-path")
    run.add_argument("list")
    run.add_argument("sources", nargs="+")
    export = modes.add_parser("exported")
    export.add_argument("library")
    export.add_argument("golden", type=pathlib.Path)
    export.add_argument("--write", action="store_true")
    args = parser.parse_args()

    if args.mode == "weak":
        breaches = list(weak(args.nm, read_list(args.list)))
    elif args.mode == "run-path":
        breaches = list(run_path(args.nm, read_list(args.list), args.sources))
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
