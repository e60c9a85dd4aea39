#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/mutants.py: breaks one expression of a kernel at a time, and sees which emulated test says so.

usage: mutants.py ROOT [--build FOLDER] [--table FILE] [--work FOLDER] [--jobs N] [--results FILE] [--write DOCUMENT] [--check] [--only NAME ...]
                       [--share N]

The table, tests/cuda/mutant_table.py unless another is given, has PROGRAMS, of sources, and MUTANTS: a name, a file, the text that
changes, what it becomes, and the program that must fail. Each program is built unbroken first, and must pass. --only chooses
mutants whose names contain it or whose program it is. --share leaves the day's part of those, of N, unless FOLIO_TEST_ROUNDS is all. --check
builds nothing: every text must still stand in its file exactly once.

--results keeps what was found, at once: a mutant is not tried again while its text and all files of its program are the same.
--build is a build folder of CMake: programs with `links` are linked with its libraries, targets folio_test_support and folio_reference.

A mutant whose program passes SURVIVES; so does one that is not built, or does not compile. Exit status 1 if there is such a one. What was found is
printed as the rows of a table; --write puts all rows and what precedes them into a document.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time

FLAGS = ["-std=c++20", "-O0", "-w"]  # most runs end at the first test: compiling is what costs
LIBRARIES = ["-lgtest", "-lgtest_main", "-lpthread", "-lboost_context"]
# What programs with `links` are linked with, of a build folder.
ARCHIVES = ["tests/support/libfolio_test_support.a", "tests/support/libfolio_test_device.a", "src/reference/libfolio_reference.a",
            "src/libfolio.a", "src/libfolio.so"]
SECONDS = 300  # of a build
SECONDS_OF_RUN = 120  # of a processor: others may want it, too
FAILED = re.compile(r"^\[  FAILED  \] ([\w./]+)(?:,| \()", re.MULTILINE)
BEGUN = re.compile(r"^\[ RUN      \] ([\w./]+)", re.MULTILINE)


class Failure(Exception):
    """What the table or a build has against it."""


def read_table(path):
    table = runpy.run_path(str(path))
    mutants = [dict(zip(("name", "program", "file", "old", "new"), row)) for row in table["MUTANTS"]]
    names = [m["name"] for m in mutants]
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise Failure(f"two mutants are called {doubles[0]}")
    return table["PROGRAMS"], mutants


def broken(root, mutant):
    """The file's text with the mutant in it."""
    text = (root / mutant["file"]).read_text()
    count = text.count(mutant["old"])
    if count != 1:
        raise Failure(f"{mutant['name']}: its text stands {count} times in {mutant['file']}, expected once")
    if mutant["old"] == mutant["new"]:
        raise Failure(f"{mutant['name']}: nothing changes")
    return text.replace(mutant["old"], mutant["new"])


def stale_text(root, mutant):
    """What is wrong with a mutant's texts, if anything."""
    try:
        broken(root, mutant)
    except (Failure, OSError) as failure:
        yield str(failure)


