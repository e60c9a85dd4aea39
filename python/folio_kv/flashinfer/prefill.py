# SPDX-License-Identifier: Apache-2.0
"""The wrappers for queries of any length: over pages and over ragged keys."""

from __future__ import annotations

from typing import Any

import torch

from .. import Step
from .._compat import offsets_tensor, wrong
from .base import Wrapper, check_bound, check_window, options_of, paged_table, refuse_given
from .page import Cache, unpack_cache
from .planned import Options, Planned, mask_bias

_NO_ITEMS = "folio has no multi-item scoring; a custom_mask can say the same"
_NO_KERNEL = "folio has no such kernel"


def _options(function: str, given: dict[str, Any]) -> Options:
    """Of what both wrappers' plan takes, `given` by the parameters' names."""
    items = ("prefix_len_ptr", "token_pos_in_items_ptr")
    items += ("token_pos_in_items_len", "max_item_len_ptr")
    refuse_given(function, _NO_ITEMS, **{name: given[name] for name in items})
    head_dim = given["head_dim_qk"]
    has_mask = given["custom_mask"] is not None or given["packed_custom_mask"] is not None
    meant = ("pos_encoding_mode", "window_left", "logits_soft_cap", "sm_scale")
    return options_of(
        function,
        (given["num_qo_heads"], given["num_kv_heads"], head_dim, given["head_dim_vo"] or head_dim),
        (given["q_data_type"], given["kv_data_type"], given["o_data_type"]),
        causal=given["causal"] and not has_mask,
        same_bits=given["disable_split_kv"] or given["fixed_split_size"] is not None,
        **{name: given[name] for name in meant},
    )


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    """Attention of each sequence's new tokens over its pages, whose last keys are theirs if causal.

    >>> wrapper = BatchPrefillWithPagedKVCacheWrapper(None, "NHD")
    >>> wrapper.plan(qo_indptr, indptr, indices, last_page_len, 32, 8, 128, 16, causal=True)
    >>> out = wrapper.run(q, (k_cache, v_cache))
    """

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
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph, backend, jit_args, jit_kwargs)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
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
        o_data_type: str | torch.dtype | None = None,
        non_blocking: bool = True,
        prefix_len_ptr: torch.Tensor | None = None,
        token_pos_in_items_ptr: torch.Tensor | None = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: torch.Tensor | None = None,
        seq_lens: torch.Tensor | None = None,
        seq_lens_q: torch.Tensor | None = None,
        block_tables: torch.Tensor | None = None,
        max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """Takes the step's tables and what the layers are.

        qo_indptr, paged_kv_indptr [batch + 1], paged_kv_indices, paged_kv_last_page_len [batch]:
        int32; the indices are borrowed until the next plan. A mask replaces `causal`, and
        packed_custom_mask goes before custom_mask.
        """
        name = "BatchPrefillWithPagedKVCacheWrapper.plan"
        options = _options(name, locals())
        table = paged_table(
            name,
            "paged_kv_",
            paged_kv_indptr,
            paged_kv_indices,
            paged_kv_last_page_len,
            page_size,
            seq_lens,
            block_tables,
        )
        offsets = offsets_tensor(name, "qo_indptr", qo_indptr)
        if offsets.numel() != table.batch + 1:
            raise wrong(name, "qo_indptr", f"[{table.batch + 1}]", list(offsets.shape))
        if seq_lens_q is not None and seq_lens_q.flatten().tolist() != offsets.diff().tolist():
            raise wrong(name, "seq_lens_q", "the lengths that qo_indptr gives", seq_lens_q.tolist())
        check_bound(name, "max_token_per_sequence", max_token_per_sequence, offsets.diff())
        check_bound(name, "max_sequence_kv", max_sequence_kv, table.contexts)
        bias = mask_bias(name, custom_mask, packed_custom_mask, offsets, table.contexts)
        step = table.step(offsets)
        self._planned = Planned(options, step, offsets, table.contexts, page_size, bias)

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: Cache,
        *args: Any,
        q_scale: float | torch.Tensor | None = None,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: torch.Tensor | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Cache | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """q [qo_indptr[-1], num_qo_heads, head_dim_qk] over paged_kv_cache (K and V, or fused).

        Returns out [.., head_dim_vo], or (out, lse [tokens, num_qo_heads] f32 in base 2).
        """
        name = "BatchPrefillWithPagedKVCacheWrapper.run"
        planned = self._plan_of(name)
        refuse_given(
            name,
            _NO_KERNEL,
            args=args or None,
            skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
            kv_cache_sf=kv_cache_sf,
        )
        check_window(name, window_left, planned)
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
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
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
            "BatchPrefillWithPagedKVCacheWrapper.forward",
            causal=causal,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
        )
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale, return_lse=return_lse)

    def forward_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward(*args, return_lse=True, **kwargs)


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    """Attention of each sequence's queries over its rows of k and v [kv_indptr[-1], heads, dim]."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        kv_indptr_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph, backend, jit_args, jit_kwargs)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: str | torch.dtype = "float16",
        kv_data_type: str | torch.dtype | None = None,
        o_data_type: str | torch.dtype | None = None,
        non_blocking: bool = True,
        prefix_len_ptr: torch.Tensor | None = None,
        token_pos_in_items_ptr: torch.Tensor | None = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: torch.Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """As the paged wrapper's plan; kv_indptr [batch + 1] gives each sequence's rows."""
        name = "BatchPrefillWithRaggedKVCacheWrapper.plan"
        options = _options(name, locals())
        offsets = offsets_tensor(name, "qo_indptr", qo_indptr)
        rows = offsets_tensor(name, "kv_indptr", kv_indptr)
        if rows.numel() != offsets.numel():
            raise wrong(name, "kv_indptr", f"[{offsets.numel()}]", list(rows.shape))
        self._rows = int(rows[-1])
        contexts = rows.diff()
        bias = mask_bias(name, custom_mask, packed_custom_mask, offsets, contexts)
        step = Step(offsets, contexts, rows[:-1].unsqueeze(1))
        self._planned = Planned(options, step, offsets, contexts, None, bias)

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        o_scale: float | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """q [qo_indptr[-1], num_qo_heads, head_dim_qk]; k, v [rows, num_kv_heads, dim], or HND."""
        name = "BatchPrefillWithRaggedKVCacheWrapper.run"
        planned = self._plan_of(name)
        refuse_given(name, _NO_KERNEL, args=args or None, o_scale=o_scale)
        if self._kv_layout == "HND":
            k, v = k.transpose(0, 1), v.transpose(0, 1)
        if k.shape[0] < self._rows:
            raise wrong(name, "k", f"kv_indptr's {self._rows} rows or more", k.shape[0])
        return planned.run(
            q,
            k,
            v,
            "NHD",
            q_scale=q_scale,
            k_scale=k_scale,
            v_scale=v_scale,
            out=out,
            lse=lse,
            return_lse=return_lse,
        )

    def run_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.run(*args, return_lse=True, **kwargs)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
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
            "BatchPrefillWithRaggedKVCacheWrapper.forward",
            causal=causal,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
        )
        return self.run(q, k, v, return_lse=return_lse)

    def forward_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward(*args, return_lse=True, **kwargs)
