# SPDX-License-Identifier: Apache-2.0
"""The model of the engines' rows: random weights, the sizes of a small Llama 3 with 8 layers."""

from __future__ import annotations

import json
from pathlib import Path

LAYERS, HIDDEN, VOCABULARY = 8, 2048, 32000


def llama(head_size: int, positions: int) -> dict[str, object]:
    """The fields of a config.json."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": 4 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": head_size,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "dtype": "bfloat16",
    }


def write(folder: Path, head_size: int, positions: int) -> None:
    """A folder that an engine can load with dummy weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(llama(head_size, positions)))


def make(head_size: int, positions: int):
    """The model in transformers, bf16, in evaluation mode."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    fields = llama(head_size, positions)
    torch.manual_seed(0)
    config = LlamaConfig(**{name: fields[name] for name in fields if name != "architectures"})
    torch.set_default_dtype(torch.bfloat16)
    try:
        return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def prompts(batch: int, length: int, seed: int = 0) -> list[list[int]]:
    """Random tokens; a prompt's beginning is its own, so that no prefix is shared."""
    import random

    draw = random.Random(seed)
    return [[draw.randrange(2, VOCABULARY) for _ in range(length)] for _ in range(batch)]
