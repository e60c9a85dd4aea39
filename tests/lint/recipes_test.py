#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/recipes_test.py: recipes.py finds what a recipe leaves out, and nothing in a good one."""
import pathlib
import tempfile
import unittest

import recipes

GOOD = """# Extending folio

""" + "\n".join(
    f"""## {name}

<!-- sister: cost|FOLIO_COST in src include/c.h -->

The sister is `cost`. Its files: `src/cost.cpp`, all of `src/room/`
and `include/c.h`.
"""
    for name in recipes.RECIPES
)
FILES = {
    "src/cost.cpp": "int cost;",
    "src/room/a/deep.h": "Cost of a thing",
    "src/other.cpp": "nothing of it",
    "src/picture.png": "cost",
    "include/c.h": "enum { folio_cost };",
    "include/d.h": "not looked at: cost",
}


class RecipesLint(unittest.TestCase):
    def breaches(self, text, files=FILES):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in {**files, recipes.DOCUMENT: text}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            return [breach for _, breach in recipes.check(root)]

    def assert_finds(self, text, *breaches, files=FILES):
        self.assertEqual(self.breaches(text, files), list(breaches))

    def change(self, old, new):
        """The last recipe alone."""
        at = GOOD.rindex(old)
        return GOOD[:at] + new + GOOD[at + len(old):]

    def test_good_recipes_pass(self):
        self.assert_finds(GOOD)

    def test_a_recipe_that_is_missing_is_found(self):
        self.assert_finds(self.change("## A client's plug-in", "## Another one"),
                          "recipes: A client's plug-in is there 0 times, expected once")
        self.assert_finds(self.change("## A client's plug-in", "## A medium"),
                          "recipes: A medium is there 2 times, expected once",
                          "recipes: A client's plug-in is there 0 times, expected once")

    def test_a_recipe_that_is_long_is_found(self):
        self.assert_finds(self.change("and `include/c.h`.", "and `include/c.h`.\n" + "more\n\n" * 23))
        self.assert_finds(self.change("and `include/c.h`.", "and `include/c.h`.\n" + "more\n\n" * 24),
                          "length: A client's plug-in has 26 lines, at most 25")

    def test_a_file_that_is_gone_or_named_twice_is_found(self):
        self.assert_finds(self.change("`include/c.h`.", "`include/c.h`, `src/gone.h`."), "files: src/gone.h does not exist")
        self.assert_finds(self.change("`include/c.h`.", "`include/c.h`, `src/gone/`."), "files: src/gone/ does not exist")
        self.assert_finds(self.change("`include/c.h`.", "`include/c.h`, `src/room`."), "files: src/room does not exist")
        self.assert_finds(self.change("`include/c.h`.", "`include/c.h`, `Makefile`."), "files: Makefile does not exist")
        self.assert_finds(self.change("`include/c.h`.", "`include/c.h`, `src/cost.cpp`."),
                          "files: src/cost.cpp is named twice")

    def test_a_file_of_the_sister_that_is_not_named_is_found(self):
        missing = "complete: A client's plug-in does not name {}, where cost|FOLIO_COST is"
        self.assert_finds(self.change("`src/cost.cpp`, ", ""), missing.format("src/cost.cpp"))
        self.assert_finds(self.change("all of `src/room/`", ""), missing.format("src/room/a/deep.h"))
        self.assert_finds(self.change("and `include/c.h`", ""), missing.format("include/c.h"))
        new = {**FILES, "src/new.cpp": "switch (cost)"}
        self.assertEqual(len(self.breaches(GOOD, new)), len(recipes.RECIPES))

    def test_a_sister_that_is_missing_is_found(self):
        line = "<!-- sister: cost|FOLIO_COST in src include/c.h -->"
        self.assert_finds(self.change(line, ""), "sister: A client's plug-in has none")
        self.assert_finds(self.change(line, "<!-- sister: dearth in src include/c.h -->"),
                          "sister: dearth is nowhere below src include/c.h")
        self.assert_finds(self.change(line, "<!-- sister: cost in src gone -->"), "sister: gone does not exist")
        self.assert_finds(self.change(line, f"{line}\n<!-- sister: cost in include -->"),
                          "complete: A client's plug-in does not name include/d.h, where cost is")


if __name__ == "__main__":
    unittest.main()
