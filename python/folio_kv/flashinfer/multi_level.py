# SPDX-License-Identifier: Apache-2.0
"""Attention over prefixes that requests share: a level of pages for each, joined."""

from __future__ import annotations

from typing import Any

import torch

from .._compat import refuse, wrong
from .cascade import merge_states
from .page import Cache
from .planned import dtype_of
from .prefill import BatchPrefillWithPagedKVCacheWrapper

_NAME = "MultiLevelCascadeAttentionWrapper"


class MultiLevelCascadeAttentionWrapper:
    """All queries over the pages of `num_levels` levels: those that all share first, a request's own
    last. Of a level each sequence is a run of queries that see the same pages; the last level alone
    is causal. Parts are joined in f32.
    """

    def __init__(
        self,
        num_levels: int,
        float_workspace_buffer: torch.Tensor | None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_indptr_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_indices_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_last_page_len_buf_arr: list[torch.Tensor] | None = None,
    ) -> None:
        if num_levels < 1:
            raise wrong(_NAME, "num_levels", "1 or more", num_levels)
        self._levels = [
            BatchPrefillWithPagedKVCacheWrapper(None, kv_layout, use_cuda_graph)
            for _ in range(num_levels)
        ]

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return False

    def reset_workspace_buffer(
        self, float_workspace_buffer: torch.Tensor | None, int_workspace_buffers: Any
    ) -> None:
        """Has no effect: folio holds its own memory."""

    def plan(
        self,
        qo_indptr_arr: list[torch.Tensor],
        paged_kv_indptr_arr: list[torch.Tensor],
        paged_kv_indices_arr: list[torch.Tensor],
        paged_kv_last_page_len: list[torch.Tensor],
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: str | torch.dtype = "float16",
        kv_data_type: str | torch.dtype | None = None,
    ) -> None:
        """A list with an entry for each level; each entry as the paged prefill wrapper takes it."""
        name = f"{_NAME}.plan"
        if window_left >= 0:
            reason = "a window counts tokens across levels, each of which knows only its own"
            raise refuse(name, "window_left", window_left, reason)
        if pos_encoding_mode != "NONE":
            raise refuse(name, "pos_encoding_mode", pos_encoding_mode, "as a window: across levels")
        tables = {
            "qo_indptr_arr": qo_indptr_arr,
            "paged_kv_indptr_arr": paged_kv_indptr_arr,
            "paged_kv_indices_arr": paged_kv_indices_arr,
            "paged_kv_last_page_len": paged_kv_last_page_len,
        }
        for parameter, came in tables.items():
            if len(came) != len(self._levels):
                raise wrong(name, parameter, f"{len(self._levels)} levels", len(came))
        tokens = [int(indptr[-1]) for indptr in qo_indptr_arr]
        if len(set(tokens)) > 1:
            raise wrong(name, "qo_indptr_arr", "the same queries on all levels", tokens)
        q_dtype = dtype_of(name, "q_data_type", q_data_type)
        for level in self._levels:  # all, or none
            level._planned = None
        for level, own in zip(self._levels, zip(*tables.values())):
            level.plan(
                *own,
                num_qo_heads,
                num_kv_heads,
                head_dim,
                page_size,
                causal=causal and level is self._levels[-1],
                sm_scale=sm_scale,
                logits_soft_cap=logits_soft_cap,
                q_data_type=q_dtype,
                kv_data_type=kv_data_type,
                o_data_type=torch.float32,
            )
        self._q_dtype = q_dtype

    begin_forward = plan

    def run(self, q: torch.Tensor, paged_kv_cache: Cache) -> torch.Tensor:
        """q [tokens, num_qo_heads, head_dim]; the cache holds the pages of all levels."""
        parts = [level.run(q, paged_kv_cache, return_lse=True) for level in self._levels]
        out, _ = merge_states(*(torch.stack(part, 1) for part in zip(*parts)))
        return out.to(self._q_dtype)

    forward = run
