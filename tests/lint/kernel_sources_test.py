#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/kernel_sources_test.py: kernel_sources.py finds what a kernel must not hold, and nothing in a good one."""
import pathlib
import tempfile
import unittest

import kernel_sources

GOOD = """
#include <cstdint>
#include "cuda/primitives/device.h"
#include "folio/cache/page_walk.h"
// __shfl_sync, threadIdx and asm are words of other files.
template <class Thread>
FOLIO_DEVICE float sum(Thread& t, float x) {
  const float y = t.fma(x, x, t.shuffle_xor(x, 1));
  if (y != y) t.fail("asm(threadIdx)");
  static_assert(sizeof(__builtin_bit_cast(uint32_t, x)) == 4);
  return y > 0 ? y : -__builtin_huge_valf();
}
"""


class KernelSourcesLint(unittest.TestCase):
    def breaches(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            return list(kernel_sources.check(pathlib.Path(folder)))

    def assert_finds(self, line, rule):
        found = self.breaches("src/cuda/decode/a.h", GOOD + line + "\n")
        self.assertEqual(len(found), 1, found)
        self.assertIn(rule, found[0])
        self.assertTrue(found[0].startswith(f"src/cuda/decode/a.h:{GOOD.count(chr(10)) + 1}: "), found)

    def test_a_good_kernel_passes(self):
        self.assertEqual(self.breaches("src/cuda/decode/a.h", GOOD), [])

    def test_assembly_is_found(self):
        self.assert_finds('asm volatile("bar.sync 0;");', "asm: asm")
        self.assert_finds('__asm__("exit;");', "asm: __asm__")

    def test_intrinsics_are_found(self):
        self.assert_finds("x = __shfl_sync(~0u, x, 0);", "intrinsic: __shfl_sync")
        self.assert_finds("__syncthreads();", "intrinsic: __syncthreads")
        self.assert_finds("x = __expf(x);", "intrinsic: __expf")

    def test_built_in_indices_are_found(self):
        self.assert_finds("const int i = threadIdx.x;", "index: threadIdx")
        self.assert_finds("const int i = gridDim.x;", "index: gridDim")

    def test_headers_of_cuda_are_found(self):
        self.assert_finds("#include <cuda_bf16.h>", "include: cuda_bf16.h")
        self.assert_finds("#include <cuda/ptx>", "include: cuda/ptx")
        self.assert_finds('#include "cuda/primitives/thread.cuh"', "include: cuda/primitives/thread.cuh")
        self.assert_finds('#include "cuda/primitives/access.h"', "include: cuda/primitives/access.h")

    def test_other_ways_to_fuse_are_found(self):
        self.assert_finds("x = std::fma(x, y, z);", "fused: std::fma")
        self.assert_finds("x = fmaf(x, y, z);", "fused: fmaf")

    def test_all_folders_of_kernels_are_looked_at_and_the_machine_is_not(self):
        line = "__syncthreads();\n"
        for folder in ("append", "copy", "plan", "prefill", "mla", "attention"):
            self.assertEqual(len(self.breaches(f"src/cuda/{folder}/deep/a.h", line)), 1, folder)
        for folder in ("primitives", "runtime"):
            self.assertEqual(self.breaches(f"src/cuda/{folder}/a.cuh", line), [], folder)


if __name__ == "__main__":
    unittest.main()
