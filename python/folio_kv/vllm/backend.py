# SPDX-License-Identifier: Apache-2.0
"""The back end that stands in for CPU_ATTN: which classes vLLM shall use, and what they can do.

Derived from vLLM's own back end: a layer may run on either, so layouts, block sizes and types
remain those that both accept.
"""

from __future__ import annotations

from typing import Any, ClassVar

from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from folio_kv.vllm.builder import FolioBuilder
from folio_kv.vllm.layers import FolioImpl
from folio_kv.vllm.scaled import SCALED, customized


class FolioBackend(CPUAttentionBackend):
    """folio for decoder layers; encoders, cross attention and what folio refuses stay with vLLM's
    classes.
    """

    # One call per layer writes the new rows and attends.
    forward_includes_kv_cache_update: bool = True
    supported_kv_cache_dtypes: ClassVar[list[str]] = [
        "auto",
        "float16",
        "bfloat16",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        *SCALED,
    ]

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype: str | None) -> bool:
        """Not by what vLLM's kernels have: those of fp8 need AVX-512, folio's do not."""
        return kv_cache_dtype is None or kv_cache_dtype in cls.supported_kv_cache_dtypes

    @classmethod
    def customize_spec(cls, spec: Any) -> Any:
        """The bytes of blocks, which vLLM allocates."""
        return customized(spec)

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []  # any: the layer asks folio

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_per_head_quant_scales(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @staticmethod
    def get_impl_cls() -> type[FolioImpl]:
        return FolioImpl

    @staticmethod
    def get_builder_cls() -> type[FolioBuilder]:
        return FolioBuilder
