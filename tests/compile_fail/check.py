#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/compile_fail/check.py: a file compiles, and with FOLIO_BAD does not, saying what its `expect:` line says.

That line is a regular expression, or `unsatisfied CONCEPT`: the concept is named as the reason, not only in a declaration.
A file of several cases has lines `expect N:`, each for FOLIO_BAD=N.

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
        cases = re.findall(r"^// expect( \d+)?: (.+)$", file.read(), re.MULTILINE)
    compiles, messages = compile_file(command, path)
    if not compiles or not cases:
        print(f"{path}: does not compile without FOLIO_BAD, or expects nothing\n{messages}")
        return 1
    failures = 0
    for number, expected in cases:
        expected = re.sub(r"^unsatisfied (\w+)$", r"(satisfaction of|because|does not satisfy) .(detail::)?\1\\b", expected)
        bad = "FOLIO_BAD" + number.replace(" ", "=")
        compiles, messages = compile_file(command, path, f"-D{bad}")
        if compiles:
            print(f"{path}: compiles with {bad}")
        elif not re.search(expected, messages):
            print(f"{path}: with {bad} the compiler does not say '{expected}'\n{messages}")
        failures += compiles or not re.search(expected, messages)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
