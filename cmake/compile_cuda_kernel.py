#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/compile_cuda_kernel.py: compiles one kernel and keeps what ptxas said of it.

usage: compile_cuda_kernel.py CUBIN -- [LAUNCHER] NVCC ARGUMENT ...     NVCC is told to write CUBIN

CUBIN.log holds the compiler's words and, in its last line, the seconds of processor time that it took; or "cached", where ccache is the
launcher and had it. Exit status: the compiler's.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile


def run(command, cubin):
    """The finished process, and whether ccache had what it made."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "ccache")
        done = subprocess.run([*command, "-o", cubin], capture_output=True, text=True, env={**os.environ, "CCACHE_STATSLOG": str(log)})
        return done, log.exists() and "_cache_hit" in log.read_text()


def main():
    separator = sys.argv.index("--")
    (cubin,) = map(pathlib.Path, sys.argv[1:separator])
    done, is_cached = run(sys.argv[separator + 1 :], cubin)
    words = done.stdout + done.stderr
    if done.returncode != 0:
        sys.stderr.write(words)
        return done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = "cached" if is_cached else f"{used.ru_utime + used.ru_stime:.1f}"
    pathlib.Path(f"{cubin}.log").write_text(f"{words}seconds: {seconds}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