class Builder:
    """Makes programs; what no mutant can touch is compiled once."""

    def __init__(self, root, work, build):
        self.root, self.work = root, work
        self.archives = [build / name for name in ARCHIVES if (build / name).exists()] if build else []
        shutil.rmtree(work, ignore_errors=True)  # the tree may have changed; ccache remembers what has not
        self.compiler = os.environ.get("CXX", "g++").split()
        if subprocess.run(["sh", "-c", "command -v ccache"], capture_output=True).returncode == 0:
            self.compiler = ["ccache", *self.compiler]

    def compile(self, source, overlay, to):
        places = [overlay] if overlay else []
        includes = [f"-I{place / folder}" for place in (*places, self.root) for folder in ("include", "src", "tests")]
        at = overlay / source if overlay and (overlay / source).exists() else self.root / source
        built = subprocess.run([*self.compiler, *FLAGS, *includes, "-c", str(at), "-o", str(to)],
                               capture_output=True, text=True, timeout=SECONDS)
        if built.returncode != 0:
            raise Failure(f"{source} does not compile: {first_line(built.stderr, 'error')}")

    def link(self, objects, links, to):
        if links and len(self.archives) < 4:
            raise Failure("needs --build, a build folder with folio_test_support")
        archives = [*map(str, self.archives), f"-Wl,-rpath,{self.archives[-1].parent}", "-fopenmp", "-ldl"] if links else []
        linked = subprocess.run([*self.compiler[-1:], *map(str, objects), *archives, *LIBRARIES, "-o", str(to)],
                                capture_output=True, text=True, timeout=SECONDS)
        if linked.returncode != 0:
            raise Failure(f"does not link: {first_line(linked.stderr, 'undefined')}")

    def whole(self, source):
        """The object of an unbroken source."""
        to = self.work / "objects" / (source.replace("/", "_") + ".o")
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            part = to.with_suffix(f".{os.getpid()}.part")
            self.compile(source, None, part)
            part.rename(to)
        return to

    def build(self, program, overlay, folder):
        """`program` with the files of `overlay` before the tree's. Only what may include them is compiled anew."""
        folder.mkdir(parents=True, exist_ok=True)
        if overlay and not any(self.is_touched(source, overlay) for source in program["sources"]):
            raise Failure("no source of the program has the broken file")
        objects = []
        for i, source in enumerate(program["sources"]):
            if overlay is None or not self.is_touched(source, overlay):
                objects.append(self.whole(source))
                continue
            objects.append(folder / f"{i}.o")
            self.compile(source, overlay, objects[-1])
        self.link(objects, program.get("links", False), folder / "program")
        return folder / "program"

    def is_touched(self, source, overlay):
        broken_files = [str(p.relative_to(overlay)) for p in overlay.rglob("*") if p.is_file()]
        return bool(self.files_of(source) & set(broken_files))

    def files_of(self, source):
        """Files of the tree that a source is made of."""
        said = subprocess.run([self.compiler[-1], *FLAGS, *(f"-I{self.root / f}" for f in ("include", "src", "tests")),
                               "-MM", str(self.root / source)], capture_output=True, text=True, timeout=SECONDS).stdout
        paths = [pathlib.Path(word).resolve() for word in said.replace("\\\n", " ").split()[1:]]
        return {str(p.relative_to(self.root)) for p in paths if p.is_relative_to(self.root)}


def first_line(text, word):
    lines = [line for line in text.splitlines() if word in line] or text.splitlines() or [""]
    return lines[0].split(": ", 1)[-1][:160]


def run(program, settings):
    """Exit status, and what was said. A hanging program is a failed one."""
    limited = ["sh", "-c", f'ulimit -S -t {SECONDS_OF_RUN}; exec "$@"', "sh"]
    command = [*limited, str(program), "--gtest_fail_fast", *([f"--gtest_filter={settings['filter']}"] if "filter" in settings else [])]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20 * SECONDS_OF_RUN)
        return "timeout" if ran.returncode == -signal.SIGXCPU else ran.returncode, ran.stdout + ran.stderr
    except subprocess.TimeoutExpired as hung:
        return "timeout", (hung.stdout or b"").decode(errors="replace")


def reason(output, root):
    """What the first failure says: the emulator's words if it has some, else the comparison that failed."""
    failure = output.split("Failure\n", 1)[-1].split("\n[", 1)[0].split("Google Test trace", 1)[0]
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    quoted = [line for line in lines if line.startswith('Which is: "')]
    said = quoted[0].removeprefix("Which is: ").strip('"') if quoted else " ".join(lines[:4]).removeprefix("Failed ")
    if "Actual: false (" in failure:  # an assertion with words of its own: after the case's, if it gives those
        words = failure.split("Actual: false (", 1)[1].split("\nExpected: true", 1)[0].strip().removesuffix(")").splitlines()
        said = words[1] if len(words) > 1 else words[0]
    return re.sub(r"\s+", " ", said.replace(f"{root}/", "").replace("|", "/"))[:160]


def outcome(status, output, root):
    """(found, the first test that failed, what it said)"""
    tests = [re.sub(r"^\w+/|/\d+", "", test) for test in FAILED.findall(output) or BEGUN.findall(output)[-1:]]
    test = tests[0] if tests else ""
    if status == 0:
        return False, "", "SURVIVES"
    if status == "timeout":
        return True, test, f"does not end within {SECONDS_OF_RUN} s"
    if status < 0:
        return True, test, f"ends by signal {-status}"
    return True, test, reason(output, root)


def try_mutant(builder, programs, mutant):
    """(found, test, what it said, seconds)"""
    begin = time.monotonic()
    folder = builder.work / hashlib.sha1(mutant["name"].encode()).hexdigest()[:12]
    overlay = folder / "overlay"
    to = overlay / mutant["file"]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(broken(builder.root, mutant))
    settings = programs[mutant["program"]]
    try:
        program = builder.build(settings, overlay, folder)
    except Failure as failure:
        return False, "", str(failure), time.monotonic() - begin
    found, test, said = outcome(*run(program, settings), builder.root)
    program.unlink()
    return found, test, said, time.monotonic() - begin


