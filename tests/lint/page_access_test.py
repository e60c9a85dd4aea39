#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/page_access_test.py: page_access.py finds table reads and row addresses in src/cpu, and only there."""
import pathlib
import tempfile
import unittest

import page_access


class PageAccess(unittest.TestCase):
    def breaches(self, text, name="src/cpu/kernel.h", allowed=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            (pathlib.Path(folder) / "src/cpu").mkdir(parents=True, exist_ok=True)
            return list(page_access.check(pathlib.Path(folder), allowed or {}))

    def assert_finds(self, text, word):
        found = self.breaches(text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(f": {word}:", found[0])

    def test_reads_of_a_table_are_found(self):
        self.assert_finds("auto page = batch.table.entries[p];", "entries")
        self.assert_finds("auto first = table->row_start(b);", "row_start")
        self.assert_finds("auto run = run_of(view, row, token, end);", "run_of")
        self.assert_finds("auto id = cache.lookup_table(b, p);", "lookup_table")

    def test_addresses_of_rows_are_found(self):
        self.assert_finds("auto at = row_of(view, page, slot, head);", "row_of")
        self.assert_finds("at += page * view.page_stride_bytes;", "page_stride_bytes")
        self.assert_finds("at += h * view.head_stride_bytes;", "head_stride_bytes")
        self.assert_finds("auto slot = token % view.page_size;", "page_size")
        self.assert_finds("auto at = operand.block_paged_ptr<16>(b, token, h);", "block_paged_ptr")
        self.assert_finds("auto at = static_cast<const char*>(key_view.data);", "key_view.data")
        self.assert_finds("float s = load_scale(view->scales.data, dtype);", "scales.data")

    def test_what_a_cursor_gives_is_not(self):
        self.assertEqual(self.breaches("const TileRows rows = PageCursor::rows(view, run, head); use(rows.data, rows.stride_bytes);"), [])
        self.assertEqual(self.breaches("if (view.scales.data != nullptr) cursor.find(tile);"), [])

    def test_functions_of_the_files_own_are_not(self):
        self.assertEqual(self.breaches("Row row_of(int r) const;\nRow row = row_of(2);\nstd::byte* scale_at(int g);\n"), [])
        self.assertEqual(len(self.breaches("std::byte* at() { return row_of(view, page, slot, head); }")), 1)

    def test_comments_strings_and_other_folders_are_not_looked_at(self):
        self.assertEqual(self.breaches('// row_of\n/* entries\n page_size */ const char* s = "page_size";\n'), [])
        self.assertEqual(self.breaches("row_of(view, page, slot, head);", "src/attention/append.cpp"), [])

    def test_an_exception_allows_its_words_only_and_must_be_needed(self):
        allowed = {"src/cpu/skeleton/mutant.h": ({"page_size"}, "a fault")}
        self.assertEqual(self.breaches("view.page_size", "src/cpu/skeleton/mutant.h", allowed), [])
        self.assertEqual(len(self.breaches("view.page_size; view.entries", "src/cpu/skeleton/mutant.h", allowed)), 1)
        self.assertEqual(self.breaches("", "src/cpu/skeleton/mutant.h", allowed), ["src/cpu/skeleton/mutant.h: the exception for page_size is not needed"])


if __name__ == "__main__":
    unittest.main()
