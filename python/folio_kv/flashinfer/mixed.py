# SPDX-License-Identifier: Apache-2.0
"""Prefills and decodes in one batch: BatchAttention, and the paged wrapper with sinks."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .._compat import refuse, wrong
from .base import Wrapper, lengths_table, options_of, refuse_given
from .page import Cache, unpack_cache
from .planned import Planned, dtype_of
from .prefill import BatchPrefillWithPagedKVCacheWrapper


class BatchAttention(Wrapper):
    """Attention of each sequence's new tokens, one or many, over its pages."""

    def __init__(self, kv_layout: str = "NHD", device: str | torch.device = "cpu") -> None:
        super().__init__(kv_layout, False, "auto", None)
        if torch.device(device).type != "cpu":
            raise refuse("BatchAttention", "device", device, "folio runs on the CPU here")

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_len_arr: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int,
        page_size: int,
        causal: bool = False,
        sm_scale: float | None = None,
        logits_soft_cap: float | None = None,
        q_data_type: str | torch.dtype = torch.bfloat16,
        kv_data_type: str | torch.dtype = torch.bfloat16,
        use_profiler: bool = False,
    ) -> None:
        """qo_indptr, kv_indptr [batch + 1], kv_indices [kv_indptr[-1]], kv_len_arr [batch] tokens of
        each sequence: int32; the indices are borrowed until the next plan.
        """
        name = "BatchAttention.plan"
        refuse_given(name, "folio has no profiler in its kernels", use_profiler=use_profiler)
        options = options_of(
            name,
            (num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo),
            (q_data_type, kv_data_type, None),
            causal=causal,
            pos_encoding_mode="NONE",
            window_left=-1,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            same_bits=False,
        )
        offsets, table = lengths_table(
            name, qo_indptr, kv_indptr, kv_indices, kv_len_arr, page_size
        )
        self._planned = Planned(options, table.step(offsets), offsets, table.contexts, page_size)

    def run(
        self,
        q: torch.Tensor,
        kv_cache: Cache,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
        logits_soft_cap: float = 0.0,
        profiler_buffer: torch.Tensor | None = None,
        kv_cache_sf: Cache | None = None,
        *,
        sinks: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """q [tokens, num_qo_heads, head_dim_qk] over K and V, a tuple or fused. logits_soft_cap: 0,
        or what plan was told. sinks [num_qo_heads].

        Returns (out [.., head_dim_vo], lse [tokens, num_qo_heads] f32 in base 2).
        """
        name = "BatchAttention.run"
        planned = self._plan_of(name)
        given = {"profiler_buffer": profiler_buffer, "kv_cache_sf": kv_cache_sf}
        refuse_given(name, "folio has no such kernel", **given)
        if logits_soft_cap not in (0, planned.options.softcap):
            raise wrong(
                name, "logits_soft_cap", f"plan's {planned.options.softcap}", logits_soft_cap
            )
        key, value = unpack_cache(name, kv_cache, self._kv_layout, "kv_cache")
        return planned.run(
            q,
            key,
            value,
            self._kv_layout,
            k_scale=k_scale,
            v_scale=v_scale,
            sinks=sinks,
            out=out,
            lse=lse,
            return_lse=True,
        )


class BatchAttentionWithAttentionSinkWrapper(BatchPrefillWithPagedKVCacheWrapper):
    """The paged prefill wrapper whose run takes the sinks, and the scale, by position."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        paged_kv_indptr_buf: torch.Tensor | None = None,
        paged_kv_indices_buf: torch.Tensor | None = None,
        paged_kv_last_page_len_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        q_data_type: str | torch.dtype = torch.bfloat16,
        kv_data_type: str | torch.dtype = torch.bfloat16,
        head_dim_qk: int = 128,
        head_dim_vo: int = 128,
        window_left: int = -1,
    ) -> None:
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, backend=backend)
        name = type(self).__name__
        self._of_kernel = {
            "pos_encoding_mode": pos_encoding_mode,
            "q_data_type": dtype_of(name, "q_data_type", q_data_type),
            "kv_data_type": dtype_of(name, "kv_data_type", kv_data_type),
            "head_dim_qk": head_dim_qk,
            "head_dim_vo": head_dim_vo,
            "window_left": window_left,
        }

    def plan(self, *args: Any, **kwargs: Any) -> None:
        """As the paged prefill wrapper's, of what the constructor was told: a kernel is for it alone.
        A window may have any width where the constructor's has one.
        """
        super().plan(*args, **kwargs)
        name, told = f"{type(self).__name__}.plan", self._of_kernel
        of = self._plan_of(name).options
        came = {
            "pos_encoding_mode": "ALIBI" if of.is_alibi else "NONE",
            "q_data_type": of.q_dtype,
            "kv_data_type": of.kv_dtype,
            "head_dim_qk": of.head_dim,
            "head_dim_vo": of.v_head_dim,
            "window_left": of.window_left,
        }
        if min(told["window_left"], of.window_left) >= 0:
            came["window_left"] = told["window_left"]
        for parameter, value in came.items():
            if value != told[parameter]:
                self._planned = None
                raise wrong(name, parameter, f"the constructor's {told[parameter]}", value)

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: Cache,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """args: sinks [num_qo_heads] f32, then sm_scale."""
        name = "BatchAttentionWithAttentionSinkWrapper.run"
        if len(args) > 2:
            raise wrong(name, "args", "sinks and sm_scale", f"{len(args)} arguments")
        if args and "sinks" in kwargs:
            raise wrong(name, "sinks", "once, in args or by name", kwargs["sinks"])
        planned = self._plan_of(name)
        options = planned.options
        if len(args) == 2 and args[1] is not None:
            options = dataclasses.replace(options, scale=float(args[1]))
        if args:
            kwargs["sinks"] = args[0]
        self._planned = dataclasses.replace(planned, options=options)
        try:
            return super().run(q, paged_kv_cache, **kwargs)
        finally:
            self._planned = planned