class Results:
    """What was found before, by a digest of the broken text and of all that its program is made of."""

    def __init__(self, path, builder, programs):
        self.path, self.builder, self.programs = path, builder, programs
        self.kept = json.loads(path.read_text()) if path and path.exists() else {}
        self.digests = {}

    def key(self, mutant):
        program = mutant["program"]
        if program not in self.digests:
            sources = self.programs[program]["sources"]
            files = sorted(set().union(*(self.builder.files_of(source) for source in sources)))
            whole = hashlib.sha256(json.dumps([self.programs[program], FLAGS]).encode())
            for file in files:
                whole.update(file.encode() + (self.builder.root / file).read_bytes())
            self.digests[program] = whole.hexdigest()
        text = json.dumps([mutant["name"], mutant["file"], mutant["old"], mutant["new"], self.digests[program]])
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, mutant):
        return self.kept.get(self.key(mutant))

    def put(self, mutant, result):
        self.kept[self.key(mutant)] = result
        if self.path:
            self.path.write_text(json.dumps(self.kept, indent=0))


def baseline(builder, programs, name):
    """Why the program fails unbroken, or nothing."""
    try:
        status, output = run(builder.build(programs[name], None, builder.work / name), programs[name])
    except Failure as failure:
        return str(failure)
    return "" if status == 0 else f"fails unbroken: {outcome(status, output, builder.root)[2]}"


def document(text, tried, count):
    """The document with its table replaced: (mutant, result) of those that were tried, of `count`."""
    begin, end = "<!-- mutants -->\n", "<!-- end -->"
    head, rest = text.split(begin, 1)
    found = sum(result[0] for _, result in tried)
    summary = f"{len(tried)} of {count} were tried when this was written; {found} of these were found.\n\n"
    titles = "| what is broken | where | found by | which said |\n| --- | --- | --- | --- |\n"
    rows = "".join(row_of(*pair) for pair in tried)
    return head + begin + summary + titles + rows + end + rest.split(end, 1)[1]


def line_of(mutant, result):
    found, test, said, seconds = result
    return f"{'found   ' if found else 'SURVIVES'} {seconds:5.1f} s  {mutant['name']}: {test} {said}"


def row_of(mutant, result):
    found, test, said, _ = result
    return f"| {mutant['name']} | `{mutant['file']}` | {f'`{test}`' if test else mutant['program']} | {said} |\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/mutants"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--share", type=int, default=1)
    given = parser.parse_args()
    root = given.root.resolve()
    programs, mutants = read_table(given.table or root / "tests/cuda/mutant_table.py")
    if given.check:
        stale = [problem for mutant in mutants for problem in stale_text(root, mutant)]
        print("\n".join([*stale, f"{len(mutants)} mutants, {len(stale)} do not apply any more"]))
        return 1 if stale else 0
    chosen = [m for m in mutants if not given.only or any(n in m["name"] or n == m["program"] for n in given.only)]
    if not chosen:
        raise Failure("no mutant has such a name or program")
    if given.share < 1:
        parser.error(f"--share: expected at least 1, got {given.share}")
    if given.share > 1 and os.environ.get("FOLIO_TEST_ROUNDS") != "all":
        day = int(time.time()) // 86400
        chosen = [m for i, m in enumerate(chosen) if i % given.share == day % given.share] or chosen[:1]
        print(f"day {day}: part {day % given.share} of {given.share}")
    builder = Builder(root, given.work.resolve(), given.build and given.build.resolve())
    results = Results(given.results, builder, programs)
    missing = [m for m in chosen if results.get(m) is None]
    problems = {}
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for name in sorted({m["program"] for m in missing}, key=list(programs).index):
            problems[name] = baseline(builder, programs, name)
            print(f"{name}: {problems[name] or 'passes unbroken'}", flush=True)
            of_program = [m for m in missing if m["program"] == name and not problems[name]]
            for mutant, result in zip(of_program, pool.map(lambda m: try_mutant(builder, programs, m), of_program)):
                results.put(mutant, result)
                print(line_of(mutant, result), flush=True)
    found = [(m, results.get(m) or (False, "", f"{m['program']} {problems[m['program']]}", 0)) for m in chosen]
    survivors = [line_of(m, result) for m, result in found if not result[0]]
    print("\n".join([*survivors, f"{len(chosen)} mutants, {len(survivors)} survive"]))
    if given.write:
        tried = [(m, results.get(m)) for m in mutants if results.get(m)]
        given.write.write_text(document(given.write.read_text(), tried, len(mutants)))
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"mutants.py: {failure}")
