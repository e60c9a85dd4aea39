#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/run_path.py: what the run path reaches allocates nothing, locks nothing and throws nothing.

usage: run_path.py [--readelf READELF] [--list] ARCHIVE_OR_LIST ROOT ...

Builds the graph of what refers to what in a library, from its relocations, and walks it from the roots: names of functions
(`folio::v1::attend`, every overload) or of tables of functions (`all_kernels`). Every name that is reached and that the library does not
define must be in KNOWN below: whatever is not known to be harmless is a breach, printed with the way that leads to it. Exit status 1 if
there is one. ARCHIVE_OR_LIST is an archive, or a file of object paths. --list prints the functions that are reached instead.

The graph is one of sections, so objects are compiled with -ffunction-sections -fdata-sections. Calls through pointers are followed where
the pointer is taken: a table that a function refers to is reached with all its entries. What a caller passes (an executor's functions) is
the caller's.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

# Where the walk ends, and why.
CUT = {
    r"folio::v1::Status::(make|copy|format)\(.*": "makes or copies the message of a failure: allocates then, and only then",
    r"folio::v1::Status::destroy\(.*": "frees the message of a failure",
    r"folio::cuda::driver\(.*": "finds the CUDA driver, once in a process: Attention::create has asked for it",
    r"folio::cuda::read_device_facts\(.*": "asks the driver; not once a device's kernels are loaded",
    r"folio::cuda::load_kernels\(.*": "loads kernels, once for a device: Attention::create does; refused while a stream is captured",
}

# What the run path may use of others: pure functions, what `noexcept` itself needs, and what is said beside it.
KNOWN = {
    r"memcpy|memmove|memset|memcmp|bcmp|strlen": "bytes",
    r"(exp|exp2|log|log2|tanh|sqrt|sin|cos|rint|nearbyint|floor|ceil|round|fma)f?": "arithmetic",
    r"__(u?(div|mod)[dt]i\d|(extend|trunc|float|fix|popcount)\w+|multi3)": "arithmetic of the compiler's run-time library",
    r"_Unwind_Resume|__gxx_personality_v0|__cxa_begin_catch|_ZSt9terminatev": "noexcept: ends the process if something throws",
    r"__cxa_end_catch": "what an executor throws is caught; nothing of ours throws",
    r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail": "the linker's and the system's",
    r"__cpu_model|__cpu_indicator_init|syscall": "which processor this is; asked once, see features.cpp",
    r"snprintf": "numbers in the names of arguments, into the caller's memory; on failure only",
    r"sched_yield": "attend_task, while all its workers' memory is in use",
}

# How a breach is called; anything else "is not known to be harmless".
VERBS = {
    "allocates": r"_Zn[wa]\w*|_Zd[la]\w*|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup",
    "locks": r"pthread_(mutex|rwlock|spin|cond|once)\w*|sem_\w+|__cxa_guard_\w+|GOMP_\w+|_ZNSt(6thread|5mutex|18condition_variable)\w*",
    "throws": r"__cxa_throw|__cxa_rethrow|__cxa_allocate_exception|_ZSt\d+__throw_\w+",
    "reads the environment": r"getenv|secure_getenv",
    "prints": r"(v?f?printf|puts|fputs|fwrite|putchar)(_chk)?|_ZSt4(cout|cerr|clog)",
}

# Sections that describe code, and are none.
DESCRIPTIONS = re.compile(r"\.(eh_frame|debug|gcc_except_table|note|comment|group)")

# (object, section) -> names it refers to, or sections of the same object
Library = collections.namedtuple("Library", "edges symbols section_of_global names")


def read_library(readelf, paths):
    text = subprocess.run([readelf, "--wide", "--sections", "--symbols", "--relocs", *paths], check=True, capture_output=True,
                          text=True).stdout
    library = Library(collections.defaultdict(list), collections.defaultdict(dict), {}, {})
    current = paths[0]
    sections, section = {}, None
    for line in text.splitlines():
        if match := re.match(r"File: (.*)", line):
            current, sections, section = match[1], {}, None
        elif match := re.match(r"\s*\[ *(\d+)\] (\S+) ", line):
            sections[match[1]] = match[2]
        elif match := re.match(r"Relocation section '\.rela?(\.\S+)'", line):
            section = match[1]
        elif line.startswith("Symbol table"):
            section = None
        elif section is not None and (match := re.match(r"[0-9a-f]+ +[0-9a-f]+ +R_\S+ +[0-9a-f]+ +(\S+)", line)):
            if not DESCRIPTIONS.match(section):
                library.edges[current, section].append(match[1])
        elif match := re.match(r"\s*\d+: [0-9a-f]+ +\S+ (\w+) +(\w+) +\w+ .*?(\S+) (\S+)$", line):
            kind, binding, index, name = match.groups()
            if index not in sections or DESCRIPTIONS.match(sections[index]):
                continue
            library.symbols[current][name] = sections[index]
            if kind in ("FUNC", "OBJECT", "IFUNC"):
                library.names.setdefault((current, sections[index]), name)
            if binding != "LOCAL":
                library.section_of_global.setdefault(name, (current, sections[index]))
    return library


def demangled(names):
    names = list(names)
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, text.splitlines()))


