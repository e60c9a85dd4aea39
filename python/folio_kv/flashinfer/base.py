# SPDX-License-Identifier: Apache-2.0
"""What FlashInfer's wrappers share: what they refuse, and what their plans check."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .. import Step
from .._compat import as_int32, check_tensor, index_tensor, offsets_tensor, refuse, wrong
from .page import check_last_page_len, check_layout, get_seq_lens
from .planned import Options, Planned, dtype_of

_HINTS_OF_KERNELS = ("auto", "fa2", "fa3")


class Wrapper:
    """Layout and plan of a wrapper."""

    def __init__(
        self,
        kv_layout: str,
        use_cuda_graph: bool,
        backend: str,
        jit_args: list[Any] | None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        name = type(self).__name__
        check_layout(name, kv_layout)
        if use_cuda_graph:
            raise refuse(name, "use_cuda_graph", use_cuda_graph, "the CPU has no graphs")
        if backend not in _HINTS_OF_KERNELS:
            reason = "folio chooses its own kernels; expected " + ", ".join(_HINTS_OF_KERNELS)
            raise refuse(name, "backend", backend, reason)
        for parameter, came in ("jit_args", jit_args), ("jit_kwargs", jit_kwargs):
            if came is not None:
                raise refuse(name, parameter, came, "folio compiles no kernels at run time")
        self._kv_layout = kv_layout
        self._planned: Planned | None = None

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return False

    def reset_workspace_buffer(
        self,
        float_workspace_buffer: torch.Tensor | None,
        int_workspace_buffer: torch.Tensor | None,
    ) -> None:
        """Has no effect: folio holds its own memory."""

    def end_forward(self) -> None:
        """Has no effect, as in FlashInfer."""

    def _set_options(
        self,
        function: str,
        *,
        causal: bool | None = None,
        pos_encoding_mode: str,
        window_left: int,
        logits_soft_cap: float | None,
        sm_scale: float | None,
    ) -> None:
        """The names before plan and run took what attention is anew: it stays so from then on."""
        planned = self._plan_of(function)
        of = planned.options
        options = options_of(
            of.function,
            (of.q_heads, of.kv_heads, of.head_dim, of.v_head_dim),
            (of.q_dtype, of.kv_dtype, of.out_dtype),
            causal=of.causal if causal is None else causal and planned.bias is None,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            same_bits=of.reproducible == "sequence",
        )
        self._planned = dataclasses.replace(planned, options=options)

    def _plan_of(self, function: str) -> Planned:
        if self._planned is None:
            raise wrong(function, "plan", "to be called before run", None)
        return self._planned


def options_of(
    function: str,
    sizes: tuple[int, int, int, int],
    dtypes: tuple[str | torch.dtype, str | torch.dtype | None, str | torch.dtype | None],
    *,
    causal: bool,
    pos_encoding_mode: str,
    window_left: int,
    logits_soft_cap: float | None,
    sm_scale: float | None,
    same_bits: bool,
) -> Options:
    """Of sizes (q heads, kv heads, head_dim, head_dim_vo) and dtypes (q, kv, out)."""
    if pos_encoding_mode == "ROPE_LLAMA":
        reason = "folio reads keys as they are stored; rotate them before they are appended"
        raise refuse(function, "pos_encoding_mode", pos_encoding_mode, reason)
    if pos_encoding_mode not in ("NONE", "ALIBI"):
        expected = '"NONE", "ALIBI" or "ROPE_LLAMA"'
        raise wrong(function, "pos_encoding_mode", expected, pos_encoding_mode)
    if logits_soft_cap is not None and logits_soft_cap < 0:
        raise wrong(function, "logits_soft_cap", "None, 0 (off) or more", logits_soft_cap)
    q_dtype = dtype_of(function, "q_data_type", dtypes[0])
    return Options(
        function,
        *sizes,
        q_dtype=q_dtype,
        kv_dtype=dtype_of(function, "kv_data_type", dtypes[1] or q_dtype),
        out_dtype=dtype_of(function, "o_data_type", dtypes[2] or q_dtype),
        causal=causal,
        window_left=window_left,
        softcap=float(logits_soft_cap or 0.0),
        scale=sm_scale,
        is_alibi=pos_encoding_mode == "ALIBI",
        reproducible="sequence" if same_bits else "plan",
    )


@dataclasses.dataclass
class PagedTable:
    """FlashInfer's CSR table, or block_tables in its place, checked."""

    contexts: torch.Tensor  # [batch] int32
    table: torch.Tensor
    row_starts: torch.Tensor | None

    @property
    def batch(self) -> int:
        return self.contexts.numel()

    def step(self, offsets: torch.Tensor) -> Step:
        return Step(offsets, self.contexts, self.table, row_starts=self.row_starts)


