#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
""".ci/step.py: one step of .ci/run: its minutes, what it compiled, what it tested.

usage: .ci/step.py NAME COMMAND ...   runs the command; fails as it fails, or where the step has grown
       .ci/step.py --cached NAME COMMAND ...   and where less than 3/4 of what it compiles comes from ccache
       .ci/step.py --by MINUTE NAME COMMAND ...   leaves the step out, and says so, where CI is older than that (CI_BEGAN, in seconds;
                                                  never in CI_SHARE=all)
       .ci/step.py --table            prints the steps that have run
       .ci/step.py --keep             what has run, of a clean clone, goes into .ci/steps.txt

A step has grown where it compiles or tests a quarter more than .ci/steps.txt says of it: minutes depend on the machine, these numbers do
not. Whoever adds so much says so by --keep, and looks at what the step costs now.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / ".ci/steps.txt"
DONE = ROOT / "build/ci_steps.json"
GROWTH = 1.25
# How ctest and pytest end.
TESTS = re.compile(r"tests failed out of (\d+)$|^=+ .*?(\d+) passed\b", re.MULTILINE)


def compiled():
    """Objects that ninja has made below build/."""
    objects = set()
    for folder, _, files in os.walk(ROOT / "build"):
        if ".ninja_log" in files:
            for line in pathlib.Path(folder, ".ninja_log").read_text().splitlines()[1:]:
                fields = line.split("\t")
                if len(fields) > 3 and fields[3].endswith(".o"):  # the last line is a part where ninja was killed
                    objects.add((folder, fields[3]))
    return len(objects)


def cache_counts():
    """Compilations that ccache was asked for and that it had, since ever."""
    if not shutil.which("ccache"):
        return 0, 0
    printed = subprocess.run(["ccache", "--print-stats"], check=True, capture_output=True, text=True).stdout
    counts = {name: int(value) for name, value in (line.split("\t") for line in printed.splitlines())}
    hits = counts["direct_cache_hit"] + counts["preprocessed_cache_hit"]
    return hits + counts["cache_miss"], hits


def cpu_seconds():
    """Of all processes that have run below this one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def refuse(message):
    print(f".ci/step.py: {message}", file=sys.stderr)
    sys.exit(2)


def kept():
    """name -> (units, tests)"""
    rows = {}
    for i, line in enumerate(KEPT.read_text().splitlines() if KEPT.is_file() else (), 1):
        if line.strip() and not line.startswith("#"):
            row = re.fullmatch(r"(\S+)\s+([0-9]+)\s+([0-9]+)\s*", line)
            if not row or row[1] in rows:
                refuse(f".ci/steps.txt, line {i}: expected a step's name, its units and its tests, each step once, got {line!r}")
            rows[row[1]] = (int(row[2]), int(row[3]))
    return rows


