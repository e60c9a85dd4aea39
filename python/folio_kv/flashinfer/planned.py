# SPDX-License-Identifier: Apache-2.0
"""What plan decides and run uses: one step's rows, its kind of layer, and what run has to match."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch

from .. import Pages, Step
from .._compat import check_no_gradient, check_tensor, kind, refuse, wrong
from .cascade import LOG2_E

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
}
QUANTISED = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def dtype_of(function: str, parameter: str, dtype: str | torch.dtype) -> torch.dtype:
    """A torch.dtype, or one by its name."""
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if found not in DTYPES.values():
        raise wrong(function, parameter, "one of " + ", ".join(DTYPES), dtype)
    return found


@dataclasses.dataclass
class Options:
    """The parameters of plan that say what attention is, checked."""

    function: str
    q_heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    q_dtype: torch.dtype
    kv_dtype: torch.dtype
    out_dtype: torch.dtype
    causal: bool
    window_left: int = -1
    softcap: float = 0.0
    scale: float | None = None
    is_alibi: bool = False
    reproducible: str = "plan"

    def __post_init__(self) -> None:
        if self.kv_heads <= 0 or self.q_heads % self.kv_heads != 0:
            expected = f"a multiple of num_kv_heads={self.kv_heads}"
            raise wrong(self.function, "num_qo_heads", expected, self.q_heads)
        if self.q_dtype not in FLOATS:
            raise refuse(self.function, "q_data_type", self.q_dtype, "queries are f32, bf16 or f16")
        if self.out_dtype not in FLOATS:
            raise refuse(self.function, "o_data_type", self.out_dtype, "folio writes floats")
        if self.is_alibi and not self.causal:
            reason = "without a causal mask folio's slopes act on the distance to both sides"
            raise refuse(self.function, "pos_encoding_mode", "ALIBI", reason)
        if self.is_alibi and self.softcap:
            reason = "FlashInfer caps the slopes too, folio adds them behind the cap"
            raise refuse(self.function, "pos_encoding_mode", "ALIBI", reason)

    def kind(self, scale_factor: float):
        """The Kind, its scale times `scale_factor`."""
        scale = self.scale if self.scale is not None else 1.0 / math.sqrt(self.head_dim)
        return kind(
            self.q_heads,
            scale=scale * scale_factor,
            softcap=self.softcap or None,
            window=(self.window_left, 0 if self.causal else -1) if self.window_left >= 0 else None,
            causal=self.causal,
            reproducible=self.reproducible,
        )


@dataclasses.dataclass
class Planned:
    """What a wrapper keeps between plan and run."""

    options: Options
    step: Step
    offsets: torch.Tensor  # [batch + 1] int32, rows of q
    contexts: torch.Tensor  # [batch] int32
    page_size: int | None  # None: ragged
    bias: torch.Tensor | None = None  # [1, tokens, longest context] f32

    def run(
        self,
        q: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layout: str,
        *,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        sinks: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Attends over paged (4-D) or ragged (3-D, layout NHD) keys; lse in base 2."""
        options, function = self.options, self.options.function.replace(".plan", ".run")
        check_no_gradient(function, q, key, value, q_scale, k_scale, v_scale, sinks)
        tokens = int(self.offsets[-1])
        check_tensor(function, "q", q, [tokens, options.q_heads, options.head_dim])
        self._check_dtypes(function, q, key)
        factor, v_factor, scales = self._scales(function, q_scale, k_scale, v_scale, key.dtype)
        if self.page_size is None:
            pages = Pages.ragged(key, value, **scales)
        else:
            pages = Pages(key, value, order=layout, **scales)
        self._check_pages(function, pages)
        shape = [tokens, options.q_heads, options.v_head_dim]
        if out is None:
            out = torch.empty(shape, dtype=options.out_dtype)
        else:
            check_tensor(function, "out", out, shape)
            if out.dtype != options.out_dtype:
                raise wrong(function, "out", f"o_data_type={options.out_dtype}", out.dtype)
        if lse is not None:
            check_tensor(function, "lse", lse, [tokens, options.q_heads])
        elif return_lse:
            lse = torch.empty(tokens, options.q_heads, dtype=torch.float32)
        slopes = alibi_slopes(options.q_heads) if options.is_alibi else None
        self.step.attend(
            options.kind(factor),
            pages,
            q,
            bias=self.bias,
            sinks=_as_floats(function, "sinks", sinks, options.q_heads),
            alibi=slopes,
            out=out,
            lse=lse,
        )
        if v_factor != 1.0:
            out.mul_(v_factor)
        if lse is not None:
            if slopes is not None:
                lse.add_(self._distances().unsqueeze(1) * slopes)
            lse.mul_(LOG2_E)
        return (out, lse) if return_lse else out

    def _check_dtypes(self, function: str, q: torch.Tensor, key: torch.Tensor) -> None:
        if q.dtype != self.options.q_dtype:
            raise wrong(function, "q", f"plan's q_data_type={self.options.q_dtype}", q.dtype)
        if key.dtype != self.options.kv_dtype:
            expected = f"plan's kv_data_type={self.options.kv_dtype}"
            raise wrong(function, "the cache", expected, key.dtype)

    def _check_pages(self, function: str, pages: Pages) -> None:
        options = self.options
        for parameter, planned, came in (
            ("num_kv_heads", options.kv_heads, pages.kv_heads),
            ("head_dim", options.head_dim, pages.head_size),
            ("head_dim_vo", options.v_head_dim, pages.v_head_size),
            ("page_size", self.page_size, pages.page_size if self.page_size else None),
        ):
            if planned != came:
                raise wrong(function, "the cache", f"plan's {parameter}={planned}", came)

    @staticmethod
    def _scales(
        function: str,
        q_scale: float | None,
        k_scale: float | None,
        v_scale: float | None,
        dtype: torch.dtype,
    ) -> tuple[float, float, dict[str, float]]:
        """The logits' factor, the output's, and the scales of quantised pages."""
        named = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        q, k, v = (_as_number(function, name, scale) for name, scale in named.items())
        if dtype in QUANTISED:
            return q, 1.0, {"key_scales": k, "value_scales": v}
        return q * k, v, {}

    def _distances(self) -> torch.Tensor:
        """[tokens] f32 keys before each token's sequence's first query.

        FlashInfer counts queries from 0, so its ALiBi is larger by slope times this in every logit
        of a row: the output is the same, the lse is not.
        """
        new = self.offsets.diff()
        return torch.repeat_interleave((self.contexts - new).to(torch.float32), new)


