# SPDX-License-Identifier: Apache-2.0
"""BatchMLAPagedAttentionWrapper: absorbed queries over latent rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .. import Pages, Step
from .._compat import check_no_gradient, check_tensor, kind, refuse, wrong
from .base import lengths_table, refuse_given
from .cascade import LOG2_E
from .planned import dtype_of

_NAME = "BatchMLAPagedAttentionWrapper"
_BACKENDS = ("auto", "fa2", "fa3")


@dataclasses.dataclass
class _Plan:
    step: Step
    tokens: int
    heads: int
    dims: tuple[int, int]  # of the latents and of the rotated part
    page_size: int
    causal: bool
    scale: float
    q_dtype: torch.dtype
    kv_dtype: torch.dtype
    pages: torch.Tensor  # of all sequences, [entries]


class BatchMLAPagedAttentionWrapper:
    """Attention of [q_nope | q_pe] over the rows [ckv | kpe] of one head, whose values are ckv.

    The caches are read in place where they are neighbours, slices of one tensor [pages, page_size,
    ckv + kpe]; otherwise each run copies the rows of the planned pages.
    """

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None,
        use_cuda_graph: bool = False,
        qo_indptr: torch.Tensor | None = None,
        kv_indptr: torch.Tensor | None = None,
        kv_indices: torch.Tensor | None = None,
        kv_len_arr: torch.Tensor | None = None,
        backend: str = "auto",
    ) -> None:
        if use_cuda_graph:
            raise refuse(_NAME, "use_cuda_graph", use_cuda_graph, "the CPU has no graphs")
        if backend not in _BACKENDS:
            reason = "folio chooses its own kernels; expected " + ", ".join(_BACKENDS)
            raise refuse(_NAME, "backend", backend, reason)
        self._planned: _Plan | None = None

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_len_arr: torch.Tensor,
        num_heads: int,
        head_dim_ckv: int,
        head_dim_kpe: int,
        page_size: int,
        causal: bool,
        sm_scale: float,
        q_data_type: str | torch.dtype,
        kv_data_type: str | torch.dtype,
        use_profiler: bool = False,
    ) -> None:
        """qo_indptr, kv_indptr [batch + 1], kv_indices [kv_indptr[-1]], kv_len_arr [batch] tokens of
        each sequence: int32.
        """
        name = f"{_NAME}.plan"
        refuse_given(name, "folio has no profiler in its kernels", use_profiler=use_profiler)
        offsets, table = lengths_table(
            name, qo_indptr, kv_indptr, kv_indices, kv_len_arr, page_size
        )
        self._planned = _Plan(
            table.step(offsets),
            int(offsets[-1]),
            num_heads,
            (head_dim_ckv, head_dim_kpe),
            page_size,
            causal,
            float(sm_scale),
            dtype_of(name, "q_data_type", q_data_type),
            dtype_of(name, "kv_data_type", kv_data_type),
            table.table,
        )

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        ckv_cache: torch.Tensor,
        kpe_cache: torch.Tensor,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        profiler_buffer: torch.Tensor | None = None,
        kv_len: torch.Tensor | None = None,
        page_table: torch.Tensor | None = None,
        return_lse_base_on_e: bool = False,
        o_scale: float | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """q_nope [tokens, num_heads, ckv], q_pe [tokens, num_heads, kpe]; ckv_cache [pages,
        page_size, ckv], kpe_cache [pages, page_size, kpe].

        Returns out [tokens, num_heads, ckv], or (out, lse [tokens, num_heads] f32) with return_lse:
        in base 2, or e with return_lse_base_on_e.
        """
        name = f"{_NAME}.run"
        planned = self._planned
        if planned is None:
            raise wrong(name, "plan", "to be called before run", None)
        reason = "it belongs to the backend cutlass"
        given = {"kv_len": kv_len, "page_table": page_table, "o_scale": o_scale}
        refuse_given(name, reason, profiler_buffer=profiler_buffer, **given)
        check_no_gradient(name, q_nope, q_pe, ckv_cache, kpe_cache)
        ckv, kpe = planned.dims
        check_tensor(name, "q_nope", q_nope, [planned.tokens, planned.heads, ckv])
        check_tensor(name, "q_pe", q_pe, [planned.tokens, planned.heads, kpe])
        check_tensor(name, "ckv_cache", ckv_cache, ["pages", planned.page_size, ckv])
        check_tensor(name, "kpe_cache", kpe_cache, [*ckv_cache.shape[:2], kpe])
        for parameter, came, dtype in (
            ("q_nope", q_nope, planned.q_dtype),
            ("q_pe", q_pe, planned.q_dtype),
            ("ckv_cache", ckv_cache, planned.kv_dtype),
            ("kpe_cache", kpe_cache, planned.kv_dtype),
        ):
            if came.dtype != dtype:
                raise wrong(name, parameter, f"plan's {dtype}", came.dtype)
        if out is None:
            out = torch.empty_like(q_nope)
        check_tensor(name, "out", out, list(q_nope.shape))
        if lse is not None:
            check_tensor(name, "lse", lse, list(q_nope.shape[:2]))
        elif return_lse:
            lse = torch.empty(q_nope.shape[:2], dtype=torch.float32)
        planned.step.attend(
            kind(planned.heads, scale=planned.scale, causal=planned.causal, v_in_key=ckv),
            Pages(self._rows(ckv_cache, kpe_cache, planned).unsqueeze(2)),
            torch.cat([q_nope, q_pe], -1),
            out=out,
            lse=lse,
        )
        if lse is not None and not return_lse_base_on_e:
            lse.mul_(LOG2_E)
        return (out, lse) if return_lse else out

    def run_return_lse(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.run(*args, return_lse=True, **kwargs)

    @staticmethod
    def _rows(ckv: torch.Tensor, kpe: torch.Tensor, planned: _Plan) -> torch.Tensor:
        """[pages, page_size, ckv + kpe]."""
        dim = ckv.shape[2] + kpe.shape[2]
        behind = ckv.storage_offset() + ckv.shape[2]
        is_one = ckv.untyped_storage().data_ptr() == kpe.untyped_storage().data_ptr()
        if (
            is_one
            and kpe.storage_offset() == behind
            and ckv.stride() == kpe.stride()
            and ckv.stride(2) == 1
        ):
            return ckv.as_strided((*ckv.shape[:2], dim), ckv.stride(), ckv.storage_offset())
        joined = ckv.new_empty(*ckv.shape[:2], dim)
        used = planned.pages[(planned.pages >= 0) & (planned.pages < ckv.shape[0])].long()
        joined[used, :, : ckv.shape[2]] = ckv[used]
        joined[used, :, ckv.shape[2] :] = kpe[used]
        return joined
