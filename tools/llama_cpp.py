#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/llama_cpp.py: llama.cpp's sources and libraries, and folio's ggml device built against them.

usage: tools/llama_cpp.py make [--llama FOLDER] [TARGET ...]   builds, prints the folder that holds
                                       libggml-folio.so and the programs
       tools/llama_cpp.py wheel        builds the wheel folio-llama-cpp, prints its path
       tools/llama_cpp.py install      makes a virtual environment of llama-cpp-python, its server, the
                                       wheel and folio-kv; prints the path of its python
       tools/llama_cpp.py sources      prints the folder of llama.cpp's sources

The sources are those inside the source package of llama-cpp-python, which pip downloads once into the
user's cache folder. `make` builds libllama and libggml* as shared libraries for this machine in
build/llama_cpp/llama, unless --llama or FOLIO_LLAMA_CPP_LIBRARIES names a folder that holds such libraries
of the same release already, and the project clients/llama_cpp in build/llama_cpp_folio: libggml-folio.so,
test-backend-ops, the tests' programs. In the folder that is printed, `llama` is a link to the
libraries. TARGET: what to build of clients/llama_cpp, otherwise all of it. `install` has pip build
llama-cpp-python for this machine, which takes minutes, in build/llama_cpp/venv.

FOLIO_LLAMA_CPP_VERSION names another release of llama-cpp-python, of RELEASES below: libraries, programs
and the virtual environment are of it, in folders of their own, and the device is what it always is, built
with the newest release's headers.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import engines  # noqa: E402

