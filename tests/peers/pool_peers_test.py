#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/peers/pool_peers_test.py: bench/pool_peers serves what it says, and its tables say what was measured.

usage: pool_peers_test.py FOLDER PROGRAM        bench/pool_peers, and pool_worker or `none`
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv[1])
PROGRAM = sys.argv[2]

import report  # noqa: E402
import run  # noqa: E402
import turns  # noqa: E402
import worker  # noqa: E402

FAKE = """
import json, sys
times = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "setup" in message and message["setup"]["request_pages"] == 3:
        sys.exit(7)
    if "setup" in message:
        answer = {"versions": {"fake": "1"}}
    elif "trace" in message:
        answer = {"hit_pages": 3, "pages": 10, "seconds": times.pop(0)[0]}
    else:
        answer = {"seconds": times.pop(0)}
    print(json.dumps(answer), flush=True)
"""


def fake(name, times):
    return turns.Worker(name, [sys.executable, "-c", FAKE, json.dumps(times)], {})


class Lru:
    """A manager of whole requests: those of the most recent pages are found."""

    versions = {"lru": "0"}

    def __init__(self, pages, page_size):
        self.room, self.held = pages * page_size, []

    def prompt(self, tokens):
        return tuple(tokens)

    def serve(self, prompt):
        found = next((held for held in self.held if prompt[:len(held)] == held), ())
        self.held = [held for held in self.held if held != found] + [found or prompt]
        while sum(map(len, self.held)) > self.room:
            self.held.pop(0)
        return len(found)


class Forgetful(Lru):
    def serve(self, prompt):
        super().serve(prompt)
        return 0


class Loads(unittest.TestCase):
    SETUP = {"pages": 12, "page_size": 4, "request_pages": 2}

    def test_hits_are_found_and_misses_are_not(self):
        for operation, served in (("hit", 4), ("miss", 6)):
            manager = Lru(12, 4)
            load = worker.Load(manager, {**self.SETUP, "operation": operation})
            self.assertEqual(len(manager.held), served)
            self.assertTrue(all(0 < load.serve_next() < 1 for _ in range(20)))

    def test_one_that_finds_less_than_it_has_is_no_contender(self):
        load = worker.Load(Forgetful(12, 4), {**self.SETUP, "operation": "hit"})
        with self.assertRaisesRegex(RuntimeError, "request 0 found 0 tokens"):
            load.serve_next()

    def test_requests_are_repeatable_and_differ(self):
        self.assertEqual(worker.tokens_of(5, 64), worker.tokens_of(5, 64))
        self.assertNotEqual(worker.tokens_of(5, 64)[:2], worker.tokens_of(6, 64)[:2])


