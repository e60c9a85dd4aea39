#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/run.py: folio beside other libraries' attention on this machine's processors.

usage: bench/peers/run.py [OPTION ...]      options of bench/peers/compare.py (--help), and
           --make-only                      installs and builds, runs nothing
           --as-made                        builds nothing: takes what --make-only has left

Installs what registries offer into environments of the user's cache folder (python/engines/peers.txt: torch, vLLM's
wheel with its own and SGLang's kernels, OpenVINO; max.txt over it: Modular's MAX, where there is one for the platform), builds llama.cpp's ggml there from the source package of
llama-cpp-python, builds folio_kv from the working tree, and runs bench/peers/compare.py. What cannot be installed
stands in the tables' notes with its reason. The roofs need build/release/bench/roof_worker, which `make bench-peers`
builds; without it the tables have no percentages.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import engines  # noqa: E402
import llama_cpp  # noqa: E402

GGML_VERSION = llama_cpp.VERSION
ROOFS = ROOT / "build/release/bench/roof_worker"


def ggml(environment):
    """The folder of ggml's libraries, made once beside the environment."""
    folder = environment.folder / f"ggml-{GGML_VERSION}"
    with engines.lock(environment.folder / "ggml.lock"):
        if not (folder / "complete").exists():
            engines.say(f"building ggml of llama-cpp-python {GGML_VERSION}: {folder}")
            build_ggml(folder)
            (folder / "complete").touch()
    return folder / "build/src"


def build_ggml(folder):
    settings = {"BUILD_SHARED_LIBS": "ON", "GGML_NATIVE": "ON", "GGML_OPENMP": "ON"}
    settings |= {"GGML_BUILD_TESTS": "OFF", "GGML_BUILD_EXAMPLES": "OFF"}
    llama_cpp.configure_and_build(llama_cpp.sources() / "ggml", folder / "build", settings, [])


def with_max(peers):
    """The environment with MAX; the others' where it cannot be had, whose workers then say so."""
    try:
        return engines.Environment("max").make()
    except SystemExit as reason:
        engines.say(f"without MAX: status {reason.code}")
        return peers


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
    peers = engines.Environment("peers").make()
    environment = with_max(peers)
    site = engines.BUILD / "site" if as_made else engines.build()
    surroundings = engines.surroundings(environment, site)
    try:
        surroundings |= {
            "FOLIO_PEERS_GGML": str(ggml(peers)),
            "FOLIO_PEERS_GGML_VERSION": GGML_VERSION,
        }
    except (llama_cpp.NotMade, OSError) as reason:
        surroundings["FOLIO_PEERS_GGML_REASON"] = f"ggml was not built: {reason}"
    if make_only:
        print(environment.python)
        return
    command = [environment.python, HERE / "compare.py", "--commit", commit()]
    command += ["--roofs", ROOFS] if ROOFS.exists() else []
    sys.exit(subprocess.run([*map(str, command), *options], env=surroundings).returncode)


if __name__ == "__main__":
    main()
