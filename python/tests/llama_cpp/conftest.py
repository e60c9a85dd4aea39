# SPDX-License-Identifier: Apache-2.0
"""What the tests of clients/llama_cpp share: the device and the programs, built from the tree."""

from __future__ import annotations

import functools
import pathlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator

import pytest
from prompt_runs import Runs

import llama_models as models
from llama_comparison import Pair

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def built() -> pathlib.Path:
    """The folder of libggml-folio.so, the programs, and `llama`, llama.cpp's libraries. The first
    build takes minutes; FOLIO_LLAMA_CPP_LIBRARIES names libraries that are built already."""
    tool = [sys.executable, ROOT / "tools/llama_cpp.py", "make"]
    made = subprocess.run(tool, stdout=subprocess.PIPE, text=True)
    assert made.returncode == 0, "tools/llama_cpp.py make failed: its words stand above"
    return pathlib.Path(made.stdout.split()[-1])


@pytest.fixture(scope="session")
def model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("models")
    files = {name: folder / f"{name}.gguf" for name in models.MODELS if name != "bench"}
    for name, file in files.items():
        models.write(file, name)
    return files


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, built: pathlib.Path, model_files: dict[str, pathlib.Path]
) -> Iterator[Pair]:
    """A model in a stock process and in one with folio's device; the parameter is its name."""
    made = Pair(built / "llama_run", model_files[request.param], built / "libggml-folio.so")
    yield made
    made.close()


def tool(action: str) -> pathlib.Path:
    made = subprocess.run(
        [sys.executable, ROOT / "tools/llama_cpp.py", action], stdout=subprocess.PIPE, text=True
    )
    assert made.returncode == 0, f"tools/llama_cpp.py {action} failed: its words stand above"
    return pathlib.Path(made.stdout.split()[-1])


@pytest.fixture(scope="session")
def sites(built: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Folders as of installed packages: `folio` of the wheel, `llama` of llama-cpp-python."""
    folder = tmp_path_factory.mktemp("sites")
    with zipfile.ZipFile(tool("wheel")) as wheel:
        wheel.extractall(folder / "folio")
    package = folder / "llama/llama_cpp"
    shutil.copytree(tool("sources").parents[1] / "llama_cpp", package)
    shutil.copytree(built / "llama", package / "lib")  # a wheel has copies for links
    return {"folio": folder / "folio", "llama": folder / "llama"}


@pytest.fixture(scope="session")
def text_models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The path of a model with a vocabulary of bytes, by its name in llama_models.MODELS."""
    folder = tmp_path_factory.mktemp("text")

    @functools.cache
    def path(name: str) -> str:
        file = folder / f"{name}.gguf"
        models.write(file, name, has_text=True)
        return str(file)

    return path


@pytest.fixture(scope="session")
def text_model(text_models: Callable[[str], str]) -> str:
    return text_models("llama")


@pytest.fixture
def runs(sites: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Runs:
    return Runs(sites, tmp_path)
