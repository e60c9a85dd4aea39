# SPDX-License-Identifier: Apache-2.0
"""torch.ops.folio_kv.*: folio's calls as operators of torch, for torch.compile and torch.export.

    import folio_kv.torch_ops
    out = torch.ops.folio_kv.step(q, k, v, key_cache, value_cache, offsets, lengths, table)

Signatures hold tensors and numbers alone, every write is declared, and fake kernels know all shapes
and dtypes: a model that calls them compiles with fullgraph=True.

    append(k, v, key_cache, value_cache, query_offsets, context_lengths, table, *, ..)
    attend(q, key_cache, value_cache, query_offsets, context_lengths, table, *, ..) -> out
    attend_lse(the same) -> (out, lse)
    step(q, k, v, key_cache, value_cache, query_offsets, context_lengths, table, *, ..) -> out
    rotate(q, cos_sin, positions, *, ..) -> q
    merge(outs, lses) -> (out, lse)
    copy_pages(key_caches, value_caches, copies)

Caches are [pages, slots, kv_heads, dim], or [pages, kv_heads, slots, dim] with order="HND"; a null
value_cache is a latent cache, whose V is the first v_in_key columns of K. query_offsets
[batch + 1], context_lengths [batch] and table [batch, columns] are int32 (as folio_kv.Batch),
positions [tokens] int32, slots [tokens] and copies [n, 3] int64, cos_sin [rows, dims] f32.
window_left and window_right are those of folio_kv.Kind (-1: unlimited), window_right above 0 only where
causal is False; 0 means off in softcap, chunk and v_in_key. The rotation turns k in
append, q and k in step.

No operator has a derivative: inputs that require a gradient are refused outside torch.no_grad().

The operators keep the last steps' plans: calls with the same table, offsets and lengths (all layers
of a model) share one. A kept step holds a reference to its table.
"""

from __future__ import annotations

import collections
import functools
import threading

import torch

from . import Error, Kind, Pages, Rope, Step
from . import append as _append
from . import copy_pages as _copy_pages
from . import merge as _merge
from . import rotate as _rotate
from ._compat import check_no_gradient

_BATCH = "Tensor query_offsets, Tensor context_lengths, Tensor table"
_KIND = (
    "float? scale=None, float softcap=0.0, int window_left=-1, int window_right=-1, int chunk=0, "
    "int sink_tokens=0, bool causal=True, int v_in_key=0, str reproducible='plan'"
)
_PLACES = "Tensor? slots=None, Tensor? cos_sin=None, Tensor? positions=None"
_ROPE = (
    "bool interleaved=False, int first_dim=0, Tensor? k_norm=None, float norm_eps=1e-6, "
    "Tensor? k_norm_shift=None"
)
_INPUTS = "Tensor? bias=None, Tensor? sinks=None, Tensor? alibi=None"
_SCALES = "Tensor? key_scales=None, Tensor? value_scales=None"
_SCALES_WRITTEN = "Tensor(c!)? key_scales=None, Tensor(d!)? value_scales=None"
_ORDER = "str order='NHD'"
_WRITTEN = "Tensor(a!) key_cache, Tensor(b!)? value_cache"

_SCHEMAS = {
    "append": f"(Tensor k, Tensor? v, {_WRITTEN}, {_BATCH}, *, {_PLACES}, {_ROPE}, "
    f"{_SCALES_WRITTEN}, {_ORDER}) -> ()",
    "attend": f"(Tensor q, Tensor key_cache, Tensor? value_cache, {_BATCH}, *, {_KIND}, {_INPUTS}, "
    f"{_SCALES}, {_ORDER}) -> Tensor",
    "attend_lse": f"(Tensor q, Tensor key_cache, Tensor? value_cache, {_BATCH}, *, {_KIND}, "
    f"{_INPUTS}, {_SCALES}, {_ORDER}) -> (Tensor, Tensor)",
    "step": f"(Tensor q, Tensor k, Tensor? v, {_WRITTEN}, {_BATCH}, *, {_KIND}, {_INPUTS}, "
    f"{_PLACES}, {_ROPE}, Tensor? q_norm=None, Tensor? q_norm_shift=None, {_SCALES_WRITTEN}, "
    f"{_ORDER}) -> Tensor",
    "rotate": "(Tensor q, Tensor cos_sin, Tensor positions, *, bool interleaved=False, "
    "int first_dim=0, Tensor? q_norm=None, float norm_eps=1e-6, Tensor? q_norm_shift=None) "
    "-> Tensor",
    "merge": "(Tensor[] outs, Tensor[] lses) -> (Tensor, Tensor)",
    "copy_pages": "(Tensor(a!)[] key_caches, Tensor(b!)[] value_caches, Tensor copies) -> ()",
}

