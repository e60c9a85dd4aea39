# SPDX-License-Identifier: Apache-2.0
"""Calls of the attention interface that tests share."""

from __future__ import annotations

import torch


class Layer(torch.nn.Module):
    """What the interface needs of a module."""

    def __init__(self, group: int = 1, is_causal: bool = True):
        super().__init__()
        self.num_key_value_groups, self.is_causal, self.layer_idx = group, is_causal, 0


def operands(
    batch: int, queries: int, keys: int, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    sizes = [(batch, 4, queries, 16), (batch, 2, keys, 16), (batch, 2, keys, 16)]
    return [torch.randn(size, generator=g).to(dtype) for size in sizes]
