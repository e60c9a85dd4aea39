# SPDX-License-Identifier: Apache-2.0
"""tests/tools/share_of_day_test.py: tests/support/share_of_day.sh gives a program the day's part of its tests, or all, and its status."""

import os
import pathlib
import subprocess
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "support/share_of_day.sh"


class ShareOfDay(unittest.TestCase):
    def run_it(self, program, rounds=""):
        done = subprocess.run([SCRIPT, "3", "sh", "-c", program], env={**os.environ, "FOLIO_TEST_ROUNDS": rounds}, capture_output=True,
                              text=True)
        return done.returncode, done.stdout.strip()

    def test_a_day_has_its_part(self):
        def today():
            return int(time.time()) // 86400

        before = today()
        result = self.run_it('echo "$GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS"')
        self.assertIn(result, [(0, f"{day % 3} of 3") for day in (before, today())])

    def test_all_are_all(self):
        self.assertEqual(self.run_it('echo "${GTEST_TOTAL_SHARDS-none}"', rounds="all"), (0, "none"))

    def test_a_program_that_fails_fails(self):
        self.assertEqual(self.run_it("exit 7"), (7, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
