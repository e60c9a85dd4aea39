#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/support/expect.py: runs a command that must end with one exit status and say what is expected, both.

usage: expect.py [--status N] [--says REGEX] [--never-says REGEX ...] [--may-skip] -- COMMAND ...

Passes on what the command says on either stream. Exit status 0: it ended with status N (0), said REGEX, in which `.` is a line's end,
too, and nothing that it must not say. With --may-skip: 77 where the command ends with 77; its last words are said to be why, for
tools/show_skipped.sh to count. CMake's function folio_expect makes tests of it: PASS_REGULAR_EXPRESSION would ignore the exit status,
WILL_FAIL takes any failure for the one that is meant.
"""
import argparse
import re
import subprocess
import sys

SKIPPED = 77


def run(command):
    """(exit status, what it said), while saying it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    said = []
    for line in process.stdout:
        said.append(line)
        sys.stdout.write(line)
        sys.stdout.flush()
    return process.wait(), "".join(said)


def faults(options, status, said):
    if status != options.status:
        ended = f"by signal {-status}" if status < 0 else f"with status {status}"
        yield f"it ended {ended}, expected status {options.status}"
    if options.says is not None and not re.search(options.says, said, re.DOTALL):
        yield f"it did not say {options.says}"
    for never in options.never_says:
        if match := re.search(never, said, re.DOTALL):
            yield f"it said {match[0]!r}, which {never} forbids"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--says")
    parser.add_argument("--never-says", action="append", default=[])
    parser.add_argument("--may-skip", action="store_true")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, command = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1:]
    if not command:
        parser.error("no COMMAND")
    try:
        status, said = run(command)
    except OSError as error:
        sys.exit(f"expect.py: it does not start: {error}")
    if options.may_skip and status == SKIPPED:
        why = (said.strip().splitlines() or ["it does not say why"])[-1]
        print(f"expect.py: skipped: {why.removeprefix('skipped: ')}")
        sys.exit(SKIPPED)
    found = list(faults(options, status, said))
    for fault in found:
        print(f"expect.py: {fault}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
