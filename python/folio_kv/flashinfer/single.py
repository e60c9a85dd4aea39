# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's functions for one sequence: what the ragged wrapper does, in one call."""

from __future__ import annotations

import torch

from .._compat import check_tensor, refuse
from .page import check_layout
from .prefill import BatchPrefillWithRaggedKVCacheWrapper


def single_decode_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_tensor_cores: bool = False,
    q_scale: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    sm_scale: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """One query q [num_qo_heads, head_dim] over k, v [kv_len, num_kv_heads, head_dim], or HND.

    Returns out [num_qo_heads, v_dim], or (out, lse [num_qo_heads] f32 in base 2).
    """
    check_tensor("single_decode_with_kv_cache", "q", q, ["num_qo_heads", "head_dim"])
    result = _one_sequence(
        "single_decode_with_kv_cache",
        q.unsqueeze(0),
        k,
        v,
        kv_layout,
        {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale, "return_lse": return_lse},
        causal=True,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        sm_scale=sm_scale,
    )
    return tuple(part.squeeze(0) for part in result) if return_lse else result.squeeze(0)


def single_prefill_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,
    *,
    k_scale: float | torch.Tensor | None = None,
    v_scale: float | torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [qo_len, num_qo_heads, head_dim] over k, v [kv_len, num_kv_heads, head_dim], or HND.

    custom_mask is [qo_len, kv_len]. Returns out [qo_len, num_qo_heads, v_dim], or (out, lse
    [qo_len, num_qo_heads] f32 in base 2).
    """
    name = "single_prefill_with_kv_cache"
    for parameter, scale in ("scale_q", scale_q), ("scale_k", scale_k), ("scale_v", scale_v):
        if scale is not None:
            raise refuse(name, parameter, scale, "scales per head belong to fp8 queries")
    return _one_sequence(
        name,
        q,
        k,
        v,
        kv_layout,
        {"k_scale": k_scale, "v_scale": v_scale, "return_lse": return_lse},
        backend=backend,
        causal=causal,
        custom_mask=custom_mask,
        packed_custom_mask=packed_custom_mask,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        sm_scale=sm_scale,
        o_data_type=o_dtype,
    )


def _one_sequence(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_layout: str,
    of_run: dict[str, object],
    backend: str = "auto",
    **of_plan: object,
):
    check_layout(function, kv_layout)
    check_tensor(function, "q", q, ["qo_len", "num_qo_heads", "head_dim"])
    check_tensor(function, "k", k, ["kv_len", "num_kv_heads", "head_dim"])
    check_tensor(function, "v", v, [k.shape[0], k.shape[1], "head_dim"])
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(None, kv_layout, backend=backend)
    tokens, heads = (0, 1) if kv_layout == "NHD" else (1, 0)
    wrapper.plan(
        torch.tensor([0, q.shape[0]], dtype=torch.int32),
        torch.tensor([0, k.shape[tokens]], dtype=torch.int32),
        q.shape[1],
        k.shape[heads],
        q.shape[2],
        v.shape[2],
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
        **of_plan,
    )
    return wrapper.run(q, k, v, **of_run)
