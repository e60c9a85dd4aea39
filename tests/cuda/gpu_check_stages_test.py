#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/gpu_check_stages_test.py: tools/gpu_check.sh runs its stages as it says, with programs
that stand in for what needs a GPU: in order, each within its limit, results kept whatever happens.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/gpu_check.sh"
ORDER = ["machine", "maps", "primitives", "tiles", "cases", "tma_cases", "roofs", "bench",
         "memcheck", "racecheck", "synccheck", "ncu"]

# Writes a line at once, then does what FOLIO_STAND_IN says for its stage: hang, die, differ, skip.
STAND_IN = """#!/bin/sh
last=
for last; do :; done
first=$1
case $first in */*) first=out ;; esac
what=$(basename "$0")-$first${3:+-$2}
case $last in
  */*.jsonl) echo "{\\"stage\\": \\"$what\\"}" >>"$last" ;;
esac
echo "$what says \\"so\\""
case " $FOLIO_STAND_IN " in
  *" $what:hang "*) sleep 1000 ;;
  *" $what:ignore "*) trap '' TERM; while :; do sleep 1; done ;;
  *" $what:die "*) kill -SEGV $$ ;;
  *" $what:differ "*) exit 1 ;;
  *" $what:skip "*) exit 77 ;;
  *" $what:break "*) exit 3 ;;
esac
"""
# Runs what it is given, as the tools do, and says what it was called with.
TOOL = """#!/bin/sh
echo "$(basename "$0") has $*"
while [ $# -gt 0 ]; do
  case $1 in */gpu_kernels | */gpu_bench) break ;; esac
  shift
done
exec "$@"
"""