def _as_number(function: str, parameter: str, scale: float | torch.Tensor | None) -> float:
    if scale is None:
        return 1.0
    if isinstance(scale, torch.Tensor):
        if scale.numel() != 1:
            raise refuse(function, parameter, scale, "one scale for the whole tensor is served")
        return float(scale)
    return float(scale)


def _as_floats(
    function: str, parameter: str, values: torch.Tensor | None, heads: int
) -> torch.Tensor | None:
    if values is None:
        return None
    check_tensor(function, parameter, values, [heads])
    return values.to(torch.float32).contiguous()


def alibi_slopes(heads: int) -> torch.Tensor:
    """[heads] f32 slopes of ALiBi (Press et al. 2022), 2^(-8 i / n) for a power of two n.

    Other numbers of heads take every second slope of twice the power of two below.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(heads - power)]
    return torch.tensor(slopes, dtype=torch.float32)


def mask_bias(
    function: str,
    custom_mask: torch.Tensor | None,
    packed_custom_mask: torch.Tensor | None,
    offsets: torch.Tensor,
    contexts: torch.Tensor,
) -> torch.Tensor | None:
    """[1, tokens, longest context] f32, 0 where the mask is True and -inf elsewhere.

    custom_mask is the sequences' [new, context] masks, flattened, one behind the other; packed,
    each sequence's bits begin a byte, the lowest bit first.
    """
    if custom_mask is None and packed_custom_mask is None:
        return None
    new, keys = offsets.diff().tolist(), contexts.tolist()
    sizes = [n * k for n, k in zip(new, keys)]
    if packed_custom_mask is not None:
        sizes_packed = [(size + 7) // 8 for size in sizes]
        check_tensor(function, "packed_custom_mask", packed_custom_mask, [sum(sizes_packed)])
        parts = [
            torch.from_numpy(np.unpackbits(part.numpy(), bitorder="little")[:size].astype(bool))
            for part, size in zip(packed_custom_mask.to(torch.uint8).split(sizes_packed), sizes)
        ]
    else:
        flat = custom_mask.reshape(-1)
        check_tensor(function, "custom_mask", flat, [sum(sizes)])
        parts = list(flat.to(torch.bool).split(sizes))
    bias = torch.full((1, int(offsets[-1]), max(keys, default=0)), -math.inf)
    for b, part in enumerate(parts):
        rows = bias[0, int(offsets[b]) : int(offsets[b + 1]), : keys[b]]
        rows.masked_fill_(part.view(new[b], keys[b]), 0.0)
    return bias
