#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/sources_test.py: sources.py finds each breach in a small tree, and nothing in a good one."""
import pathlib
import tempfile
import unittest

import sources

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class SourcesLint(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            headers = [name.removeprefix("include/") for name in files if name.startswith("include/")]
            listing = {"cmake/FolioHeaders.cmake": "# SPDX-License-Identifier: Apache-2.0\n" + "\n".join(headers)}
            for name, text in (listing | files).items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return [rule for _, _, rule in sources.check(root)]

    def header(self, name, body):
        return {f"include/{name}": f"{SPDX}/// {name}: a test.\n#pragma once\n{body}\n"}

    def assert_finds(self, files, rule):
        found = self.breaches(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(rule, found[0])

    def test_a_good_header_passes(self):
        self.assertEqual(self.breaches(self.header("folio/cache/a.h", '#include "folio/core/dtype.h"')), [])

    def test_an_include_that_points_upwards_is_found(self):
        self.assert_finds(self.header("folio/core/a.h", '#include "folio/cache/planes.h"'), "direction")
        self.assert_finds(self.header("folio/pool/a.h", "#include <folio/cache/planes.h>"), "direction")
        self.assert_finds({"src/cpu/a.cpp": f'{SPDX}/// src/cpu/a.cpp: x.\n#include "attention/border.h"\n'}, "direction")

    def test_a_program_sees_its_own_files_and_no_kernel(self):
        own = f'{SPDX}/// bench/a.cpp: x.\n#include "own.h"\n#include "reference/attention.h"\n'
        self.assertEqual(self.breaches({"bench/a.cpp": own}), [])
        self.assert_finds({"bench/a.cpp": own + '#include "cpu/profile.h"\n'}, "direction")
        self.assertEqual(self.breaches({"examples/a.cpp": f'{SPDX}/// examples/a.cpp: x.\n#include "own.h"\n'}), [])
        self.assert_finds({"examples/a.cpp": f'{SPDX}/// examples/a.cpp: x.\n#include "cpu/profile.h"\n'}, "direction")

    def test_a_room_of_the_tool_sees_those_in_front_of_it(self):
        own = f'{SPDX}/// cli/replay/a.cpp: x.\n#include "replay/b.h"\n#include "load/trace.h"\n#include "reference/attention.h"\n'
        self.assertEqual(self.breaches({"cli/replay/a.cpp": own}), [])
        self.assert_finds({"cli/replay/a.cpp": own + '#include "report/report.h"\n'}, "direction")
        self.assert_finds({"cli/replay/a.cpp": own + '#include "b.h"\n'}, "direction")
        aside = f'{SPDX}/// cli/directory/a.cpp: x.\n#include "parts/text.h"\n'
        self.assertEqual(self.breaches({"cli/directory/a.cpp": aside}), [])
        self.assert_finds({"cli/directory/a.cpp": aside + '#include "load/trace.h"\n'}, "direction")
        main = f'{SPDX}/// cli/main.cpp: x.\n#include "replay_command.h"\n#include "capacity/capacity.h"\n'
        self.assertEqual(self.breaches({"cli/main.cpp": main}), [])

    def test_the_python_module_sees_its_own_files_and_public_headers(self):
        own = f'{SPDX}/// src/a.cpp: x.\n#include "own.h"\n#include <folio/folio.h>\n'
        self.assertEqual(self.breaches({"python/src/a.cpp": own}), [])
        self.assert_finds({"python/src/a.cpp": own + '#include "cpu/profile.h"\n'}, "direction")
        tiers = f'{SPDX}/// python/src/tiers/a.cpp: x.\n#include "own.h"\n#include "../pool.h"\n'
        self.assertEqual(self.breaches({"python/src/tiers/a.cpp": tiers}), [])
        self.assert_finds({"python/src/a.cpp": own + '#include "tiers/layers.h"\n'}, "direction")

    def test_the_pool_may_see_the_page_table(self):
        self.assertEqual(self.breaches(self.header("folio/pool/a.h", '#include "folio/cache/page_table.h"')), [])

    def test_build_macros_and_heavy_headers_in_public_headers_are_found(self):
        self.assert_finds(self.header("folio/core/a.h", "#ifdef NDEBUG\n#endif"), "public")
        self.assert_finds(self.header("folio/core/a.h", "#ifdef __AVX512F__\n#endif"), "public")
        self.assert_finds(self.header("folio/core/a.h", "#include <immintrin.h>"), "public")
        self.assert_finds(self.header("folio/core/a.h", "#include <cuda_runtime.h>"), "public")

    def test_an_unlisted_header_is_found(self):
        files = self.header("folio/core/a.h", "")
        files["cmake/FolioHeaders.cmake"] = "# SPDX-License-Identifier: Apache-2.0\n"
        self.assert_finds(files, "folio/core/a.h is missing")

    def test_a_listed_header_that_does_not_exist_is_found(self):
        files = {"cmake/FolioHeaders.cmake": "# SPDX-License-Identifier: Apache-2.0\nfolio/core/b.h\n"}
        self.assert_finds(files, "folio/core/b.h does not exist")

    def test_two_classes_of_one_name_are_found(self):
        def file(path, body):
            return {path: f"{SPDX}/// {path}: x.\n#pragma once\nnamespace folio::tier {{\n{body}\n}}  // namespace folio::tier\n"}

        one = file("src/tier/a.h", "class Stage {\n};")
        self.assert_finds(one | file("src/tier/b.h", "class Stage final : public Base {\n};"), "folio::tier::Stage is defined in src/tier/a.h")
        self.assert_finds(one | file("src/tier/b.cpp", "struct Stage {\n};"), "own name")
        hidden = file("src/tier/b.cpp", "namespace {\nclass Stage {\n};\n}  // namespace")
        self.assertEqual(self.breaches(one | hidden), [])
        self.assertEqual(self.breaches(one | file("src/tier/b.h", "class Stage;")), [])
        self.assertEqual(self.breaches(one | file("src/tier/no_a.cpp", "class Stage {\n};")), [])

    def test_head_length_and_open_ends_are_found(self):
        self.assert_finds({"src/core/a.cpp": SPDX + "/// src/core/b.cpp: x.\n"}, "head")
        self.assert_finds({"src/core/a.cpp": SPDX + "/// src/core/a.cpp: x.\n" + "\n" * 800}, "length")
        self.assert_finds({"src/core/a.cpp": SPDX + "/// src/core/a.cpp: x.\n//" + "x" * 140 + "\n"}, "length")
        self.assert_finds({"src/core/a.cpp": SPDX + "/// src/core/a.cpp: x.\n// TO" + "DO\n"}, "open end")
        self.assert_finds({"include/folio/core/a.h": SPDX + "/// folio/core/a.h: x.\n"}, "once")
        self.assert_finds({"tools/a.py": "print()\n"}, "head")

    def test_tests_that_ignore_an_exit_status_are_found(self):
        head = "# SPDX-License-Identifier: Apache-2.0\n"
        for word in ("PASS_REGULAR_EXPRESSION", "WILL_FAIL", "SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION"):
            for name in ("tests/a/CMakeLists.txt", "tests/a/b.cmake"):
                self.assert_finds({name: f"{head}set_tests_properties(a PROPERTIES {word} x)\n"}, f"status: {word}")
            self.assertEqual(self.breaches({"tests/support/expect.cmake": f"{head}# {word}\n"}), [])
        self.assertEqual(self.breaches({"tests/a/CMakeLists.txt": head + "folio_expect(a COMMAND b STATUS 1 SAYS c)\n"}), [])

    def test_files_in_the_folder_of_all_temporary_files_are_found(self):
        own = f'{SPDX}/// tests/a.cpp: x.\nauto path = testing::TempDir() + "a";\n'
        self.assert_finds({"tests/a.cpp": own}, "own folder")

    def test_names_that_are_no_sentences_and_seeds_that_nobody_can_repeat_are_found(self):
        head = f"{SPDX}/// tests/a.cpp: x.\n"
        for kind in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P"):
            self.assert_finds({"tests/a.cpp": f"{head}{kind}(A, IsRight) {{\n"}, "name: IsRight")
            self.assertEqual(self.breaches({"tests/a.cpp": f"{head}{kind}(A, is_right_for_BK) {{\n"}), [])
        self.assert_finds({"tests/a.cpp": f"{head}TEST(A, isRight) {{\n"}, "name: isRight")
        self.assert_finds({"tests/a.cpp": f"{head}std::mt19937 rng(std::random_device{{}}());\n"}, "seed")


if __name__ == "__main__":
    unittest.main()
