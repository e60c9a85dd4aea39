# SPDX-License-Identifier: Apache-2.0
"""Models, tokens and forwards that the tests of FolioCache share."""

from __future__ import annotations

from typing import Any

import torch

import folio_kv.transformers as folio

KINDS = ("llama", "gemma2", "deepseek_v3", "gemma3n_text")


def logits_after(
    model: Any, implementation: str, cache: Any, steps: list[torch.Tensor]
) -> list[torch.Tensor]:
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return [model(input_ids=tokens, past_key_values=cache).logits for tokens in steps]


def random_tokens(rows: int, length: int, seed: int = 3) -> torch.Tensor:
    return torch.randint(3, 90, (rows, length), generator=torch.Generator().manual_seed(seed))


def served(model: Any) -> bool:
    return all(layer.served_by == "folio" for layer in folio.report(model).layers)