# llama-cpp-python's releases that the device was tested in -> their ggml, the SHA-256 of their source packages.
RELEASES = {
    "0.3.30": ("0.15.1", "798c9b42652d2e0bff5fe81e7e762089f425a99e67f66ffe5ae156957876e0d1"),
    "0.3.34": ("0.16.0", "d849d286d808284f1d3ec1bd6875572430d29d1f9574a010232caa4e9cef0e35"),
    "0.3.35": ("0.20.0", "1139dbb54509074b70893fab8554e3b079aa9f4d312058ce4018ef0019e3de12"),
    "0.3.36": ("0.25.3", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"),
}
NEWEST = "0.3.36"
VERSION = os.environ.get("FOLIO_LLAMA_CPP_VERSION") or NEWEST
SUFFIX = "" if VERSION == NEWEST else f"-{VERSION}"  # of folders that hold what is built for a release
BUILD = ROOT / "build/llama_cpp"
LIBRARIES = ["llama", "ggml", "ggml-base", "ggml-cpu"]


class NotMade(Exception):
    """The reason why a part is missing."""


def quietly(*arguments):
    """Runs a command; NotMade with its last words if it fails."""
    result = subprocess.run(
        [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if result.returncode != 0:
        raise NotMade(" ".join(result.stdout.split())[-600:])


def cache():
    """The folder for what is made once for a user."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "folio"


def sources(version=VERSION):
    """The folder of llama.cpp's sources, downloaded and unpacked where they are not there."""
    folder = cache() / f"llama_cpp-{version}"
    unpacked = folder / f"llama_cpp_python-{version}/vendor/llama.cpp"
    with engines.lock(folder.with_name(folder.name + ".lock")):
        if not (folder / "complete").exists():
            folder.mkdir(parents=True, exist_ok=True)
            unpack(download(version, folder), folder)
            (unpacked / "ggml/ggml.pc.in").touch()  # the package lacks it
            (folder / "complete").touch()
    return unpacked


def download(version, folder):
    archive = folder / f"llama_cpp_python-{version}.tar.gz"
    if not archive.exists():
        python = engines.Environment("numpy").make().python  # it has the package's build backend
        engines.say(f"downloading the source package of llama-cpp-python {version}: {folder}")
        flags = ["--no-deps", "--no-binary=:all:", "--no-build-isolation"]
        package = f"llama-cpp-python=={version}"
        quietly(python, "-m", "pip", "download", *flags, "--dest", folder, package)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != RELEASES[version][1]:
        raise NotMade(f"{archive} has the SHA-256 {digest}, expected {RELEASES[version][1]}")
    return archive


def unpack(archive, folder):
    with tarfile.open(archive) as tar:
        # Debian 12's Python does not know filters; the archive's digest is known.
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def configure_and_build(source, folder, settings, targets):
    """A release build of a CMake project; settings: name -> value."""
    options = [f"-D{name}={value}" for name, value in {"CMAKE_BUILD_TYPE": "Release", **settings}.items()]
    quietly("cmake", "-G", "Ninja", "-S", source, "-B", folder, *options)
    chosen = ["--target", *targets] if targets else []
    quietly("cmake", "--build", folder, "--parallel", os.cpu_count(), *chosen)


def llama():
    """The folder of llama.cpp's libraries, built for this machine."""
    folder = BUILD / f"llama{SUFFIX}"
    engines.say(f"building llama.cpp of llama-cpp-python {VERSION}: {folder}")
    parts = ["SERVER", "APP", "TESTS", "TOOLS", "EXAMPLES"]
    settings = {f"LLAMA_BUILD_{part}": "OFF" for part in parts}
    settings |= {"BUILD_SHARED_LIBS": "ON", "GGML_NATIVE": "ON", "LLAMA_OPENSSL": "OFF"}
    configure_and_build(sources(), folder, settings, LIBRARIES)
    return folder / "bin"


def objects():
    """The folder of the device's objects: as deep as build/release, whose objects a compiler cache has."""
    return ROOT / f"build/llama_cpp_folio{SUFFIX}"


def device(libraries, targets=()):
    """The folder of libggml-folio.so and the programs, built against the libraries in a folder."""
    folder = objects()
    settings = {"LLAMA_CPP": sources(NEWEST), "LLAMA_CPP_TESTED": sources(), "LLAMA_CPP_LIBRARIES": libraries}
    settings |= {"FOLIO_GGML_TESTS": "ON", "FOLIO_WERROR": "ON"}
    engines.say(f"building libggml-folio.so: {folder}")
    configure_and_build(ROOT / "clients/llama_cpp", folder, settings, targets)
    link = folder / "llama"
    link.unlink(missing_ok=True)
    link.symlink_to(libraries)
    return folder


def make(libraries=None, targets=()):
    """Builds what is missing of all; the folder of libggml-folio.so and the programs."""
    with engines.lock(BUILD / "lock"):
        libraries = pathlib.Path(libraries).resolve() if libraries else llama()
        base = f"libggml-base.so.{RELEASES[VERSION][0]}"
        if not (libraries / base).exists():
            raise NotMade(f"--llama: {libraries} holds no {base}, of llama-cpp-python {VERSION}")
        return device(libraries, targets)


def wheel():
    """The path of folio-llama-cpp's wheel, built of the objects that `make` builds."""
    maker, wheels = engines.Environment("numpy").make(), BUILD / "wheel"  # it has the build backend
    defines = [f"--config-settings=cmake.define.LLAMA_CPP={sources(NEWEST)}"]
    defines += [f"--config-settings=build-dir={objects()}"]
    engines.say(f"building the wheel folio-llama-cpp: {wheels}")
    with engines.lock(BUILD / "lock"):
        shutil.rmtree(wheels, ignore_errors=True)
        path = f"{maker.folder}/bin:{os.environ['PATH']}"
        pip = [maker.python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        quietly("env", f"PATH={path}", *pip, *defines, "--wheel-dir", wheels, ROOT / "clients/llama_cpp/python")
    (built,) = wheels.glob("folio_llama_cpp-*.whl")
    return built


def prompts_wheel():
    """The path of folio-kv's wheel, which keeps prompts."""
    engines.say(f"building the wheel folio-kv: {engines.BUILD}")
    engines.build()
    (built,) = (engines.BUILD / "wheel").glob("folio_kv-*.whl")
    return built


def install():
    """The python of a virtual environment that serves models on folio."""
    folder, package, prompts = BUILD / f"venv{SUFFIX}", wheel(), prompts_wheel()
    if not (folder / "bin/python").exists():
        quietly(sys.executable, "-m", "venv", folder)
    engines.say(f"installing llama-cpp-python {VERSION}, which pip builds for this machine: {folder}")
    pip = [folder / "bin/python", "-m", "pip", "install", "--disable-pip-version-check"]
    quietly(*pip, f"{package}[server,cache]", prompts, f"llama-cpp-python=={VERSION}")
    quietly(*pip, "--no-deps", "--force-reinstall", package, prompts)  # of the same version, perhaps built anew
    return folder / "bin/python"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("action", choices=["make", "wheel", "install", "sources"])
    parser.add_argument("--llama", default=os.environ.get("FOLIO_LLAMA_CPP_LIBRARIES"))
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    try:
        if VERSION not in RELEASES:
            raise NotMade(f"FOLIO_LLAMA_CPP_VERSION: expected one of {', '.join(RELEASES)}, got {VERSION!r}")
        actions = {"wheel": wheel, "install": install, "sources": sources}
        print(actions[args.action]() if args.action in actions else make(args.llama, args.targets))
    except (NotMade, OSError) as reason:
        sys.exit(f"tools/llama_cpp.py: {reason}")


if __name__ == "__main__":
    main()
