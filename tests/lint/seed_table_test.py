#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/seed_table_test.py: seed_table.py finds members without a header or a test, and a table that is out of date."""
import pathlib
import tempfile
import unittest

import seed_table

HEADER = "include/folio/cache/paged_kv_cache.h"
TESTS = f"{seed_table.TESTS}/paged_kv_cache_test.cpp"


class SeedTable(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.write(seed_table.LIST, "# headings\nPagedKVCache type\nPagedKVCache.page_size parameter\nPagedKVCache.store method\n")
        self.write(HEADER, "struct PagedKVCache { void store(); };\n")
        for header in seed_table.HEADERS["PagedKVCache"][1:]:
            self.write(f"include/{header}", "")
        tests = ["PagedKVCache", "PagedKVCache_page_size_parameter", "PagedKVCache_store"]
        self.write(TESTS, "".join(f"TEST({suite}, works) {{}}\n" for suite in tests))

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def problems(self):
        found = []
        seed_table.table(self.root, found)
        return found

    def test_a_complete_tree_has_a_row_per_heading(self):
        found = []
        text = seed_table.table(self.root, found)
        self.assertEqual(found, [])
        self.assertIn("| `store` | method | `folio/cache/paged_kv_cache.h` | `PagedKVCache_store` in", text)
        self.assertEqual(text.count("\n| `"), 3)

    def test_a_member_without_a_header_is_found(self):
        self.write(HEADER, "struct PagedKVCache { void store_scale(); };\n")
        self.assertEqual([problem.split(":")[0] for problem in self.problems()], ["PagedKVCache.store"])

    def test_a_member_without_a_test_is_found(self):
        self.write(TESTS, "TEST(PagedKVCache, works) {}\nTEST(PagedKVCache_store, works) {}\n")
        self.assertEqual([problem.split(":")[0] for problem in self.problems()], ["PagedKVCache.page_size"])

    def test_every_parameter_of_an_overload_has_a_counterpart(self):
        self.write(HEADER, "struct PagedKVCache { template <int Width> void store(int tok_idx); };\n")
        self.write(seed_table.SIGNATURES, "# overloads\nPagedKVCache.store [width](tok_idx)\nPagedKVCache.store [width](head_idx)\n")
        for header in seed_table.HEADERS["PagedKVCache"][1:]:
            self.write(f"include/{header}", "")
        found = []
        text = seed_table.table(self.root, found)
        self.assertEqual(found, ["PagedKVCache.store: no counterpart of head_idx"])
        self.assertIn("| `store` | `width`: `Width` | `tok_idx` | `PagedKVCache_store` |", text)


if __name__ == "__main__":
    unittest.main()
