#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/cuda_table_test.py: the table of CUDA kernels says what results say, and no more."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/cuda_table.py"
KERNELS = """# name | header | type | architectures
decode_a | cuda/decode/decode.h | folio::cuda::Decode<1> | all
decode_b | cuda/decode/decode.h | folio::cuda::Decode<2> | from_90
"""
DOCUMENT = "# CUDA\n\n<!-- kernels: begin -->\n<!-- kernels: end -->\n\nMore.\n"
GPU = {"gpu": "NVIDIA X1", "compute_capability": "9.0", "driver_version": 13000}
EMULATED = {"gpu": "emulated device", "compute_capability": "9.0", "driver_version": 13000}


def case(verdict, *instances):
    return {"case": "a case", "verdict": verdict, "worst": 0.5, "instances": instances, "why": ""}


class CudaTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/cuda/kernels.txt", KERNELS)
        self.write("docs/cuda.md", DOCUMENT)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def result(self, name, *records):
        self.write(f"bench/results/cuda/{name}", "".join(json.dumps(r) + "\n" for r in records))

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, "--root", self.root, *arguments], text=True,
                              capture_output=True, check=False)

    def row(self, name):
        for line in self.run_tool().stdout.splitlines():
            if line.startswith(f"| `{name}`"):
                return [cell.strip() for cell in line.split("|")[2:-1]]
        return None

    def test_without_results_no_kernel_ran(self):
        self.assertEqual(self.row("decode_a"), ["all", "not recorded", "none"] + ["never ran"] * 3)
        self.assertEqual(self.row("decode_b")[0], "from_90")
        self.assertEqual(self.row("decode_b")[3:], ["never ran"] * 3)
        self.assertIn("0 of 2 kernels have met hardware.", self.run_tool().stdout)

    def test_an_emulated_device_is_no_hardware(self):
        self.result("cases-emulated.jsonl", EMULATED, case("right", "decode_a"))
        self.assertEqual(self.row("decode_a")[3:], ["1 cases right", "never ran", "never ran"])
        self.assertIn("0 of 2", self.run_tool().stdout)

    def test_a_gpu_counts_for_the_instances_that_it_launched(self):
        self.result("cases-x1.jsonl", GPU, case("right", "decode_a"), case("right", "decode_a"))
        self.assertEqual(self.row("decode_a")[4], "2 cases right, NVIDIA X1, driver 13000")
        self.assertEqual(self.row("decode_b")[4], "never ran")
        self.assertIn("1 of 2", self.run_tool().stdout)

    def test_what_is_wrong_is_said_and_what_is_refused_counts_for_nothing(self):
        self.result("cases-x1.jsonl", GPU, case("right", "decode_a"), case("wrong", "decode_a"),
                    case("refused", "decode_b"))
        self.assertEqual(self.row("decode_a")[4],
                         "**1 of 2 cases wrong**, NVIDIA X1, driver 13000")
        self.assertEqual(self.row("decode_b")[4], "never ran")

    def test_the_fastest_row_is_quoted_with_its_roof_and_device(self):
        row = {"row": "decode 8 x 32k", "cache": "cold", "us": 1.0, "instances": ["decode_a"]}
        self.result("bench-x1.jsonl", GPU, {**row, "bytes_per_s": 2e12, "percent_of_read": 61.2},
                    {**row, "row": "small", "bytes_per_s": 1e12, "percent_of_read": None})
        self.assertEqual(self.row("decode_a")[5],
                         "decode 8 x 32k, cold: 2.00 TB/s (61 % of read), NVIDIA X1, driver 13000")

    def test_a_line_that_was_cut_off_is_left_out(self):
        self.result("cases-x1.jsonl", GPU, case("right", "decode_a"))
        path = self.root / "bench/results/cuda/cases-x1.jsonl"
        path.write_text(path.read_text() + '{"case": "cut o')
        self.assertEqual(self.row("decode_a")[4], "1 cases right, NVIDIA X1, driver 13000")

    def test_registers_are_those_of_the_report_of_the_compiled(self):
        self.write("bench/results/cuda/compiled.md",
                   "| kernel | architecture | registers |\n| --- | --- | ---: |\n"
                   "| decode_a | sm_80 | 255 |\n| decode_a | sm_90a | 168 |\n")
        self.assertEqual(self.row("decode_a")[1], "80: 255, 90a: 168")

    def test_results_without_a_gpu_say_of_what_commits_they_are(self):
        self.write("bench/results/cuda/compiled.md", "Of commit abc, by nvcc 13.0.1. Made by it.\n\n"
                   "| kernel | architecture | registers |\n| --- | --- | ---: |\n"
                   "| decode_a | sm_80 | 255 |\n")
        self.result("cases-emulated.jsonl", GPU, {"commit": "def"}, case("right", "decode_a"))
        self.assertEqual(self.row("decode_a")[1], "80: 255")
        self.assertIn("met hardware. Registers: of commit abc, by nvcc 13.0.1. "
                      "Cases emulated: of commit def.\n", self.run_tool().stdout)

    def test_tests_emulate_what_their_includes_lead_to(self):
        self.write("tests/cuda/some_test.cpp", '#include "cuda/some_run.h"\n')
        self.write("tests/cuda/some_run.h", '#include "cuda/decode/decode.h"\n')
        self.write("tests/cuda/other_test.cpp", '#include "cuda/decode/other.h"\n')
        self.write("src/cuda/decode/decode.h", "")
        self.write("src/cuda/decode/other.h", "")
        self.assertEqual(self.row("decode_a")[2], "some")

    def test_the_check_finds_a_document_that_is_behind(self):
        self.assertEqual(self.run_tool("--check").returncode, 1)
        self.assertEqual(self.run_tool("--write").returncode, 0)
        self.assertEqual(self.run_tool("--check").returncode, 0)
        text = (self.root / "docs/cuda.md").read_text()
        self.assertTrue(text.endswith("<!-- kernels: end -->\n\nMore.\n"))
        self.result("cases-x1.jsonl", GPU, case("right", "decode_b"))
        checked = self.run_tool("--check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("docs/cuda.md", checked.stdout)


if __name__ == "__main__":
    unittest.main()
