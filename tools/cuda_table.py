#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/cuda_table.py: the table of docs/cuda.md: what results say of each CUDA kernel.

usage: cuda_table.py [--root ROOT]             prints the table
       cuda_table.py [--root ROOT] --write     puts it into docs/cuda.md
       cuda_table.py [--root ROOT] --check     exit status 1 if docs/cuda.md differs

Kernels are the lines of src/cuda/kernels.txt, with the tests that emulate them by name: those whose
includes lead to the kernel's header. Results are in bench/results/cuda: lines of JSON
as tools/gpu_check.sh keeps them (a head names the device, cases and rows name the instances that
they launched), and compiled.md, what ptxas made of each kernel. tools/cuda_results.sh makes all that
needs no GPU. A kernel that no result names never ran: nothing else is said of it.
"""
import argparse
import json
import pathlib
import re
import sys

NEVER = "never ran"
EMULATED = "emulated device"
BEGIN, END = "<!-- kernels: begin -->\n", "<!-- kernels: end -->"


COMPILED = re.compile(r"^\| (\w+) \| (sm_\w+) \| (\d+) \|", re.MULTILINE)
INCLUDE = re.compile(r'^#include "(cuda/[^"]+)"', re.MULTILINE)


def tests_of_headers(root):
    """{header: tests/cuda/*_test.cpp whose includes lead to it, without the ending}."""
    found = {}

    def walk(path, seen):
        for name in INCLUDE.findall(path.read_text()):
            for folder in ("tests", "src"):
                target = root / folder / name
                if target.exists() and name not in seen:
                    seen.add(name)
                    walk(target, seen)
        return seen

    for test in sorted((root / "tests/cuda").glob("*_test.cpp")):
        for name in walk(test, set()):
            found.setdefault(name, []).append(test.name.removesuffix("_test.cpp"))
    return found


def kernels(root):
    """{name: (header, architectures)} in the order of the list."""
    found = {}
    for line in (root / "src/cuda/kernels.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, header, _, architectures = (part.strip() for part in line.split("|"))
            found[name] = header, architectures
    return found


def records(path):
    """(head, record) of every line; a line that was cut off is left out."""
    head = {}
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "gpu" in record:
            head = record
        else:
            yield head, record


def device(head):
    name = head.get("gpu", "a device without a name")
    return name if name == EMULATED else f"{name}, driver {head.get('driver_version', 'unknown')}"


class Kernel:
    def __init__(self):
        self.cases = {}  # device -> [right, wrong]
        self.rows = []  # (bytes per second, text)
        self.registers = {}  # architecture -> registers

    def add_case(self, head, record):
        if record["verdict"] == "refused":
            return
        counts = self.cases.setdefault(device(head), [0, 0])
        counts[record["verdict"] != "right"] += 1

    def add_row(self, head, record):
        percent = record.get("percent_of_read")
        of_read = "" if percent is None else f" ({percent:.0f} % of read)"
        rate = record["bytes_per_s"]
        amount = f"{record['us']:.1f} us" if rate == 0 else f"{rate / 1e12:.2f} TB/s{of_read}"
        self.rows.append((rate, f"{record['row']}, {record['cache']}: {amount}, {device(head)}"))

    def ran_on(self, is_emulated):
        texts = []
        for name, (right, wrong) in sorted(self.cases.items()):
            if (name == EMULATED) == is_emulated:
                count = f"{right} cases right"
                if wrong:
                    count = f"**{wrong} of {right + wrong} cases wrong**"
                texts.append(count if is_emulated else f"{count}, {name}")
        return "; ".join(texts) or NEVER

    def measured(self):
        return max(self.rows)[1] if self.rows else NEVER

    def compiled(self):
        if not self.registers:
            return "not recorded"
        return ", ".join(f"{a.removeprefix('sm_')}: {r}" for a, r in self.registers.items())


def results(root):
    """{name: Kernel} of every instance that a result names."""
    found = {}
    folder = root / "bench/results/cuda"
    for path in sorted(folder.glob("*.jsonl")):
        for head, record in records(path):
            for name in record.get("instances", []):
                kernel = found.setdefault(name, Kernel())
                if "verdict" in record:
                    kernel.add_case(head, record)
                elif "bytes_per_s" in record:
                    kernel.add_row(head, record)
    compiled = folder / "compiled.md"
    text = compiled.read_text() if compiled.exists() else ""
    for name, architecture, registers in COMPILED.findall(text):
        found.setdefault(name, Kernel()).registers[architecture] = registers
    return found


def sources(root):
    """What commits the results are of that need no GPU, where they say so."""
    folder, said = root / "bench/results/cuda", []
    compiled, emulated = folder / "compiled.md", folder / "cases-emulated.jsonl"
    if compiled.exists() and (found := re.match(r"Of (commit .*?)\. ", compiled.read_text())):
        said.append(f"Registers: of {found[1]}.")
    if emulated.exists():
        of = sorted({record["commit"] for _, record in records(emulated) if "commit" in record})
        said += [f"Cases emulated: of commit {commit}." for commit in of]
    return " ".join(["", *said])


def table(root):
    names, found, tests = kernels(root), results(root), tests_of_headers(root)
    rows = [["kernel", "for", "registers", "emulated by tests", "cases emulated", "on a GPU",
             "measured"], ["---"] * 7]
    for name, (header, architectures) in names.items():
        kernel = found.get(name, Kernel())
        rows.append([f"`{name}`", architectures, kernel.compiled(),
                     ", ".join(tests.get(header, [])) or "none", kernel.ran_on(True),
                     kernel.ran_on(False), kernel.measured()])
    met = [name for name in names if found.get(name, Kernel()).ran_on(False) != NEVER]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{len(met)} of {len(names)} kernels have met hardware.{sources(root)}\n\n{lines}"


def document(root):
    """docs/cuda.md with the table that the results give."""
    before, rest = (root / "docs/cuda.md").read_text().split(BEGIN)
    return f"{before}{BEGIN}{table(root)}{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    path = args.root / "docs/cuda.md"
    if args.write:
        path.write_text(document(args.root))
    elif args.check:
        if path.read_text() != document(args.root):
            print("docs/cuda.md: differs from src/cuda/kernels.txt or bench/results/cuda: "
                  "tools/cuda_table.py --write")
            return 1
    else:
        print(table(args.root), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
