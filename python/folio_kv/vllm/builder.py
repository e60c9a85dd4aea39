# SPDX-License-Identifier: Apache-2.0
"""A step of the engine for folio: one `Step` per group of layers, over vLLM's own block table.

vLLM makes one builder for the layers that share block tables and calls it once per step. The `Step`
makes a plan when the first layer of a kind asks, so all layers of a kind share it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backend import AttentionMetadataBuilder
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionMetadata,
    CPUAttentionMetadataBuilder,
)

import folio_kv
from folio_kv.vllm.report import announce_once


@dataclass
class FolioMetadata(CPUAttentionMetadata):
    """vLLM's description of a step for a group of layers, and folio's `step`, which borrows the
    block table of it.
    """

    step: folio_kv.Step | None = None


class FolioBuilder(CPUAttentionMetadataBuilder):
    """Builds the description of a step; vLLM's part of it only where a layer of the group is
    vLLM's.
    """

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        layers = get_layers_from_vllm_config(vllm_config, Attention, layer_names)
        refusals = [layer.impl.refusal for layer in layers.values()]
        self._by_folio = any(refusal is None for refusal in refusals)
        self._by_vllm = any(refusal is not None for refusal in refusals)
        if self._by_vllm:
            super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        else:  # vLLM's builder asks for its own kernels, which are not needed
            AttentionMetadataBuilder.__init__(self, kv_cache_spec, layer_names, vllm_config, device)
        # vLLM has set torch's number of threads by now and forbids to change it; both use the same
        # OpenMP runtime.
        folio_kv.set_num_threads(torch.get_num_threads())

    def build(
        self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
    ) -> FolioMetadata:
        """The step's description. Errors: NotImplementedError for a causal flag per request in a
        group that folio serves.
        """
        announce_once(self.vllm_config)
        common = common_attn_metadata
        if not self._by_folio:
            stock = super().build(common_prefix_len, common, fast_build)
            return FolioMetadata(**{f.name: getattr(stock, f.name) for f in fields(stock)})
        if not isinstance(common.causal, bool):
            raise NotImplementedError(
                "folio: causal: expected one flag for the step, got one per request; "
                "FOLIO_VLLM=0 runs this model without folio"
            )
        step = folio_kv.Step(common.query_start_loc, common.seq_lens, common.block_table_tensor)
        if self._by_vllm:
            stock = super().build(common_prefix_len, common, fast_build)
            return FolioMetadata(
                **{f.name: getattr(stock, f.name) for f in fields(stock)}, step=step
            )
        return FolioMetadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            scheduler_metadata=None,
            causal=common.causal,
            step=step,
        )
