# SPDX-License-Identifier: Apache-2.0
"""What the tests of clients/llama_cpp share: the device and the programs, built from the tree."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

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