def have_run():
    """name -> row"""
    try:
        return json.loads(DONE.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        refuse(f"build/ci_steps.json: expected what .ci/step.py has written, got {error}; remove it")


def growth(name, row, before):
    """Why the step fails, or None."""
    for what, now, then in zip(("units compiled", "tests run"), (row["units"], row["tests"]), before, strict=True):
        if now > GROWTH * then:
            return f"{name}: {now} {what}, {then} in .ci/steps.txt: more than a quarter more (.ci/step.py --keep, after a look)"
    return None


def run(name, command):
    """What the command printed, and its status."""
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        refuse(f"{name}: expected a command that can be run, got {command[0]!r}: {error.strerror}")
    lines = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    return "".join(lines), process.wait()


def is_late(minute):
    """Whether CI has run for longer than this when the step's turn comes: nothing was in the compiler's cache, on a slow machine."""
    began = os.environ.get("CI_BEGAN", "")
    if os.environ.get("CI_SHARE") == "all" or not began:
        return False
    if not began.isdecimal():
        refuse(f"CI_BEGAN: expected seconds since 1970, got {began!r}")
    return time.time() - int(began) > 60 * minute


def leave_out(name, minute):
    done = have_run()
    done[name] = None
    write(done)
    print(f"\n==== {name}: left out: CI is older than {minute} minutes", flush=True)


def write(done):
    DONE.parent.mkdir(exist_ok=True)
    DONE.write_text(json.dumps(done, indent=1) + "\n")


def step(name, command, is_cached):
    done, known = have_run(), kept()
    print(f"\n==== {name}: {' '.join(command)}", flush=True)
    before, cache_before, began, cpu_began = compiled(), cache_counts(), time.time(), cpu_seconds()
    text, status = run(name, command)
    tests = sum(int(count) for pair in TESTS.findall(text) for count in pair if count)
    asked, hits = (now - then for now, then in zip(cache_counts(), cache_before, strict=True))
    seconds = round(time.time() - began)
    row = {"seconds": seconds, "cpu_seconds": round(cpu_seconds() - cpu_began), "units": compiled() - before, "hits": hits, "tests": tests}
    done[name] = row
    write(done)
    print(f"---- {name}: {seconds / 60:.1f} min, {row['units']} units compiled, {hits} found in the cache, {tests} tests", flush=True)
    if status != 0:
        sys.exit(f"{name}: failed with status {status}" if status > 0 else f"{name}: killed by signal {-status}")
    if is_cached and hits < 0.75 * asked:
        sys.exit(f"{name}: ccache had {hits} of {asked} units; what differs from the release's? (flags, the compiler's name, folders' depth)")
    if known and name not in known:
        print(f"---- {name}: not in .ci/steps.txt, so nobody knows whether it has grown", flush=True)
    if os.environ.get("CI_SHARE") != "all" and name in known and (reason := growth(name, row, known[name])):
        sys.exit(reason)


def table():
    done = have_run() or refuse("--table: expected steps that have run, got none in build/ci_steps.json")
    print(f"{'step':<15}{'minutes':>8}{'of CPU':>8}{'units':>7}{'cached':>7}{'tests':>7}")
    for name, row in done.items():
        if row is None:
            print(f"{name:<15}left out")
        else:
            print(f"{name:<15}{row['seconds'] / 60:>8.1f}{row['cpu_seconds'] / 60:>8.1f}{row['units']:>7}{row['hits']:>7}{row['tests']:>7}")
    wall, cpu = (sum(row[key] for row in done.values() if row) / 60 for key in ("seconds", "cpu_seconds"))
    print(f"{'all':<15}{wall:>8.1f}{cpu:>8.1f}")


def keep():
    done = have_run() or refuse("--keep: expected steps that have run, got none in build/ci_steps.json")
    rows = kept() | {name: (row["units"], row["tests"]) for name, row in done.items() if row}
    head = "# What each step of .ci/run compiles and tests in a clean clone: .ci/step.py", "# step           units  tests"
    KEPT.write_text("\n".join((*head, *(f"{name:<15}{units:>7}{tests:>7}" for name, (units, tests) in rows.items()))) + "\n")


def main(words):
    if words in (["--table"], ["--keep"]):
        return {"--table": table, "--keep": keep}[words[0]]()
    rest, is_cached, minute = list(words), False, None
    if rest[:1] == ["--cached"]:
        is_cached = bool(rest.pop(0))
    if rest[:1] == ["--by"] and re.fullmatch("[0-9]{1,4}", "".join(rest[1:2])):
        minute, rest = int(rest[1]), rest[2:]
    if len(rest) < 2 or not re.fullmatch(r"\w[\w-]*", rest[0]):
        refuse(f"expected NAME COMMAND ..., --table or --keep, got {' '.join(words)!r}")
    if minute is not None and is_late(minute):
        return leave_out(rest[0], minute)
    return step(rest[0], rest[1:], is_cached)


if __name__ == "__main__":
    main(sys.argv[1:])
