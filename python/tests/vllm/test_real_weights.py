# SPDX-License-Identifier: Apache-2.0
"""Gemma 3 270M with its real weights in the stock engine, in float32: with folio as without."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_engine import Engine


@pytest.mark.full
def test_greedy_text_is_the_stock_engines(engine: Engine, real_weights: Path) -> None:
    options = {"skip_tokenizer_init": True, "max_model_len": 1024, "max_num_batched_tokens": 512}
    options |= {"num_gpu_blocks_override": 400, "max_num_seqs": 16}
    case = {"model": str(real_weights / "hf"), "options": options, "scenarios": ["real_text"]}
    said = {}
    for which in ("stock", "folio"):
        runs = engine.run({"gemma3": case}, which == "folio", f"real-{which}")
        assert "error" not in runs["gemma3"], runs["gemma3"]["error"]
        said[which] = runs["gemma3"]
    assert set(said["folio"]["served"].values()) == {"folio"} and len(said["folio"]["served"]) == 18
    equal, off = 0, 0.0
    for stock, folio in zip(said["stock"]["real_text"], said["folio"]["real_text"], strict=True):
        equal += stock["tokens"] == folio["tokens"]
        assert folio["logprobs"] == pytest.approx(stock["logprobs"], abs=1e-3)
        assert folio["cached"] == stock["cached"]
        off = max(off, *(abs(a - b) for a, b in zip(stock["logprobs"], folio["logprobs"])))
    count = len(said["folio"]["real_text"])
    print(f"\n{equal} of {count} equal, log-probabilities within {off:.1e}")
    assert equal == count and said["folio"]["real_text"][-1]["cached"] > 600
