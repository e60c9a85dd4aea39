# SPDX-License-Identifier: Apache-2.0
"""FolioCache(sparse_pages=...) beside attention that chooses pages of dense tensors by the same
words, in torch.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import transformers
from architectures import build
from cache_cases import logits_after, random_tokens, served
from transformers import (
    DynamicCache,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    masking_utils,
)

import folio_kv
from folio_kv.transformers import FolioCache, SparsePages

PAGE, TOKENS = 4, 16
SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "initializer_range": 0.5,  # large enough for attention to be uneven
}


def made(kind: str) -> Any:
    torch.manual_seed(1)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=2)).eval()
    kinds = ["sliding_attention", "full_attention"]
    more = {"sliding_window": 24, "layer_types": kinds, "num_hidden_layers": 2}
    return Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, **more, query_pre_attn_scalar=4)).eval()


class Naive:
    """Attention over the pages that SparsePages describes, of dense tensors, and what it left out."""

    name = "naive_sparse"

    def __init__(self, options: SparsePages):
        self.options = options
        self.read = self.seen = 0
        self.shares: list[torch.Tensor] = []
        transformers.AttentionInterface.register(self.name, self)
        transformers.AttentionMaskInterface.register(self.name, masking_utils.eager_mask)

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **more: Any
    ) -> Any:
        group = query.shape[1] // key.shape[1]
        k, v = (x.repeat_interleave(group, 1) for x in (key, value))
        logits = query @ k.transpose(2, 3) * scaling
        length, queries = key.shape[2], query.shape[2]
        visible = torch.ones(length, dtype=torch.bool).expand(*logits.shape[:1], 1, queries, -1)
        if mask is not None:
            visible = mask[..., :length] == 0
        is_sparse = queries == 1 or self.options.every_query
        dense = logits.masked_fill(~visible, -torch.inf)
        kept = visible.expand_as(logits)
        if not getattr(module, "is_sliding", False) and is_sparse:
            if length > self.options.tokens:
                kept = self.choose(query * scaling, key, visible) & visible
            self.read += int(kept[:, 0].sum())
            self.seen += int(visible.sum())
            left = dense.softmax(-1).masked_fill(kept, 0).sum(-1).nan_to_num()
            self.shares.append(left.flatten())
        weights = logits.masked_fill(~kept, -torch.inf).softmax(-1).nan_to_num()
        return (weights @ v).transpose(1, 2).contiguous(), None

    def choose(self, q: torch.Tensor, key: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        """bool [batch, heads, queries, keys]"""
        batch, kv_heads, length, dim = key.shape
        parts = key.split(PAGE, 2)
        low = torch.stack([x.amin(2) for x in parts], 2).repeat_interleave(
            q.shape[1] // kv_heads, 1
        )
        high = torch.stack([x.amax(2) for x in parts], 2).repeat_interleave(
            q.shape[1] // kv_heads, 1
        )
        score = torch.zeros(batch, q.shape[1], q.shape[2], len(parts))
        for page in range(len(parts)):
            ends = (q * x[:, :, page, None] for x in (low, high))
            score[..., page] = torch.maximum(*ends).sum(-1)
        lists = kv_heads if self.options.per_kv_head else 1
        score = score.unflatten(1, (lists, -1))
        score = score.amax(2) if self.options.score == "greatest" else score.sum(2)
        chosen = torch.zeros(batch, lists, q.shape[2], length, dtype=torch.bool)
        for b in range(batch):
            for t in range(q.shape[2]):
                pages = sorted({int(i) // PAGE for i in visible[b, 0, t].nonzero().flatten()})
                for i in range(lists):
                    for page in self.best(score[b, i, t], pages):
                        chosen[b, i, t, page * PAGE : (page + 1) * PAGE] = True
        return chosen.repeat_interleave(q.shape[1] // lists, 1)

    def best(self, score: torch.Tensor, pages: list[int]) -> list[int]:
        first, last = self.options.first_pages, self.options.last_pages
        count = self.options.tokens // PAGE
        always = [*pages[:first], *pages[max(first, len(pages) - last) :]]
        others = sorted((x for x in pages if x not in always), key=lambda x: (-float(score[x]), x))
        return pages if len(pages) <= count else always + others[: count - len(always)]


def run(model: Any, name: str, cache: Any, steps: list[Any], padding: int = 0) -> torch.Tensor:
    """Logits [rows, tokens, vocabulary] of tokens, and of none where a step changes the cache."""
    model.set_attn_implementation(name)
    found, length = [], 0
    for step in steps:
        if not isinstance(step, torch.Tensor):
            cache = step(cache)
            length = cache.get_seq_length()
            continue
        length += step.shape[1]
        mask = torch.ones(step.shape[0], length, dtype=torch.long)
        mask[0, :padding] = 0
        with torch.no_grad():
            logits = model(input_ids=step, past_key_values=cache, attention_mask=mask).logits
        logits[0, : max(0, padding - (length - step.shape[1]))] = (
            0  # what a padded token sees is free
        )
        found.append(logits)
    return torch.cat(found, 1)


def decoded(batch: int, count: int = 12) -> list[Any]:
    return [random_tokens(batch, 1, seed=i + 10) for i in range(count)]


OPTIONS = [
    {},
    {"per_kv_head": True},
    {"score": "sum", "first_pages": 0, "last_pages": 2},
    {"every_query": True},
]


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("padding", [0, 7])
def test_queries_attend_to_the_pages_of_the_best_bounds(
    kind: str, options: dict[str, Any], padding: int
) -> None:
    """Prompts in pieces, then tokens, of rows of which one may be padded; over many pages."""
    model, choice = made(kind), SparsePages(TOKENS, **options, watched=True)
    steps = [random_tokens(3, 45), random_tokens(3, 10), *decoded(3)]
    naive = Naive(choice)
    expected = run(model, naive.name, DynamicCache(config=model.config), steps, padding)
    cache = FolioCache(model.config, page_size=PAGE, sparse_pages=choice)
    got = run(model, "folio", cache, steps, padding)
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=0)
    assert served(model)
    dense = run(model, "folio", FolioCache(model.config, page_size=PAGE), steps, padding)
    assert (got - dense).abs().max() > 0.05  # something was left out
    left_out, shares = cache.left_out(), torch.cat(naive.shares)
    assert left_out.queries * 4 == shares.numel()
    if not choice.per_kv_head:  # keys of the naive one are the first head's
        assert left_out.keys == pytest.approx(naive.read / naive.seen)
    assert 0 < shares.mean() <= left_out.share < 1
    assert shares.max() <= left_out.most + 1e-5 and left_out.most <= 1


def forked(cache: Any) -> Any:
    cache.reorder_cache(torch.tensor([1, 1, 0]))
    return cache


def cropped(cache: Any) -> Any:
    cache.crop(-9)
    return cache


def copied(cache: Any) -> Any:
    return copy.deepcopy(cache)


def pickled(cache: Any) -> Any:
    return pickle.loads(pickle.dumps(cache)) if isinstance(cache, FolioCache) else cache


@pytest.mark.parametrize("change", [forked, cropped, copied, pickled])
@pytest.mark.parametrize("capacity", [None, 400])
def test_summaries_follow_forks_cuts_and_copies(change: Any, capacity: int | None) -> None:
    model, choice = made("llama"), SparsePages(TOKENS)
    steps = [random_tokens(3, 58), *decoded(3, 5), change, *decoded(3, 9), change, *decoded(3, 3)]
    naive = Naive(choice)
    expected = run(model, naive.name, DynamicCache(config=model.config), steps)
    cache = FolioCache(model.config, page_size=PAGE, sparse_pages=choice, capacity=capacity)
    got = run(model, "folio", cache, steps)
    if change is cropped:  # bounds of a page that was cut are wider than they need be
        dense = run(model, "folio", FolioCache(model.config), steps)
        assert (got - expected).abs().mean() < (dense - expected).abs().mean()
    else:
        torch.testing.assert_close(got, expected, atol=1e-3, rtol=0)


def test_short_contexts_and_prompts_are_read_whole() -> None:
    model = made("llama")
    steps = [random_tokens(2, 30), *decoded(2, 4)]
    dense = run(model, "folio", FolioCache(model.config, page_size=PAGE), steps)
    for choice in (SparsePages(TOKENS, dense_below=40), 36):
        cache = FolioCache(model.config, page_size=PAGE, sparse_pages=choice)
        assert torch.equal(run(model, "folio", cache, steps), dense)
    cache = FolioCache(model.config, page_size=PAGE, sparse_pages=TOKENS)
    got = run(model, "folio", cache, steps)
    assert torch.equal(got[:, :30], dense[:, :30]) and not torch.equal(got[:, 30:], dense[:, 30:])


@pytest.mark.parametrize("storage", [{"dtype": "int8", "rotated": True}, {"dtype": "bf16"}])
def test_keys_of_other_types_are_bounded_as_they_are_stored(storage: dict[str, Any]) -> None:
    """The share of the weights that was left out, against attention over all of the same rows."""
    model, steps = made("llama"), [random_tokens(2, 60), *decoded(2, 6)]
    choice = SparsePages(TOKENS, watched=True)
    cache = FolioCache(model.config, page_size=PAGE, sparse_pages=choice, **storage)
    got = run(model, "folio", cache, steps)
    dense = run(model, "folio", FolioCache(model.config, page_size=PAGE, **storage), steps)
    assert torch.equal(got[:, :60], dense[:, :60])
    naive = Naive(choice)
    run(model, naive.name, DynamicCache(config=model.config), steps)
    assert torch.cat(naive.shares).mean() < cache.left_out().share < 1


def test_generation_runs_on_chosen_pages() -> None:
    model = made("gemma3")
    model.set_attn_implementation("folio_flash")
    cache = FolioCache(model.config, page_size=PAGE, sparse_pages=SparsePages(TOKENS, watched=True))
    out = model.generate(random_tokens(2, 40), past_key_values=cache, max_new_tokens=8,
                         num_beams=2, do_sample=False)  # fmt: skip
    assert out.shape[1] <= 48 and 0 < cache.left_out().keys < 1
    cache.reset()
    assert cache.left_out().queries == 0


@pytest.mark.parametrize(
    "options, said",
    [
        ({"sparse_pages": 0}, "sparse_pages: tokens: expected at least 1, got 0"),
        ({"sparse_pages": 4}, "sparse_pages: tokens: expected 2 to 4096 pages of 4 tokens, got 4"),
        ({"sparse_pages": 10**6}, "sparse_pages: tokens: expected 2 to 4096 pages of 4 tokens"),
        ({"sparse_pages": "512"}, "sparse_pages: expected SparsePages or a number of tokens"),
        ({"sparse_pages": True}, "sparse_pages: expected SparsePages or a number of tokens"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(folio_kv.Error, match=said):
        FolioCache(made("llama").config, page_size=PAGE, **options)


def test_choices_that_cannot_be_are_refused_by_name() -> None:
    for options, said in (
        ({"first_pages": -1}, "first_pages: expected at least 0, got -1"),
        ({"last_pages": 0}, "last_pages: expected at least 1, got 0"),
        ({"dense_below": -1}, "dense_below: expected at least 0"),
        ({"score": "mean"}, "score: expected 'greatest' or 'sum', got 'mean'"),
    ):
        with pytest.raises(folio_kv.Error, match=f"sparse_pages: {said}"):
            SparsePages(64, **options)
    with pytest.raises(folio_kv.Error, match="left_out: expected a cache with SparsePages"):
        FolioCache(made("llama").config, sparse_pages=64).left_out()
    model = build("deepseek_v3")
    with pytest.raises(folio_kv.Unsupported, match=r"sparse_pages: latent rows \(MLA\)"):
        cache = FolioCache(model.config, sparse_pages=64)
        logits_after(model, "folio", cache, [random_tokens(1, 5)])
    capped = build("gemma2")
    assert capped.config.attn_logit_softcapping
    cache = FolioCache(capped.config, page_size=4, sparse_pages=SparsePages(8, watched=True))
    with pytest.raises(folio_kv.Unsupported, match="sparse_pages: watched: .* without a softcap"):
        logits_after(capped, "folio", cache, [random_tokens(1, 20), random_tokens(1, 1)])
