#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clients/llama_cpp/tests/backend_ops.py: llama.cpp's own check of FLASH_ATTN_EXT, run on folio.

usage: backend_ops.py FOLDER [--part quick|whole]      FOLDER: what `tools/llama_cpp.py make` prints

Runs `test-backend-ops test -o FLASH_ATTN_EXT -b folio`, which compares each case with the CPU backend,
and reads what it says of each case. Fails for a case that fails, for one that is refused although its
head sizes are multiples of 8 and its types are folio's, for one that is served although it should be
refused, and where cases are missing. `quick` takes the cases of some sizes, less than a minute.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

# The cases of the release that tools/llama_cpp.py names.
WHOLE = 5308
# Of these head sizes and numbers of keys; q1_0 and q2_0 come with the same numbers.
QUICK = {"quick": r"hsk=(64|72|576|65),.*kv=(113|512),", "whole": None}
LEAST = {"quick": 300, "whole": WHOLE}
TYPES = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"}
CASE = re.compile(r"^\s*FLASH_ATTN_EXT\((?P<text>.*)\):\s*(?P<result>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


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


def complaints(cases, part):
    """What is wrong with [(text, result)], a line each."""
    if len(cases) < LEAST[part] or (part == "whole" and len(cases) != WHOLE):
        yield f"{len(cases)} cases were run, expected {LEAST[part]}"
    for text, result in cases:
        is_refused = "not supported" in result
        if is_refused and is_folios(text):
            yield f"refused: {text}"
        elif not is_refused and not is_folios(text):
            yield f"expected to be refused: {text}: {result}"
        elif not is_refused and result != "OK":
            yield f"failed: {text}: {result}"


def run(folder, part):
    """[(text, result)] and the exit status of test-backend-ops."""
    device = pathlib.Path(folder).resolve() / "libggml-folio.so"
    command = [device.with_name("test-backend-ops"), "test", "-o", "FLASH_ATTN_EXT", "-b", "folio"]
    command += ["-p", QUICK[part]] if QUICK[part] else []
    environment = {**os.environ, "GGML_BACKEND_PATH": str(device), "FOLIO_GGML_DEVICE": "own"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    lines = COLOUR.sub("", done.stdout).splitlines()
    matches = [match for match in map(CASE.match, lines) if match]
    return [(match["text"], match["result"].strip()) for match in matches], done.returncode


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("folder")
    parser.add_argument("--part", choices=QUICK, default="quick")
    args = parser.parse_args()
    cases, status = run(args.folder, args.part)
    wrong = list(complaints(cases, args.part))
    if status != 0:
        wrong.append(f"test-backend-ops ended with status {status}")
    for line in wrong[:50]:
        print(line)
    refused = sum("not supported" in result for _, result in cases)
    print(
        f"{len(cases)} cases: {len(cases) - refused} served, {refused} refused, {len(wrong)} complaints"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
