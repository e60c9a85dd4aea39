# SPDX-License-Identifier: Apache-2.0
"""FolioCache: what its elements are stored as, and how much memory it takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from architectures import build
from cache_cases import logits_after, random_tokens, served
from transformers import DynamicCache, Gemma3ForCausalLM, Gemma3TextConfig

from folio_kv.transformers import FolioCache

LENGTHS = [1, 15, 16, 17, 31, 32, 33, 40, 64, 65, 150, 300]


def bytes_of(cache: DynamicCache) -> int:
    return sum(x.nbytes for layer in cache.layers for x in (layer.keys, layer.values))


def hybrid(window: int = 32, layers: int = 6) -> Any:
    """As Gemma 3: 5 layers with a window, then a full one."""
    torch.manual_seed(1)
    config = Gemma3TextConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        sliding_window=window,
    )
    return Gemma3ForCausalLM(config).eval()


@pytest.mark.parametrize("prompt", LENGTHS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_with_windows_takes_no_more_than_stocks_cache(prompt: int, batch: int) -> None:
    """At most 1.1 times and a page for each layer and row, behind a prompt and behind each token."""
    model = hybrid()
    caches = FolioCache(model.config, page_size=4), DynamicCache(config=model.config)
    page = 2 * 4 * 32 * 4  # K and V of 4 tokens
    steps = [random_tokens(batch, prompt), *(random_tokens(batch, 1, seed=i) for i in range(40))]
    for step in steps:
        got, expected = (
            logits_after(model, name, cache, [step])[0]
            for name, cache in zip(("folio", "eager"), caches)
        )
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
        assert caches[0].nbytes <= 1.1 * bytes_of(caches[1]) + 6 * batch * page
    assert served(model)


def test_long_prompts_take_less_than_a_tenth_more_than_stocks_cache() -> None:
    model = hybrid(window=128)
    for prompt in (1000, 2000, 4096):
        folio, stock = FolioCache(model.config), DynamicCache(config=model.config)
        for cache in (folio, stock):
            logits_after(model, "folio", cache, [random_tokens(1, prompt), random_tokens(1, 1)])
        assert folio.nbytes <= 1.1 * bytes_of(stock)


@pytest.mark.parametrize("window", [1, 2, 32])
def test_chunks_of_a_prompt_see_what_the_whole_sees(window: int) -> None:
    """Pieces of any length, around the window's edges."""
    model = hybrid(window)
    pieces = [1, 31, 32, 33, 2, 64, 5, 34, 1, 1]
    tokens = random_tokens(2, sum(pieces))
    whole = logits_after(model, "eager", None, [tokens])[0]
    cache = FolioCache(model.config, page_size=4)
    got = torch.cat(logits_after(model, "folio", cache, list(tokens.split(pieces, 1))), 1)
    torch.testing.assert_close(got, whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"dtype": "int8"}, 0.01),
        ({"dtype": "int8_per_row"}, 0.02),
        ({"dtype": "fp8"}, 0.1),
        ({"dtype": torch.float16}, 0.001),
        ({"dtype": "q8_0"}, 0.01),
        ({"dtype": "q8_0", "v_dtype": "q4_0"}, 0.1),
        ({"dtype": "f8_e5m2"}, 0.2),
        ({"dtype": "bf16", "v_dtype": "i8"}, 0.02),
        ({"dtype": "i8", "granularity": 16, "scale_dtype": "f32"}, 0.01),
        ({"dtype": "f8_e4m3", "granularity": 32, "scale_dtype": "bf16"}, 0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_quantised_cache_stays_near(kind: str, options: dict[str, Any], bound: float) -> None:
    model = wide_llama() if kind == "llama" else hybrid()
    steps = [random_tokens(2, 50), random_tokens(2, 1, seed=4), random_tokens(2, 5, seed=5)]
    cache = FolioCache(model.config, page_size=8, **options)
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)
    got = logits_after(model, "folio", cache, steps)
    error = max(float((a - b).norm() / a.norm()) for a, b in zip(expected, got))
    assert served(model)
    assert 1e-6 < error < bound
    assert cache.nbytes < 0.6 * unquantised_bytes(model, steps)


def unquantised_bytes(model: Any, steps: list[torch.Tensor]) -> int:
    cache = FolioCache(model.config, page_size=8)
    logits_after(model, "folio", cache, steps)
    return cache.nbytes


def wide_llama() -> Any:
    """Heads that blocks of 32 elements fit."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
    )
    return LlamaForCausalLM(config).eval()


def test_int8_has_a_scale_for_32_elements_and_is_nearer_than_one_for_a_row() -> None:
    """On keys with outliers, as real ones have."""
    model = wide_llama()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.weight[::32] *= 30
    steps = [random_tokens(2, 50), random_tokens(2, 1, seed=4)]
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)[1]
    errors = {}
    for dtype in ("int8", "int8_per_row"):
        cache = FolioCache(model.config, dtype=dtype)
        errors[dtype] = float((logits_after(model, "folio", cache, steps)[1] - expected).norm())
    assert errors["int8"] < errors["int8_per_row"]


def test_heads_that_no_group_of_32_fits_have_a_scale_a_row() -> None:
    model = build("llama")  # heads of 16
    steps = [random_tokens(2, 9), random_tokens(2, 1)]
    caches = [FolioCache(model.config, dtype=dtype) for dtype in ("int8", "int8_per_row")]
    got = [logits_after(model, "folio", cache, steps)[1] for cache in caches]
    assert torch.equal(*got) and caches[0].nbytes == caches[1].nbytes
