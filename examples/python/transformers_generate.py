# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers on folio: a small random Llama generates with stock attention and with
folio.

    python examples/python/transformers_generate.py [--dtype float32|bfloat16]

Four ways: `generate` with a FolioCache (also quantised), with transformers' own cache, and
`generate_batch` (continuous batching) on transformers' own pages. In float32 the greedy tokens are
those of stock attention, which is checked. Needs torch and transformers; no model is downloaded.
"""

from __future__ import annotations

import argparse

import torch
from transformers import (
    AutoModelForCausalLM,
    ContinuousBatchingConfig,
    GenerationConfig,
    LlamaConfig,
)

import folio_kv.transformers as folio

NEW_TOKENS = 24


def random_llama(dtype: torch.dtype) -> torch.nn.Module:
    """Four layers of 8 query and 2 KV heads of 32; attention matters for what it says."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        initializer_range=0.06,
    )
    return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def prompts() -> tuple[torch.Tensor, torch.Tensor]:
    """Three prompts, the shorter ones padded on the left, and their mask."""
    tokens = torch.randint(3, 1000, (3, 40), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(tokens)
    for row, pads in enumerate((0, 7, 25)):
        mask[row, :pads] = 0
    return tokens * mask, mask


def generate(model: torch.nn.Module, implementation: str, cache: object = None) -> torch.Tensor:
    """The new tokens of each prompt, by `generate`."""
    tokens, mask = prompts()
    model.set_attn_implementation(implementation)
    config = GenerationConfig(
        max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    found = model.generate(
        tokens, attention_mask=mask, generation_config=config, past_key_values=cache
    )
    return found[:, tokens.shape[1] :]


def generate_batch(model: torch.nn.Module, implementation: str) -> torch.Tensor:
    """The same by `generate_batch`: prompts come in chunks, beside those that decode already."""
    tokens, mask = prompts()
    requests = [row[seen.bool()].tolist() for row, seen in zip(tokens, mask)]
    model.set_attn_implementation(implementation)
    outputs = model.generate_batch(
        inputs=requests,
        generation_config=GenerationConfig(
            max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, eos_token_id=-1
        ),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=16, num_blocks=64, max_batch_tokens=32
        ),
        progress_bar=False,
    )
    by_prompt = {tuple(output.prompt_ids): output.generated_tokens for output in outputs.values()}
    return torch.tensor([by_prompt[tuple(request)] for request in requests])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    dtype = getattr(torch, parser.parse_args().dtype)

    folio.register()
    model = random_llama(dtype)
    expected = generate(model, "sdpa")
    found = {
        "generate, FolioCache": generate(model, "folio_flash", folio.FolioCache(model.config)),
        "generate, transformers' cache": generate(model, "folio_flash"),
        "generate_batch": generate_batch(model, "folio_flash"),
        "generate, int8 FolioCache": generate(
            model, "folio_flash", folio.FolioCache(model.config, dtype="int8")
        ),
    }
    print(folio.report(model))
    print(f"{'stock':32}{expected[0, :8].tolist()} ...")
    for name, tokens in found.items():
        share = float((tokens == expected).float().mean())
        print(f"{name:32}{tokens[0, :8].tolist()} ... {100 * share:.0f} % equal")
        if dtype == torch.float32 and "int8" not in name:
            assert torch.equal(tokens, expected), name


if __name__ == "__main__":
    main()
