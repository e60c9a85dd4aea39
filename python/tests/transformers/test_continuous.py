# SPDX-License-Identifier: Apache-2.0
"""`generate_batch` on transformers' own pages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from architectures import build
from comparison import batch_config, check_continuous, greedy, requests, run_batch
from transformers.generation.continuous_batching import cache as cb_cache
from transformers.generation.continuous_batching import cache_allocators

import folio_kv
import folio_kv.transformers as folio
from folio_kv._engine import pair
from folio_kv.transformers import continuous
from folio_kv.transformers.attention import attention
from folio_kv.transformers.paged_rows import PagedUpdate


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss", "mistral", "olmo3", "qwen3"])
def test_a_batch_gives_the_tokens_of_forwards_without_a_cache(kind: str) -> None:
    outcome = check_continuous(build(kind), kind)
    assert str(outcome) == "ok", outcome


@pytest.mark.parametrize("kind", ["diffllama", "doge", "gemma3n_text"])
def test_a_model_that_changes_masks_or_shares_rows_gives_them_too(kind: str) -> None:
    """Up to 5.23 the first two fail in transformers' own batches as well."""
    model = build(kind)
    for name, parameter in model.named_parameters():
        if name.endswith(".A"):  # Doge's mask: without these it is the same for all keys
            torch.nn.init.normal_(parameter, std=2.0)
    outcome = check_continuous(model, kind)
    is_older = pair(transformers.__version__) < (5, 24) and kind != "gemma3n_text"
    assert str(outcome) == ("n/a" if is_older else "ok"), outcome


