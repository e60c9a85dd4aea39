#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/compile_fail/check.py: a file compiles, and with FOLIO_BAD does not, saying what its `expect:` line says.

That line is a regular expression, or `unsatisfied CONCEPT`: the concept is named as the reason, not only in a declaration.

usage: check.py FILE COMPILER [OPTION ...]
"""
import re
import subprocess
import sys


def compile_file(command, path, *options):
    done = subprocess.run([*command, "-std=c++20", "-fsyntax-only", *options, path], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def main():
    path, command = sys.argv[1], sys.argv[2:]
    with open(path, encoding="utf-8") as file:
        expected = re.search(r"^// expect: (.+)$", file.read(), re.MULTILINE).group(1)
    expected = re.sub(r"^unsatisfied (\w+)$", r"(satisfaction of|because|does not satisfy) .\1\\b", expected)
    compiles, messages = compile_file(command, path)
    if not compiles:
        print(f"{path}: does not compile without FOLIO_BAD\n{messages}")
        return 1
    compiles, messages = compile_file(command, path, "-DFOLIO_BAD")
    if compiles:
        print(f"{path}: compiles with FOLIO_BAD")
        return 1
    if not re.search(expected, messages):
        print(f"{path}: the compiler does not say '{expected}'\n{messages}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
