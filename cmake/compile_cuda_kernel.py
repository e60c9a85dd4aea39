#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/compile_cuda_kernel.py: compiles one kernel and keeps what ptxas said of it.

usage: compile_cuda_kernel.py CUBIN -- NVCC ARGUMENT ...     NVCC is told to write CUBIN

CUBIN.log holds the compiler's words and, in its last line, the seconds that it took. Exit status: the compiler's.
"""
import pathlib
import subprocess
import sys
import time


def main():
    separator = sys.argv.index("--")
    (cubin,) = map(pathlib.Path, sys.argv[1:separator])
    began = time.monotonic()
    done = subprocess.run([*sys.argv[separator + 1 :], "-o", cubin], capture_output=True, text=True)
    words = done.stdout + done.stderr
    if done.returncode != 0:
        sys.stderr.write(words)
        return done.returncode
    pathlib.Path(f"{cubin}.log").write_text(f"{words}seconds: {time.monotonic() - began:.1f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
