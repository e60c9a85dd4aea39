# SPDX-License-Identifier: Apache-2.0
"""`generate_batch` on transformers' own pages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from architectures import build
from comparison import batch_config, check_continuous, greedy, requests, run_batch
from transformers.generation.continuous_batching import cache as cb_cache
from transformers.generation.continuous_batching.cache_allocators import FullAttentionCacheAllocator

import folio_kv.transformers as folio
from folio_kv.transformers import continuous


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss", "mistral", "olmo3", "qwen3"])
def test_a_batch_gives_the_tokens_of_forwards_without_a_cache(kind: str) -> None:
    outcome = check_continuous(build(kind), kind)
    assert str(outcome) == "ok", outcome


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_nothing_is_gathered_and_no_mask_is_made(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathers(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("keys and values were gathered")

    monkeypatch.setattr(cb_cache.PagedAttentionCache, "update", gathers)
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
    module = torch.nn.Module()
    module.layer_idx = 0
    out = continuous.attend_paged(
        module,
        q,
        k,
        v,
        Cache(),
        dict(
            cu_seq_lens_q=torch.tensor([0, 1, 2], dtype=torch.int32),
            cu_seq_lens_k={"full_attention": lengths},
            block_table=table,
            read_index=[],
            write_index=[],
            scaling=0.25,
            s_aux=sinks if has_sinks else None,
        ),
    )
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
def test_a_model_that_hands_over_no_cache_fails_with_the_reason(kind: str) -> None:
    model = build(kind)
    model.set_attn_implementation("folio_flash")
    with pytest.raises(
        RuntimeError, match="does not hand transformers' paged cache to its attention"
    ):
        run_batch(model, requests())


def test_what_has_no_pages_is_refused_by_name() -> None:
    model = build("llama")
    with pytest.raises(
        NotImplementedError, match="cache: expected a PagedAttentionCache, got dict"
    ):
        from folio_kv.transformers.attention import attention

        attention(
            model.model.layers[0].self_attn, *(torch.zeros(1, 2, 3, 16) for _ in range(3)), cache={}
        )


def test_an_allocator_still_keeps_the_views_that_folio_reads() -> None:
    assert hasattr(FullAttentionCacheAllocator, "get_cache_for_block_table")
