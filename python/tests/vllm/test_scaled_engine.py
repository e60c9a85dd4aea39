# SPDX-License-Identifier: Apache-2.0
"""The engine over caches with scales beside their rows, which the stock classes cannot store."""

from __future__ import annotations

import pytest
import vllm_cases
from vllm_cases import SCALED
from vllm_runs import Runs, errors_of, marked, of

PAIRS = [name for name in SCALED if not name.endswith("_whole")]
# bytes of a block of 32 tokens and 2 heads of 32 elements
BLOCKS = {
    "int4_per_token_head": 64 * 40,
    "int8_per_token_head": 64 * 72,
    "fp8_per_token_head": 64 * 72,
    "nvfp4": 64 * 36,
    "turboquant_k8v4": 64 * 52,
}
# mean |difference| of the log-probabilities of given tokens to float32, in a model of random
# weights, which enlarges what is rounded: as measured, and a quarter more
MEANS = {
    "llama_int4_per_token_head": 0.82,
    "llama_int8_per_token_head": 0.064,
    "llama_fp8_per_token_head": 0.29,
    "llama_nvfp4": 0.92,
}


@pytest.mark.parametrize("case", marked(SCALED))
def test_every_layer_is_served(runs: Runs, case: str) -> None:
    assert set(of(runs, "folio", case)["served"].values()) == {"folio"}


@pytest.mark.parametrize("case", marked(PAIRS))
def test_blocks_have_the_bytes_of_the_type(runs: Runs, case: str) -> None:
    blocks = of(runs, "folio", case)["blocks"]
    scaled = BLOCKS[SCALED[case]["options"]["kv_cache_dtype"]]
    if "turboquant" not in case:
        assert set(blocks.values()) == {scaled}
        return
    # vLLM leaves the first and the last two layers of six in the model's type
    assert [size == scaled for size in blocks.values()] == [False, False, True, True, False, False]


@pytest.mark.parametrize("case", marked(PAIRS))
@pytest.mark.parametrize("scenario", ["chunked", "prefix"])
def test_chunks_and_blocks_of_others_give_the_tokens_of_whole_prompts(
    runs: Runs, case: str, scenario: str
) -> None:
    parts, whole = (of(runs, "folio", name)[scenario] for name in (case, f"{case}_whole"))
    assert [request["tokens"] for request in parts] == [request["tokens"] for request in whole]
    for request, expected in zip(parts, whole, strict=True):
        assert request["logprobs"] == pytest.approx(expected["logprobs"], abs=2e-4)
    assert (max(request["cached"] for request in parts) > 0) == (scenario == "prefix")
    assert not any(request["cached"] for request in whole)


@pytest.mark.parametrize("case", marked(MEANS))
def test_log_probabilities_are_near_those_of_float32(runs: Runs, case: str) -> None:
    reference = of(runs, "stock", vllm_cases.reference_of(case))
    errors = errors_of(reference, of(runs, "folio", case))
    assert sum(errors) / len(errors) < MEANS[case]