_STEPS_KEPT = 4


class _Steps(threading.local):
    """The last steps of this thread: a plan is a function of lengths, a table is read in place."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[tuple, Step] = collections.OrderedDict()

    def get(self, offsets: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor) -> Step:
        if table.dtype != torch.int32:
            raise Error(f"torch.ops.folio_kv: table: expected int32, got {table.dtype}")
        key = (
            table.data_ptr(),
            table.shape,
            table.stride(),
            offsets.numpy().tobytes(),
            lengths.numpy().tobytes(),
        )
        step = self._kept.get(key)
        if step is None:
            step = self._kept[key] = Step(offsets, lengths, table)
            if len(self._kept) > _STEPS_KEPT:
                self._kept.popitem(last=False)
        return step


_steps = _Steps()


@functools.lru_cache(maxsize=256)
def _kind(
    q_heads: int,
    scale: float | None,
    softcap: float,
    window_left: int,
    window_right: int,
    chunk: int,
    sink_tokens: int,
    causal: bool,
    v_in_key: int,
    reproducible: str,
) -> Kind:
    if causal and window_right > 0:
        raise Error(f"window_right: expected 0 or -1 where causal, got {window_right}")
    right = 0 if causal else window_right
    return Kind(
        q_heads,
        scale=scale,
        softcap=softcap or None,
        window=None if window_left < 0 and (causal or right < 0) else (window_left, right),
        chunk=chunk or None,
        causal=causal,
        sink_tokens=sink_tokens,
        v_in_key=v_in_key or None,
        reproducible=reproducible,
    )


def _pages(name, key, value, order, key_scales, value_scales, is_latent) -> Pages:
    if value is None and not is_latent:
        raise Error(f"{name}: value_cache: expected a cache unless rows are latent, got None")
    return Pages(key, value, order=order, key_scales=key_scales, value_scales=value_scales)


def _rope(cos_sin, positions, interleaved, first_dim) -> Rope | None:
    if cos_sin is None:
        return None
    return Rope(cos_sin, interleaved=interleaved, first_dim=first_dim, positions=positions)


def _empty_out(q: torch.Tensor, v_dim: int, step: Step | None) -> torch.Tensor:
    """[tokens, heads, v_dim] like q; rows of q behind the step's are padding and come out as 0."""
    out = q.new_empty(q.shape[0], q.shape[1], v_dim)
    if step is not None and step.tokens < q.shape[0]:
        out[step.tokens :].zero_()
    return out


def _append_op(
    k, v, key_cache, value_cache, query_offsets, context_lengths, table, *, slots=None,
    cos_sin=None, positions=None, interleaved=False, first_dim=0, k_norm=None, norm_eps=1e-6,
    k_norm_shift=None, key_scales=None, value_scales=None, order="NHD",
):  # fmt: skip
    _append(
        _steps.get(query_offsets, context_lengths, table),
        _pages("append", key_cache, value_cache, order, key_scales, value_scales, v is None),
        k,
        v,
        slots=slots,
        rope=_rope(cos_sin, positions, interleaved, first_dim),
        k_norm=k_norm,
        norm_eps=norm_eps,
        k_norm_shift=k_norm_shift,
    )


def _attend_op(
    q, key_cache, value_cache, query_offsets, context_lengths, table, *, scale=None, softcap=0.0,
    window_left=-1, window_right=-1, chunk=0, sink_tokens=0, causal=True, v_in_key=0,
    reproducible="plan", bias=None, sinks=None, alibi=None, key_scales=None, value_scales=None,
    order="NHD", lse=None,
):  # fmt: skip
    step = _steps.get(query_offsets, context_lengths, table)
    pages = _pages("attend", key_cache, value_cache, order, key_scales, value_scales, v_in_key > 0)
    kind = _kind(
        q.shape[1], scale, softcap, window_left, window_right, chunk, sink_tokens, causal,
        v_in_key, reproducible,
    )  # fmt: skip
    out = _empty_out(q, v_in_key or pages.v_head_size, step)
    step.attend(kind, pages, q, bias=bias, sinks=sinks, alibi=alibi, out=out, lse=lse)
    return out


def _attend_lse_op(q, *args, **kwargs):
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float32)
    return _attend_op(q, *args, lse=lse, **kwargs), lse


