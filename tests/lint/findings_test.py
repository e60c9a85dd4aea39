#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/findings_test.py: findings.py finds each breach of the form of a find, and none in one that has it."""
import pathlib
import tempfile
import unittest

import findings

GOOD = """#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/zero.sh: zero is one.
. "$(dirname "$0")/support.sh"
need a-b==1.0.1 c_d==2026.4.post1 \\
  e==3
expect "zero: 0"
see "zero: 1" <<'PYTHON'
need = "what stands here is a program"
print("zero: 1")
PYTHON
"""


class Findings(unittest.TestCase):
    def breaches(self, text=GOOD, mode=0o755, readme="| [zero](zero.sh) |"):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root) / "findings"
            folder.mkdir()
            (folder / "support.sh").write_text("need() { pip install folio; }\n", encoding="utf-8")
            (folder / "README.md").write_text(readme, encoding="utf-8")
            (folder / "zero.sh").write_text(text, encoding="utf-8")
            (folder / "zero.sh").chmod(mode)
            return list(findings.check(pathlib.Path(root)))

    def assert_finds(self, word, **breach):
        found = self.breaches(**breach)
        self.assertEqual(len(found), 1, found)
        self.assertIn(f": {word}:", found[0])

    def test_the_form_passes(self):
        self.assertEqual(self.breaches(), [])
        self.assertEqual(self.breaches(GOOD.replace("expect", "older e==2\nskip_init e\nstand_in f\nexpect", 1)), [])

    def test_mode(self):
        self.assert_finds("mode", mode=0o644)

    def test_steps(self):
        for gone in ('. "$(dirname "$0")/support.sh"\n', 'expect "zero: 0"\n', "need a-b==1.0.1 c_d==2026.4.post1 \\\n  e==3\n"):
            self.assert_finds("steps", text=GOOD.replace(gone, "", 1))
        self.assert_finds("steps", text=GOOD[: GOOD.index(" <<'PYTHON'")])
        self.assert_finds("steps", text=GOOD.replace('expect "', 'need f==1\nexpect "', 1))
        self.assert_finds("steps", text=GOOD.replace('expect "', 'skip_init e\nolder e==1\nexpect "', 1))
        self.assert_finds("steps", text=GOOD.replace('expect "', 'stand_in f\nskip_init e\nexpect "', 1))

    def test_pins(self):
        self.assert_finds("pins", text=GOOD.replace("a-b==1.0.1", "a-b"))
        self.assert_finds("pins", text=GOOD.replace("e==3", "e>=3"))
        self.assert_finds("pins", text=GOOD.replace('expect "', 'older e\nexpect "', 1))

    def test_surprise(self):
        self.assert_finds("surprise", text=GOOD.replace('see "zero: 1"', 'see "zero: 0"'))
        self.assert_finds("surprise", text=GOOD.replace('expect "zero: 0"', 'expect ""'))

    def test_alone(self):
        self.assert_finds("alone", text=GOOD.replace('print("', 'import folio_kv\nprint("'))

    def test_listed(self):
        self.assert_finds("listed", readme="[support](support.sh)")
        self.assert_finds("listed", readme="[zero](zero.sh) [one](one.sh)")


if __name__ == "__main__":
    unittest.main()
