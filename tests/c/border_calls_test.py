#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The walk of the C interface cannot be forgotten: a function without it, and a declaration that
border_calls.py does not understand, are errors."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import border_calls  # noqa: E402

HEADER = """
/// A comment with FOLIO_UNKNOWN (words).
typedef int32_t folio_code;
typedef struct folio_inner {
  uint32_t struct_size;
  int64_t extent[2];
} folio_inner;
typedef struct folio_outer {
  uint32_t struct_size;
  float scale;
  const folio_inner* inner;
  void (*call)(void* context, int64_t n);
} folio_outer;
FOLIO_C_EXPORT folio_code folio_run(const folio_outer* outer, int64_t bytes,
                                    folio_inner* filled);
FOLIO_C_EXPORT uint32_t folio_get_version(void);
"""
WALK = "void fill(folio_run_call& c);\nvoid fill(folio_get_version_call&);\n"


class BorderCalls(unittest.TestCase):
    def run_on(self, header, walk=WALK):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("folio.h", "walk.cpp", "calls.h")]
            paths[0].write_text(header, encoding="utf-8")
            paths[1].write_text(walk, encoding="utf-8")
            error = border_calls.main(*paths)
            return error, paths[2].read_text(encoding="utf-8") if paths[2].exists() else ""

    def test_every_field_behind_a_pointer_is_broken(self):
        error, text = self.run_on(HEADER)
        self.assertIsNone(error)
        for case in ("outer = nullptr", "outer->struct_size = UINT32_MAX", "outer->scale = NAN",
                     "outer->inner = nullptr", "outer->inner->extent[1] = INT64_MIN",
                     "outer->call = nullptr", "bytes = INT64_MAX", "bytes = INT64_MIN",
                     "bytes = -1", "filled->struct_size = 0"):
            self.assertIn(f'"{case}"', text)
        self.assertNotIn("filled->extent", text, "it is an output")
        self.assertIn("AllCalls = std::tuple<\n    folio_run_call,\n    folio_get_version_call>", text)

    def test_a_function_without_its_walk_is_an_error(self):
        error, _ = self.run_on(HEADER + "FOLIO_C_EXPORT folio_code folio_new(int32_t x);\n")
        self.assertIn("folio_new", error)

    def test_a_walk_may_have_several_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("folio.h", "walk.cpp", "rest.h", "calls.h")]
            for path, text in zip(paths, (HEADER, *WALK.splitlines())):
                path.write_text(text, encoding="utf-8")
            self.assertIsNone(border_calls.main(*paths))
            self.assertIn("folio_get_version", border_calls.main(paths[0], paths[1], paths[3]))

    def test_what_is_not_understood_is_an_error(self):
        for line in ("FOLIO_C_EXPORT folio_code folio_run_on(int128_t x);",
                     "FOLIO_C_EXPORT folio_code folio_run_on(folio_unknown* x);",
                     "FOLIO_C_EXPORT extern int32_t folio_number;"):
            error, _ = self.run_on(HEADER + line + "\n", WALK + "folio_run_on_call&")
            self.assertIsNotNone(error, line)


if __name__ == "__main__":
    unittest.main()
