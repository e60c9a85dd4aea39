#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/compile_fail/new_field.py: a new field of a problem does not compile until it has its feature.

`features_of` (src/kernel/support.cpp) takes an AttentionProblem and the structs in it apart, field by field. Each of them gets one more
field in a copy of its header, and the source as it stands must refuse it with the words for too few names.
That kernels refuse a feature that they do not name is for tests/attention/features_test.cpp.

usage: new_field.py ROOT COMPILER
"""
import pathlib
import re
import sys
import tempfile

from check import compile_file

TAKEN_APART = ["AttentionProblem", "Mask", "PagedKVView", "ScaleView"]


def header_of(include, struct):
    """The header that defines the struct, relative to `include`, and its text with one more field; or None."""
    for path in sorted(include.rglob("*.h")):
        text, found = re.subn(rf"^struct {struct} {{$", r"\g<0>\n  int one_more_field = 0;", path.read_text(encoding="utf-8"), flags=re.M)
        if found == 1:
            return path.relative_to(include), text
    return None


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    include, source = root / "include", root / "src/kernel/support.cpp"
    with_project = [f"-I{include}", f"-I{root / 'src'}"]
    compiles, messages = compile_file([compiler, *with_project], source)
    if not compiles:
        print(f"{source}: does not compile as it stands\n{messages}")
        return 1
    failures = 0
    for struct in TAKEN_APART:
        header = header_of(include, struct)
        if header is None:
            print(f"{struct}: no public header defines it")
            failures += 1
            continue
        path, text = header
        with tempfile.TemporaryDirectory() as changed:
            copy = pathlib.Path(changed) / path
            copy.parent.mkdir(parents=True)
            copy.write_text(text, encoding="utf-8")
            compiles, messages = compile_file([compiler, f"-I{changed}", *with_project], source)
        if compiles or not re.search(rf"\b{struct}\W+decomposes into \d+ elements", messages):
            print(f"{struct} with one more field: expected that support.cpp names too few fields; compiles: {compiles}\n{messages}")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
