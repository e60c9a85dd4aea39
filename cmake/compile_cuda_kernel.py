#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/compile_cuda_kernel.py: compiles one kernel and keeps what ptxas said of it.

usage: compile_cuda_kernel.py CUBIN -- NVCC ARGUMENT ...     NVCC is told to write CUBIN

CUBIN.log holds the compiler's words and, in its last line, the seconds of processor time that it took. Exit status: the compiler's.
"""
import pathlib
import resource
import subprocess
import sys


def main():
    separator = sys.argv.index("--")
    (cubin,) = map(pathlib.Path, sys.argv[1:separator])
    done = subprocess.run([*sys.argv[separator + 1 :], "-o", cubin], capture_output=True, text=True)
    words = done.stdout + done.stderr
    if done.returncode != 0:
        sys.stderr.write(words)
        return done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pathlib.Path(f"{cubin}.log").write_text(f"{words}seconds: {used.ru_utime + used.ru_stime:.1f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