class Rounds(unittest.TestCase):
    def test_a_figure_is_the_median_of_the_rounds_medians(self):
        fast, slow = fake("folio", [[1e-9, 2e-9, 9e-9], [4e-9], [3e-9]]), fake("vllm", [[3e-8], [6e-8], [9e-8]])
        try:
            part = run.measure_case([fast, slow], run.Case("hit", 64, 8), 3, 0.0)
        finally:
            fast.stop(), slow.stop()
        self.assertEqual(part["case"], "hit/pages:64/request_pages:8")
        self.assertEqual([round(row["page_ns"], 6) for row in part["rows"]], [3, 60])
        self.assertEqual([row["requests"] for row in part["rows"]], [5, 3])

    def test_one_that_cannot_be_set_up_has_its_reason(self):
        each = fake("sglang", [])
        part = run.measure_case([each], run.Case("hit", 64, 3), 1, 0.0)
        self.assertEqual(part["rows"], [{"contender": "sglang", "versions": {}, "refused": "ended, status 7"}])

    def test_contenders_of_one_library_share_an_environment(self):
        self.assertEqual({name: run.environment_of(name) for name in run.NAMES},
                         {"folio": "folio", "vllm": "vllm", "vllm_hashed": "vllm", "sglang": "sglang", "sglang_unified": "sglang",
                          "max_jenga": "max", "max_classic": "max"})
        self.assertEqual(run.made(set()), {})

    def test_a_trace_has_hits_and_a_time_a_page(self):
        each = fake("folio", [[1e-6], [5e-6], [2e-6]])
        try:
            part = run.measure_trace([each], pathlib.Path("t.jsonl"), 3)
        finally:
            each.stop()
        (row,) = part["rows"]
        self.assertEqual((row["hit_pages"], row["pages"], round(row["page_ns"], 6)), (3, 10, 200))

    def test_results_of_the_same_code_keep_what_is_not_measured_anew(self):
        names = [case.name for case in run.CASES]

        def results(commit, *parts, traces=()):
            return {"context": {"machine": "m", "commit": commit}, "cases": [{"case": name, "rows": rows} for name, rows in parts],
                    "traces": [{"trace": name} for name in traces]}
        held = results("abc", (names[1], [1]), (names[2], [2]), traces=run.TRACES)
        new = results("abc", (names[2], [4]), (names[0], [3]))
        both = results("abc", (names[0], [3]), (names[1], [1]), (names[2], [4]), traces=run.TRACES)
        self.assertEqual(run.merged(held, new), both)
        self.assertEqual(run.merged(held, results("def", (names[0], [3]))), results("def", (names[0], [3])))

    @unittest.skipIf(PROGRAM == "none", "pool_worker is not built")
    def test_folios_worker_serves_and_replays(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
            trace.write('{"hash_ids": [1, 2, 3]}\n{"hash_ids": [1, 2, 4]}\n{"hash_ids": [5]}\n')
            trace.flush()
            setups = [{"setup": {**Loads.SETUP, "page_size": 16, "operation": name}} for name in ("hit", "miss")]
            messages = [setups[0], {"turn": 0.01}, setups[1], {"turn": 0.01}, {"trace": {"path": trace.name, "pages": 8}}]
            text = "".join(json.dumps(message) + "\n" for message in messages)
            done = subprocess.run([PROGRAM], input=text, capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(min(answers[1]["seconds"] + answers[3]["seconds"]), 0)
        self.assertEqual((answers[4]["hit_pages"], answers[4]["pages"]), (2, 7))

    @unittest.skipIf(PROGRAM == "none", "pool_worker is not built")
    def test_folios_worker_says_what_is_missing(self):
        done = subprocess.run([PROGRAM], input='{"setup": {}}\n', capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("request_pages", done.stderr)


def row(contender, **more):
    return {"contender": contender, **more}


class Tables(unittest.TestCase):
    CONTEXT = {"machine": "m", "commit": "abc", "began": "2026"}

    def test_a_cell_is_the_time_and_how_many_times_ours_it_is(self):
        rows = [row("folio", page_ns=20.0), row("vllm", page_ns=50.0), row("sglang", page_ns=4e6), row("vllm_hashed", refused="why")]
        cells = [report.peer_cell(rows, name) for name in ("folio", "vllm", "sglang", "vllm_hashed")]
        self.assertEqual(cells, ["20 ns", "50 ns (2.5 ×)", "4 ms (200,000 ×)", report.NONE])

    def test_tables_of_peers_name_versions_hits_and_what_is_missing(self):
        case = {"case": "hit/x", "operation": "hit", "pages": 4096, "request_pages": 512, "rounds": 5, "seconds": 0.2,
                "rows": [row("folio", page_ns=21.0, versions={}), row("vllm", page_ns=2100.0, versions={"vllm": "9"})]}
        trace = {"trace": "t", "pages": 10_000, "rounds": 3, "rows": [row("folio", hit_pages=61_046, pages=288_500, page_ns=200.0),
                                                         row("vllm", refused="ended, status 1")]}
        text = report.tables({"context": self.CONTEXT, "cases": [case], "traces": [trace]})
        self.assertIn("| found; 4,096 pages, requests of 512 | 21 ns | 2.1 µs (100 ×) |", text)
        self.assertIn("| `t`, 10,000 pages | 61,046 of 288,500; 200 ns | – |", text)
        self.assertIn("vllm 9; 5 rounds of 0.2 s, 3 of each trace.", text)
        self.assertIn("Missing: vLLM `KVCacheManager` (t): ended, status 1.", text)

    def test_tables_of_the_pool_have_medians_of_repetitions(self):
        def runs(name, *values, **more):
            return [{"run_name": name, "run_type": "iteration", "page_ns": float(value), "repetitions": len(values), **more}
                    for value in values]
        benchmarks = [*runs("hits/lru/pages:4096/scattered:0/iterations:512", 30, 10, 20),
                      *runs("hits/lru/pages:1048576/scattered:1/iterations:512", 5, error_message="failed"),
                      {"run_name": "hits/lru/pages:4096/scattered:0/iterations:512", "run_type": "aggregate", "page_ns": 99.0},
                      {"run_name": "bytes/lru", "run_type": "iteration", "least_bytes": 71.99, "most_bytes": 80.0}]
        text = report.tables({"context": {"machine": "m", "commit": "abc", "began": "2026"}, "benchmarks": benchmarks})
        self.assertIn("medians of 3 runs", text)
        self.assertIn("| LRU, nothing else on | 20 | – | – | – |", text)
        self.assertIn("| LRU, nothing else on | 72 … 80 |", text)
        self.assertNotIn("99", text)

    def test_what_is_asked_is_held_against_what_is(self):
        found = {"hits/lru/pages:1048576/scattered:0": {"page_ns": 50.0}, "hits/lru/pages:1048576/scattered:1": {"page_ns": 75.0},
                 "misses/lru/pages:1048576/scattered:0": {"page_ns": 1043.0}, "bytes/lru": {"most_bytes": 79.9999}}
        text = report.asked_rows(found)
        self.assertIn("| found, LRU, 2^20 pages | 50 ns | 50 ns | yes |", text)
        self.assertIn("| found, LRU, 2^20 pages, scattered | 50 ns | 75 ns | no, 1.5 × |", text)
        self.assertIn("| not found, evicts another, LRU, 2^20 pages | 80 ns | 1,043 ns | no, 13 × |", text)
        self.assertIn("| bytes beside tokens: LRU, nothing else on | 96 | 80 | yes |", text)
        self.assertEqual(len(text.splitlines()), 6)

    def test_results_without_rows_of_options_have_no_table(self):
        self.assertEqual(report.tables({"context": {}, "benchmarks": []}), "")

    def test_growth_is_beside_the_chase(self):
        counters = {"small_page_ns": 30.0, "large_page_ns": 90.0, "small_load_ns": 20.0, "large_load_ns": 200.0,
                    "growth": 3.0, "chase_growth": 10.0, "beyond_chase": 0.3, "loads_more": 1 / 3}
        benchmarks = [{"run_name": "growth/pages:10000000/found:1/iterations:101", "run_type": "iteration", **counters}]
        self.assertIn("| found, 10,000,000 pages | 30 | 90 | 20 | 200 | 3.00 | 10.00 | **0.30** | 0.33 |",
                      report.tables({"context": {}, "benchmarks": benchmarks}))

    def test_content_stands_between_its_marks(self):
        text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"
        self.assertEqual(report.between(text, "x", "new\n"), "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
