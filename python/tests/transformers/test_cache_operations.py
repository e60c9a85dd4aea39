# SPDX-License-Identifier: Apache-2.0
"""FolioCache beside transformers' own: whatever is done to both, in any order, they hold the same
rows and give the same logits.
"""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pytest
import torch
from architectures import build
from cache_cases import logits_after, random_tokens
from transformers import DynamicCache

import folio_kv
from folio_kv.transformers import FolioCache

KINDS = ("llama", "gemma2", "gemma3_text", "deepseek_v3")


class Pair:
    """Both caches. `past`: tokens that a layer with a window can give back."""

    def __init__(self, kind: str, random: random.Random):
        self.model, self.random, self.past = build(kind), random, 0
        config = self.model.config
        stored = random.choice([{}, {"dtype": "f32", "rotated": True}])
        self.ours = FolioCache(config, page_size=random.choice([1, 3, 4, 16]), **stored)
        self.stock = DynamicCache(config=config)
        self.records = random.random() < 0.5
        if self.records:
            self.both("activate_past_recording")
        self.rows = random.choice([1, 2, 3])
        self.forward(random.choice([1, 5, 17, 40]))

    def both(self, method: str, *arguments: Any) -> None:
        for cache in (self.ours, self.stock):
            getattr(cache, method)(*arguments)

    def layers(self) -> list[tuple[Any, Any]]:
        return list(zip(self.ours.layers, self.stock.layers))

    def forward(self, length: int) -> None:
        tokens = [random_tokens(self.rows, length, seed=self.random.randrange(1 << 30))]
        ours = self.random.choice(["folio", "folio", "eager"])
        got, expected = (
            logits_after(self.model, name, cache, tokens)[0]
            for name, cache in ((ours, self.ours), ("eager", self.stock))
        )
        torch.testing.assert_close(got, expected, atol=2e-4, rtol=0)
        assert self.ours.get_seq_length() == self.stock.get_seq_length()
        self.past = length

    def prefill(self) -> None:
        self.forward(self.random.choice([2, 3, 7, 16, 33]))

    def decode(self) -> None:
        self.forward(1)

    def crop(self) -> None:
        if self.records or not any(self.stock.is_sliding):
            tokens = min(self.random.choice([0, 1, 2, 5]), self.stock.get_seq_length() - 1)
            self.both("crop", -min(tokens, self.past if any(self.stock.is_sliding) else tokens))
            self.past = 0

    def reorder(self) -> None:
        chosen = [self.random.randrange(self.rows) for _ in range(self.rows)]
        self.both("reorder_cache", torch.tensor(chosen))

    def repeat(self) -> None:
        if self.rows < 5:
            self.both("batch_repeat_interleave", 2)
            self.rows *= 2

    def select(self) -> None:
        count = self.random.randrange(1, self.rows + 2)
        chosen = [self.random.randrange(-self.rows, self.rows) for _ in range(count)]
        self.both("batch_select_indices", torch.tensor(chosen))
        self.rows = count

    def copied(self) -> None:
        old = self.ours
        self.ours = self.random.choice([copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])(
            old
        )
        logits_after(self.model, "folio", old, [random_tokens(self.rows, 3)])

    def read(self) -> None:
        for ours, stock in self.layers():
            rows = stock.sliding_window - 1 if stock.is_sliding else stock.keys.shape[2]
            for name in ("keys", "values"):
                got, expected = (getattr(x, name)[:, :, -rows:] for x in (ours, stock))
                torch.testing.assert_close(got, expected, atol=2e-4, rtol=0)

    def edit(self) -> None:
        if not (
            self.records and any(self.stock.is_sliding)
        ):  # they hold other rows beside the last
            for layer in self.random.choice(self.layers()):
                keys, values = layer.keys, layer.values
                keys[:1, :, -1:].mul_(2)
                values.mul_(0.75)

    def evict(self) -> None:
        if not any(self.stock.is_sliding):
            kept = range(0, self.stock.layers[0].keys.shape[2], self.random.choice([2, 3]))
            for pair in self.layers():
                for layer in pair:
                    layer.keys, layer.values = (x[:, :, kept] for x in (layer.keys, layer.values))

    def reset(self) -> None:
        self.both("reset")
        self.rows = self.random.choice([1, 2, 3])
        self.prefill()


