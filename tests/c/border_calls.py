#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the headers of the C interface and writes border_calls.h: every function of the C interface as a struct of its
arguments, and every way to break one of them.

    border_calls.py include/folio/c border_walk_test.cpp border_sparse.h border_calls.h

Broken are, one at a time: each pointer (null), each integer (largest, smallest, -1) and each float
(NaN), among the arguments and, through pointers, among the fields of the structs that a function
reads. Of a struct that it fills, only the struct_size. Fails if the header has something that it
does not understand, or a function that no source of the walk has a `void fill(..., <function>_call&)` for: a
function without its walk is an error.
"""
import re
import sys
from pathlib import Path

INTEGERS = {
    "int": ("INT_MAX", "INT_MIN", "-1"),
    "int32_t": ("INT32_MAX", "INT32_MIN", "-1"),
    "int64_t": ("INT64_MAX", "INT64_MIN", "-1"),
    "uint32_t": ("UINT32_MAX", "uint32_t{1} << 31", "0"),
    "uint64_t": ("UINT64_MAX", "uint64_t{1} << 63", "0"),
    "size_t": ("SIZE_MAX", "SIZE_MAX / 2 + 1", "0"),
}
# of which none is wrong: bytes of a hash
BYTES = {"uint8_t"}
HANDLES = {"folio_attention", "folio_index", "folio_mask_reader", "folio_pool"}
# words that belong to folio, and text that it writes
OPAQUE = {"folio_plan", "folio_plan_fingerprint", "folio_message"}


class Unknown(Exception):
    pass


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def declarators(line):
    """`int64_t a, b[3]` -> (type, name, elements) each; a function pointer has the type `function`."""
    pointer = re.match(r".*?\(\*\s*(\w+)\)\s*\(.*\)$", line, re.S)
    if pointer:
        return [("function", pointer.group(1), 0)]
    head = re.match(r"(?P<type>(?:const\s+)?\w+(?:\s*\*+)?)\s*(?P<rest>\w.*)$", line, re.S)
    if not head:
        raise Unknown(f"a declaration of another form: {line}")
    kind = re.sub(r"\s*(\*+)", r"\1", head.group("type"))
    found = []
    for one in head.group("rest").split(","):
        name = re.match(r"\s*(\w+)(?:\[(\d+)\])?\s*$", one)
        if not name:
            raise Unknown(f"a name of another form: {one} in {line}")
        found.append((kind, name.group(1), int(name.group(2) or 0)))
    return found


class Header:
    def __init__(self, text):
        text = without_comments(text)
        self.aliases = dict((b, a) for a, b in re.findall(r"typedef (\w+) (\w+);", text))
        self.structs = {}
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}\s*\w+;", text, re.S):
            fields = [" ".join(f.split()) for f in body.split(";") if f.strip()]
            self.structs[name] = [d for f in fields for d in declarators(f)]
        self.functions = {}
        for result, name, arguments in re.findall(
                r"FOLIO_C_EXPORT\s+([\w\s]+?\*?)\s*\b(folio_\w+)\(([^)]*)\);", text):
            listed = " ".join(arguments.split())
            self.functions[name] = (
                result.strip(),
                [] if listed == "void" else [declarators(a.strip())[0] for a in listed.split(",")])
        if text.count("FOLIO_C_EXPORT") - text.count("define FOLIO_C_EXPORT") != len(self.functions):
            raise Unknown("a FOLIO_C_EXPORT that is no function of the known form")

    def cases(self, kind, path):
        """(path, value) of everything that can be broken at `path`."""
        kind = self.aliases.get(kind, kind)
        if kind in INTEGERS:
            return [(path, value) for value in INTEGERS[kind]]
        if kind in BYTES:
            return []
        if kind == "float":
            return [(path, "NAN")]
        if kind == "function":
            return [(path, "nullptr")]
        if not kind.endswith("*"):
            raise Unknown(f"the type {kind} of {path}")
        found = [(path, "nullptr")]
        target = kind.removesuffix("*").removeprefix("const ").strip()
        if target in HANDLES | OPAQUE or target.endswith("*") or target not in self.structs:
            known = HANDLES | OPAQUE | BYTES | set(INTEGERS) | set(self.aliases) | {"void", "char", "float"}
            if target.rstrip("*").strip().removeprefix("const ") not in known | set(self.structs):
                raise Unknown(f"the type {kind} of {path}")
            return found
        for field, name, elements in self.structs[target]:
            if not kind.startswith("const ") and name != "struct_size":
                continue
            names = [f"{name}[{i}]" for i in range(elements)] if elements else [name]
            for each in names:
                found += self.cases(field, f"{path}->{each}")
        return found


def declared(kind, name):
    return f"  {kind} {name} = {{}};"


def call_struct(header, name):
    result, arguments = header.functions[name]
    lines = [f"struct {name}_call {{"]
    lines += [declared(kind, argument) for kind, argument, _ in arguments]
    call = f"{name}({', '.join(argument for _, argument, _ in arguments)})"
    has_code = result == "folio_code"
    lines += [
        f'  static constexpr const char* function = "{name}";',
        f"  static constexpr bool has_code = {'true' if has_code else 'false'};",
        "  [[nodiscard]] folio_code run() const {",
        f"    return {call};" if has_code else f"    static_cast<void>({call});\n    return FOLIO_OK;",
        "  }",
        "  template <class Visit>",
        "  static void for_each_case(Visit visit) {",
    ]
    cases = [c for kind, argument, _ in arguments for c in header.cases(kind, argument)]
    if not cases:
        lines.append("    static_cast<void>(visit);")
    for path, value in cases:
        lines.append(f'    visit("{path} = {value}", [](const {name}_call& c) {{ '
                     f"return change(c.{path}, {value}); }});")
    return lines + ["  }", "};", ""]


def written(header):
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "/// border_calls.h: made by border_calls.py from folio/c/*.h.",
        "#pragma once",
        "",
        "#include <climits>",
        "#include <cmath>",
        "#include <cstdint>",
        "#include <tuple>",
        "",
        '#include "folio/c/folio.h"',
        "",
        "namespace folio::test {",
        "",
        "/// False: it has the value already, so nothing is broken.",
        "template <class T, class Value>",
        "bool change(const T& at, Value value) {",
        "  if (at == static_cast<T>(value)) return false;",
        "  const_cast<T&>(at) = static_cast<T>(value);",
        "  return true;",
        "}",
        "",
    ]
    for name in header.functions:
        lines += call_struct(header, name)
    listed = ",\n    ".join(f"{name}_call" for name in header.functions)
    return "\n".join(lines + [f"using AllCalls = std::tuple<\n    {listed}>;", "",
                              "}  // namespace folio::test", ""])


def main(headers_path, *paths):
    """headers_path: a folder of headers, or one; paths: sources of the walk, then what is written."""
    *walk_paths, output_path = paths
    headers = sorted(Path(headers_path).glob("*.h")) or [Path(headers_path)]
    try:
        header = Header("\n".join(h.read_text(encoding="utf-8") for h in headers))
        text = written(header)
    except Unknown as what:
        return f"{headers_path}: cannot read {what}"
    walk = "\n".join(Path(path).read_text(encoding="utf-8") for path in walk_paths)
    missing = [f for f in header.functions if f"{f}_call&" not in walk]
    if missing:
        return f"{walk_paths[0]}: no fill(..., <function>_call&) for {', '.join(missing)}"
    Path(output_path).write_text(text, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
