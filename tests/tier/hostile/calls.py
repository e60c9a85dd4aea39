#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function of folio::tier, and every field that a caller fills, meets what cannot be in a test.

    calls.py ROOT

Reads ROOT/include/folio/tier/*.h and ROOT/tests/tier/hostile/calls.txt, a table of lines

    FILE SUITE.TEST: NAME ...        tests/tier/FILE has this test, and the file calls or sets each name
    - REASON: NAME ...               nothing that is given there can be wrong

with the names `function`, `Class::function`, `Struct.field`, and `Class::Class` for objects that are moved
from. Fails if a name is in a header and not in the table, in the table and in no header, or if the
test or a use of the name is not in the file.
"""
import re
import sys
from pathlib import Path

# what callers fill beside the structs whose names end in Options
FILLED = {"IndexedGroup", "ManagerClock", "NameVisitor", "RegionRun", "TierObserver", "TierOfCache", "TierPage", "TierReading",
          "TierReadings", "TransferEnd", "TransferRegion", "TransferRequest"}


def without_comments(text):
    """Nor preprocessor's lines; texts in quotes are emptied."""
    return re.sub(r'"[^"\n]*"|//[^\n]*|^\s*#[^\n]*',
                  lambda found: '""' if found.group().startswith('"') else "", text, flags=re.M)


def declarations(body):
    """Pieces of a body: (what stands before the braces or the end, what is in the braces or None)."""
    start = depth = 0
    inner = None
    for at, c in enumerate(body):
        if c == "{":
            depth += 1
            inner = at if depth == 1 and inner is None else inner
        elif c == "}":
            depth -= 1
            head = body[start:inner].strip() if depth == 0 else ""
            is_function = depth == 0 and re.search(r"\)[\s\w:()&,.*]*(?:noexcept)?[^=]*$", head)
            if depth == 0 and (is_function or head.startswith("namespace")):
                yield head, body[inner + 1:at]
                start, inner = at + 1, None
        elif c == ";" and depth == 0:
            head = body[start:inner if inner is not None else at].strip()
            content = body[inner + 1:body.rindex("}", inner, at)] if inner is not None else None
            tail = body[body.rindex("}", inner, at) + 1:at].strip() if inner is not None else ""
            yield (head + (" @" + tail if tail else "")), content
            start, inner = at + 1, None


def fields_of(declaration):
    declaration = declaration.split("@")[-1] if "enum" in declaration else declaration
    pointer = re.search(r"\(\*\s*(\w+)\)", declaration)
    if pointer:
        return [pointer.group(1)]
    plain = re.sub(r"<[^<>]*>|\([^()]*\)", "", re.sub(r"<[^<>]*>", "", declaration))
    return [re.findall(r"\w+", one.split("=")[0].split("[")[0])[-1] for one in plain.split(",")]


def members_of(name, body, is_public):
    for head, _ in declarations(body):
        labels = re.findall(r"\b(public|private)\s*:(?!:)", head)
        is_public = labels[-1] == "public" if labels else is_public
        head = re.sub(r"\b(?:public|private)\s*:(?!:)", "", head).strip()
        if not is_public or re.match(r"friend|using|static_assert|(?:class|struct)\b", head):
            continue
        if re.search(rf"\b{name}\({name}&&", head):
            yield f"{name}::{name}"
        if "operator" in head or "~" in head:
            continue
        function = re.search(r"(\w+)\s*\((?!\*)", head.split("=")[0])
        if function:
            if function.group(1) != name:
                yield f"{name}::{function.group(1)}"
        elif (name.endswith("Options") or name in FILLED) and ("enum" not in head or "@" in head):
            yield from (f"{name}.{field}" for field in fields_of(head))


def names_of(header):
    text = without_comments(header)
    body = re.search(r"namespace folio::inline v1(?:::tier)? \{(.*)\}", text, re.S).group(1)
    for head, inner in declarations(body):
        record = re.match(r"(class|struct)\s+(?:FOLIO_EXPORT\s+)?(\w+)", head)
        if record and inner is not None:
            yield from members_of(record.group(2), inner, record.group(1) == "struct")
        elif "FOLIO_EXPORT" in head:
            yield re.search(r"(\w+)\s*\(", head).group(1)


def check_use(name, text):
    word = re.split(r"::|\.", name)[-1]
    if "." in name:
        return re.search(rf"\b{word}\b", text)
    if "::" in name and word == name.split("::")[0]:
        return "std::move(" in text
    return re.search(rf"\b{word}\(", text)


def faults_of(root):
    headers = [p.read_text(encoding="utf-8") for p in sorted((root / "include/folio/tier").glob("*.h"))]
    wanted = {name for header in headers for name in names_of(header)}
    tests = root / "tests/tier"
    told = set()
    for line in (tests / "hostile/calls.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        place, _, names = line.partition(": ")
        told.update(names.split())
        if place.startswith("- "):
            continue
        path, test = place.split(" ")
        text = (tests / path).read_text(encoding="utf-8")
        suite, _, case = test.partition(".")
        if not re.search(rf"\bTEST(?:_F|_P)?\({suite}, {case}\)", text):
            yield f"{path} has no test {test}"
        for name in names.split():
            if not check_use(name, text):
                yield f"{path} does not use {name}"
    yield from (f"{name} is in no line of calls.txt: give it what cannot be, in a test"
                for name in sorted(wanted - told))
    yield from (f"{name} of calls.txt is in no header" for name in sorted(told - wanted))


def main(root):
    faults = list(faults_of(root))
    for fault in faults:
        print(f"calls.py: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