OPERATIONS = "prefill decode crop reorder repeat select copied read edit evict reset".split()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_operations_in_any_order(kind: str, seed: int) -> None:
    pair = Pair(kind, random.Random(seed))
    for _ in range(10):
        getattr(pair, pair.random.choice(OPERATIONS))()
    pair.decode()
    pair.prefill()
    if pair.ours.pool is not None:
        pair.ours.pool.pool.check_invariants()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda cache: cache.reset(),
        lambda cache: cache.reorder_cache(torch.tensor([1, 1])),
        lambda cache: cache.crop(-12),
    ],
    ids=["reset", "reorder", "crop"],
)
def test_rows_that_somebody_holds_stay_what_they_are(kind: str, change: Any) -> None:
    """Other caches make new tensors where rows change."""
    model = build(kind)
    cache = FolioCache(model.config, page_size=4)
    cache.activate_past_recording()
    logits_after(model, "folio", cache, [random_tokens(2, 12)])
    held = [layer.keys for layer in cache.layers]
    expected = [layer.keys + 0 for layer in copy.deepcopy(cache).layers]
    change(cache)
    logits_after(model, "folio", cache, [random_tokens(2, 12, seed=4)])
    assert held and all(torch.equal(x + 0, y) for x, y in zip(held, expected, strict=True))


def test_rows_that_a_window_has_left_stay_what_they_are() -> None:
    model = build("gemma2")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(2, 12)])
    held, expected = cache.layers[0].keys, copy.deepcopy(cache).layers[0].keys + 0
    logits_after(model, "folio", cache, [random_tokens(2, 1, seed=i) for i in range(20)])
    assert torch.equal(held + 0, expected)


def test_a_crop_that_one_layer_refuses_changes_none() -> None:
    model = build("gemma2")
    caches = FolioCache(model.config, page_size=4), DynamicCache(config=model.config)
    first, second = [random_tokens(2, 20)], [random_tokens(2, 3, seed=4)]
    for cache in caches:
        logits_after(model, "eager", cache, first)
    caches[0].layers.reverse()  # the one with a window comes last
    with pytest.raises(ValueError, match="tokens_to_remove: expected at most"):
        caches[0].crop(-5)
    caches[0].layers.reverse()
    got, expected = (logits_after(model, "eager", cache, second)[0] for cache in caches)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_gradients_behind_earlier_rows_are_refused(kind: str) -> None:
    model = build(kind)
    cache = FolioCache(model.config)
    logits_after(model, "folio", cache, [random_tokens(1, 9)])
    logits = model(random_tokens(1, 2, seed=4), past_key_values=cache).logits  # without no_grad
    with pytest.raises(folio_kv.Unsupported, match="FolioCache: rows .* have no gradient"):
        logits.sum().backward()


def test_memory_follows_the_rows_that_are_left() -> None:
    model = build("llama")
    cache = FolioCache(model.config, page_size=4)
    logits_after(model, "folio", cache, [random_tokens(4, 32)])
    of_row = cache.nbytes / 4
    cache.batch_select_indices(torch.tensor([2]))
    logits_after(model, "folio", cache, [random_tokens(1, 32)])
    assert cache.nbytes <= 2.1 * of_row


@pytest.mark.parametrize("rows", [[0, 2], [-1, 0]])
def test_rows_that_are_not_there_are_refused(rows: list[int]) -> None:
    model = build("llama")
    cache = FolioCache(model.config)
    logits_after(model, "folio", cache, [random_tokens(2, 5)])
    with pytest.raises(ValueError, match="beam_idx: expected numbers of 2 rows, got"):
        cache.reorder_cache(torch.tensor(rows))


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3"])
def test_early_initialization_changes_nothing(kind: str) -> None:
    model = build(kind)
    caches = FolioCache(model.config), DynamicCache(config=model.config)
    for cache in caches:
        cache.early_initialization(2, 1, 16, torch.float32, torch.device("cpu"))
    steps = [random_tokens(2, 5), random_tokens(2, 1)]
    got, expected = (
        logits_after(model, name, cache, steps)[1]
        for cache, name in zip(caches, ("folio", "eager"))
    )
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
