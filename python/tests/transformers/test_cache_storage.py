# SPDX-License-Identifier: Apache-2.0
"""FolioCache: what its elements are stored as, and how much memory it takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from architectures import build
from cache_cases import logits_after, random_tokens, served
from transformers import DynamicCache, Gemma3ForCausalLM, Gemma3TextConfig

import folio_kv
from folio_kv._formats import block_of
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
        ({"dtype": "int4"}, 0.2),
        ({"dtype": "int4", "rotated": True}, 0.2),
        ({"dtype": "nvfp4", "rotated": 16}, 0.25),
        ({"dtype": "mxfp4"}, 0.3),
        ({"dtype": "kv4", "rotated": True}, 0.1),
        ({"dtype": "int8", "rotated": True}, 0.01),
        ({"dtype": "q4_0", "rotated": 32}, 0.2),
        ({"dtype": "int4", "granularity": 16, "scale_dtype": "bf16"}, 0.2),
        ({"dtype": "u4", "v_dtype": "int4"}, 0.2),
        ({"dtype": folio_kv.Format("u4", zeros="minimum", hadamard=32, sign_seed=3)}, 0.2),
        ({"dtype": "i8", "v_dtype": folio_kv.Format("i4", scale_dtype="f8_e8m0")}, 0.2),
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


def wide_llama(**options: Any) -> Any:
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
        **options,
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


@pytest.mark.parametrize(
    ("dtype", "bytes_of_a_head"),
    [("int4", 16 + 2), ("nvfp4", 16 + 2), ("mxfp4", 16 + 1), ("int8", 32 + 2)],
)
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_cache_takes_the_bytes_of_its_dtype(kind: str, dtype: str, bytes_of_a_head: int) -> None:
    model = wide_llama() if kind == "llama" else hybrid()
    steps = [random_tokens(2, 50)]
    cache = FolioCache(model.config, page_size=8, dtype=dtype, rotated=True)
    logits_after(model, "folio", cache, steps)
    assert cache.nbytes * 32 * 4 == unquantised_bytes(model, steps) * bytes_of_a_head


@pytest.mark.parametrize("dtype", ["int4", "mxfp4"])
def test_rotation_brings_keys_with_outliers_nearer(dtype: str) -> None:
    """One channel of each head is 30 times the others, as in models with real weights."""
    model = wide_llama(initializer_range=0.2, attention_bias=True)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.bias[5::32] = 30
    steps = [random_tokens(2, 50), random_tokens(2, 5, seed=4)]
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)[1]
    errors = {}
    for rotated in None, True:
        cache = FolioCache(model.config, dtype=dtype, rotated=rotated)
        errors[rotated] = float((logits_after(model, "folio", cache, steps)[1] - expected).norm())
    assert errors[True] < 0.8 * errors[None]


def test_keys_and_values_are_rotated_by_the_largest_block_of_their_heads() -> None:
    assert [block_of(dim) for dim in (16, 96, 128, 256, 320, 512)] == [16, 32, 128, 256, 64, 256]
    model = wide_llama()
    cache = FolioCache(model.config, dtype="int4", v_dtype="i8", rotated=True)
    logits_after(model, "folio", cache, [random_tokens(1, 3)])
    key, value = cache.layers[1].planes.formats
    assert (key.dtype, key.hadamard, value.dtype, value.hadamard) == ("i4", 32, "i8", 32)


def test_each_layer_has_its_own_channel_scales() -> None:
    model = wide_llama()
    scales = torch.rand(2, 2, 32, generator=torch.Generator().manual_seed(7)) + 0.5
    key = folio_kv.Format("i4", hadamard=32, channel_scales=scales)
    cache = FolioCache(model.config, dtype=key, v_dtype="int4")
    steps = [random_tokens(2, 20), random_tokens(2, 1, seed=4)]
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)[1]
    got = logits_after(model, "folio", cache, steps)[1]
    assert served(model) and (got - expected).norm() < 0.2 * expected.norm()
    for i, layer in enumerate(cache.layers):
        assert torch.equal(layer.planes.formats[0].channel_scales, scales[i])


REFUSED = {
    "a block that is no power of two": ({"dtype": "int4", "rotated": 48}, "rotated: expected True or a power of two from 16 to 512, got 48"),
    "a block that is no number": ({"dtype": "int4", "rotated": "yes"}, "rotated: expected True or .*, got 'yes'"),
    "a block that is no whole number": ({"dtype": "int4", "rotated": 16.0}, "rotated: expected True or .*, got 16.0"),
    "channel scales that are none": ({"dtype": "int4", "channel_scales": 3}, "channel_scales: expected one for each layer, got 3"),
    "channel scales of more layers": ({"dtype": "int4", "channel_scales": [None] * 3}, "channel_scales: expected one for each of 2 layers, got 3"),
    "channel scales of K for V": ({"dtype": folio_kv.Format("i4", channel_scales=torch.ones(2, 32))}, "v_dtype: expected V's own"),
    "a rotation of nothing": ({"rotated": True}, "rotated: expected a dtype beside it"),
    "a rotation beside a Format": ({"dtype": folio_kv.Format("i4"), "rotated": True}, "rotated: given beside a Format"),
    "a scale beside a Format": ({"dtype": folio_kv.Format("i4"), "scale_dtype": "f32"}, "scale_dtype: given beside a Format"),
    "a V beside a pair": ({"dtype": "kv4", "v_dtype": "int8"}, 'v_dtype: given beside "kv4"'),
    "a dtype that is none": ({"dtype": "int3"}, "dtype: expected f32, .*, got int3"),
    "a granularity of 0": ({"dtype": "int4", "granularity": 0}, "granularity: expected at least 1, got 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_cache_stores_is_named(name: str) -> None:
    options, message = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=message):
        FolioCache(wide_llama().config, **options)


@pytest.mark.parametrize(
    ("rotated", "message"),
    [
        (True, "rotated: expected heads of a multiple of 16 elements, got 24"),
        (64, "rotated: expected a divisor of the head's 24, got 64"),
    ],
)
def test_heads_that_no_rotation_fits_are_refused_by_the_first_forward(
    rotated: bool | int, message: str
) -> None:
    model = hybrid()
    cache = FolioCache(model.config, dtype="int4", rotated=rotated)
    with pytest.raises(folio_kv.Error, match=message):
        cache.layers[0].update(torch.zeros(1, 1, 2, 24), torch.zeros(1, 1, 2, 24))


def test_heads_that_no_group_of_32_fits_have_a_scale_a_row() -> None:
    model = build("llama")  # heads of 16
    steps = [random_tokens(2, 9), random_tokens(2, 1)]
    caches = [FolioCache(model.config, dtype=dtype) for dtype in ("int8", "int8_per_row")]
    got = [logits_after(model, "folio", cache, steps)[1] for cache in caches]
    assert torch.equal(*got) and caches[0].nbytes == caches[1].nbytes
