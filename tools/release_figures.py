#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/release_figures.py: measures anew what documents quote, and says which of it is old.

usage: release_figures.py [PART ...]    measures (attention, append, pool; without one, all),
                                        writes bench/results and the documents
       release_figures.py --quick       only the rows of docs/performance.md, briefly; prints them
                                        and changes nothing
       release_figures.py --write       the documents from bench/results, without measuring
       release_figures.py --check       lists figures older than the code they are about, and
                                        documents that do not say what their files do; exit status
                                        1 if there are any

Measure on a machine that does nothing else. A run of a benchmark is one process at one commit; it
replaces this machine's file as a whole. Files of other machines stay and keep their commit.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import performance_tables as tables

ROOT = tables.ROOT
PARTS = ["attention", "append", "pool"]

# What the figures of a part are about; a change elsewhere leaves them as they are.
CORE = ["include/folio/core", "include/folio/cache", "src/core", "src/cache"]
BENCH = ["bench/roofs.cpp", "bench/roofs.h", "bench/loops*", "bench/report.cpp"]
ABOUT = {
    "attention": [*CORE, *BENCH, "include/folio/attention", "src/kernel", "src/attention",
                  "src/cpu", ":!src/cpu/append", "bench/attention_*"],
    "append": [*CORE, *BENCH, "include/folio/attention/append.h", "include/folio/attention/rotate.h",
               "src/attention", "src/cpu/append", "src/cpu/convert", "src/cpu/profile.*",
               "bench/append_*"],
    "pool": ["include/folio/pool", "src/pool", "src/names", "bench/pool_*",
             ":!bench/pool_peers"],
}
# Medians of repetitions, those of all rows mixed: a pool's figures depend on where its memory lies.
FLAGS = {"pool": ["--benchmark_repetitions=3", "--benchmark_enable_random_interleaving=true"]}
ABOUT["peers"] = [*ABOUT["attention"], "bench/peers"]


def run(*command):
    print("==", *command, flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


def git(*arguments):
    result = subprocess.run(["git", *arguments], cwd=ROOT, text=True, capture_output=True)
    return result.stdout.strip() if result.returncode == 0 else None


def stamp():
    """The commit that is measured; `-dirty` where the code is not what was committed."""
    changed = git("status", "--porcelain", "--", "include", "src", "bench", "tests",
                  ":!bench/results")
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def machine():
    """This machine as bench/report.cpp names it, and the name of its files."""
    cpu = dict(line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
               .splitlines() if ":" in line)
    cpu = {key.strip(): value.strip() for key, value in cpu.items()}
    name, family, model = cpu["model name"], int(cpu["cpu family"]), int(cpu["model"])
    words = re.findall(r"[a-z]+", re.sub(r"\(\w+\)", "", name.lower()))[:2]
    return (f"{name}, family {family}, model {model}, {os.cpu_count()} processors",
            "-".join([*words, str(family), str(model)]))


def measure(parts, flags):
    """Runs the benchmarks; build/bench/PART.json is each one's process."""
    run("cmake", "--preset", "release")
    run("cmake", "--build", "--preset", "release", "--target", *(f"{part}_bench" for part in parts))
    for part in parts:
        load = os.getloadavg()[0]
        if load > 0.5:
            print(f"other work is running (load {load:.1f}): these figures are not to be quoted")
        run("tools/run_benchmarks.sh", "build/release", part, *flags[part])


def medians(benchmarks):
    """One row for each benchmark: each of its figures the median of the repetitions."""
    runs = {}
    for row in benchmarks:
        if row["run_type"] == "iteration":
            runs.setdefault(row["run_name"], []).append(row)
    rows = []
    for repetitions in runs.values():
        failed = [row for row in repetitions if "error_message" in row]
        first = {key: value for key, value in (failed or repetitions)[0].items()
                 if "index" not in key}
        figures = {key: statistics.median(row[key] for row in repetitions)
                   for key, value in first.items() if isinstance(value, float) and not failed}
        rows.append({**first, **figures, "name": first["run_name"]})
    return rows


def publish(parts, directory):
    """build/bench/PART.json to directory/PART-MACHINE.json."""
    name, slug = machine()
    flags = re.search(r"^CMAKE_CXX_FLAGS_RELEASE:\w+=(.*)$",
                      (ROOT / "build/release/CMakeCache.txt").read_text(), re.M).group(1)
    directory.mkdir(parents=True, exist_ok=True)
    for part in parts:
        content = json.loads((ROOT / f"build/bench/{part}.json").read_text())
        if part == "pool":
            context = content["context"]
            content["context"] = {"machine": name, "commit": stamp(), "flags": flags,
                                  "began": context["date"]}
            content["benchmarks"] = medians(content["benchmarks"])
        path = directory / f"{part}-{slug}.json"
        path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        print("written:", os.path.relpath(path, ROOT))


def write_documents():
    for path, text in tables.documents().items():
        path.write_text(text)


def quick(parts):
    """The rows of docs/performance.md alone."""
    shapes = {part: [shape for _, bench, shape, _ in tables.SUMMARY if bench == part]
              for part in ("attention", "append")}
    flags = {part: ["--benchmark_min_time=0.02", f"--benchmark_filter=^({'|'.join(names)})/threads"]
             for part, names in shapes.items()}
    names = "|".join(name for _, name, _ in tables.POOL)
    flags["pool"] = ["--benchmark_min_time=0.02", f"--benchmark_filter=^({names})$"]
    directory = ROOT / "build/quick_figures"
    measure(parts, flags)
    publish(parts, directory)
    print("\n" + tables.summary(tables.machines(directory)))


def quoted():
    """(document or file, part, commit) of every figure that is quoted."""
    for path in sorted(tables.RESULTS.glob("*.json")):
        commit = json.loads(path.read_text())["context"].get("commit", "unknown")
        yield path, path.name.split("-")[0], commit
    for path in sorted((tables.RESULTS / "peers").glob("*.json")):
        for commit in sorted({part["commit"] for part in json.loads(path.read_text())["shapes"]}):
            yield path, "peers", commit


def breaches():
    for path, part, commit in quoted():
        name = path.relative_to(ROOT)
        if git("merge-base", "--is-ancestor", commit, "HEAD") is None:
            yield f"{name}: commit {commit} is not in the history of this one"
            continue
        newer = git("log", "--format=%h", f"{commit}..HEAD", "--", *ABOUT[part]).split()
        if newer:
            yield (f"{name}: of commit {commit}; {len(newer)} commits have changed its code since, "
                   f"the last {newer[0]}")
    for path, text in tables.documents().items():
        if path.read_text() != text:
            yield f"{path.relative_to(ROOT)}: differs from bench/results (--write)"


def check():
    found = list(breaches())
    for breach in found:
        print(breach)
    print(f"{len(found)} figures or documents are old")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for flag in ("--quick", "--write", "--check"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"expected {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    parts = args.parts or PARTS
    if args.check:
        return check()
    if args.quick:
        quick(parts)
        return 0
    if not args.write:
        measure(parts, {part: FLAGS.get(part, []) for part in parts})
        publish(parts, tables.RESULTS)
    write_documents()
    check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