def paged_table(
    function: str,
    prefix: str,
    indptr: torch.Tensor,
    indices: torch.Tensor,
    last_page_len: torch.Tensor,
    page_size: int,
    seq_lens: torch.Tensor | None,
    block_tables: torch.Tensor | None,
) -> PagedTable:
    """`prefix` begins the parameters' names: "" in decode, "paged_kv_" in prefill."""
    first_page = offsets_tensor(function, f"{prefix}indptr", indptr)
    batch = first_page.numel() - 1
    last = index_tensor(function, f"{prefix}last_page_len", last_page_len, batch)
    pages = first_page.diff()
    check_last_page_len(function, f"{prefix}last_page_len", last, pages, page_size)
    contexts = torch.where(pages > 0, get_seq_lens(first_page, last, page_size), 0)
    if seq_lens is not None:
        contexts = index_tensor(function, "seq_lens", seq_lens.flatten(), batch)
    needed = torch.div(contexts + page_size - 1, page_size, rounding_mode="floor")
    if block_tables is not None:
        check_tensor(function, "block_tables", block_tables, [batch, "blocks"])
        if batch and int(needed.max()) > block_tables.shape[1]:
            raise wrong(
                function, "block_tables", f"{int(needed.max())} columns", list(block_tables.shape)
            )
        blocks = as_int32(function, "block_tables", block_tables)
        return PagedTable(contexts.to(torch.int32), blocks, None)
    table = index_tensor(function, f"{prefix}indices", indices, indices.numel())
    if int(first_page[-1]) > table.numel():
        raise wrong(function, f"{prefix}indices", f"{int(first_page[-1])} pages", table.numel())
    if bool((needed > pages).any()):
        raise wrong(function, "seq_lens", "lengths that the pages hold", contexts.tolist())
    return PagedTable(contexts.to(torch.int32), table, first_page[:-1])


def lengths_table(
    function: str,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_len_arr: torch.Tensor,
    page_size: int,
) -> tuple[torch.Tensor, PagedTable]:
    """The rows of the queries [batch + 1], and the table of wrappers that are told lengths."""
    offsets = offsets_tensor(function, "qo_indptr", qo_indptr)
    first_page = offsets_tensor(function, "kv_indptr", kv_indptr)
    batch = first_page.numel() - 1
    if offsets.numel() != batch + 1:
        raise wrong(function, "qo_indptr", f"[{batch + 1}]", list(offsets.shape))
    contexts = index_tensor(function, "kv_len_arr", kv_len_arr, batch)
    table = index_tensor(function, "kv_indices", kv_indices, kv_indices.numel())
    if int(first_page[-1]) > table.numel():
        raise wrong(function, "kv_indices", f"{int(first_page[-1])} pages", table.numel())
    room = first_page.diff() * page_size
    if bool(((contexts < 0) | (contexts > room)).any()):
        raise wrong(function, "kv_len_arr", f"lengths up to {room.tolist()}", contexts.tolist())
    return offsets, PagedTable(contexts, table, first_page[:-1])


def refuse_given(function: str, reason: str, **parameters: object) -> None:
    """Refuses the first parameter that is given (not None, not 0)."""
    for parameter, came in parameters.items():
        if came is not None and not (isinstance(came, (int, float)) and came == 0):
            raise refuse(function, parameter, came, reason)


def check_bound(function: str, parameter: str, bound: int | None, lengths: torch.Tensor) -> None:
    longest = int(lengths.max()) if lengths.numel() else 0
    if bound is not None and bound < longest:
        raise wrong(function, parameter, f"{longest} or more", bound)


def check_window(function: str, window_left: int | None, planned: Planned) -> None:
    if window_left is not None and window_left != planned.options.window_left:
        expected = f"plan's {planned.options.window_left}"
        raise wrong(function, "window_left", expected, window_left)
