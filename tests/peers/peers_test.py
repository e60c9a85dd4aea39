#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/peers/peers_test.py: contenders of bench/peers take turns, and its tables say what was measured.

usage: peers_test.py FOLDER PROGRAM        bench/peers, and roof_worker or `none`
"""
import copy
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, sys.argv[1])
PROGRAM = sys.argv[2]

import contenders  # noqa: E402
import report  # noqa: E402
import shapes  # noqa: E402
import turns  # noqa: E402

ECHO = """
import json, sys
for n, line in enumerate(sys.stdin):
    message = json.loads(line)
    with open(sys.argv[1], "a") as log:
        log.write(sys.argv[2])
    print(json.dumps({"seconds": [float(sys.argv[3])] * 2}), flush=True)
"""


def worker(name, *command):
    return turns.Worker(name, command, dict(os.environ))


def state(process):
    """A letter: T where it has been stopped."""
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def row(contender, best_ms, **more):
    fixed = {"versions": {"x": "1"}, "median_ms": 2 * best_ms, "bytes": 8e6, "relative_rms": 2e-3, "wrong": False}
    return {"contender": contender, "best_ms": best_ms, **fixed, **more}


def part(*rows, shape="dec", **more):
    """8 MB at 40 GB/s: 0.2 ms; 1e8 operations at 1e12 per second: 0.1 ms."""
    fixed = {"what": "1 x 1", "kind": "decode", "threads": 2, "flops": 1e8, "strangers": 0.1, "commit": "abc",
             "began": "2026-01-02T00:00:00Z", "rounds": 2, "seconds": 0.1, "rotate_mib": 4,
             "roofs": {"R": {"best": 4e10, "median": 3e10, "how": "plain"}, "P": {"best": 1e12, "median": 1e12, "how": "fma"}}}
    return {"shape": shape, "rows": list(rows), **fixed, **more}


class Turns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name, "log")
        self.workers = [worker(name, sys.executable, "-c", ECHO, str(self.log), name, seconds)
                        for name, seconds in (("a", "0.25"), ("b", "0.75"), ("c", "0.125"))]

    def tearDown(self):
        for each in self.workers:
            each.stop()
        self.folder.cleanup()

    def test_every_other_round_runs_in_reverse_and_slow_ones_stop_after_three_calls(self):
        results = {each.name: turns.Result() for each in self.workers}
        turns.take_turns(self.workers, results, 4, 0.01)
        self.assertEqual(self.log.read_text(), "abc" "cba" "ac" "ca")
        self.assertEqual(len(results["b"].calls), 4)
        self.assertEqual(results["a"].best(), 0.25)

    def test_one_that_ends_is_reported_and_the_others_go_on(self):
        self.workers[1] = worker("b", sys.executable, "-c", "import os, signal; input(); os.kill(os.getpid(), signal.SIGILL)")
        results = {each.name: turns.Result() for each in self.workers}
        turns.take_turns(self.workers, results, 2, 0.01)
        self.assertEqual(results["b"].refused, "ended by SIGILL")
        self.assertEqual(self.log.read_text(), "acca")

    def test_one_that_ended_is_started_again(self):
        dying = worker("d", sys.executable, "-c", "input(); raise SystemExit(3)")
        for _ in range(2):
            with self.assertRaisesRegex(turns.Gone, "ended, status 3"):
                dying.ask({}, 10.0)

    def test_one_that_was_killed_before_it_was_asked_is_reported(self):
        dying = worker("d", sys.executable, "-c", "input(); print('{}')")
        self.assertEqual(dying.ask({}, 10.0), {})
        dying._process.wait()  # the next line goes into a broken pipe
        with self.assertRaisesRegex(turns.Gone, "ended, status 0"):
            dying.ask({"turn": 0.1}, 10.0)
        self.assertEqual(dying.ask({}, 10.0), {})
        dying.stop()

    def test_rounds_are_done_again_beside_neighbours_by_all_but_roofs(self):
        results = {each.name: turns.Result() for each in self.workers}
        results["c"].answer = {"how": "a roof"}
        neighbours = turns.Neighbours(2)
        try:
            before = neighbours.cpu_seconds()
            turns.take_turns(self.workers, results, 2, 0.01, (neighbours, [1, 2]))
            self.assertEqual(self.log.read_text(), "abc" "ab" "ab" "cba" "ba" "ba")
            self.assertEqual({n: r.beside for n, r in results.items()},
                             {"a": {1: [0.25] * 4, 2: [0.25] * 4}, "b": {1: [0.75] * 4, 2: [0.75] * 4}, "c": {}})
            self.assertEqual(len(results["a"].calls), 4)
            neighbours.wake(2)
            while neighbours.cpu_seconds() < before + 0.05:  # for ever, where they do not run
                time.sleep(0.01)
            neighbours.wake(0)
            while any(state(each) != "T" for each in neighbours._processes):
                time.sleep(0.01)
        finally:
            neighbours.stop()
        self.assertEqual(neighbours.cpu_seconds(), 0.0)

    def test_one_that_does_not_answer_is_ended(self):
        silent = worker("s", sys.executable, "-c", "input(); input()")
        with self.assertRaisesRegex(turns.Gone, "no answer within 0 s"):
            silent.ask({}, 0.1)

    def test_the_best_round_is_a_median(self):
        result = turns.Result(rounds=[[5.0, 1.0, 9.0], [4.0, 4.0, 8.0]])
        self.assertEqual(result.best(), 4.0)

    @unittest.skipIf(PROGRAM == "none", "roof_worker is not built")
    def test_the_roofs_are_contenders(self):
        for roof, setup in (("read", {"run_bytes": 4096, "runs": 512, "parts": 4}), ("arithmetic", {"run_bytes": 256, "runs": 1, "parts": 1})):
            each = worker(roof, PROGRAM, roof, "1")
            self.workers.append(each)
            self.assertTrue(each.ask(setup, 60.0)["how"])
            rates = each.ask({"turn": 0.001}, 60.0)["per_second"]
            self.assertGreater(min(rates), 1e6)
            self.assertEqual(each.ask({"drop": True}, 60.0), {})


class Shapes(unittest.TestCase):
    def test_every_kind_has_a_title_contenders_and_a_tiny_shape(self):
        kinds = {shape.kind for shape in shapes.SHAPES.values()}
        self.assertEqual(kinds, set(report.TITLES))
        self.assertEqual(kinds, {shapes.SHAPES[name].kind for name in shapes.SETS["tiny"]})
        for kind in kinds:
            names = contenders.contenders_of(kind)
            self.assertTrue(any(report.is_own(name) for name in names), kind)
            self.assertFalse(all(report.is_own(name) for name in names), kind)

    def test_sets_name_shapes(self):
        for names in shapes.SETS.values():
            self.assertLessEqual(set(names), set(shapes.SHAPES))
        self.assertEqual({shapes.SHAPES[name].kind for name in shapes.SETS["4bit"]}, {"four_bit"})

    def test_bytes_of_a_cache_are_those_of_the_width_that_it_is_there_for(self):
        of = {name: shapes.SHAPES[name].cache_bytes for name in ("dec_8k_b1", "8bit_8k_b1", "4bit_8k_b1", "mla_h16_4k")}
        self.assertEqual(of, {"dec_8k_b1": 32 << 20, "8bit_8k_b1": 16 << 20, "4bit_8k_b1": 8 << 20, "mla_h16_4k": 4096 * 576 * 2})

    def test_tokens_that_sequences_share_are_counted_once(self):
        shape = shapes.SHAPES["share_b16"]
        self.assertEqual(shape.distinct_tokens, 8192 + 16 * 512)
        self.assertEqual(shape.flops, 16 * shapes.Shape("alone", "decode", 1, 1, 8704).flops)
        self.assertIn("8,192 shared", shape.describe())
        for name in shapes.SETS["shared"]:
            self.assertEqual(shapes.SHAPES[name].shared % 128, 0, "whole pages of every contender")
        self.assertEqual(shapes.SHAPES["dec_8k_b16"].distinct_tokens, 16 * 8192)

    def test_what_is_wrong_depends_on_the_width_of_the_cache_not_on_the_shape(self):
        for name, bound in (("folio hm", 0.03), ("llama.cpp fa-off", 0.03), ("folio tm i8", 0.12), ("vLLM vec fp8", 0.12),
                            ("folio hm i4", 0.2), ("folio tm kv4", 0.2), ("llama.cpp fa q4_0", 0.2)):
            entry = contenders.ENTRIES[name]
            self.assertFalse(entry.is_wrong(0.99 * bound), name)
            for error in 1.01 * bound, float("inf"), float("nan"):
                self.assertTrue(entry.is_wrong(error), name)


class Tables(unittest.TestCase):
    def test_the_slower_of_the_two_roofs_is_the_one_that_counts(self):
        mine = row("folio hm", 0.25)
        self.assertEqual(report.cell(part(mine), "folio hm"), "0.25 ms (0.5) · 32 GB/s · 80 % R")
        self.assertEqual(report.cell(part(mine, flops=2.4e8), "folio hm"), "0.25 ms (0.5) · 960 GFLOP/s · 96 % P")
        self.assertEqual(report.cell(part(mine, roofs={}), "folio hm"), "0.25 ms (0.5) · 32 GB/s")

    def test_the_arithmetic_roof_is_the_best_that_any_shape_of_as_many_threads_has_seen(self):
        fast, slow = {"best": 2e12, "median": 1e12, "how": "fma"}, {"best": 1e12, "median": 1e12, "how": "fma"}
        parts = [part(roofs={"P": slow}), part(roofs={"P": fast}), part(roofs={"P": slow}, threads=1), part(roofs={})]
        found = [each["roofs"].get("P") for each in report.with_one_arithmetic(parts)]
        self.assertEqual(found, [fast, fast, slow, None])

    def test_a_ratio_is_of_the_best_peer_that_is_right(self):
        here = part(row("folio hm", 0.25), row("slow", 1.0), row("wrong", 0.1, wrong=True), row("fast", 0.5))
        self.assertEqual(report.ratio_cell(here, "folio hm"), "**2.00** (fast)")

    def test_a_wrong_one_is_marked_and_a_missing_one_has_its_reason(self):
        here = part(row("wrong", 0.1, wrong=True), {"contender": "none", "versions": {}, "refused": "not installed"})
        text = report.tables({"machine": "m", "shapes": [here]})
        self.assertIn("~~0.1 ms (0.2) · 80 GB/s · 200 % R~~ wrong", text)
        self.assertIn("* Missing: none (dec): not installed", text)
        self.assertIn("folio at abc; 2026-01-02", text)

    def test_a_wrong_result_of_ours_has_no_ratio(self):
        here = part(row("folio hm", 0.1, wrong=True), row("fast", 0.5))
        self.assertEqual(report.ratio_cell(here, "folio hm"), report.NONE)

    def test_the_short_table_has_the_faster_order_and_the_best_peer(self):
        here = part(row("folio hm", 0.25), row("folio tm", 0.05), row("fast", 0.06))
        self.assertIn("| dec: 1 x 1 | 2 | 50 µs (tm) | 400 % R | 60 µs | fast | 1.20 |",
                      report.short_table({"machine": "m", "shapes": [here]}))

    def test_what_neighbours_cost_has_a_table_for_each_number_of_them(self):
        beside = {"1": {"mean_ms": 3.0, "median_ms": 1.5}, "2": {"mean_ms": 8.0, "median_ms": 4.0}}
        here = part(row("folio hm", 0.25, mean_ms=2.0, median_ms=1.0, beside=beside),
                    row("fast", 0.5, mean_ms=1.0, beside={}), neighbours=[1, 2])
        text = report.tables({"machine": "m", "shapes": [here, part(row("folio hm", 1.0), shape="quiet")]})
        self.assertIn("### Beside 1 busy process, 2 threads\n\n| mean (over quiet: mean, median) | dec |\n", text)
        self.assertIn("| folio hm | 3 ms (1.5, 1.5) |\n", text)
        self.assertIn("### Beside 2 busy processes, 2 threads\n", text)
        self.assertIn("| folio hm | 8 ms (4.0, 4.0) |\n", text)
        self.assertNotIn("### Beside", report.tables({"machine": "m", "shapes": [part(row("folio hm", 1.0))]}))

    def test_the_short_table_says_that_others_used_the_machine(self):
        for used, says in ((0.1, False), (1.5, True)):
            text = report.short_table({"machine": "m", "shapes": [part(row("folio hm", 0.25), strangers=used), part(shape="quiet")]})
            self.assertEqual(f"Others used up to {used} processors meanwhile" in text, says)

    def test_results_of_a_shape_replace_earlier_ones_of_as_many_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.json")
            old = {"machine": "m", "shapes": [part(row("a", 1.0)), part(row("a", 1.0), threads=1), part(shape="other")]}
            path.write_text(json.dumps(old))
            held = {"machine": "m", "shapes": []}
            new = report.merged(path, held, part(row("a", 3.0)))
            expected = copy.deepcopy(old)
            expected["shapes"][0]["rows"] = [row("a", 3.0)]
            self.assertEqual(new, expected)
            self.assertEqual(json.loads(path.read_text()), expected)
            with self.assertRaises(SystemExit):
                report.merged(path, {"machine": "another", "shapes": []}, part())
            self.assertEqual(report.merged(None, held, part()), {"machine": "m", "shapes": [part()]})

    def test_the_machine_is_named(self):
        self.assertRegex(report.machine(), r"^.+, family \S+, model \S+, \d+ processors$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
