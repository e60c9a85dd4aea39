# SPDX-License-Identifier: Apache-2.0
"""FolioCache: generation with it gives the tokens of transformers' own caches, whatever is done to
its rows.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from architectures import build
from cache_cases import KINDS, logits_after, random_tokens, served
from comparison import greedy, prompts
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)

import folio_kv
from folio_kv.transformers import FolioCache


def generate(model: Any, implementation: str, cache: Any = None, **options: Any) -> torch.Tensor:
    tokens, mask = prompts()
    model.set_attn_implementation(implementation)
    config = greedy()
    config.output_logits = config.return_dict_in_generate = None
    config.update(**options)
    return model.generate(
        tokens, attention_mask=mask, generation_config=config, past_key_values=cache
    )


@pytest.mark.parametrize("kind", KINDS)
def test_beams_give_eagers_tokens(kind: str) -> None:
    model = build(kind)
    expected = generate(model, "eager", num_beams=3)
    assert torch.equal(
        generate(model, "folio_flash", FolioCache(model.config, page_size=4), num_beams=3), expected
    )
    assert served(model)


def test_beams_share_their_pages() -> None:
    model = build("llama")
    cache = FolioCache(model.config, page_size=4, capacity=64)
    logits_after(model, "folio", cache, [random_tokens(1, 18).expand(3, -1)])
    before = cache.pool.pool.stats()["used_pages"]
    cache.reorder_cache(torch.tensor([1, 1, 1]))
    assert (before, cache.pool.pool.stats()["used_pages"]) == (15, 4 + 3)
    cache.pool.pool.check_invariants()


def test_a_cache_grows_without_losing_rows() -> None:
    model = build("llama")
    steps = [random_tokens(2, n, seed=n) for n in (5, 1, 9, 1, 30, 1)]
    cache = FolioCache(model.config, page_size=4, capacity=6)
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)
    for a, b in zip(expected, logits_after(model, "folio", cache, steps)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
    assert cache.pool.columns * 4 >= 47 and cache.get_seq_length() == 47


def test_beams_grow_and_fork() -> None:
    model = build("gemma2")
    expected = generate(model, "eager", num_beams=4, max_new_tokens=24)
    cache = FolioCache(model.config, page_size=4, capacity=22)
    assert torch.equal(
        generate(model, "folio_flash", cache, num_beams=4, max_new_tokens=24), expected
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_cropped_cache_continues_where_it_was_cut(kind: str) -> None:
    model = build(kind)
    steps = [random_tokens(2, 11), random_tokens(2, 6, seed=4), random_tokens(2, 3, seed=5)]
    cache = FolioCache(model.config, page_size=4)
    cache.activate_past_recording()
    logits_after(model, "folio", cache, steps[:2])
    cache.crop(-6)
    assert cache.get_seq_length() == 11
    expected = logits_after(
        model, "eager", DynamicCache(config=model.config), [steps[0], steps[2]]
    )[1]
    torch.testing.assert_close(
        logits_after(model, "folio", cache, steps[2:])[0], expected, atol=1e-4, rtol=0
    )


def test_a_reset_cache_serves_other_rows() -> None:
    model = build("llama")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(3, 7)])
    cache.reset()
    assert cache.get_seq_length() == 0
    tokens = [random_tokens(2, 9, seed=8)]
    expected = logits_after(model, "eager", None, tokens)[0]
    torch.testing.assert_close(
        logits_after(model, "folio", cache, tokens)[0], expected, atol=1e-4, rtol=0
    )


def test_repeated_and_selected_rows_continue() -> None:
    model = build("llama")
    caches = FolioCache(model.config, page_size=4), DynamicCache(config=model.config)
    found = []
    for cache, implementation in zip(caches, ("folio", "eager")):
        logits_after(model, implementation, cache, [random_tokens(2, 6)])
        cache.batch_repeat_interleave(3)
        logits_after(model, implementation, cache, [random_tokens(6, 2, seed=6)])
        cache.batch_select_indices(torch.tensor([5, 0]))
        found.append(logits_after(model, implementation, cache, [random_tokens(2, 1, seed=7)])[0])
    torch.testing.assert_close(*found, atol=1e-4, rtol=0)


def test_rows_that_share_a_prompt_read_it_once() -> None:
    model, prompt, rows = build("llama"), 200, 4
    cache = FolioCache(model.config, page_size=16)
    logits_after(model, "folio", cache, [random_tokens(1, prompt)])
    cache.batch_repeat_interleave(rows)
    logits_after(model, "folio", cache, [random_tokens(rows, 1, seed=6)])
    shared = prompt // 64 * 64
    assert cache.step(prompt, 1).keys_read == [shared + rows * (prompt + 1 - shared)]


@pytest.mark.parametrize("kind", KINDS)
def test_stock_attention_reads_a_folio_cache(kind: str) -> None:
    model = build(kind)
    cache = FolioCache(model.config, page_size=4)
    assert torch.equal(generate(model, "eager", cache), generate(model, "eager"))


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_own_cache_is_read_in_place(kind: str) -> None:
    model = build(kind)
    expected = generate(model, "eager")
    assert torch.equal(generate(model, "folio_flash"), expected)
    assert torch.equal(generate(model, "folio_flash", DynamicCache(config=model.config)), expected)
    assert served(model)


def test_a_static_cache_is_read_as_far_as_it_is_filled() -> None:
    model = build("llama")
    cache = StaticCache(config=model.config, max_cache_len=40)
    assert torch.equal(generate(model, "folio_flash", cache), generate(model, "eager"))
    assert served(model)


def test_a_quantised_cache_is_read_by_stock_attention() -> None:
    model = build("llama")
    steps = [random_tokens(2, 20), random_tokens(2, 1, seed=4)]
    caches = [FolioCache(model.config, dtype="int8", page_size=8) for _ in range(2)]
    folio_logits = logits_after(model, "folio", caches[0], steps)[1]
    torch.testing.assert_close(
        logits_after(model, "eager", caches[1], steps)[1], folio_logits, atol=0.2, rtol=0.1
    )


def test_latent_rows_are_kept_once_for_all_heads() -> None:
    model = build("deepseek_v3")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(2, 9), random_tokens(2, 1)])
    pages = cache.layers[0].planes.pages
    dim = model.config.kv_lora_rank + model.config.qk_rope_head_dim
    assert pages.is_latent and (pages.kv_heads, pages.head_size) == (1, dim)
    assert cache.nbytes == len(cache.layers) * pages.num_pages * pages.page_size * dim * 4
    assert served(model)


def test_latent_rows_follow_weights_that_change() -> None:
    model = build("deepseek_v3")
    steps = [random_tokens(2, 9), random_tokens(2, 1)]
    logits_after(model, "folio", FolioCache(model.config), steps)
    with torch.no_grad():
        model.model.layers[0].self_attn.kv_b_proj.weight.mul_(-1)
    expected = logits_after(model, "eager", DynamicCache(config=model.config), steps)[1]
    got = logits_after(model, "folio", FolioCache(model.config), steps)[1]
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)


def test_a_mask_for_fewer_keys_than_the_cache_has_is_refused() -> None:
    model = build("llama")
    cache = FolioCache(model.config)
    logits_after(model, "folio", cache, [random_tokens(1, 9)])
    message = r"attention_mask: expected at least 10 keys, as the cache has, got \(1, 1, 1, 1\)"
    with pytest.raises(folio_kv.Error, match=message):
        model(random_tokens(1, 1), attention_mask=torch.zeros(1, 1, 1, 1), past_key_values=cache)


def test_layers_that_share_keys_have_no_pages_of_their_own() -> None:
    model = build("gemma3n_text")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(2, 9), random_tokens(2, 1)])
    paged = [layer for layer in cache.layers if getattr(layer, "planes", None) is not None]
    assert len(paged) == model.config.num_hidden_layers - model.config.num_kv_shared_layers


def test_layers_have_head_dims_of_their_own() -> None:
    model = build("gemma4_text")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(2, 9)])
    assert [layer.planes.pages.head_size for layer in cache.layers] == [16, 32, 32]


def test_one_step_serves_all_layers_of_a_forward() -> None:
    model = build("llama")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(2, 9)])
    assert len(cache._steps) == 1


def test_a_cache_never_asks_for_prebuilt_masks() -> None:
    cache = FolioCache(build("gemma2").config)
    assert not cache.is_compileable


@pytest.mark.parametrize("kind", KINDS)
def test_assisted_generation_gives_the_same_tokens(kind: str) -> None:
    model = build(kind)
    tokens = random_tokens(1, 12)
    config = GenerationConfig(max_new_tokens=10, do_sample=False, pad_token_id=0, eos_token_id=None)
    model.set_attn_implementation("eager")
    expected = model.generate(tokens, generation_config=config)
    model.set_attn_implementation("folio")
    got = model.generate(
        tokens,
        generation_config=config,
        past_key_values=FolioCache(model.config),
        prompt_lookup_num_tokens=3,
    )
    assert torch.equal(got, expected)


def test_another_number_of_rows_is_refused() -> None:
    model = build("llama")
    cache = FolioCache(model.config)
    logits_after(model, "folio", cache, [random_tokens(2, 9)])
    with pytest.raises(ValueError, match="expected 2 rows as before, got 3"):
        logits_after(model, "folio", cache, [random_tokens(3, 1)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int3"}, "dtype: expected f32, f16, .* or u4_halves, got int3"),
        ({"v_dtype": "i8"}, "v_dtype: expected a dtype beside it, got None"),
        ({"granularity": 32}, "granularity: expected a dtype beside it, got None"),
        ({"scale_dtype": "f16"}, "scale_dtype: expected a dtype beside it, got None"),
        ({"dtype": "i8", "granularity": 0}, "granularity"),
        ({"dtype": "i8", "scale_dtype": "i8"}, "scale_dtype"),
        ({"dtype": "q8_0", "granularity": 32}, "granularity"),
        ({"dtype": "bf16", "granularity": 32}, "granularity"),
        ({"capacity": 0}, "capacity: expected at least 1, got 0"),
        ({"page_size": 0}, "page_size: expected at least 1, got 0"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(folio_kv.Error, match=message):
        FolioCache(build("llama").config, **options)


def test_an_encoder_with_a_decoder_keeps_both_attentions_in_pages() -> None:
    config = T5Config(
        vocab_size=96,
        d_model=64,
        d_kv=16,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(config).eval()
    expected = generate(model, "eager", num_beams=2)
    cache = EncoderDecoderCache(FolioCache(config, page_size=4), FolioCache(config, page_size=4))
    assert torch.equal(generate(model, "folio_flash", cache, num_beams=2), expected)
    assert [
        x.layers[0].length for x in (cache.self_attention_cache, cache.cross_attention_cache)
    ] == [8, 21]


def test_keys_can_be_read_from_a_layer() -> None:
    model = build("llama")
    caches = FolioCache(model.config, page_size=4), DynamicCache(config=model.config)
    for cache in caches:
        logits_after(model, "eager", cache, [random_tokens(2, 9), random_tokens(2, 1)])
    layer, expected = (cache.layers[1] for cache in caches)
    assert layer.keys.shape == expected.keys.shape
    torch.testing.assert_close(layer.keys + 0, expected.keys)
    torch.testing.assert_close(layer.values + 0, expected.values)
    assert FolioCache(model.config).layers[0].keys is None


@pytest.mark.parametrize("dtype", [None, "int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", "deepseek_v3"])
def test_rows_can_be_reshaped_as_contiguous_ones(kind: str, dtype: Any) -> None:
    model = build(kind)
    cache = FolioCache(model.config, page_size=4, dtype=dtype)
    logits_after(model, "eager", cache, [random_tokens(2, 9)])
    for rows in (cache.layers[1].keys, cache.layers[1].values):
        assert rows.is_contiguous() and torch.equal(rows.reshape(-1), (rows + 0).flatten())
