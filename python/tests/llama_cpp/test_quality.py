# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's rows of python -m folio_kv.quality, in a process of llama-cpp-python."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import pytest

from folio_kv.quality import cache_types, in_llama
from folio_kv.quality.outcome import Outcome

TEXT = [3 + (7 * i + i * i // 5) % 256 for i in range(701)]
NAMES = "llama-f16,llama-q8_0,llama-q8_0-q4_0,llama-q4_0"


@pytest.fixture(autouse=True)
def llama_cpp_on_the_path(sites: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(sites["llama"]))


def compared(path: str, names: str, decoded: int = 0) -> list[Outcome]:
    return in_llama.compare(
        pathlib.Path(path), cache_types.chosen(names), TEXT, sys.executable,
        scored_each=4, decoded=decoded, threads=1,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_figures_are_ordered_as_the_bits_are(text_models: Callable[[str], str], name: str) -> None:
    reference, *others = compared(text_models(name), NAMES, decoded=2)
    assert reference.name == "llama-reference" and reference.figures["kl"] == 0
    kl = [x.figures["kl"] for x in others]
    assert 0 < 10 * kl[0] < kl[1] < kl[2] < kl[3] and kl[3] < 1
    elements = reference.figures["bytes_per_token"] / 4
    sizes = [x.figures["bytes_per_token"] / elements for x in others]
    assert sizes == [2, 34 / 32, 26 / 32, 18 / 32]
    assert all(x.figures["scored"] == 175 for x in (reference, *others))
    assert all(x.figures["tokens_per_second"] > 0 for x in (reference, *others))


def test_a_file_that_is_no_model_is_refused_in_each_row(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    for found in compared(str(tmp_path / "broken.gguf"), NAMES):
        assert "cannot load" in found.refused and not found.figures
