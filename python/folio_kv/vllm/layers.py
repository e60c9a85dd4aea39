# SPDX-License-Identifier: Apache-2.0
"""One attention layer of vLLM on folio: the new rows into vLLM's blocks, then attention over them.

A layer that folio cannot serve keeps vLLM's own implementation, from which `FolioImpl` is derived:
its cache is then written and read by vLLM only. The choice is made when the layer is made and never
changes, because the two place K differently inside a block.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.utils.torch_utils import is_quantized_kv_cache
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

import folio_kv
from folio_kv.vllm.builder import FolioMetadata
from folio_kv.vllm.cache_types import check_cache_dtype, check_served
from folio_kv.vllm.kinds import (
    kind_of,
    pages_of,
    reproducible,
    row_elements,
    why_not_served,
)
from folio_kv.vllm.scaled import FOUR_BITS

# Connectors that may rearrange what they received for the instruction set of vLLM's kernels.
_REPACKING_CONNECTORS = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")


def _f32(values: torch.Tensor | None) -> torch.Tensor | None:
    return None if values is None else values.detach().to(torch.float32).contiguous()


class FolioImpl(CPUAttentionBackendImpl):
    """vLLM's implementation class of one layer.

    Attributes: `refusal`: None where folio serves the layer, else the reason why vLLM's own class
    does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_cache_dtype(self.kv_cache_dtype)
        self._kinds = {causal: self._kind(causal) for causal in (True, False)}
        self.refusal = self._why_not()
        check_served(self.kv_cache_dtype, self.refusal)
        self._cache: torch.Tensor | None = None  # the tensor that `_pages` views
        self._pages: folio_kv.Pages | None = None
        self._sink_logits: torch.Tensor | None = None

    def _kind(self, causal: bool) -> folio_kv.Kind:
        return kind_of(
            self.num_heads,
            self.scale,
            softcap=float(self.logits_soft_cap),
            window=max(self.sliding_window, 0),
            causal=causal,
            invariance=reproducible(),
            int8_operands=self.kv_cache_dtype in FOUR_BITS,
        )

    def _why_not(self) -> str | None:
        if self.attn_type != AttentionType.DECODER:
            return f"{AttentionType(self.attn_type).value} attention"
        config = get_current_vllm_config()
        if config.model_config is not None and config.model_config.is_diffusion:
            return "a causal flag per request"
        transfer = config.kv_transfer_config
        if transfer is not None and any(map(transfer.has_connector, _REPACKING_CONNECTORS)):
            return f"{transfer.kv_connector} packs received blocks for vLLM's own kernels"
        refusal = why_not_served(
            self._kinds[True],
            self.num_kv_heads,
            self.head_size,
            config.cache_config.block_size,
            self.kv_cache_dtype,
            torch.get_default_dtype(),
            sinks=self.sinks is not None,
            alibi=self.alibi_slopes is not None,
        )
        return self._as_the_layer_whose_cache_is_read(config, refusal)

    def _as_the_layer_whose_cache_is_read(self, config: Any, refusal: str | None) -> str | None:
        target = self.kv_sharing_target_layer_name
        if target is None:
            return refusal
        layers = config.compilation_config.static_forward_context
        other = layers[target].impl.refusal if target in layers else None
        if other is None and refusal is not None:
            raise folio_kv.Unsupported(
                f"a layer that reads the cache of {target}: expected one that folio serves, as it "
                f"serves {target}; got {refusal}. FOLIO_VLLM=0 runs this model without folio"
            )
        return refusal if other is None else f"reads the cache of {target}, which vLLM serves"

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Forgets what earlier weights said: the next step reads sinks and the cache's scales."""
        super().process_weights_after_loading(act_dtype)
        self._cache = None

    def _bind(self, layer: Any, kv_cache: torch.Tensor) -> None:
        """Views the layer's cache, which vLLM has bound by now, with the loaded scales."""
        expected = row_elements(self.kv_cache_dtype, self.head_size)
        if kv_cache.shape[-1] != expected:
            raise folio_kv.Unsupported(
                f"kv_cache of {layer.layer_name}: expected rows of {expected} elements "
                f"(K and V of one head size), got {kv_cache.shape[-1]}"
            )
        scales: list[float | torch.Tensor] = [1.0, 1.0]
        if is_quantized_kv_cache(self.kv_cache_dtype):
            scales = [_scales(layer, "k"), _scales(layer, "v")]
        self._pages = pages_of(kv_cache, self.kv_cache_dtype, self.head_size, *scales)
        self._sink_logits = _f32(self.sinks)
        self._cache = kv_cache

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor | None,
        value: torch.Tensor | None,
        kv_cache: torch.Tensor,
        attn_metadata: FolioMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Appends key and value (unless the cache is another layer's), attends, writes `output`.

        Shapes: query, output [tokens, q_heads, head_size]; key, value [tokens, kv_heads,
        head_size]; kv_cache as `pages_of` takes it. `attn_metadata` None: vLLM sizes its memory,
        nothing is computed. Errors: NotImplementedError for a quantised output,
        as in vLLM's own class.
        """
        quantised = output_scale is not None or output_block_scale is not None
        if attn_metadata is None or self.refusal is not None or quantised:
            return self._forward_by_vllm(
                layer,
                query,
                key,
                value,
                kv_cache,
                attn_metadata,
                output,
                output_scale,
                output_block_scale,
            )
        if kv_cache is not self._cache:
            self._bind(layer, kv_cache)
        slots = None
        if key is None or value is None or self.kv_sharing_target_layer_name is not None:
            key = value = None
        else:
            slots = attn_metadata.slot_mapping
            if key.shape[0] != slots.shape[0]:  # padded rows have no slot
                key, value = key[: slots.shape[0]], value[: slots.shape[0]]
        attn_metadata.step(
            self._kinds[attn_metadata.causal],
            self._pages,
            query,
            key,
            value,
            slots=slots,
            sinks=self._sink_logits,
            alibi=self.alibi_slopes,
            out=output,
        )
        return output

    def _forward_by_vllm(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor | None,
        value: torch.Tensor | None,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        *output_scales: torch.Tensor | None,
    ) -> torch.Tensor:
        """vLLM's own class, which expects the cache written; this back end leaves that to us."""
        written = key is None or value is None or self.kv_sharing_target_layer_name is not None
        quantised = any(scale is not None for scale in output_scales)  # is refused below
        if attn_metadata is not None and not written and not quantised:
            self.do_kv_cache_update(layer, key, value, kv_cache, attn_metadata.slot_mapping)
        return super().forward(
            layer, query, key, value, kv_cache, attn_metadata, output, *output_scales
        )


def _scales(layer: Any, which: str) -> float | torch.Tensor:
    """The calibrated scale of K or V: one number, or one per head as [1, kv_heads, 1, 1]."""
    scales = getattr(layer, f"_{which}_scale")
    if scales.numel() == 1:
        return float(getattr(layer, f"_{which}_scale_float"))
    return _f32(scales.reshape(1, -1, 1, 1))
