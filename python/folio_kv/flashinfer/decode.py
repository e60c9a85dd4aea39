# SPDX-License-Identifier: Apache-2.0
"""BatchDecodeWithPagedKVCacheWrapper: plan once per step, run once per layer."""

from __future__ import annotations

from typing import Any

import torch

from .._compat import refuse, wrong
from .base import Wrapper, check_window, options_of, paged_table, refuse_given
from .page import Cache, unpack_cache
from .planned import Planned


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    """Attention of one query (or q_len_per_req, causal among them) per sequence over its pages.

    >>> wrapper = BatchDecodeWithPagedKVCacheWrapper(None, "NHD")
    >>> wrapper.plan(indptr, indices, last_page_len, 32, 8, 128, 16, q_data_type=torch.bfloat16)
    >>> out = [wrapper.run(q, cache) for q, cache in zip(queries, caches)]
    """

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: torch.Tensor | None = None,
        paged_kv_indices_buffer: torch.Tensor | None = None,
        paged_kv_last_page_len_buffer: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph, backend, jit_args)
        self._use_tensor_cores = use_tensor_cores

    @property
    def use_tensor_cores(self) -> bool:
        """As given; folio's kernels are the same either way."""
        return self._use_tensor_cores

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: str | torch.dtype | None = None,
        kv_data_type: str | torch.dtype | None = None,
        o_data_type: str | torch.dtype | None = None,
        data_type: str | torch.dtype | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: torch.Tensor | None = None,
        seq_lens: torch.Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        q_len_per_req: int = 1,
        *,
        window_right: int = 0,
    ) -> None:
        """Takes the step's tables and what the layers are.

        indptr [batch + 1], indices [indptr[-1]], last_page_len [batch]: int32. `indices` is
        borrowed until the next plan. q_data_type is float16 unless it or data_type says otherwise;
        the cache has q's dtype unless kv_data_type says otherwise. rope_scale and rope_theta have
        a meaning with ROPE_LLAMA alone, which is refused.
        """
        name = "BatchDecodeWithPagedKVCacheWrapper.plan"
        if window_right != 0:
            raise refuse(name, "window_right", window_right, "a decoded token is its last key")
        if q_len_per_req < 1:
            raise wrong(name, "q_len_per_req", "1 or more", q_len_per_req)
        options = options_of(
            name,
            (num_qo_heads, num_kv_heads, head_dim, head_dim),
            (q_data_type or data_type or "float16", kv_data_type or data_type, o_data_type),
            causal=True,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            same_bits=disable_split_kv or fixed_split_size is not None,
        )
        table = paged_table(
            name, "", indptr, indices, last_page_len, page_size, seq_lens, block_tables
        )
        offsets = torch.arange(table.batch + 1, dtype=torch.int32) * q_len_per_req
        if q_len_per_req > 1 and bool((table.contexts < q_len_per_req).any()):
            expected = f"every sequence to hold its {q_len_per_req} new tokens"
            raise wrong(name, "q_len_per_req", expected, table.contexts.tolist())
        step = table.step(offsets)
        self._planned = Planned(options, step, offsets, table.contexts, page_size)

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: Cache,
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: torch.Tensor | None = None,
        q_len_per_req: int | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Cache | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """q [batch * q_len_per_req, num_qo_heads, head_dim] over K and V, a tuple or fused.

        Returns out, or (out, lse [tokens, num_qo_heads] f32 in base 2) with return_lse.
        """
        name = "BatchDecodeWithPagedKVCacheWrapper.run"
        planned = self._plan_of(name)
        refuse_given(
            name,
            "folio has no such kernel",
            args=args or None,
            skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
            kv_cache_sf=kv_cache_sf,
        )
        check_window(name, window_left, planned)
        planned_len = int(planned.offsets[1]) if planned.contexts.numel() else q_len_per_req
        if q_len_per_req is not None and q_len_per_req != planned_len:
            raise wrong(name, "q_len_per_req", f"plan's {planned_len}", q_len_per_req)
        key, value = unpack_cache(name, paged_kv_cache, self._kv_layout)
        return planned.run(
            q,
            key,
            value,
            self._kv_layout,
            q_scale=q_scale,
            k_scale=k_scale,
            v_scale=v_scale,
            sinks=sinks,
            out=out,
            lse=lse,
            return_lse=return_lse,
        )

    def run_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.run(*args, return_lse=True, **kwargs)

    def forward(
        self,
        q: torch.Tensor,
        paged_kv_cache: Cache,
        pos_encoding_mode: str = "NONE",
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """The older name of run: what attention is replaces what plan was told."""
        self._set_options(
            "BatchDecodeWithPagedKVCacheWrapper.forward",
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
        )
        return self.run(
            q,
            paged_kv_cache,
            q_scale=q_scale,
            k_scale=k_scale,
            v_scale=v_scale,
            return_lse=return_lse,
        )

    def forward_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward(*args, return_lse=True, **kwargs)
