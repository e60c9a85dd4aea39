# SPDX-License-Identifier: Apache-2.0
"""The layers of a FolioCache by transformers' layer types: attention in pages, other states as
transformers keeps them.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import cache_utils

from .indexer import IndexKeys
from .paged_layer import FolioLayer, Owner
from .window_layer import FolioWindowLayer

__all__ = ["LAYERS"]


class FolioIndexedLayer(FolioLayer, cache_utils.DynamicIndexedLayer):
    """Pages, and beside them those of an indexer's keys (sparse attention)."""

    def __init__(self, owner: Owner, **kwargs: Any):
        cache_utils.DynamicIndexedLayer.__init__(self)
        FolioLayer.__init__(self, owner, **kwargs)
        self.index_keys = IndexKeys(owner)

    def update_indexer(self, indexer_key_states: torch.Tensor) -> torch.Tensor:
        """Takes new keys [batch, new, dim]; returns all keys, described."""
        self.is_indexer_initialized = True
        return self.index_keys.extend(indexer_key_states)

    def reset(self) -> None:
        self.indexer_position_ids = None
        self.is_indexer_initialized = False
        self.index_keys.reset()
        FolioLayer.reset(self)

    def crop(self, tokens_to_remove: int) -> None:
        FolioLayer.crop(self, tokens_to_remove)
        if tokens_to_remove and self.indexer_position_ids is not None:
            self.indexer_position_ids = self.indexer_position_ids[..., :tokens_to_remove]
        if self.is_indexer_initialized:
            self.index_keys.crop(tokens_to_remove)

    def _select(self, rows: torch.Tensor) -> None:
        if self.indexer_position_ids is not None:
            self.indexer_position_ids = self.indexer_position_ids[:, rows]

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self._select(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.indexer_position_ids is not None:
            rows = torch.arange(self.indexer_position_ids.shape[1])
            self._select(rows.repeat_interleave(repeats))


class FolioHybridLayer(cache_utils.LinearAttentionAndFullAttentionLayer, FolioLayer):
    """Pages beside convolution and recurrent states."""

    is_compileable = False
    attention: type[FolioLayer] = FolioLayer  # the part in pages

    def __init__(self, owner: Owner, number_of_states: int = 1, **kwargs: Any):
        self.attention.__init__(self, owner, **kwargs)
        cache_utils.LinearAttentionLayer.__init__(self, number_of_states=number_of_states)

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        kind = self.attention if args else cache_utils.LinearAttentionLayer
        kind.lazy_initialization(self, *args, **kwargs)

    def get_max_length(self) -> int:
        return -1

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        cache_utils.LinearAttentionLayer.reorder_cache(self, beam_idx)

    def offload(self) -> None: ...
    def prefetch(self) -> None: ...

    def reset(self) -> None:
        cache_utils.LinearAttentionLayer.reset(self)
        self.attention.reset(self)

    def crop(self, tokens_to_remove: int) -> None:
        cache_utils.LinearAttentionLayer.crop(self, tokens_to_remove)
        self.attention.crop(self, tokens_to_remove)


class FolioHybridWindowLayer(FolioHybridLayer, FolioWindowLayer):
    """The rows of a window beside convolution and recurrent states."""

    attention = FolioWindowLayer

    def activate_past_recording(self) -> None:
        cache_utils.LinearAttentionLayer.activate_past_recording(self)
        FolioWindowLayer.activate_past_recording(self)


LAYERS: dict[str, type[FolioLayer]] = {
    "full_attention": FolioLayer,
    "sliding_attention": FolioWindowLayer,
    "chunked_attention": FolioWindowLayer,
    "indexed_attention": FolioIndexedLayer,
    "hybrid": FolioHybridLayer,
    "hybrid_sliding": FolioHybridWindowLayer,
}
