#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/recipes.py: the recipes of docs/extending.md name every file that whoever follows them touches.

usage: recipes.py ROOT     prints `docs/extending.md:line: breach`; exit status 1 if there is one

A recipe is a section (`## An element type`). Behind its heading stands what it goes by, on a line that readers do not see:

    <!-- sister: REGEX in PATH ... -->

its newest sister in the tree; several such lines are several. Paths between backquotes are its files; one that ends with a slash stands for all below it.

  recipes   there are the six
  length    a recipe has at most 25 lines, its heading and empty lines aside
  sister    it has one or more, and each expression is found in a file
  files     every file that it names exists, and no file is named twice
  complete  every file below the sister's paths in which the expression is found is named
"""
import dataclasses
import pathlib
import re
import sys

DOCUMENT = "docs/extending.md"
RECIPES = ["An element type", "An eviction policy", "A medium", "An engine for an instruction set", "A mask or logit term",
           "A client's plug-in"]
MOST_LINES = 25
SISTER = re.compile(r"<!-- sister: (\S+) in (.+) -->")
NAMED = re.compile(r"`((?:\.?[\w-]+/)[\w./-]*|Makefile)`")
TEXTS = {".h", ".cpp", ".cu", ".cuh", ".c", ".py", ".pyi", ".sh", ".txt", ".cmake", ".toml", ""}


@dataclasses.dataclass
class Recipe:
    name: str
    line: int
    lines: list[str]  # numbered from `line` + 1


def recipes_of(text):
    recipes = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            recipes.append(Recipe(line.removeprefix("## "), number, []))
        elif recipes:
            recipes[-1].lines.append(line)
    return recipes


def files_below(root, path):
    start = root / path
    for file in [start] if start.is_file() else sorted(start.rglob("*")):
        if file.is_file() and file.suffix in TEXTS and "__pycache__" not in file.parts:
            yield file


def is_named(file, names):
    return any(file == name or (name.endswith("/") and file.startswith(name)) for name in names)


def check_files(root, recipe):
    """Yields breaches, and fills in the names."""
    names = []
    for number, line in enumerate(recipe.lines, recipe.line + 1):
        for name in NAMED.findall(line):
            exists = (root / name).is_dir() if name.endswith("/") else (root / name).is_file()
            if not exists:
                yield number, f"files: {name} does not exist", names
            elif name in names:
                yield number, f"files: {name} is named twice", names
            names.append(name)
    yield 0, None, names


def check_sister(root, recipe, names):
    sisters = [match for line in recipe.lines if (match := SISTER.fullmatch(line))]
    if not sisters:
        yield recipe.line, f"sister: {recipe.name} has none"
    for sister in sisters:
        expression, paths = re.compile(sister[1], re.IGNORECASE), sister[2].split()
        absent = [path for path in paths if not (root / path).exists()]
        yield from ((recipe.line, f"sister: {path} does not exist") for path in absent)
        files = [file for path in paths if path not in absent for file in files_below(root, path)]
        found = [file for file in files if expression.search(file.read_text(encoding="utf-8", errors="replace"))]
        if not found:
            yield recipe.line, f"sister: {expression.pattern} is nowhere below {' '.join(paths)}"
        for name in (str(file.relative_to(root)) for file in found):
            if not is_named(name, names):
                yield recipe.line, f"complete: {recipe.name} does not name {name}, where {expression.pattern} is"


def check(root):
    recipes = recipes_of((root / DOCUMENT).read_text(encoding="utf-8"))
    names_of_all = [recipe.name for recipe in recipes]
    for name in RECIPES:
        if names_of_all.count(name) != 1:
            yield 1, f"recipes: {name} is there {names_of_all.count(name)} times, expected once"
    for recipe in recipes:
        shown = [line for line in recipe.lines if line.strip() and not SISTER.fullmatch(line)]
        if len(shown) > MOST_LINES:
            yield recipe.line, f"length: {recipe.name} has {len(shown)} lines, at most {MOST_LINES}"
        names = []
        for number, breach, names in check_files(root, recipe):
            if breach is not None:
                yield number, breach
        yield from check_sister(root, recipe, names)


def main():
    breaches = list(check(pathlib.Path(sys.argv[1])))
    for number, breach in breaches:
        print(f"{DOCUMENT}:{number}: {breach}")
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
