# SPDX-License-Identifier: Apache-2.0
"""The stock engine says the same with folio as without, whatever a batch is made of."""

from __future__ import annotations

import pytest
import vllm_cases
from vllm_cases import EXACT, ROUNDED, UNSERVED
from vllm_runs import Runs, errors_of, marked, of

NEEDS_AVX512 = "FP8 KV cache on CPU requires x86 with AVX-512 or AMX"


@pytest.mark.parametrize("case", marked(EXACT))
def test_greedy_tokens_are_those_of_the_stock_engine_in_float32(runs: Runs, case: str) -> None:
    stock, folio = of(runs, "stock", case), of(runs, "folio", case)
    for scenario in EXACT[case]["scenarios"]:
        expected = [request["tokens"] for request in stock[scenario]]
        assert [request["tokens"] for request in folio[scenario]] == expected, scenario


@pytest.mark.parametrize("case", marked(EXACT))
def test_log_probabilities_are_those_of_the_stock_engine_in_float32(runs: Runs, case: str) -> None:
    stock, folio = of(runs, "stock", case), of(runs, "folio", case)
    for scenario in EXACT[case]["scenarios"]:
        for expected, request in zip(stock[scenario], folio[scenario], strict=True):
            assert request["logprobs"] == pytest.approx(expected["logprobs"], abs=2e-4), scenario


@pytest.mark.parametrize("case", marked({**EXACT, **ROUNDED}))
def test_folio_serves_every_decoder_layer(runs: Runs, case: str) -> None:
    served = of(runs, "folio", case)["served"]
    expected = "folio (decoding)" if case == "deepseek" else "folio"
    assert served
    assert set(served.values()) == {expected}


@pytest.mark.parametrize("case", marked(n for n in EXACT if "prefix" in EXACT[n]["scenarios"]))
def test_a_common_prefix_is_found_in_the_cache(runs: Runs, case: str) -> None:
    stock, folio = of(runs, "stock", case), of(runs, "folio", case)
    cached = [request["cached"] for request in folio["prefix"]]
    assert cached == [request["cached"] for request in stock["prefix"]]
    assert max(cached) > 0


@pytest.mark.parametrize("case", marked(n for n in EXACT if "preempt" in EXACT[n]["scenarios"]))
def test_a_full_cache_preempts_requests(runs: Runs, case: str) -> None:
    preemptions = of(runs, "folio", case)["preemptions"]
    assert preemptions == of(runs, "stock", case)["preemptions"]
    assert preemptions > 0


@pytest.mark.parametrize("case", marked(ROUNDED))
def test_log_probabilities_are_as_near_to_float32_as_those_of_the_stock_engine(
    runs: Runs, case: str
) -> None:
    if NEEDS_AVX512 in runs["stock"][case].get("error", ""):
        pytest.skip(f"the stock engine: {NEEDS_AVX512}")
    reference = of(runs, "stock", vllm_cases.reference_of(case))
    stock = errors_of(reference, of(runs, "stock", case))
    folio = errors_of(reference, of(runs, "folio", case))
    mean = sum(folio) / len(folio)
    assert mean <= 1.25 * sum(stock) / len(stock), "mean"
    assert max(folio) <= 2.0 * max(stock), "worst"


@pytest.mark.parametrize("case", marked(UNSERVED))
def test_an_encoder_stays_with_the_stock_class(runs: Runs, case: str) -> None:
    folio = of(runs, "folio", case)
    assert set(folio["served"].values()) == {"encoder_only attention"}
    assert folio["embedded"] == of(runs, "stock", case)["embedded"]


@pytest.mark.quick
@pytest.mark.parametrize("case", ["llama"])
def test_one_line_of_the_log_says_which_layers_are_served(runs: Runs, case: str) -> None:
    of(runs, "folio", case)
    lines = [line for line in runs["folio"]["log"].splitlines() if "folio serves" in line]
    assert len(lines) == len(runs["folio"]) - 1  # one an engine
    assert "folio serves 4 of 4 attention layers: 0-3; " in lines[0]


@pytest.mark.quick
@pytest.mark.parametrize("case", ["llama"])
def test_the_switch_leaves_the_stock_engine_alone(runs: Runs, case: str) -> None:
    assert of(runs, "stock", case)["served"] == {}
    assert "folio serves" not in runs["stock"]["log"]
