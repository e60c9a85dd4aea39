#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/engine_test.py: the example engine, told of a GPU: it runs there, as on the CPU, and
says in one line what is wrong where it cannot.

usage: engine_test.py FOLDER ENGINE WITHOUT_CUDA     the folder of the emulated device, the example,
                                                     the example of a build without CUDA
"""
import os
import re
import subprocess
import sys
import unittest

FOLDER, ENGINE, WITHOUT_CUDA = sys.argv[1:4]
LINE = re.compile(r"(\w): +(\d+) tokens, +(\d+) of them found in the cache, then([ \d]+); alone the same")


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "LD_LIBRARY_PATH": FOLDER})


class Engine(unittest.TestCase):
    def requests(self, *arguments):
        """[(name, prompt tokens, of them cached, generated tokens)]: each request was generated
        again, alone, and the example has compared."""
        done = run(ENGINE, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        found = [LINE.fullmatch(line) for line in lines]
        self.assertTrue(lines and all(found), done.stdout)
        return [(m[1], int(m[2]), int(m[3]), m[4].split()) for m in found]

    def error(self, program, *arguments):
        done = run(program, *arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        return done.stderr

    def test_the_device_serves_what_the_cpu_serves(self):
        cpu, device = self.requests(), self.requests("--device", "cuda")
        self.assertEqual([(*r[:3], len(r[3])) for r in device], [(*r[:3], len(r[3])) for r in cpu])
        self.assertEqual([len(r[3]) for r in cpu], [10, 10, 9])
        # Bits are promised per processor, and one other token changes all behind it. Of the first
        # tokens, each the best of 512, one is a close call.
        same = sum(a[3][0] == b[3][0] for a, b in zip(cpu, device))
        self.assertGreaterEqual(same, 2, f"{cpu}\n{device}")

    def test_a_device_that_is_not_there_is_refused_by_name(self):
        for number, words in [
                ("1", "Attention::create: cuDeviceGet failed with 101 "
                      "(CUDA_ERROR_INVALID_DEVICE): invalid device ordinal\n"),
                ("-1", "Attention::create: device.index is -1, expected 0 to 63\n"),
                ("64", "Attention::create: device.index is 64, expected 0 to 63\n")]:
            self.assertEqual(self.error(ENGINE, "--device", f"cuda:{number}"), words)

    def test_what_names_no_device_is_refused(self):
        for name in ["", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:99999999999", "cuda0"]:
            self.assertEqual(self.error(ENGINE, "--device", name),
                             f"engine: --device is {name}, expected cpu, cuda or cuda:NUMBER\n")
        for arguments in [["cuda"], ["--device"], ["--device", "cuda", "cuda"]]:
            self.assertRegex(self.error(ENGINE, *arguments), r"^usage: .*\[--device cpu\|cuda")

    def test_a_build_without_cuda_says_so(self):
        self.assertEqual(self.error(WITHOUT_CUDA, "--device", "cuda"), "Attention::create: folio was "
                         "built without CUDA (FOLIO_CUDA=OFF)\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
