#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/sources.py: rules that every source file keeps and that a text search can see.

usage: sources.py ROOT        prints `file:line: rule` for each breach; exit status 1 if there is one

  own name   a class of a namespace is defined in one file: two of one name are one to the linker, which takes the members of either
  head       first line is the SPDX line; in C++ the second is `/// path: purpose`, which ends as the file's own
  length     at most 800 lines, but for stubs, which a tool writes; lines of at most 100 characters
  once       headers begin with #pragma once
  public     public headers depend on no NDEBUG and no instruction-set macro, and include no CUDA, intrinsics or OpenMP header
  listed     every public header stands in cmake/FolioHeaders.cmake, and nothing else does
  direction  a folder includes only what DIRECTION allows it
  open end   no TODO, FIXME or XXX
  name       tests of gtest are called by sentences in snake_case; what they quote keeps its capitals
  seed       no random test but by test_seed() (tests/support/random.h)
  own folder no test writes to the folder of temporary files itself, where others' files have the same names
  status     no test of ctest has properties that make it ignore an exit status, or take any failure for the one that is meant
"""
import pathlib
import re
import sys

CODE = {".h", ".cpp", ".cuh", ".cu"}
OTHER = {".py", ".pyi", ".sh", ".cmake", ".yml"}
MAX_LINES, MAX_COLUMNS = 800, 100

# folder -> what may stand between the quotes of its includes. `folio/x/` are public headers, the rest lies in src/, or in the tool.
PUBLIC_CORE = ["folio/core/"]
PUBLIC_CACHE = PUBLIC_CORE + ["folio/tma/", "folio/cache/"]
PUBLIC_ATTENTION = PUBLIC_CACHE + ["folio/attention/"]
KERNELS = PUBLIC_ATTENTION + ["core/", "cache/"]
INDEX_KERNELS = KERNELS + ["folio/sparse/"]
# Of the tool: each may include those in front of it.
ROOMS = ["parts/", "load/", "tiers/", "replay/", "report/", "capacity/"]
POOL = PUBLIC_CORE + ["folio/cache/page_table.h", "folio/pool/", "core/"]
DIRECTION = {
    "include/folio/core/": PUBLIC_CORE,
    "include/folio/tma/": PUBLIC_CORE + ["folio/tma/"],
    "include/folio/cache/": PUBLIC_CACHE,
    "include/folio/attention/": PUBLIC_ATTENTION,
    "include/folio/sparse/": PUBLIC_ATTENTION + ["folio/sparse/"],
    "include/folio/pool/": PUBLIC_CORE + ["folio/cache/page_table.h", "folio/pool/"],
    "include/folio/names/": PUBLIC_CORE + ["folio/pool/name.h", "folio/c/pool_functions.h", "folio/names/"],
    "include/folio/testing/medium_": PUBLIC_CORE + ["folio/pool/name.h", "folio/testing/medium_", "folio/tier/"],
    "include/folio/testing/": PUBLIC_CACHE + ["folio/testing/"],
    "src/core/": PUBLIC_CORE + ["core/"],
    "src/tma/": PUBLIC_CORE + ["folio/tma/", "core/", "tma/"],
    "src/cache/": PUBLIC_CACHE + ["core/", "cache/"],
    "src/reference/": INDEX_KERNELS + ["reference/"],
    "src/kernel/": INDEX_KERNELS + ["kernel/"],
    "src/cpu/": INDEX_KERNELS + ["kernel/", "cpu/"],
    "src/cuda/": KERNELS + ["kernel/", "cuda/"],
    "src/no_cuda/": PUBLIC_ATTENTION + ["cuda/runtime/"],
    "src/attention/": KERNELS + ["kernel/", "reference/", "cpu/", "cuda/", "attention/"],
    "src/sparse/": INDEX_KERNELS + ["kernel/", "cpu/", "attention/", "sparse/"],
    "src/mask/": KERNELS + ["kernel/", "cpu/features.h", "mask/"],
    "include/folio/c/": ["folio/c/"],
    "src/c/": PUBLIC_ATTENTION + ["folio/sparse/", "folio/pool/", "folio/c/", "c/"],
    "src/pool/pages/": POOL + ["pool/pages/"],
    "src/pool/groups/": POOL + ["pool/pages/", "pool/groups/"],
    "src/pool/eviction/": POOL + ["pool/pages/", "pool/groups/", "pool/eviction/"],
    "src/pool/outside/": POOL + ["pool/pages/", "pool/outside/"],
    "src/pool/lookup/": POOL + ["pool/pages/", "pool/eviction/", "pool/outside/", "pool/lookup/"],
    "src/pool/": POOL + ["pool/"],
    "src/names/": PUBLIC_CORE + ["folio/pool/name.h", "folio/names/", "names/"],
    "cli/parts/": ["folio/", "parts/"],
    "cli/load/": ["folio/", *ROOMS[:2]],
    "cli/tiers/": ["folio/", *ROOMS[:3]],
    "cli/replay/": ["folio/", "reference/", "support/", *ROOMS[:4]],
    "cli/report/": ["folio/", *ROOMS[:5]],
    "cli/capacity/": ["folio/", *ROOMS],
    "cli/directory/": ["folio/", "parts/", "directory/"],
    "cli/transfer/": ["folio/", "parts/", "transfer/"],
    "cli/watch/": ["folio/", "parts/", "watch/"],
    "cli/": ["folio/", *ROOMS, "directory/", "transfer/", "watch/"],
    "bench/": ["folio/", "reference/", "support/", "cpu/features.h", "cpu/append/rows.h", "attention/kernel_list.h", "tier/disk/file_io.h"],
    "fuzz/": ["folio/", "pool/", "load/", "tier/transfer/"],
    "examples/": ["folio/"],
    "clients/": ["folio/"],
    "python/src/tiers/": ["folio/", "../"],
    "python/src/": ["folio/", "tiers/observers.h"],
}
# What a program is made of is included by its name alone.
PROGRAMS = {"cli/", "bench/", "fuzz/", "examples/", "python/src/tiers/", "python/src/", "clients/"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
BUILD_MACRO = re.compile(r"\b(NDEBUG|__AVX\w*|__SSE\w*|__FMA__|__F16C__|__AMX\w*|__ARM_\w+)\b")
HEAVY_HEADER = re.compile(r"(cuda|cuda_\w+|cooperative_groups)\.h|\w*intrin\.h|omp\.h|arm_\w+\.h")
SHARED_FOLDER = re.compile(r"\bTempDir\(\)")
TEST_NAME = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\w+, ([A-Z]\w*|[a-z0-9]+[A-Z][A-Za-z0-9]*)\)")
FRESH_SEED = re.compile(r"\brandom_device\b")
STATUS_IGNORED = re.compile(r"\b(PASS_REGULAR_EXPRESSION|WILL_FAIL|SKIP_REGULAR_EXPRESSION|SKIP_RETURN_CODE)\b")
OPEN_END = re.compile(r"\b(TODO|FIXME|XXX)\b")


def check_head(path, lines):
    first, second = (lines + ["", ""])[:2]
    if path.suffix in CODE:
        if first != "// SPDX-License-Identifier: Apache-2.0":
            yield 1, "head: the first line is not the SPDX line"
        named = second.removeprefix("/// ").split(": ")[0]
        if not second.startswith("/// ") or not f"/{path}".endswith(f"/{named}"):
            yield 2, f"head: expected `/// {str(path).removeprefix('include/')}: purpose`"
    elif "SPDX-License-Identifier: Apache-2.0" not in first + second:
        yield 1, "head: no SPDX line"


def check_length(path, lines):
    if len(lines) > MAX_LINES and path.suffix != ".pyi":
        yield len(lines), f"length: {len(lines)} lines, at most {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if path.suffix in CODE and len(line) > MAX_COLUMNS:
            yield number, f"length: {len(line)} characters, at most {MAX_COLUMNS}"


def allowed_includes(path):
    for folder, allowed in DIRECTION.items():
        if str(path).startswith(folder):
            return folder, allowed
    return None, None


def check_code(path, lines):
    is_public = str(path).startswith("include/")
    folder, allowed = allowed_includes(path)
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield 1, "once: #pragma once is missing"
    for number, line in enumerate(lines, 1):
        if OPEN_END.search(line):
            yield number, "open end: finish it, or write an issue"
        if SHARED_FOLDER.search(line):
            yield number, "own folder: expected a TemporaryFolder (tests/support/temporary_folder.h)"
        test = TEST_NAME.match(line)
        if test:
            yield number, f"name: {test[1]}, expected a sentence in snake_case"
        if FRESH_SEED.search(line):
            yield number, "seed: expected test_seed() (tests/support/random.h)"
        if is_public and BUILD_MACRO.search(line):
            yield number, "public: depends on NDEBUG or an instruction-set macro"
        include = INCLUDE.match(line)
        if not include:
            continue
        kind, name = include.groups()
        if is_public and HEAVY_HEADER.fullmatch(name.rsplit("/", 1)[-1]):
            yield number, f"public: includes {name}"
        is_ours = kind == '"' or name.startswith("folio/")
        if folder in PROGRAMS and "/" not in name:
            continue
        if is_ours and allowed is not None and not any(name.startswith(prefix) for prefix in allowed):
            yield number, f"direction: {folder} may not include {name}"


def is_cmake(path):
    return path.suffix == ".cmake" or path.name == "CMakeLists.txt"


def check_cmake(path, lines):
    for number, line in enumerate(lines, 1):
        ignored = STATUS_IGNORED.search(line)
        if ignored and path != pathlib.Path("tests/support/expect.cmake"):
            yield number, f"status: {ignored[0]}, expected folio_expect"


def check_listed(root, files):
    present = {str(f).removeprefix("include/") for f in files if str(f).startswith("include/")}
    text = (root / "cmake/FolioHeaders.cmake").read_text()
    listed = set(re.findall(r"folio/\S+\.h", text))
    for name in sorted(present - listed):
        yield "cmake/FolioHeaders.cmake", 1, f"listed: {name} is missing"
    for name in sorted(listed - present):
        yield "cmake/FolioHeaders.cmake", 1, f"listed: {name} does not exist"


NAMESPACE = re.compile(r"namespace ?(.*?) ?\{")
CLASS = re.compile(r"(?:class|struct|union|enum class|enum)\s+(?:[A-Z]+_\w+\s+)?(?:alignas\(\d+\)\s+)?([\w:]+)(?: final)?\s*(?::[^:].*)?\{")
LIBRARY = ("include/", "src/", "cli/")


def classes_of(lines):
    """Line and qualified name of each class that other files may have, too."""
    spaces = []
    for number, line in enumerate(lines, 1):
        space, named = NAMESPACE.match(line), CLASS.match(line)
        if space:
            spaces.append(space[1])
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif named and "" not in spaces:
            yield number, "::".join([*spaces, named[1]])


def check_own_names(root, files):
    """`no_x` stands for x in builds without it."""
    places = {}
    for path in files:
        if path.suffix not in CODE or path.name.startswith("no_") or not str(path).startswith(LIBRARY):
            continue
        for number, name in classes_of((root / path).read_text().splitlines()):
            first = places.setdefault(name, path)
            if first != path:
                yield path, number, f"own name: {name} is defined in {first}"


def project_files(root):
    folders = ["include", "src", "cli", "tests", "bench", "examples", "tools", "cmake", "findings", "fuzz", "python", "clients"]
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if (path.suffix in CODE | OTHER or is_cmake(path)) and path.is_file():
                yield path.relative_to(root)


def check(root):
    files = list(project_files(root))
    for path in files:
        lines = (root / path).read_text().splitlines()
        found = list(check_head(path, lines)) + list(check_length(path, lines))
        if path.suffix in CODE:
            found += check_code(path, lines)
        if is_cmake(path):
            found += check_cmake(path, lines)
        for number, rule in found:
            yield path, number, rule
    yield from check_listed(root, files)
    yield from check_own_names(root, files)


def main():
    breaches = list(check(pathlib.Path(sys.argv[1])))
    for path, number, rule in breaches:
        print(f"{path}:{number}: {rule}")
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
