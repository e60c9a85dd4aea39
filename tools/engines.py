#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/engines.py: Python environments of pinned packages, and folio_kv in them.

usage: tools/engines.py make NAME ...              makes the environments that are missing, prints the path of each one's python. Exit
                                                   status 3: a package is not to be had for this platform or Python; 4: the package
                                                   index cannot be reached; 1: any other failure
       tools/engines.py test NAME ... [-- OPTION ...]   builds folio_kv, runs the tests of each environment; options of pytest
       tools/engines.py run NAME ARGUMENT ...      builds folio_kv, runs `python ARGUMENT ...` of an environment with it
       tools/engines.py install NAME ...           builds folio_kv, installs it in build/NAME/venv in front of an environment's packages,
                                                   prints the path of that python: for who uses an engine

NAME is a list of python/engines: numpy, transformers, transformers_newest, vllm, sglang, lmcache, llama_cpp, peers, max, nixl, lint, docs. An
environment holds what its list pins, over another one where BASES says so, and lies in the user's cache folder (XDG_CACHE_HOME or
~/.cache) under a name made from the list, so that it is made once. folio_kv is built anew each time,
which compiles what has changed, into build/python, and stands on the path before the environment; nothing of it is installed there.
"""
import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTS = ROOT / "python/engines"
BUILD = ROOT / "build/python"
# A folder as deep as build/release, and its flags: a compiler cache has the library's objects from there.
OBJECTS = ROOT / "build/wheel"
# environment -> its folders of python/tests
TESTS = {
    "numpy": ["numpy"],
    "transformers": ["torch", "transformers"],
    "transformers_newest": ["transformers"],
    "vllm": ["vllm"],
    "sglang": ["sglang"],
    "lmcache": ["lmcache"],
    "llama_cpp": ["llama_cpp"],
}
# environment -> the one on which it stands: it holds its own packages only, in front of the other's.
BASES = {"transformers_newest": "transformers", "sglang": "vllm", "lmcache": "vllm", "max": "peers"}
OLDEST = (3, 11)
NO_PACKAGE, NO_INDEX = 3, 4  # exit statuses
# Locks held, as file descriptors: commands inherit them, so that one whose parent was killed still keeps others away.
LOCKS = []


def fail(text, status=1):
    say(f"tools/engines.py: {text}")
    sys.exit(status)


def say(text):
    print(text, file=sys.stderr, flush=True)


def command(arguments, **options):
    """Runs a command; its failure ends the program, after the command's own words."""
    result = subprocess.run([str(a) for a in arguments], pass_fds=LOCKS, **options)
    if result.returncode != 0:
        fail(f"failed with status {result.returncode}: {' '.join(str(a) for a in arguments)}")


