# SPDX-License-Identifier: Apache-2.0
"""Latent attention (MLA): the back end that stands in for CPU_MLA.

Decoding attends over the latent rows with folio. Prompts and the writing of the cache remain
vLLM's: they attend without absorbed weights and over the rows of the step only. AMX_MLA, which vLLM
chooses on machines with AMX, packs weights of its own and stays vLLM's.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.attention.mla_attention import (
    MLACommonMetadata,
    MLACommonMetadataBuilder,
)
from vllm.v1.attention.backends.mla.cpu_mla import CPUMLABackend, CPUMLAImpl

import folio_kv
from folio_kv.vllm.cache_types import check_cache_dtype
from folio_kv.vllm.kinds import kind_of, name_of, reproducible
from folio_kv.vllm.report import announce_once


class FolioMLABackend(CPUMLABackend):
    """vLLM's CPU_MLA with folio's decoding, for latents of any size."""

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []  # any: the layer asks folio

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @staticmethod
    def get_impl_cls() -> type[FolioMLAImpl]:
        return FolioMLAImpl

    @staticmethod
    def get_builder_cls() -> type[FolioMLABuilder]:
        return FolioMLABuilder


class FolioMLABuilder(MLACommonMetadataBuilder[MLACommonMetadata]):
    """vLLM's description of a step, and in its `decode` folio's `step` of the decoding requests."""

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        folio_kv.set_num_threads(torch.get_num_threads())

    def build(
        self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
    ) -> MLACommonMetadata:
        announce_once(self.vllm_config)
        metadata = super().build(common_prefix_len, common_attn_metadata, fast_build)
        decode, requests = metadata.decode, metadata.num_decodes
        if decode is not None:  # vLLM puts these requests in front
            decode.step = folio_kv.Step(
                metadata.query_start_loc[: requests + 1],
                decode.seq_lens[:requests],
                decode.block_table[:requests],
            )
        return metadata


class FolioMLAImpl(CPUMLAImpl):
    """vLLM's implementation class of one latent layer.

    Attributes: `refusal`: None where folio decodes, else the reason why vLLM's own class does;
    `part`: what folio does in this layer.
    """

    part = "decoding"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_cache_dtype(self.kv_cache_dtype, is_latent=True)
        self.kind = kind_of(
            self.num_heads, self.scale, v_in_key=self.kv_lora_rank, invariance=reproducible()
        )
        self._cache: torch.Tensor | None = None
        self._pages: folio_kv.Pages | None = None
        self.refusal = self._why_not()

    def _why_not(self) -> str | None:
        if self.kv_cache_dtype != "auto":
            return f"the cache's type {self.kv_cache_dtype}"
        dtype = torch.get_default_dtype()
        slots = get_current_vllm_config().cache_config.block_size
        empty = torch.empty((1, slots, self.head_size), dtype=dtype)
        return folio_kv.why_not(self.kind, _latent_pages(empty), q_dtype=name_of(dtype))

    def forward_mqa(
        self,
        q: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        kv_c_and_k_pe_cache: torch.Tensor,
        attn_metadata: Any,
        layer: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attention of the decoding requests over their latent rows.

        Shapes: q [tokens, heads, rank + rope], or its two parts; cache [blocks, slots, rank +
        rope]. Returns [tokens, heads, rank].
        """
        if self.refusal is not None:
            return super().forward_mqa(q, kv_c_and_k_pe_cache, attn_metadata, layer)
        if kv_c_and_k_pe_cache is not self._cache:
            self._cache, self._pages = kv_c_and_k_pe_cache, _latent_pages(kv_c_and_k_pe_cache)
        if isinstance(q, tuple):
            q = torch.cat(q, dim=-1)
        out = q.new_empty(q.shape[0], q.shape[1], self.kv_lora_rank)
        attn_metadata.decode.step.attend(self.kind, self._pages, q, out=out)
        return out, None


def _latent_pages(cache: torch.Tensor) -> folio_kv.Pages:
    return folio_kv.Pages(cache.unsqueeze(2))
