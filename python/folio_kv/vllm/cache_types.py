# SPDX-License-Identifier: Apache-2.0
"""vLLM's names of cache types: which folio serves, and why it refuses the others."""

from __future__ import annotations

import folio_kv
from folio_kv.vllm.scaled import SCALED

# vLLM's names of cache types without scales beside rows; the value is folio's type of the bytes,
# None: what the tensor says. Those with them: SCALED.
CACHE_DTYPES: dict[str, str | None] = {
    "auto": None,
    "float16": None,
    "bfloat16": None,
    "fp8": "f8_e4m3",
    "fp8_e4m3": "f8_e4m3",
    "fp8_e5m2": "f8_e5m2",
}

# Why folio does not serve a name that begins so.
_REASONS = {
    "turboquant_": "its keys are indices into a codebook, with a norm that is computed from them "
    "again at each read, and folio has no such element type",
    "nvfp4_4over6": "folio's append does not try two scales for each block as this name says; "
    "nvfp4 has the same bytes",
}


def _reason(cache_dtype: str) -> str:
    if cache_dtype in SCALED:
        return "latent attention (MLA) does not store it"
    told = (why for start, why in _REASONS.items() if cache_dtype.startswith(start))
    return next(told, "no attention class for CPUs stores it")


def check_cache_dtype(cache_dtype: str, is_latent: bool = False) -> None:
    """Refuses what vLLM's classes for CPUs would take for fp8, or for the model's type, and folio
    does not serve; of latent layers SCALED types, too.

    They never ask: vLLM knows more names than these, for GPUs, and the CPU platform selects its
    classes without a look at the cache's type.
    """
    served = [*CACHE_DTYPES, *(() if is_latent else SCALED)]
    if cache_dtype not in served:
        raise folio_kv.Unsupported(
            f"kv_cache_dtype: expected one of {', '.join(served)}; got {cache_dtype}: "
            f"{_reason(cache_dtype)}"
        )


def check_served(cache_dtype: str, refusal: str | None) -> None:
    """Refuses a layer of a SCALED type that folio does not serve: vLLM's own class would write
    elements of the model's type, beyond the end of the cache.
    """
    if refusal is not None and cache_dtype in SCALED:
        raise folio_kv.Unsupported(
            f"kv_cache_dtype: {cache_dtype}: expected layers that folio serves, for vLLM's own "
            f"classes for CPUs do not store it; got one that it does not: {refusal}"
        )
