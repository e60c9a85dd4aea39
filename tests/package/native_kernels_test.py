# SPDX-License-Identifier: Apache-2.0
"""tests/package/native_kernels_test.py SOURCE_DIR CMAKE COMPILER: with FOLIO_KERNELS=native a build has the kernels that this machine
can run, as the kernel tells of it, and no tests. It is configured alone, in a temporary folder."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

# Object libraries that every build for x86-64 has, and what a machine needs to be worth the others.
ALWAYS = {"folio_cpu_x86_64", "folio_cpu_x86_64_v3", "folio_cpu_x86_64_v4"}
NEEDS = {"folio_cpu_avx512_bf16": {"avx512_bf16"}, "folio_cpu_amx_bf16": {"avx512_bf16", "amx_bf16"}}


def features():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return set(next(line for line in lines if line.startswith("flags")).partition(":")[2].split())


class NativeKernels(unittest.TestCase):
    def test_a_build_has_what_the_machine_runs(self):
        without = [f"-DFOLIO_{part}=OFF" for part in ("CUDA", "NAMES", "TIER", "OPENMP", "BUILD_CLI", "BUILD_BENCHMARKS")]
        with tempfile.TemporaryDirectory() as folder:
            words = [CMAKE, "-S", SOURCE_DIR, "-B", folder, "-G", "Ninja", "-DFOLIO_KERNELS=native", f"-DCMAKE_CXX_COMPILER={COMPILER}"]
            configured = subprocess.run([*words, *without], text=True, capture_output=True)
            self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
            targets = subprocess.run([CMAKE, "--build", folder, "--target", "help"], text=True, capture_output=True, check=True).stdout
            self.assertFalse((pathlib.Path(folder) / "tests").exists(), "native has no tests")
        names = {line.partition(":")[0] for line in targets.splitlines()}
        expected = ALWAYS | {name for name, needs in NEEDS.items() if needs <= features()}
        self.assertEqual({name for name in names if name.removeprefix("folio_cpu_") != name}, expected)


if __name__ == "__main__":
    SOURCE_DIR, CMAKE, COMPILER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