class Stages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.out = self.root / "out"
        self.programs = self.root / "programs"
        self.tools = self.root / "tools"
        for name, text in [("programs/gpu_check", STAND_IN), ("programs/gpu_kernels", STAND_IN),
                           ("programs/gpu_bench", STAND_IN),
                           ("tools/compute-sanitizer", TOOL), ("tools/ncu", TOOL)]:
            self.make(name, text)
        (self.programs / "commit").write_text("abc1234\n")

    def make(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_stages(self, *arguments, faults=""):
        environment = dict(os.environ, FOLIO_STAND_IN=faults,
                           PATH=f"{self.tools}:/usr/bin:/bin")
        return subprocess.run([SCRIPT, "--dry-run", "--programs", self.programs, "--out", self.out,
                               *arguments], env=environment, text=True, capture_output=True,
                              check=False)

    def summary(self):
        return json.loads((self.out / "summary.json").read_text())

    def verdicts(self):
        return {stage["stage"]: stage["verdict"] for stage in self.summary()["stages"]}

    def lines(self, name):
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()]

    def test_stages_run_in_order_and_write_at_most_eight_files(self):
        done = self.run_stages()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([stage["stage"] for stage in self.summary()["stages"]], ORDER)
        self.assertEqual(set(self.verdicts().values()), {"ok"})
        files = sorted(path.name for path in self.out.iterdir())
        self.assertEqual(files, ["bench.jsonl", "cases.jsonl", "machine.jsonl", "ncu.txt",
                                 "primitives.jsonl", "sanitizer.txt", "summary.json",
                                 "tensor_maps.jsonl"])
        self.assertEqual([line["stage"] for line in self.lines("cases.jsonl")],
                         ["gpu_kernels-cases-plain", "gpu_kernels-cases-tma"])
        self.assertEqual(self.summary()["commit"], "abc1234")

    def test_all_limits_together_leave_room_within_ten_minutes(self):
        listed = subprocess.run([SCRIPT, "--stages"], text=True, capture_output=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        self.assertEqual([row[0] for row in rows], ORDER)
        # timeout waits three seconds more before it kills
        self.assertLessEqual(sum(int(row[1]) + 3 for row in rows), 580)
        self.assertLessEqual(len({row[2] for row in rows}) + 1, 8)

    def test_a_stage_that_hangs_is_stopped_and_keeps_what_it_wrote(self):
        done = self.run_stages("--each", "1", "maps", "primitives", "tiles",
                               faults="gpu_check-primitives:hang")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.verdicts(), {"maps": "ok", "primitives": "timed out", "tiles": "ok"})
        self.assertEqual([line["stage"] for line in self.lines("primitives.jsonl")],
                         ["gpu_check-primitives", "gpu_check-tiles"])

    def test_a_stage_that_ignores_signals_is_killed(self):
        self.run_stages("--each", "1", "tiles", "cases", faults="gpu_check-tiles:ignore")
        self.assertEqual(self.verdicts(), {"tiles": "timed out", "cases": "ok"})

    def test_a_stage_that_dies_is_named_and_the_rest_runs(self):
        done = self.run_stages(faults="gpu_check-tiles:die gpu_bench-out:break")
        self.assertEqual(done.returncode, 1)
        verdicts = self.verdicts()
        self.assertEqual(verdicts.pop("tiles"), "died")
        self.assertEqual(verdicts.pop("bench"), "failed")
        self.assertEqual(set(verdicts.values()), {"ok"})
        died = [stage for stage in self.summary()["stages"] if stage["stage"] == "tiles"][0]
        self.assertEqual(died["status"], 128 + 11)

    def test_differences_keep_the_goldens(self):
        done = self.run_stages(faults="gpu_check-primitives:differ gpu_check-tiles:skip")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.verdicts()["primitives"], "differs")
        self.assertEqual(self.verdicts()["tiles"], "skipped")
        self.assertEqual(len(self.lines("primitives.jsonl")), 2)
        self.assertEqual(len(self.lines("tensor_maps.jsonl")), 1)

    def test_tools_and_programs_that_are_missing_are_recorded_and_not_fatal(self):
        (self.tools / "ncu").unlink()
        (self.programs / "gpu_kernels").unlink()
        done = self.run_stages("maps", "cases", "ncu")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.verdicts(), {"maps": "ok", "cases": "missing", "ncu": "missing"})

    def test_last_words_of_a_stage_are_in_the_summary(self):
        self.run_stages("maps")
        self.assertEqual(self.summary()["stages"][0]["last_words"], 'gpu_check-maps says "so"')

    def test_profiles_are_of_two_attention_kernels(self):
        self.run_stages("ncu")
        self.assertIn("--kernel-name regex:^(decode|mla) --launch-count 2",
                      (self.out / "ncu.txt").read_text())

    def test_results_that_are_kept_stand_in_the_tree_by_gpu_and_driver(self):
        tree = self.root / "tree"
        for name in ["tools/gpu_check.sh", "tools/cuda_table.py", "src/cuda/kernels.txt",
                     "docs/cuda.md"]:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SCRIPT.parents[1] / name, tree / name)
        (tree / "tests/tma/golden").mkdir(parents=True)
        self.out.mkdir()
        head = {"gpu": "NVIDIA X1 80GB", "compute_capability": "9.0", "driver_version": 13000}
        case = {"case": "a", "verdict": "right", "worst": 0.1, "instances": ["plan"], "why": ""}
        for name in ["machine", "tensor_maps", "primitives", "cases"]:
            more = f"{json.dumps(case)}\n" if name == "cases" else ""
            (self.out / f"{name}.jsonl").write_text(f"{json.dumps(head)}\n{more}")
        (self.out / "summary.json").write_text("{}")
        done = subprocess.run([tree / "tools/gpu_check.sh", "--keep", self.out], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        name = "nvidia_x1_80gb-13000"
        for path in [f"tests/tma/golden/{name}.jsonl", f"tests/cuda/golden/{name}.jsonl",
                     f"bench/results/cuda/cases-{name}.jsonl",
                     f"bench/results/cuda/summary-{name}.json"]:
            self.assertTrue((tree / path).exists(), path)
        self.assertIn("1 cases right, NVIDIA X1 80GB", (tree / "docs/cuda.md").read_text())

    def test_results_of_two_runs_do_not_mix(self):
        self.run_stages("maps")
        done = self.run_stages("maps")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not empty", done.stderr)

    def test_without_a_gpu_nothing_runs(self):
        if any(pathlib.Path("/dev").glob("nvidia[0-9]*")) or pathlib.Path("/dev/dxg").exists():
            self.skipTest("this machine has a GPU")
        done = subprocess.run([SCRIPT, "--programs", self.programs, "--out", self.out], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 77)
        self.assertFalse(self.out.exists())

    def test_a_stage_that_does_not_exist_is_refused(self):
        done = self.run_stages("stage9")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no stage stage9", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