def test_a_mask_of_the_models_own_is_used_within_each_request_and_its_window() -> None:
    """Requests of 2 queries over 3 keys and of 1 over 2; a query and a key are padding."""
    options = {"cu_seq_lens_q": torch.tensor([0, 2, 3]), "cu_seq_lens_k": torch.tensor([0, 3, 5])}
    query, own = torch.zeros(1, 1, 4, 8), torch.arange(24.0).reshape(1, 1, 4, 6)
    seen = [[0, 1], [0, 1, 2], [3, 4]]
    for window, keys in (None, seen), (2, [[0, 1], [1, 2], [3, 4]]):
        hidden = torch.full((4, 6), True)
        for row, visible in enumerate(keys):
            hidden[row, visible] = False
        found = continuous.mask_of_batch(query, own, options | {"sliding_window": window})
        expected = own.masked_fill(hidden, torch.finfo(torch.float32).min)
        assert torch.equal(found[0, 0, :3], expected[0, 0, :3])
        assert torch.equal(
            continuous.mask_of_batch(query, own != 7, options | {"sliding_window": window})[
                0, 0, :3
            ]
            == 0,
            (~hidden & (own[0, 0] != 7))[:3],
        )


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_nothing_is_gathered_and_no_mask_is_made(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathers(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("keys and values were gathered")

    for kind_of_pages in "FullAttentionCacheAllocator", "SlidingAttentionCacheAllocator":
        monkeypatch.setattr(getattr(cache_allocators, kind_of_pages), "update", gathers)
    monkeypatch.setattr("folio_kv.transformers.masks.MaskTensor.make_dense", gathers)
    model = build(kind)
    model.set_attn_implementation("folio_flash")
    assert len(run_batch(model, requests())) == len(requests())
    assert {layer.served_by for layer in folio.report(model).layers} == {"folio"}


def test_pages_are_views_of_transformers_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = continuous._pages_of

    def pages_of(allocator: Any, layer: int, is_ring: bool) -> Any:
        pages = original(allocator, layer, is_ring)
        key = torch.from_dlpack(pages.key)
        base = allocator.cache_tensor.untyped_storage()
        seen.append(base.data_ptr() <= key.data_ptr() < base.data_ptr() + base.nbytes())
        return pages

    monkeypatch.setattr(continuous, "_pages_of", pages_of)
    model = build("llama")
    model.set_attn_implementation("folio_flash")
    run_batch(model, requests())
    assert seen and all(seen)


def test_layers_of_a_forward_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = continuous._paged_forward
    monkeypatch.setattr(
        continuous, "_paged_forward", lambda *args: made.append(0) or original(*args)
    )
    calls: list[int] = []
    attend = continuous.attend_paged
    monkeypatch.setattr(
        "folio_kv.transformers.attention.attend_paged",
        lambda *args: calls.append(0) or attend(*args),
    )
    model = build("llama")
    model.set_attn_implementation("folio_flash")
    run_batch(model, requests())
    assert len(calls) == len(made) * model.config.num_hidden_layers


def test_bfloat16_pages_are_served() -> None:
    model = build("llama", dtype=torch.bfloat16)
    model.set_attn_implementation("folio_flash")
    found = run_batch(model, requests())
    assert [len(tokens) for tokens, _ in found] == [8] * 4


@pytest.mark.parametrize("block_size", [4, 32])
def test_pages_of_other_sizes(block_size: int) -> None:
    model = build("gemma2")
    config = batch_config()
    config.page_size = block_size
    generation = copy.copy(greedy())
    generation.return_dict_in_generate = generation.output_logits = None
    found = {}
    for implementation in ("eager", "folio_flash"):
        model.set_attn_implementation(implementation)
        outputs = model.generate_batch(
            inputs=requests(),
            generation_config=generation,
            continuous_batching_config=config,
            progress_bar=False,
            warmup=False,
        )
        found[implementation] = {tuple(x.prompt_ids): x.generated_tokens for x in outputs.values()}
        model.set_attn_implementation("eager")
    assert found["eager"] == found["folio_flash"]


@pytest.mark.parametrize("has_sinks", [False, True])
def test_a_block_table_is_used_in_place(has_sinks: bool) -> None:
    """The decode path that transformers opens on other devices: an int32 table with -1 for
    unassigned pages. With a sink logit of each query and head, or without.
    """
    pages, page, heads, dim = 6, 4, 2, 16
    g = torch.Generator().manual_seed(0)
    k_cache, v_cache = (torch.randn(pages, page, heads, dim, generator=g) for _ in range(2))

    class Cache(cb_cache.PagedAttentionCache):
        def __init__(self) -> None:
            self.layer_to_allocator = {0: Allocator()}

    class Allocator:
        layer_type, index, layer_indices, tokens_per_page = "full_attention", 0, [0], page

        def get_cache_for_block_table(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
            return k_cache, v_cache

    table = torch.tensor([[[3, 1, -1], [5, -1, -1]]], dtype=torch.int32)
    q, k, v = (torch.randn(1, n, 2, dim, generator=g) for n in (4, 2, 2))
    sinks = torch.randn(1, 4, 2, 1, generator=g)
    lengths = torch.tensor([0, 6, 9], dtype=torch.int32)
    batch = dict(
        cu_seq_lens_q=torch.tensor([0, 1, 2], dtype=torch.int32),
        cu_seq_lens_k={"full_attention": lengths},
        block_table=table,
        read_index=[],
        write_index=[],
    )
    update = PagedUpdate(Cache(), 0, k, v, batch)
    options = dict(scaling=0.25, s_aux=sinks if has_sinks else None)
    out = continuous.attend_paged(update, q, options)
    assert torch.equal(k_cache[1, 1], k[0, :, 0]) and torch.equal(v_cache[5, 2], v[0, :, 1])
    for row, (ids, length) in enumerate((([3, 1], 6), ([5], 3))):
        keys, values = (
            x[ids].flatten(0, 1)[:length].repeat_interleave(2, 1).transpose(0, 1)
            for x in (k_cache, v_cache)
        )
        scores = q[0, :, row, None] @ keys.transpose(1, 2) * 0.25
        hidden = sinks[0, :, row, None] if has_sinks else scores[..., :0]
        weights = torch.cat([scores, hidden], -1).softmax(-1)[..., :length]
        expected = weights @ values
        torch.testing.assert_close(out[0, row], expected[:, 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["nemotron", "stablelm"])
def test_a_model_that_does_not_hand_on_what_it_is_given_fails_with_the_reason(kind: str) -> None:
    """Until 5.23 attention is to have the cache, from then on the cache its batch."""
    model = build(kind)
    model.set_attn_implementation("folio_flash")
    with pytest.raises(
        RuntimeError,
        match="does not hand transformers' paged cache to its attention"
        "|does not hand cu_seq_lens_q, .* to transformers' paged cache",
    ):
        run_batch(model, requests())


def test_rows_that_no_cache_has_seen_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "is_batch", lambda options: True)
    module = build("llama").model.layers[0].self_attn
    with pytest.raises(folio_kv.Unsupported, match="LlamaAttention does not hand transformers'"):
        attention(module, *(torch.zeros(1, 2, 3, 16) for _ in range(3)))


def test_what_has_no_pages_is_refused_by_name() -> None:
    model = build("llama")
    with pytest.raises(
        folio_kv.Unsupported, match="cache: expected a PagedAttentionCache, got dict"
    ):
        attention(
            model.model.layers[0].self_attn, *(torch.zeros(1, 2, 3, 16) for _ in range(3)), cache={}
        )