def node_of(library, current, name):
    """The section that a reference means; None: another library's."""
    name = name.split("@")[0]
    own = library.symbols[current].get(name)
    if own is not None:
        return current, own
    if name.startswith("."):  # a section that has no symbol of its own
        return current, name
    return library.section_of_global.get(name)


def find_roots(library, plain, roots):
    found = {}
    for root in roots:
        wanted = re.compile(rf"(?:.*::)?{re.escape(root)}(?:\(.*|$)" if "::" not in root else rf"{re.escape(root)}(?:\(.*|$)")
        nodes = [(current, section) for current, names in library.symbols.items() for name, section in names.items()
                 if wanted.fullmatch(plain.get(name, name))]
        if not nodes:
            yield root, None
        for node in nodes:
            found[node] = root
    yield from ((root, node) for node, root in found.items())


def walk(library, plain, roots):
    """(way, name) of every reference out of the library, and the nodes that were reached."""
    came_from = {node: None for node in roots}
    queue = collections.deque(roots)
    outside = []
    while queue:
        node = queue.popleft()
        for name in library.edges.get(node, []):
            if name.startswith("DW.ref."):
                continue
            to = node_of(library, node[0], name)
            if to is None:
                outside.append((node, name.split("@")[0]))
            elif to not in came_from and not is_cut(plain.get(library.names.get(to), "")):
                came_from[to] = node
                queue.append(to)
    return outside, came_from


def is_cut(function):
    return any(re.fullmatch(pattern, function) for pattern in CUT)


def way_to(node, library, plain, came_from):
    steps = []
    while node is not None:
        name = plain.get(library.names.get(node), node[1])
        steps.append(re.sub(r"\(.*", "", name.replace("(anonymous namespace)::", "").replace("folio::v1::", "")))
        node = came_from[node]
    return " < ".join(steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("library")
    parser.add_argument("roots", nargs="+")
    args = parser.parse_args()

    is_list = args.library.endswith(".txt")
    paths = [line for line in pathlib.Path(args.library).read_text().splitlines() if line] if is_list else [args.library]
    library = read_library(args.readelf, paths)
    plain = demangled({name for names in library.symbols.values() for name in names})
    breaches, nodes = [], []
    for root, node in find_roots(library, plain, args.roots):
        if node is None:
            breaches.append(f"{root}: no such function or table in {args.library}")
        else:
            nodes.append(node)
    outside, came_from = walk(library, plain, nodes)
    if args.list:
        print("\n".join(sorted({plain.get(library.names.get(node), node[1]) for node in came_from})))
        return 0

    names = demangled({name for _, name in outside})
    seen = set()
    for node, name in outside:
        if (node, name) in seen or any(re.fullmatch(pattern, name) for pattern in KNOWN):
            continue
        seen.add((node, name))
        verb = next((verb for verb, pattern in VERBS.items() if re.fullmatch(pattern, name)), "is not known to be harmless")
        breaches.append(f"{verb}: {names[name]} < {way_to(node, library, plain, came_from)}")
    for breach in sorted(breaches):
        print(breach)
    print(f"{len(came_from)} functions and tables reached, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