@contextlib.contextmanager
def lock(path):
    """One process at a time, and what it has started: others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        LOCKS.append(file.fileno())
        try:
            yield
        finally:
            LOCKS.remove(file.fileno())


class Environment:
    """One environment: complete once the file `complete` stands in its folder."""

    def __init__(self, name):
        self.name = name
        self.list = LISTS / f"{name}.txt"
        if not self.list.is_file():
            fail(f"no list {self.list.relative_to(ROOT)}; there are {', '.join(sorted(p.stem for p in LISTS.glob('*.txt')))}")
        self.stubs = LISTS / "cuda_stubs.py"
        self.has_torch = any(line.startswith("torch==") for line in self.list.read_text().splitlines())
        parts = [platform.machine(), sys.base_prefix, sys.version, self.list.read_text()]
        parts += [self.stubs.read_text()] if self.has_torch else []
        self.base = Environment(BASES[name]) if name in BASES else None
        parts += [self.base.folder.name] if self.base else []
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        self.folder = cache / "folio/engines" / f"{name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"
        self.python = self.folder / "bin/python"

    def make(self):
        with lock(self.folder.with_name(self.folder.name + ".lock")):
            if not (self.folder / "complete").exists():
                self.make_anew()
        return self

    def make_anew(self):
        if sys.version_info < OLDEST:
            fail(f"the lists pin packages for Python {OLDEST[0]}.{OLDEST[1]} and later, this is {platform.python_version()}", NO_PACKAGE)
        say(f"making the environment {self.name}: {self.folder}")
        shutil.rmtree(self.folder, ignore_errors=True)
        command([sys.executable, "-m", "venv", self.folder])
        if self.base:
            stand_on(self.folder, self.base.make())
        self.install()
        if self.has_torch:
            probe = [self.python, "-c", "import torch"]
            if subprocess.run(probe, capture_output=True).returncode != 0:
                command([self.python, self.stubs], stdout=subprocess.DEVNULL)
                command(probe)
        (self.folder / "complete").touch()

    def install(self):
        """The list's packages. pip says the same of an index that it cannot reach and of one that has no fitting package."""
        pip = [self.python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        installed = subprocess.run([*pip, "install", "--no-deps", "--only-binary=:all:", "-r", self.list], pass_fds=LOCKS,
                                   stderr=subprocess.PIPE, text=True)
        sys.stderr.write(installed.stderr)
        if installed.returncode == 0:
            return
        if subprocess.run([*pip, "index", "versions", "pip"], capture_output=True).returncode != 0:
            fail(f"{self.name}: the package index cannot be reached", NO_INDEX)
        if "(from versions: none)" in installed.stderr:
            fail(f"{self.name}: no package for {platform.machine()} and Python {platform.python_version()}", NO_PACKAGE)
        fail(f"{self.name}: pip failed with status {installed.returncode}")


def packages(folder):
    """The folder of a virtual environment's packages."""
    (found,) = folder.glob("lib/python3*/site-packages")
    return found


def stand_on(folder, base):
    """Puts an environment's packages, and those on which it stands, behind those of the virtual environment in `folder`."""
    below = []
    while base:  # Python does not follow the .pth files of folders that a .pth file names
        below.append(packages(base.folder))
        base = base.base
    (packages(folder) / "folio_base.pth").write_text("".join(f"{path}\n" for path in below))


def build():
    """The wheel of the working tree, unpacked into build/python/site. Returns that folder, untouched where nothing has changed: tests
    may be running from it."""
    maker, site, wheels = Environment("numpy").make(), BUILD / "site", BUILD / "wheel"
    surroundings = {**os.environ, "PATH": f"{maker.folder}/bin:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": "315532800"}
    pip = [maker.python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with lock(BUILD / "lock"):
        shutil.rmtree(wheels, ignore_errors=True)
        command([*pip, "wheel", "--no-deps", "--no-build-isolation", f"--config-settings=build-dir={OBJECTS}",
                 "--config-settings=cmake.define.FOLIO_WERROR=ON", "--wheel-dir", wheels, ROOT / "python"], env=surroundings)
        (wheel,) = wheels.glob("folio_kv-*.whl")
        stamp, digest = BUILD / "site.sha256", hashlib.sha256(wheel.read_bytes()).hexdigest()
        if not (site.is_dir() and stamp.is_file() and stamp.read_text() == digest):
            stamp.unlink(missing_ok=True)
            shutil.rmtree(site, ignore_errors=True)
            command([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel])
            stamp.write_text(digest)
    return site


def install(name):
    """The python of a virtual environment in build/, of the environment's packages and folio_kv."""
    build()
    environment, folder = Environment(name).make(), ROOT / "build" / name / "venv"
    if not (folder / "bin/python").exists():
        command([sys.executable, "-m", "venv", folder])
    stand_on(folder, environment)
    (wheel,) = (BUILD / "wheel").glob("folio_kv-*.whl")
    command([folder / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps", "--force-reinstall", wheel])
    return folder / "bin/python"


def surroundings(environment, site):
    """The process's variables for programs of an environment: folio_kv on the path, no network, no file outside build/."""
    return {
        **os.environ,
        "PATH": f"{environment.folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "PYTHONNOUSERSITE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(BUILD / "cache/vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(BUILD / "cache/inductor"),
    }


def test(names, options):
    """Runs pytest once for each environment, two at a time: most wait for one thread. True if all passed."""
    site = build()
    environments = [Environment(name).make() for name in names]

    def run(environment):
        name = environment.name
        folders = [folder for folder in (ROOT / "python/tests" / f for f in TESTS[name]) if folder.is_dir()]
        start = time.monotonic()
        cache = f"cache_dir={BUILD}/pytest-{name}"
        done = subprocess.run([environment.python, "-m", "pytest", "-c", ROOT / "python/pyproject.toml", "-o", cache, *options, *folders],
                              cwd=ROOT, env=surroundings(environment, site), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        state = "passed" if done.returncode == 0 else f"FAILED (status {done.returncode})"
        return state, f"-- tests of the environment {name}\n{done.stdout}-- {name}: {state}, {time.monotonic() - start:.0f} s"

    passed = True
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for state, said in pool.map(run, environments):
            print(said, flush=True)
            passed = passed and state == "passed"
    return passed


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=True)
    parser.add_argument("action", choices=["make", "test", "run", "install"])
    parser.add_argument("names", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.names:
        parser.error("no NAME")
    if args.action == "make":
        for name in args.names:
            print(Environment(name).make().python)
    elif args.action == "install":
        for name in args.names:
            print(install(name))
    elif args.action == "test":
        cut = args.names.index("--") if "--" in args.names else len(args.names)
        names = args.names[:cut]
        if not names or set(names) - TESTS.keys():
            parser.error(f"NAME: expected some of {', '.join(TESTS)}, got {' '.join(names) or 'nothing'}")
        sys.exit(0 if test(names, args.names[cut + 1:]) else 1)
    else:
        environment, site = Environment(args.names[0]).make(), build()
        command([environment.python, *args.names[1:]], env=surroundings(environment, site))


if __name__ == "__main__":
    main()
