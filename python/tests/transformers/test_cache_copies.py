# SPDX-License-Identifier: Apache-2.0
"""FolioCache: what is written to its layers is taken over, and copies have rows of their own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from architectures import build
from cache_cases import KINDS, logits_after, random_tokens
from transformers import DynamicCache

import folio_kv
from folio_kv.transformers import FolioCache

STEPS = [random_tokens(2, 11), random_tokens(2, 1, seed=4)]
NEXT = [random_tokens(2, 3, seed=5)]


def caches_of(model: Any, **options: Any) -> tuple[FolioCache, DynamicCache]:
    """FolioCache and transformers' own, behind the same steps."""
    pair = FolioCache(model.config, page_size=4, **options), DynamicCache(config=model.config)
    for cache, name in zip(pair, ("folio", "eager")):
        logits_after(model, name, cache, STEPS)
    return pair


def compare_next(model: Any, caches: tuple[Any, Any], **tolerance: float) -> None:
    got, expected = (
        logits_after(model, name, cache, NEXT)[0] for cache, name in zip(caches, ("folio", "eager"))
    )
    torch.testing.assert_close(got, expected, **({"atol": 1e-4, "rtol": 0} | tolerance))


def halved(layer: Any) -> None:
    layer.values.mul_(0.5)


def zeroed(layer: Any) -> None:
    layer.keys[:, :, :5] = 0


def written_by_a_view(layer: Any) -> None:
    layer.keys[:, 0].add_(1.0)


def kept(layer: Any) -> None:
    chosen = torch.tensor([0, 2, 3, 6])
    layer.keys, layer.values = layer.keys[:, :, chosen], layer.values[:, :, chosen]


def multiplied(layer: Any) -> None:
    layer.keys *= 1.5


def values_alone(layer: Any) -> None:
    layer.values = layer.values + 1.0


@pytest.mark.parametrize(
    "edit", [halved, zeroed, written_by_a_view, kept, multiplied, values_alone]
)
@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_what_is_written_to_a_layer_is_what_attention_reads(kind: str, edit: Callable) -> None:
    model = build(kind)
    caches = caches_of(model)
    for cache in caches:
        for layer in cache.layers:
            if layer.is_initialized:
                edit(layer)
    if edit is kept and kind == "gemma2":
        return  # transformers' masks take a window layer's rows for its last tokens
    compare_next(model, caches)
    assert caches[0].get_seq_length() == caches[1].get_seq_length()


def test_rows_that_share_pages_are_edited_alone() -> None:
    model = build("llama")
    caches = caches_of(model)
    for cache in caches:
        cache.batch_select_indices(torch.tensor([0, 0]))
        for layer in cache.layers:
            layer.keys[1] = 0
    compare_next(model, caches)


def test_tensors_of_an_earlier_step_are_copies() -> None:
    model = build("llama")
    cache, stock = caches_of(model)
    old = cache.layers[0].keys
    logits_after(model, "folio", cache, NEXT)
    logits_after(model, "eager", stock, NEXT)
    old.zero_()  # of the step before: DynamicCache has made another tensor, too
    compare_next(model, (cache, stock))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.zeros(2, 2, 5), "keys: expected"),
        (torch.zeros(3, 2, 5, 16), "keys: expected"),
        (torch.zeros(2, 1, 5, 16), "keys: expected"),
        (torch.zeros(2, 2, 5, 8), "keys: expected"),
    ],
)
def test_rows_of_another_shape_are_refused(rows: torch.Tensor, message: str) -> None:
    cache, _ = caches_of(build("llama"))
    with pytest.raises(folio_kv.Error, match=message):
        cache.layers[0].keys = rows
    compare_next(build("llama"), caches_of(build("llama")))


def test_keys_and_values_of_different_lengths_are_refused_at_the_next_step() -> None:
    model = build("llama")
    cache, _ = caches_of(model)
    cache.layers[0].keys = torch.zeros(2, 2, 5, 16)
    with pytest.raises(folio_kv.Error, match="values: expected 5 tokens, as keys, got 12"):
        logits_after(model, "folio", cache, NEXT)
    with pytest.raises(folio_kv.Error, match="keys: expected a layer that has rows"):
        FolioCache(model.config).layers[0].keys = torch.zeros(2, 2, 5, 16)


def by_pickle(cache: FolioCache) -> FolioCache:
    return pickle.loads(pickle.dumps(cache))


@pytest.mark.parametrize("dtype", [None, "int8", "int8_per_row", "fp8", "q8_0", "int4", "kv4"])
@pytest.mark.parametrize("make", [copy.deepcopy, by_pickle])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_continues_alone(kind: str, make: Callable, dtype: Any) -> None:
    model = build(kind)
    if dtype == "q8_0" and kind != "deepseek_v3":
        model = build("gemma4_text") if kind == "gemma2" else model
    try:
        rotated = True if dtype in ("int4", "kv4") else None
        cache, _ = caches_of(model, dtype=dtype, rotated=rotated)
    except folio_kv.Error as error:
        assert dtype == "q8_0" and "head_size" in str(error)
        return
    mine = make(cache)
    logits_after(model, "folio", mine, [random_tokens(2, 9, seed=8)])
    assert (cache.get_seq_length(), mine.get_seq_length()) == (12, 21)
    again = make(cache)
    got = [logits_after(model, "folio", x, NEXT)[0] for x in (cache, again)]
    torch.testing.assert_close(*got, atol=0.0, rtol=0)


@pytest.mark.parametrize("make", [copy.deepcopy, by_pickle])
def test_a_copy_of_an_empty_cache_is_empty(make: Callable) -> None:
    model = build("gemma2")
    cache = make(FolioCache(model.config, page_size=4))
    stock = DynamicCache(config=model.config)
    assert cache.get_seq_length() == 0
    compare_next(model, (cache, stock))


@pytest.mark.parametrize("make", [copy.deepcopy, by_pickle])
def test_a_copy_of_rows_that_share_pages_is_written_alone(make: Callable) -> None:
    model = build("llama")
    cache, _ = caches_of(model)
    cache.batch_repeat_interleave(2)
    mine = make(cache)
    expected = logits_after(model, "folio", mine, [random_tokens(4, 3, seed=9)])[0]
    logits_after(model, "folio", make(cache), [random_tokens(4, 5, seed=10)])
    got = logits_after(model, "folio", cache, [random_tokens(4, 3, seed=9)])[0]
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def test_a_copy_of_a_layer_alone_is_another_of_its_cache_with_rows_of_its_own() -> None:
    """Dory appends such copies to the layers of its cache."""
    model = build("gemma2")
    cache, _ = caches_of(model)
    copies = [copy.deepcopy(layer) for layer in cache.layers]
    rows = [[x.clone() for x in layer.dense(layer.held)] for layer in cache.layers]
    logits_after(model, "folio", cache, NEXT)
    for other, layer, before in zip(copies, cache.layers, rows):
        assert other.owner is cache and other.held < layer.length
        for mine, its in zip(other.dense(other.held), before):
            assert torch.equal(mine, its)
