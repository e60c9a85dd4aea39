# SPDX-License-Identifier: Apache-2.0
"""Sparse attention by an indexer: keys in pages, the best of them in one pass, attention over their
slots; beside transformers' own cache and attention.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from architectures import configuration
from cache_cases import logits_after, random_tokens, served
from transformers import AutoModelForCausalLM, DynamicCache

from folio_kv.transformers import FolioCache
from folio_kv.transformers.indexer import KeyLists, Scores

KINDS = ("deepseek_v32", "glm_moe_dsa", "hy_v4")
WITH_WINDOWS = ("dots3_note_text",)


@pytest.fixture
def scores_made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of what was computed of all keys, instead of one pass."""
    made: list[tuple[int, ...]] = []
    original = Scores.make_dense

    def make_dense(self: Scores) -> torch.Tensor:
        made.append(tuple(self.shape))
        return original(self)

    monkeypatch.setattr(Scores, "make_dense", make_dense)
    return made


def sparse(kind: str, topk: int = 16) -> Any:
    """With so many heads that hardly a key has a score of 0: of equal ones torch takes any."""
    config = configuration(kind)
    config.index_n_heads, config.index_topk = 24, topk
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def expected(model: Any, tokens: list[torch.Tensor]) -> list[torch.Tensor]:
    return logits_after(model, "eager", DynamicCache(config=model.config), tokens)


@pytest.mark.parametrize("kind", KINDS + WITH_WINDOWS)
def test_keys_are_chosen_in_one_pass(kind: str, scores_made: list) -> None:
    model = sparse(kind)
    tokens = [random_tokens(2, n, seed=n) for n in (40, 1, 1, 5, 70, 1)]
    cache = FolioCache(model.config, page_size=4)
    for ours, theirs in zip(logits_after(model, "folio", cache, tokens), expected(model, tokens)):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0)
    assert served(model)
    assert scores_made == []


@pytest.mark.parametrize("kind", KINDS + WITH_WINDOWS)
def test_padded_rows_choose_among_what_they_see(kind: str, scores_made: list) -> None:
    model = sparse(kind)
    prompt, more = random_tokens(3, 30), random_tokens(3, 1, seed=8)
    padding = torch.ones(3, 31, dtype=torch.long)
    padding[0, :11] = padding[2, :25] = 0
    found = []
    for cache, name in ((FolioCache(model.config), "folio"), (DynamicCache(), "eager")):
        if name == "eager":
            cache = DynamicCache(config=model.config)
        model.set_attn_implementation(name)
        with torch.no_grad():
            for ids in (prompt, more):
                mask = padding[:, : cache.get_seq_length() + ids.shape[1]]
                out = model(input_ids=ids, attention_mask=mask, past_key_values=cache).logits
        found.append(out[:, -1])
    torch.testing.assert_close(*found, atol=2e-4, rtol=0)
    assert scores_made == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_indexer_of_fewer_keys_than_it_may_choose_sees_all(kind: str) -> None:
    model = sparse(kind, topk=4096)
    tokens = [random_tokens(1, n, seed=n) for n in (20, 1, 3)]
    cache = FolioCache(model.config)
    for ours, theirs in zip(logits_after(model, "folio", cache, tokens), expected(model, tokens)):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_stock_attention_takes_the_chosen_keys(kind: str) -> None:
    """Eager attention makes a mask of them: where a query sees fewer, others, which are hidden."""
    model = sparse(kind)
    tokens = [random_tokens(2, n, seed=n) for n in (9, 30, 1)]
    cache = FolioCache(model.config, page_size=4)
    for ours, theirs in zip(logits_after(model, "eager", cache, tokens), expected(model, tokens)):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_index_keys_go_where_the_rows_go(kind: str) -> None:
    """Forks share pages, cut ones are copied; crops, copies and a reset take both along."""
    model = sparse(kind)
    ours, theirs = FolioCache(model.config, page_size=4), DynamicCache(config=model.config)

    def both(length: int, rows: int, seed: int) -> None:
        tokens = [random_tokens(rows, length, seed=seed)]
        got, expected = (
            logits_after(model, name, cache, tokens)[0]
            for name, cache in (("folio", ours), ("eager", theirs))
        )
        torch.testing.assert_close(got, expected, atol=2e-4, rtol=0)

    both(37, 1, 3)
    for cache in (ours, theirs):
        cache.batch_repeat_interleave(3)
    both(1, 3, 4)
    both(6, 3, 5)
    for cache in (ours, theirs):
        cache.crop(-5)
    both(2, 3, 6)
    for cache in (ours, theirs):
        cache.reorder_cache(torch.tensor([2, 2, 0]))
    both(1, 3, 7)
    ours, theirs = copy.deepcopy(ours), copy.deepcopy(theirs)
    both(3, 3, 8)


def test_lists_are_ascending_and_say_where_there_is_none() -> None:
    model = sparse("deepseek_v32")
    cache, seen = FolioCache(model.config), []
    kind = type(next(m for m in model.modules() if hasattr(m, "index_topk")))
    original = kind.forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        seen.append(original(self, *args, **kwargs))
        return seen[-1]

    kind.forward = forward
    try:
        logits_after(model, "folio", cache, [random_tokens(2, 24)])
    finally:
        kind.forward = original
    assert seen
    for lists in seen:
        assert isinstance(lists, KeyLists) and lists.dtype == torch.int32
        keys = lists.keys
        assert keys.shape == (2, 24, 16)
        for query in range(24):
            listed = keys[0, query][keys[0, query] >= 0].tolist()
            assert listed == sorted(set(listed))
            assert len(listed) == min(16, query + 1) and max(listed) <= query
        dense = lists.long()
        assert all(len(set(row.tolist())) == 16 for row in dense.flatten(0, 1))
