# SPDX-License-Identifier: Apache-2.0
"""tests/tools/tags_test.py: tools/tags.sh finds what stands within `namespace folio::inline v1 {`, at its own path and line."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def has_universal_ctags():
    ctags = shutil.which("ctags")
    return ctags and "Universal Ctags" in subprocess.run([ctags, "--version"], capture_output=True, text=True, check=False).stdout


class Tags(unittest.TestCase):
    @unittest.skipUnless(has_universal_ctags(), "no Universal Ctags here")
    def test_functions_and_types_of_the_library_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "tools").mkdir()
            shutil.copy(ROOT / "tools/tags.sh", root / "tools/tags.sh")
            (root / "src/a room").mkdir(parents=True)
            (root / "src/a room/a.h").write_text("namespace folio::inline v1::inner {\nclass Page {\n  int rows();\n};\n}\n")
            (root / "src/b.cuh").write_text("namespace folio::inline v1 {\ninline int b() { return 1; }\n}\n")
            for command in (["git", "init", "-q"], ["git", "add", "."], ["tools/tags.sh"]):
                subprocess.run(command, cwd=root, check=True)
            found = [line.split("\t") for line in (root / "tags").read_text().splitlines() if not line.startswith("!")]
            for name, path, line, scope in (
                ("Page", "src/a room/a.h", "line:2", "namespace:folio::inner"),
                ("b", "src/b.cuh", "line:2", "namespace:folio"),
            ):
                self.assertTrue(any(tag[:2] == [name, path] and {line, scope} <= set(tag) for tag in found), found)


if __name__ == "__main__":
    unittest.main()
