#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/findings.py: every script of findings/ has the form that findings/README.md asks for.

usage: findings.py ROOT     prints `file: breach`; exit status 1 if there is one

  mode      a find can be executed
  steps     it sources support.sh, then calls need, expect and see, once each and in this order; older, skip_init and stand_in may stand between
  pins      what need and older install is NAME==VERSION, each of them
  surprise  what is expected is not what is seen, and neither is empty
  alone     it does not name folio: a find is of others
  listed    the table of findings/README.md leads to every find, and to no other
"""
import os
import pathlib
import re
import sys

PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[0-9][\w.+!]*")
STEP = re.compile(r'^(\. "\$\(dirname "\$0"\)/support\.sh"$|(?:need|older|skip_init|stand_in|expect|see) )(.*)', re.MULTILINE)
STEPS = re.compile(r"support need( older)?( skip_init)*( stand_in)? expect see")
LINK = re.compile(r"\]\((\w+\.sh)\)")
SUPPORT = "support.sh"


def check_find(path):
    text = path.read_text(encoding="utf-8")
    program = re.search(r"<<'PYTHON'\n(.*)^PYTHON$", text, re.DOTALL | re.MULTILINE)
    shell = text[: program.start(1)] if program else text
    steps = [(match[1].split()[0].replace(".", "support"), match[2]) for match in STEP.finditer(shell.replace("\\\n", " "))]
    if not os.access(path, os.X_OK):
        yield "mode: cannot be executed"
    if not program or not STEPS.fullmatch(" ".join(name for name, _ in steps)):
        yield "steps: expected support.sh, need, expect and see with a program, in this order"
    for name, words in steps:
        if name in ("need", "older"):
            for word in words.split():
                if not PIN.fullmatch(word):
                    yield f"pins: {word} is not NAME==VERSION"
    texts = [re.match(r'"([^"]*)"', words) for name, words in steps if name in ("expect", "see")]
    if len(texts) == 2 and not (all(texts) and all(match[1] for match in texts) and texts[0][1] != texts[1][1]):
        yield "surprise: expect and see take two texts that differ"
    if re.search("folio", text, re.IGNORECASE):
        yield "alone: names folio"


def check(root):
    folder = root / "findings"
    finds = [path for path in sorted(folder.glob("*.sh")) if path.name != SUPPORT]
    for path in finds:
        for breach in check_find(path):
            yield f"findings/{path.name}: {breach}"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8"))) - {SUPPORT}
    for name in sorted(listed ^ {path.name for path in finds}):
        yield f"findings/README.md: listed: {name} " + ("does not exist" if name in listed else "is missing")


def main():
    breaches = list(check(pathlib.Path(sys.argv[1])))
    print("\n".join(breaches + [f"{len(breaches)} breaches"]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