def _step_op(
    q, k, v, key_cache, value_cache, query_offsets, context_lengths, table, *, scale=None,
    softcap=0.0, window_left=-1, window_right=-1, chunk=0, sink_tokens=0, causal=True, v_in_key=0,
    reproducible="plan", bias=None, sinks=None, alibi=None, slots=None, cos_sin=None,
    positions=None, interleaved=False, first_dim=0, k_norm=None, norm_eps=1e-6, k_norm_shift=None,
    q_norm=None, q_norm_shift=None, key_scales=None, value_scales=None, order="NHD",
):  # fmt: skip
    step = _steps.get(query_offsets, context_lengths, table)
    pages = _pages("step", key_cache, value_cache, order, key_scales, value_scales, v_in_key > 0)
    kind = _kind(
        q.shape[1], scale, softcap, window_left, window_right, chunk, sink_tokens, causal,
        v_in_key, reproducible,
    )  # fmt: skip
    out = _empty_out(q, v_in_key or pages.v_head_size, step)
    step(
        kind,
        pages,
        q,
        k,
        v,
        slots=slots,
        rope=_rope(cos_sin, positions, interleaved, first_dim),
        q_norm=q_norm,
        k_norm=k_norm,
        norm_eps=norm_eps,
        bias=bias,
        sinks=sinks,
        alibi=alibi,
        out=out,
        q_norm_shift=q_norm_shift,
        k_norm_shift=k_norm_shift,
    )
    return out


def _rotate_op(
    q, cos_sin, positions, *, interleaved=False, first_dim=0, q_norm=None, norm_eps=1e-6,
    q_norm_shift=None,
):  # fmt: skip
    rope = _rope(cos_sin, positions, interleaved, first_dim)
    out = torch.empty(q.shape, dtype=q.dtype)
    _rotate(
        None, q, rope=rope, q_norm=q_norm, norm_eps=norm_eps, out=out, q_norm_shift=q_norm_shift
    )
    return out


def _merge_op(outs, lses):
    if not outs:
        raise Error("merge: outs: expected at least one, got none")
    return _merge(outs, lses, out=torch.empty(outs[0].shape, dtype=outs[0].dtype))


def _copy_pages_op(key_caches, value_caches, copies):
    if len(key_caches) != len(value_caches):
        raise Error(
            f"copy_pages: value_caches: expected {len(key_caches)}, as key_caches, "
            f"got {len(value_caches)}"
        )
    pages = [Pages(key, value) for key, value in zip(key_caches, value_caches)]
    _copy_pages(pages, pages, copies)


def _refusing_gradients(name, kernel):
    """`kernel`, which refuses inputs that autograd would follow: no operator has a derivative."""

    @functools.wraps(kernel)
    def checked(*args, **kwargs):
        if torch.is_grad_enabled():
            given = (*args, *kwargs.values())
            tensors = (x for arg in given for x in (arg if isinstance(arg, list) else [arg]))
            check_no_gradient(f"torch.ops.folio_kv.{name}", *tensors)
        return kernel(*args, **kwargs)

    return checked


def _nothing(*args, **kwargs):
    return None


def _attend_fake(
    q, key_cache, value_cache, query_offsets, context_lengths, table, *, v_in_key=0, **kwargs
):
    return _empty_out(q, v_in_key or value_cache.shape[-1], None)


def _attend_lse_fake(q, *args, **kwargs):
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    return _attend_fake(q, *args, **kwargs), lse


def _step_fake(q, k, v, *args, **kwargs):
    return _attend_fake(q, *args, **kwargs)


def _rotate_fake(q, cos_sin, positions, **kwargs):
    return q.new_empty(q.shape)


def _merge_fake(outs, lses):
    return outs[0].new_empty(outs[0].shape), lses[0].new_empty(lses[0].shape)


_KERNELS = {
    "append": (_append_op, _nothing),
    "attend": (_attend_op, _attend_fake),
    "attend_lse": (_attend_lse_op, _attend_lse_fake),
    "step": (_step_op, _step_fake),
    "rotate": (_rotate_op, _rotate_fake),
    "merge": (_merge_op, _merge_fake),
    "copy_pages": (_copy_pages_op, _nothing),
}

# torch.library.Library rather than custom_op: the same checks pass, and a call costs less.
_library = torch.library.Library("folio_kv", "DEF")
for _name, (_kernel, _fake) in _KERNELS.items():
    _library.define(_name + _SCHEMAS[_name], tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(_name, _refusing_gradients(_name, _kernel), "CPU")
    _fake = _refusing_gradients(_name, _fake)
    torch.library.register_fake(f"folio_kv::{_name}", _fake, lib=_library)
