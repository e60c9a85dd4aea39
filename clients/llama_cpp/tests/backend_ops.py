#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clients/llama_cpp/tests/backend_ops.py: llama.cpp's own check of FLASH_ATTN_EXT, run on folio.

usage: backend_ops.py FOLDER [--part quick|whole]      FOLDER: what `tools/llama_cpp.py make` prints

Asks test-backend-ops which of its cases folio serves, and lets it compare cases with the CPU backend:
all, or (quick, less than a minute) those of some sizes. Complains of a case that fails, of one that is
refused although its head sizes are multiples of 8 and its types are folio's, of one that is served
although it should be refused, and of cases that are missing.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

# Odd sizes, every type, one query and several, streams; of the rest one size each.
QUICK = r"kv=(17|64|96|128|256|1025),|kv=113,nb=3,|hsk=72,.*kv=512,nb=3,"
# ggml's version -> how many cases there are, and how many of them are quick.
CASES = {"0.15.1": (5097, 411), "0.16.0": (5097, 411), "0.20.0": (5141, 415), "0.25.3": (5308, 426)}
TYPES = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"}
CASE = re.compile(r"^\s*FLASH_ATTN_EXT\((?P<text>.*)\):\s*(?P<result>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
REFUSED = "not supported"


def value(text, name):
    found = re.search(rf"(?:^|,){name}=([^,]*)", text)
    if found is None:
        raise ValueError(f"the case {text!r} has no {name}")
    return found[1]


def is_folios(text):
    """Whether folio serves the case, by its types and head sizes."""
    types = {value(text, "type_K"), value(text, "type_V")}
    sizes = [int(value(text, "hsk")), int(value(text, "hsv"))]
    return types <= TYPES and all(size % 8 == 0 for size in sizes)


def complaints(cases, expected, good):
    """What is wrong with [(text, result)], a line each; good: the result of a case that is right."""
    if len(cases) != expected:
        yield f"{len(cases)} cases, expected {expected}"
    for text, result in cases:
        is_refused = REFUSED in result.lower()
        if is_refused and is_folios(text):
            yield f"refused: {text}"
        elif not is_refused and not is_folios(text):
            yield f"served, expected to be refused: {text}: {result}"
        elif not is_refused and result != good:
            yield f"failed: {text}: {result}"


def complaints_of_trace(trace, served):
    """What the device's own counters say: that it ran every case itself."""
    if "left to the CPU backend" in trace or "failed" in trace:
        yield f"the device said: {trace[-500:]}"
    nodes = sum(int(count) for count in re.findall(r"nodes (\d+) refused 0 ", trace))
    if nodes < served:
        yield f"the device ran {nodes} nodes, expected at least {served}"


def cases_of(folder):
    """CASES of the ggml that the programs of the folder run in."""
    names = [library.name for library in (folder / "llama").glob("libggml-base.so.*.*.*")]
    versions = [version for version in CASES if f"libggml-base.so.{version}" in names]
    if len(versions) != 1:
        sys.exit(
            f"{folder}/llama: expected libggml-base.so of one of {', '.join(CASES)}, got {names}"
        )
    return CASES[versions[0]]


def run(folder, mode, pattern=None):
    """[(text, result)] of test-backend-ops, the device's trace, and the exit status."""
    command = [folder / "test-backend-ops", mode, "-o", "FLASH_ATTN_EXT", "-b", "folio"]
    command += ["-p", pattern] if pattern else []
    device = {
        "GGML_BACKEND_PATH": str(folder / "libggml-folio.so"),
        "FOLIO_GGML_DEVICE": "own",
        "FOLIO_GGML_TRACE": "1",
    }
    done = subprocess.run(command, env={**os.environ, **device}, capture_output=True, text=True)
    lines = COLOUR.sub("", done.stdout).splitlines()
    matches = [match for match in map(CASE.match, lines) if match]
    return (
        [(match["text"], match["result"].strip()) for match in matches],
        done.stderr,
        done.returncode,
    )


def check(folder, part):
    """(what was run, what is wrong with it), the latter a line for each complaint."""
    folder = pathlib.Path(folder).resolve()
    whole, quick = cases_of(folder)
    asked, _, status = run(folder, "support")
    wrong = list(complaints(asked, whole, "SUPPORTED"))
    wrong += [f"test-backend-ops support ended with status {status}"] if status != 0 else []
    pattern, expected = (QUICK, quick) if part == "quick" else (None, whole)
    cases, trace, status = run(folder, "test", pattern)
    wrong += complaints(cases, expected, "OK")
    wrong += complaints_of_trace(trace, sum(result == "OK" for _, result in cases))
    wrong += [f"test-backend-ops test ended with status {status}"] if status != 0 else []
    refused = sum(REFUSED in result.lower() for _, result in asked)
    summary = f"{len(asked)} cases asked for, {refused} refused; {len(cases)} run"
    return summary, wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("folder")
    parser.add_argument("--part", choices=["quick", "whole"], default="quick")
    args = parser.parse_args()
    summary, wrong = check(args.folder, args.part)
    for line in wrong[:50]:
        print(line)
    print(f"{summary}; {len(wrong)} complaints")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
