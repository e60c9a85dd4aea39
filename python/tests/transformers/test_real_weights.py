# SPDX-License-Identifier: Apache-2.0
"""Gemma 3 270M with its real weights, in float32: greedy text, perplexity by type of cache, memory.
Each test prints what docs/real_weights.md shows (-s).
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import pytest
import torch
from cache_cases import served
from transformers import DynamicCache, Gemma3ForCausalLM, GenerationConfig

import folio_kv
from folio_kv.transformers import FolioCache

pytestmark = pytest.mark.full
CHUNK, SCORED_EACH = 512, 4


@pytest.fixture(scope="module")
def threads() -> Any:
    """A model of this size is faster with all that there are."""
    before = torch.get_num_threads(), folio_kv.get_num_threads()
    torch.set_num_threads(torch.multiprocessing.cpu_count())
    folio_kv.set_num_threads(0)
    yield
    torch.set_num_threads(before[0])
    folio_kv.set_num_threads(before[1])


@pytest.fixture(scope="module")
def model(real_weights: pathlib.Path, threads: Any) -> Any:
    loaded = Gemma3ForCausalLM.from_pretrained(real_weights / "hf", dtype=torch.float32)
    return loaded.eval()


@pytest.fixture(scope="module")
def texts(real_weights: pathlib.Path) -> dict[str, list[int]]:
    return json.loads((real_weights / "tokens.json").read_text())


def greedy(model: Any, implementation: str, cache: Any, prompts: list[list[int]]) -> Any:
    """Tokens behind prompts that are one batch, padded on the left, and the first logits."""
    longest = max(len(prompt) for prompt in prompts)
    rows = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    model.set_attn_implementation(implementation)
    config = GenerationConfig(
        max_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=None,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    done = model.generate(
        torch.tensor(rows), attention_mask=torch.tensor(mask), generation_config=config,
        past_key_values=cache,
    )  # fmt: skip
    return done.sequences[:, longest:], done.logits[0]


def prompts_of(texts: dict[str, list[int]]) -> list[list[int]]:
    documentation = texts["documentation"]
    short = [tokens for name, tokens in texts.items() if name not in ("documentation", "source")]
    return short + [
        documentation[:1] + documentation[at : at + 30] for at in (1000, 2000, 3000, 4000)
    ]


def test_greedy_text_is_sdpas(model: Any, texts: dict[str, list[int]]) -> None:
    prompts = prompts_of(texts)
    expected, logits = greedy(model, "sdpa", DynamicCache(config=model.config), prompts)
    for cache in (FolioCache(model.config), DynamicCache(config=model.config)):
        tokens, first = greedy(model, "folio_flash", cache, prompts)
        off = (first - logits).abs()
        equal = int((tokens == expected).all(1).sum())
        print(
            f"\n{type(cache).__name__}: {equal} of {len(prompts)} equal, first logits {off.mean():.1e} ({off.max():.1e})"
        )
        assert equal == len(prompts) and float(off.max()) < 1e-2
        assert served(model)


@dataclasses.dataclass
class Scores:
    """Of each scored token: its negative log-likelihood, and the log-probabilities of its row."""

    nll: torch.Tensor
    rows: torch.Tensor

    def beside(self, other: Scores) -> tuple[float, float, float, float]:
        """Perplexity, mean difference and its standard error, KL of the rows of `other`."""
        difference = self.nll - other.nll
        kl = (other.rows.exp() * (other.rows - self.rows)).sum(-1).mean()
        error = difference.std() / len(difference) ** 0.5
        return float(self.nll.mean().exp()), float(difference.mean()), float(error), float(kl)


def scores(model: Any, implementation: str, cache: Any, tokens: list[int]) -> Scores:
    """Pieces of CHUNK tokens; each fourth position is scored, its row kept of each sixteenth."""
    model.set_attn_implementation(implementation)
    ids, found, rows = torch.tensor(tokens)[None], [], []
    with torch.inference_mode():
        for at in range(0, len(tokens) - 1, CHUNK):
            end = min(at + CHUNK, len(tokens) - 1)
            own = torch.arange(at, end)
            kept = own[own % SCORED_EACH == 0] - at
            logits = model(ids[:, at:end], past_key_values=cache, logits_to_keep=kept).logits[0]
            log = logits.double().log_softmax(-1)
            found.append(-log.gather(1, ids[0, at + kept + 1][:, None])[:, 0])
            rows.append(log[::4].float())
    return Scores(torch.cat(found), torch.cat(rows))


CACHES: dict[str, dict[str, Any]] = {
    "f32": {},
    "bf16": {"dtype": "bf16"},
    "int8": {"dtype": "int8"},
    "int8_per_row": {"dtype": "int8_per_row"},
    "fp8": {"dtype": "fp8"},
    "q8_0": {"dtype": "q8_0"},
    "K q8_0, V q4_0": {"dtype": "q8_0", "v_dtype": "q4_0"},
    "K q4_0, V q8_0": {"dtype": "q4_0", "v_dtype": "q8_0"},
    "q4_0": {"dtype": "q4_0"},
    "iq4_nl": {"dtype": "iq4_nl"},
}


def test_perplexity_by_type_of_cache(model: Any, texts: dict[str, list[int]]) -> None:
    tokens = texts["documentation"][:2049]
    exact = scores(model, "sdpa", DynamicCache(config=model.config), tokens)
    print(f"\nsdpa: perplexity {exact.nll.mean().exp():.4f}, {len(exact.nll)} tokens scored")
    found = {}
    for name, options in CACHES.items():
        cache = FolioCache(model.config, **options)
        found[name] = scores(model, "folio_flash", cache, tokens).beside(exact)
        perplexity, change, error, kl = found[name]
        print(
            f"| {name} | {perplexity:.4f} | {change:+.5f} ± {error:.5f} | {kl:.1e} | {cache.nbytes >> 10} |"
        )
        assert served(model)
    kl = {name: row[3] for name, row in found.items()}
    assert abs(found["f32"][1]) < 1e-5 and kl["f32"] < 1e-7
    assert kl["int8"] < 0.5 * kl["int8_per_row"] and kl["int8"] < 2 * kl["q8_0"]
    assert kl["K q8_0, V q4_0"] < 0.25 * kl["K q4_0, V q8_0"]


@pytest.mark.parametrize("length", [4096, 16384])
@pytest.mark.parametrize("dtype", [None, "int8"])
def test_memory_is_stocks(model: Any, texts: dict[str, list[int]], length: int, dtype: Any) -> None:
    """Behind a prompt in one piece, and behind one more token."""
    text = texts["documentation"] + texts["source"][1:]
    tokens = torch.tensor((text * 2)[: length + 1])[None]
    model.set_attn_implementation("folio_flash")
    cache = FolioCache(model.config, dtype=dtype)
    stock = 0
    for piece in tokens.split([length, 1], 1):
        with torch.inference_mode():
            model(piece, past_key_values=cache, logits_to_keep=1)
        windows = min(cache.get_seq_length(), 511)
        rows = sum(
            windows if kind == "sliding_attention" else cache.get_seq_length()
            for kind in model.config.layer_types
        )
        stock = rows * 2 * 256 * 4  # what DynamicCache holds: test_cache_storage.py compares them
        print(
            f"\n{length} {dtype}: FolioCache {cache.nbytes / 2**20:.1f} MiB, DynamicCache {stock / 2**20:.1f}"
        )
        assert cache.nbytes <= 1.1 * stock * (0.28 if dtype else 1)
