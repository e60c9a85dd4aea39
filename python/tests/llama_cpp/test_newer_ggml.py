# SPDX-License-Identifier: Apache-2.0
"""Versions of ggml after the newest llama-cpp-python's: the device in llama.cpp's of October 2026."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import sys

import newer_ggml
import numpy as np
import pytest

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the package is for x86-64"),
]
# Of stock: q8_0 without flash attention is not in llama.cpp.
STOCK = [("f16", "off"), ("f16", "on"), ("q8_0", "on")]
FOLIO = [("f16", "auto"), ("q8_0", "auto")]


def run(
    variables: dict[str, str], model: pathlib.Path, device: str, cases: list[tuple[str, str]]
) -> tuple[list[np.ndarray], str]:
    """The logits of each case, and what the process wrote to stderr."""
    files = [model.parent / f"{bool(device)}-{cache}-{attention}" for cache, attention in cases]
    lines = [f"{cache} {way} {file}" for (cache, way), file in zip(cases, files, strict=True)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOLIO_", "GGML_"))}
    done = subprocess.run(
        [sys.executable, newer_ggml.PROGRAM, model, device],
        input="\n".join(lines),
        env={**environment, **variables, "FOLIO_GGML_TRACE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [np.fromfile(file, np.float32).astype(np.float64) for file in files], done.stderr


@pytest.fixture(scope="module", params=newer_ggml.NEWER, ids=lambda v: f"{v}-{newer_ggml.NEWER[v]}")
def variables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    return newer_ggml.install(request.param, tmp_path_factory.mktemp("newer"))


@pytest.mark.parametrize(("name", "layers"), [("llama", 2), ("gemma3", 6), ("gpt-oss", 2)])
def test_logits_are_as_near_as_stocks(
    variables: dict[str, str],
    name: str,
    layers: int,
    built: pathlib.Path,
    model_files: dict[str, pathlib.Path],
) -> None:
    """folio's logits are as near to each of stock's two paths as those are to each other, and of
    8 bits nearer to stock's than 8 bits are to 16."""
    (plain, flash, bits8), _ = run(variables, model_files[name], "", STOCK)
    (ours, ours8), log = run(variables, model_files[name], str(built / "libggml-folio.so"), FOLIO)

    def apart(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.abs(a - b).mean())

    print(f"{name}: stock {apart(plain, flash):.2e}, folio {apart(ours, plain):.2e}, ", end="")
    print(f"{apart(ours, flash):.2e}; q8_0: {apart(bits8, flash):.2e}, {apart(ours8, bits8):.2e}")
    assert max(apart(ours, plain), apart(ours, flash)) <= 1.25 * apart(plain, flash)
    assert apart(ours8, bits8) < apart(bits8, flash)
    told = f"folio serves {layers} of {layers} attention layers: 0-{layers - 1}; 1 threads of ggml"
    assert log.count(told) == log.count("attention layers") == len(FOLIO), log
    nodes = re.findall(r"^ggml-folio: nodes (\d+) refused (\d+)", log, re.MULTILINE)[-1]
    assert nodes == (str(len(FOLIO) * layers * newer_ggml.STEPS), "0")
    assert "not loaded" not in log and "tested in" not in log
