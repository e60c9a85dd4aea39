# SPDX-License-Identifier: Apache-2.0
"""The functions of flash-attn 2.x on folio: same names, same signatures, same meaning, CPU tensors.

    from folio_kv.flash_attn import flash_attn_func, flash_attn_with_kvcache

K and V are read where they are, through any strides with a contiguous last dimension: a dense
[batch, seqlen, heads, dim] is a cache whose pages are whole sequences, packed [total, heads, dim]
are pages without bound, block tables are used in place (-1 = unassigned) with pages of any size.
Causal masks and windows are aligned to the bottom right corner; a query that sees no key gets
output 0 and lse -inf.

Refused by name (`folio_kv.Unsupported`): dropout, gradients, `num_splits > 1`,
`cache_leftpad` or `cache_batch_idx` together with `block_table`.

Beyond flash-attn: head dimensions above 256, float32, K and V of other dtypes than Q, V with a head
dimension of its own, pages of any size, and `s_aux` [nheads], the sink logits that some forks take.
`deterministic` concerns the backward pass there; folio's forward pass is always deterministic.
"""

from __future__ import annotations

import torch

from .. import Pages, append, rotate
from .._compat import check_no_gradient, check_tensor, offsets_tensor, refuse, wrong
from .cache import Cache, Rotary
from .call import (
    Rows,
    Window,
    check_longest,
    dense_lse,
    dense_pages,
    even_offsets,
    pages_in_order,
    prepare,
    refuse_dropout,
    window_of,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    s_aux: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention of q [batch, seqlen_q, nheads, dim] over k, v [batch, seqlen_k, nheads_k, dim].

    Returns out [batch, seqlen_q, nheads, v_dim]; with `return_attn_probs` also softmax_lse
    [batch, nheads, seqlen_q] f32 (natural logarithm) and an empty tensor in the place of the
    probabilities, which flash-attn fills for dropout alone.
    """
    name = "flash_attn_func"
    refuse_dropout(name, dropout_p)
    check_no_gradient(name, q, k, v)
    check_tensor(name, "q", q, ["batch", "seqlen_q", "nheads", "headdim"])
    batch, new = q.shape[:2]
    check_tensor(name, "k", k, [batch, "seqlen_k", "nheads_k", q.shape[3]])
    check_tensor(name, "v", v, [batch, k.shape[1], k.shape[2], "headdim"])
    rows = Rows(
        even_offsets(batch, new),
        [k.shape[1]] * batch,
        pages_in_order(batch),
    )
    call = prepare(
        name,
        q,
        batch,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_of(name, window_size),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        s_aux=s_aux,
    )
    q_rows = q.reshape(-1, *q.shape[2:])
    out, lse = call.run(rows, dense_pages(k, v), q_rows, return_attn_probs)
    out = out.view(batch, new, *out.shape[1:])
    return (out, dense_lse(lse, batch), _no_probabilities(q)) if return_attn_probs else out


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
    *,
    s_aux: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention of packed sequences: q [total_q, nheads, dim], k, v [total_k, nheads_k, dim].

    cu_seqlens_q, cu_seqlens_k [batch + 1] are the sequences' first rows. With `block_table` [batch,
    blocks] k and v are [num_blocks, block_size, nheads_k, dim], and cu_seqlens_k gives lengths
    alone. Returns out [total_q, nheads, v_dim]; with `return_attn_probs` also softmax_lse [nheads,
    total_q] f32 and an empty tensor (see flash_attn_func).
    """
    return _varlen(("flash_attn_varlen_func", "cu_seqlens_q", "max_seqlen_q"), **locals())


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    *,
    s_aux: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Writes k, v [batch, seqlen_new, nheads_k, dim] behind cache_seqlens, then attends.

    q [batch, seqlen, nheads, dim]; k_cache, v_cache [batch_cache, seqlen_cache, nheads_k, dim], or
    [num_blocks, block_size, nheads_k, dim] with `block_table` [batch, blocks] int32; both are
    updated in place. cache_seqlens, an int or [batch], counts the tokens before k; without it the
    cache is full. rotary_cos, rotary_sin [seqlen_ro, rotary_dim / 2] turn k at its position behind
    cache_leftpad, and q too: each row at its own position if causal or windowed, else all rows at
    the first. num_splits: 0 as folio likes; 1 asks for results that do not depend on the other
    sequences.

    Returns out [batch, seqlen, nheads, v_dim]; with `return_softmax_lse` also softmax_lse [batch,
    nheads, seqlen] f32, natural logarithm.
    """
    name = "flash_attn_with_kvcache"
    check_no_gradient(name, q, k_cache, v_cache, k, v, rotary_cos, rotary_sin)
    check_tensor(name, "q", q, ["batch", "seqlen", "nheads", "headdim"])
    batch, new = q.shape[:2]
    if num_splits not in (0, 1):
        raise refuse(name, "num_splits", num_splits, "folio decides how keys are divided")
    cache = Cache(name, k_cache, v_cache, block_table, cache_batch_idx, cache_leftpad, batch)
    check_tensor(name, "q", q, ["batch", "seqlen", "nheads", k_cache.shape[3]])
    before = cache.lengths(cache_seqlens, must_be_given=k is not None)
    if (k is None) != (v is None):
        raise wrong(name, "v" if v is None else "k", "k and v together", None)
    appended = 0
    if k is not None:
        check_tensor(name, "k", k, [batch, "seqlen_new", *k_cache.shape[2:]])
        check_tensor(name, "v", v, [batch, k.shape[1], *v_cache.shape[2:]])
        appended = k.shape[1]
    cache.check_room(before, appended)
    contexts = [length + appended for length in before]
    call = prepare(
        name,
        q,
        batch,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_of(name, window_size),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        s_aux=s_aux,
        reproducible="sequence" if num_splits == 1 else "plan",
    )
    rotary = Rotary.of(name, rotary_cos, rotary_sin, rotary_interleaved, has_new=k is not None)
    q_rows = q.reshape(-1, *q.shape[2:])
    if rotary is not None:
        advances = causal or window_of(name, window_size) != (-1, -1)
        q_rows = rotate(None, q_rows, rope=rotary.rope(before, new, advances))
    if k is not None:
        append(
            Rows(even_offsets(batch, appended), contexts, cache.table).step(),
            cache.pages,
            k.reshape(-1, *k.shape[2:]),
            v.reshape(-1, *v.shape[2:]),
            rope=rotary.rope(before, appended) if rotary is not None else None,
        )
    rows = Rows(even_offsets(batch, new), contexts, cache.table)
    out, lse = call.run(rows, cache.pages, q_rows, return_softmax_lse)
    out = out.view(batch, new, *out.shape[1:])
    return (out, dense_lse(lse, batch)) if return_softmax_lse else out


def flash_attn_qkvpacked_func(qkv: torch.Tensor, *args, **kwargs):
    """flash_attn_func of qkv [batch, seqlen, 3, nheads, dim]; the other parameters are its own."""
    check_tensor("flash_attn_qkvpacked_func", "qkv", qkv, ["batch", "seqlen", 3, "nheads", "dim"])
    return flash_attn_func(*qkv.unbind(2), *args, **kwargs)


def flash_attn_kvpacked_func(q: torch.Tensor, kv: torch.Tensor, *args, **kwargs):
    """flash_attn_func of q and kv [batch, seqlen_k, 2, nheads_k, dim]."""
    check_tensor("flash_attn_kvpacked_func", "kv", kv, ["batch", "seqlen_k", 2, "nheads_k", "dim"])
    return flash_attn_func(q, *kv.unbind(2), *args, **kwargs)


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor, cu_seqlens: torch.Tensor, max_seqlen: int | None, *args, **kwargs
):
    """flash_attn_varlen_func of qkv [total, 3, nheads, dim], whose queries are its keys' tokens."""
    name = "flash_attn_varlen_qkvpacked_func"
    check_tensor(name, "qkv", qkv, ["total", 3, "nheads", "dim"])
    lengths = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    names = (name, "cu_seqlens", "max_seqlen")
    return _varlen(names, *qkv.unbind(1), *lengths, *args, **kwargs)


def flash_attn_varlen_kvpacked_func(q: torch.Tensor, kv: torch.Tensor, *args, **kwargs):
    """flash_attn_varlen_func of q and kv [total_k, 2, nheads_k, dim]."""
    check_tensor("flash_attn_varlen_kvpacked_func", "kv", kv, ["total_k", 2, "nheads_k", "dim"])
    return flash_attn_varlen_func(q, *kv.unbind(1), *args, **kwargs)


def _varlen(
    names: tuple[str, str, str],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
    *,
    s_aux: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """flash_attn_varlen_func, whose errors bear `names`: of the function, of its offsets and of its
    longest sequence.
    """
    name, offsets_name, longest_name = names
    refuse_dropout(name, dropout_p)
    check_no_gradient(name, q, k, v)
    check_tensor(name, "q", q, ["total_q", "nheads", "headdim"])
    offsets = offsets_tensor(name, offsets_name, cu_seqlens_q)
    key_offsets = offsets
    if cu_seqlens_k is not cu_seqlens_q:
        key_offsets = offsets_tensor(name, "cu_seqlens_k", cu_seqlens_k)
    if key_offsets.numel() != offsets.numel():
        raise wrong(name, "cu_seqlens_k", f"[{offsets.numel()}]", list(key_offsets.shape))
    lengths = key_offsets.diff().tolist()
    check_longest(name, longest_name, max_seqlen_q, offsets.diff().tolist())
    check_longest(name, "max_seqlen_k", max_seqlen_k, lengths)
    if int(offsets[-1]) != q.shape[0]:
        raise wrong(name, offsets_name, f"to end with q's {q.shape[0]} rows", int(offsets[-1]))
    if block_table is None:
        check_tensor(name, "k", k, ["total_k", "nheads_k", q.shape[2]])
        check_tensor(name, "v", v, [k.shape[0], k.shape[1], "headdim"])
        if int(key_offsets[-1]) > k.shape[0]:
            raise wrong(name, "cu_seqlens_k", f"rows of k, {k.shape[0]}", int(key_offsets[-1]))
        pages, table = Pages.ragged(k, v), key_offsets[:-1].unsqueeze(1)
    else:
        check_tensor(name, "k", k, ["num_blocks", "block_size", "nheads_k", q.shape[2]])
        check_tensor(name, "v", v, [*k.shape[:3], "headdim"])
        check_tensor(name, "block_table", block_table, [len(lengths), "blocks"])
        pages, table = Pages(k, v), block_table
    call = prepare(
        name,
        q,
        len(lengths),
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_of(name, window_size),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        s_aux=s_aux,
    )
    out, lse = call.run(Rows(offsets.tolist(), lengths, table), pages, q, return_attn_probs)
    return (out, lse.t().contiguous(), _no_probabilities(q)) if return_attn_probs else out


def _no_probabilities(q: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=q.dtype)
